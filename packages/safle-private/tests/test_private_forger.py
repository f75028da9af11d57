"""A forger with keys: sealed and signed files of a private round whose content was changed."""

from __future__ import annotations

import contextlib
import copy
import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from private_support.private_rounds import answers_of, make_parties, new_history
from safle import (
    Evaluation,
    LinearEncoder,
    Model,
    Statistics,
    count,
    declared_range,
    decode,
    encode,
    evaluate,
    solve,
)
from safle.errors import SafleError
from safle.statistics.histogram import Histogram
from safle.wire import container
from safle_private import (
    KeyholderAnswer,
    Masked,
    MaskedSum,
    PrivateRound,
    Request,
    answer_request,
    plan_noise,
)
from safle_private.keys import SignedHeader
from safle_private.noisy import NoisyStatistics
from support.data_sets import fixed_data
from support.forging import change, peak_of

FILES = 400
DATA = fixed_data("linear", 30, feature_dim=2)
CLIENTS = [DATA.part(slice(10 * at, 10 * at + 10)) for at in range(3)]
PARTS = [client.count() for client in CLIENTS]


@pytest.fixture(scope="module")
def parties():
    return make_parties(Statistics.empty(DATA.encoder.space, [0, 1, 2]), 3, least_clients=3)


@pytest.fixture(scope="module")
def total(parties):
    return parties.add_up(PARTS)


def signed(key, file_type, fields, payload):
    """A head of any fields, truly signed."""
    text = container.canonical(fields)
    head = {"head": fields, "signature": key.sign(text).hex()}
    return container.to_bytes(file_type, head, {"payload": payload})


def attempt(act):
    """Whether something was accepted; anything but `SafleError` is a defect."""
    try:
        act()
    except SafleError:
        return False
    return True


def test_forged_rounds(parties):
    g, accepted = np.random.default_rng(1), 0
    opened = container.from_bytes(parties.private_round.data, file_type=container.ROUND)
    content = json.loads(opened.section("payload", opened.frames["payload"][1]))
    for _ in range(FILES):
        forged = container.canonical(change(g, content))
        data = SignedHeader.sign(parties.operator, "round", forged).to_bytes(
            container.ROUND, forged
        )
        accepted += attempt(lambda data=data: PrivateRound.load(data, parties.operator.public))
    # Another number of samples, another name: a round like any other.
    assert 0 < accepted < FILES / 2


def forged_contributions(g, parties, true, files):
    """Files of the first client, truly sealed and signed, with something in them changed."""
    masked = Masked.from_bytes(true, parties.private_round)
    for number in range(files):
        payload = masked.vector.tobytes()
        if number % 4 == 0:
            payload = payload[: g.integers(len(payload))] + bytes(g.integers(3))
        fields = SignedHeader.sign(parties.clients[0], "masked", payload).fields
        fields = change(g, {**masked.head.fields, **fields})
        yield signed(parties.clients[0], container.MASKED, fields, payload)


def test_forged_contributions(parties):
    forged = forged_contributions(
        np.random.default_rng(2), parties, parties.mask(0, PARTS[0]), FILES
    )
    accepted = sum(
        attempt(partial(Masked.from_bytes, data, parties.private_round)) for data in forged
    )
    assert 0 < accepted < FILES / 2


def test_a_forged_contribution_takes_no_more_memory_than_a_true_one():
    data = fixed_data("linear", 30, feature_dim=150)
    parties = make_parties(Statistics.empty(data.encoder.space, [0, 1, 2]), 3, least_clients=2)
    true = parties.mask(0, data.count())
    most = peak(parties, true)
    for forged in forged_contributions(np.random.default_rng(5), parties, true, 100):
        assert peak(parties, forged) <= 1.5 * most


def peak(parties, data, read=Masked.from_bytes):
    return peak_of(lambda: attempt(partial(read, data, parties.private_round)))


def test_private_file_does_not_decompress_to_many_bytes(parties, total):
    bomb, head = bytes(1 << 27), next(iter(total.request.heads.values()))
    said = {name: head.fields[name] for name in ("round", "client", "boxes")}
    asked = {"round": parties.private_round.digest, "request": total.request.digest}
    answered = {**asked, "keyholder": parties.keyholders[0].name}
    signed = [
        (Masked.from_bytes, container.MASKED, parties.clients[0], "masked", said),
        (KeyholderAnswer.from_bytes, container.ANSWER, parties.keyholders[0], "answer", answered),
        (load_round, container.ROUND, parties.operator, "round", {}),
    ]
    files = [
        (read, SignedHeader.sign(key, name, bomb, **fields).to_bytes(file_type, bomb))
        for read, file_type, key, name, fields in signed
    ]
    heads = container.to_bytes(
        container.REQUEST, {"round": parties.private_round.digest}, {"heads": bomb}
    )
    for read, data in [*files, (Request.from_bytes, heads)]:
        assert len(data) < len(bomb) / 1000
        assert not attempt(partial(read, data, parties.private_round))
        assert peak(parties, data, read) < len(bomb) / 10


def load_round(data, private_round):
    return PrivateRound.load(data, private_round.operator)


@pytest.mark.parametrize("text", [r'"\ud800"', "NaN", "[" * 900 + "]" * 900])
def test_heads_that_have_no_canonical_text(parties, total, text):
    content = [head.to_json() for head in total.request.heads.values()]
    content[0]["head"]["boxes"] = "here"
    heads = json.dumps(content).replace('"here"', text).encode()
    header = {"round": parties.private_round.digest}
    data = container.to_bytes(container.REQUEST, header, {"heads": heads})
    assert not attempt(partial(Request.from_bytes, data, parties.private_round))


