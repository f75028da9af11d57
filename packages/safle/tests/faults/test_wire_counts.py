"""Well-formed files whose numbers are those of no data set."""

from __future__ import annotations

import numpy as np
import pytest

from safle.errors import WireError
from safle.wire import decode_statistics, encode_statistics
from support.data_sets import KINDS, fixed_data, repeated
from support.forging import numbers_of


@pytest.fixture(params=KINDS)
def forged(request, forge):
    """A true file, taken apart."""
    return forge(encode_statistics(fixed_data(request.param).count()))


def put(forged, planes, name, values):
    forged.header["planes"][name], forged.sections[name] = planes(values)


def test_class_counts_must_be_positive_and_within_range(forged, refuses, planes):
    for lie in ([-1, 60, 61], [0, 60, 60], [2**62] * 3, [2**63 - 1] * 3, [2**31] * 3):
        put(forged, planes, "counts", lie)
        refuses(forged.to_bytes())


@pytest.mark.parametrize("change", [1, -1, 300, -(2**40), 2**62])
def test_a_changed_count_breaks_an_invariant(forged, refuses, planes, change):
    values = numbers_of(forged, "counts").tolist()
    for place in range(len(values)):
        put(forged, planes, "counts", [v + change * (i == place) for i, v in enumerate(values)])
        refuses(forged.to_bytes())


@pytest.mark.parametrize("section", ["cross", "products"])
@pytest.mark.parametrize("change", [1, -1, 300, -(2**40), 2**62])
def test_a_changed_sum_is_refused_or_that_of_another_true_file(forged, planes, section, change):
    values = numbers_of(forged, section)
    for place in range(0, len(values), max(1, len(values) // 40)):
        changed = values.astype(object)
        changed[place] += change
        put(forged, planes, section, changed)
        check_lie(forged.to_bytes())


def check_lie(data):
    try:
        statistics = decode_statistics(data)
    except WireError:
        return
    statistics.verify()
    assert encode_statistics(statistics) == data


def test_cross_that_wraps_around_is_refused(forge, refuses, planes):
    data = fixed_data()
    names = np.arange(len(data)) % 4
    statistics = type(data)(data.encoder, data.features, names).count()
    forged = forge(encode_statistics(statistics))
    cross = statistics.cross.astype(object)
    cross[:4] += 2**62
    put(forged, planes, "cross", cross)
    refuses(forged.to_bytes())


def test_products_must_not_be_negative_too_large_too_many_or_too_few(forge, refuses, planes):
    statistics = repeated(fixed_data("embedding").count(), 1000)
    forged = forge(encode_statistics(statistics))
    size = len(numbers_of(forged, "products"))
    assert size > 100
    for values in ([0] * (size - 1), [0] * (size + 1), [0] * 10 * size, [], [-1] * size):
        put(forged, planes, "products", values)
        refuses(forged.to_bytes())
    for value in (statistics.sample_count + 1, 2**31, 2**62, -(2**63)):
        put(forged, planes, "products", [value] + [0] * (size - 1))
        refuses(forged.to_bytes())


def test_entries_do_not_wrap_around_at_the_largest_counts(forge, planes):
    statistics = fixed_data("embedding", buckets=1, feature_dim=2, group_size=1).count()
    large = repeated(statistics, statistics.layout.most_samples // statistics.sample_count)
    forged = forge(encode_statistics(large))
    for value in range(2**31 - 600, 2**31 + 600, 7):
        put(forged, planes, "products", [value])
        with pytest.raises(WireError):
            decode_statistics(forged.to_bytes())
