"""Rounds in one process: the real server, clients that count, and clients that do harm."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, RecordDict
from flwr.clientapp import ClientApp

from flower_support.clients import direct_app, run_in
from safle_flower import messages
from safle_flower.adapter import InProcessGrid
from safle_flower.messages import Answer
from safle_flower.server import serve

Mischief = Callable[[Message, Answer], Message]


def reply(message: Message, answer: Answer) -> Message:
    return Message(messages.write_answer(answer), reply_to=message)


def altered(change: Callable[[Answer], Answer]) -> Mischief:
    return lambda message, honest: reply(message, change(honest))


def raising(message: Message, honest: Answer) -> Message:
    """What Flower sends of a client whose app raises an error."""
    return Message(Error(2, "ZeroDivisionError: a bug"), reply_to=message)


def shapeless(message: Message, honest: Answer) -> Message:
    return Message(RecordDict({"x": ConfigRecord({"y": 1})}), reply_to=message)


def of_another_type(message: Message, honest: Answer) -> Message:
    content = messages.write_answer(honest)
    array = Array("float64", (3,), "numpy.ndarray", b"x" * 24)
    content["files"] = ArrayRecord({"answer": array})
    return Message(content, reply_to=message)


def many_arrays(message: Message, honest: Answer) -> Message:
    content = messages.write_answer(honest)
    array = content["files"]["answer"]
    content["files"] = ArrayRecord({"answer": array, "more": array})
    return Message(content, reply_to=message)


def with_data(data: bytes) -> Mischief:
    return altered(lambda honest: Answer(honest.client, honest.status, data=data))


def named(name: str) -> Mischief:
    return altered(lambda honest: Answer(name, honest.status, data=honest.data))


def client_app(mischief: dict[str, Mischief], counted: list[str]) -> ClientApp:
    """The real client, but some of them do something else with their answer."""
    app = ClientApp()

    @app.query("question")
    def question(message, context):
        name = context.node_config["client"]
        honest = messages.read_answer(direct_app(message, context))
        if messages.read_question(message)[0].kind != "count":
            return reply(message, honest)
        if honest.status == messages.SENT:
            counted.append(name)
        return mischief.get(name, reply)(message, honest)

    return app


class Deployment:
    """A folder of results and a store; `run` is one ``flwr run``."""

    def __init__(self, federation, folder: Path) -> None:
        self.federation = federation
        self.folder = folder
        self.counted: list[str] = []

    def grid(self, names, mischief=None, kind=InProcessGrid):
        nodes = [{"client": name, "features": str(self.federation.table(name))} for name in names]
        return kind(client_app(mischief or {}, self.counted), nodes)

    def run(self, names, mischief=None, *, grid=None, progress=None, **settings):
        run = run_in(self.folder, self.federation.encoder_path, len(names), **settings)
        report = serve(grid or self.grid(names, mischief), run, progress=progress)
        written = json.loads((self.folder / "results" / "report.json").read_text())
        assert written["accepted"] == report.accepted
        return report

    def model(self) -> bytes:
        return (self.folder / "results" / "model.safetensors").read_bytes()
