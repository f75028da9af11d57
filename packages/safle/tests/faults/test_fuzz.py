"""Twenty thousand and more mutated files: nothing but `WireError`, quickly, in little memory.

Three forgers of growing skill: one damages bytes, one also repairs the checksum, one changes
the content and makes a file of it with a correct checksum and digest.
"""

from __future__ import annotations

import resource
import struct
import time

import numpy as np
import pytest

from safle.encoders.histogram import Grid, Histogram
from safle.errors import WireError
from safle.statistics import Statistics, count
from safle.wire import (
    container,
    decode_histogram,
    decode_statistics,
    encode_histogram,
    encode_statistics,
)
from support.data_sets import fixed_data, fixed_encoder

pytestmark = pytest.mark.usefixtures("no_threads")
MUTANTS = 60_000
SLOWEST = 10.0
MOST_MEMORY = 300_000_000


@pytest.fixture(scope="module")
def bases():
    """Small true files of every kind: (bytes, decode, encode)."""
    statistics = [
        fixed_data("embedding", 20, feature_dim=3).count(),
        fixed_data("linear", 20, feature_dim=3).count(),
        fixed_data("table", 20, feature_dim=3).count(),
        Statistics.empty(fixed_encoder("table").space),
        count(fixed_encoder("embedding", 2), np.zeros((1, 2)), ["só"]),
    ]
    histogram = Histogram.of(
        np.random.default_rng(0).normal(size=(50, 2)), Grid([-2, 0], [2, 1], 6)
    )
    made = [(encode_statistics(s), decode_statistics, encode_statistics) for s in statistics]
    return [*made, (encode_histogram(histogram), decode_histogram, encode_histogram)]


def flip_bits(generator, data, other):
    result = bytearray(data)
    for place in generator.integers(0, len(data), generator.integers(1, 6)):
        result[place] ^= 1 << generator.integers(0, 8)
    return bytes(result)


def set_bytes(generator, data, other):
    at, size = generator.integers(0, len(data)), generator.integers(1, 9)
    value = bytes([generator.choice([0, 1, 127, 128, 255])] * size)
    return data[:at] + value[: len(data) - at] + data[at + size :]


def truncate(generator, data, other):
    return data[: generator.integers(0, len(data))]


def drop_range(generator, data, other):
    first, last = sorted(generator.integers(0, len(data) + 1, 2))
    return data[:first] + data[last:]


def double_range(generator, data, other):
    first, last = sorted(generator.integers(0, len(data) + 1, 2))
    return data[:last] + data[first:last] + data[last:]


def splice(generator, data, other):
    return data[: generator.integers(0, len(data))] + other[generator.integers(0, len(other)) :]


def swap_ranges(generator, data, other):
    a, b, c, d = sorted(generator.integers(0, len(data) + 1, 4))
    return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


def edit_number(generator, data, other):
    """Change a digit of the header's text."""
    size = struct.unpack_from("<I", data, 12)[0] if len(data) > 16 else 0
    digits = [at for at in range(48, min(48 + size, len(data))) if chr(data[at]).isdigit()]
    if not digits:
        return data
    at = int(generator.choice(digits))
    return data[:at] + str(generator.integers(0, 10)).encode() + data[at + 1 :]


MUTATIONS = [
    flip_bits,
    set_bytes,
    truncate,
    drop_range,
    double_range,
    splice,
    swap_ranges,
    edit_number,
]


def mutate(generator, data, other):
    result = data
    for _ in range(generator.integers(1, 3)):
        if result:
            result = MUTATIONS[generator.integers(len(MUTATIONS))](generator, result, other)
    return result


def decoded(decode, data):
    """The value, or None for a refusal; anything else than a `WireError` fails the test."""
    started = time.process_time()
    try:
        return decode(data)
    except WireError:
        return None
    finally:
        assert time.process_time() - started < SLOWEST


@pytest.fixture(autouse=True)
def little_memory():
    unit = 1024
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert (after - before) * unit < MOST_MEMORY


@pytest.mark.slow
def test_no_damaged_file_is_accepted(bases):
    generator = np.random.default_rng(1)
    for _ in range(MUTANTS // 3):
        (true, decode, _), (other, _, _) = (
            bases[i] for i in generator.integers(len(bases), size=2)
        )
        mutant = mutate(generator, true, other)
        if mutant not in {true, other}:
            assert decoded(decode, mutant) is None


@pytest.mark.slow
def test_a_repaired_checksum_does_not_make_a_file_true(bases, seal):
    generator = np.random.default_rng(2)
    for _ in range(MUTANTS // 3):
        (true, decode, encode), (other, _, _) = (
            bases[i] for i in generator.integers(len(bases), size=2)
        )
        mutant = seal(mutate(generator, true[:-32], other[:-32]))
        value = decoded(decode, mutant)
        if value is not None:
            # Only the compression may differ: the digest still names the same content.
            assert encode(value) in {true, other}
            assert mutant[16:48] == encode(value)[16:48]


def change_header(generator, header):
    """Replace one value somewhere in the header."""
    lies = [0, 1, 2, 3, -1, 7, 255, 256, 65_536, 2**31, 2**63, 2**64, True, None, 0.5, "", "a", []]
    node = header
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = keys[generator.integers(len(keys))]
        child = node[key]
        if isinstance(child, dict | list) and child and generator.random() < 0.8:
            node = child
            continue
        if isinstance(child, int) and generator.random() < 0.5:
            node[key] = child + int(generator.integers(-2, 3))
        else:
            node[key] = lies[generator.integers(len(lies))]
        return


@pytest.mark.slow
def test_a_skilled_forger_can_only_make_files_that_have_one_encoding(bases, forge):
    generator = np.random.default_rng(3)
    accepted = 0
    for _ in range(MUTANTS // 3):
        true, decode, encode = bases[generator.integers(len(bases))]
        forged = forge(true)
        for _ in range(generator.integers(1, 3)):
            name = list(forged.sections)[generator.integers(len(forged.sections))]
            if generator.random() < 0.4:
                change_header(generator, forged.header)
            elif forged.sections[name]:
                content = forged.sections[name]
                forged.sections[name] = flip_bits(generator, content, content)
            else:
                forged.sections[name] = generator.bytes(3)
        mutant = container.to_bytes(forged.kind, forged.header, forged.sections)
        value = decoded(decode, mutant)
        if value is not None:
            accepted += 1
            assert encode(value) == mutant
            if isinstance(value, Statistics):
                value.verify()
    # Other counts that some data set could have: rare, and never twice the same thing.
    assert accepted < MUTANTS // 15


def test_the_mutations_are_those_of_a_forger(bases, forge):
    """The tools themselves: what is not changed is accepted."""
    for true, decode, encode in bases:
        forged = forge(true)
        again = container.to_bytes(forged.kind, forged.header, forged.sections)
        assert again == true
        assert encode(decode(again)) == true
