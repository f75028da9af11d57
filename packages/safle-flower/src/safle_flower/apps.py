"""Flower's two apps of a safle federation, and the folder that ``flwr run`` finds them by."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import tomli_w
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from safle.basics import atomic
from safle.errors import FederationError, SafleError
from safle.site import airlock
from safle_flower import messages
from safle_flower.client import Settings, answer_from_outbox, client_name
from safle_flower.messages import Answer
from safle_flower.server import serve
from safle_flower.settings import Run

SERVER_APP = "safle_flower.apps:server_app"
CLIENT_APP = "safle_flower.apps:client_app"
log = logging.getLogger("flwr")


def make_client_app(answer: Callable[[Context, airlock.Question, Settings], Answer]) -> ClientApp:
    """An app that gives the answers of ``answer``; whatever error that raises is an answer too."""
    app = ClientApp()

    @app.query("question")
    def reply(message: Message, context: Context) -> Message:
        try:
            found = answer(context, *messages.read_question(message))
        except Exception as error:
            # Whatever it is: Flower would carry an error that nobody foresaw, words and all.
            ours = isinstance(error, SafleError)
            log.error("safle: this client cannot answer: %s", error, exc_info=not ours)
            name = client_name(context.node_id, context.node_config)
            found = Answer(name, messages.FAILED, reason=airlock.describe_error(error))
        return Message(messages.answer(found), reply_to=message)

    return app


def _say_why_alone(record: logging.LogRecord) -> bool:
    """What ends a round by its rules is one line in Flower's log, without a traceback."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, SafleError):
        record.msg, record.args, record.exc_info = "the round failed: %s", (error,), None
    return True


log.addFilter(_say_why_alone)
client_app = make_client_app(
    lambda context, *asked: answer_from_outbox(context.node_id, context.node_config, *asked)
)
server_app = ServerApp()


@server_app.main()
def main(grid: Grid, context: Context) -> None:
    """One round, by the run configuration."""
    with _stopped_in_words():
        serve(grid, Run.from_flat(context.run_config))


@contextlib.contextmanager
def _stopped_in_words() -> Iterator[None]:
    """Whoever ends this process with a signal, the SuperLink's death included, fails the run.

    Flower's own handler leaves seconds for everything, and none if the SuperLink is gone: too
    little for the report.
    """

    def stop(number: int, frame: object) -> NoReturn:
        del frame
        name = signal.Signals(number).name
        raise KeyboardInterrupt(f"the SuperLink or its operator has ended this run ({name})")

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except KeyboardInterrupt as error:
        raise FederationError(f"{error}; run again, and only the others are asked") from error
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def write_app(
    folder: Path, run: Run, *, server: str = SERVER_APP, client: str = CLIENT_APP
) -> Path:
    """Write the folder that ``flwr run`` takes: a pyproject.toml that names apps and settings."""
    app = {
        "publisher": "safle",
        "components": {"serverapp": server, "clientapp": client},
        "config": run.to_flat(),
    }
    project = {
        "name": "safle-federation",
        "version": "1.0.0",
        "description": "One round of analytic federated learning",
        "license": "Apache-2.0",
        "dependencies": [],
    }
    text = (
        "# A Flower app: the code is the package safle-flower, on the server and on every node.\n"
        "# Every setting can be overridden: flwr run . NAME -c 'deadline=600.0'\n"
    )
    text += tomli_w.dumps({"project": project, "tool": {"flwr": {"app": app}}})
    folder.mkdir(parents=True, exist_ok=True)
    atomic.write_text(folder / "pyproject.toml", text)
    return folder
