"""``safle inspect``: what any file of ours is, and whether it is sound."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import rich_click as click

from safle.cli.options import FILE, client_options, command, table_options
from safle.cli.session import Session
from safle.errors import TableError


def kind_of(path: Path) -> str:
    """One of our kinds of file, by what is in it; "table" for all others."""
    from safle.wire import peek_kind

    return peek_kind(path) or _safetensors_kind(path)


HEADERS = {
    "predictions": r"[^,]*,class(,probability_[^,]*)*",
    "ridge curve": r"ridge,\w+,degrees_of_freedom",
}
"""The first line of a .csv file that we have written: somebody's data have that ending, too."""


MARKS = {
    ".md": rb"# Model card",
    ".png": rb"Software\x00safle",
    ".html": rb'<meta name="generator" content="safle">',
    ".json": rb'\A\{\s*"(model": "[0-9a-f]{64}"|best": )',
    ".onnx": rb"safle",
    ".safetensors": rb'"source":',
}
"""What stands at the beginning of a file with this ending that we have written."""
LONGEST_BEGINNING = 1 << 14


def looks_like(path: Path, kinds: Collection[str]) -> bool:
    """Whether a file that is not in a format of ours was written by us, as one of ``kinds``.

    A kind is an ending or in `HEADERS`. Files with an ending that is not in `MARKS` have nothing
    to be known by.
    """
    ending = path.suffix.lower()
    if ending in MARKS:
        with path.open("rb") as file:
            return ending in kinds and bool(re.search(MARKS[ending], file.read(LONGEST_BEGINNING)))
    if ending != ".csv":
        return ending in kinds
    with path.open(encoding="utf-8", errors="replace") as file:
        header = file.readline(100_000).rstrip("\r\n")
    return any(re.fullmatch(HEADERS[kind], header) for kind in kinds if kind in HEADERS)


def _safetensors_kind(path: Path) -> str:
    from safetensors import SafetensorError, safe_open

    try:
        with path.open("rb"), safe_open(path, framework="numpy") as file:
            header = json.loads((file.metadata() or {}).get("safle", "{}"))
        found = str(header.get("format"))
    except (SafetensorError, ValueError, AttributeError):
        found = ""
    # By prefix: a file of a later version is told apart by its own reader.
    for kind in ("encoder", "model", "classifier"):
        if found.startswith(f"safle-{kind}-"):
            return kind
    return "table"


CLASSES_SHOWN = 30


@command("Any file", "safle inspect a.stats", name="inspect")
@click.argument(
    "file",
    type=FILE,
    help="An encoder, schema, statistics, histogram, model, features, counts or private file.",
)
@table_options(labels=True)
@client_options("an encoder")
def inspect_file(
    session: Session, /, file: Path, samples: int, classes: int, **selection: Any
) -> None:
    """Say what a file is, what it holds, and which checks it passes.

    Works on every file that safle writes, and on tables of features. Of an encoder it also
    says what a client would send, how long that takes here, and what it gives away.
    """
    kind = kind_of(file)
    if kind == "table" and file.suffix.lower() == ".toml":
        _schema(session, file)
    elif kind == "table":
        _table(session, file, **selection)
    elif kind == "encoder":
        _encoder(session, file, samples, classes)
    else:
        _SHOWS.get(kind, _private)(session, file)


def _encoder(session: Session, path: Path, samples: int, classes: int) -> None:
    from safle.basics.memory import readable
    from safle.cli.describe import contribution_facts, encoder_facts, worked_out
    from safle.encoders import load_encoder
    from safle.site.rehearsal import rehearse

    encoder = load_encoder(path)
    facts = encoder_facts(encoder)
    facts["file"] = readable(path.stat().st_size)
    session.facts(f"{path}: encoder", facts | {"checks": "sizes, thresholds"})
    classes = len(encoder.classes) or classes
    sent = rehearse(encoder, samples=samples, classes=classes)
    title = (
        f"a client of {samples:,} samples and {classes:,} classes (rehearsed on made-up features)"
    )
    session.facts(title, contribution_facts(sent, about="about "))
    session.text(worked_out(sent.gives_away, sent.warning))


def _schema(session: Session, path: Path) -> None:
    from safle.cli.schema import show_schema
    from safle.encoders.schema import Schema

    show_schema(session, path, Schema.read(path))


def _model(session: Session, path: Path) -> None:
    from safle.cli.describe import model_facts
    from safle.model import load_model

    facts = model_facts(load_model(path), size=path.stat().st_size)
    session.facts(f"{path}: model", facts | {"checks": "sizes, codes, finite weights"})


def _classifier(session: Session, path: Path) -> None:
    from safle.cli.describe import model_facts
    from safle.model.estimator import SafleClassifier

    fitted = SafleClassifier.load(path)
    facts: dict[str, object] = {"samples": f"{fitted.statistics_.sample_count:,}"}
    facts |= model_facts(fitted.model_, size=path.stat().st_size)
    session.facts(f"{path}: classifier", facts | {"checks": "those of its model and statistics"})


