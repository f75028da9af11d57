"""Files with a correct checksum and digest whose content lies: `WireError`, cheaply."""

from __future__ import annotations

from dataclasses import replace

import pytest
import zstandard

from safle.errors import EncoderMismatch
from safle.model import Model
from safle.solver import solve
from safle.statistics import Statistics
from safle.wire import container, decode_statistics, encode_statistics
from support.data_sets import KINDS, fixed_data
from support.forging import numbers_of

NONSENSE = [None, True, -1, 0.5, 1e400, 2**70, "x", [], [[]], {}, {"a": 1}]


@pytest.fixture(params=KINDS)
def forged(request, forge):
    """A true file, taken apart."""
    return forge(encode_statistics(fixed_data(request.param).count()))


@pytest.fixture
def stack(forge):
    return forge(encode_statistics(fixed_data("table").count()))


def test_the_forger_can_make_a_true_file(forged):
    data = forged.to_bytes()
    statistics = decode_statistics(data)
    assert data == encode_statistics(statistics)
    assert data == container.to_bytes(1, forged.header, forged.sections)


def test_every_section_must_have_its_size(forged, refuses):
    for name, content in list(forged.sections.items()):
        for lie in (content[:-1], content + b"\0", b"", b"\0" * 4_000_000):
            if lie != content:
                forged.sections[name] = lie
                refuses(forged.to_bytes())
        forged.sections[name] = content


def test_no_section_may_be_missing_added_renamed_or_moved(forged, refuses):
    true = dict(forged.sections)
    for name in true:
        forged.sections = {k: v for k, v in true.items() if k != name}
        refuses(forged.to_bytes())
        forged.sections = {("other" if k == name else k): v for k, v in true.items()}
        refuses(forged.to_bytes())
    for name in ("other", "", "cross "):
        forged.sections = {**true, name: b""}
        refuses(forged.to_bytes())
    forged.sections = dict(reversed(true.items()))
    refuses(forged.to_bytes())


def test_every_header_field_must_make_sense(forged, refuses):
    for name, value in list(forged.header.items()):
        for lie in NONSENSE:
            forged.header[name] = lie
            refuses(forged.to_bytes())
        del forged.header[name]
        refuses(forged.to_bytes())
        forged.header[name] = value
    forged.header["other"] = 1
    refuses(forged.to_bytes(), "header")


def test_planes_must_be_the_fewest_that_hold_the_values(forged, refuses, planes):
    for name, count in list(forged.header["planes"].items()):
        content, values = forged.sections[name], numbers_of(forged, name).tolist()
        for lie in (0, 17, 2**60, count - 1, *NONSENSE):
            forged.header["planes"][name] = lie
            refuses(forged.to_bytes())
        for more in (count + 1, count + 2):
            forged.header["planes"][name], forged.sections[name] = planes(values, more)
            refuses(forged.to_bytes())
        forged.header["planes"][name], forged.sections[name] = count, content
    forged.header["planes"]["codes"] = 1
    refuses(forged.to_bytes())


@pytest.mark.parametrize(
    "names",
    [
        [2, 1, 0],
        [0, 0, 1],
        [0, 1, "2"],
        [0, 1],
        [0, 1, 2, 3],
        [0.0, 1.0, 2.0],
        [False, True, 2],
        [[0], [1], [2]],
        [0, 1, 2**63],
        [0, 1, None],
        list(range(1000)),
        {"0": 0},
        "abc",
    ],
)
def test_class_names_must_be_ascending_and_of_one_type(forged, refuses, names):
    forged.header["classes"] = names
    refuses(forged.to_bytes())


@pytest.mark.parametrize("value", ["", "ab" * 31, "AB" * 32, "zz" * 32, "ab" * 33])
def test_a_fingerprint_is_64_hexadecimal_digits(forged, refuses, value):
    forged.header["fingerprint"] = value
    refuses(forged.to_bytes(), "fingerprint")


