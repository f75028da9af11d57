"""What keyholders open is, byte for byte, what plain contributions add up to."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from private_support.private_rounds import make_parties, plain_entries, plain_mask
from safle import Statistics, encode, sum_statistics
from safle.errors import CountOverflow
from safle.statistics.histogram import Histogram
from safle_private.vector import Moduli, derive_key
from support.data_sets import BY_CLASS, KINDS, data_sets, fixed_data, model_bytes, repeated


@given(data=st.data())
@settings(max_examples=12)
def test_the_opened_sum_and_its_model_are_those_of_plain_files(data):
    drawn = data.draw(data_sets(1))
    clients = data.draw(st.integers(2, 5))
    owner = data.draw(
        st.lists(st.integers(0, clients - 1), min_size=len(drawn), max_size=len(drawn))
    )
    parts = [drawn.part(np.flatnonzero(np.array(owner) == at)).count() for at in range(clients)]
    kept = data.draw(st.sets(st.sampled_from(range(clients)), min_size=2))
    holders = data.draw(st.integers(1, 3))
    more = data.draw(st.sampled_from([0, 1, 1000, 2**20, 2**30]))
    names = sorted({*drawn.labels.tolist()})
    most = max(1, min(len(drawn) + more, drawn.encoder.layout.most_samples))
    zero = Statistics.empty(drawn.encoder.space, names)
    parties = make_parties(zero, clients, most, keyholders=holders)
    order = data.draw(st.permutations(sorted(kept)))
    total = parties.gather([parties.mask(at, parts[at]) for at in order])
    plain = sum_statistics(parts[at] for at in sorted(kept))
    opened = parties.open(total)
    assert opened == plain
    assert encode(opened) == encode(plain)
    if plain.sample_count:
        assert model_bytes(drawn.encoder, opened) == model_bytes(drawn.encoder, plain)


@pytest.mark.parametrize("kind", KINDS)
def test_a_vector_is_the_free_sums_in_64_and_32_bits(kind):
    data = fixed_data(kind, 40)
    zero = Statistics.empty(data.encoder.space, [0, 1, 2, 9])
    free = data.count().to_vector(zero)
    moduli = make_parties(zero, 2).private_round.moduli
    mask = moduli.wide
    assert free[:4].tolist() == [*data.count().class_counts.tolist(), 0]
    wide, narrow = plain_entries(int(mask.sum()), int((~mask).sum()), bytes(moduli.pack(free)))
    assert wide == [int(entry) % 2**64 for entry in free[mask]]
    assert narrow == [int(entry) % 2**32 for entry in free[~mask]]


@pytest.mark.parametrize("kind", KINDS)
def test_the_most_samples_pass_and_one_more_is_refused(kind):
    data = fixed_data(kind, 30)
    # As large as any entry can be: the same sample, as often as the round allows.
    statistics = repeated(data.part(slice(0, 1)).count(), 4096)
    zero = Statistics.empty(data.encoder.space, [0, 1, 2])
    fits = make_parties(zero, 2, 4096).private_round
    assert fits.from_vector(fits.to_vector(statistics)) == statistics
    tight = make_parties(zero, 2, 4095).private_round
    with pytest.raises(CountOverflow, match=r"4,096 samples; the round allows 4,095"):
        tight.to_vector(statistics)


def test_more_samples_than_declared_are_noticed_in_the_sum():
    data = fixed_data("linear", 30)
    halves = [data.part(slice(0, 15)).count(), data.part(slice(15, 30)).count()]
    for most, refused in ((30, False), (29, True)):
        parties = make_parties(Statistics.empty(data.encoder.space, [0, 1, 2]), 2, most)
        total = parties.add_up(halves)
        if refused:
            with pytest.raises(CountOverflow, match="30 samples; the round allows 29"):
                parties.open(total)
        else:
            assert parties.open(total) == halves[0] + halves[1]


@pytest.mark.parametrize("kind", BY_CLASS)
def test_statistics_by_class_travel_the_same_way(kind):
    data = fixed_data(kind, 40)
    # One client has a class of its own, and nobody has the last.
    parts = [data.part(data.labels == 0).count(), data.part(data.labels > 0).count()]
    parties = make_parties(Statistics.empty(data.encoder.space, [0, 1, 2, 3]), 2)
    opened = parties.open(parties.add_up(parts))
    assert opened == data.count()
    assert opened.by_class


@given(data=st.data(), bins=st.integers(1, 5), features=st.integers(1, 3))
@settings(max_examples=15)
def test_histograms_travel_the_same_way(data, bins, features):
    grid = Histogram.empty(-1, 1, features, bins=bins)
    values = st.lists(
        st.lists(st.integers(-8, 8).map(lambda x: x / 4), min_size=features, max_size=features),
        min_size=1,
        max_size=5,
    )
    parts = [grid.count(np.array(data.draw(values))) for _ in range(3)]
    parties = make_parties(grid, 3, 15)
    total = parties.add_up(parts)
    opened = parties.open(total)
    assert encode(opened) == encode(parts[0] + parts[1] + parts[2])


@given(
    seed=st.binary(min_size=32, max_size=32),
    wide=st.sampled_from([0, 1, 7, 16_384, 16_385]),
    narrow=st.sampled_from([0, 1, 5, 32_768, 32_769, 70_000]),
)
@settings(max_examples=15)
def test_masks_are_those_of_a_second_implementation(seed, wide, narrow):
    moduli = Moduli(np.arange(wide + narrow) < wide)
    vector = np.frombuffer(np.random.default_rng(len(seed)).bytes(moduli.size), np.uint8)
    masked = vector.copy()
    moduli.add_masks(masked, [derive_key(seed, "ab" * 32, "client", "board")])
    mask = plain_mask(wide, narrow, seed, "ab" * 32, "client", "board")
    before, after = (plain_entries(wide, narrow, data.tobytes()) for data in (vector, masked))
    for x, m, y, modulus in zip(before, mask, after, (2**64, 2**32), strict=True):
        assert y == [(a + b) % modulus for a, b in zip(x, m, strict=True)]
    other = np.zeros_like(vector)
    moduli.add_masks(other, [derive_key(seed, "ab" * 32, "client", "board")])
    moduli.subtract(masked, other)
    assert np.array_equal(masked, vector)


def test_frozen_mask():
    moduli = Moduli(np.array([True, False, False]))
    masked = moduli.zeros()
    moduli.add_masks(masked, [derive_key(bytes(range(32)), "00" * 32, "hospital-a", "board")])
    assert masked.tobytes().hex() == FROZEN


FROZEN = "d52ce8af0d507b39ff645e07b60d8424"


def test_a_vector_does_not_show_which_codes_and_classes_occurred():
    data = fixed_data("embedding", 60)
    zero = Statistics.empty(data.encoder.space, [0, 1, 2])
    one, all_of_them = data.part(slice(0, 1)).count(), data.count()
    parties = make_parties(zero, 2)
    sizes = {len(parties.mask(0, value)) for value in (one, all_of_them)}
    assert len(sizes) == 1
