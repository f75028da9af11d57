"""100,000 sealed files whose numbers, not bytes, were changed: what is accepted is possible.

Every kind of encoder, both forms of a gram, histograms too. Nothing but `SafleError` may come
out, and whatever is accepted must be sums that real samples could have: an oracle in plain
NumPy, which shares no code with safle, says so.
"""

from __future__ import annotations

import tracemalloc
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise, product

import numpy as np
import pytest

from safle.encoders.calibration import DeclaredRange
from safle.encoders.histogram import Grid, Histogram
from safle.errors import EncoderMismatch, InvariantError, SafleError, WireError
from safle.publishing import plan_noise, publish
from safle.solver import solve
from safle.statistics import Accumulator, Statistics, count
from safle.wire import (
    Contribution,
    decode_histogram,
    decode_noisy,
    decode_statistics,
    encode_histogram,
    encode_noisy,
    encode_statistics,
)
from safle.wire.files import plane_count, to_planes
from safle.wire.grams import are_few
from support.data_sets import BY_CLASS, KINDS, publishable_encoder, suiting_features
from support.forging import (
    CHANGES,
    Sums,
    break_parity,
    copied,
    forge_numbers,
    forgeries,
    scale_counts,
    scale_gram,
    swap_classes,
    true_statistics,
    two,
)

pytestmark = pytest.mark.usefixtures("no_threads")
SEEDS = range(5)
FILES = 2_950
HISTOGRAMS = 800
"""With the 20,000 of `test_fuzz`, 100,000 in all that are sealed."""


# --- The oracle: what sums of real samples are ------------------------------------------


def impossible(s):
    """What is wrong with statistics, in words; empty for sums that samples could have."""
    seen, limits = len(s.codes), np.array(s.layout.dense_limits, object).reshape(-1, 2)
    gram, cross = s.gram_square().astype(object), s.cross.astype(object)
    counts, n = s.class_counts.astype(object), int(s.class_counts.sum())
    totals, dense = cross.sum(axis=1), slice(seen, None)
    ends = np.searchsorted(s.codes, np.cumsum([0, *s.layout.table_sizes]))
    experts = [slice(first, last) for first, last in pairwise(ends)]
    wrong = {
        "a class without samples": (counts <= 0).any(),
        "classes out of order": list(s.class_names) != sorted(set(s.class_names)),
        "codes out of order": (np.diff(s.codes) <= 0).any(),
        "a code that did not occur": (gram.diagonal()[:seen] <= 0).any(),
        "negative counts": (gram[:seen, :seen] < 0).any() or (cross[:seen] < 0).any(),
        "a class sum beyond its column's range": (
            (cross[dense] < limits[:, :1] * counts) | (cross[dense] > limits[:, 1:] * counts)
        ).any(),
        "a power beyond its column's range": (
            gram.diagonal()[dense] > n * np.max(limits**2, axis=1, initial=0)
        ).any(),
        "a square of another parity": ((gram.diagonal() - totals) % 2).any(),
        "an expert's classes": any((cross[e].sum(axis=0) != counts).any() for e in experts),
        "an expert's margins": any((gram[e].sum(axis=0) != totals).any() for e in experts),
        "two codes of an expert at once": any(
            np.count_nonzero(gram[e, e]) != e.stop - e.start for e in experts
        ),
        "a constant that varies": any(
            (gram[seen + column] != limits[column, 0] * totals).any()
            for column in range(len(limits))
            if limits[column, 0] == limits[column, 1]
        ),
        "negative eigenvalues": least_eigenvalue(counts, cross, gram) < -1e-6,
    }
    if s.layout.by_class != (0, 0):
        block = np.arange(seen, len(gram))[slice(*s.layout.by_class)]
        parts = [part.gram_square().astype(object) for part in s.by_class]
        wrong |= {
            "classes that do not add up": (sum(parts) != gram[np.ix_(block, block)]).any(),
            "a class that is impossible": any(impossible(part) for part in s.by_class),
        }
    return [name for name, found in wrong.items() if found]


def least_eigenvalue(counts, cross, gram):
    """Of ``[[N, M'], [M, C]]`` scaled to a unit diagonal."""
    joint = np.block([[np.diag(counts), cross.T], [cross, gram]]).astype(np.float64)
    scale = 1 / np.sqrt(np.maximum(joint.diagonal(), 1e-300))
    scale[joint.diagonal() <= 0] = 1.0
    return np.linalg.eigvalsh(joint * scale * scale[:, None]).min(initial=0.0)


# --- The tests ------------------------------------------------------------------------------


def test_the_bases_are_every_kind_in_both_forms():
    forms = set()
    for kind in KINDS:
        for _, statistics in true_statistics(kind, 0):
            assert impossible(statistics) == []
            forms.add((kind, b'"form":"columns"' in encode_statistics(statistics)))
    assert forms == {(kind, few) for kind in KINDS for few in (False, True)}


def test_the_bases_by_class_have_classes_in_both_forms():
    for kind in BY_CLASS:
        forms = set()
        for _, statistics in true_statistics(kind, 0):
            assert impossible(statistics) == []
            assert len(statistics.by_class) == len(statistics.class_names)
            forms |= {are_few(part) for part in statistics.by_class}
        assert forms == {False, True}


