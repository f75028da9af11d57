"""``safle private open``: a masked sum and the keyholders' answers -> the total."""

from __future__ import annotations

import hashlib
from pathlib import Path

import rich_click as click

from safle.cli.options import FILE, command, output, refuse_overwriting
from safle.cli.private_options import load_round, round_options
from safle.cli.session import Session


@command(
    None,
    "safle private open sum.masked k1.answer k2.answer --round round.private "
    "--operator operator.pub -o total.stats",
    "safle solve total.stats --encoder encoder.safetensors -o model.safetensors",
    name="open",
)
@click.argument("masked_sum", type=FILE, metavar="SUM", help="The masked sum.")
@click.argument("answers", type=FILE, nargs=-1, required=True, help="The keyholders' answers.")
@round_options(key=False, required=True)
@output(
    "The total to write: an ordinary file of what was added up.",
    "statistics",
    "histogram",
    "evaluation counts",
    "noisy statistics",
)
def open_total(
    session: Session,
    /,
    masked_sum: Path,
    answers: tuple[Path, ...],
    round_path: Path,
    operator_path: Path,
    output: Path,
) -> None:
    """Take the masks off the sum: the very bytes that plain contributions add up to.

    The total is verified before it is written. If it is not the sum of any data, nobody can
    say whose file was wrong: keep everything, and begin a new round.
    """
    from safle.basics.places import naming
    from safle.cli.describe import counts_facts
    from safle.private.answer import KeyholderAnswer
    from safle.private.gathering import MaskedSum
    from safle.site.log import write_log
    from safle.wire import container, kind_for

    refuse_overwriting(output, masked_sum, *answers)
    private_round = load_round(round_path, operator_path)
    session.announce_compilation()
    with naming(masked_sum):
        total = MaskedSum.from_bytes(container.read_limited(masked_sum), private_round)
    opened = []
    for path in answers:
        with naming(path):
            opened.append(KeyholderAnswer.from_bytes(container.read_limited(path), private_round))
    value = total.open(opened)
    kind = kind_for(value)
    data, clients = kind.encode(value), ", ".join(total.heads)
    write_log("opened", digest=hashlib.sha256(data).hexdigest(), note=f"{kind.name} of {clients}")
    container.write_file(output, data)
    facts = counts_facts(value, size=len(data), digest=container.declared_digest(data))
    session.facts(f"{output}: {kind.name}", {"clients": clients, **facts})
