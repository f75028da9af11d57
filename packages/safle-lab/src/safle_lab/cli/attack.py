"""``safle attack``: the samples that the receiver of a contribution can work out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from safle.cli import FILE, Session, command, encoder_file, option, written

if TYPE_CHECKING:
    from safle_lab.attack import Attack

OUTPUT = "Also write the samples that were found: a .npz file of codes and labels."
MOST = "Most samples to try lattice reduction on: 40 take seconds, 100 take minutes."


@command("safle attack a.stats --encoder encoder.safetensors -o found.npz", panel="At a client")
@click.argument("contribution", type=FILE, help="A client's statistics file, or a sum of some.")
@encoder_file()
@option("--most", MOST, "N", type=click.IntRange(min=0), default=40)
@written("-o --output", OUTPUT)
def attack(
    session: Session,
    /,
    contribution: Path,
    encoder_path: Path,
    most: int,
    output: Path | None,
) -> None:
    """Work samples out of a plain contribution, as its receiver could.

    It finds samples exactly: those with a class or a code to themselves, those that remain when
    the first are subtracted, and a small number by lattice reduction (extra attack). A masked
    contribution gives it nothing to work with. Run it on your own file before you send it.
    """
    from safle.encoders import load_encoder
    from safle.wire import peek_kind, read_statistics
    from safle_lab.attack import attack as run_attack

    if output is not None and output.suffix.lower() != ".npz":
        raise click.UsageError(f"{output}: what is found goes into a file that ends in .npz")
    if peek_kind(contribution) == "masked contribution":
        nothing = "nothing: every number in it is under a mask, and as good as drawn at random"
        session.facts(f"{contribution}: attacked", {"worked out": nothing})
        return
    encoder = load_encoder(encoder_path)
    found = run_attack(read_statistics(contribution, space=encoder.space), most_reduced=most)
    if output is not None:
        found.save(output)
    session.facts(f"{contribution}: attacked", facts_of(found))


def facts_of(found: Attack) -> dict[str, object]:
    """How many samples were worked out, how, and what is known about the others."""
    facts: dict[str, object] = {
        "samples": f"{found.samples:,}",
        "worked out": f"{found.found:,} of {found.samples:,}, exactly: every code, and the class",
        "by their class": f"{found.by_class:,} that had one to themselves",
        "by a code": f"{found.by_code:,} that had one to themselves",
        "by lattice": f"{found.by_lattice:,} from the products of all columns",
    }
    if found.close:
        facts["nearly"] = (
            f"{found.close:,} more, in classes so small that the class mean is close to each sample"
        )
    if found.untried:
        facts["not tried"] = (
            f"{found.untried:,} more, which lattice reduction usually finds, as they are no more "
            "than the columns; raise --most, or install the extra attack"
        )
    if others := found.samples - found.found - found.untried:
        facts["not found"] = f"{others:,} others, which does not prove that there is no way"
    return facts
