"""Flower's programs, run as children of this process: started, waited for, stopped."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil

from safle.basics import atomic
from safle.errors import FederationError

SECONDS_TO_STOP = 10.0


def program(name: str) -> str:
    """The path of one of Flower's programs, of this Python's environment."""
    return str(Path(sys.executable).with_name(name))


def environment(home: Path) -> dict[str, str]:
    """Flower's variables: its files under ``home``, and nothing sent or fetched anywhere."""
    # Flower starts its own programs by name.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return os.environ | {
        "PATH": path,
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
    }


def free_port() -> int:
    """A port of this machine that nobody listens on.

    Below those that outgoing connections are given: none of them takes it before it is used.
    """
    while True:
        port = random.SystemRandom().randrange(16_384, 32_768)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port


def name_connection(home: Path, address: str) -> None:
    """Tell the ``flwr`` command, in its ``home``, of an insecure SuperLink: connection "safle"."""
    home.mkdir(parents=True, exist_ok=True)
    lines = ["[superlink]", 'default = "safle"', "", "[superlink.safle]"]
    lines += [f'address = "{address}"', "insecure = true", ""]
    atomic.write_text(home / "config.toml", "\n".join(lines))


@contextlib.contextmanager
def running(
    command: Sequence[str | Path], *, env: dict[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A program in a process group of its own, all of which is stopped at the end."""
    with log.open("ab") as file:
        process = subprocess.Popen(
            [*map(str, command)],
            env=env,
            stdout=file,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ask a program and its children to end; insist after a while."""
    started: list[psutil.Process] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        # Flower gives some of them a group of their own.
        started = psutil.Process(process.pid).children(recursive=True)
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(SECONDS_TO_STOP)
    process.wait()
    for child in psutil.wait_procs(started, SECONDS_TO_STOP)[1]:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()


def wait_until_healthy(
    port: int, process: subprocess.Popen[bytes], *, log: Path, seconds: float = 300.0
) -> None:
    """Return when an insecure SuperLink on this machine answers."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if process.poll() is not None:
            break
        with (
            contextlib.suppress(urllib.error.URLError, OSError),
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2),
        ):
            return
        time.sleep(0.1)
    raise FederationError(f"the SuperLink did not start; its last words:\n{tail(log)}")


def flwr(*arguments: str | Path, env: dict[str, str], seconds: float = 300.0) -> dict[str, Any]:
    """Run the ``flwr`` command with ``--format json``; what it answers."""
    done = subprocess.run(
        [program("flwr"), *map(str, arguments), "--format", "json"],
        env=env,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    start = done.stdout.find("{")
    try:
        answer: dict[str, Any] = json.loads(done.stdout[start:]) if start >= 0 else {}
    except ValueError:
        answer = {}
    if done.returncode or not answer.get("success"):
        reason = (answer.get("error-message") or done.stdout + done.stderr).strip()
        raise FederationError(f"flwr {arguments[0]} failed: {reason}")
    return answer


def start_run(app: Path, *options: str, env: dict[str, str]) -> str:
    """Start a run on connection "safle"; its number."""
    return str(flwr("run", app, "safle", *options, env=env)["run-id"])


def run_status(run: str, *, env: dict[str, str]) -> str:
    """Flower's word for it: "pending", "running", "finished:completed", "finished:failed"."""
    runs = flwr("list", "safle", "--run-id", run, env=env)["runs"]
    return str(runs[0]["status"])


def tail(log: Path, lines: int = 15) -> str:
    """The end of a log file."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
