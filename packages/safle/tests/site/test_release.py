"""What leaves: its sheets, the signature under them, the store that asks for one, and the logs."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from safle.encoders.histogram import Grid, Histogram
from safle.errors import ApprovalError, DuplicateContribution, PolicyRefused, StoreError
from safle.server.contribution import APPROVAL, PAGE, TEXT, Contribution
from safle.server.files import sum_files
from safle.server.store import Store
from safle.site.log import read_log, write_log
from safle.site.policy import Policy
from safle.site.release import Release
from safle.site.sheet import CLASSES_SHOWN, Sheet, write_release
from safle.wire import encode_statistics
from support.data_sets import fixed_data

pytest.importorskip("cryptography", reason="needs the extra private")
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric.ec import SECP384R1
from cryptography.hazmat.primitives.asymmetric.ec import (
    generate_private_key as new_ec_key,
)
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from safle.site.approval import (
    Approval,
    approve,
    check_approved,
    needs_password,
    parse_roster,
)

DATA = fixed_data("stack", 60)


@pytest.fixture
def log(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("SAFLE_LOG", str(tmp_path / "state" / "log.sqlite"))
    return tmp_path / "state" / "log.sqlite"


@pytest.fixture
def contribution(tmp_path, log) -> Path:
    statistics = DATA.part(slice(0, 40)).count()
    path = tmp_path / "a.stats"
    write_release(path, encode_statistics(statistics), Release.of(statistics), Policy())
    return path


def write_key(path: Path, *, style: str = "OpenSSH", password: bytes = b"", key=None) -> str:
    """A private key's file; the line of its public half."""
    key = key or Ed25519PrivateKey.generate()
    hidden = form.BestAvailableEncryption(password) if password else form.NoEncryption()
    path.write_bytes(
        key.private_bytes(form.Encoding.PEM, getattr(form.PrivateFormat, style), hidden)
    )
    public = key.public_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH)
    return public.decode() + " Dr. A. Officer"


def beside(path: Path, end: str) -> Path:
    return path.with_name(path.name + end)


def test_sheets_say_what_leaves_and_tell_it_from_others(contribution):
    text, page = (beside(contribution, end).read_text() for end in (TEXT, PAGE))
    digest = hashlib.sha256(contribution.read_bytes()).hexdigest()
    for said in (digest, DATA.encoder.fingerprint, "40 samples", "whoever receives it", "safle "):
        assert said in text
        assert said in page
    # A folder of contributions is still summed: the sheets are not taken for any.
    total = contribution.parent / "total"
    sum_files([contribution.parent / "a.stats"], total)
    folder = contribution.parent / "clients"
    folder.mkdir()
    for path in (contribution, *(beside(contribution, end) for end in (TEXT, PAGE))):
        path.rename(folder / path.name)
    assert len(sum_files([folder], total).contributions) == 1


def test_names_of_classes_cannot_break_a_sheet():
    names = {"<script>alert(1)</script>": 5, "a\nb": 5, "c" * 500: 5}
    names |= {f"class {number}": 5 for number in range(1_000)}
    sheet = Sheet(Release("statistics", 5_015, 9, names), None, "<b>.stats", b"", "today")
    assert "<script>" not in sheet.to_html()
    assert "<b>" not in sheet.to_html()
    text = sheet.to_text()
    assert f"{1_003 - CLASSES_SHOWN} more classes" in text
    # One page of A4 has room for so many lines of so many characters.
    lines = text.splitlines()
    assert len(lines) < 60
    assert max(map(len, lines)) < 130


def test_masked_sheets_name_who_opens_and_broken_rules_show():
    release = Release("statistics", 50, 9, {"ill": 50}, masked=True,
                      keyholders={"board": "k1" * 32}, least_clients=3, epsilon=2.0)  # fmt: skip
    text = Sheet(release, Policy(least_clients=5), "a", b"", "today").to_text()
    assert "nobody: it is masked" in text
    assert "at least 3 clients, with noise of epsilon 2, opened by the keyholder" in text
    assert "board (k1k1k1k1k1k1…)" in text
    assert "Samples of each class, which the file does not show" in text
    assert "broken: 3 (at least 5)" in text


def test_only_digests_are_set_in_the_type_of_digests():
    holders = dict.fromkeys(("board", "lawyer"), "k" * 64)
    release = Release("statistics", 50, 9, encoder="e" * 64, masked=True,
                      keyholders=holders, least_clients=10_000)  # fmt: skip
    sheet = Sheet(release, None, "a", b"", "today")
    # As long as a digest is the sentence about who reads a sum.
    assert 64 in map(len, sheet.sections()["Who can read it"].values())
    assert sheet.to_html().count('class="digest"') == 2


