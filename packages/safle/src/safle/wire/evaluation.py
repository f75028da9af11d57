"""Evaluation counts <-> bytes, in the same container."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from safle.basics.memory import require
from safle.basics.places import StrPath
from safle.encoders.features import ClassName, as_class_names, is_digest
from safle.errors import WireError
from safle.statistics.evaluation import MOST_CLASSES, Evaluation, shapes
from safle.wire import container
from safle.wire.files import FileKind
from safle.wire.sections import Sections

Admit = Callable[[str, tuple[ClassName, ...]], None]
"""Called with a model's digest and classes; raises a `SafleError` if they are not wanted."""


def _describe(evaluation: Evaluation, sections: Sections) -> dict[str, Any]:
    for name in shapes(len(evaluation.class_names)):
        sections.write(name, getattr(evaluation, name))
    return {"model": evaluation.model, "classes": [*evaluation.class_names]}


def _restore(
    opened: container.Container, admit: Admit = lambda _model, _classes: None
) -> Evaluation:
    model, classes, planes = _read_header(opened.header)
    admit(model, classes)
    arrays = shapes(len(classes))
    require(
        16 * sum(map(prod, arrays.values())),
        purpose=f"evaluation counts of {len(classes)} classes",
        advice="read them on a larger machine",
    )
    sections = Sections(opened, planes=planes)
    counts = {name: sections.read(name, shape) for name, shape in arrays.items()}
    sections.finish()
    return Evaluation(model, classes, **counts)


def _read_header(header: dict[str, Any]) -> tuple[str, tuple[ClassName, ...], dict[str, int]]:
    if set(header) != {"model", "classes", "planes"} or not is_digest(header["model"]):
        raise WireError("expected a model's digest, classes and planes, and nothing else")
    classes, planes = header["classes"], header["planes"]
    # Another text of the same counts would be a second identity of them.
    if not isinstance(classes, list) or not isinstance(planes, dict):
        raise WireError("classes are not a list, or planes not given by name")
    if len(classes) > MOST_CLASSES:
        raise WireError(f"{len(classes)} classes; at most {MOST_CLASSES} are evaluated")
    if as_class_names(classes) != tuple(classes):
        raise WireError("the classes are not in ascending order")
    return header["model"], tuple(classes), planes


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
