"""At a client's house: count and judge, rehearse, policy, release sheet, log."""

from typing import TYPE_CHECKING

from safle.basics.doors import front_door

if TYPE_CHECKING:
    from safle.site import airlock
    from safle.site.counting import Counts, count_blocks, evaluate_blocks
    from safle.site.log import LOG, log_refusal, read_log, write_log
    from safle.site.policy import Policy, let_out, warning_of
    from safle.site.rehearsal import rehearse
    from safle.site.release import FEW, Counted, Release, disclosures, kind_for
    from safle.site.sheet import Sheet, write_release

__all__ = [
    "FEW",
    "LOG",
    "Counted",
    "Counts",
    "Policy",
    "Release",
    "Sheet",
    "airlock",
    "count_blocks",
    "disclosures",
    "evaluate_blocks",
    "kind_for",
    "let_out",
    "log_refusal",
    "read_log",
    "rehearse",
    "warning_of",
    "write_log",
    "write_release",
]

__getattr__ = front_door(__name__)
