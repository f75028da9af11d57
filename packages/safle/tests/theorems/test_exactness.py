"""The same data, however split, lead to the same bytes: of the sum and of the model."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safle import HEADS, Accumulator, Statistics, count, encode, sum_statistics
from safle._native.cores import use_threads
from safle.errors import EncoderMismatch, InvalidInput, InvariantError
from support.data_sets import (
    BY_CLASS,
    KINDS,
    LINEAR_HEADS,
    TABLE_KINDS,
    data_sets,
    fixed_data,
    fixed_encoder,
    model_bytes,
)

RIDGES = [0, 0.5, 3.0, "auto"]


def draw_parts(data, drawn, clients):
    owner = data.draw(
        st.lists(st.integers(0, clients - 1), min_size=len(drawn), max_size=len(drawn))
    )
    owner = np.array(owner, np.int64)
    order = data.draw(st.permutations(range(clients)))
    return [drawn.part(np.flatnonzero(owner == client)) for client in order]


@given(data=st.data(), ridge=st.sampled_from(RIDGES))
def test_any_partition_in_any_order_gives_the_same_bytes(data, ridge):
    drawn = data.draw(data_sets(1))
    clients = data.draw(st.integers(1, 8))
    whole = drawn.count()
    total = sum_statistics(part.count() for part in draw_parts(data, drawn, clients))
    assert total == whole
    assert encode(total) == encode(whole)
    heads = [*HEADS] if drawn.encoder.layout.class_layout else LINEAR_HEADS
    head = data.draw(st.sampled_from(heads if ridge else ["least-squares"]))
    saved = [
        model_bytes(drawn.encoder, statistics, ridge=ridge, head=head)
        for statistics in (whole, total)
    ]
    assert saved[0] == saved[1]


@given(data=st.data(), ridge=st.sampled_from(RIDGES))
def test_taking_a_client_away_gives_the_model_that_never_saw_it(data, ridge):
    drawn = data.draw(data_sets(1))
    stays = np.array(
        data.draw(st.lists(st.booleans(), min_size=len(drawn), max_size=len(drawn))), bool
    )
    client, rest = drawn.part(~stays).count(), drawn.part(stays).count()
    left = drawn.count() - client
    assert left == rest
    assert encode(left) == encode(rest)
    if rest.sample_count:
        saved = [model_bytes(drawn.encoder, kept, ridge=ridge) for kept in (left, rest)]
        assert saved[0] == saved[1]


@given(data=st.data())
def test_statistics_are_an_abelian_group_under_plus_and_minus(data):
    drawn = data.draw(data_sets())
    a, b, c = (part.count() for part in draw_parts(data, drawn, 3))
    zero = Statistics.empty(drawn.encoder.space)
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert a + zero == a
    assert a - a == zero
    assert (a + b) - b == a
    assert a + b + c - a - c == b


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("clients", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_hundred_and_a_thousand_clients_give_the_same_model(kind, clients):
    data = fixed_data(kind, samples=700)
    generator = np.random.default_rng(clients)
    # Skewed: most clients hold little, many nothing at all.
    share = generator.dirichlet(np.full(clients, 0.05))
    owner = generator.choice(clients, len(data), p=share)
    parts = [data.part(owner == client).count() for client in generator.permutation(clients)]
    total, whole = sum_statistics(parts), data.count()
    assert sum(part.sample_count == 0 for part in parts) > 10
    assert encode(total) == encode(whole)
    for options in ({}, {"ridge": 0}, {"ridge": 1.0, "head": "discriminant"}):
        expected = model_bytes(data.encoder, whole, **options)
        assert model_bytes(data.encoder, total, **options) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_the_number_of_threads_does_not_change_a_byte(kind):
    data = fixed_data(kind, samples=3_000, feature_dim=24)
    saved = set()
    for threads in (1, 2, 3):
        with use_threads(threads):
            counted = data.count()
            model = model_bytes(data.encoder, counted, ridge=1.5)
            saved.add((encode(counted), model))
    assert len(saved) == 1


@pytest.mark.parametrize("names", [[7, -3, 40], ["zebra", "Ähre", "ape"]])
def test_classes_a_client_has_never_seen_are_aligned_by_name(names):
    data = fixed_data("table")
    labels = np.array(names)[data.labels]
    whole = count(data.encoder, data.features, labels)
    assert whole.class_names == tuple(sorted(names))
    alone = [
        count(data.encoder, data.features[labels == name], labels[labels == name]) for name in names
    ]
    assert all(len(part.class_names) == 1 for part in alone)
    for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
        total = sum_statistics(alone[place] for place in order)
        assert encode(total) == encode(whole)
    assert (whole - alone[1]).class_names == tuple(sorted([names[0], names[2]]))


def test_integers_and_strings_are_not_added():
    data = fixed_data()
    named = count(data.encoder, data.features, data.labels.astype(str))
    for left, right in ((data.count(), named), (named, data.count())):
        with pytest.raises(InvalidInput, match="all integers or all strings"):
            left + right


@pytest.mark.parametrize("kind", KINDS)
def test_another_encoder_is_refused_naming_both(kind):
    data, other = fixed_data(kind), fixed_data(kind, feature_dim=5)
    a, b = data.count(), other.count()
    for combine in (lambda: a + b, lambda: a - b, lambda: sum_statistics([a, b])):
        with pytest.raises(EncoderMismatch) as error:
            combine()
        assert data.encoder.fingerprint[:12] in str(error.value)
        assert other.encoder.fingerprint[:12] in str(error.value)


def test_nothing_to_sum_is_refused():
    with pytest.raises(InvalidInput, match="at least one"):
        sum_statistics([])


@pytest.mark.parametrize("kind", [*KINDS, *BY_CLASS])
def test_subtract_refuses_what_was_never_added(kind):
    data = fixed_data(kind)
    few, many = data.part(slice(0, 40)).count(), data.part(slice(40, None)).count()
    # The same labels, other features: counts come out as zero, sums do not.
    other = replace(data, features=data.features[::-1].copy()).count()
    for part, taken in ((few, many), (data.count(), other)):
        total, before = Accumulator(data.encoder), encode(part)
        total.add(part)
        with pytest.raises(InvariantError, match="part of"):
            part - taken
        with pytest.raises(InvariantError, match="part of"):
            total.subtract(taken)
        assert encode(part) == encode(total.snapshot()) == before


@pytest.mark.parametrize("kind", TABLE_KINDS)
def test_subtract_refuses_sums_with_the_same_margins_only(kind):
    # Two experts of one bit: {00, 11} twice holds every code of {01, 10}, but no such pair.
    encoder = fixed_encoder(kind, 2, buckets=1, group_size=1)
    equal = count(encoder, np.array([[-2.0, -2.0], [2.0, 2.0]]), [0, 0])
    mixed = count(encoder, np.array([[-2.0, 2.0], [2.0, -2.0]]), [0, 0])
    with pytest.raises(InvariantError, match="part of the sum"):
        (equal + equal) - mixed


PROGRAM = """
import sys
import numpy as np
from safle import EmbeddingEncoder, LinearEncoder, Model, declared_range
from safle import count, make_encoder, solve
from safle import HEADS
from sklearn.datasets import load_digits

