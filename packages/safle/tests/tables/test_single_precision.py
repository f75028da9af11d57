"""A table in single precision counts as its copies in double precision and as text."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safle import load_encoder, open_table
from safle.errors import SafleWarning
from safle.tables.cells import widen
from support.data_sets import data_sets

LABELS = ["ill", "well"] * 300
DECIMALS = np.random.default_rng(0).integers(0, 1000, (600, 2)) / [10, 1000]
FRAME = pl.DataFrame({"age": DECIMALS[:, 0], "dose": DECIMALS[:, 1], "grade": [0.1, 0.2] * 300})
NARROW = FRAME.cast(pl.Float32)


def write(frame: pl.DataFrame, path: Path) -> Path:
    labelled = frame.with_columns(label=pl.Series(LABELS))
    labelled.write_csv(path) if path.suffix == ".csv" else labelled.write_parquet(path)
    return path


@pytest.fixture
def encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, safle: Callable[..., str]) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("s.toml").write_text(
        "classes = ['ill', 'well']\n[columns.age]\nlow = 0\nhigh = 100\n"
        "[columns.dose]\nlow = 0\nhigh = 1\n[columns.grade]\nlevels = ['0.1', '0.2']\n"
    )
    safle("encoder", "make", "--schema", "s.toml", "-o", "e.safetensors")
    return Path("e.safetensors")


def test_copies_of_one_table_have_the_same_counts(
    encoder: Path, safle: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [write(FRAME, Path("a.csv")), write(NARROW, Path("b.csv"))]
    places += [write(FRAME, Path("wide.parquet")), write(NARROW, Path("narrow.parquet"))]
    sums = []
    for place in places:
        said = safle("count", place, "--encoder", encoder, "-o", f"{place}.stats")
        assert "precision" not in said
        sums.append(Path(f"{place}.stats").read_bytes())
    assert len({*sums}) == 1
    made = load_encoder(encoder)
    wide = made.encode(FRAME)
    for frame in (NARROW, NARROW.to_pandas(), NARROW.to_arrow()):
        narrow = made.encode(frame)
        assert np.array_equal(narrow.symbols, wide.symbols)
        assert np.array_equal(narrow.dense, wide.dense)


def test_arrays_under_a_schema_are_read_as_columns_are(encoder: Path) -> None:
    schema = load_encoder(encoder).contract.schema
    for dtype in ("<f4", ">f4", "<f8"):
        np.savez("t.npz", features=DECIMALS.astype(dtype), labels=LABELS)
        assert np.array_equal(open_table("t.npz", schema=schema).features, DECIMALS)
        assert open_table("t.npz").features.dtype.itemsize == int(dtype[2])


def test_numbers_that_lost_digits_are_named(encoder: Path, safle: Callable[..., str]) -> None:
    rounded = NARROW.with_columns(age=pl.Series(DECIMALS[:, 0] / 7, dtype=pl.Float32))
    place = write(rounded, Path("rounded.parquet"))
    for words in (("rehearse", place), ("count", place, "-o", "r.stats")):
        said = safle(*words, "--encoder", encoder)
        assert "rounded.parquet: 'age' of more digits than the file's single precision" in said
    features = rounded.select("age", "dose").to_numpy()
    np.savez("r.npz", features=features, labels=LABELS)
    with pytest.warns(SafleWarning, match="single precision"):
        open_table("r.npz", schema=load_encoder(encoder).contract.schema)


@pytest.mark.parametrize(("dtype", "digits"), [(pl.Float32, 6), (pl.Float16, 3)])
@given(data=st.data())
def test_decimals_that_fit_survive(dtype, digits, data) -> None:
    numbers = st.integers(-(10**digits) + 1, 10**digits - 1)
    # Below it, numbers of half precision have fewer digits.
    values = data.draw(st.lists(numbers, min_size=1))
    decimals = np.array([float(f"{value}e-{digits}") for value in values])
    small = np.abs(decimals) < 1e-4
    decimals[small] = 0.0
    assert widen(pl.Series(decimals).cast(dtype)).tolist() == decimals.tolist()


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1))
def test_every_number_stays_the_same_number_of_single_precision(values: list[float]) -> None:
    narrow = np.array(values, np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.array_equal(widen(pl.Series(narrow)).astype(np.float32), narrow)


@pytest.mark.parametrize("dtype", ["<f2", ">f2", "<f4", ">f4"])
@given(drawn=data_sets(1))
def test_equal_values_in_an_array_have_equal_codes(dtype, drawn) -> None:
    """For every kind: arrays are taken at their values, whatever their type."""
    narrow = (drawn.features * np.float32(0.7)).astype(dtype)
    codes = drawn.encoder.encode(narrow)
    for copy in (narrow.astype(np.float64), np.asfortranarray(narrow), narrow.astype(">f8")):
        other = drawn.encoder.encode(copy)
        assert np.array_equal(codes.symbols, other.symbols)
        assert np.array_equal(codes.dense, other.dense)
