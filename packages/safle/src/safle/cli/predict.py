"""``safle predict`` and ``safle export``: use a model, here or elsewhere."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TextIO

import rich_click as click
from numpy.typing import NDArray

from safle.basics.atomic import replacing, write_bytes
from safle.basics.memory import readable
from safle.basics.texts import neutralise
from safle.cli import options as opt
from safle.cli.facts import temperature_of
from safle.cli.readers import open_samples
from safle.cli.session import STANDARD_OUTPUT, Session, command
from safle.model.model import Model, load_model

PREDICTIONS = "The .csv file to write, one line per sample; - for standard output."


@command("safle predict model.safetensors new.csv --proba -o predictions.csv")
@opt.model_argument
@opt.features_argument
@opt.option("--proba", "Add a column with each class's probability.", is_flag=True)
@opt.backbone_option()
@opt.table_options()
@opt.output(PREDICTIONS, streams=True)
def predict(session: Session, /, model: Path, features: Path, output: Path, **options: Any) -> None:
    """Predict the class of every sample of a table.

    Columns are matched by name, in any order, where the encoder knows names. Labels are not
    needed; a column of labels is ignored. A class whose name begins like a
    spreadsheet's formula (= + - @) gets an apostrophe in front, as does one that begins
    with an apostrophe: remove one to restore the name. Samples of a features file of images have
    the names of the images.
    """
    classifier = load_model(model)
    samples = _predict(session, classifier, features, output, options)
    facts = {"samples": f"{samples:,}"}
    if options["proba"]:
        facts["probabilities"] = temperature_of(classifier)
    if output != STANDARD_OUTPUT:
        session.facts(f"{output}: predictions", facts)


def _predict(
    session: Session, model: Model, path: Path, output: Path, options: dict[str, Any]
) -> int:
    """Write the predictions of a table; return their number."""
    table = open_samples(session, model.encoder, path, options, labelled=False)
    proba = options["proba"]
    outside = model.watch()
    done = 0
    titles = [f"probability_{name}" for name in model.class_names] if proba else []

    def write(block: NDArray[Any], _labels: Any) -> None:
        nonlocal done
        checked = model.encoder.contract.check(block)
        for number, row in enumerate(_rows(model, checked, proba=proba), start=done):
            sample = number if table.ids is None else neutralise(table.ids[number])
            class_name, *class_probabilities = row
            writer.writerow([sample, neutralise(class_name), *class_probabilities])
        outside.add(checked)
        done += len(block)

    with (
        session.progress(f"predicting {path.name}") as advance,
        _open(output) as file,
    ):
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([options["id_column"] or "sample", "class", *titles])
        table.for_each_batch(write, where=path, progress=advance)
    outside.warn()
    return done


@contextmanager
def _open(output: Path) -> Iterator[TextIO]:
    """The file to write, or standard output."""
    if output == STANDARD_OUTPUT:
        yield sys.stdout
        return
    with (
        replacing(output) as scratch,
        scratch.open("w", encoding="utf-8", newline="") as file,
    ):
        yield file


def _rows(model: Model, checked: NDArray[Any], *, proba: bool) -> list[list[Any]]:
    """Class and, with ``proba``, probabilities of each sample; the model scores it once."""
    scores = model.score_checked(checked)
    names = model.classes_[scores.argmax(axis=1)].tolist()
    if not proba:
        return [[name] for name in names]
    class_probabilities = model.to_probabilities(scores).tolist()
    return [[name, *row] for name, row in zip(names, class_probabilities, strict=True)]


WITH_BACKBONE = (
    "Join the backbone that made the features, efficientnet_lite0 or an ONNX file: one graph from "
    "images to classes (package safle-images)."
)


@command(
    "safle export model.safetensors -o model.onnx",
    "safle export model.safetensors --with-backbone efficientnet_lite0 -o whole.onnx",
)
@opt.model_argument
@opt.option("--with-backbone backbone", WITH_BACKBONE, "NAME|FILE.onnx", type=opt.PLACE)
@opt.output("The .onnx file to write.")
def export(session: Session, /, model: Path, backbone: Path | None, output: Path) -> None:
    """Export a model to ONNX: a graph that predicts the same classes, without safle."""
    from safle.model.export import to_onnx

    loaded = load_model(model)
    graph = to_onnx(loaded)
    facts = {}
    if backbone is not None:
        join = entry_points(group="safle.exports", name="backbone")
        if not join:
            raise click.UsageError("'--with-backbone' needs safle-images: pip install safle-images")
        graph, facts = join["backbone"].load()(graph, loaded.encoder, str(backbone))
    write_bytes(output, graph.SerializeToString(deterministic=True))
    facts |= {
        "file": readable(output.stat().st_size),
        "load with": f"onnxruntime.InferenceSession({str(output)!r})",
    }
    session.facts(f"{output}: exported model", facts)
