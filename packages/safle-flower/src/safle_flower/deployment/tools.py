"""Run openssl and ssh-keygen, which make and read the keys and certificates of a deployment."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from safle.errors import SettingsError


def run(*command: str | Path, folder: Path | None = None) -> str:
    """Run a program and return what it prints; `SettingsError` if it fails or is missing."""
    if shutil.which(str(command[0])) is None:
        raise SettingsError(f"{command[0]} is not on this machine; install it and try again")
    done = subprocess.run(
        [*map(str, command)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
        raise SettingsError(f"{command[0]} failed: {lines[-1]}")
    return done.stdout


def succeeds(*command: str | Path) -> bool:
    """Whether a program runs and exits with 0."""
    try:
        run(*command)
    except SettingsError:
        return False
    return True
