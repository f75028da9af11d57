"""Soak: contributions, removals and solves at random, the working process killed at any instant.

The worker is a process of its own that changes one store, one action after another, and says
what it is about to do and what it has done. It is killed with -9 at random instants, and another
goes on. What it said is done must be so, whatever was under way may be so or not, and at the end
the model is that of exactly the members, byte for byte that of their data counted in one.
"""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import random
import select
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.report import Bar, Disagreement, Outcome, note
from benchmarks.settings import Settings
from safle import DeclaredRange, Encoder, Model, count, load_encoder, make_encoder, solve
from safle._native import limit_threads
from safle.server.database import count_members
from safle.server.store import Store
from safle.wire import decode_statistics, encode_statistics
from safle.wire.contribution import Contribution

MINUTES, QUICK_SECONDS = 30.0, 8.0
CLIENTS, SAMPLES, FEATURES = 200, 50, 8
LONGEST_LIFE = 4.0
"""Seconds of a worker; short lives end while it opens the store."""
FORK = multiprocessing.get_context("fork")


def run(settings: Settings) -> Outcome:
    """Kill and go on until the time is over; then compare."""
    seconds = QUICK_SECONDS if settings.quick else 60 * (settings.minutes or MINUTES)
    with TemporaryDirectory() as name:
        folder = Path(name)
        make_soak_encoder().save(folder / "encoder.safetensors")
        _warm_up()
        soak = Soak(folder)
        soak.run(seconds)
        _compare(folder, soak)
    figures = {
        "adds": soak.done["add"],
        "removals": soak.done["remove"],
        "solves": soak.done["solve"],
        "kills": soak.kills,
        "members": len(soak.members),
        "lost": len(soak.lost),
        "seconds": seconds,
    }
    return Outcome(
        figures=figures,
        data="generated",
        compared="the bytes of the store's model and of its members' data counted in one",
        bars=[Bar("soak: contributions lost", len(soak.lost), 0, at_most=True)],
    )


@dataclass
class Soak:
    """What the workers have said, and what must be true of the store because of it."""

    folder: Path
    generator: random.Random = field(default_factory=lambda: random.Random(0))
    members: set[str] = field(default_factory=set)
    done: Counter[str] = field(default_factory=Counter)
    lost: set[str] = field(default_factory=set)
    kills: int = 0

    def run(self, seconds: float) -> None:
        """One worker after another, each killed, the last one too."""
        end = time.monotonic() + seconds
        told = time.monotonic()
        while time.monotonic() < end:
            under_way = self._run_worker()
            self._check(under_way)
            if time.monotonic() - told > 60:
                told = time.monotonic()
                note(f"soak: {self.kills} kills, {dict(self.done)}, {len(self.members)} are in ...")

    def _run_worker(self) -> str:
        """Start it, kill it; the client whose adding or removal was under way, if one was."""
        reading, writing = os.pipe()
        seed = self.generator.getrandbits(32)
        # A fork: importing Python is not what is to be killed.
        worker = FORK.Process(target=work, args=(self.folder, seed, writing))
        worker.start()
        os.close(writing)
        with os.fdopen(reading, "rb", buffering=0) as stream:
            said = _read_for(self.generator.uniform(0, LONGEST_LIFE), stream)
            worker.kill()
            said += stream.readall()
        worker.join()
        if worker.exitcode != -signal.SIGKILL:
            raise Disagreement(f"soak: the worker ended by itself with {worker.exitcode}")
        self.kills += 1
        return self._listen(said.decode().splitlines())

    def _listen(self, said: list[str]) -> str:
        under_way = ""
        for line in said:
            word, action, client = json.loads(line)
            under_way = client if word == "begun" else ""
            if word == "done":
                self.done[action] += 1
                if action == "add":
                    self.members.add(client)
                elif action == "remove":
                    self.members.discard(client)
        return under_way

    def _check(self, under_way: str) -> None:
        place = self.folder / "store"
        found = {*Store.open(place).members} if count_members(place) else set()
        self.lost |= (self.members - found) - {under_way}
        if appeared := (found - self.members) - {under_way}:
            raise Disagreement(f"soak: in, and nobody had said so: {sorted(appeared)[:5]}")
        self.members = found


def _compare(folder: Path, soak: Soak) -> None:
    with Store.open(folder / "store", writing=True) as store:
        if problems := store.problems():
            raise Disagreement(f"soak: {problems[0]}")
        names = sorted(store.members)
        model = Model(store.encoder, solve(store.total().snapshot()))
    if set(names) != soak.members or soak.lost:
        raise Disagreement(f"soak: lost {sorted(soak.lost)[:5]}")
    pooled = [samples_of(name) for name in names]
    features, labels = (np.concatenate(part) for part in zip(*pooled, strict=True))
    expected = Model(model.encoder, solve(count(model.encoder, features, labels)))
    if model.to_bytes() != expected.to_bytes():
        raise Disagreement("soak: the model is not that of exactly the members")


def _read_for(seconds: float, stream: io.FileIO) -> bytes:
    """What comes within so many seconds: a full pipe would hold up its writer."""
    end, said = time.monotonic() + seconds, b""
    while (left := end - time.monotonic()) > 0 and select.select([stream], [], [], left)[0]:
        more = stream.read(1 << 16)
        if not more:
            break
        said += more
    return said


def _warm_up() -> None:
    """Load the kernels before the first fork, and use one thread."""
    limit_threads(1)
    encoder = make_soak_encoder()
    decode_statistics(encode_statistics(count(encoder, *samples_of("client-0")))).multiply_out()


def make_soak_encoder() -> Encoder:
    """A small one of the default kind."""
    return make_encoder(DeclaredRange(-4.0, 4.0, feature_dim=FEATURES), units=48)


def samples_of(client: str) -> tuple[np.ndarray, np.ndarray]:
    """Features and labels of a client, always the same."""
    generator = np.random.default_rng(int(client.rpartition("-")[2]))
    labels = generator.integers(0, 4, SAMPLES)
    return generator.normal(size=(SAMPLES, FEATURES)) + labels[:, None], labels


def work(folder: Path, seed: int, output: int) -> None:
    """The worker: it goes on until it is killed, and writes what it does to ``output``."""
    generator, encoder = random.Random(seed), load_encoder(folder / "encoder.safetensors")

    def say(word: str, action: str, client: str) -> None:
        # In one write, so that a kill leaves a line or nothing of it.
        os.write(output, f"{json.dumps([word, action, client])}\n".encode())

    with Store.create(folder / "store", encoder) as store:
        while True:
            chosen = generator.random()
            client = f"client-{generator.randrange(CLIENTS)}"
            if chosen < 0.05 and store.members:
                say("begun", "solve", "")
                Model(encoder, solve(store.total().snapshot())).save(folder / "model.safetensors")
                say("done", "solve", "")
            elif client in store.members:
                say("begun", "remove", client)
                store.remove(client)
                say("done", "remove", client)
            else:
                say("begun", "add", client)
                data = encode_statistics(count(encoder, *samples_of(client)))
                store.add(Contribution(client, data))
                say("done", "add", client)
