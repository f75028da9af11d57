"""Resealed evaluation counts: typed errors, and one text for each content."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest

from faults.test_private_forger import change
from safle import DeclaredRange, LinearEncoder, Model, count, evaluate, solve
from safle.errors import WireError
from safle.evaluation import decode_evaluation, encode_evaluation
from support.forging import forge_numbers

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_threads")]
FILES = 1_000


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


def test_what_is_accepted_has_one_text_and_is_possible(forge):
    generator, taken = np.random.default_rng(0), 0
    encoder = LinearEncoder.calibrated(DeclaredRange(-2, 2, feature_dim=3))
    features, labels = generator.standard_normal((50, 3)), np.arange(50) % 2
    model = Model(encoder, solve(count(encoder, features, labels)))
    base = forge(encode_evaluation(evaluate(model, features, labels)))
    for _ in range(FILES):
        forged = deepcopy(base)
        if generator.random() < 0.3:
            forged.header = change(generator, forged.header)
        else:
            forge_numbers(generator, forged)
        data = forged.to_bytes()
        try:
            found = decode_evaluation(data)
        except WireError:
            continue
        taken += 1
        assert encode_evaluation(found) == data
        assert impossible(found) == []
    assert 0 < taken < FILES
