"""With a model: ``safle predict``, ``safle fit-temperature`` and ``safle export``."""

from __future__ import annotations

import csv
from functools import reduce
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from safle.cli import options as opt
from safle.cli.session import Session

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from safle.model import Model


@opt.command("With a model", "safle predict model.safetensors new.csv --proba -o predictions.csv")
@opt.model_argument
@opt.features_argument
@opt.option("--proba", "Add a column with each class's probability.", is_flag=True)
@opt.table_options(labels=False)
@opt.batch_option
@opt.output("The .csv file to write: one line per sample.", "predictions")
def predict(
    session: Session,
    /,
    model: Path,
    features: Path,
    output: Path,
    **options: Any,
) -> None:
    """Predict the class of every sample of a table.

    Columns are matched by name, in any order, where the encoder knows names. Labels are not
    needed; a column of labels is ignored. A class whose name begins like a
    spreadsheet's formula (= + - @) gets an apostrophe in front, as does one that begins
    with an apostrophe: take one away to have the name back. Samples of a features file of
    images are called as the images are.
    """
    from safle.cli.describe import temperature_of
    from safle.model import load_model

    opt.refuse_overwriting(output, model, features)
    classifier = load_model(model)
    samples = _predict(session, classifier, features, output, options)
    facts = {"samples": f"{samples:,}"}
    if options["proba"]:
        facts["probabilities"] = temperature_of(classifier)
    session.facts(f"{output}: predictions", facts)


def _predict(
    session: Session,
    classifier: Model,
    path: Path,
    output: Path,
    options: dict[str, Any],
) -> int:
    """Write the predictions of a table; how many there are."""
    from safle.basics.atomic import replacing
    from safle.basics.spreadsheet import neutralise
    from safle.cli.reading import batches, open_matching

    trust = {"labelled": False, "trusted": True}
    table = open_matching(classifier.encoder, path, **trust, **opt.selected(options))
    proba = options["proba"]
    names = [f"probability_{name}" for name in classifier.class_names] if proba else []
    ids = None if table.ids is None else table.ids.tolist()
    called = iter(range(len(table)) if ids is None else map(neutralise, ids))
    with (
        session.progress(f"predicting {path.name}") as advance,
        replacing(output) as scratch,
        scratch.open("w", encoding="utf-8", newline="") as file,
    ):
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([options["id_column"] or "sample", "class", *names])
        for block, _, named in batches(path, table, options["batch"], advance, classifier.encoder):
            with named():
                rows = _rows(classifier, block, proba=proba)
            writer.writerows(
                [name, neutralise(row[0]), *row[1:]]
                for row, name in zip(rows, called, strict=False)
            )
    return len(table)


def _rows(model: Model, features: NDArray[Any], *, proba: bool) -> list[list[Any]]:
    """Class and, if wanted, probabilities of each sample; each is scored once."""
    import numpy as np

    from safle.model.probabilities import probabilities

    scores = model.decision_function(features)
    names = np.array(model.class_names)[scores.argmax(axis=1)].tolist()
    if not proba:
        return [[name] for name in names]
    odds = probabilities(scores, model.head, model.temperature or 1.0).tolist()
    return [[name, *own] for name, own in zip(names, odds, strict=True)]


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
    from safle.evaluation.counts import read_evaluation
    from safle.evaluation.evaluating import fit_temperature as fit
    from safle.model import load_model

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


LOAD = {"torch": "torch.export.load({!r}).module()", "onnx": "onnxruntime.InferenceSession({!r})"}
TO = "A torch program (.pt2) or an ONNX graph."


@opt.command("With a model", "safle export model.safetensors --to onnx -o model.onnx")
@opt.model_argument
@opt.option("--to target", TO, type=click.Choice([*LOAD]), required=True)
@opt.output("The file to write.", ".onnx", ".pt2")
def export(session: Session, /, model: Path, target: str, output: Path) -> None:
    """Export a model to torch or ONNX; both predict the same classes, without safle."""
    from safle.basics.memory import readable
    from safle.model import load_model
    from safle.model.export import export_onnx, export_torch

    opt.refuse_overwriting(output, model)
    write = {"torch": export_torch, "onnx": export_onnx}[target]
    write(load_model(model), output)
    facts = {
        "format": target,
        "file": readable(output.stat().st_size),
        "load with": LOAD[target].format(str(output)),
    }
    session.facts(f"{output}: exported model", facts)
