"""Sealed files whose numbers, not bytes, were changed: what is accepted is possible.

Every kind of encoder, both forms of a gram, and histograms, noisy sums and evaluation counts.
Nothing but `SafleError` may come out, and whatever is accepted must be sums that real samples
could have: an oracle in plain NumPy, which shares no code with safle, says so.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import pairwise, product

import numpy as np
import pytest

from safle import Accumulator, Model, Statistics, count, decode, encode, evaluate, solve
from safle.errors import EncoderMismatch, InvariantError, SafleError, WireError
from safle.evaluation.counts import Evaluation
from safle.server.limits import open_contribution
from safle.statistics.histogram import Histogram
from safle.wire.grams import has_few_samples
from safle_private import plan_noise, publish
from safle_private.noisy import NoisyStatistics
from support.data_sets import (
    BY_CLASS,
    KINDS,
    fixed_calibration,
    fixed_data,
    publishable_encoder,
    suiting_features,
)
from support.forged_sums import (
    Sums,
    break_parity,
    forgeries,
    scale_counts,
    scale_gram,
    swap_classes,
    true_statistics,
)
from support.forging import Forgery, at_most, forge, peak_of

pytestmark = pytest.mark.usefixtures("no_threads")
SEEDS = range(5)
FILES = 2_950
OTHER_FILES = 4_000
"""With those of `test_fuzz`, 100,000 in all."""


# --- The oracle: what sums of real samples are ------------------------------------------


def broken_algebra(s):
    """What does not follow in sums, noisy ones too, from the free ones, in Python's integers."""
    gram, cross = s.gram_square().astype(object), s.cross.astype(object)
    counts, totals, seen = s.class_counts.astype(object), cross.sum(axis=1), len(s.codes)
    ends = np.searchsorted(s.codes, np.cumsum([0, *s.layout.table_sizes]))
    experts = [slice(first, last) for first, last in pairwise(ends)]
    constants = {seen + at: int(s.layout.low[at]) for at in s.layout.constants.tolist()}
    wrong = {
        "a class without samples": (counts < 1).any(),
        "classes out of order": list(s.class_names) != sorted(set(s.class_names)),
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


def impossible(s):
    """What is wrong with statistics, in words; empty for sums that samples could have."""
    seen, layout = len(s.codes), s.layout
    limits = np.column_stack([layout.low, layout.high]).astype(object)
    gram, cross = s.gram_square().astype(object), s.cross.astype(object)
    counts, n = s.class_counts.astype(object), int(s.class_counts.sum())
    totals, dense = cross.sum(axis=1), slice(seen, None)
    wrong = {
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
        "negative eigenvalues": least_eigenvalue(counts, cross, gram) < -1e-6,
    }
    if s.layout.class_layout:
        block = np.arange(s.layout.class_layout.dim)
        parts = [part.gram_square().astype(object) for part in s.by_class]
        wrong |= {
            "classes that do not add up": (sum(parts) != gram[np.ix_(block, block)]).any(),
            "a class that is impossible": any(impossible(part) for part in s.by_class),
        }
    return broken_algebra(s) + [name for name, found in wrong.items() if found]


def least_eigenvalue(counts, cross, gram):
    """Of ``[[N, M'], [M, C]]`` scaled to a unit diagonal."""
    joint = np.block([[np.diag(counts), cross.T], [cross, gram]]).astype(np.float64)
    scale = 1 / np.sqrt(np.maximum(joint.diagonal(), 1e-300))
    scale[joint.diagonal() <= 0] = 1.0
    return np.linalg.eigvalsh(joint * scale * scale[:, None]).min(initial=0.0)


def impossible_noisy(s):
    missing = ["codes that are missing"] * (len(s.codes) != s.layout.code_count)
    return broken_algebra(s) + missing


def impossible_histogram(histogram):
    rows = histogram.counts.astype(object)
    return (rows < 0).any() or {*rows.sum(axis=1)} != {histogram.sample_count}


def impossible_evaluation(evaluation):
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


# --- Statistics -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*KINDS, *BY_CLASS])
def test_the_bases_are_possible_and_of_both_forms_and_the_oracle_knows_what_is_not(kind):
    forms, class_forms = set(), set()
    for _, true in true_statistics(kind, 1):
        generator = np.random.default_rng(2)
        assert impossible(true) == []
        forms.add(b'"form":"columns"' in encode(true))
        class_forms |= {has_few_samples(part) for part in true.by_class}
        for mutation in (break_parity, scale_counts, scale_gram):
            sums = Sums.of(true)
            mutation(generator, sums)
            assert impossible(sums.as_statistics()), mutation
        for mutation in (swap_classes, break_class) if true.by_class else ():
            sums = Sums.of(true)
            mutation(generator, sums)
            pairs = zip(sums.parts, true.by_class, strict=True)
            same = all((changed == part.gram_square()).all() for changed, part in pairs)
            assert same or impossible(sums.as_statistics()), mutation
    assert (class_forms if kind in BY_CLASS else forms) == {False, True}


def break_class(generator, sums):
    """One more in one class and one less in another: only the parities tell."""
    del generator
    for part, change in zip(sums.parts, (1, -1), strict=False):
        part[0, 0] += change


def accepted(encoder, data):
    """The statistics, or None if they are refused as they should be."""
    try:
        return decode(data, space=encoder.space)
    except (WireError, EncoderMismatch):
        return None


MANY = [*product(KINDS, SEEDS), *product(BY_CLASS, SEEDS[:2])]
CASES = [
    *(pytest.param(kind, 5, 100, id=f"few-{kind}") for kind in (*KINDS, *BY_CLASS)),
    *(
        pytest.param(kind, seed, FILES, id=f"{kind}-{seed}", marks=pytest.mark.slow)
        for kind, seed in MANY
    ),
]


@pytest.mark.parametrize(("kind", "seed", "files"), CASES)
def test_forged_sums_that_are_accepted_could_be_of_samples(kind, seed, files):
    generator = np.random.default_rng([seed, len(kind)])
    bases, taken = true_statistics(kind, seed), 0
    for number, (encoder, data) in enumerate(forgeries(generator, bases, files)):
        found = accepted(encoder, data)
        if found is not None:
            taken += 1
            assert impossible(found) == []
            assert encode(found) == data
        if number % 16 == 0:
            check_adding(encoder, data, found)
    # Some are other true files: classes merged, everything twice. Most cannot be.
    assert 0 < taken < files // 3


def check_adding(encoder, data, found):
    """Bytes are added exactly if they are accepted, and refused ones leave the total alone."""
    total = Accumulator(encoder)
    try:
        total.add(open_contribution("forger", data, total.space)[0])
    except (WireError, EncoderMismatch, InvariantError):
        assert found is None
        assert total.snapshot() == Statistics.empty(encoder.space)
    else:
        assert total.snapshot() == found


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*KINDS, *BY_CLASS[:2]])
def test_a_forged_file_takes_no_more_memory_than_a_true_one(kind):
    generator = np.random.default_rng(8)
    bases, most = true_statistics(kind, 0, widen=12), {}
    for encoder, true in bases:
        # Of few samples and of many, as many as make the gram travel whole.
        many = suiting_features(encoder.feature_dim, true.dim, generator)
        whole = count(encoder, many, np.arange(true.dim) % 3)
        files = [encode(statistics) for statistics in (true, whole)]
        most[encoder] = max(peak(encoder, data) for data in files)
    for encoder, data in forgeries(generator, bases, 150):
        assert peak(encoder, data) <= 1.5 * most[encoder]


