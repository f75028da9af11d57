"""Evaluation counts <-> bytes, in the same container."""

from __future__ import annotations

import os
from typing import Any

from safle._internal.memory import require
from safle.encoders.features import is_digest
from safle.errors import SafleError, WireError
from safle.statistics.evaluation import MOST_CLASSES, Evaluation, shapes
from safle.wire import container
from safle.wire.sections import Sections


def encode_evaluation(evaluation: Evaluation) -> bytes:
    """The bytes of a file of evaluation counts; equal counts give equal bytes."""
    sections = Sections()
    for name in shapes(len(evaluation.class_names)):
        sections.write(name, getattr(evaluation, name))
    header: dict[str, Any] = {
        "model": evaluation.model,
        "classes": [*evaluation.class_names],
        "planes": sections.planes,
    }
    return container.to_bytes(container.EVALUATION, header, sections.raw)


def write_evaluation(path: str | os.PathLike[str], evaluation: Evaluation) -> None:
    """Write a file of evaluation counts, atomically.

    >>> import tempfile
    >>> none = Evaluation.none("0" * 64, ["ill", "well"])
    >>> with tempfile.NamedTemporaryFile(suffix=".eval") as file:
    ...     write_evaluation(file.name, none)
    ...     read_evaluation(file.name) == none
    True
    """
    container.write_file(path, encode_evaluation(evaluation))


def decode_evaluation(data: bytes | memoryview) -> Evaluation:
    """Evaluation counts from bytes; `WireError` for bad ones."""
    return from_container(container.from_bytes(data, kind=container.EVALUATION))


def read_evaluation(path: str | os.PathLike[str]) -> Evaluation:
    """Read a file of evaluation counts, verified.

    >>> read_evaluation("nowhere.eval")
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'nowhere.eval'
    """
    opened = container.read_file(path, kind=container.EVALUATION)
    try:
        return from_container(opened)
    except WireError as error:
        raise WireError(f"{path}: {error}") from error


def from_container(opened: container.Container) -> Evaluation:
    """Evaluation counts from an opened container; its digest is their identity."""
    try:
        header = opened.header
        model, classes = header["model"], tuple(header["classes"])
        if set(header) != {"model", "classes", "planes"} or not is_digest(model):
            raise WireError("expected a model's digest, classes and planes, and nothing else")
        if len(classes) > MOST_CLASSES:
            raise WireError(f"{len(classes)} classes; at most {MOST_CLASSES} are evaluated")
        require(
            16 * sum(_cells(shape) for shape in shapes(len(classes)).values()),
            purpose=f"evaluation counts of {len(classes)} classes",
            advice="read them on a larger machine",
        )
        sections = Sections(opened, planes=dict(header["planes"]))
        arrays = {name: sections.read(name, shape) for name, shape in shapes(len(classes)).items()}
        sections.finish()
        return Evaluation(model, classes, **arrays)
    except (SafleError, KeyError, TypeError, ValueError, OverflowError, MemoryError) as error:
        if isinstance(error, WireError):
            raise
        raise WireError(f"not valid evaluation counts: {error}") from error


def _cells(shape: tuple[int, ...]) -> int:
    cells = 1
    for length in shape:
        cells *= length
    return cells
