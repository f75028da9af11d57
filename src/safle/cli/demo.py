"""``safle demo``: a whole federation on data that comes with scikit-learn."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from safle.cli.options import Command
from safle.cli.session import Session
from safle.errors import SafleError

EXAMPLE = """\
Example:

  safle demo --out demo-report
"""


@click.command(cls=Command, panel="Try it", epilog=EXAMPLE)
@click.option(
    "--out",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    default="demo-report",
    help="Where pictures, results and the federation's files go.",
)
@click.option(
    "--clients", type=click.IntRange(min=1), default=100, metavar="N", help="Clients to split over."
)
@click.option(
    "--alpha",
    type=click.FloatRange(min=0, min_open=True),
    default=0.1,
    metavar="A",
    help="Dirichlet parameter: the smaller, the more unequal the clients.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, metavar="N", help="Of the split.")
@click.pass_obj
def demo(session: Session, /, folder: Path, clients: int, alpha: float, seed: int) -> None:
    """Run one round on scikit-learn's digits, through real files, and show what it gives.

    Splits the digits over very unequal clients, lets each count its own file, sums and
    solves: with a linear encoder (AFL), with the paper's (SAFLe) and with our default. Then
    does the same with a single client and in another order, and compares the models' bytes.
    """
    from safle.lab.demo import run_demo

    session.announce_compilation()
    with session.progress("one round of federated learning") as advance:
        results = run_demo(folder, clients=clients, alpha=alpha, seed=seed, progress=advance)
    session.table(
        ["method", "accuracy", "rounds", "MB per client", "seconds"],
        [
            (
                result.method,
                f"{result.accuracy:.1%}",
                result.rounds,
                f"{result.megabytes_per_client:.3f}",
                f"{result.seconds:.1f}",
            )
            for result in results
        ],
    )
    session.text(["The same data, split differently:"])
    session.table(
        ["method", "split", "model digest"],
        [
            (result.method, split, digest[:16])
            for result in results
            for split, digest in result.digests.items()
        ],
    )
    same = all(result.same_model for result in results)
    verdict = ["identical model bytes for every split"] if same else []
    session.text([*verdict, f"pictures and files: {folder}/"])
    if not same:
        raise SafleError("equal data gave different models")
