"""Any file: ``safle inspect`` says what it is and whether it is sound; ``safle log``."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import rich_click as click

from safle.basics.memory import readable
from safle.basics.paths import naming
from safle.basics.texts import list_names
from safle.cli import facts as describe
from safle.cli import options as opt
from safle.cli.session import Session, command
from safle.encoders.base import load_encoder
from safle.errors import TableError
from safle.model.model import load_model
from safle.site.log import LOG, read_log, site_log
from safle.statistics.exposure import describe_cells
from safle.tables.column_files import COLUMN_SUFFIXES, open_columns
from safle.tables.reading import open_table
from safle.tables.schema import Schema
from safle.tables.table import BATCH, Table
from safle.wire import container
from safle.wire.formats import format_named

CLASSES_SHOWN = 30
FILE = "An encoder, schema, statistics, histogram, model, features, counts or private file."
LOG_HELP = "A log, or a store; by default this site's own ($SAFLE_LOG)."
CHECKED = "checksum, digest, sizes, all invariants of counts"


@command("safle inspect a.stats", name="inspect")
@click.argument("file", type=opt.FILE, help=FILE)
@opt.table_options()
def inspect_file(session: Session, /, file: Path, **selection: Any) -> None:
    """Say what a file is, what it holds, and whether it is sound.

    Works on every file that safle writes, and on tables of features. [b]safle rehearse[/b] shows
    what a client would send with an encoder, and what that gives away.
    """
    file_type = describe.file_type_of(file)
    if file_type in _SAFETENSORS:
        facts = _SAFETENSORS[file_type](file) | {"file": readable(file.stat().st_size)}
        session.facts(f"{file}: {file_type}", facts)
    elif file_type:
        _show_counts(session, file, file_type)
    elif file.suffix.lower() == ".toml":
        describe.show_schema(session, file, Schema.read(file), None)
    else:
        _show_table(session, file, **selection)


_SAFETENSORS: dict[str, Callable[[Path], describe.Facts]] = {
    "encoder": lambda path: describe.encoder_facts(load_encoder(path)),
    "model": lambda path: describe.model_facts(load_model(path)),
}


def _show_counts(session: Session, path: Path, file_type: str) -> None:
    data = container.read_limited(path)
    with naming(path):
        value, _ = format_named(file_type).open(data)
    facts = describe.counts_facts(value, data)
    facts.setdefault("checks", CHECKED)
    exposure = value.exposure()
    if exposure is not None:
        facts["cells"] = describe_cells(exposure.cells)
    session.facts(f"{path}: {file_type}", facts)
    counts = [[name, f"{count:,}"] for name, count in value.samples_by_class().items()]
    if counts:
        session.table(["class", "samples"], counts[:CLASSES_SHOWN])
    if len(counts) > CLASSES_SHOWN:
        session.text([f"and {len(counts) - CLASSES_SHOWN} more classes"])
    if exposure is not None:
        describe.show_exposure(session, exposure)


def _show_table(session: Session, path: Path, **selection: Any) -> None:
    try:
        table = open_table(path, **selection)
    except TableError as error:
        _show_columns(session, path, error)
        return
    labels = None if table.labels is None else sorted(set(table.labels.tolist()))
    facts: describe.Facts = {
        "samples": f"{len(table):,}",
        "features": f"{table.feature_dim:,} ({table.features.dtype})",
        "labels": "none" if labels is None else list_names(labels),
        "file": readable(path.stat().st_size),
    }
    if len(table):
        facts["values"] = _describe_range(table)
    facts |= {name: text for name in ("source", "device") if (text := getattr(table, name))}
    session.facts(f"{path}: table of features", facts)


def _describe_range(table: Table) -> str:
    """The least and the largest value, and a grid of a histogram that holds them all."""
    blocks = [block for block, _ in table.batches(BATCH)]
    low = min(float(np.nanmin(block)) for block in blocks)
    high = max(float(np.nanmax(block)) for block in blocks)
    # Two digits, outwards: a grid says little of a single value.
    step = 10.0 ** (math.floor(math.log10(max(abs(low), abs(high), 1e-9))) - 1)
    ends = [math.floor(low / step) * step, math.ceil(high / step) * step]
    grid = " ".join(f"--{name} {end:.4g}" for name, end in zip(("low", "high"), ends, strict=True))
    return f"{low:.4g} to {high:.4g}; a grid that holds them: safle histogram {grid}"


def _show_columns(session: Session, path: Path, problem: TableError) -> None:
    """Show a table whose columns are not all numbers; raise ``problem`` if it is not a table."""
    if path.suffix.lower() not in COLUMN_SUFFIXES:
        raise problem
    opened = open_columns(path)
    facts: describe.Facts = {
        "samples": f"{len(opened):,}",
        "columns": list_names(opened.names),
    }
    session.facts(f"{path}: table", facts | {"file": readable(path.stat().st_size)})
    session.warn(
        f"{problem}; text and gaps need a schema: 'safle schema draft' makes one, "
        "'safle encoder make --schema' an encoder that carries it"
    )


@command("safle log", "safle log store", name="log")
@click.argument("place", type=opt.PLACE, required=False, metavar="[LOG]", help=LOG_HELP)
def show_log(session: Session, /, place: Path | None) -> None:
    """Show a log, and check that no line of it is damaged.

    A client's log lists what left by the commands of safle; a store's log lists what came in.
    """
    path = place or site_log()
    if path.is_dir():
        path = path / LOG
    rows = read_log(path)
    names = ("time", "event", "who", "sha256", "note")
    shown = [[row[name] for name in names] for row in rows]
    short = [[time, event, who, digest[:16], note] for time, event, who, digest, note in shown]
    session.table(["time", "event", "who", "SHA-256", "note"], short, names=5)
    session.facts(f"{path}: log", {"rows": len(rows), "damaged": "none"})
