"""``safle calibrate``: a model whose probabilities fit the counts of its answers."""

from functools import reduce
from operator import add
from pathlib import Path

import rich_click as click

from safle.cli import options as opt
from safle.cli.session import Session

COUNTS = "Counts that `safle evaluate --counts` wrote, of one or several sites."


@opt.command(
    "With a model",
    "safle evaluate model.safetensors held_out.csv --counts a.eval",
    "safle calibrate model.safetensors a.eval b.eval -o calibrated.safetensors",
)
@opt.model_argument
@click.argument("counts", nargs=-1, required=True, type=opt.FILE, help=COUNTS)
@opt.output("The model to write.", "model")
def calibrate(session: Session, /, model: Path, counts: tuple[Path, ...], output: Path) -> None:
    """Give a model the temperature that suits its answers on samples it was not made of.

    For heads whose probabilities statistics cannot calibrate: those of noisy sums, and those
    counted by class. Probabilities change, and no class does.

    Counts do not say which samples they are of. On those that the model was made of it is right
    too often, and the temperature would make it too sure: evaluate on others.
    """
    from safle.cli.describe import calibration_of
    from safle.evaluation.calibrating import calibrate as fit
    from safle.model import load_model
    from safle.wire import read_evaluation

    opt.refuse_overwriting(output, *counts)
    before = load_model(model)
    total = reduce(add, map(read_evaluation, counts))
    made = fit(before, total)
    made.save(output)
    facts = {
        "probabilities": calibration_of(made),
        "before": calibration_of(before),
        "samples": f"{total.sample_count:,}",
        "digest": made.digest,
    }
    session.facts(f"{output}: model", facts)