@pytest.mark.parametrize("kind", BY_CLASS)
def test_the_oracle_knows_impossible_classes(kind):
    generator = np.random.default_rng(2)
    for _, true in true_statistics(kind, 1):
        for mutation in (swap_classes, break_class):
            sums = Sums.of(true)
            mutation(generator, sums)
            pairs = zip(sums.parts, true.by_class, strict=True)
            same = all((changed == part.gram_square()).all() for changed, part in pairs)
            assert same or impossible(sums.as_statistics()), mutation


def break_class(generator, sums):
    """One more in one class and one less in another: only the parities tell."""
    del generator
    for part, change in zip(sums.parts, (1, -1), strict=False):
        part[0, 0] += change


def test_the_oracle_knows_what_is_impossible():
    for kind in KINDS:
        for _, true in true_statistics(kind, 1):
            generator = np.random.default_rng(2)
            for mutation in (break_parity, scale_counts, scale_gram):
                sums = Sums.of(true)
                mutation(generator, sums)
                assert impossible(sums.as_statistics()), mutation


def accepted(encoder, data):
    """The statistics, or None if they are refused as they should be."""
    try:
        return decode_statistics(data, space=encoder.space)
    except (WireError, EncoderMismatch):
        return None


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "seed"), [*product(KINDS, SEEDS), *product(BY_CLASS, SEEDS[:2])])
def test_whatever_is_accepted_could_be_sums_of_samples(forge, kind, seed):
    generator = np.random.default_rng([seed, len(kind)])
    bases, taken = true_statistics(kind, seed), 0
    for number, (encoder, data) in enumerate(forgeries(generator, bases, forge, FILES)):
        found = accepted(encoder, data)
        if found is not None:
            taken += 1
            assert impossible(found) == []
            assert encode_statistics(found) == data
        if number % 16 == 0:
            check_adding(encoder, data, found)
    # Some are other true files: classes merged, everything twice. Most cannot be.
    assert 0 < taken < FILES // 3


def check_adding(encoder, data, found):
    """Bytes are added exactly if they are accepted, and refused ones leave the total alone."""
    total = Accumulator(encoder)
    try:
        total.add(Contribution("forger", data).open(total.space)[0])
    except (WireError, EncoderMismatch, InvariantError):
        assert found is None
        assert total.snapshot() == Statistics.empty(encoder.space)
    else:
        assert total.snapshot() == found


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*KINDS, *BY_CLASS[:2]])
def test_a_forged_file_takes_no_more_memory_than_a_true_one(forge, kind):
    generator = np.random.default_rng(8)
    bases, most = true_statistics(kind, 0, widen=12), {}
    for encoder, true in bases:
        # Of few samples and of many, as many as make the gram travel whole.
        many = suiting_features(encoder.feature_dim, true.dim, generator)
        whole = count(encoder, many, np.arange(true.dim) % 3)
        files = [encode_statistics(statistics) for statistics in (true, whole)]
        most[encoder] = max(peak(encoder, data) for data in files)
    for encoder, data in forgeries(generator, bases, forge, 150):
        assert peak(encoder, data) <= 1.5 * most[encoder]


def peak(encoder, data):
    accepted(encoder, data)
    tracemalloc.start()
    try:
        accepted(encoder, data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS[:5])