wide = sys.argv[1] == "wide"
range_ = declared_range(0, 16, 64)
features, labels = load_digits(return_X_y=True)
few, some = slice(0, 12), slice(0, 64)
cases = {
    "fitted": (features[some], labels[some] % 2),
    "constant": (np.full((64, 64), 5.0), labels[some]),
    "duplicated": (np.repeat(features[few], 8, axis=0), np.repeat(labels[few], 8)),
    "few": (features[few], labels[few]),
}
encoders = {"linear": LinearEncoder.calibrated(range_)}
encoders["default"] = make_encoder(range_, units=99)
encoders["by class"] = LinearEncoder.calibrated(range_, by_class=True)
if wide:
    codes = EmbeddingEncoder.calibrated(range_, buckets=8, group_size=6)
    encoders |= {"embedding": codes, "probed": make_encoder(range_, units=1_600)}
    cases |= {"digits": (features, labels), "halves": (features, labels % 2)}
for kind, encoder in encoders.items():
    for name, (samples, classes) in cases.items():
        statistics = count(encoder, samples, classes)
        for head in HEADS if kind == "by class" else [h for h in HEADS if h != "quadratic"]:
            for criterion in ("gcv", "evidence") if wide else ("gcv",):
                model = Model.of(encoder, solve(statistics, head=head, criterion=criterion))
                told = model.digest
                if model.quadratic is not None:
                    # By LAPACK, whose last bits are the machine's: the answers must agree.
                    told = "constant" if name == "constant" else model.predict(samples).tolist()
                print(kind, name, head, criterion, np.float32(model.ridge), told)
"""


KERNELS = ["Haswell", "Sandybridge"]
"""Of OpenBLAS."""


def models_of(threads, kernel, width="narrow"):
    """What another process with other threads and another BLAS kernel saves, line by line."""
    names = ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PYTHONHASHSEED"]
    environment = {
        **os.environ,
        **dict.fromkeys(names, threads),
        "OPENBLAS_CORETYPE": kernel,
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, width],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


@pytest.mark.slow
def test_no_combination_of_threads_and_kernel_changes_a_model():
    combinations = [*product(("1", "2"), KERNELS)]
    found = {combination: models_of(*combination) for combination in combinations}
    expected = found["1", "Haswell"]
    assert len(expected) == 3 * 4 * (len(HEADS) - 1) + 4
    assert {how: lines for how, lines in found.items() if lines != expected} == {}


@pytest.mark.slow
def test_threads_and_kernel_do_not_change_models_of_more_kinds():
    expected = models_of("1", "Haswell", "wide")
    assert len(expected) == (5 * 6 * 3 + 6) * 2
    assert models_of("2", "Sandybridge", "wide") == expected
