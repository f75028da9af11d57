"""Many contributions in one store: opening reads heads, and the last costs what the first cost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest

from safle import Store, count, declared_range, encode, make_encoder

REPOSITORY = Path(__file__).parents[4]

# A process of its own: its memory is measured, and an audit hook cannot be taken back.
FILLING = """
import json, sys
from pathlib import Path
import psutil
from safle.server.store import Store
from safle import encode
from support.data_sets import fixed_data
data = fixed_data("embedding", 50_000)
opened, lines, written, memory = [], [], [], []
opening, executed = 0, 0

def hook(event, arguments):
    global opening
    opening += event == "open"

def trace(frame, event, argument):
    global executed
    if "/safle/server/" not in frame.f_code.co_filename:
        return None
    executed += event == "line"
    return trace

sys.addaudithook(hook)
process = psutil.Process()
with Store.create(sys.argv[1], data.encoder) as store:
    for number in range(1000):
        sent = encode(data.part(slice(50 * number, 50 * number + 50)).count())
        client = f"client {number:04}"
        opening = executed = 0
        sys.settrace(trace)
        store.add(client, sent)
        sys.settrace(None)
        opened.append(opening)
        lines.append(executed)
        written.append(process.io_counters().write_chars)
        memory.append(process.memory_info().rss)
print(json.dumps({"opened": opened, "lines": lines, "written": written, "memory": memory}))
"""


@pytest.mark.slow
def test_the_thousandth_client_costs_the_store_what_the_first_cost(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FILLING, tmp_path / "store"],
        cwd=REPOSITORY,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    # The first add opens what is imported when it is needed.
    assert set(found["opened"][10:]) == {found["opened"][10]}
    assert set(found["lines"][10:]) == {found["lines"][10]}
    early, late = (found["written"][end] - found["written"][end - 499] for end in (500, 999))
    assert late < 1.2 * early
    assert found["memory"][999] < 1.1 * found["memory"][99]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts the bytes that are read")
def test_opening_a_store_reads_heads_and_adding_reads_no_other_contribution(tmp_path):
    encoder = make_encoder(declared_range(0, 1, feature_dim=30), "random-features")
    clients = np.random.default_rng(0).random((20, 40, 30))
    sent = [encode(count(encoder, rows, rows[:, 0] > 0.5)) for rows in clients]
    with Store.create(tmp_path / "store", encoder) as store:
        for client, content in enumerate(sent[1:]):
            store.add(f"client {client}", content)
    process = psutil.Process()
    start = process.io_counters().read_chars
    with Store.open(tmp_path / "store", writing=True) as store:
        opened = process.io_counters().read_chars
        store.add("late", sent[0])
        added = process.io_counters().read_chars
        store.total()
        summed = process.io_counters().read_chars
    everything = sum(map(len, sent))
    assert summed - added >= everything
    assert opened - start < everything / 3
    assert added - opened < everything / len(sent)