def test_a_histogram_that_is_accepted_counts_samples(forge, seed):
    generator = np.random.default_rng(seed)
    true = Histogram.of(generator.normal(size=(30, 3)), Grid(-2, 2, 6))
    base, taken = forge(encode_histogram(true)), 0
    for _ in range(HISTOGRAMS):
        counts = true.counts.copy()
        with np.errstate(over="ignore"):
            change_counts(generator, counts)
        planes = plane_count(counts)
        header = {**base.header, "planes": planes, "grid": [*base.header["grid"]]}
        if generator.random() < 0.2:
            place = generator.integers(3)
            header["grid"][place] = [header["grid"][1 - place // 2], 7, -1, "nan", "0x1p+2000"][
                generator.integers(5)
            ]
        data = replace(base, header=header, sections={"counts": to_planes(counts, planes)})
        try:
            found = decode_histogram(data.to_bytes())
        except WireError:
            continue
        taken += 1
        rows = found.counts.astype(object)
        assert (rows >= 0).all()
        assert set(rows.sum(axis=1)) == {found.sample_count}
        assert encode_histogram(found) == data.to_bytes()
    assert 0 < taken < HISTOGRAMS // 2


def change_counts(generator, counts):
    flat, rows = counts.reshape(-1), generator.integers(0, len(counts), 2)
    match generator.integers(6):
        case 0:
            flat[generator.integers(len(flat))] += np.int64(generator.choice(CHANGES))
        case 1:
            chosen = two(generator, len(flat))
            flat[chosen] = flat[chosen[::-1]]
        case 2:
            counts *= generator.choice([2, -1, 0])
        case 3:
            counts[rows[0]] += counts[rows[1]]
        case 4:
            counts[rows[0]] = 0
        case 5:
            first, second = two(generator, counts.shape[1])
            counts[rows[0], first] -= 1
            counts[rows[0], second] += 1


# --- Noisy statistics, and files that claim large sizes ----------------------------------------

NOISY_FILES = 1_500
EXTREMES = [0.0, -1.0, 1e308, 1e-308, 5e-324, 2.0**62, 2.0**63, 10**18, 10**400, True, "1", None]


def published(kind, seed):
    """A small release of a kind, and its encoder."""
    generator = np.random.default_rng(seed)
    encoder = publishable_encoder(kind, DeclaredRange(-2, 2, feature_dim=3))
    total = count(encoder, generator.normal(size=(40, 3)), generator.integers(0, 3, 40))
    plan = plan_noise(encoder.layout, 2, 1e-5, calibration="public")
    return encoder, publish(total, plan, [0, 1, 2], draw=partial(draw_noise_of, generator))


def draw_noise_of(generator, size, scale):
    return np.rint(generator.normal(0, scale, size)).astype(np.int64)


def impossible_noisy(s):
    """What does not follow in noisy sums from the free ones, in Python's integers."""
    gram, cross = s.gram_square().astype(object), s.cross.astype(object)
    counts, totals, seen = s.class_counts.astype(object), cross.sum(axis=1), len(s.codes)
    ends = np.cumsum([0, *s.layout.table_sizes])
    experts = [slice(first, last) for first, last in pairwise(ends)]
    limits = s.layout.dense_limits
    constants = {seen + at: low for at, (low, high) in enumerate(limits) if low == high}
    wrong = {
        "a class without samples": (counts < 1).any(),
        "codes that are missing": seen != s.layout.code_count,
        "an expert's classes": any((cross[e].sum(axis=0) != counts).any() for e in experts),
        "an expert's margins": any((gram[e].sum(axis=0) != totals).any() for e in experts),
        "two codes of an expert at once": any(
            (gram[e, e] != np.diag(totals[e])).any() for e in experts
        ),
        "a constant that varies": any(
            (gram[at] != scale * totals).any() or (cross[at] != scale * counts).any()
            for at, scale in constants.items()
        ),
    }
    return [name for name, found in wrong.items() if found]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_noisy_sums_that_are_accepted_follow_from_the_free_ones(forge, kind):
    generator = np.random.default_rng(5)
    encoder, true = published(kind, 3)
    assert impossible_noisy(true) == []
    base, taken = forge(encode_noisy(true)), 0
    for _ in range(NOISY_FILES):
        forged = copied(base)
        forged.header["privacy"] = dict(forged.header["privacy"])
        for _ in range(generator.integers(1, 3)):
            if generator.random() < 0.3:
                name = generator.choice([*forged.header["privacy"]])
                forged.header["privacy"][name] = EXTREMES[generator.integers(len(EXTREMES))]
            else:
                forge_numbers(generator, forged)
        data = forged.to_bytes()
        try:
            found = decode_noisy(data, space=encoder.space)
        except (WireError, EncoderMismatch):
            continue
        taken += 1
        assert impossible_noisy(found) == []
        assert encode_noisy(found) == data
        if taken % 8 == 1:
            # Whatever the noise is said to be: a model of finite weights, or a typed error.
            with suppress(SafleError):
                assert np.isfinite(solve(found).weights).all()
    assert 0 < taken < NOISY_FILES


SIZES = [0, 1, 300, 3_000, 40_000, 2**20, 2**20 + 1, 2**31, 2**40, 2**63]
LIMIT = 20_000_000


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_whatever_size_a_file_claims_reading_takes_what_it_may(forge, kind):
    """Peak memory within 1.5 times the limit, whatever header and sections say."""
    generator = np.random.default_rng(6)
    _, release = published(kind, 4)
    files = [(decode_noisy, forge(encode_noisy(release)))]
    files += [(decode_statistics, forge(encode_statistics(s))) for _, s in true_statistics(kind, 2)]
    for _ in range(300):
        read, base = files[generator.integers(len(files))]
        forged = copied(base)
        claim_size(generator, forged)
        data = forged.to_bytes()
        tracemalloc.start()
        try:
            with suppress(WireError):
                read(data, limit=LIMIT)
            assert tracemalloc.get_traced_memory()[1] <= 1.5 * LIMIT
        finally:
            tracemalloc.stop()


def claim_size(generator, forged):
    """Many columns, codes, classes or bytes, which the file need not have."""
    header, layout = forged.header, forged.header["layout"]
    size = int(generator.choice(np.array(SIZES, object)))
    match generator.integers(5):
        case 0:
            layout["dense"] = [[64, size]]
            layout["limits"] = [[[-9, 9], size]]
        case 1:
            layout["tables"] = [[int(generator.choice([2, 16, 65_536])), size]]
        case 2:
            header["classes"] = [*range(min(size, 40_000))]
        case 3 if "seen" in header:
            header["seen"] = size
        case _:
            name = str(generator.choice([*forged.sections]))
            forged.sections[name] = bytes(min(size, 2**24))