def peak(encoder, data):
    accepted(encoder, data)
    return peak_of(lambda: accepted(encoder, data))


# --- Other files ------------------------------------------------------------------------------


def published(kind, seed):
    """A small release of a kind, and its encoder."""
    generator = np.random.default_rng(seed)
    encoder = publishable_encoder(kind, fixed_calibration(3))
    total = count(encoder, generator.normal(size=(40, 3)), generator.integers(0, 3, 40))
    plan = plan_noise(encoder.layout, 2, 1e-5, calibration="public")
    return encoder, publish(total, plan, [0, 1, 2], draw=partial(draw_noise_of, generator))


def draw_noise_of(generator, size, scale):
    return np.rint(generator.normal(0, scale, size)).astype(np.int64)


def other_file(name):
    """A true value, its reader, its writer and its oracle."""
    if name == "histogram":
        features = np.random.default_rng(0).normal(size=(30, 3))
        value = Histogram.empty(-2, 2, 3, bins=6).count(features)
        return value, partial(decode, value_type=Histogram), encode, impossible_histogram
    if name == "evaluation":
        data = fixed_data("linear", 50)
        value = evaluate(Model.of(data.encoder, solve(data.count())), data.features, data.labels)
        return value, partial(decode, value_type=Evaluation), encode, impossible_evaluation
    encoder, value = published(name, 3)
    return (
        value,
        partial(partial(decode, value_type=NoisyStatistics), space=encoder.space),
        encode,
        impossible_noisy,
    )


