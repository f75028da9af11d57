"""``safle private answer``: a keyholder looks at a request, decides, and answers."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from safle.cli.options import FILE, command, option, output, refuse_overwriting
from safle.cli.private_options import load_round, round_options
from safle.cli.session import Session

HISTORY = "What you have opened before; always the same file, and never an older copy."


@command(
    None,
    "safle private answer request.ask --round round.private --operator operator.pub --key k.key "
    "--history k.sqlite -o k.answer",
)
@click.argument("request", type=FILE, help="The server's request.")
@round_options(required=True)
@option("--history history_path", HISTORY, "FILE", type=FILE, required=True)
@option("--yes", "Answer without asking back.", is_flag=True)
@output("The answer to write; send it to the server.", "keyholder's answer")
def answer(
    session: Session,
    /,
    request: Path,
    round_path: Path,
    operator_path: Path,
    key_path: Path,
    history_path: Path,
    yes: bool,
    output: Path,
) -> None:
    """Open the sum of a request's clients, as one of the round's keyholders.

    Says what would be opened and asks back. Refuses too few clients, clients who are not in
    the round, and a set that differs by too few clients from one that was opened before, or
    just overlaps with it: sums added and subtracted would give those few away. What was
    opened is on the disk before the answer is made.
    """
    from safle.basics.places import naming
    from safle.errors import FederationError
    from safle.private import keyholder
    from safle.private.gathering import Request
    from safle.private.history import History
    from safle.private.keys import PrivateKey
    from safle.wire import container

    refuse_overwriting(output, request, round_path, operator_path, key_path, history_path)
    private_round, key = load_round(round_path, operator_path), PrivateKey.load(key_path)
    with naming(request):
        asked = Request.from_bytes(container.read_limited(request), private_round)
    session.announce_compilation()
    with History(history_path) as history:
        session.text(keyholder.explain(asked, history))
        if not yes and not click.confirm("Open this sum?"):
            raise FederationError(
                "you have not opened this sum: no answer was written, and your history is as it was"
            )
        answered = keyholder.answer_on_record(asked, key, history)
    container.write_file(output, answered.to_bytes(key))
    facts = {"keyholder": key.name, "clients": len(asked.heads), "request": asked.digest}
    session.facts(f"{output}: keyholder's answer", facts)
