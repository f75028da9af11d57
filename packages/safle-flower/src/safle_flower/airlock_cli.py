"""``safle airlock``: a site answers what lies in its inbox, by its own commands and rules."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import rich_click as click
from click.globals import get_current_context

from safle.basics import atomic
from safle.cli import COUNT, FILE, FOLDER, PLACE, Session, command, counting_options, option
from safle.errors import FederationError, SafleError
from safle_flower.airlock import (
    EVALUATE,
    OPEN,
    PLAIN_KINDS,
    Airlock,
    Question,
    Refused,
    describe_error,
)

MOST_ANSWERS = "Most plain questions of one kind to answer: many answers can give samples away."
HISTORY = "A keyholder's history of opened sums; naming it is your consent to open more."
SECONDS_BETWEEN_LOOKS = 1.0
UNDER_MASKS = ("operator_path", "key_path", "history_path")
"""Options for questions under masks alone."""
MASKED: dict[str, Any] = {"type": FILE, "panel": "Under masks"}


@command(
    "safle airlock inbox outbox visits.csv --label-column diagnosis --policy policy.toml --watch",
    "safle airlock inbox outbox --operator operator.pub --key board.key --history board.sqlite",
    panel="Over a network",
)
@click.argument("inbox", type=FOLDER, help="Where a node puts its questions.")
@click.argument("outbox", type=FOLDER, help="Where the answers go.")
@click.argument("data", required=False, type=PLACE, help="The table that is counted.")
@option("--test", "Evaluate models on this table.", "DATA", type=PLACE)
@option("--watch", "Wait for more questions, until you stop it.", is_flag=True)
@option("--most", MOST_ANSWERS, "N", type=COUNT, default=1)
@counting_options
@option("--operator operator_path", "The operator's public key.", "FILE", **MASKED)
@option("--key key_path", "Your private key.", "FILE", **MASKED)
@option("--history history_path", HISTORY, "FILE", **MASKED)
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
    folders = Airlock(inbox, outbox)
    answered = refused = 0
    while True:
        for question in folders.open_questions():
            if _answer(session, folders, question, options):
                answered += 1
            else:
                refused += 1
        if not watch:
            break
        time.sleep(SECONDS_BETWEEN_LOOKS)
    session.facts(f"{outbox}: outbox", {"answered": answered, "refused": refused})


def _answer(
    session: Session, folders: Airlock, question: Question, options: dict[str, Any]
) -> bool:
    """Answer one question, or say in the outbox that it is refused; whether it was answered."""
    session.note(f"{question.name}: asked")
    try:
        _check(folders, question, options)
        _run(session, folders, question, options)
    except (SafleError, OSError, click.ClickException, MemoryError) as error:
        if session.debug:
            raise
        session.warn(f"{question.name}: refused: {error}")
        # A keyholder's reason says nothing of anybody's data; other errors may, and are shortened.
        harmless = question.kind == OPEN and isinstance(error, FederationError)
        folders.refuse(question, str(error) if harmless else describe_error(error))
        return False
    session.note(f"{question.name}: answered by {folders.answer_path(question)}")
    return True


def _data_for(question: Question, options: dict[str, Any]) -> Path | None:
    path: Path | None = options["test" if question.kind == EVALUATE else "data"]
    return path


def _check(folders: Airlock, question: Question, options: dict[str, Any]) -> None:
    """Refuse what this site does not answer, whatever its policy says."""
    from safle.site import Policy

    plain = question.kind in PLAIN_KINDS
    if plain and options["key_path"] and Policy.find(options["policy_path"]) is None:
        raise Refused(
            "this site has a key for private rounds and no policy: it answers private rounds only"
        )
    if plain and folders.count_answers(question.kind) >= options["most"]:
        raise Refused(
            f"this site has answered {options['most']} questions of this kind, and answers no more "
            "until somebody there allows it (--most, or remove an answer from the outbox)"
        )
    if not plain and not (options["operator_path"] and options["key_path"]):
        raise Refused("this site has no keys for private rounds")
    if question.kind == OPEN and not options["history_path"]:
        raise Refused("this site opens no sums: it has named no history")
    if question.kind != OPEN and _data_for(question, options) is None:
        raise Refused("this site has no data for this question")


def _run(session: Session, folders: Airlock, question: Question, options: dict[str, Any]) -> None:
    """Run the site's own command, on copies of the question's files that nobody can change."""
    root = get_current_context().find_root().command
    masked = question.kind not in PLAIN_KINDS
    # Each command takes the options that it has.
    forwarded = {name: options[name] for name in options if masked or name not in UNDER_MASKS}
    defaults = {"count": forwarded, "evaluate": forwarded, "private": {"answer": forwarded}}
    with tempfile.TemporaryDirectory(prefix="safle-airlock-") as folder:
        files = {name: str(Path(folder, name)) for name in question.files}
        for name, content in question.files.items():
            atomic.write_bytes(files[name], content)
        data, output = str(_data_for(question, options)), str(folders.answer_path(question))
        arguments = question.command(files, data, output, yes=True)
        quiet = Session(quiet=session.quiet, debug=session.debug)
        settings: dict[str, Any] = {"obj": quiet, "default_map": defaults}
        root.main(arguments, prog_name="safle", standalone_mode=False, **settings)
