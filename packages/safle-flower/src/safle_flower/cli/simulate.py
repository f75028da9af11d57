"""``safle simulate``: a federation of many clients on one machine, through Flower."""

import logging
from pathlib import Path
from typing import Any

import rich_click as click

from safle import cli as opt
from safle.basics import require
from safle.cli import Session, chosen_limits, limit_options
from safle_flower.cli.deploy import show_report

SPLITTING = "safle simulate train.npz --encoder encoder.safetensors --clients 100"
PARTITIONS = click.Choice(["iid", "dirichlet", "shards"])
ENGINES = click.Choice(["in-process", "flower"])
ENGINE = "Flower's messages within this process, or its real one: the same code and bytes."
PRIVATE = "Contributions go under masks, and two more nodes are keyholders: the same model."
BATCH = 4096
OUT = "Where the model, the report and the store go."


@opt.command(
    f"{SPLITTING} --out simulation",
    f"{SPLITTING} --partition dirichlet --alpha 0.1 --engine flower --out simulation",
    panel="Over a network",
)
@opt.features_argument
@opt.encoder_file()
@opt.option("--clients", "How many.", "K", type=opt.COUNT, default=10)
@opt.option("--partition", "How samples are split over clients.", type=PARTITIONS, default="iid")
@opt.alpha_option("Of dirichlet: the smaller, the more unequal the clients.")
@opt.option(
    "--shards", "Of shards: about how many classes a client sees.", "S", type=opt.COUNT, default=2
)
@opt.seed_option
@opt.table_options(labels=True)
@opt.option("--engine", ENGINE, type=ENGINES, default="in-process")
@opt.option("--private", PRIVATE, is_flag=True)
@opt.deadline_option("Go on after this without those that have not answered.")
@opt.option("--out folder", OUT, "DIR", type=opt.FOLDER, default="simulation")
@limit_options
@opt.option("--test", "Also evaluate the model on this table.", "FILE", type=opt.FILE)
def simulate(
    session: Session,
    /,
    features: Path,
    encoder_path: Path,
    clients: int,
    engine: str,
    private: bool,
    deadline: float,
    folder: Path,
    test: Path | None,
    **settings: Any,
) -> None:
    """Split a table over many clients and run the round, on one machine.

    The same server as in a real deployment. An interrupted simulation goes on where it was:
    contributions that are in the store are not counted again.
    """
    from safle_flower.simulation.running import simulate as run_simulation
    from safle_flower.simulation.simulation import Simulation

    read = opt.selected(settings)
    labels = read.get("labels")
    given = read | {"labels": labels and str(labels.absolute())}
    chosen = tuple((name, value) for name, value in given.items() if value)
    limits = chosen_limits(settings)
    how = {name: settings[name] for name in ("partition", "alpha", "shards", "seed")}
    places = str(features.absolute()), str(encoder_path.absolute())
    simulation = Simulation(*places, clients, chosen, **how)
    _quieten_flower()
    with session.progress(f"{clients} clients") as advance:
        found = run_simulation(
            simulation,
            folder,
            engine=engine,
            private=private,
            deadline=deadline,
            limits=limits,
            progress=advance,
        )
    show_report(session, found, folder)
    if test is not None:
        _evaluate(session, folder, test, read | {"labels": None, "split": None})


def _quieten_flower() -> None:
    """Every client's fate is in the report; line by line it would break the progress bar."""
    # Flower sets the level when it is first imported, so that comes before.
    require("flwr.app", "safle-flower", "a simulation")
    logging.getLogger("flwr").setLevel(logging.ERROR)


def _evaluate(session: Session, folder: Path, test: Path, read: dict[str, Any]) -> None:
    from safle.model import load_model
    from safle.site import evaluate_blocks
    from safle.tables import open_table

    model = load_model(folder / "model.safetensors")
    table = open_table(test, schema=model.encoder.schema, **read)
    table = table.arranged(model.encoder.feature_names, where=str(test))
    found = evaluate_blocks(model, table.batches(BATCH), table.weights, where=test).total
    accuracy = found.confusion.trace() / found.sample_count
    session.facts(f"{test}: accuracy", {"accuracy": f"{accuracy:.2%}"})