def test_an_approval_does_not_show_what_a_sheet_says(contribution, tmp_path):
    """The server, which gets the digests of the sheets, knows all but few numbers in them."""
    write_key(tmp_path / "key")
    told = approve(contribution, tmp_path / "key").sheets
    release, data = Release.of(DATA.part(slice(0, 40)).count()), contribution.read_bytes()
    made = re.search("made +([^ ]+)", beside(contribution, TEXT).read_text())[1]
    guessed = Sheet(release, Policy(), contribution.name, data, made)
    for text, end in ((guessed.to_text(), TEXT), (guessed.to_html(), PAGE)):
        kept = beside(contribution, end).read_text()
        known = re.sub("[0-9a-f]{32}, drawn", "drawn", kept)
        assert re.sub("[0-9a-f]{32}, drawn", "drawn", text) == known
        assert hashlib.sha256(text.encode()).hexdigest() != told[end]


def test_what_leaves_is_logged_and_what_is_refused_leaves_nothing(contribution, log):
    statistics = DATA.count()
    data, output = encode_statistics(statistics), contribution.with_name("b.stats")
    with pytest.raises(PolicyRefused):
        write_release(output, data, Release.of(statistics), Policy("masked"))
    assert not [*output.parent.glob("b.stats*")]
    histogram = Histogram.of([np.zeros((3, 2))], Grid(0, 1, 4))
    write_release(contribution.with_name("h"), b"...", Release.of(histogram))
    sent, refused, last = read_log(log)
    assert (sent.event, sent.note) == ("sent", "a.stats")
    assert sent.digest == hashlib.sha256(contribution.read_bytes()).hexdigest()
    assert refused.event == "refused"
    assert refused.note.startswith("b.stats: refused by the policy's mode")
    assert refused.digest == hashlib.sha256(data).hexdigest()
    assert (last.event, last.note) == ("sent", "h")


def test_nothing_leaves_where_the_log_cannot_be_written(contribution, log, monkeypatch):
    monkeypatch.setenv("SAFLE_LOG", str(contribution / "log.sqlite"))
    output = contribution.with_name("b.stats")
    with pytest.raises(StoreError, match="name another with \\$SAFLE_LOG"):
        write_release(output, b"...", Release("statistics", 1, 1))
    assert not output.exists()


@pytest.mark.parametrize("style", ["OpenSSH", "PKCS8"])
@pytest.mark.parametrize("password", [b"", b"secret"])
def test_a_store_with_a_roster_takes_what_it_has_signed(contribution, style, password):
    if password and style == "OpenSSH":
        pytest.importorskip("bcrypt")
    key = contribution.with_name("key")
    roster = parse_roster(f"# officers\n\n{write_key(key, style=style, password=password)}\n")
    assert needs_password(key) == bool(password)
    approval = approve(contribution, key, password or None)
    assert Approval.from_bytes(approval.to_bytes()) == approval
    with Store.create(contribution.parent / "store", DATA.encoder) as store:
        store.require_approval(roster)
    with Store.open(contribution.parent / "store", writing=True) as store:
        with pytest.raises(ApprovalError, match="not signed"):
            store.add(Contribution.read(contribution, "a"))
        store.add(Contribution.read(contribution, "a", approved=True))
        store.remove("a")
    refused, received, removed = read_log(contribution.parent / "store" / "store.sqlite")
    assert (refused.event, received.event, removed.event) == ("refused", "received", "removed")
    assert received.note == "signed by Dr. A. Officer"
    assert {row.digest for row in (refused, received, removed)} == {approval.contribution}
    assert {row.who for row in (refused, received, removed)} == {"a"}


def test_what_the_roster_has_not_signed_is_refused(contribution):
    key = contribution.with_name("key")
    roster = parse_roster(write_key(key))
    good, data = approve(contribution, key).to_bytes(), contribution.read_bytes()
    assert check_approved(roster, data, good) == "Dr. A. Officer"
    with pytest.raises(ApprovalError, match="of another contribution"):
        check_approved(roster, encode_statistics(DATA.count()), good)
    stranger = parse_roster(write_key(contribution.with_name("other")))
    with pytest.raises(ApprovalError, match="not on the roster"):
        check_approved(stranger, data, good)
    content = json.loads(good)
    # A stranger's key put in the place of the signer's does not help, nor does anything else.
    for change in (
        {"time": "2000-01-01"},
        {"sheets": {}},
        {"signature": "A" * 86 + "=="},
        {"signature": ""},
    ):
        with pytest.raises(ApprovalError, match="signature does not match"):
            check_approved(roster, data, json.dumps(content | change).encode())
    (stolen,) = stranger
    with pytest.raises(ApprovalError, match="signature does not match"):
        check_approved(stranger, data, json.dumps(content | {"key": stolen}).encode())


