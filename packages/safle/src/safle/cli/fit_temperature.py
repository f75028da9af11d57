"""``safle fit-temperature``: a model whose probabilities fit the counts of its answers."""

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
    "safle fit-temperature model.safetensors a.eval b.eval -o fitted.safetensors",
)
@opt.model_argument
@click.argument("counts", nargs=-1, required=True, type=opt.FILE, help=COUNTS)
@opt.output("The model to write.", "model")
def fit_temperature(
    session: Session, /, model: Path, counts: tuple[Path, ...], output: Path
) -> None:
    """Give a model the temperature that suits its answers on samples it was not made of.

    For heads that statistics tell no temperature of: those of noisy sums, and those counted by
    class. Probabilities change, and no class does.

    Counts do not say which samples they are of. On those that the model was made of it is right
    too often, and the temperature would make it too sure: evaluate on others.
    """
    from safle.cli.describe import temperature_of
    from safle.evaluation.temperature import fit_temperature as fit
    from safle.model import load_model
    from safle.wire import read_evaluation

    opt.refuse_overwriting(output, *counts)
    before = load_model(model)
    total = reduce(add, map(read_evaluation, counts))
    made = fit(before, total)
    made.save(output)
    facts = {
        "probabilities": temperature_of(made),
        "before": temperature_of(before),
        "samples": f"{total.sample_count:,}",
        "digest": made.digest,
    }
    session.facts(f"{output}: model", facts)