@pytest.mark.parametrize(
    ("part", "lie"),
    [
        ("tables", [[65_537, 1]]),
        ("tables", [[65_536, 2**40]]),
        ("tables", [[1, 2**26]]),
        ("tables", [[65_536, 1024]]),
        ("tables", [[16, 1]] * 20_000),
        ("tables", [[0, 5]]),
        ("tables", [[16, 0]]),
        ("tables", [[16, -1]]),
        ("tables", [[16.0, 5]]),
        ("tables", [[True, 5]]),
        ("tables", [[16]]),
        ("tables", [16, 5]),
        ("dense", [[256, 2**26]]),
        ("dense", [[256, 100_000]]),
        ("dense", [[3, 7]]),
        ("dense", [[65_536, 7]]),
        ("limits", []),
        ("limits", [[[-32767, 32767], 6]]),
        ("limits", [[[-32767, 32767], 8]]),
        ("limits", [[[-32768, 32767], 6], [[256, 256], 1]]),
        ("limits", [[[5, 4], 6], [[256, 256], 1]]),
        ("limits", [[[-32767, 32767], 6], [[255, 255], 1]]),
        ("limits", [[[-32767, 32767], 6], [[256.0, 256], 1]]),
        ("limits", [[[-32767], 6], [[256, 256], 1]]),
        ("limits", [[-32767, 6], [[256, 256], 1]]),
        ("limits", [[[-32767, 32767], 2**40]]),
        ("other", []),
    ],
)
def test_a_layout_must_be_possible_and_that_of_the_sections(stack, refuses, part, lie):
    stack.header["layout"][part] = lie
    refuses(stack.to_bytes())


def test_a_layout_has_one_form(stack, refuses):
    (size, times), *rest = stack.header["layout"]["tables"]
    stack.header["layout"]["tables"] = [[size, 1], [size, times - 1], *rest]
    refuses(stack.to_bytes(), "shortest form")


@pytest.mark.parametrize("seen", [0, 1, 60, 2**26, 2**62])
def test_the_number_of_seen_codes_must_be_that_of_the_bitmap(stack, refuses, seen):
    stack.header["seen"] = seen
    refuses(stack.to_bytes())


def test_the_bitmap_must_not_go_beyond_the_last_code(forge, refuses):
    data = fixed_data("embedding", buckets=1, feature_dim=3, group_size=1)
    forged = forge(encode_statistics(data.count()))
    bitmap = forged.sections["codes"]
    assert len(bitmap) == 1
    forged.sections["codes"] = bytes([bitmap[0] ^ 0x81])
    refuses(forged.to_bytes())
    forged.sections["codes"] = bytes([bitmap[0] | 0x80])
    refuses(forged.to_bytes())


def test_a_layout_that_is_not_the_encoders_is_refused_when_used(forge):
    data = fixed_data("linear")
    true = data.count()
    forged = forge(encode_statistics(Statistics.empty(fixed_data("embedding").encoder.space)))
    forged.header["fingerprint"] = true.fingerprint
    lie = decode_statistics(forged.to_bytes())
    for use in (lambda: true + lie, lambda: lie + true, lambda: true - lie):
        with pytest.raises(EncoderMismatch, match="layout"):
            use()
    other = fixed_data("embedding").count()
    liar = replace(other, space=replace(other.space, fingerprint=true.fingerprint))
    with pytest.raises(EncoderMismatch, match="layout"):
        Model(data.encoder, solve(liar, ridge=1.0))


def test_frames_must_be_exactly_what_is_declared(forged, refuses):
    content = forged.sections["counts"]
    silent = zstandard.ZstdCompressor(write_content_size=False).compress(content)
    for frame in (
        silent,
        zstandard.compress(content) + b"\0",
        zstandard.compress(content) + zstandard.compress(b"more"),
        zstandard.compress(content)[:-1],
        zstandard.compress(content + b"\0"),
        b"\0" * 40,
    ):
        forged.frames = {"counts": frame}
        refuses(forged.to_bytes())
    forged.frames = {}
    for size in (len(content) + 1, 2**62, -1, True, 1.5, "1", None):
        forged.raw_sizes = {"counts": size}
        refuses(forged.to_bytes())
