"""Damaged, foreign, newer and oversized files; histograms that lie; files that explode."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from safle.encoders import LinearEncoder
from safle.encoders.calibration import DeclaredRange
from safle.encoders.histogram import Grid, Histogram
from safle.errors import WireError
from safle.publishing import plan_noise, publish
from safle.statistics import count
from safle.wire import (
    decode_histogram,
    decode_noisy,
    decode_statistics,
    encode_histogram,
    encode_noisy,
    encode_statistics,
    read_histogram,
    read_noisy,
    read_statistics,
)
from safle.wire.container import VERSION
from support.data_sets import KINDS, fixed_data


@pytest.fixture(scope="module")
def files():
    """A true file of every kind of statistics, and its decoder."""
    features = np.random.default_rng(0).normal(size=(50, 3))
    encoder = LinearEncoder.publishable(DeclaredRange(-2, 2, feature_dim=3))
    total, plan = count(encoder, features, [0, 1] * 25), plan_noise(encoder.layout, 2, 1e-5)
    noisy = publish(total, plan, [0, 1], draw=lambda size, scale: np.full(size, int(scale)))
    true = {
        kind: (encode_statistics(fixed_data(kind).count()), decode_statistics) for kind in KINDS
    }
    histogram = encode_histogram(Histogram.of(features, Grid(-2, 2, 10)))
    return {
        **true,
        "histogram": (histogram, decode_histogram),
        "noisy": (encode_noisy(noisy), decode_noisy),
    }


@given(data=st.data())
def test_any_flipped_bit_is_found(files, data):
    encoded, decode = files[data.draw(st.sampled_from(sorted(files)))]
    damaged = bytearray(encoded)
    damaged[data.draw(st.integers(0, len(encoded) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(WireError):
        decode(bytes(damaged))


@given(data=st.data())
def test_any_truncation_or_extension_is_found(files, data):
    encoded, decode = files[data.draw(st.sampled_from(sorted(files)))]
    cut = data.draw(st.integers(0, len(encoded) - 1))
    more = data.draw(st.binary(min_size=1, max_size=40))
    for damaged in (encoded[:cut], encoded[cut + 1 :], encoded + more, more + encoded):
        with pytest.raises(WireError):
            decode(damaged)


@given(content=st.binary(max_size=300))
def test_foreign_files_are_refused(content):
    for decode in (decode_statistics, decode_histogram):
        with pytest.raises(WireError, match="not a safle file"):
            decode(content)


def test_other_versions_and_kinds_say_so(files, seal):
    for encoded, decode in files.values():
        body = bytearray(encoded[:-32])
        body[8] = VERSION + 1
        expected = f"version {VERSION + 1}; this safle reads version {VERSION}: upgrade"
        with pytest.raises(WireError, match=expected):
            decode(seal(bytes(body)))
        body[8], body[10] = VERSION, 77
        with pytest.raises(WireError, match="kind 77 file"):
            decode(seal(bytes(body)))


@pytest.mark.parametrize("size", [0, 1, 1 << 24, (1 << 24) + 1, (1 << 32) - 1])
def test_a_header_size_that_lies_is_refused(files, seal, at_most, size):
    for encoded, decode in files.values():
        body = bytearray(encoded[:-32])
        body[12:16] = size.to_bytes(4, "little")
        with at_most(1_000_000), pytest.raises(WireError):
            decode(seal(bytes(body)))


def test_a_digest_that_is_not_the_contents_is_refused(files, seal):
    for encoded, decode in files.values():
        body = bytearray(encoded[:-32])
        body[20] ^= 1
        with pytest.raises(WireError, match="another identity"):
            decode(seal(bytes(body)))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"null",
        b"[]",
        b"7",
        b'"sections"',
        b"{}",
        b'{"sections":null}',
        b'{"sections":[1]}',
        b'{"sections":[["a",1],["a",1]]}',
        b'{"sections":[["a",-1]]}',
        b'{"sections":[["a",9999999999999999999999]]}',
        b'{"sections":[["a",1e3]]}',
        b'{"sections":[[1,1]]}',
        b'{"sections":[],"sections":[]}',
        b'{"sections" : []}',
        b'{"x":NaN,"sections":[]}',
        b'{"sections":[],"x":"\\ud800"}',
        b'{"sections":[]}\0',
        b"\xff\xfe{\0}\0",
        b"[" * 100_000,
        b'{"sections":' * 50_000,
        b"9" * 10_000,
    ],
)
def test_a_header_that_is_not_one_is_refused(files, forge, at_most, text):
    for encoded, decode in files.values():
        forged = forge(encoded)
        forged.text = text or b" "
        with at_most(20_000_000), pytest.raises(WireError):
            decode(forged.to_bytes())


def test_a_header_has_one_text(files, forge):
    for encoded, decode in files.values():
        forged = forge(encoded)
        size = int.from_bytes(encoded[12:16], "little")
        header = json.loads(encoded[48 : 48 + size])
        for text in (
            json.dumps(header, sort_keys=True).encode(),
            json.dumps(header, separators=(",", ":")).encode() + b" ",
            json.dumps(dict(reversed(header.items())), separators=(",", ":")).encode(),
            json.dumps(header, sort_keys=True, separators=(",", ":")).encode("utf-16"),
        ):
            forged.text = text
            with pytest.raises(WireError):
                decode(forged.to_bytes())


NONSENSE = [None, True, -1, 0, 0.5, 2**70, "x", [], {}, ["0x0p+0", "0x1p+0"]]


def test_histogram_headers_must_make_sense(files, forge, at_most):
    forged = forge(files["histogram"][0])
    for name, value in list(forged.header.items()):
        for lie in NONSENSE:
            forged.header[name] = lie
            with at_most(2_000_000), pytest.raises(WireError):
                decode_histogram(forged.to_bytes())
        forged.header[name] = value
    low, high, bins = forged.header["grid"]
    for grid in (
        [high, low, bins],
        ["nan", high, bins],
        ["-inf", high, bins],
        ["0x1p99999", high, bins],
        [low, high, True],
        [low, high, float(bins)],
        [low, high, bins + 1],
        [low, high, 2**40],
        ["-2.0", high, bins],
        [" " + low, high, bins],
        [-2.0, 2.0, bins],
    ):
        forged.header["grid"] = grid
        with at_most(2_000_000), pytest.raises(WireError):
            decode_histogram(forged.to_bytes())


@pytest.mark.parametrize(
    "counts",
    [
        [-1, 1] + [0] * 10,
        [2**62] * 12,
        [2**62] * 4 + [0] * 8,
        [0] * 11,
        [0] * 13,
        [2**47] + [0] * 11,
    ],
)
def test_histogram_counts_must_be_those_of_a_data_set(files, forge, planes, counts):
    forged = forge(files["histogram"][0])
    forged.header["planes"], forged.sections["counts"] = planes([counts] * 3)
    with pytest.raises(WireError):
        decode_histogram(forged.to_bytes())


def test_histogram_features_must_agree(files, forge, planes):
    forged = forge(files["histogram"][0])
    forged.header["planes"], forged.sections["counts"] = planes([[1] + [0] * 11] * 2 + [[0] * 12])
    with pytest.raises(WireError, match="different numbers of samples"):
        decode_histogram(forged.to_bytes())
    forged.header["planes"], forged.sections["counts"] = planes([[1] + [0] * 11] * 3, 4)
    with pytest.raises(WireError):
        decode_histogram(forged.to_bytes())


def test_errors_begin_with_the_files_name(files, tmp_path):
    readers = {"histogram": read_histogram, "noisy": read_noisy}
    for name, (encoded, _) in files.items():
        read = readers.get(name, read_statistics)
        path = tmp_path / f"{name}.safle"
        path.write_bytes(encoded[:-1])
        with pytest.raises(WireError, match=name + r"\.safle"):
            read(path)


READER = """
import resource, sys
from pathlib import Path
from safle.errors import WireError
from safle.wire import decode_histogram, decode_noisy, decode_statistics
readers = {"histogram": decode_histogram, "noisy": decode_noisy}
true = Path(sys.argv[1]).read_bytes()
decode_statistics(true)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for bomb in sys.argv[2:]:
    kind, _, _ = Path(bomb).name.partition("-")
    try:
        readers.get(kind, decode_statistics)(Path(bomb).read_bytes())
    except WireError:
        continue
    raise SystemExit(f"{bomb} was accepted")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def zeros(size):
    """A frame of ``size`` zeros: a few thousandths of a percent of it."""
    compressor = zstandard.ZstdCompressor(level=1).compressobj(size=size)
    block = bytes(1 << 20)
    return b"".join([*(compressor.compress(block) for _ in range(size >> 20)), compressor.flush()])


def test_a_small_file_that_unfolds_to_a_gigabyte_is_refused_without_unfolding_it(
    files, forge, tmp_path
):
    size = 1 << 30
    frame = zeros(size)
    assert len(frame) < 200_000
    (tmp_path / "true").write_bytes(files["table"][0])
    bombs = []
    for kind, (encoded, _) in files.items():
        for name in [*forge(encoded).sections, "other"]:
            forged = forge(encoded)
            forged.sections[name] = b""
            forged.frames, forged.raw_sizes = {name: frame}, {name: size}
            bombs.append(tmp_path / f"{kind}-{name}")
            bombs[-1].write_bytes(forged.to_bytes())
    done = subprocess.run(
        [sys.executable, "-c", READER, tmp_path / "true", *bombs],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    kilobytes = int(done.stdout)
    assert kilobytes * (1 if sys.platform == "darwin" else 1024) < 200_000_000
