"""Files of every type that are damaged, foreign, newer or oversized, or that explode."""

from __future__ import annotations

import json
from functools import partial

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from safle import decode, read
from safle.errors import WireError
from safle.evaluation.counts import Evaluation
from safle.statistics.histogram import Histogram
from safle.wire.container import VERSION
from safle_private.noisy import NoisyStatistics
from support.forging import Forgery, at_most, refuse, sealed


@given(data=st.data())
def test_any_flipped_bit_is_found(files, data):
    encoded, opening = files[data.draw(st.sampled_from(sorted(files)))]
    damaged = bytearray(encoded)
    damaged[data.draw(st.integers(0, len(encoded) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(WireError):
        opening(bytes(damaged))


@given(data=st.data())
def test_any_truncation_or_extension_is_found(files, data):
    encoded, opening = files[data.draw(st.sampled_from(sorted(files)))]
    cut = data.draw(st.integers(0, len(encoded) - 1))
    more = data.draw(st.binary(min_size=1, max_size=40))
    for damaged in (encoded[:cut], encoded[cut + 1 :], encoded + more, more + encoded):
        with pytest.raises(WireError):
            opening(damaged)


@given(content=st.binary(max_size=300))
def test_foreign_files_are_refused(content):
    for opening in (decode, partial(decode, value_type=Histogram)):
        with pytest.raises(WireError, match="not a safle file"):
            opening(content)


@pytest.mark.parametrize(
    ("at", "lie", "said"),
    [
        (8, VERSION + 1, f"version {VERSION + 1}; this safle reads version {VERSION}: upgrade"),
        (10, 77, "type 77 file"),
        *((12, size, "header") for size in (0, 1, 1 << 24, (1 << 24) + 1, (1 << 32) - 1)),
        (20, 0, "the digest in the file"),
    ],
)
def test_a_prefix_that_lies_is_refused(files, at, lie, said):
    """Version, type, the header's size, and four bytes of the digest."""
    for encoded, opening in files.values():
        body = bytearray(encoded[:-32])
        size = 2 if at < 12 else 4
        body[at : at + size] = lie.to_bytes(size, "little")
        with at_most(1_000_000), pytest.raises(WireError, match=said):
            opening(sealed(bytes(body)))


@pytest.mark.parametrize(
    "text",
    [
        b" ",
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
def test_a_header_that_is_not_one_is_refused(files, text):
    for encoded, opening in files.values():
        forged = Forgery.of(encoded)
        forged.text = text
        with at_most(20_000_000), pytest.raises(WireError):
            opening(forged.to_bytes())


def test_a_header_has_one_text(files):
    for encoded, opening in files.values():
        forged = Forgery.of(encoded)
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
                opening(forged.to_bytes())


def test_errors_begin_with_the_files_name(files, tmp_path):
    readers = {
        "histogram": partial(read, value_type=Histogram),
        "noisy": partial(read, value_type=NoisyStatistics),
        "evaluation": partial(read, value_type=Evaluation),
    }
    for name, (encoded, _) in files.items():
        path = tmp_path / f"{name}.safle"
        path.write_bytes(encoded[:-1])
        with pytest.raises(WireError, match=name + r"\.safle"):
            readers.get(name, read)(path)


def zeros(size):
    """A frame of ``size`` zeros: a few thousandths of a percent of it."""
    compressor = zstandard.ZstdCompressor(level=1).compressobj(size=size)
    block = bytes(1 << 20)
    return b"".join([*(compressor.compress(block) for _ in range(size >> 20)), compressor.flush()])


def test_a_small_file_of_a_gigabyte_is_refused_before_it_is_decompressed(files):
    size = 1 << 30
    frame = zeros(size)
    assert len(frame) < 200_000
    for encoded, opening in files.values():
        for name in [*Forgery.of(encoded).sections, "other"]:
            forged = Forgery.of(encoded)
            forged.sections[name] = b""
            forged.frames, forged.raw_sizes = {name: frame}, {name: size}
            refuse(forged.to_bytes(), read=opening)
