"""kill -9 at every line that a store executes: what was acknowledged is there, and no half."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from safle import encode
from safle.basics.journal import read_rows
from safle.errors import StoreError
from safle.server.store import Store
from support.data_sets import fixed_data

# Each fork kills itself at the n-th line that it executes in the store's own modules, on a copy
# of the store of its own. The kernels are loaded before, with the threads that survive a fork.
KILLER = """
import os, shutil, signal, sys
from itertools import count
from pathlib import Path
from safle.server.store import Store
from safle import decode
folder, template, action = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
data = (folder / "new.stats").read_bytes()
decode(data)
MODULES = ("store", "folder", "limits")
OURS = ("/basics/atomic.py", "/basics/journal.py", *(f"/server/{name}.py" for name in MODULES))

def act(place):
    if action == "create":
        store = Store.create(place, Store.open(template).encoder)
    else:
        store = Store.open(place, writing=True)
    if action == "remove":
        store.remove("b")
    else:
        store.add("new", data)
    os.write(2, b"done ")

def killed_at(number):
    left = number
    def trace(frame, event, argument):
        nonlocal left
        if not frame.f_code.co_filename.endswith(OURS):
            return None
        if event == "line":
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace
    return trace

numbers = []
# Making a store takes many lines, of which the last ones are those of adding.
for number in count(1, 3 if action == "create" else 1):
    numbers.append(number)
    place = folder / f"{action}-{number}"
    if action != "create":
        shutil.copytree(template, place)
    child = os.fork()
    if not child:
        sys.settrace(killed_at(number))
        act(place)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        assert os.waitstatus_to_exitcode(status) == 0
        break
print(*numbers)
"""


IN, OUT = {"received", "still there"}, {"removed", "interrupted"}
"""What the log says last of a client that is in, and of one that is not."""


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """``killed(action)``: a store for every line at which the action was killed, the last whole."""
    folder = tmp_path_factory.mktemp("killed")
    data = fixed_data("embedding", 40)
    parts = [encode(data.part(slice(a, b)).count()) for a, b in pairwise([0, 10, 20, 40])]
    (folder / "new.stats").write_bytes(parts[2])
    with Store.create(folder / "template", data.encoder) as store:
        store.add("a", parts[0])
        store.add("b", parts[1])

    def run(action: str) -> list[Path]:
        done = subprocess.run(
            [sys.executable, "-c", KILLER, folder, folder / "template", action],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr.split() == ["done"]
        return [folder / f"{action}-{n}" for n in done.stdout.split()]

    return run, parts, folder / "template"


def members_after(place: Path) -> list[str]:
    """What a reader sees, and that the next writer finds the same and leaves no stray file."""
    seen = [*Store.open(place).members]
    with Store.open(place, writing=True) as store:
        assert [*store.members] == seen
        assert store.problems() == []
        assert store.remarks() == []
    files = {path.name for path in (place / "contributions").iterdir()}
    assert files == {f"{client}.stats" for client in seen}
    last = {row["who"]: row["event"] for row in read_rows(place / "log.jsonl")}
    for client, event in last.items():
        assert event in (IN if client in seen else OUT), client
    return seen


@pytest.mark.slow
def test_killed_while_adding_a_client_is_in_or_not(killed):
    run, parts, _ = killed
    places = run("add")
    outcomes = [members_after(place) for place in places]
    assert {tuple(outcome) for outcome in outcomes} == {("a", "b"), ("a", "b", "new")}
    assert outcomes[-1] == ["a", "b", "new"]
    # Once in, in for good: no later kill undoes it.
    assert outcomes == sorted(outcomes, key=len)
    for place, outcome in zip(places, outcomes, strict=True):
        with Store.open(place, writing=True) as store:
            if "new" not in outcome:
                store.add("new", parts[2])
            assert store.sample_count == 40


@pytest.mark.slow
def test_killed_while_removing_a_client_is_in_or_gone(killed):
    run, _, _ = killed
    places = run("remove")
    outcomes = [members_after(place) for place in places]
    assert {tuple(outcome) for outcome in outcomes} == {("a", "b"), ("a",)}
    assert outcomes == sorted(outcomes, key=len, reverse=True)


@pytest.mark.slow
def test_killed_while_making_a_store_it_can_be_made_again(killed):
    run, parts, _ = killed
    encoder = fixed_data("embedding", 5).encoder
    for place in run("create"):
        if not (place / "encoder.safetensors").exists():
            with pytest.raises(StoreError, match="not a store"):
                Store.open(place)
        with Store.create(place, encoder) as store:
            if "new" not in store.members:
                store.add("new", parts[2])
            assert store.problems() == []
            assert encode(store.total().snapshot()) == parts[2]


CROWD = """
import sys, time
from pathlib import Path
from safle import load_encoder
from safle.errors import StoreError
from safle.server.store import Store
folder, who = Path(sys.argv[1]), sys.argv[2]
data, encoder = (folder / "new.stats").read_bytes(), load_encoder(folder / "encoder.safetensors")
print("ready", flush=True)
while not (folder / "go").exists():
    time.sleep(0.001)
for number in range(12):
    name = f"{who}-{number}"
    try:
        # Every time anew: all of them make the store, and none may replace it.
        with Store.create(folder / "store", encoder, seconds=120) as store:
            store.add(name, data, allow_duplicates=True)
    except StoreError:
        continue
    print(name, flush=True)
"""


@pytest.mark.slow
def test_store_of_many_processes_loses_nothing(tmp_path):
    data = fixed_data("embedding", 20)
    data.encoder.save(tmp_path / "encoder.safetensors")
    (tmp_path / "new.stats").write_bytes(encode(data.count()))
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", CROWD, tmp_path, str(who)], stdout=subprocess.PIPE, text=True
        )
        for who in range(8)
    ]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    (tmp_path / "go").touch()
    said = [
        line.strip() for writer in writers for line in writer.communicate(timeout=240)[0].split()
    ]
    assert {writer.returncode for writer in writers} == {0}
    store = Store.open(tmp_path / "store")
    assert sorted(store.members) == sorted(said)
    assert len(said) == 8 * 12
    assert store.problems() == []
    assert store.total().sample_count == 8 * 12 * 20
