"""``safle simulate``: a federation of many clients on one machine, through Flower."""

from __future__ import annotations

import importlib
import logging
from pathlib import Path
from typing import Any

import rich_click as click

from safle.cli.deploy import show_report
from safle.cli.limit_options import chosen_limits, limit_options
from safle.cli.options import FILE, Command, encoder_file, features_argument
from safle.cli.session import Session

EXAMPLE = """\
Examples:

  safle simulate train.npz --encoder encoder.safetensors --clients 100 --out simulation

  safle simulate train.npz --encoder encoder.safetensors --clients 100 --partition dirichlet \
--alpha 0.1 --engine in-process --out simulation
"""


@click.command(cls=Command, panel="Over a network", epilog=EXAMPLE)
@features_argument
@encoder_file()
@click.option("--clients", type=click.IntRange(min=1), default=10, metavar="K", help="How many.")
@click.option(
    "--partition",
    type=click.Choice(["iid", "dirichlet", "shards"]),
    default="iid",
    help="How the samples are split over the clients.",
)
@click.option(
    "--alpha",
    type=click.FloatRange(min=0, min_open=True),
    default=0.1,
    metavar="A",
    help="Of dirichlet: the smaller, the more unequal the clients.",
)
@click.option(
    "--shards",
    type=click.IntRange(min=1),
    default=2,
    metavar="S",
    help="Of shards: about how many classes a client sees.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, metavar="N", help="Of the split.")
@click.option("--split", metavar="NAME", default="", help="Which <split>_features of the file.")
@click.option(
    "--engine",
    type=click.Choice(["flower", "in-process"]),
    default="flower",
    help="Flower's processes, or its messages alone: the same code and the same bytes.",
)
@click.option(
    "--deadline",
    type=click.FloatRange(min=0, min_open=True),
    default=3600.0,
    metavar="SECONDS",
    help="Go on after this without those that have not answered.",
)
@click.option(
    "--out",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    default="simulation",
    help="Where the model, the report and the store go.",
)
@limit_options
@click.option("--test", type=FILE, metavar="FILE", help="Also evaluate the model on this table.")
@click.pass_obj
def simulate(
    session: Session,
    /,
    features: Path,
    encoder_path: Path,
    clients: int,
    engine: str,
    deadline: float,
    folder: Path,
    test: Path | None,
    **settings: Any,
) -> None:
    """Split a table over many clients and run the round, on one machine.

    The same server and client as in a real deployment. An interrupted simulation goes on
    where it was: contributions that are in the store are not counted again.
    """
    from safle.federation.flower.settings import Places, Rules, Run, Simulation
    from safle.lab.simulation.running import simulate as run_simulation

    run = Run(
        Places(encoder=str(encoder_path.absolute())),
        Rules(deadline=deadline),
        chosen_limits(settings),
        simulation=Simulation(str(features.absolute()), **settings),
    )
    session.announce_compilation()
    _quieten_flower()
    with session.progress(f"{clients} clients") as advance:
        found = run_simulation(run, folder, clients=clients, engine=engine, progress=advance)
    show_report(session, found, folder)
    if test is not None:
        _evaluate(session, folder, test)


def _quieten_flower() -> None:
    """Every client's fate is in the report; line by line it would break the progress bar."""
    from safle.errors import MissingExtra

    try:
        # Flower sets the level when it is first imported, so that comes before.
        importlib.import_module("flwr.app")
    except ImportError as error:
        raise MissingExtra("flwr", "flower", "a simulation") from error
    logging.getLogger("flwr").setLevel(logging.ERROR)


def _evaluate(session: Session, folder: Path, test: Path) -> None:
    from safle.cli.reading import open_labelled
    from safle.model import load_model

    model, table = load_model(folder / "model.safetensors"), open_labelled(test)
    right = total = 0
    for features, labels in table.batches(4096):
        right += int((model.predict(features) == labels).sum())
        total += len(features)
    session.facts(f"{test}: accuracy", {"accuracy": f"{right / max(total, 1):.2%}"})
