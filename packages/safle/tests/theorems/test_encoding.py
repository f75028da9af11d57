"""Encoders against the paper's formulas, one value at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from msgspec.structs import replace

from safle import Bucketing, EmbeddingEncoder, Encoder, load_encoder, make_encoder, of_schema
from safle.encoders.codes import Layout
from safle.encoders.splitmix import permutation
from safle.tables.schema import Column, Schema
from support.data_sets import VALUES_AND_GAPS, data_sets, encoders, fixed_encoder
from support.reference import hash_of, phi, symbols_of


def onehot_of(encoder, features):
    """Phi as the encoder itself sees it, through its codes and its layout."""
    codes, layout = encoder.encode(features), encoder.layout
    phi = np.zeros((len(features), layout.dim), np.int64)
    for sample in range(len(features)):
        phi[sample, layout.bases[:-1] + codes.symbols[sample]] = 1
    phi[:, layout.code_count :] = codes.dense
    return phi


@given(data_sets())
def test_codes_are_those_of_the_formulas(drawn):
    expected = phi(drawn.encoder, drawn.features)
    assert np.array_equal(onehot_of(drawn.encoder, drawn.features), expected)


MIXED = Schema(
    (
        Column("age", 0, 8),
        Column("sex", levels=("f", "m")),
        Column("dose", -2, 2),
        Column("stage", levels=("1", "2", "3")),
        Column("only", levels=("yes",)),
    )
)


@given(
    features=arrays(np.float64, (6, 5), elements=VALUES_AND_GAPS),
    settings=st.fixed_dictionaries(
        {
            "units": st.integers(1, 12),
            "terms": st.integers(1, 8),
            "bits": st.integers(2, 8),
            "fraction_bits": st.integers(6, 12),
            "norm_clip": st.integers(0, 2),
            "transform": st.sampled_from(["none", "square-root"]),
            "seed": st.integers(0, 2**63 - 1),
        }
    ),
)
def test_codes_of_categories_and_gaps_are_those_of_the_formulas(features, settings):
    encoder = make_encoder(of_schema(MIXED), "table", **settings)
    assert np.array_equal(onehot_of(encoder, features), phi(encoder, features))


@given(data_sets())
def test_equal_layouts_have_one_text(drawn):
    """However its blocks are cut: equal neighbours are one block."""
    layout = drawn.encoder.layout
    single = [replace(block, columns=1) for block in layout.blocks for _ in range(block.columns)]
    rebuilt = Layout(layout.blocks if any(block.norm for block in layout.blocks) else single)
    assert rebuilt.to_json() == layout.to_json()
    assert Layout.from_json(layout.to_json()) == layout


@given(encoders("embedding"))
def test_every_digit_is_used_once_and_only_the_last_group_is_smaller(encoder):
    k, size = encoder.bucketing.radix, encoder.group_size
    digits = encoder.feature_dim * encoder.bucketing.functions
    assert sorted(permutation(digits, encoder.settings.seed)) == list(range(digits))
    *whole, last = encoder.layout.table_sizes
    assert all(rows == k**size for rows in whole)
    assert last == k ** (digits - len(whole) * size)
    assert 0 < digits - len(whole) * size <= size


@given(data_sets(1))
def test_the_type_and_layout_of_an_array_do_not_change_its_codes(drawn):
    expected = drawn.encoder.encode(drawn.features)
    wide = np.zeros((2 * len(drawn), 3 * drawn.features.shape[1]))
    wide[::2, ::3] = drawn.features
    # Quarters up to 2 are exact in every float type, and four of them are an integer.
    copies = [
        drawn.features.astype(np.float16),
        drawn.features.astype(np.float32),
        drawn.features.astype(np.longdouble),
        np.asfortranarray(drawn.features),
        wide[::2, ::3],
        drawn.features[::-1][::-1],
        drawn.features.tolist(),
    ]
    for copy in copies:
        codes = drawn.encoder.encode(copy)
        assert np.array_equal(codes.symbols, expected.symbols)
        assert np.array_equal(codes.dense, expected.dense)


@given(
    thresholds=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5),
    values=st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1),
)
def test_float32_features_get_the_codes_of_their_exact_values(thresholds, values):
    encoder = EmbeddingEncoder(
        np.sort(thresholds)[:, None],
        buckets=len(thresholds),
        group_size=1,
    )
    narrow = np.array(values, np.float32)[:, None]
    expected = [[x > t for t in sorted(thresholds)] for x in map(float, narrow[:, 0])]
    place = permutation(len(thresholds), 0)
    for features in (narrow, narrow.astype(np.float64)):
        assert encoder.encode(features).symbols.tolist() == np.array(expected)[:, place].tolist()


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int64, np.uint32, np.bool_])
def test_integers_and_files_in_memory_get_the_codes_of_the_same_floats(dtype, tmp_path):
    features = np.random.default_rng(0).integers(0, 2, (50, 6)).astype(dtype)
    np.save(tmp_path / "features.npy", features)
    encoder = fixed_encoder("table")
    expected = encoder.encode(features.astype(np.float64))
    for held in (features, np.load(tmp_path / "features.npy", mmap_mode="r")):
        codes = encoder.encode(held)
        assert np.array_equal(codes.symbols, expected.symbols)
        assert np.array_equal(codes.dense, expected.dense)


@pytest.mark.parametrize(
    ("name", "buckets", "group"),
    [("integer", 65_536, 1), ("binary-overlap", 1, 16), ("one-hot", 2, 16), ("integer", 256, 2)],
)
def test_tables_of_65536_rows_index_every_row(name, buckets, group):
    bucketing = Bucketing(name, buckets)
    features = np.random.default_rng(1).uniform(-1, 1, (2, 16))
    levels = np.linspace(-1, 1, bucketing.threshold_count + 2)[1:-1, None] * np.ones((1, 16))
    encoder = EmbeddingEncoder(levels, bucketing=name, buckets=buckets, group_size=group)
    assert max(encoder.layout.table_sizes) == 65_536
    symbols = encoder.encode(features).symbols
    assert symbols.dtype == np.uint16
    assert symbols.tolist() == [symbols_of(encoder, row) for row in features]


@given(encoders())
def test_saving_and_loading_gives_the_same_encoder_and_the_same_bytes(tmp_path_factory, encoder):
    path = tmp_path_factory.mktemp("encoders") / "encoder.safetensors"
    encoder.save(path)
    loaded = load_encoder(path)
    assert loaded == encoder
    assert loaded.layout == encoder.layout
    assert loaded.to_bytes() == encoder.to_bytes() == path.read_bytes()


@given(count=st.integers(0, 300), seed=st.integers(0, 2**64 - 1))
def test_the_shuffle_sorts_by_splitmix64(count, seed):
    ordered = sorted(range(count), key=lambda position: hash_of(position, seed))
    assert permutation(count, seed).tolist() == ordered


@given(data_sets())
def test_fast_codes_are_the_expressed_ones(drawn):
    """A kind may compute its codes its own way; exports follow what it expresses."""
    features = drawn.features * 2.0 ** np.arange(len(drawn.features))[:, None]
    fast = drawn.encoder.encode(features)
    expressed = Encoder.encode_checked(drawn.encoder, features)
    assert np.array_equal(fast.dense, expressed.dense)
    assert np.array_equal(fast.symbols, expressed.symbols)
    assert fast.symbols.dtype == expressed.symbols.dtype
