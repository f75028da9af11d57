"""``safle airlock``: a site answers what lies in its inbox, by its own commands and rules."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import rich_click as click
from click.core import ParameterSource
from click.globals import get_current_context

from safle.cli import options as opt
from safle.cli.count import EMPTY
from safle.cli.session import Session, command
from safle.errors import FederationError, SafleError
from safle.site import airlock as room
from safle.site.policy import Policy

MOST = "Plain questions of one kind that are answered; whoever asks often can work out samples."
HISTORY = "What you, as a keyholder, have opened before; naming it is your consent to open more."
SECONDS_BETWEEN_LOOKS = 1.0
UNDER_MASKS = ("--operator", "--key", "--history")
"""Options for questions under masks alone."""


@command(
    "safle airlock inbox outbox visits.csv --label-column diagnosis --policy policy.toml --watch",
    "safle airlock inbox outbox --operator operator.pub --key board.key --history board.sqlite",
)
@click.argument("inbox", type=opt.FOLDER, help="Where a node puts its questions.")
@click.argument("outbox", type=opt.FOLDER, help="Where the answers go.")
@click.argument("data", required=False, type=opt.PLACE, help=opt.FEATURES)
@opt.option("--test", "Evaluate models on this table.", "DATA")
@opt.flag("--watch", "Go on with what comes later, until you stop it.")
@opt.option("--most", MOST, "N", type=opt.COUNT, default=1)
@opt.table_options(labels=True)
@opt.classes_option
@opt.flag("--allow-empty", EMPTY)
@opt.trust_options
@opt.policy_option
@opt.file_option("--operator", "The operator's public key.", panel="Under masks")
@opt.file_option("--key", "Your private key.", panel="Under masks")
@opt.file_option("--history", HISTORY, panel="Under masks")
def airlock(session: Session, /, inbox: Path, outbox: Path, watch: bool, **options: Any) -> None:
    """Answer the questions in INBOX by count, evaluate or private answer.

    For the owner of the data. A node of a network has no path to data: it puts the encoder, round,
    model or request that it was sent into INBOX, and sends what lies in OUTBOX for it. This
    command gives those answers, with your policy, release sheets and log. With a key and without
    a policy it answers private rounds only.
    """
    for place in (inbox, outbox):
        if not place.is_dir():
            raise FileNotFoundError(2, "no such directory", str(place))
    between = room.Airlock(inbox, outbox)
    answered = refused = 0
    while True:
        for question in between.open_questions():
            done = _answer(session, between, question, options)
            answered, refused = answered + done, refused + (not done)
        if not watch:
            break
        time.sleep(SECONDS_BETWEEN_LOOKS)
    session.facts(f"{outbox}: outbox", {"answered": answered, "refused": refused})


def _answer(
    session: Session, between: room.Airlock, question: room.Question, options: dict[str, Any]
) -> bool:
    """Answer one question, or say in the outbox that it is refused; whether it was answered."""
    session.note(f"{question.name}: asked")
    try:
        _check(between, question, options)
        _run(session, between, question, options)
    except (SafleError, OSError, click.ClickException, MemoryError) as error:
        if session.debug:
            raise
        session.warn(f"{question.name}: refused: {error}")
        # Why a keyholder refuses says nothing of anybody's data; of other errors less is told.
        known = question.kind == room.OPEN and isinstance(error, FederationError)
        between.refuse(question, str(error) if known else room.describe_error(error))
        return False
    session.note(f"{question.name}: answered by {between.place(question)}")
    return True


def _data(question: room.Question, options: dict[str, Any]) -> Path | str | None:
    found: Path | str | None = options["test" if question.kind == room.EVALUATE else "data"]
    return found


def _check(between: room.Airlock, question: room.Question, options: dict[str, Any]) -> None:
    """Refuse what this site does not answer, whatever its policy says."""
    plain = question.kind in room.PLAIN
    if plain and options["key"] and Policy.find(options["policy_path"]) is None:
        raise room.Refused(
            "this site has a key for private rounds and no policy: it answers private rounds only"
        )
    if plain and len(between.answered(question.kind)) >= options["most"]:
        raise room.Refused(
            f"this site has answered {options['most']} questions of this kind, and answers no more "
            "until somebody there allows it (--most, or remove an answer from the outbox)"
        )
    if not plain and not (options["operator"] and options["key"]):
        raise room.Refused("this site has no keys for private rounds")
    if question.kind == room.OPEN and not options["history"]:
        raise room.Refused("this site opens no sums: it has named no history")
    if question.kind != room.OPEN and _data(question, options) is None:
        raise room.Refused("this site has no data for this question")


def _run(
    session: Session, between: room.Airlock, question: room.Question, options: dict[str, Any]
) -> None:
    """Give the site's own command, on copies of the question's files that nobody can change."""
    root = get_current_context().find_root().command
    with tempfile.TemporaryDirectory(prefix="safle-airlock-") as folder:
        files = {name: str(Path(folder, name)) for name in question.files}
        for name, content in question.files.items():
            Path(files[name]).write_bytes(content)
        data, output = str(_data(question, options)), str(between.place(question))
        words = question.command(files, data, output, yes=True)
        words += _passed_on(root, words)
        quiet = Session(quiet=session.quiet, debug=session.debug)
        root.main(words, prog_name="safle", standalone_mode=False, obj=quiet)


def _passed_on(root: click.Command, words: list[str]) -> list[str]:
    """The options given to this command that the other one takes too."""
    context = get_current_context()
    other = root
    for word in words:
        if not isinstance(other, click.Group):
            break
        found = other.get_command(context, word)
        assert found is not None, "a question names commands of our own"
        other = found
    known = {name for parameter in other.params for name in parameter.opts}
    if "--round" not in words:
        known -= {*UNDER_MASKS}
    passed: list[str] = []
    for parameter in context.command.params:
        name, value = parameter.opts[0], context.params.get(parameter.name or "")
        given = context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
        if not given or name not in known:
            continue
        if isinstance(parameter, click.Option) and parameter.is_flag:
            passed.append(name)
        else:
            values = value if isinstance(value, tuple) else [value]
            passed += [word for one in values for word in (name, str(one))]
    return passed
