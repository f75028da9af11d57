"""``safle airlock``: a site answers the questions in its inbox, by its own commands and rules."""

from __future__ import annotations

import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

import rich_click as click

from safle.cli import (
    COUNT,
    FILE,
    FOLDER,
    PLACE,
    Session,
    command,
    counting_options,
    explain,
    option,
)
from safle_flower.airlock import (
    EVALUATE,
    OPEN,
    PLAIN_KINDS,
    Airlock,
    Refused,
    command_for,
    describe_error,
    shorten,
)
from safle_flower.answering import run_command
from safle_flower.watcher import Waiting, Watcher

MOST_ANSWERS = "Most plain questions of one kind to answer: many answers can give samples away."
SECONDS = "Most seconds for one answer; what takes longer is refused."
HISTORY = "A keyholder's history of opened sums; naming it is your consent to open more."
SECONDS_BETWEEN_LOOKS = 1.0
UNDER_MASKS = ("operator_path", "key_path", "history_path")
"""Options only for questions under masks."""
MASKED: dict[str, Any] = {"type": FILE, "panel": "Under masks"}


@command(
    "safle airlock inbox outbox visits.csv --label-column diagnosis --policy policy.toml --watch",
    "safle airlock inbox outbox --operator operator.pub --key board.key --history board.history",
    panel="Over a network",
)
@click.argument("inbox", type=FOLDER, help="Where a node puts its questions.")
@click.argument("outbox", type=FOLDER, help="Where the answers go.")
@click.argument("data", required=False, type=PLACE, help="The table that is counted.")
@option("--test", "Evaluate models on this table.", "DATA", type=PLACE)
@option("--watch", "Wait for more questions, until you stop it.", is_flag=True)
@option("--most", MOST_ANSWERS, "N", type=COUNT, default=1)
@option("--seconds", SECONDS, "N", type=COUNT, default=3600)
@counting_options
@option("--operator operator_path", "The operator's public key.", "FILE", **MASKED)
@option("--key key_path", "Your private key.", "FILE", **MASKED)
@option("--history history_path", HISTORY, "FOLDER", type=FOLDER, panel="Under masks")
def airlock(session: Session, /, inbox: Path, outbox: Path, watch: bool, **options: Any) -> None:
    """Answer the questions in INBOX by count, evaluate or private answer.

    For the owner of the data. A node of a network has no path to data: it puts the encoder, round,
    model or request that it was sent into INBOX, and sends the answer from OUTBOX. This
    command gives those answers, with your policy, release sheets and log. With a key and without
    a policy it answers private rounds only.
    """
    for place in (inbox, outbox):
        if not place.is_dir():
            raise FileNotFoundError(2, "no such directory", str(place))
    watcher = Watcher(Airlock(inbox, outbox))
    done = {"answered": 0, "refused": 0}
    trouble = ""
    while True:
        try:
            for waiting in watcher.find_waiting():
                done["answered" if _take(session, watcher, waiting, options) else "refused"] += 1
            trouble = ""
        except Exception as error:
            if not watch:
                raise
            # Another folder may be mounted in a moment.
            if explain(error) != trouble:
                trouble = explain(error)
                session.warn(f"{trouble}; nothing is answered until it can be used")
        if not watch:
            break
        time.sleep(SECONDS_BETWEEN_LOOKS)
    session.facts(f"{outbox}: outbox", done)


def _take(session: Session, watcher: Watcher, waiting: Waiting, options: dict[str, Any]) -> bool:
    """Answer a question, or say that it is refused; whether it was answered.

    Every error is caught here: no content of a question ends the watcher.
    """
    name = shorten(waiting.name)
    try:
        session.note(f"{name}: asked")
        _answer(session, watcher, waiting, options)
    except Exception as error:
        if session.debug:
            traceback.print_exc()
        session.warn(f"{name}: refused: {shorten(explain(error))}")
        try:
            watcher.refuse(waiting, describe_error(error))
        except Exception as unwritten:
            session.warn(f"{name}: its refusal cannot be written: {shorten(explain(unwritten))}")
        return False
    session.note(f"{name}: answered by {watcher.answer_path(waiting)}")
    return True


def _answer(session: Session, watcher: Watcher, waiting: Waiting, options: dict[str, Any]) -> None:
    """Run the site's own command, on copies of the question's files that nobody can change."""
    _check(watcher, waiting, options)
    with tempfile.TemporaryDirectory(prefix="safle-airlock-") as folder:
        files = watcher.copy(waiting, Path(folder))
        masked = waiting.kind not in PLAIN_KINDS
        # Each command takes the options that it has.
        forwarded = {name: options[name] for name in options if masked or name not in UNDER_MASKS}
        output = watcher.answer_path(waiting)
        data = str(_data_for(waiting.kind, options))
        run_command(
            command_for(waiting.kind, files, data, str(output), yes=True),
            Path(folder),
            kind=waiting.kind,
            seconds=options["seconds"],
            defaults={"count": forwarded, "evaluate": forwarded, "private": {"answer": forwarded}},
            quiet=session.quiet,
            debug=session.debug,
        )
        if not output.exists():
            raise Refused("its command has written no answer; its own log says more")


def _data_for(kind: str, options: dict[str, Any]) -> Path | None:
    path: Path | None = options["test" if kind == EVALUATE else "data"]
    return path


def _check(watcher: Watcher, waiting: Waiting, options: dict[str, Any]) -> None:
    """Refuse questions that this site does not answer under any policy."""
    from safle import Policy

    plain = waiting.kind in PLAIN_KINDS
    if plain and options["key_path"] and Policy.find(options["policy_path"]) is None:
        raise Refused(
            "this site has a key for private rounds and no policy: it answers private rounds only"
        )
    if plain and watcher.count_answers(waiting.kind) >= options["most"]:
        raise Refused(
            f"this site has answered {options['most']} questions of this kind, and answers no more "
            "until somebody there allows it (--most, or remove an answer from the outbox)"
        )
    if not plain and not (options["operator_path"] and options["key_path"]):
        raise Refused("this site has no keys for private rounds")
    if waiting.kind == OPEN and not options["history_path"]:
        raise Refused("this site opens no sums: it has named no history")
    if waiting.kind != OPEN and _data_for(waiting.kind, options) is None:
        raise Refused("this site has no data for this question")
