"""A node's side: it has an inbox, an outbox, and no path to data.

The node puts the server's question into the inbox, and sends the server the answer to that
question from the outbox. The owner of the data fills the outbox, as another user (`safle airlock`).
The node's configuration names both folders: ``client="hospital-a" inbox="/..." outbox="/..."``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safle.errors import FederationError, SettingsError, WireError
from safle.site import airlock
from safle_flower import messages
from safle_flower.messages import Answer

log = logging.getLogger("flwr")
Settings = Mapping[str, Any]
SECONDS_BETWEEN_LOOKS = 0.5
ROLES = ("client", "keyholder", "both")


def client_name(node_id: int, node: Settings) -> str:
    """The client's name: as the node's configuration says, or made from a number."""
    if "client" in node:
        return str(node["client"])
    if "partition-id" in node:
        return f"client-{int(node['partition-id']):03d}"
    return f"node-{node_id}"


def answer_from_outbox(
    node_id: int, node: Settings, asked: airlock.Question, settings: Settings
) -> Answer:
    """Wait for the site's answer to a question; `Refused` if it gives none in time."""
    name, role = client_name(node_id, node), str(node.get("role", ROLES[0]))
    if role not in ROLES:
        raise SettingsError(f"role={role!r}; expected {', '.join(ROLES)}")
    keyholder = name if role != "client" else ""
    if role == "keyholder" and asked.kind != airlock.OPEN:
        return Answer(name, messages.KEYHOLDER, keyholder=keyholder)
    if messages.is_known(name, settings):
        return Answer(name, messages.KNOWN, keyholder=keyholder)
    if "inbox" not in node or "outbox" not in node:
        raise SettingsError(
            "this node has no airlock; start it with --node-config "
            '\'client="its name" inbox="/path" outbox="/path"\''
        )
    folders = airlock.Airlock(Path(str(node["inbox"])), Path(str(node["outbox"])))
    data = _wait(folders, asked, float(settings["seconds"]))
    return Answer(name, messages.SENT, data=data, keyholder=keyholder)


def _wait(folders: airlock.Airlock, asked: airlock.Question, seconds: float) -> bytes:
    end = time.monotonic() + seconds
    folders.ask(asked)
    warned: set[str] = set()
    while True:
        try:
            data = folders.find_answer(asked)
        except airlock.Refused:
            raise
        except (FederationError, WireError, OSError) as error:
            # A person may still be copying the file, or have put a wrong file there.
            data, lines = None, [f"the file in the outbox is not sent: {error}"]
        else:
            lines = [] if data is not None else folders.explain(asked)
        for line in lines:
            if line not in warned:
                log.warning("safle: %s", line)
                warned.add(line)
        if data is not None:
            return data
        if time.monotonic() > end:
            raise airlock.Refused("nobody at this site has answered in time")
        time.sleep(SECONDS_BETWEEN_LOOKS)