def _statistics(session: Session, path: Path) -> None:
    from safle.basics.places import naming
    from safle.cli.describe import statistics_facts, worked_out
    from safle.site.disclosure import disclosures, name_given_away
    from safle.wire.contribution import Contribution

    with naming(path):
        statistics, entry = Contribution.read(path).open()
    facts = statistics_facts(statistics, size=entry.bytes, digest=entry.digest)
    facts["checks"] = "checksum, digest, sizes, all invariants of counts"
    session.facts(f"{path}: statistics", facts)
    counts = list(zip(statistics.class_names, statistics.class_counts.tolist(), strict=True))
    session.table(["class", "samples"], [[n, f"{c:,}"] for n, c in counts[:CLASSES_SHOWN]])
    if len(counts) > CLASSES_SHOWN:
        session.text([f"and {len(counts) - CLASSES_SHOWN} more classes"])
    session.text(worked_out(disclosures(statistics), name_given_away(statistics)))


def _counts(session: Session, path: Path) -> None:
    """Noisy statistics, histograms or evaluation counts."""
    from safle.basics.places import naming
    from safle.cli.describe import counts_facts
    from safle.site.files import FILE_KINDS
    from safle.wire import container

    kind, data = kind_of(path), container.read_limited(path)
    reader = next(reader for reader in FILE_KINDS.values() if reader.name == kind)
    with naming(path):
        value, digest = reader.open(data)
    facts = counts_facts(value, size=len(data), digest=digest)
    session.facts(f"{path}: {kind}", facts | {"checks": f"checksum, digest, sizes{_MORE[kind]}"})


def _private(session: Session, path: Path) -> None:
    """What a file of a private round says of itself, without the keys that could check it."""
    from safle.basics.memory import readable
    from safle.basics.places import naming
    from safle.private.keys import Signed
    from safle.private.round import MOST_BYTES
    from safle.wire import container, peek_kind

    name = str(peek_kind(path))
    kind = next(number for number, text in container.KINDS.items() if text == name)
    said, payload = container.read_file(path, kind=kind).header, b""
    if kind in (container.ROUND, container.MASKED, container.ANSWER):
        with naming(path):
            signed = Signed.read(container.read_limited(path), kind)
            if kind == container.ROUND:
                payload = signed.unfold(MOST_BYTES)
        said = dict(signed.head.fields)
    facts: dict[str, object] = {k: v for k, v in said.items() if isinstance(v, str)}
    if kind == container.ROUND:
        facts |= _round_facts(payload)
    facts["file"] = readable(path.stat().st_size)
    session.facts(f"{path}: {name}", facts | {"checks": "checksum, sizes; signatures need keys"})


def _round_facts(payload: bytes) -> dict[str, object]:
    """Who takes part, by the operator's word."""
    from safle.private.round import read_content

    content = read_content(payload)
    parties = {
        name: ", ".join(f"{key.name} ({key.fingerprint[:16]}…)" for key in roster.values())
        for name, roster in (("clients", content.clients), ("keyholders", content.keyholders))
    }
    opening = f"all keyholders, at least {content.fewest} clients"
    most = f"{content.space.most_total_samples:,} samples"
    return {**parties, "needed to open": opening, "at most": most}


def _table(session: Session, path: Path, **selection: Any) -> None:
    from safle.basics.memory import readable
    from safle.cli.describe import listing
    from safle.tables import open_table

    table = open_table(path, **selection)
    try:
        # What stands in a file of text shows only when it is read.
        table.features[:1]
        values, problem = str(table.features.dtype), ""
    except TableError as error:
        values, problem = "not all of them numbers", str(error)
    facts: dict[str, object] = {
        "samples": f"{len(table):,}",
        "features": f"{table.feature_dim:,} ({values})",
        "labels": "none",
        "file": readable(path.stat().st_size),
    }
    if table.labels is not None:
        facts["labels"] = listing(sorted(set(table.labels.tolist())))
    if table.source:
        facts["source"] = table.source
    session.facts(f"{path}: table of features", facts)
    if problem:
        session.warn(problem)
        session.warn(
            "text and gaps are read by a schema: 'safle schema draft' makes one, 'safle encoder "
            "make --schema' an encoder that carries it"
        )


_SHOWS: dict[str, Callable[[Session, Path], None]] = {
    "model": _model,
    "classifier": _classifier,
    "statistics": _statistics,
}
_MORE = {
    "noisy statistics": "",
    "histogram": ", every feature counts all samples",
    "evaluation counts": ", every part counts all samples",
}
_SHOWS |= dict.fromkeys(_MORE, _counts)
