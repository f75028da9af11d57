"""A program that is stopped leaves nobody behind."""

from __future__ import annotations

import os
import sys

import psutil

from flower_support import processes
from flower_support.network import eventually, has_ended

# As Flower's SuperLink: its child has a session of its own, and outlives a parent that is killed.
PARENT = """
import subprocess, sys, time
subprocess.Popen(["sleep", "3600"], start_new_session=True)
print("begun", flush=True)
time.sleep(3600)
"""


def test_children_with_a_session_of_their_own_are_stopped_too(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "SECONDS_TO_STOP", 0.5)
    log = tmp_path / "log"
    command = [sys.executable, "-c", PARENT]
    with processes.running(command, env=dict(os.environ), log=log) as parent:
        eventually(lambda: "begun" in log.read_text())
        (child,) = psutil.Process(parent.pid).children()
        assert not has_ended(child)
    eventually(lambda: has_ended(child))
