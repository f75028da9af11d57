"""A stranger's reader, written from docs/wire-format.md alone, in plain Python."""

from __future__ import annotations

import hashlib
import json
import re
import struct
from fractions import Fraction
from itertools import combinations_with_replacement, product
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from safle import count, declared_range, encode, make_encoder
from safle.statistics.histogram import Histogram
from safle.wire import container
from support.data_sets import BY_CLASS, KINDS, TABLE_KINDS, data_sets, fixed_data, repeated

PAGE = Path(__file__).parents[4] / "docs" / "wire-format.md"


def test_the_page_has_every_type_of_file_and_every_key_of_its_header():
    text = PAGE.read_text()
    (types,) = re.findall(r"type: (.*) \|", text)
    assert [int(number) for number in re.findall(r"(\d+) [a-z]", types)] == [*container.FILE_TYPES]
    named = Histogram.empty([0, 0], [1, 1], names=["age", "dose"], bins=2).count(np.zeros((1, 2)))
    (page,) = re.findall(r"## Type 2: histogram\n(.*?)\n## ", text, re.DOTALL)
    _, header, _ = open_container(encode(named))
    assert {"sections", *re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)} == {*header}


def test_the_example_of_the_page_is_what_is_written():
    (shown,) = re.findall(r"```text\n(8953.*?)```", PAGE.read_text(), re.DOTALL)
    start, text, *rows = shown.splitlines()
    encoder = make_encoder(declared_range(0, 1, feature_dim=2), "linear")
    data = encode(count(encoder, [[0.1, 0.9], [0.8, 0.3]], ["ill", "well"]))
    _, header, sections = open_container(data)
    assert data[:16].hex() == "".join(start.split()[:5])
    assert data[48 : 48 + len(text)].decode() == text
    for row in rows:
        name, *planes = re.findall(r"^\w+|(?<= )[0-9a-f]{4,}(?= )", row)
        assert sections[name].hex() == "".join(planes)
        values = read_integers(sections[name], header["planes"][name])
        assert [int(number) for number in re.findall(r"(?<= )-?\d+(?=[,;]|$)", row)] == values


def open_container(data):
    magic, version, file_type, size = struct.unpack_from("<8sHHI", data)
    assert (magic, version) == (b"\x89SAFLE\r\n", 4)
    assert hashlib.sha256(data[:-32]).digest() == data[-32:]
    header = json.loads(data[48 : 48 + size].decode())
    at = 48 + size
    lengths = struct.unpack_from(f"<{len(header['sections'])}Q", data, at)
    at += 8 * len(lengths)
    digest = hashlib.sha256(struct.pack("<HHI", version, file_type, size) + data[48 : 48 + size])
    sections = {}
    for (name, raw), length in zip(header["sections"], lengths, strict=True):
        sections[name] = zstandard.decompress(data[at : at + length])
        assert len(sections[name]) == raw
        digest.update(sections[name])
        at += length
    assert at == len(data) - 32
    assert digest.digest() == data[16:48]
    return file_type, header, sections


