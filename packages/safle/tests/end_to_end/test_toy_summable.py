"""A value that adds up is one module: one that a stranger registers goes everywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from safle import Policy, Release, decode, encode, peek_file_type, read, sum_files, write
from safle.errors import (
    EncoderMismatch,
    InvalidInput,
    InvariantError,
    MissingExtra,
    PolicyRefused,
    SafleError,
    WireError,
)
from safle.site.sheet import write_release
from support.command import safle
from support.toy_summable import Visits

ZERO = Visits(most=30)
SITES = {"a": [1, 4, 2], "b": [0, 30], "c": [7, 7, 9, 12]}
TOTAL = ZERO.count([visits for site in SITES.values() for visits in site])


@pytest.fixture(autouse=True)
def _installed(tmp_path_factory, monkeypatch):
    """A package that has nothing but the entry point is installed, for this file's tests alone."""
    place = tmp_path_factory.mktemp("site-packages")
    package = place / "visits-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: visits\nVersion: 1\n")
    named = "[safle.formats]\nvisits = support.toy_summable:FORMAT\n"
    (package / "entry_points.txt").write_text(named)
    monkeypatch.syspath_prepend(place)


@pytest.fixture
def folder(tmp_path):
    """Each site's file, with its sheets, as they leave."""
    for name, visits in SITES.items():
        value = ZERO.count(visits)
        write_release(value, Release.of(value), tmp_path / f"{name}.visits")
    return tmp_path


def test_files_come_back_and_add_up(folder):
    assert decode(encode(TOTAL), Visits) == TOTAL
    assert peek_file_type(folder / "a.visits") == "visits"
    shown = safle("sum", *(f"{name}.visits" for name in SITES), "-o", "total.out", folder=folder)
    assert "sum of visits" in shown.stdout
    assert read(folder / "total.out", Visits) == TOTAL
    assert (folder / "total.out").read_bytes() == encode(TOTAL)
    late = read(folder / "c.visits", "visits")
    assert (TOTAL - late) + late == TOTAL
    assert ZERO.add_all(map(ZERO.count, SITES.values())) == TOTAL


def test_inspect_and_the_release_sheet_show_it(folder):
    shown = safle("inspect", "c.visits", folder=folder).stdout
    assert "visits" in shown
    assert "35" in shown
    sheet = (folder / "c.visits.release.txt").read_text()
    assert f"plain visits: {ZERO.holds()}, over 4 samples" in sheet


def test_toy_summable_refuses_what_does_not_belong_together(folder):
    write(folder / "other.visits", Visits(most=9).count([3]))
    paths = [folder / "a.visits", folder / "other.visits"]
    with pytest.raises(EncoderMismatch, match=r"other\.visits"):
        sum_files(paths, folder / "total.out")
    said = safle("sum", *paths, "-o", "total.out", folder=folder, code=1).stderr
    assert "up to 30" in said
    twice = [folder / "a.visits", folder / "a.visits"]
    with pytest.raises(SafleError, match="already"):
        sum_files(twice, folder / "total.out")
    with pytest.raises(WireError, match="visits"):
        read(folder / "a.visits", "histogram")
    assert not (folder / "total.out").exists()


def test_every_damaged_byte_is_refused():
    data = encode(TOTAL)
    for at in range(len(data)):
        with pytest.raises(SafleError):
            decode(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], Visits)


def test_a_policy_judges_it(tmp_path):
    value = ZERO.count(SITES["a"])
    policy = Policy(least_samples=5)
    with pytest.raises(PolicyRefused, match="least_samples"):
        write_release(value, Release.of(value), tmp_path / "a.visits", policy)
    assert not (tmp_path / "a.visits").exists()
    write_release(TOTAL, Release.of(TOTAL), tmp_path / "all.visits", policy)
    # Nobody has looked for what hides in it: a site that limits cells does not let it out.
    with pytest.raises(PolicyRefused, match="not judged"):
        Policy(least_cell=2).check(Release.of(TOTAL))


def test_a_private_round_opens_its_sum_alone(tmp_path, monkeypatch):
    private = pytest.importorskip("safle_private")
    from safle_private.release import prepare

    monkeypatch.chdir(tmp_path)
    keys = {name: private.PrivateKey.new(name) for name in (*SITES, "board", "operator")}
    for name, key in keys.items():
        key.save(Path(f"{name}.key"))
    keys["operator"].public.save(Path("operator.pub"))
    declared = private.declare_round(
        keys["operator"],
        ZERO,
        1000,
        clients=[keys[name].public for name in SITES],
        keyholders=[keys["board"].public],
    )
    Path("round.private").write_bytes(declared.data)
    named = ["--round", "round.private", "--operator", "operator.pub"]
    for name, visits in SITES.items():
        value = ZERO.count(visits)
        paths = map(Path, ("round.private", "operator.pub", f"{name}.key"))
        before = prepare(dict(zip(("round_path", "operator_path", "key_path"), paths, strict=True)))
        policy = Policy(mode="masked", least_cell=2)
        out = tmp_path / f"{name}.masked"
        write_release(value, Release.of(value, attacked=False), out, policy, before)
        assert "masked visits" in Path(f"{name}.masked.release.txt").read_text()
    masked = [f"{name}.masked" for name in SITES]
    safle("private", "sum", *masked, *named, "--request", "request.ask", "-o", "sum.masked")
    history = ["--history", "history", "--new-history", "--yes"]
    asked = ["request.ask", *named, "--key", "board.key", *history]
    safle("private", "answer", *asked, "-o", "board.answer")
    shown = safle("private", "open", "sum.masked", "board.answer", *named, "-o", "total.visits")
    assert "visits" in shown.stdout
    assert Path("total.visits").read_bytes() == encode(TOTAL)


def test_a_sum_that_nobody_can_have_counted_is_refused():
    with pytest.raises(InvariantError):
        ZERO.from_vector(TOTAL.to_vector(ZERO) * [1, 100])


def test_toy_summable_is_unknown_without_its_package(monkeypatch, tmp_path):
    write(tmp_path / "a.visits", TOTAL)
    monkeypatch.setattr("safle.wire.container.entry_points", lambda **_: ())
    monkeypatch.setattr("safle.wire.formats.entry_points", lambda **_: ())
    assert peek_file_type(tmp_path / "a.visits") is None
    with pytest.raises(InvalidInput, match="installed package"):
        read(tmp_path / "a.visits", "visits")
    with pytest.raises(MissingExtra, match="safle-private"):
        read(tmp_path / "a.visits", "masked sum")
    with pytest.raises(WireError, match="type 1000"):
        sum_files([tmp_path / "a.visits"], tmp_path / "total")
