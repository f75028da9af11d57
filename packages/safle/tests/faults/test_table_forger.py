"""Forged tables and settings: every mutant is read, or refused by an error of ours."""

from __future__ import annotations

import signal
import subprocess
import sys
import warnings
import zipfile

import numpy as np
import pytest

from safle import Column, Schema, open_table
from safle.basics import read_toml
from safle.errors import SafleError
from support.forging import damage
from support.tables import write_table

polars = pytest.importorskip("polars")
FEATURES = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
MUTANTS = {"npz": 3_000, "csv": 3_000, "toml": 3_000}
PARQUET_MUTANTS = 600
# Prints each file before it reads it, so that the next process knows where this one ended.
READ_EACH = """
import sys, warnings
from safle.errors import SafleError
from safle import open_table
warnings.simplefilter("ignore")
for path in sys.argv[1:]:
    print(path, flush=True)
    try:
        open_table(path).features[:]
    except SafleError as error:
        assert path in str(error), error
"""


def write(path, kind):
    labels = np.arange(30) % 3
    if kind == "toml":
        Schema((Column("age", 0, 90), Column("sex", levels=("f", "m")))).save(path)
    else:
        write_table(path, FEATURES, labels)


@pytest.mark.slow
@pytest.mark.parametrize("kind", MUTANTS)
def test_mutated_table_raises_only_typed_errors(tmp_path, kind):
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


@pytest.mark.slow
def test_a_mutant_of_a_parquet_file_is_read_refused_or_ends_the_process(tmp_path):
    columns = {f"f{at}": column for at, column in enumerate(FEATURES.T)}
    polars.DataFrame(columns | {"label": np.arange(30) % 3}).write_parquet(tmp_path / "whole")
    data, generator = (tmp_path / "whole").read_bytes(), np.random.default_rng(1)
    paths = [tmp_path / f"{at}.parquet" for at in range(PARQUET_MUTANTS)]
    for path in paths:
        path.write_bytes(damage(generator, data, generator.bytes(4)))
    left = [str(path) for path in paths]
    while left:
        child = [sys.executable, "-c", READ_EACH, *left]
        done = subprocess.run(child, capture_output=True, text=True, check=False)
        # polars ends a process that asks for more memory than there is: nothing else may.
        assert done.returncode in (0, -signal.SIGABRT), done.stderr
        left = left[len(done.stdout.splitlines()) :]


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
def test_array_with_invalid_header_is_a_typed_error(tmp_path, header):
    padded = header.ljust(-(-(len(header) + 11) // 64) * 64 - 11) + b"\n"
    made = b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded + bytes(480)
    with zipfile.ZipFile(tmp_path / "t.npz", "w") as archive:
        archive.writestr("features.npy", made)
    with pytest.raises(SafleError, match=r"t\.npz"):
        open_table(tmp_path / "t.npz")
