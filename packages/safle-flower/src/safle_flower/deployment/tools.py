"""openssl and ssh-keygen, which make the keys and certificates of a deployment and read them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from safle.errors import SettingsError


def run(*words: str | Path, folder: Path | None = None) -> str:
    """What a program prints; `SettingsError` with its last line if it fails or is not there."""
    if shutil.which(str(words[0])) is None:
        raise SettingsError(f"{words[0]} is not on this machine; install it and try again")
    done = subprocess.run(
        [*map(str, words)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
        raise SettingsError(f"{words[0]} failed: {said[-1]}")
    return done.stdout


def succeeds(*words: str | Path) -> bool:
    """Whether a program ends well."""
    try:
        run(*words)
    except SettingsError:
        return False
    return True
