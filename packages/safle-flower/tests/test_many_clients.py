"""Many clients: what a server holds and does per client does not depend on their number."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from flower_support.network import PATHS, PATIENCE
from flower_support.serving import serve_here
from safle_flower.adapter import InProcessGrid

pytestmark = pytest.mark.slow
CLIENTS, SAMPLES, KILLED_AT = 1000, 50, 850

# Prints its memory whenever another hundred are in; kills itself when so many are.
SERVER = """
import os, signal, sys
from pathlib import Path
import psutil
from flower_support.serving import serve_here
folder, last = Path(sys.argv[1]), int(sys.argv[2])

def progress(share):
    members = round(share * 1000)
    if members % 100 == 0:
        print(members, psutil.Process().memory_info().rss, flush=True)
    if members == last:
        os.kill(os.getpid(), signal.SIGKILL)

serve_here(folder, progress=progress, **{"at-once": 50})
"""


def run_server(folder: Path, last: int) -> tuple[int, dict[int, int]]:
    """Exit code, and bytes of memory by the number of members."""
    done = subprocess.run(
        [sys.executable, "-c", SERVER, folder, str(last)],
        env=PATHS | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE,
        check=False,
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines, done.stderr[-2000:]
    return done.returncode, {int(members): int(size) for members, size in lines}


def test_a_thousand_clients_in_flat_memory_and_a_killed_round_asks_only_the_rest(crowd):
    federation = crowd(CLIENTS, SAMPLES)
    code, first = run_server(federation.folder, KILLED_AT)
    assert code == -9
    counted = federation.folder / "counted.txt"
    before = counted.read_text().split()
    code, second = run_server(federation.folder, CLIENTS + 1)
    assert code == 0
    report = json.loads((federation.folder / "results" / "report.json").read_text())
    assert len(report["accepted"]) == CLIENTS
    asked_again = counted.read_text().split()[len(before) :]
    assert len(set(asked_again)) == len(asked_again) == CLIENTS - KILLED_AT
    assert second[CLIENTS] < 1.1 * first[100]
    model = (federation.folder / "results" / "model.safetensors").read_bytes()
    assert model == federation.pooled(federation.names)


class AllAtOnceGrid(InProcessGrid):
    """Nobody's answer is there before everybody's is."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.waiting = threading.Barrier(100)

    def pull_messages(self, message_ids):
        self.waiting.wait(PATIENCE)
        return super().pull_messages(message_ids)


def test_a_hundred_clients_that_answer_at_once_are_all_taken(crowd):
    federation = crowd(100, 5)
    report = serve_here(federation.folder, kind=AllAtOnceGrid, **{"at-once": 100})
    assert sorted(report.accepted) == sorted(federation.names)
    model = (federation.folder / "results" / "model.safetensors").read_bytes()
    assert model == federation.pooled(federation.names)
