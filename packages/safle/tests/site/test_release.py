"""What leaves: its sheets, and the logs."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from safle import LinearEncoder, Model, count, declared_range, encode, solve
from safle.basics.paths import BESIDE
from safle.errors import PolicyRefused, SafleWarning, StoreError
from safle.server.card import write_card
from safle.server.summing import sum_files
from safle.site.log import read_log
from safle.site.policy import Policy
from safle.site.release import Release
from safle.site.sheet import CLASSES_SHOWN, release_sheet, sheet_text, write_release
from safle.statistics.histogram import Histogram
from support.data_sets import fixed_data

DATA = fixed_data("table", 60)
BYTES = encode(DATA.count())


@pytest.fixture
def log(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("SAFLE_LOG", str(tmp_path / "state" / "log.jsonl"))
    return tmp_path / "state" / "log.jsonl"


@pytest.fixture
def contribution(tmp_path, log) -> Path:
    statistics = DATA.part(slice(0, 40)).count()
    path = tmp_path / "a.stats"
    data, note = write_release(statistics, Release.of(statistics), path, Policy())
    assert data == path.read_bytes()
    assert note == ""
    return path


def beside(path: Path, end: str) -> Path:
    return path.with_name(path.name + end)


def text_of(release: Release, policy: Policy | None = None) -> str:
    return sheet_text("a.stats", release_sheet(release, policy, "a.stats", BYTES))


def test_sheets_say_what_leaves_and_tell_it_from_others(contribution):
    text = beside(contribution, ".release.txt").read_text()
    sheet = json.loads(beside(contribution, ".release.json").read_text())
    digest = hashlib.sha256(contribution.read_bytes()).hexdigest()
    for said in (
        digest,
        DATA.encoder.fingerprint,
        "40 samples",
        "everybody who",
        "safle ",
    ):
        assert said in text
    # What programs read is what people read.
    assert sheet_text("a.stats", sheet) == text
    # A folder of contributions is still summed: the sheets are not taken for any.
    total = contribution.parent / "total"
    sum_files([contribution.parent / "a.stats"], total)
    folder = contribution.parent / "clients"
    folder.mkdir()
    for path in (contribution, *(beside(contribution, end) for end in BESIDE[:2])):
        path.rename(folder / path.name)
    assert sum_files([folder], total)[1] == 1


def test_a_sheet_and_a_card_agree_on_what_is_not_known():
    statistics = fixed_data("linear", 900).count()
    text = text_of(Release.of(statistics))
    encoder = LinearEncoder.calibrated(declared_range(0, 1, feature_dim=1))
    solution = solve(count(encoder, [[0.1], [0.2], [0.8], [0.9]], [0, 0, 1, 1]))
    card = write_card(Model.of(encoder, solution), mode="plain")
    for page in (text, card):
        assert "can reconstruct samples" in page
        assert "the attack that we ran reconstructed" in page
        assert "hides" not in page
    assert "reconstructed 0 of 900" in text
    assert re.search(r"cells +3 counts, 0 of them of fewer than 10 samples", text)
    assert re.search(r"independent columns +7; different samples: 900", text)
    assert "images" not in text


def test_names_of_classes_cannot_break_a_sheet():
    names = {"a\nb": 5, "c" * 500: 5}
    names |= {f"class {number}": 5 for number in range(1_000)}
    text = text_of(Release("statistics", 5_010, 9, names))
    assert f"{1_002 - CLASSES_SHOWN} more classes" in text
    # One page of A4 has room for so many lines of so many characters.
    lines = text.splitlines()
    assert len(lines) < 60
    assert max(map(len, lines)) < 130


def test_masked_sheet_names_keyholders_and_broken_rules():
    release = Release("statistics", 50, 9, {"ill": 50}, masked=True,
                      keyholders={"board": "k1" * 32}, least_clients=3, epsilon=2.0)  # fmt: skip
    text = text_of(release, Policy(least_clients=5))
    assert "nobody: it is masked" in text
    assert "at least 3 clients, with noise of epsilon 2, opened by the keyholder" in text
    assert "board (k1k1k1k1k1k1…)" in text
    assert "Samples of each class, which the file does not show" in text
    assert "broken: 3; expected at least 5" in text


def test_release_logs_and_a_refusal_writes_nothing(contribution, log):
    statistics = DATA.count()
    output = contribution.with_name("b.stats")
    with pytest.raises(PolicyRefused):
        write_release(statistics, Release.of(statistics), output, Policy("masked"))
    assert not [*output.parent.glob("b.stats*")]
    histogram = Histogram.empty(0, 1, 2, bins=4).count([np.zeros((3, 2))])
    with pytest.warns(SafleWarning, match="2 of them of fewer than 10 samples"):
        write_release(histogram, Release.of(histogram), contribution.with_name("h"))
    sent, accepted, refused, last = read_log(log)
    assert (accepted["event"], accepted["sha256"]) == ("accepted", DATA.encoder.fingerprint)
    assert (sent["event"], sent["note"]) == ("sent", "a.stats")
    assert sent["sha256"] == hashlib.sha256(contribution.read_bytes()).hexdigest()
    assert refused["event"] == "refused"
    assert refused["note"].startswith("b.stats: refused by the policy's mode")
    assert refused["sha256"] == hashlib.sha256(encode(statistics)).hexdigest()
    assert (last["event"], last["note"]) == ("sent", "h")


def test_an_encoder_or_a_model_that_is_new_here_is_named_until_it_was_accepted(contribution):
    def named(release, policy=None):
        path = contribution.with_name("b.stats")
        write_release(DATA.count(), replace(release, warns=False), path, policy)
        return re.findall(r"(encoder|model) +chosen by the coordinator; not accepted here before",
                          beside(path, BESIDE[0]).read_text())  # fmt: skip

    # The fixture's file has left already, with the same encoder.
    assert "not accepted here before" in beside(contribution, BESIDE[0]).read_text()
    assert named(Release.of(DATA.count())) == []
    new = Release("evaluation counts", 5, 2, encoder="e" * 64, model="m" * 64)
    pinned = replace(new, model="n" * 64)
    assert named(pinned, Policy(models=("n" * 64,), encoders=("e" * 64,))) == []
    assert named(new) == ["model"]
    assert named(new) == []


def test_release_judges_what_a_mask_returns(contribution):
    def before(value, release):
        assert value == DATA.count()
        return BYTES[::-1], replace(release, masked=True, warns=False), "turned round"

    output = contribution.with_name("b.stats")
    plain = Release.of(DATA.count())
    data, note = write_release(DATA.count(), plain, output, Policy("masked"), before)
    assert data == output.read_bytes() == BYTES[::-1]
    assert note == "turned round"
    with pytest.raises(PolicyRefused, match="least_clients"):
        write_release(DATA.count(), plain, output, Policy(least_clients=3), before)


def test_nothing_leaves_where_the_log_cannot_be_written(contribution, log, monkeypatch):
    monkeypatch.setenv("SAFLE_LOG", str(contribution / "log.jsonl"))
    output = contribution.with_name("b.stats")
    with pytest.raises(StoreError, match="name another with \\$SAFLE_LOG"):
        write_release(DATA.count(), Release("statistics", 1, 1), output)
    assert not output.exists()


def test_log_names_another_file(tmp_path):
    (tmp_path / "text").write_text("no log, whatever it says here\n")
    for name in ("text", "nothing"):
        with pytest.raises(StoreError, match=name):
            read_log(tmp_path / name)
