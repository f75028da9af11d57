"""Files with a correct checksum and digest whose content lies: `WireError`, cheaply."""

from __future__ import annotations

from dataclasses import replace

import pytest
import zstandard

from safle import Model, Statistics, decode, encode, solve
from safle.errors import EncoderMismatch, WireError
from support.data_sets import KINDS, fixed_data, repeated
from support.forging import Forgery, refuse

NONSENSE = [None, True, -1, 0.5, 1e400, 2**70, "x", [], [[]], {}, {"a": 1}]


@pytest.fixture(params=[*KINDS, "histogram", "noisy", "evaluation"])
def lying(request, files):
    """A true file, taken apart; and that it is refused as it was changed."""
    data, decode = files[request.param]
    forged = Forgery.of(data)
    return forged, lambda match=None: refuse(forged.to_bytes(), match, decode)


def test_every_section_must_have_its_size(lying):
    forged, refused = lying
    for name, content in list(forged.sections.items()):
        for lie in (content[:-1], content + b"\0", b"", b"\0" * 4_000_000):
            if lie != content:
                forged.sections[name] = lie
                refused()
        forged.sections[name] = content


def test_wire_sections_may_not_be_missing_added_renamed_or_moved(lying):
    forged, refused = lying
    true = dict(forged.sections)
    for name in true:
        forged.sections = {k: v for k, v in true.items() if k != name}
        refused()
        forged.sections = {("other" if k == name else k): v for k, v in true.items()}
        refused()
    for name in ("other", "", "cross "):
        forged.sections = {**true, name: b""}
        refused()
    if len(true) > 1:
        forged.sections = dict(reversed(true.items()))
        refused()


def test_every_header_field_must_make_sense(lying):
    forged, refused = lying
    for name, value in list(forged.header.items()):
        for lie in NONSENSE:
            forged.header[name] = lie
            refused()
        del forged.header[name]
        refused()
        forged.header[name] = value
    forged.header["other"] = 1
    refused("other")


def test_planes_must_be_the_fewest_that_hold_the_values(lying):
    forged, refused = lying
    true = forged.copy()
    arrays = true.header["planes"]
    for name in arrays:
        for more in (1, 2):
            forged.put(name, true.numbers(name), true.planes(name) + more)
            refused()
        forged.put(name, true.numbers(name))
        if arrays is not true.sections:
            for lie in (0, 9, 2**60, true.planes(name) - 1, *NONSENSE):
                forged.header["planes"][name] = lie
                refused()
            forged.header["planes"][name] = true.planes(name)


def test_frames_must_be_exactly_what_is_declared(lying):
    forged, refused = lying
    *_, (name, content) = forged.sections.items()
    silent = zstandard.ZstdCompressor(write_content_size=False).compress(content)
    for frame in (
        silent,
        zstandard.compress(content) + b"\0",
        zstandard.compress(content) + zstandard.compress(b"more"),
        zstandard.compress(content)[:-1],
        zstandard.compress(content + b"\0"),
        b"\0" * 40,
    ):
        forged.frames = {name: frame}
        refused()
    forged.frames = {}
    for size in (len(content) + 1, 10**18, 2**62, 10**400, 10**4000, -1, True, 1.5, "1", None):
        forged.raw_sizes = {name: size}
        refused()


CLASSES = [
    [2, 1, 0],
    [0, 0, 1],
    [0, 1, "2"],
    [0, 1],
    [0, 1, 2, 3],
    [0.0, 1.0, 2.0],
    [False, True, 2],
    [0, 1, 2**63],
    list(range(1000)),
    "abc",
]


def lie_of(place, **more):
    """The true layout of the table, with other fields in one block; None takes a field out."""
    layout = fixed_data("table").encoder.layout.to_json()
    layout[place] |= more
    layout[place] = {name: value for name, value in layout[place].items() if value is not None}
    return layout


LAYOUTS = [
    *(lie_of(0, rows=rows) for rows in (0, -1, True, 16.0, "2", [2], 65_537, 2**40, None)),
    *(lie_of(0, columns=columns) for columns in (0, -1, 1.0, 2**26, 2**40, [1])),
    *(lie_of(1, scale=scale) for scale in (0, 3, 65_536)),
    *(lie_of(1, columns=columns) for columns in (100_000, 2**26)),
    *(lie_of(1, low=low) for low in (-32_768, 2**40, 32_767, -1.0, None)),
    *(lie_of(2, low=low) for low in (63, 64.0, [64])),
    *(lie_of(3, name=name) for name in ("tables", "Random", "", "a" * 99, 5, None)),
    lie_of(0, scale=2),
    lie_of(0, by_class=True),
    lie_of(1, by_class=True),
    lie_of(1, other=1),
    # Tables behind dense columns, and a block in two pieces.
    lie_of(0)[1:] + lie_of(0)[:1],
    lie_of(0, columns=3) + lie_of(0)[1:],
    lie_of(0, columns=3)[:1] * 2 + lie_of(0)[1:],
    lie_of(0)[:1] * 20_000,
    [],
    {},
    "tables",
]
GRIDS = [
    ["0x1p+1", "-0x1p+1", 10],
    ["nan", "0x1p+1", 10],
    ["-inf", "0x1p+1", 10],
    ["0x1p99999", "0x1p+1", 10],
    ["-0x1p+1", "0x1p+1", True],
    ["-0x1p+1", "0x1p+1", 10.0],
    ["-0x1p+1", "0x1p+1", 11],
    ["-0x1p+1", "0x1p+1", 2**40],
    ["-2.0", "0x1p+1", 10],
    [" -0x1p+1", "0x1p+1", 10],
    [-2.0, 2.0, 10],
]
PROMISES = {
    "epsilon": [-1.0, "1", 1],
    "delta": [1.5],
    "releases": [0],
    "total_epsilon": [0.01],
    "calibration": ["histogram"],
    "more": [1],
}
LIES = [
    *(("table", ("classes",), lie) for lie in CLASSES),
    *(("table", ("fingerprint",), lie) for lie in ("", "ab" * 31, "AB" * 32, "zz" * 32, "ab" * 33)),
    *(("table", ("layout",), lie) for lie in LAYOUTS),
    *(("table", ("seen",), lie) for lie in (0, 1, 60, 2**26, 2**62)),
    *(("histogram", ("grid",), lie) for lie in GRIDS),
    *(("noisy", ("privacy", name), lie) for name, lies in PROMISES.items() for lie in lies),
    *(("noisy", ("classes",), lie) for lie in ([1, 0], [0, 1, 2])),
    ("noisy", ("layout", 0, "norm"), 2**40),
]


