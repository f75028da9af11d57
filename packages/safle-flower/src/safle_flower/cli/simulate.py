"""``safle simulate``: a federation of many clients on one machine, with Flower's messages."""

import logging
from pathlib import Path
from typing import Any

from safle import cli as opt
from safle.basics import require
from safle.cli import Session, chosen_limits, limit_options
from safle_flower.cli.deploy import DEADLINE, show_report

SPLITTING = "safle simulate train.npz --encoder encoder.safetensors --clients 100"
PARTITION = "How samples are split over clients: iid, alpha=A (Dirichlet) or shards=S."
PRIVATE = "Contributions go under masks, and two more nodes are keyholders: the same model."
OUT = "Where the model, the sum and the report go."


@opt.command(
    f"{SPLITTING} --out simulation",
    f"{SPLITTING} --partition alpha=0.1 --private --out simulation",
    panel="Over a network",
)
@opt.features_argument
@opt.encoder_file()
@opt.option("--clients", "How many.", "K", type=opt.COUNT, default=10)
@opt.option("--partition scenario", PARTITION, "HOW", default="iid")
@opt.seed_option
@opt.table_options(labels=True)
@opt.option("--private", PRIVATE, is_flag=True)
@opt.option("--deadline", DEADLINE, "SECONDS", type=opt.POSITIVE, default=3600.0)
@opt.option("--out folder", OUT, "DIR", type=opt.FOLDER, default="simulation")
@limit_options
@opt.option("--test", "Also evaluate the model on this table.", "FILE", type=opt.FILE)
def simulate(
    session: Session,
    /,
    features: Path,
    encoder_path: Path,
    clients: int,
    folder: Path,
    test: Path | None,
    **settings: Any,
) -> None:
    """Split a table over many clients and run the round, in one process.

    The server and the messages are those of a real deployment.
    """
    # Flower sets the level of its log when it is first imported, so that comes before. Every
    # client's fate is in the report; line by line it would break the progress bar.
    require("flwr.app", "safle-flower", "a simulation")
    logging.getLogger("flwr").setLevel(logging.ERROR)
    from safle_flower.simulation import simulate as run_simulation

    reading = opt.selected(settings)
    limits = chosen_limits(settings)
    how = {name: settings[name] for name in ("scenario", "seed", "private", "deadline")}
    with session.progress(f"{clients} clients") as advance:
        found = run_simulation(
            features,
            encoder_path,
            folder,
            clients=clients,
            limits=limits,
            reading=reading,
            progress=advance,
            **how,
        )
    show_report(session, found, folder)
    if test is not None:
        _evaluate(session, folder, test, reading | {"labels": None, "split": None})


def _evaluate(session: Session, folder: Path, test: Path, read: dict[str, Any]) -> None:
    from safle.model import load_model
    from safle.site import evaluate_table
    from safle.tables import open_matching

    model = load_model(folder / "model.safetensors")
    found = evaluate_table(model, open_matching(model.encoder, test, **read), where=test).total
    accuracy = found.confusion.trace() / found.sample_count
    session.facts(f"{test}: accuracy", {"accuracy": f"{accuracy:.2%}"})
