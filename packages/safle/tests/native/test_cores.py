"""Our kernels and a BLAS never have the cores at once, and the process gets back what it had."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

BEGIN = """
import json
from threadpoolctl import ThreadpoolController
import scipy.linalg
from safle._native.cores import LARGE, blas_for, kernel_threads, use_threads
blas = ThreadpoolController().select(user_api="blas").lib_controllers
def now(): return [kernel_threads(), *sorted({library.get_num_threads() for library in blas})]
"""
BLOCKS = """
found = {"before": now()}
with blas_for():
    found["small"] = now()
    with blas_for(LARGE):
        found["large"] = now()
    found["small again"] = now()
with use_threads(1), blas_for(LARGE):
    found["limited"] = now()
found["after"] = now()
print(json.dumps(found))
"""
FIT = """
import numpy as np
from safle import count, declared_range, make_encoder, solve
features = np.random.default_rng(0).random((300, 64))
total = count(make_encoder(declared_range(0, 1, feature_dim=64)), features, features[:, 0] > 0.5)
found = []
solve(total, progress=lambda _: found.append(now()))
print(json.dumps([found, now()]))
"""

PRODUCT = """
import numpy as np
from safle.encoders.operations import NumpyOperations
class Watched(np.ndarray):
    def __matmul__(self, other):
        print(json.dumps(now()))
        return np.asarray(self) @ other
NumpyOperations().integer_product(np.ones((2, 2)).view(Watched), np.eye(2))
"""


def told(program: str, **environment: str) -> Any:
    """What a new process with two threads for each BLAS prints."""
    command = [sys.executable, "-c", BEGIN + program]
    settings = os.environ | {"OMP_NUM_THREADS": "2", "SAFLE_THREADS": "2", **environment}
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_the_cores_go_to_the_blas_for_much_work_and_to_the_kernels_else() -> None:
    assert told(BLOCKS) == {
        "before": [2, 2],
        "small": [2, 1],
        "large": [1, 2],
        "small again": [2, 1],
        "limited": [1, 1],
        "after": [2, 2],
    }


@pytest.mark.parametrize(("asked", "large"), [("1", [1, 1]), ("3", [1, 3])])
def test_safle_threads_overrules_what_the_blas_has(asked: str, large: list[int]) -> None:
    assert told(BLOCKS, SAFLE_THREADS=asked)["large"] == large


def test_without_it_the_blas_gets_no_more_than_it_has() -> None:
    assert told(BLOCKS, SAFLE_THREADS="", OMP_NUM_THREADS="1")["large"][1:] == [1]


def test_a_small_solve_leaves_the_cores_to_the_kernels() -> None:
    found, after = told(FIT)
    assert found == [[2, 1]] * len(found)
    assert found
    assert after == [2, 2]


def test_a_small_product_of_integers_leaves_the_cores_to_the_kernels() -> None:
    assert told(PRODUCT) == [2, 1]


def test_a_thread_sets_the_cores_although_another_did_before() -> None:
    program = """
from threading import Event, Thread
entered = Event()
left = Event()
def work():
    with blas_for():
        entered.set()
        left.wait()
other = Thread(target=work)
other.start()
entered.wait()
with blas_for(LARGE): found = now()
with blas_for(): found += now()
left.set()
other.join()
print(json.dumps(found))
"""
    assert told(program) == [1, 2, 2, 1]


def test_threads_that_overlap_give_everything_back() -> None:
    program = """
from threading import Thread
def work():
    for turn in range(300):
        with blas_for(LARGE * (turn % 2)): pass
workers = [Thread(target=work) for _ in range(4)]
for worker in workers: worker.start()
for worker in workers: worker.join()
print(json.dumps(now()))
"""
    assert told(program) == [2, 2]