@pytest.mark.parametrize("name", ["histogram", "evaluation", *KINDS])
@pytest.mark.parametrize("files", [100, pytest.param(OTHER_FILES, marks=pytest.mark.slow)])
def test_forged_file_that_is_accepted_has_one_text_and_is_possible(name, files):
    """Histograms, evaluation counts, and noisy sums of every kind of encoder."""
    generator, taken = np.random.default_rng(5), 0
    value, read, write, wrong_with = other_file(name)
    assert not wrong_with(value)
    base = Forgery.of(write(value))
    for _ in range(files):
        data = forge(generator, base).to_bytes()
        try:
            found = read(data)
        except (WireError, EncoderMismatch):
            continue
        taken += 1
        assert not wrong_with(found)
        assert write(found) == data
        if write is encode and taken % 8 == 1:
            # Whatever the noise is said to be: a model of finite weights, or a typed error.
            with suppress(SafleError):
                assert np.isfinite(solve(found).weights).all()
    assert 0 < taken < files


SIZES = [0, 1, 300, 3_000, 40_000, 2**20, 2**20 + 1, 2**31, 2**40, 2**63]
LIMIT = 20_000_000


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_forged_sizes_never_exceed_the_memory_limit(kind):
    """Peak memory within 1.5 times the limit, whatever header and sections say."""
    generator = np.random.default_rng(6)
    _, release = published(kind, 4)
    files = [(partial(decode, value_type=NoisyStatistics), Forgery.of(encode(release)))]
    files += [(decode, Forgery.of(encode(s))) for _, s in true_statistics(kind, 2)]
    for _ in range(300):
        read, base = files[generator.integers(len(files))]
        forged = base.copy()
        claim_size(generator, forged)
        data = forged.to_bytes()
        with at_most(1.5 * LIMIT), suppress(WireError):
            read(data, limit=LIMIT)


def claim_size(generator, forged):
    """Many columns, codes, classes or bytes, which the file need not have."""
    header, layout = forged.header, forged.header["layout"]
    size = int(generator.choice(np.array(SIZES, object)))
    match generator.integers(5):
        case 0:
            dense = {"name": "linear", "columns": size, "scale": 64, "low": -9, "high": 9}
            header["layout"] = [block for block in layout if "rows" in block] + [dense]
        case 1:
            rows = int(generator.choice([2, 16, 65_536]))
            tables = {"name": "tables", "columns": size, "rows": rows}
            header["layout"] = [tables] + [block for block in layout if "rows" not in block]
        case 2:
            header["classes"] = [*range(min(size, 40_000))]
        case 3 if "seen" in header:
            header["seen"] = size
        case _:
            name = str(generator.choice([*forged.sections]))
            forged.sections[name] = bytes(min(size, 2**24))
