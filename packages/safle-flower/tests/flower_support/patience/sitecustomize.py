"""Python imports this module by itself where its folder is on the path: busy machines are slow.

Flower takes a task for dead that has not begun 30 s after it was claimed. On a busy machine the
imports of an app take longer, and Flower has no setting for it. That a task which has begun may be
silent for 60 s stays as it is: what the tests kill is missed as soon as ever.
"""

from __future__ import annotations

import sys

SECONDS_TO_BEGIN, SECONDS_OF_SILENCE = 300, 60

if any(word.endswith(("flower-superlink", "flower-supernode")) for word in sys.orig_argv):
    from flwr.supercore.corestate import in_memory_corestate, sql_corestate

    for state in (in_memory_corestate, sql_corestate):
        silence = state.HEARTBEAT_PATIENCE * state.HEARTBEAT_DEFAULT_INTERVAL
        assert silence == SECONDS_OF_SILENCE, silence
        state.HEARTBEAT_DEFAULT_INTERVAL = SECONDS_TO_BEGIN
        state.HEARTBEAT_PATIENCE = SECONDS_OF_SILENCE / SECONDS_TO_BEGIN
