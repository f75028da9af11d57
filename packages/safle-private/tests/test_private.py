"""Private rounds: who is refused, why, and what a keyholder remembers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

from private_support.private_rounds import answers_of, make_parties, new_history, open_history
from safle import Statistics, sum_statistics
from safle.cli.main import app
from safle.cli.session import Session
from safle.errors import (
    CountOverflow,
    DuplicateContribution,
    EncoderMismatch,
    FederationError,
    InvariantError,
    SettingsError,
    StoreError,
    WireError,
)
from safle.site.policy import Policy
from safle.site.release import Release
from safle.statistics.gram import Triangle
from safle.statistics.histogram import Histogram
from safle.wire import container
from safle_private import (
    KeyholderAnswer,
    Masked,
    MaskedSum,
    PrivateKey,
    PrivateRound,
    PublicKey,
    Request,
    answer_request,
    declare_round,
    mask,
)
from safle_private.keyholder import History, explain
from safle_private.release import under_masks
from safle_private.round import read_content
from support.data_sets import fixed_data, fixed_encoder

DATA = fixed_data("linear", 60)
PARTS = [DATA.part(slice(10 * at, 10 * at + 10)).count() for at in range(6)]
ZERO = Statistics.empty(DATA.encoder.space, [0, 1, 2])


@pytest.fixture(scope="module")
def parties():
    return make_parties(ZERO, 6, least_clients=2)


@pytest.fixture(scope="module")
def files(parties):
    return [parties.mask(at, part) for at, part in enumerate(PARTS)]


@pytest.fixture(scope="module")
def total(parties, files):
    return parties.gather(files)


def told(request, path):
    """What a keyholder with this history reads."""
    return "\n".join(explain(request, open_history(path)))


def answer_anew(request, key):
    """The answer of a keyholder who has opened nothing."""
    with new_history() as history:
        try:
            return answer_request(request, key, history)
        except FederationError:
            assert history.sets() == []
            raise


def write_files(parties, total, folder):
    """What the first keyholder needs to answer."""
    (folder / "round").write_bytes(parties.private_round.data)
    (folder / "request").write_bytes(total.request.to_bytes())
    parties.operator.public.save(folder / "o.pub")
    parties.keyholders[0].save(folder / "k.key")


def test_a_flipped_bit_under_a_fresh_seal_is_not_signed(parties, files):
    masked = Masked.from_bytes(files[0], parties.private_round)
    vector = masked.vector.copy()
    vector[0] ^= 1
    with pytest.raises(WireError, match="not the one that was signed"):
        Masked.from_bytes(replace(masked, vector=vector).to_bytes(), parties.private_round)
    for name, value in (("client", "client-01"), ("payload", "0" * 64)):
        head = replace(masked.head, fields={**masked.head.fields, name: value})
        with pytest.raises((FederationError, WireError)):
            Masked.from_bytes(replace(masked, head=head).to_bytes(), parties.private_round)


def test_another_round_is_refused(parties, files):
    other = parties.again(ZERO)
    with pytest.raises(FederationError, match="made for round"):
        other.gather(files)


def test_a_stranger_is_refused(parties):
    stranger = make_parties(ZERO, 7)
    with pytest.raises(FederationError, match="not a client of this round"):
        Masked.from_bytes(stranger.mask(6, PARTS[0]), parties.private_round)
    with pytest.raises(FederationError, match="signature is not client-00's"):
        Masked.from_bytes(stranger.mask(0, PARTS[0]), parties.private_round)
    with pytest.raises(FederationError, match="not a client of this round"):
        mask(parties.private_round, PrivateKey.new("nobody"), PARTS[0])
    with pytest.raises(FederationError, match="lists another key for client-00"):
        mask(parties.private_round, PrivateKey.new("client-00"), PARTS[0])


def test_a_client_is_taken_once(parties, files):
    with pytest.raises(DuplicateContribution, match="client-00 is in already"):
        parties.gather([files[0], files[1], parties.mask(0, PARTS[3])])


def test_seeds_are_fresh(parties, files):
    once, again = (
        Masked.from_bytes(data, parties.private_round)
        for data in (files[0], parties.mask(0, PARTS[0]))
    )
    assert np.mean(once.vector == again.vector) < 0.1


def test_private_round_refuses_files_of_others(parties):
    other = fixed_encoder("linear", 3)
    wrong = fixed_data("linear", 10, feature_dim=3)
    assert other == wrong.encoder
    with pytest.raises(EncoderMismatch):
        parties.mask(0, wrong.count())
    unknown = make_parties(Statistics.empty(DATA.encoder.space, [0, 1]), 2)
    with pytest.raises(InvariantError, match="class 2 is not among those"):
        unknown.mask(0, PARTS[0])
    grid = Histogram.empty(0, 1, 2, bins=4)
    histograms = make_parties(grid, 2, 3)
    with pytest.raises(EncoderMismatch):
        histograms.mask(0, Histogram.empty(0, 1, 3, bins=4).count(np.zeros((1, 3))))
    with pytest.raises(CountOverflow):
        histograms.mask(0, grid.count(np.zeros((4, 2))))
    with pytest.raises(CountOverflow):
        make_parties(Statistics.empty(fixed_encoder("embedding").space, [0]), 2, 2**31)


def test_a_sum_that_nobody_could_have_counted_is_refused(parties):
    lie = replace(PARTS[1], gram=Triangle(PARTS[1].gram.packed * -3, PARTS[1].dim))
    total = parties.gather([parties.mask(0, PARTS[0]), parties.mask(1, lie)])
    with pytest.raises(InvariantError):
        parties.open(total)


def test_a_victim_and_few_clients_that_collude_are_not_opened(tmp_path):
    """Of six clients half must be in by default; so must those who come later."""
    half = make_parties(ZERO, 6, least_clients=None)
    files = [half.mask(at, part) for at, part in enumerate(PARTS)]
    with pytest.raises(FederationError, match="2 clients are in; keyholders open"):
        half.gather(files[:2])
    heads = half.gather(files).request.heads
    few = Request(half.private_round, dict([*heads.items()][:2]))
    with pytest.raises(FederationError, match="at least 3 are"):
        answer_anew(few, half.keyholders[0])
    half.answer(0, half.gather(files[:4]), tmp_path / "history")
    with pytest.raises(FederationError, match="tell 2 clients apart"):
        half.answer(0, half.gather(files), tmp_path / "history")


@pytest.mark.parametrize(("clients", "least"), [(3, 3), (5, 3), (6, 3), (7, 4), (100, 50)])
def test_private_round_keeps_half_of_the_clients_together_by_default(clients, least):
    parties = make_parties(ZERO, clients, least_clients=None)
    assert parties.private_round.least_clients == least


def test_a_second_set_needs_enough_clients_of_difference(parties, files, tmp_path):
    whole, fewer = parties.gather(files[:4]), parties.gather(files[:3])
    path = tmp_path / "history"
    first = parties.answer(0, whole, path)
    with pytest.raises(FederationError, match="would tell 1 client apart"):
        parties.answer(0, fewer, path)
    assert parties.answer(0, whole, path) == first
    late = parties.gather(files)
    parties.answer(0, late, path)
    changed = parties.gather([*files[:3], parties.mask(3, PARTS[4])])
    with pytest.raises(FederationError, match="would tell 1 client apart"):
        parties.answer(0, changed, path)
    assert "You have opened this very set before" in told(whole.request, path)
    assert "opened before: 2." in told(fewer.request, path)
    # Late clients alone, and all but those: their sums are the difference of what is open.
    assert parties.open(late) == sum_statistics(PARTS)


def test_keyholder_who_declines_reads_that_nothing_was_opened(
    parties, total, tmp_path, monkeypatch
):
    monkeypatch.setenv("SAFLE_LOG", str(tmp_path / "log.jsonl"))
    write_files(parties, total, tmp_path)
    names = {"round": "round", "operator": "o.pub", "key": "k.key", "history": "history"}
    options = [word for name, path in names.items() for word in (f"--{name}", tmp_path / path)]
    options.append("--new-history")
    asked = ["private", "answer", tmp_path / "request", *options, "-o", tmp_path / "k.answer"]
    done = subprocess.run(
        [sys.executable, "-c", "from safle.cli.main import run; run()", *map(str, asked)],
        input="n\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "you have not opened this sum: no answer was written" in done.stderr
    assert "interrupted" not in done.stderr
    assert not (tmp_path / "k.answer").exists()
    assert History(tmp_path / "history").sets() == []


def test_sets_that_overlap_are_refused_with_what_to_ask_for(parties, files, tmp_path):
    parties.answer(0, parties.gather(files[:4]), tmp_path / "history")
    with pytest.raises(FederationError, match=r"that the other does not; .*: ask for all"):
        parties.answer(0, parties.gather(files[2:]), tmp_path / "history")
    parties.answer(0, parties.gather(files), tmp_path / "history")


def test_a_damaged_history_gives_no_answer(parties, total, tmp_path):
    path = tmp_path / "history"
    path.write_bytes(b"not a folder at all" * 100)
    with pytest.raises(StoreError, match=r"not a folder.*without its history"):
        parties.answer(0, total, path)
    path.unlink()
    first = parties.answer(0, total, path)
    opened = path / "opened.jsonl"
    whole = opened.read_bytes()
    for damaged in (whole.replace(b"client-0", b"client-9"), b"x" + whole, b"somebody's notes"):
        opened.write_bytes(damaged)
        for new in (False, True):
            with pytest.raises(StoreError, match=r"line . is not what.*must not answer"):
                History(path, new=new)
        assert opened.read_bytes() == damaged
    opened.write_bytes(whole)
    assert parties.answer(0, total, path) == first


def test_answers_must_fit(parties, files, total):
    answers = answers_of(parties, total)
    with pytest.raises(FederationError, match="no answer of keyholder-1"):
        total.open(answers[:1])
    with pytest.raises(FederationError, match="two answers of keyholder-0"):
        total.open([answers[0], answers[0]])
    with pytest.raises(FederationError, match="of other clients: ask keyholder-0 again"):
        parties.gather(files[:3]).open(answers)
    forged = replace(answers[0], keyholder="keyholder-1").to_bytes(parties.keyholders[0])
    with pytest.raises(FederationError, match="signature is not keyholder-1's"):
        KeyholderAnswer.from_bytes(forged, parties.private_round)
    stranger = replace(answers[0], keyholder="nobody").to_bytes(parties.keyholders[0])
    with pytest.raises(FederationError, match="not a keyholder of this round"):
        KeyholderAnswer.from_bytes(stranger, parties.private_round)


def test_private_answer_needs_a_keyholder(parties, total):
    for key in (parties.clients[0], PrivateKey.new("keyholder-0")):
        with pytest.raises(FederationError, match="not a keyholder's of this round"):
            answer_anew(total.request, key)


def test_the_masked_sum_survives_its_file(parties, total):
    again = MaskedSum.from_bytes(total.to_bytes(), parties.private_round)
    assert parties.open(again) == sum_statistics(PARTS)
    with pytest.raises(WireError, match="this is a masked sum file"):
        Request.from_bytes(total.to_bytes(), parties.private_round)


def test_a_box_opens_for_its_own_client_round_and_file_only(parties, files):
    heads = parties.gather(files[:2]).request.heads
    head, holder, other = (
        heads["client-00"],
        parties.keyholders[0],
        parties.again(ZERO).private_round,
    )
    own, digest = parties.private_round, head.payload_digest
    bindings = [
        other.bound_to("client-00", digest, holder.name),
        own.bound_to("client-01", digest, holder.name),
        own.bound_to("client-00", heads["client-01"].payload_digest, holder.name),
        own.bound_to("client-00", digest, "keyholder-1"),
    ]
    for binding in bindings:
        boxes = head.fields["boxes"] | {
            holder.name: holder.public.seal_box(bytes(32), binding).hex()
        }
        fields = {**head.fields, "boxes": boxes}
        signed = type(head)(fields, parties.clients[0].sign(container.canonical(fields)))
        request = Request(own, {**heads, "client-00": signed})
        with pytest.raises(FederationError, match="client-00: a box does not open"):
            answer_anew(request, holder)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"keyholders": 0}, "0 keyholders; expected 1 to 3"),
        ({"keyholders": 4}, "4 keyholders; expected 1 to 3"),
        ({"least_clients": 7}, "least 7 of 6 clients"),
        ({"least_clients": 1}, "least_clients is 1; expected an integer, 2"),
    ],
)
def test_rounds_that_would_not_protect_are_refused(change, match):
    with pytest.raises((SettingsError, WireError), match=match):
        make_parties(ZERO, 6, **change)


def test_a_round_is_its_operators(parties):
    other = PrivateKey.new("operator")
    with pytest.raises(FederationError, match="signature is not operator's"):
        PrivateRound.load(parties.private_round.data, other.public)
    double = [
        parties.clients[0].public,
        msgspec.structs.replace(parties.clients[0].public, name="twin"),
    ]
    keyholders = [parties.keyholders[0].public]
    with pytest.raises(SettingsError, match="one key under two names"):
        declare_round(other, ZERO, 9, clients=double, keyholders=keyholders, least_clients=2)
    assert parties.private_round.zero == ZERO
    opened = container.from_bytes(parties.private_round.data, file_type=container.ROUND)
    content = json.loads(opened.section("payload", opened.raw_bytes))
    for name in ("format", "least_clients"):
        without = {key: value for key, value in content.items() if key != name}
        with pytest.raises(WireError, match=f"not a valid round: there is no '{name}'"):
            read_content(container.canonical(without))
    del content["zero"]["layout"]
    with pytest.raises(WireError, match="not a valid round"):
        read_content(container.canonical(content))


def test_keys_stay_with_their_owner(tmp_path):
    key = PrivateKey.new("hospital-a")
    key.save(tmp_path / "a.key")
    key.public.save(tmp_path / "a.pub")
    assert PrivateKey.load(tmp_path / "a.key") == key
    assert PublicKey.load(tmp_path / "a.pub") == key.public
    assert (tmp_path / "a.key").stat().st_mode & 0o077 == 0
    assert key.signing not in repr(key)
    with pytest.raises(FileExistsError):
        key.save(tmp_path / "a.key")
    with pytest.raises(WireError, match="make one with: safle private keys"):
        PrivateKey.load(tmp_path / "a.pub")
    formless = json.loads((tmp_path / "a.pub").read_text())
    del formless["format"]
    (tmp_path / "b.pub").write_text(json.dumps(formless))
    with pytest.raises(WireError, match="is not a public key of safle"):
        PublicKey.load(tmp_path / "b.pub")
    # What is wrong with a private key is not said: it may be the secret.
    (tmp_path / "b.key").write_text(
        (tmp_path / "a.key").read_text().replace('"signing": "', '"signing": "x')
    )
    with pytest.raises(WireError, match="is not a private key of safle") as refused:
        PrivateKey.load(tmp_path / "b.key")
    assert key.signing[:8] not in str(refused.value)


def test_new_keys_replace_nothing(safle, tmp_path):
    (tmp_path / "b.pub").write_text("another's")
    safle("private", "keys", "a", "-o", tmp_path / "a.key")
    kept = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for name in ("a.key", "b.key", "c.pub"):
        assert "would be overwritten" in safle(
            "private", "keys", "a", "-o", tmp_path / name, code=2
        )
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == kept


def test_policy_sees_the_keyholders(parties):
    release = under_masks(Release.of(PARTS[0]), parties.private_round)
    mine = tuple(key.public.fingerprint for key in parties.keyholders)
    Policy(mode="masked", least_clients=2, keyholders=mine).check(release)
    with pytest.raises(ValueError, match="keyholders"):
        Policy(keyholders=mine[:1]).check(release)
    with pytest.raises(ValueError, match="least_clients"):
        Policy(least_clients=3).check(release)


def test_inspect_lists_the_parties_of_a_round(parties, files, total, tmp_path):
    contents = {
        "round.private": (
            parties.private_round.data,
            ["keyholder-1 (", "client-05 (", "all keyholders, at least 2"],
        ),
        "a.masked": (files[0], ["masked contribution", "client-00", parties.private_round.digest]),
        "sum.masked": (total.to_bytes(), ["masked sum"]),
        "request.ask": (total.request.to_bytes(), ["request to keyholders"]),
        "k.answer": (parties.answer(0, total), ["keyholder's answer", "keyholder-0"]),
    }
    for name, (data, shown) in contents.items():
        (tmp_path / name).write_bytes(data)
        done = CliRunner().invoke(app, ["inspect", str(tmp_path / name)], obj=Session())
        assert done.exit_code == 0
        assert all(text in done.output for text in shown)


KILLED = """
import os, signal, sys
from pathlib import Path
from safle_private import keyholder, vector
from safle_private import Request
from safle_private import History
from safle_private import PrivateKey, PublicKey
from safle_private import PrivateRound
folder = Path(sys.argv[1])
private_round = PrivateRound.load((folder / "round").read_bytes(), PublicKey.load(folder / "o.pub"))
request = Request.from_bytes((folder / "request").read_bytes(), private_round)
vector.Moduli.add_masks = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
history = History(folder / "history", new=True)
keyholder.answer_request(request, PrivateKey.load(folder / "k.key"), history)
"""


def test_a_killed_keyholder_remembers(parties, files, tmp_path):
    whole, fewer = parties.gather(files[:4]), parties.gather(files[:3])
    write_files(parties, whole, tmp_path)
    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path], check=False, env=os.environ)
    assert done.returncode == -signal.SIGKILL
    with pytest.raises(FederationError, match="would tell 1 client apart"):
        parties.answer(0, fewer, tmp_path / "history")
    answers = [parties.answer(0, whole, tmp_path / "history"), parties.answer(1, whole)]
    opened = whole.open(KeyholderAnswer.from_bytes(data, parties.private_round) for data in answers)
    assert opened == sum_statistics(PARTS[:4])


def test_a_killed_keyholder_remembers_whom_it_gave_away(parties, tmp_path):
    """The second round is killed after its row: a third one knows of it, and the second answers."""
    history = tmp_path / "history"
    parties.answer(0, parties.add_up(PARTS[:4]), history)
    again = parties.again(ZERO)
    fewer = again.add_up(PARTS[:2])
    write_files(again, fewer, tmp_path)
    program = KILLED.replace(", new=True", "")
    done = subprocess.run([sys.executable, "-c", program, tmp_path], check=False, env=os.environ)
    assert done.returncode == -signal.SIGKILL
    third = parties.again(ZERO)
    with pytest.raises(FederationError, match="give away client-02, client-03, alone"):
        third.answer(0, third.add_up(PARTS[:3]), history)
    assert again.answer(0, fewer, history) == again.answer(0, fewer, history)
