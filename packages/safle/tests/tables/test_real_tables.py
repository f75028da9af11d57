"""Ten public clinical tables, where they are: split in two, drafted, merged and counted."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest

TABLES = os.environ.get("SAFLE_TABLES")
PATHS = sorted(Path(TABLES).glob("*.csv")) if TABLES else []


@pytest.mark.slow
@pytest.mark.skipif(not PATHS, reason="needs the tables that $SAFLE_TABLES names")
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_two_sites_of_a_real_table_are_the_whole(safle, tmp_path, path):
    header, *rows = [*csv.reader(path.open(newline=""))]
    parts = {"a": rows[::2], "b": rows[1::2], "all": rows[::2] + rows[1::2]}
    drafts = []
    for name, part in parts.items():
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([header, *part])
        if name != "all":
            drafts.append(tmp_path / f"{name}.toml")
            table = tmp_path / f"{name}.csv"
            safle("schema", "draft", table, "--label-column", "outcome", "-o", drafts[-1])
    safle("schema", "merge", *drafts, "-o", tmp_path / "schema.toml")
    encoder = tmp_path / "encoder.safetensors"
    safle("encoder", "make", "--schema", tmp_path / "schema.toml", "-o", encoder)
    for name in parts:
        out = tmp_path / f"{name}.stats"
        safle("count", tmp_path / f"{name}.csv", "--encoder", encoder, "-o", out)
    safle("sum", tmp_path / "a.stats", tmp_path / "b.stats", "-o", tmp_path / "sum.stats")
    assert (tmp_path / "sum.stats").read_bytes() == (tmp_path / "all.stats").read_bytes()
