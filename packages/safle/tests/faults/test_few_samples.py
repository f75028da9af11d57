"""Contributions by columns: a liar is refused, and the total is as it was."""

from __future__ import annotations

import tracemalloc
from itertools import combinations, pairwise

import numpy as np
import pytest

from safle import Accumulator, decode, encode
from safle.encoders.codes import Block, CodeSpace, Layout
from safle.errors import InvariantError, WireError
from safle.server.limits import open_contribution
from safle.statistics.low_rank import LowRank
from safle.statistics.statistics import Margins
from support.data_sets import KINDS, fixed_data
from support.forging import Forgery
from support.reference import phi


@pytest.fixture(params=KINDS)
def data(request):
    return fixed_data(request.param, samples=6, feature_dim=24)


@pytest.fixture
def forged(data):
    made = Forgery.of(encode(data.count()))
    assert made.header["form"] == "columns"
    return made


def refused(data, lie, match=None):
    """Neither decoded nor added; what was there before stays, to the byte."""
    total = Accumulator(data.encoder)
    total.add(data.count())
    before = encode(total.snapshot())
    with pytest.raises((WireError, InvariantError), match=match):
        total.add(open_contribution("liar", lie, total.space)[0])
    assert encode(total.snapshot()) == before
    with pytest.raises(WireError, match=match):
        decode(lie, space=data.encoder.space)


def traded(data):
    """Phi of other samples with the same margins: two of a class trade something of a column."""
    true, layout = phi(data.encoder, data.features), data.encoder.layout
    borders = np.cumsum([0, *layout.table_sizes])
    for one, other in combinations(range(len(data)), 2):
        if data.labels[one] != data.labels[other]:
            continue
        for first, last in pairwise(borders):
            image = true.copy()
            image[[one, other], first:last] = image[[other, one], first:last]
            yield image
        for column in range(borders[-1], true.shape[1]):
            for amount in (-40, -1, 1, 40):
                image = true.copy()
                image[[one, other], column] += [amount, -amount]
                yield image


def has_real_samples(data, statistics):
    """Whether these sums are no lie, but those of other samples."""
    layout = data.encoder.layout
    dense = np.arange(layout.dim - layout.dense_dim, layout.dim)
    seen = np.concatenate([statistics.codes, dense])
    gram = statistics.gram_square()
    return any(np.array_equal(x[:, seen].T @ x[:, seen], gram) for x in traded(data))


def test_few_samples_file_with_one_changed_number_is_refused_or_other_samples(data, forged):
    generator = np.random.default_rng(0)
    true = forged.numbers("sums")
    for _ in range(40):
        sums = true.copy()
        sums[generator.integers(len(sums))] += generator.choice([-1, 1, 40])
        lie = forged.put("sums", sums).to_bytes()
        try:
            accepted = decode(lie, space=data.encoder.space)
        except WireError:
            refused(data, lie)
        else:
            assert has_real_samples(data, accepted)


def test_another_basis_is_refused(data, forged):
    bits = np.unpackbits(np.frombuffer(forged.sections["basis"], np.uint8), bitorder="little")
    chosen = np.flatnonzero(bits)
    for other in (np.setdiff1d(np.arange(8), chosen)[:1], []):
        moved = bits.copy()
        moved[chosen[-1]] = 0
        moved[other] = 1
        forged.sections["basis"] = np.packbits(moved, bitorder="little").tobytes()
        refused(data, forged.to_bytes())
    forged.sections["basis"] = bytes(len(forged.sections["basis"]))
    refused(data, forged.to_bytes(), "basis does not fit")


def test_dependent_columns_and_huge_numbers_are_refused(data, forged):
    sums = forged.numbers("sums")
    for lie in (0 * sums, sums + 2**61):
        refused(data, forged.put("sums", lie).to_bytes())


def test_a_whole_gram_of_few_samples_is_refused(data, monkeypatch):
    monkeypatch.setattr("safle.wire.grams.choose", lambda *_: None)
    whole = encode(data.count())
    monkeypatch.undo()
    assert b'"form":"whole"' in whole
    refused(data, whole, "expected form 'columns'")


def test_columns_of_many_samples_are_refused():
    data = fixed_data("linear", samples=200)
    forged = Forgery.of(encode(data.count()))
    forged.header["form"] = "columns"
    refused(data, forged.to_bytes(), "expected form 'whole'")


def test_almost_dependent_columns_send_the_whole_gram(monkeypatch):
    data = fixed_data("linear", samples=6, feature_dim=24)
    monkeypatch.setattr("safle.wire.grams.TOLERANCE", 0.0)
    whole = encode(data.count())
    assert b'"form":"whole"' in whole
    assert decode(whole, space=data.encoder.space) == data.count()


def test_a_failure_in_the_last_tile_takes_all_others_back(monkeypatch):
    monkeypatch.setattr("safle.statistics.low_rank.TILE", 3)
    data = fixed_data("random-features", samples=6, feature_dim=24)
    forged = Forgery.of(encode(data.count()))
    sums = forged.numbers("sums")
    sums[-1] += 1
    refused(data, forged.put("sums", sums).to_bytes())


@pytest.mark.parametrize("off", [0.0, 0.02, 0.05])
def test_few_samples_file_between_integers_is_refused_beyond_float32(off):
    """A product of a million and a bit, where numbers of float32 are 1/16 apart."""
    root = np.array([[1000.0, 1000.0 + off / 1000]])
    wide = Layout((Block("features", 2, low=-32_767, high=32_767),))
    space = CodeSpace("0" * 64, wide)
    none = np.empty(0, np.int64)
    margins = Margins(space, none, np.zeros((2, 1), np.int64), (0,), np.array([4]))
    low_rank = LowRank(root, np.array([0]), margins)
    gram = np.zeros(3, np.int64)
    if off:
        with pytest.raises(InvariantError, match="not integers"):
            low_rank.add_to(gram, 2, np.arange(2))
        assert not gram.any()
    else:
        low_rank.add_to(gram, 2, np.arange(2))
        assert (gram == 1_000_000).all()


def test_integers_are_required_tile_by_tile_and_no_triangle_is_held():
    """Of 5,000 columns the triangle takes 50 MB at least; a tile takes 12 MB."""
    data = fixed_data("linear", samples=3, feature_dim=5_000)
    sent = data.count()
    read = decode(encode(sent), space=data.encoder.space)
    assert isinstance(read.gram, LowRank)
    tracemalloc.start()
    try:
        read.gram.require_integers()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20_000_000
    assert "packed" not in vars(read.gram)


def test_decoding_refuses_what_only_a_tile_shows():
    """A product, not a column that is sent, is no integer: only all entries show it."""
    data = fixed_data("random-features", samples=6, feature_dim=24)
    read = decode(encode(data.count()), space=data.encoder.space)
    wrong = LowRank(read.gram.root * (1 + 1e-3), read.gram.pivots, read.gram.margins)
    with pytest.raises(InvariantError, match="not integers"):
        wrong.require_integers()
    read.gram.require_integers()
