"""Evaluation counts <-> bytes, in the same container."""

from __future__ import annotations

from math import prod
from typing import Any

from safle._internal.memory import require
from safle._internal.places import StrPath
from safle.encoders.features import is_digest
from safle.errors import WireError
from safle.statistics.evaluation import MOST_CLASSES, Evaluation, shapes
from safle.wire import container
from safle.wire.files import FileKind
from safle.wire.sections import Sections


def _describe(evaluation: Evaluation, sections: Sections) -> dict[str, Any]:
    for name in shapes(len(evaluation.class_names)):
        sections.write(name, getattr(evaluation, name))
    return {"model": evaluation.model, "classes": [*evaluation.class_names]}


def _restore(opened: container.Container) -> Evaluation:
    header = opened.header
    model, classes = header["model"], tuple(header["classes"])
    if set(header) != {"model", "classes", "planes"} or not is_digest(model):
        raise WireError("expected a model's digest, classes and planes, and nothing else")
    if len(classes) > MOST_CLASSES:
        raise WireError(f"{len(classes)} classes; at most {MOST_CLASSES} are evaluated")
    arrays = shapes(len(classes))
    require(
        16 * sum(map(prod, arrays.values())),
        purpose=f"evaluation counts of {len(classes)} classes",
        advice="read them on a larger machine",
    )
    sections = Sections(opened, planes=dict(header["planes"]))
    counts = {name: sections.read(name, shape) for name, shape in arrays.items()}
    sections.finish()
    return Evaluation(model, classes, **counts)


EVALUATIONS = FileKind(container.EVALUATION, _describe, _restore)
encode_evaluation, decode_evaluation = EVALUATIONS.encode, EVALUATIONS.decode


def read_evaluation(path: StrPath) -> Evaluation:
    """Read a file of evaluation counts, verified.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> none = Evaluation.none("0" * 64, ["ill", "well"])
    >>> with TemporaryDirectory() as folder:
    ...     write_evaluation(f"{folder}/a.eval", none)
    ...     read_evaluation(f"{folder}/a.eval") == none
    True
    """
    return EVALUATIONS.read(path)


def write_evaluation(path: StrPath, evaluation: Evaluation) -> None:
    """Write a file of evaluation counts, atomically: the inverse of `read_evaluation`.

    >>> write_evaluation("nowhere/a.eval", Evaluation.none("0" * 64, ["ill", "well"]))
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'nowhere/a.eval'
    """
    EVALUATIONS.write(path, evaluation)
