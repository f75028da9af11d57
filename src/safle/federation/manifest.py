"""Manifest: which contributions a sum holds, in a file beside it.

A sum's own bytes must not depend on how the data were split, so who contributed is kept
in ``<sum>.manifest.json``: readable, and bound to the sum by its digest.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from safle.encoders.features import ClassName
from safle.errors import DuplicateContribution, InvalidInput, WireError

FORMAT = "safle-manifest-1"
MAX_FILE_BYTES = 1 << 28
SUFFIX = ".manifest.json"


@dataclass(frozen=True)
class Contribution:
    """One client's file as received.

    Attributes
    ----------
    digest : of the file's content; the contribution's identity
    file : its name when it was added
    samples : how many it counted
    bytes : size of the file
    classes : names of the classes it has seen; none in a histogram
    """

    digest: str
    file: str
    samples: int
    bytes: int
    classes: tuple[ClassName, ...] = ()


@dataclass(frozen=True)
class Manifest:
    """What a sum is made of.

    Attributes
    ----------
    kind : "statistics" or "histogram"
    digest : of the sum's content
    samples : in the sum
    contributions : in the order in which they were added
    removed : taken back by force although they were not listed
    """

    kind: str
    digest: str
    samples: int
    contributions: tuple[Contribution, ...]
    removed: tuple[Contribution, ...] = ()

    def without(self, contribution: Contribution) -> Manifest | None:
        """The manifest with one entry of that digest dropped; None if there is none."""
        for at, entry in enumerate(self.contributions):
            if entry.digest == contribution.digest:
                kept = self.contributions[:at] + self.contributions[at + 1 :]
                return replace(self, contributions=kept)
        return None

    def to_json(self) -> str:
        """The text of the manifest file."""
        content = {
            "format": FORMAT,
            "kind": self.kind,
            "digest": self.digest,
            "samples": self.samples,
            "contributions": [vars(entry) for entry in self.contributions],
            "removed": [vars(entry) for entry in self.removed],
        }
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


class Received:
    """What has been added so far; refuses the same contribution twice."""

    def __init__(self, *, allow_duplicates: bool) -> None:
        self._allow = allow_duplicates
        self._where: dict[str, str] = {}
        self.contributions: list[Contribution] = []

    def add(self, contributions: Iterable[Contribution], path: Path) -> None:
        """Note the contributions that ``path`` brings."""
        brought = tuple(contributions)
        for entry in brought:
            # Nothing, twice, is nothing: empty clients all have the same digest.
            if entry.samples and not self._allow and entry.digest in self._where:
                raise DuplicateContribution(
                    f"{path} brings contribution {entry.digest[:12]}… ({entry.file}), which "
                    f"{self._where[entry.digest]} has brought already; leave one out, or, if two "
                    "clients really hold the same data, use --allow-duplicates "
                    "(allow_duplicates= in Python)"
                )
        self._where |= {entry.digest: str(path) for entry in brought}
        self.contributions += brought


def manifest_path(path: str | os.PathLike[str]) -> Path:
    """Where the manifest of the sum at ``path`` is."""
    return Path(f"{os.fspath(path)}{SUFFIX}")


def read_manifest(path: str | os.PathLike[str], *, digest: str) -> Manifest | None:
    """The manifest of the sum at ``path``, or None if there is none.

    Parameters
    ----------
    digest : of the sum's content; a manifest of anything else is refused
    """
    beside = manifest_path(path)
    if not beside.exists():
        return None
    manifest = load_manifest(beside)
    if manifest.digest != digest:
        raise InvalidInput(
            f"{beside} describes content {manifest.digest[:12]}…, {path} holds {digest[:12]}…; "
            "they were not written together: sum again, or delete the manifest"
        )
    return manifest


def load_manifest(path: str | os.PathLike[str]) -> Manifest:
    """Read a manifest file; `WireError` if it is not one."""
    file = Path(path)
    if file.stat().st_size > MAX_FILE_BYTES:
        raise WireError(f"{file} is larger than {MAX_FILE_BYTES} bytes; not a safle manifest")
    try:
        content = json.loads(file.read_bytes())
        if content["format"] != FORMAT:
            raise WireError(f"manifest format {content['format']!r}; expected {FORMAT!r}")
        return Manifest(
            _typed(content, "kind", str),
            _typed(content, "digest", str),
            _typed(content, "samples", int),
            tuple(map(parse_contribution, content["contributions"])),
            tuple(map(parse_contribution, content["removed"])),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise WireError(f"{file} is not a valid safle manifest: {error}") from error


def parse_contribution(entry: Any) -> Contribution:
    """A contribution from JSON; `ValueError`, `TypeError` or `KeyError` if it is none."""
    classes = tuple(entry["classes"])
    if not all(type(name) in (int, str) for name in classes):
        raise WireError("class names must be integers or strings")
    return Contribution(
        _typed(entry, "digest", str),
        _typed(entry, "file", str),
        _typed(entry, "samples", int),
        _typed(entry, "bytes", int),
        classes,
    )


def _typed(content: Any, name: str, kind: type) -> Any:
    value = content[name]
    if type(value) is not kind:
        raise WireError(f"{name} is {value!r}; expected {kind.__name__}")
    return value
