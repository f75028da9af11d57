"""Thousands of classes: refused unless the operator allows them, and summed in linear work."""

from __future__ import annotations

import numpy as np
import pytest

from safle import Accumulator, Statistics, count, encode
from safle.errors import LimitExceeded
from safle.server.limits import Limits
from safle.server.store import Store
from safle.server.summing import sum_files
from support.data_sets import fixed_encoder


def of_classes(encoder, names):
    """One sample of each class."""
    features = np.linspace(-1, 1, len(names))[:, None] + np.zeros(encoder.feature_dim)
    return count(encoder, features, np.array(names))


def test_classes_beyond_the_limit_are_refused_before_decompression(tmp_path, monkeypatch):
    encoder = fixed_encoder("linear by class", 2)
    data = encode(of_classes(encoder, [*range(30)]))
    (tmp_path / "many.stats").write_bytes(data)

    def decompress(*_arguments):
        raise AssertionError("a section was decompressed")

    monkeypatch.setattr("zstandard.ZstdDecompressor", decompress)
    few, named = Limits(most_classes=29), Limits(classes=("ill", "well"))
    with Store.create(tmp_path / "store", encoder) as store:
        for limits in (few, named):
            store.declare(limits)
            with pytest.raises(LimitExceeded):
                store.add("a", data)
            with pytest.raises(LimitExceeded, match=r"many\.stats: "):
                sum_files([tmp_path / "many.stats"], tmp_path / "total", limits=limits)


class Counted(int):
    """A class name that counts how often it is compared."""

    comparisons = 0

    def __eq__(self, other):
        Counted.comparisons += 1
        return int(self) == int(other)

    __hash__ = int.__hash__


def comparisons_of_summing(classes):
    """How often names are compared while two contributions of so many classes are added."""
    encoder = fixed_encoder("linear", 2)
    part = of_classes(encoder, [*range(classes)])
    names = tuple(map(Counted, part.class_names))
    fields = (part.codes, part.cross, names, part.class_counts, part.gram)
    renamed = Statistics(part.space, *fields)
    total = Accumulator(encoder)
    total.add(part)
    Counted.comparisons = 0
    total.add(renamed)
    assert total.sample_count == 2 * classes
    return Counted.comparisons


def test_names_are_found_by_their_hash_not_one_by_one():
    few, many = comparisons_of_summing(500), comparisons_of_summing(4_000)
    assert 0 < few <= 4 * 500
    assert many <= 4 * 4_000
