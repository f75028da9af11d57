"""``safle evaluate``: how often a model is right, class by class."""

import json
from pathlib import Path
from typing import Any

from safle.cli import options as opt
from safle.cli.session import Session


@opt.command("With a model", "safle evaluate model.safetensors test.npz --png confusion.png")
@opt.model_argument
@opt.features_argument
@opt.written("--png", "Also draw the confusion matrix.")
@opt.written("--json json_path", "Also write all figures.")
@opt.table_options(labels=True)
@opt.batch_option
def evaluate(
    session: Session,
    /,
    model: Path,
    features: Path,
    png: Path | None,
    json_path: Path | None,
    batch: int,
    **selection: Any,
) -> None:
    """Evaluate a model on labelled features: accuracy, every class, confusion matrix.

    A class that the model has never seen counts as an error.
    """
    from safle._internal import atomic
    from safle.cli.scores import score
    from safle.model import load_model, pictures

    if png is not None:
        pictures.require_matplotlib()
    for path in (png, json_path):
        opt.refuse_overwriting(path, model, features, selection["labels"])
    session.announce_compilation()
    with session.progress(f"evaluating on {features.name}") as advance:
        scores = score(session, load_model(model), features, batch, advance, **selection)
    if png is not None:
        pictures.confusion(scores.matrix, scores.names, png)
    if json_path is not None:
        atomic.write_text(json_path, json.dumps(scores.to_json(), indent=1) + "\n")
    session.facts(f"{model.name} on {features.name}", scores.facts())
    session.table(["class", "precision", "recall", "F1", "support"], scores.rows())
    session.text(scores.confusion_lines())
