"""Describe files and values in words: the type of a file, and facts (name -> value)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from safle.basics.memory import readable
from safle.basics.texts import list_names
from safle.cli.session import Session
from safle.encoders.base import Encoder
from safle.tables.checks import ClassName, group_alike
from safle.wire.container import peek_file_type

if TYPE_CHECKING:
    # No command needs all of these.
    from safle.model.model import Model
    from safle.statistics.exposure import Exposure
    from safle.statistics.histogram import Histogram
    from safle.tables.schema import Schema

Facts = dict[str, object]
SAFETENSORS = ("encoder", "model")


def encoder_facts(encoder: Encoder) -> Facts:
    """Kind, settings, sizes, fingerprint."""
    layout = encoder.layout
    facts: Facts = {"kind": encoder.kind, "features": f"{encoder.feature_dim:,}"}
    facts |= encoder.facts()
    if layout.experts:
        tables = Counter(layout.table_sizes.tolist())
        facts["tables"] = ", ".join(f"{count:,} x {size:,} rows" for size, count in tables.items())
    facts["columns"] = f"{layout.dim:,} (codes {layout.code_count:,}, dense {layout.dense_dim:,})"
    entries = layout.dim * (layout.dim + 1) // 2
    facts["gram, if all are seen"] = readable(4 * entries)
    if layout.class_layout:
        width = layout.class_layout.dense_dim
        facts["gram of each class"] = f"{readable(2 * width * (width + 1))} ({width:,} columns)"
    if encoder.contract.names:
        facts["columns by name"] = ", ".join(encoder.contract.names)
    if encoder.contract.classes:
        facts["only for classes"] = list_names(encoder.contract.classes)
    if encoder.contract.source:
        facts["only for features of"] = encoder.contract.source
    return facts | {"fingerprint": encoder.fingerprint}


def counts_facts(value: Any, data: bytes) -> Facts:
    """Facts of what a file holds, and of the file."""
    from safle.wire.container import declared_digest

    return {**value.facts(), "file": readable(len(data)), "digest": declared_digest(data)}


def model_facts(model: Model) -> Facts:
    """Classes, head, ridge, privacy, sizes, identity."""
    return {
        "classes": list_names(model.class_names),
        "head": model.head,
        "ridge": f"{model.ridge:.6g}",
        "probabilities": temperature_of(model),
        **privacy_facts(model),
        "encoder kind": model.encoder.kind,
        "features": f"{model.encoder.feature_dim:,}",
        "weights": " x ".join(f"{length:,}" for length in model.weights.shape)
        + f" for {model.encoder.layout.dim:,} columns",
        "encoder": model.encoder.fingerprint,
        "digest": model.digest,
    }


def privacy_facts(model: Model) -> dict[str, str]:
    """The differential privacy that a model's samples were promised, if any."""
    return {"privacy": model.promise} if model.promise else {}


def temperature_of(model: Model) -> str:
    """How far a model's probabilities can be trusted."""
    if model.temperature is None:
        return (
            "no temperature is known: `safle evaluate` says how far they are off, "
            "`safle fit-temperature` helps"
        )
    return f"scores are divided by the temperature {model.temperature:.3g}"


def show_exposure(session: Session, exposure: Exposure) -> None:
    """Show what a file of statistics gives away, with a warning if samples were reconstructed."""
    heading = f"{'warning: ' if exposure.warns else ''}{exposure.summary or 'It has no samples.'}"
    session.text([heading, *(f"  - {text}" for text in exposure.details)])


def show_schema(session: Session, path: Path, schema: Schema, gaps: dict[str, int] | None) -> None:
    """A schema's columns, and how many values are missing in each where that is known."""
    titles = ["column", "type", "range or levels"]
    rows = []
    for column in schema.columns:
        span = f"{column.low:g} to {column.high:g} {column.unit}".rstrip()
        shown = ("category", list_names(column.levels)) if column.is_category else ("number", span)
        rows.append([column.name, *shown])
    if gaps is not None:
        titles.append("missing")
        rows = [[*row, f"{gaps[row[0]]:,}"] for row in rows]
    session.table(titles, rows, names=3)
    facts: Facts = {"columns": len(rows), "ignored": ", ".join(schema.ignore) or "none"}
    session.facts(f"{path}: schema", facts | {"classes": list_names(schema.classes)})
    warn_of_classes(session, schema.classes)


def warn_of_coarse(session: Session, histogram: Histogram) -> None:
    """Warn of features whose values fall into one or two bins."""
    places = histogram.find_coarse()
    if not len(places):
        return
    names = histogram.names or [f"number {index}" for index in range(histogram.feature_dim)]
    session.warn(
        f"{len(places):,} of {histogram.feature_dim:,} features fall into one or two bins: "
        f"{', '.join(names[index] for index in places)}; unless they have no more than two values, "
        "give every feature a range of its own (--schema)"
    )


def warn_of_classes(session: Session, names: Sequence[ClassName]) -> None:
    """Warn of classes that are probably one class, written in different ways."""
    for alike in group_alike(names):
        session.warn(
            f"classes {' and '.join(map(repr, alike))} differ in case or spaces only; if they are "
            "one, write the label one way at every client and count again (--only-classes A,B,C of "
            "'safle encoder make' refuses others)"
        )


def warn_of_no_classes(session: Session, label_column: str) -> None:
    """Warn of a schema without classes."""
    session.warn(
        f"no classes were found in a column {label_column!r}; if another column is the diagnosis, "
        "it is taken for a feature: draft again with --label-column NAME"
    )


def file_type_of(path: Path) -> str:
    """The type of a file that safle has written; empty for all others."""
    return peek_file_type(path) or _type_of_safetensors(path)


def _type_of_safetensors(path: Path) -> str:
    try:
        with path.open("rb"), safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
        format_name = str(json.loads(metadata.get("safle", "{}")).get("format"))
    except (SafetensorError, ValueError, AttributeError):
        return ""
    # By prefix: the reader itself refuses a later version.
    return next((name for name in SAFETENSORS if format_name.startswith(f"safle-{name}-")), "")