def read_integers(raw, planes):
    count = len(raw) // planes
    unsigned = [sum(raw[p * count + i] << 8 * p for p in range(planes)) for i in range(count)]
    return [u // 2 if u % 2 == 0 else -(u + 1) // 2 for u in unsigned]


def read_statistics(data):
    """(codes, gram, cross, class counts, class grams) of a file, all as plain numbers."""
    file_type, header, sections = open_container(data)
    assert file_type == 1
    planes = header["planes"]
    columns = [block for block in header["layout"] for _ in range(block.get("columns", 1))]
    tables = [block["rows"] for block in columns if "rows" in block]
    dense = columns[len(tables) :]
    F = len(dense)
    K = len(header["classes"])
    codes = [i for i in range(sum(tables)) if sections["codes"][i // 8] >> i % 8 & 1]
    S = len(codes)
    assert header["seen"] == S
    counts = read_integers(sections["counts"], planes["counts"])
    assert header["samples"] == sum(counts)
    cross = np.array(read_integers(sections["cross"], planes["cross"]), object).reshape(S + F, K)
    borders = np.cumsum([0, *tables])
    owner = [int(np.searchsorted(borders, code, side="right")) - 1 for code in codes]
    gram = np.zeros((S + F, S + F), object)
    limits = [(block.get("low", 0), block.get("high", 1)) for block in dense]
    counted = [f for f, block in enumerate(dense) if block.get("by_class")]
    grams = read_classes(header, sections, cross[S:], limits, counts, counted)
    if header["form"] == "columns":
        bits = basis_bits(sections["basis"], S + F, limits, sum(counts))
        values = iter(read_integers(sections["sums"], planes["sums"]))
        gram = read_columns(bits, values, cross, owner, limits, sum(counts))
    elif header["form"] == "classes":
        gram = sum(grams, gram)
    elif sum(counts):
        values = iter(read_integers(sections["products"], planes["products"]))
        gram = read_products(values, cross, owner, limits)
    return codes, gram, cross, counts, grams


def read_classes(header, sections, cross, limits, counts, counted):
    if not counted or not sum(counts):
        return []
    limits, cross, grams = [limits[f] for f in counted], cross[counted], []
    d, basis = len(counted), sections["class_basis"]
    values = iter(read_integers(sections["class_sums"], header["planes"]["class_sums"]))
    for k, n in enumerate(counts):
        own = cross[:, k : k + 1]
        if sections["class_forms"][k // 8] >> k % 8 & 1:
            size = -(-candidates(d, limits, n) // 8)
            bits, basis = basis_bits(basis[:size], d, limits, n), basis[size:]
            grams.append(read_columns(bits, values, own, [], limits, n, 32))
            continue
        grams.append(read_products(values, own, [], limits, last=False))
    assert next(values, None) is None
    assert not basis
    return grams


def candidates(dim, limits, n):
    constants = sum(low == high for low, high in limits)
    return min(2 * n + 64, dim - max(constants - 1, 0))


def basis_bits(raw, dim, limits, n):
    assert len(raw) == -(-candidates(dim, limits, n) // 8)
    return [p for p in range(len(raw) * 8) if raw[p // 8] >> p % 8 & 1]


def read_products(values, cross, owner, limits, last=True):
    """The gram from its free products."""
    S, dim = len(owner), len(cross)
    totals = [int(sum(row)) for row in cross]
    constant = {S + f: low for f, (low, high) in enumerate(limits) if low == high}
    rows = {e: [i for i in range(S) if owner[i] == e] for e in sorted(set(owner))}
    first = {own[0]: own for own in rows.values()}
    free = [i for i in range(dim) if i not in constant and i not in first]
    gram = np.zeros((dim, dim), object)
    for i, j in combinations_with_replacement(free, 2):
        alike = j < S and owner[i] == owner[j]
        if not alike:
            gram[i, j] = gram[j, i] = next(values)
    assert not last or next(values, None) is None
    for i, c in constant.items():
        gram[i] = gram[:, i] = [c * total for total in totals]
    for i in range(S):
        gram[i, i] = totals[i]
    # Of each expert the first code is what the others leave: with free columns, then with firsts.
    for others in ([j for j in range(dim) if j not in first], [*first]):
        for i, j in product(first, others):
            if j >= S or owner[i] != owner[j]:
                gram[i, j] = gram[j, i] = totals[j] - sum(gram[k, j] for k in first[i][1:])
    return gram


def hashed(position):
    mask = 2**64 - 1
    state = 0x9E3779B97F4A7C15 * (position + 1) & mask
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & mask
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB & mask
    return state ^ (state >> 31)


def read_columns(places, values, cross, owner, limits, n, per_spare=1):
    """The gram that the columns of a file determine, by exact fractions."""
    S, dim = len(owner), len(cross)
    totals = [int(sum(row)) for row in cross]
    constant = {S + f for f, (low, high) in enumerate(limits) if low == high}
    width = {S + f: max(abs(low), abs(high)) for f, (low, high) in enumerate(limits)}
    order = sorted(constant)[:1]
    order += sorted(set(range(dim)) - constant, key=lambda i: (width.get(i, 1), hashed(i)))
    after, spare = places[-1] + 1, min(8, len(places) // per_spare)
    basis = [order[p] for p in places]
    chosen = [i for i in basis + order[after : after + spare] if i not in constant]
    column = {}

    def put(i, j, value):
        column[i, j] = value + totals[i] * totals[j] // n

    for at, i in enumerate(chosen):
        for j in chosen[at:]:
            put(i, j, next(values))
            column[j, i] = column[i, j]
    experts = sorted(set(owner))
    rows = {e: [i for i in range(S) if owner[i] == e] for e in experts}
    dropped = {e: rows[e][0] for e in experts}
    sent = set(range(dim)) - set(chosen) - constant - set(dropped.values())
    for i in sorted(sent):
        for j in chosen:
            put(i, j, next(values))
    for i, j in product(set(dropped.values()) - set(chosen), chosen):
        column[i, j] = totals[j] - sum(column[v, j] for v in rows[owner[i]] if v != i)
    for i, j in product(constant, range(dim)):
        column[i, j] = column[j, i] = limits[i - S][0] * totals[j]
    return complete_from(column, basis, dim)


def complete_from(column, basis, dim):
    """A inverse(A_B) A' of integers: Gauss-Jordan elimination on [A_B | A']."""
    rank = len(basis)
    work = [
        [Fraction(column[i, j]) for j in basis] + [Fraction(column[j, i]) for j in range(dim)]
        for i in basis
    ]
    for step in range(rank):
        pivot = next(k for k in range(step, rank) if work[k][step])
        work[step], work[pivot] = work[pivot], work[step]
        work[step] = [value / work[step][step] for value in work[step]]
        for k in range(rank):
            if k != step and work[k][step]:
                factor = work[k][step]
                work[k] = [a - factor * b for a, b in zip(work[k], work[step], strict=True)]
    gram = np.zeros((dim, dim), object)
    for i in range(dim):
        for j in range(dim):
            value = sum(column[i, b] * work[k][rank + j] for k, b in enumerate(basis))
            assert value.denominator == 1
            gram[i, j] = int(value)
    return gram


@given(data=st.data(), times=st.sampled_from([1, 1, 7, 1000, 123_456]))
@settings(max_examples=60)
def test_a_stranger_reads_the_same_statistics(data, times):
    statistics = repeated(data.draw(data_sets()).count(), times)
    codes, gram, cross, counts, grams = read_statistics(encode(statistics))
    assert codes == statistics.codes.tolist()
    assert counts == statistics.class_counts.tolist()
    assert cross.tolist() == statistics.cross.tolist()
    assert gram.tolist() == statistics.gram_square().tolist()
    assert [g.tolist() for g in grams] == [p.gram_square().tolist() for p in statistics.by_class]


@pytest.mark.parametrize("kind", TABLE_KINDS)
def test_a_stranger_reads_a_client_of_many_samples(kind):
    statistics = fixed_data(kind, samples=400).count()
    _, gram, *_ = read_statistics(encode(statistics))
    assert gram.tolist() == statistics.gram_square().tolist()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("samples", [1, 5])
def test_a_stranger_reads_a_client_of_few_samples(kind, samples):
    statistics = fixed_data(
        kind, samples=samples, feature_dim=10 if kind == "linear" else 6
    ).count()
    data = encode(statistics)
    assert (open_container(data)[1]["form"] == "columns") == (2 * samples + 8 <= statistics.dim)
    assert read_statistics(data)[1].tolist() == statistics.gram_square().tolist()


@pytest.mark.parametrize("kind", BY_CLASS)
@pytest.mark.parametrize("samples", [1, 5, 40])
def test_a_stranger_reads_grams_of_classes(kind, samples):
    statistics = fixed_data(kind, samples=samples, feature_dim=16).count()
    data = encode(statistics)
    forms = open_container(data)[2]["class_forms"]
    few = sum(1 << k for k, n in enumerate(statistics.class_counts) if 2 * n + 8 <= 17)
    assert forms == bytes([few])
    _, gram, *_, grams = read_statistics(data)
    assert gram.tolist() == statistics.gram_square().tolist()
    assert [g.tolist() for g in grams] == [p.gram_square().tolist() for p in statistics.by_class]


def test_a_stranger_reads_the_same_histogram():
    histogram = Histogram.empty(-1.5, 2.25, 3, bins=11).count(
        np.random.default_rng(0).normal(size=(300, 3))
    )
    file_type, header, sections = open_container(encode(histogram))
    low, high, bins = header["grid"]
    assert (file_type, header["features"], bins) == (2, 3, 11)
    assert (float.fromhex(low), float.fromhex(high)) == (-1.5, 2.25)
    counts = read_integers(sections["counts"], header["planes"]["counts"])
    assert counts == histogram.counts.ravel().tolist()
    each = Histogram.empty([-1.5, 0], [2.25, 64], bins=3).count(np.zeros((1, 2)))
    low, high, bins = open_container(encode(each))[1]["grid"]
    assert [[*map(float.fromhex, ends)] for ends in (low, high)] == [[-1.5, 0], [2.25, 64]]
