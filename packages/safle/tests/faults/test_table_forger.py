"""Forged tables and settings: every mutant is read, or refused by an error of ours."""

from __future__ import annotations

import warnings
import zipfile

import numpy as np
import pytest

from safle import Column, Schema
from safle.basics import read_toml
from safle.errors import SafleError
from safle.tables import open_table
from support.forging import damage
from support.tables import write_table

polars = pytest.importorskip("polars")
FEATURES = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
# A .parquet file is read by a process of its own, which takes half a second.
MUTANTS = {"npz": 3_000, "csv": 3_000, "toml": 3_000, "parquet": 60}


def write(path, kind):
    labels = np.arange(30) % 3
    if kind == "toml":
        Schema((Column("age", 0, 90), Column("sex", levels=("f", "m")))).save(path)
    elif kind == "parquet":
        columns = {f"f{at}": column for at, column in enumerate(FEATURES.T)}
        polars.DataFrame(columns | {"label": labels}).write_parquet(path)
    else:
        write_table(path, FEATURES, labels)


@pytest.mark.slow
@pytest.mark.parametrize("kind", MUTANTS)
def test_no_mutant_raises_an_error_that_is_not_ours(tmp_path, kind):
    path, generator = tmp_path / f"table.{kind}", np.random.default_rng(1)
    write(path, kind)
    data = path.read_bytes()
    reach = len(data)
    for _ in range(MUTANTS[kind]):
        forged = damage(generator, data[:reach], generator.bytes(4))
        path.write_bytes(forged + data[reach:])
        try:
            if kind == "toml":
                read_toml(path, "a schema")
                Schema.read(path)
            else:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    np.asarray(open_table(path).features)
        except SafleError as error:
            named = str(path) in str(error)
            assert named, error  # noqa: PT017


@pytest.mark.parametrize(
    "header",
    [
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (30, 4",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (30 4), }",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999, 4), }",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': ('a', 4), }",
        b"[" * 5000,
    ],
    ids=["tokens", "syntax", "overflow", "type", "depth"],
)
def test_a_header_of_an_array_that_is_no_header_is_an_error_of_ours(tmp_path, header):
    padded = header.ljust(-(-(len(header) + 11) // 64) * 64 - 11) + b"\n"
    made = b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded + bytes(480)
    with zipfile.ZipFile(tmp_path / "t.npz", "w") as archive:
        archive.writestr("features.npy", made)
    with pytest.raises(SafleError, match=r"t\.npz"):
        open_table(tmp_path / "t.npz")