def test_forged_requests(parties, total):
    g, accepted = np.random.default_rng(3), 0
    whole = [head.to_json() for head in total.request.heads.values()]
    with new_history() as history:
        for number in range(FILES):
            content = copy.deepcopy(whole)
            if number % 2:
                # A client of the round that lies: what it says is truly signed.
                fields = change(g, content[0]["head"])
                signature = parties.clients[0].sign(container.canonical(fields)).hex()
                content[0] = {"head": fields, "signature": signature}
            else:
                content = change(g, content)
            sections = {"heads": container.canonical(content)}
            header = {"round": parties.private_round.digest}
            data = container.to_bytes(container.REQUEST, header, sections)
            accepted += attempt(
                lambda data=data: answer_request(
                    Request.from_bytes(data, parties.private_round), parties.keyholders[0], history
                )
            )
            with_sum = {**sections, "sum": total.vector.tobytes()}
            data = container.to_bytes(container.MASKED_SUM, header, with_sum)
            attempt(lambda data=data: MaskedSum.from_bytes(data, parties.private_round))
        # Boxes for the others are theirs to judge; the clients and their files stay the same.
        assert [one["members"] for one in history.sets()] == [sorted(total.request.members)]
    assert 0 < accepted < FILES / 4


def test_forged_vectors_of_every_kind_of_sum(answers):
    """A keyholder who answers anything at all: a typed error, or a value that others could have.

    The oracle shares no code with the spaces: counts of real answers are never negative, and each
    table of them has as many samples as the first.
    """
    g = np.random.default_rng(6)
    for parties, total, honest, check in answers:
        vector = honest[0].masks
        for number in range(FILES // 4):
            masks = vector.copy()
            for _ in range(g.integers(1, 4)):
                at = g.integers(len(masks))
                masks[at] = [0, 255, masks[at] ^ (1 << int(g.integers(8)))][number % 3]
            if number % 10 == 0:
                masks = np.frombuffer(g.bytes(len(masks)), np.uint8)
            forged = replace(honest[0], masks=masks)
            data = forged.to_bytes(parties.keyholders[0])
            try:
                read = KeyholderAnswer.from_bytes(data, parties.private_round)
                check(total.open([read, *honest[1:]]))
            except SafleError:
                continue


@pytest.fixture(scope="module")
def answers():
    """Rounds of evaluation counts, histograms and noisy statistics, with honest answers."""
    model = Model.of(DATA.encoder, solve(DATA.count()))
    evaluations = [evaluate(model, client.features, client.labels) for client in CLIENTS]
    grid = Histogram.empty(-3, 3, 2, bins=4)
    histograms = [grid.count(client.features) for client in CLIENTS]
    clipped = LinearEncoder.publishable(declared_range(-3, 3, feature_dim=2))
    counted = [count(clipped, client.features, client.labels) for client in CLIENTS]
    exact = Statistics.empty(clipped.space, [0, 1, 2])
    noise = {"privacy": plan_noise(clipped.layout, 2.0, 1e-5)}
    unanswered = Evaluation.empty(model.digest, model.class_names)
    rounds = [
        (unanswered, {}, evaluations, check_evaluation),
        (grid, {}, histograms, check_histogram),
        (exact, noise, counted, check_noisy),
    ]
    made = []
    for zero, rules, values, check in rounds:
        parties = make_parties(zero, 3, **rules)
        total = parties.add_up(values)
        honest = answers_of(parties, total)
        check(total.open(honest))
        made.append((parties, total, honest, check))
    return made


def check_evaluation(counts):
    tables = [counts.confusion, counts.scores[0], counts.confidence]
    assert {int(table.sum()) for table in tables} == {int(tables[0].sum())}
    assert min(int(table.min()) for table in (*tables, counts.scores)) >= 0
    assert counts.confusion.sum() <= 1000


def check_histogram(histogram):
    assert histogram.counts.min() >= 0
    assert len({*histogram.counts.sum(axis=1).tolist()}) == 1
    assert histogram.counts[0].sum() <= 1000


def check_noisy(statistics):
    read = decode(encode(statistics), NoisyStatistics)
    assert read == statistics
    with contextlib.suppress(SafleError):
        assert np.isfinite(solve(read).weights).all()


def test_forged_answers(parties, total):
    g, opened = np.random.default_rng(4), []
    honest = KeyholderAnswer.from_bytes(parties.answer(1, total), parties.private_round)
    whole = container.from_bytes(parties.answer(0, total), file_type=container.ANSWER)
    payload = whole.section("payload", whole.frames["payload"][1])
    for number in range(FILES):
        changed = bytearray(payload)
        changed[g.integers(len(changed))] ^= 1 << int(g.integers(8))
        if number % 4 == 0:
            del changed[g.integers(len(changed)) :]
        fields = SignedHeader.sign(parties.keyholders[0], "answer", bytes(changed)).fields
        fields = {**whole.header["head"], **fields}
        if number % 2:
            fields = change(g, fields)
        data = signed(parties.keyholders[0], container.ANSWER, fields, bytes(changed))

        def act(data=data):
            opened.append(
                total.open([KeyholderAnswer.from_bytes(data, parties.private_round), honest])
            )

        attempt(act)
    # A keyholder that lies about a mask which the other does not know can shift the sum: such
    # a sum must still be one of real samples.
    for statistics in opened:
        statistics.verify()
    assert len(opened) < FILES / 4
