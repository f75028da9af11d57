"""``safle attack``: what whoever receives a contribution can work out of it."""

from pathlib import Path

import rich_click as click

from safle.cli.options import FILE, command, encoder_file, option, refuse_overwriting, written
from safle.cli.session import Session

OUTPUT = "Also write the samples that were found: a .npz file of codes and labels."
MOST = "Try lattice reduction on up to so many samples: 40 take seconds, 100 minutes."


@command("At a client", "safle attack a.stats --encoder encoder.safetensors -o found.npz")
@click.argument("contribution", type=FILE, help="A client's statistics file, or a sum of some.")
@encoder_file()
@option("--most", MOST, "N", type=click.IntRange(min=0), default=40)
@written("-o --output", OUTPUT, "found samples")
def attack(
    session: Session,
    /,
    contribution: Path,
    encoder_path: Path,
    most: int,
    output: Path | None,
) -> None:
    """Work samples out of a plain contribution, as whoever receives it could.

    Finds, exactly, samples with a class or a code to themselves, what is left when those are
    taken off, and few samples by lattice reduction (extra attack). On a masked contribution
    there is nothing to work with. Run it on your own file before you send it.
    """
    from safle.basics.places import naming
    from safle.cli.describe import attack_facts
    from safle.encoders import load_encoder
    from safle.server.contribution import Contribution
    from safle.wire import peek_kind
    from safle_lab.attack import attack as run_attack

    if output is not None:
        refuse_overwriting(output, contribution, encoder_path)
        if output.suffix.lower() != ".npz":
            raise click.UsageError(f"{output}: what is found goes into a file that ends in .npz")
    if peek_kind(contribution) == "masked contribution":
        nothing = "nothing: every number in it is under a mask, and as good as drawn at random"
        session.facts(f"{contribution}: attacked", {"worked out": nothing})
        return
    encoder = load_encoder(encoder_path)
    session.announce_compilation()
    with naming(contribution):
        statistics, _ = Contribution.read(contribution).open(encoder)
        found = run_attack(statistics, most_reduced=most)
    if output is not None:
        found.save(output)
    session.facts(f"{contribution}: attacked", attack_facts(found))