@pytest.mark.parametrize(("name", "place", "lie"), LIES)
def test_a_header_that_lies_is_refused(files, name, place, lie):
    data, decode = files[name]
    forged = Forgery.of(data)
    *way, last = place
    where = forged.header
    for key in way:
        where = where[key]
    where[last] = lie
    refuse(forged.to_bytes(), read=decode)


def test_the_bitmap_must_not_go_beyond_the_last_code():
    data = fixed_data("embedding", buckets=1, feature_dim=3, group_size=1)
    forged = Forgery.of(encode(data.count()))
    bitmap = forged.sections["codes"]
    assert len(bitmap) == 1
    for lie in (bitmap[0] ^ 0x81, bitmap[0] | 0x80):
        forged.sections["codes"] = bytes([lie])
        refuse(forged.to_bytes())


@pytest.mark.parametrize("one", [True, 1.0])
def test_a_layout_has_one_text(one):
    """In Python 1 equals true and 1.0: one contribution would have two digests."""
    data = fixed_data("linear")
    forged = Forgery.of(encode(data.count()))
    assert forged.header["layout"][1]["name"] == "linear"
    assert "columns" not in forged.header["layout"][1]
    forged.header["layout"][1]["columns"] = one
    with pytest.raises((WireError, EncoderMismatch), match="layout"):
        decode(forged.to_bytes(), space=data.encoder.space)


def test_a_layout_that_is_not_the_encoders_is_refused_when_used():
    data = fixed_data("linear")
    true = data.count()
    forged = Forgery.of(encode(Statistics.empty(fixed_data("embedding").encoder.space)))
    forged.header["fingerprint"] = true.fingerprint
    lie = decode(forged.to_bytes())
    for use in (lambda: true + lie, lambda: lie + true, lambda: true - lie):
        with pytest.raises(EncoderMismatch, match="layout"):
            use()
    other = fixed_data("embedding").count()
    liar = replace(other, space=replace(other.space, fingerprint=true.fingerprint))
    with pytest.raises(EncoderMismatch, match="layout"):
        Model.of(data.encoder, solve(liar, ridge=1.0))


@pytest.mark.parametrize("samples", [6, 200])
def test_impossible_class_sums_are_refused_before_products_are_decompressed(samples):
    statistics = fixed_data("linear", samples=samples, feature_dim=24).count()
    forged = Forgery.of(encode(statistics))
    *_, last = forged.sections
    forged.frames[last] = b"cannot be decompressed"
    cross = forged.numbers("cross")
    cross[0] = 2**40
    refuse(forged.put("cross", cross).to_bytes(), "class sums fit the encoder's range")


def test_counts_that_cancel_out_are_not_those_of_no_samples():
    forged = Forgery.of(encode(fixed_data("linear").count()))
    del forged.sections["products"]
    del forged.header["planes"]["products"]
    refuse(forged.put("counts", [7, -7, 0]).to_bytes(), "a listed class has no samples")


def test_entries_do_not_wrap_around_at_the_largest_counts():
    statistics = fixed_data("embedding", buckets=1, feature_dim=2, group_size=1).count()
    large = repeated(statistics, statistics.layout.most_samples // statistics.sample_count)
    forged = Forgery.of(encode(large))
    for value in range(2**31 - 600, 2**31 + 600, 7):
        with pytest.raises(WireError):
            decode(forged.put("products", [value]).to_bytes())


@pytest.mark.parametrize(
    "counts",
    [
        [[-1, 1] + [0] * 10] * 3,
        [[2**62] * 12] * 3,
        [[2**62] * 4 + [0] * 8] * 3,
        [[0] * 11] * 3,
        [[0] * 13] * 3,
        [[2**47] + [0] * 11] * 3,
        [[1] + [0] * 11] * 2 + [[0] * 12],
    ],
)
def test_histogram_counts_must_be_those_of_a_data_set(files, counts):
    data, decode = files["histogram"]
    refuse(Forgery.of(data).put("counts", counts).to_bytes(), read=decode)


def test_noisy_classes_have_samples(files):
    data, decode = files["noisy"]
    refuse(Forgery.of(data).put("counts", [0, 30]).to_bytes(), "less than one sample", decode)
