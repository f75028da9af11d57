"""Resealed noisy statistics and evaluation counts: typed errors, and one text for each content."""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy

import numpy as np
import pytest

from faults.test_private_forger import change
from safle import DeclaredRange, LinearEncoder, Model, count, evaluate, solve
from safle.errors import SafleError, WireError
from safle.evaluation import decode_evaluation, encode_evaluation
from safle.publishing.noise import plan_noise, publish
from safle.wire import decode_noisy, encode_noisy
from support.forging import forge_numbers

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_threads")]
FILES = 1_000


def true_file(kind):
    """A small file of a kind, and its reader and writer."""
    generator = np.random.default_rng(0)
    encoder = LinearEncoder.publishable(DeclaredRange(-2, 2, feature_dim=3))
    features, labels = generator.standard_normal((50, 3)), np.arange(50) % 2
    total = count(encoder, features, labels)
    if kind == "evaluation":
        counts = evaluate(Model(encoder, solve(total)), features, labels)
        return encode_evaluation(counts), decode_evaluation, encode_evaluation
    noise = {"draw": lambda size, scale: np.rint(generator.normal(0, scale, size)).astype(np.int64)}
    noisy = publish(total, plan_noise(encoder.layout, 2, 1e-5), [0, 1], **noise)
    return encode_noisy(noisy), decode_noisy, encode_noisy


def impossible(evaluation):
    """Counts that no answers could have given."""
    confusion, scores = evaluation.confusion.astype(object), evaluation.scores.astype(object)
    own, right = confusion[:-1].sum(axis=1), np.trace(confusion)
    sums = {
        "own": (scores[:, 1].sum(axis=1) != own).any(),
        "others": (scores.sum(axis=(1, 2)) != confusion.sum()).any(),
        "right": evaluation.confidence.sum(axis=1).tolist() != [confusion.sum() - right, right],
        "negative": (confusion < 0).any() or (scores < 0).any(),
    }
    return [name for name, wrong in sums.items() if wrong]


@pytest.mark.parametrize("kind", ["noisy", "evaluation"])
def test_what_is_accepted_has_one_text_and_is_possible(forge, kind):
    true, decode, encode = true_file(kind)
    base, generator, taken = forge(true), np.random.default_rng(1), 0
    for _ in range(FILES):
        forged = deepcopy(base)
        if generator.random() < 0.3:
            forged.header = change(generator, forged.header)
        else:
            forge_numbers(generator, forged)
        data = forged.to_bytes()
        try:
            found = decode(data)
        except WireError:
            continue
        taken += 1
        assert encode(found) == data
        if kind == "evaluation":
            assert impossible(found) == []
            continue
        # Whatever the noise is said to be: a model of finite weights, or a typed error.
        with suppress(SafleError):
            assert np.isfinite(solve(found).weights).all()
    assert 0 < taken < FILES