def test_any_flipped_bit_of_an_approval_is_refused(contribution):
    key = contribution.with_name("key")
    roster = parse_roster(write_key(key))
    good, data = approve(contribution, key).to_bytes(), contribution.read_bytes()
    for at in range(len(good)):
        flipped = good[:at] + bytes([good[at] ^ (1 << at % 8)]) + good[at + 1 :]
        try:
            same = Approval.from_bytes(flipped) == Approval.from_bytes(good)
        except ApprovalError:
            continue
        # White space, and bits that base64 does not use, say the same thing.
        if not same:
            with pytest.raises(ApprovalError):
                check_approved(roster, data, flipped)
    for junk in (b"[]", b"{}", b"1", b"\xff", b'{"format": "safle-approval-1"}', b"[" * 100_000):
        with pytest.raises(ApprovalError, match="not an approval"):
            check_approved(roster, data, junk)
    # Half a surrogate pair in what the refusal would repeat.
    for name in ("key", "contribution"):
        half = json.dumps(json.loads(good) | {name: "\ud800"}).encode()
        with pytest.raises(ApprovalError, match="not an approval"):
            check_approved(roster, data, half)


def test_only_ed25519_keys_sign_and_only_sheets_of_the_file_are_signed(contribution):
    key = contribution.with_name("key")
    write_key(key, key=new_ec_key(SECP384R1()))
    with pytest.raises(ApprovalError, match="not an Ed25519 key"):
        approve(contribution, key)
    key.write_bytes(b"junk")
    with pytest.raises(ApprovalError, match="not a private key"):
        approve(contribution, key)
    for line in ("ssh-rsa AAAA x", "ssh-ed25519", "ssh-ed25519 !!!! x"):
        with pytest.raises(ApprovalError):
            parse_roster(line)
    write_key(key)
    contribution.write_bytes(contribution.read_bytes() + b"x")
    with pytest.raises(ApprovalError, match="is not about a"):
        approve(contribution, key)
    assert not beside(contribution, APPROVAL).exists()


def test_refusals_of_a_store_are_logged_and_change_nothing_else(tmp_path):
    data = encode_statistics(DATA.count())
    with Store.create(tmp_path / "store", DATA.encoder) as store:
        store.add(Contribution("a", data))
        with pytest.raises(DuplicateContribution):
            store.add(Contribution("b", data))
        assert [*store.members] == ["a"]
    events = read_log(tmp_path / "store" / "store.sqlite")
    assert [(row.event, row.who) for row in events] == [("received", "a"), ("refused", "b")]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE log SET who = 'somebody else' WHERE number = 2",
        "DELETE FROM log WHERE number = 2",
        "DELETE FROM log WHERE number = 1",
        "UPDATE log SET number = 9 WHERE number = 3",
    ],
)
def test_a_log_is_not_changed_and_shows_when_it_was(log, change):
    for number in range(3):
        write_log("sent", who="me", note=str(number))
    assert [row.note for row in read_log(log)] == ["0", "1", "2"]
    connection = sqlite3.connect(log, isolation_level=None)
    with pytest.raises(sqlite3.DatabaseError, match="never changed"):
        connection.execute(change)
    # Whoever may write the file can take the triggers out: then the chain shows it.
    connection.execute("DROP TRIGGER log_unchanged")
    connection.execute("DROP TRIGGER log_kept")
    connection.execute(change)
    connection.close()
    with pytest.raises(StoreError, match="somebody has changed the file"):
        read_log(log)


def test_what_is_no_log_is_named(tmp_path):
    (tmp_path / "text").write_text("not a database, whatever it says here")
    for name in ("text", "nothing"):
        with pytest.raises(StoreError, match=name):
            read_log(tmp_path / name)


@pytest.mark.slow
def test_a_kill_loses_no_row_that_was_written(log):
    """Each number is printed when its row is said to be on the disk."""
    program = (
        "from safle.site.log import write_log\n"
        "for n in range(10**6):\n"
        "    write_log('sent', who='me', note=str(n))\n"
        "    print(n, flush=True)\n"
    )
    last = -1
    for _ in range(3):
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
            for _ in range(20):
                last = int(process.stdout.readline())
            os.kill(process.pid, signal.SIGKILL)
            last = max([last, *map(int, process.stdout.read().split())])
        events = read_log(log)
        # One more may have been written before it could be said.
        assert int(events[-1].note) in (last, last + 1)
