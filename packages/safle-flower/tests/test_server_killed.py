"""kill -9 of the server's app at random instants, fifty times over one federation."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from flower_support.network import PATHS, PATIENCE

pytestmark = pytest.mark.slow
CLIENTS, KILLS, AT_ONCE = 60, 50, 2

# Every run is a fork, so that its instants are those of the round and not of importing Python.
# A line per kill: how many the dead one had said are in, and who is.
KILLER = """
import json, os, random, signal, sys, time, traceback
from pathlib import Path
from safle import load_encoder
from flower_support.stores import count_members
from safle.server.store import Store
from safle import count
from flower_support.serving import RegisteredGrid, serve_here
folder, clients, kills, at_once = Path(sys.argv[1]), *map(int, sys.argv[2:])
encoder = load_encoder(folder / "encoder.safetensors")
# Kernels are compiled or loaded once, before the first fork.
count(encoder, [[0.0] * encoder.feature_dim], [0])
generator = random.Random(5)

def start():
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        def progress(share):
            os.write(writing, b"%d\\n" % round(share * clients))
        try:
            serve_here(folder, kind=RegisteredGrid, progress=progress, **{"at-once": at_once})
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    os.close(writing)
    return child, reading

# So many lines of what a child says, or all.
def read(reading, lines):
    said = b""
    while said.count(b"\\n") < lines and (more := os.read(reading, 4096)):
        said += more
    return said

def finish(child, reading, said=b""):
    said += read(reading, sys.maxsize)
    os.close(reading)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), max([0, *map(int, said.split())])

done = 0
for _ in range(4 * kills):
    child, reading = start()
    # Some are killed before they have taken anybody, some after one or two; and then at any time.
    said = read(reading, generator.choice([0, 0, 1, 1, 2]))
    time.sleep(generator.uniform(0, 0.4))
    os.kill(child, signal.SIGKILL)
    code, said = finish(child, reading, said)
    assert code in (0, -9), code
    done += code == -9
    members = [*Store.open(folder / "store").members] if count_members(folder / "store") else []
    print(json.dumps({"said": said, "members": members}), flush=True)
    if done == kills:
        break
assert finish(*start())[0] == 0
"""


def test_a_federation_survives_fifty_kills(crowd):
    federation = crowd(CLIENTS, 5)
    done = subprocess.run(
        [sys.executable, "-c", KILLER, federation.folder, *map(str, (CLIENTS, KILLS, AT_ONCE))],
        env=PATHS | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    kills = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(kills) >= KILLS
    before: list[str] = []
    for kill in kills:
        # What was said to be in is in, and stays in.
        assert len(kill["members"]) >= kill["said"]
        assert kill["members"][: len(before)] == before
        before = kill["members"]
    # The kills fell all over the federation, not before or after it.
    assert len({len(kill["members"]) for kill in kills}) >= 10
    # Each kill costs at most the answers that were under way.
    counted = (federation.folder / "counted.txt").read_text().split()
    assert set(counted) == {*federation.names}
    assert len(counted) <= CLIENTS + (AT_ONCE + 1) * len(kills)
    model = (federation.folder / "results" / "model.safetensors").read_bytes()
    assert model == federation.by_files(federation.names, federation.folder)
