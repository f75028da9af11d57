"""Privacy: a private round beside the plain one, on the same clients, in one run.

Plain: every client counts 500 samples and encodes its statistics, the server reads, verifies and
adds them. Private: every client counts and masks, the server adds masked vectors, two keyholders
add up their masks, the server opens. All of it runs here one after the other; in a federation
clients and keyholders run side by side. What a file takes on its way is left out of both.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks import data, private_accuracy
from benchmarks.federation import Stopwatch
from benchmarks.report import Bar, Disagreement, Outcome, note
from benchmarks.settings import Settings
from safle import (
    Accumulator,
    Encoder,
    Model,
    Statistics,
    count,
    encode,
    make_encoder,
    public_sample,
    solve,
)
from safle.server.limits import open_contribution
from safle_private import (
    Gathering,
    History,
    KeyholderAnswer,
    Masked,
    PrivateKey,
    PrivateRound,
    Request,
    answer_request,
    declare_round,
    mask,
)
from safle_private.vector import Moduli

CLIENTS, QUICK_CLIENTS = (10, 100), (3, 4)
SAMPLES, QUICK_SAMPLES = 500, 20
MOST_SAMPLES = 50_000
MASKED_BYTES, QUICK_BYTES = 1 << 24, 1 << 20
BAR_MASKING, BAR_RATIO, BAR_DIM = 1.8e9, 2.0, 2459
LARGEST_PLAYED = 4096
"""Columns above which many clients are not played one by one, but reckoned from few."""


def run(settings: Settings) -> Outcome:
    """Every number of clients with every number of columns, and the masks alone."""
    dataset = data.load(settings)
    rounds: list[dict[str, Any]] = []
    # Few columns, samples and clients, to compile every kernel.
    few = make_encoder(public_sample(dataset.head(100)[0]), "random-features", units=8)
    _play(few, dataset, QUICK_CLIENTS[0], replace(settings, quick=True))
    for encoder in _encoders(dataset, settings):
        rounds += _play_all(encoder, dataset, settings)
    speed = masking_speed(QUICK_BYTES if settings.quick else MASKED_BYTES)
    ratios = {
        f"private over plain round, {found['columns']} columns, {found['clients']} clients": found[
            "private_over_plain"
        ]
        for found in rounds
        if found["columns"] <= BAR_DIM
    }
    bars = [Bar("privacy: masked bytes per second and core", speed, BAR_MASKING)]
    bars += [Bar(f"privacy: {name}", v, BAR_RATIO, at_most=True) for name, v in ratios.items()]
    accuracy = private_accuracy.accuracy(settings, dataset)
    bars += private_accuracy.bars(accuracy)
    return Outcome(
        figures={
            "same_digest": all(found["same_digest"] for found in rounds),
            "masking_bytes_per_second_per_core": speed,
            "accuracy": accuracy,
            "rounds": rounds,
        },
        data=dataset.source,
        compared="the bytes of the opened total and of its model with those of plain files",
        bars=bars,
        tables={"Private rounds": _rows(rounds)},
    )


def masking_speed(size: int) -> float:
    """Bytes of a vector of 32 bits per entry that one core puts under two masks in a second.

    Of the core's own seconds: it has one thread, and what others do at the time is not its.
    """
    moduli = Moduli(np.zeros(size // 4, np.bool_))
    vector = moduli.zeros()
    keys = [os.urandom(32) for _ in range(2)]
    seconds = []
    for _ in range(20):
        begun = time.thread_time()
        moduli.add_masks(vector, keys)
        seconds.append(time.thread_time() - begun)
    return vector.nbytes / min(seconds)


def _encoders(dataset: data.Dataset, settings: Settings) -> Iterator[Encoder]:
    """Linear; random features within 5 MB of a plain client; and the default."""
    public = public_sample(dataset.train[: data.PUBLIC_SAMPLES])
    if settings.quick:
        yield make_encoder(public, "random-features", units=64)
        return
    yield make_encoder(public, "linear")
    yield make_encoder(public, "random-features", units=1946)
    yield data.default(dataset.train)


def _play_all(
    encoder: Encoder, dataset: data.Dataset, settings: Settings
) -> Iterator[dict[str, Any]]:
    few, many = QUICK_CLIENTS if settings.quick else CLIENTS
    found = _play(encoder, dataset, few, settings)
    yield found
    if encoder.layout.dim <= LARGEST_PLAYED:
        yield _play(encoder, dataset, many, settings)
        return
    scale = many / few
    # Opening is done once, however many there are.
    scaled = {name: found[name] * scale for name in _PER_CLIENT}
    scaled["server_seconds"] += found["open_seconds"] * (1 - scale)
    scaled["private_over_plain"] = sum(scaled[name] for name in _PRIVATE) / (
        scaled["plain_client_seconds"] + scaled["plain_server_seconds"]
    )
    yield {**found, **scaled, "clients": many, "reckoned_from": few}


_PRIVATE = ("client_seconds", "keyholder_seconds", "server_seconds")
_PER_CLIENT = (*_PRIVATE, "plain_client_seconds", "plain_server_seconds")


def _play(
    encoder: Encoder, dataset: data.Dataset, clients: int, settings: Settings
) -> dict[str, Any]:
    note(f"privacy: {encoder.layout.dim} columns, {clients} clients ...")
    size = QUICK_SAMPLES if settings.quick else SAMPLES
    parts = [slice(at * size, (at + 1) * size) for at in range(clients)]

    def counted(at: int) -> Statistics:
        return count(encoder, dataset.train[parts[at]], dataset.train_labels[parts[at]])

    classes = sorted({*dataset.train_labels.tolist()})
    zero = Statistics.empty(encoder.space, classes)
    keys = [PrivateKey.new(f"client-{at:03d}") for at in range(clients)]
    holders = [PrivateKey.new(f"keyholder-{at}") for at in range(2)]
    public = [[key.public for key in group] for group in (keys, holders)]
    operator = PrivateKey.new("operator")
    parties = {"clients": public[0], "keyholders": public[1]}
    private_round = declare_round(operator, zero, MOST_SAMPLES, **parties)
    plain, private = Stopwatch(), Stopwatch()
    expected, plain_bytes = _add_plainly(encoder, counted, clients, plain)
    opened, masked_bytes = _add_privately(private_round, counted, keys, holders, private)
    same = encode(opened) == encode(expected)
    if same and encoder.layout.dim <= LARGEST_PLAYED:
        models = [Model.of(encoder, solve(total)).digest for total in (expected, opened)]
        same = models[0] == models[1]
    if not same:
        raise Disagreement("privacy: the opened total is not the plain one")
    note(f"privacy: private over plain {private.total / plain.total:.2f}")
    return {
        "columns": encoder.layout.dim,
        "clients": clients,
        "same_digest": same,
        "client_bytes": masked_bytes,
        "plain_client_bytes": plain_bytes,
        "client_seconds": private.seconds["client"],
        "keyholder_seconds": private.seconds["keyholder"],
        "server_seconds": private.seconds["server"] + private.seconds["open"],
        "open_seconds": private.seconds["open"],
        "plain_client_seconds": plain.seconds["client"],
        "plain_server_seconds": plain.seconds["server"],
        "private_over_plain": private.total / plain.total,
    }


def _add_plainly(
    encoder: Encoder, counted: Callable[[int], Statistics], clients: int, clock: Stopwatch
) -> tuple[Statistics, float]:
    total, size = Accumulator(encoder), 0
    for at in range(clients):
        with clock.on("client"):
            sent = encode(counted(at))
        size += len(sent)
        with clock.on("server"):
            total.add(open_contribution("client", sent, total.space)[0])
    return total.snapshot(), size / clients


def _add_privately(
    private_round: PrivateRound,
    counted: Callable[[int], Statistics],
    keys: Sequence[PrivateKey],
    holders: Sequence[PrivateKey],
    clock: Stopwatch,
) -> tuple[Statistics, float]:
    gathering, size = Gathering(private_round), 0
    for at, key in enumerate(keys):
        with clock.on("client"):
            sent = mask(private_round, key, counted(at)).to_bytes()
        size += len(sent)
        with clock.on("server"):
            gathering.add(Masked.from_bytes(sent, private_round))
    with clock.on("server"):
        total = gathering.finish()
        asked = total.request.to_bytes()
    answers = []
    for key in holders:
        with TemporaryDirectory() as folder, clock.on("keyholder"):
            history = History(f"{folder}/history", new=True)
            request = Request.from_bytes(asked, private_round)
            answers.append(answer_request(request, key, history).to_bytes(key))
    with clock.on("open"):
        opened = total.open([KeyholderAnswer.from_bytes(data, private_round) for data in answers])
    return opened, size / len(keys)


def _rows(rounds: Sequence[dict[str, Any]]) -> list[list[str]]:
    names = {
        "columns": "{:,}",
        "clients": "{:,}",
        "client_bytes": "{:,.0f}",
        "plain_client_bytes": "{:,.0f}",
        "client_seconds": "{:.2f}",
        "keyholder_seconds": "{:.2f}",
        "server_seconds": "{:.2f}",
        "plain_client_seconds": "{:.2f}",
        "plain_server_seconds": "{:.2f}",
        "private_over_plain": "{:.2f}",
    }
    head = [name.replace("_", " ") for name in names]
    return [head, *([form.format(row[name]) for name, form in names.items()] for row in rounds)]
