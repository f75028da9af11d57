"""``safle predict``: a model and features -> classes, in a .csv file."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    session.announce_compilation()
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
