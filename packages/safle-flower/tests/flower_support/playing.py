"""A ClientApp that does what the test orders: the real client, or one of the things that happen.

Part of the Flower app that the tests run; ``orders`` in the node's configuration is a folder in
which the test says what each client shall do, and in which each client says what it has done.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from flwr.app import Message
from flwr.clientapp import ClientApp

from flower_support.clients import direct_app
from safle_flower import messages
from safle_flower.messages import Answer

app = ClientApp()
LARGE = 60_000_000


@app.query("question")
def count(message, context):
    folder, name = Path(context.node_config["orders"]), context.node_config["client"]
    order = json.loads((folder / "orders.json").read_text()).get(name, "honest")
    note(folder, f"{name} asked")
    while order in ("wait", "duplicate") and not (folder / "release").exists():
        time.sleep(0.05)
    if order == "sleep":
        time.sleep(600)
    answer = messages.read_answer(direct_app(message, context))
    if answer.status == messages.SENT:
        note(folder, f"{name} counted")
    if order == "corrupt":
        middle = len(answer.data) // 2
        flipped = bytes([answer.data[middle] ^ 1])
        data = answer.data[:middle] + flipped + answer.data[middle + 1 :]
        answer = Answer(name, messages.SENT, data=data)
    if order == "duplicate":
        answer = Answer(name, messages.SENT, data=(folder / "stolen.stats").read_bytes())
    if order == "large":
        # Random: Flower sends equal pieces once.
        answer = Answer(name, messages.SENT, data=os.urandom(LARGE))
    return Message(messages.write_answer(answer), reply_to=message)


def note(folder: Path, text: str) -> None:
    with (folder / "notes.txt").open("a") as file:
        file.write(text + "\n")
