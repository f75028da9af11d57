"""Flower's two apps of a safle federation, and the folder in which ``flwr run`` finds them.

A node has an inbox, an outbox, and no path to data. It puts the server's question into the inbox,
and sends the server the answer to that question from the outbox. The owner of the data fills the
outbox, as another user (`safle airlock`). The node's configuration names both folders:
``client="hospital-a" inbox="/..." outbox="/..."``.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import tomli_w
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from safle.basics import as_settings, atomic, to_mapping
from safle.errors import FederationError, SafleError, SettingsError, WireError
from safle_flower import airlock, messages
from safle_flower.messages import Answer
from safle_flower.server import serve
from safle_flower.settings import Run

SERVER_APP = "safle_flower.apps:server_app"
CLIENT_APP = "safle_flower.apps:client_app"
log = logging.getLogger("flwr")
Settings = Mapping[str, Any]
SECONDS_BETWEEN_LOOKS = 0.5
ROLES = ("client", "keyholder")


def client_name(context: Context) -> str:
    """The client's name, as the node's configuration says."""
    return str(context.node_config.get("client", f"node-{context.node_id}"))


def answer_from_outbox(context: Context, question: airlock.Question, settings: Settings) -> Answer:
    """Wait for the site's answer to a question; `Refused` without one in time."""
    node = context.node_config
    name = client_name(context)
    role = str(node.get("role", ROLES[0]))
    if role not in ROLES:
        raise SettingsError(f"role={role!r}; expected {', '.join(ROLES)}")
    if role == "keyholder" and question.kind != airlock.OPEN:
        return Answer(name, messages.KEYHOLDER)
    if messages.is_known(name, settings):
        return Answer(name, messages.KNOWN)
    if "inbox" not in node or "outbox" not in node:
        raise SettingsError(
            "this node has no airlock; start it with --node-config "
            '\'client="its name" inbox="/path" outbox="/path"\''
        )
    folders = airlock.Airlock(Path(str(node["inbox"])), Path(str(node["outbox"])))
    data = _wait(folders, question, float(settings["seconds"]))
    return Answer(name, messages.SENT, data=data)


def _wait(folders: airlock.Airlock, question: airlock.Question, seconds: float) -> bytes:
    end = time.monotonic() + seconds
    folders.ask(question)
    warned: set[str] = set()
    while True:
        try:
            data = folders.find_answer(question)
            if data is not None:
                return data
            lines = folders.explain(question)
        except airlock.Refused:
            raise
        except (FederationError, WireError, OSError) as error:
            # A person may still be copying the file, or have put a wrong file there.
            lines = [f"the file in the outbox is not sent: {error}"]
        for line in lines:
            if line not in warned:
                log.warning("safle: %s", line)
                warned.add(line)
        if time.monotonic() > end:
            raise airlock.Refused("nobody at this site has answered in time")
        time.sleep(SECONDS_BETWEEN_LOOKS)


def make_client_app(answer: Callable[[Context, airlock.Question, Settings], Answer]) -> ClientApp:
    """An app that gives the answers of ``answer``; an error in it becomes an answer too."""
    app = ClientApp()

    @app.query("question")
    def reply(message: Message, context: Context) -> Message:
        try:
            content = answer(context, *messages.read_question(message))
        except Exception as error:
            # Every error: Flower would send the whole text of one that is not caught to the server.
            ours = isinstance(error, SafleError)
            log.error("safle: this client cannot answer: %s", error, exc_info=not ours)
            reason = airlock.describe_error(error)
            content = Answer(client_name(context), messages.FAILED, reason=reason)
        return Message(messages.write_answer(content), reply_to=message)

    return app


def _drop_traceback(record: logging.LogRecord) -> bool:
    """An error of ours is one line in Flower's log, without a traceback."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, SafleError):
        record.msg, record.args, record.exc_info = "the round failed: %s", (error,), None
    return True


log.addFilter(_drop_traceback)
client_app = make_client_app(answer_from_outbox)
server_app = ServerApp()


@server_app.main()
def main(grid: Grid, context: Context) -> None:
    """One round, by the run configuration."""
    with _explain_signals():
        serve(grid, as_settings(Run, context.run_config))


@contextlib.contextmanager
def _explain_signals() -> Iterator[None]:
    """A signal that ends this process, as when the SuperLink dies, fails the run with a reason.

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
        raise FederationError(f"{error}; run again: only missing clients are asked") from error
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def write_app(folder: Path, run: Run, *, client: str = CLIENT_APP) -> Path:
    """Write the folder that ``flwr run`` takes: a pyproject.toml that names apps and settings."""
    app = {
        "publisher": "safle",
        "components": {"serverapp": SERVER_APP, "clientapp": client},
        # Every key: Flower refuses to override any other.
        "config": to_mapping(run),
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
    atomic.make_folder(folder)
    atomic.write_text(folder / "pyproject.toml", text)
    return folder
