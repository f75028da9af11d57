"""Manifest: which contributions a sum holds, in a file beside it.

A sum's own bytes must not depend on how the data were split, so who contributed is kept
in ``<sum>.manifest.json``: readable, and bound to the sum by its digest, its samples and its
classes. Whoever can write the file can still name other contributions of the same size: a
manifest says what its writer says, and proves nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from safle.basics.places import as_path, naming
from safle.encoders.features import ClassName
from safle.errors import DuplicateContribution, InvalidInput, WireError
from safle.server.contribution import APPROVAL, PAGE, TEXT, Entry
from safle.server.limits import Limits

FORMAT = "safle-manifest-2"
MAX_FILE_BYTES = 1 << 28
SUFFIX = ".manifest.json"
BESIDE = (SUFFIX, TEXT, PAGE, APPROVAL)
"""How names end of what lies beside contributions and is none."""


@dataclass(frozen=True)
class Manifest:
    """What a sum is made of.

    Attributes
    ----------
    kind : "statistics", "histogram" or "evaluation counts"
    digest : of the sum's content
    contributions : in the order in which they were added
    removed : taken back by force although they were not listed
    """

    kind: str
    digest: str
    contributions: tuple[Entry, ...]
    removed: tuple[Entry, ...] = ()

    @property
    def samples(self) -> int:
        """In the sum: those that were added without those that were removed."""
        added = sum(entry.samples for entry in self.contributions)
        return added - sum(entry.samples for entry in self.removed)

    def without(self, entry: Entry) -> Manifest | None:
        """The manifest with one entry of that digest dropped; None if there is none."""
        for at, listed in enumerate(self.contributions):
            if listed.digest == entry.digest:
                if (listed.samples, listed.classes) != (entry.samples, entry.classes):
                    raise InvalidInput(
                        f"the manifest lists {entry.digest[:12]}… with {listed.samples} samples, "
                        f"the contribution has {entry.samples}: the manifest is not true"
                    )
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
            "contributions": [entry.to_json() for entry in self.contributions],
            "removed": [entry.to_json() for entry in self.removed],
        }
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"

    def check_describes(self, digest: str, samples: int, classes: Iterable[ClassName]) -> None:
        """Whether a sum of this digest, samples and classes can be made of these entries."""
        seen = {name for entry in self.contributions for name in entry.classes}
        found = {*classes}
        alone = len(self.contributions) == 1 and not self.removed
        if self.digest != digest:
            problem = f"describes content {self.digest[:12]}…, the file holds {digest[:12]}…"
        elif self.samples != samples:
            problem = f"lists {self.samples} samples, the file holds {samples}"
        elif not found <= seen or (found != seen and not self.removed):
            problem = "lists other classes than the file holds"
        elif alone and self.contributions[0].digest != digest:
            problem = "lists one contribution, which is not the one that the file holds"
        else:
            return
        raise InvalidInput(
            f"{problem}; they were not written together: sum again, or delete the manifest"
        )


class Listed(NamedTuple):
    """A file and the contributions it stands for: itself, if there is no manifest beside it."""

    source: str
    itself: Entry
    manifest: Manifest
    has_manifest: bool

    @staticmethod
    def of(source: str, kind: str, itself: Entry) -> Listed:
        """The file at ``source``, which holds what ``itself`` lists."""
        manifest = read_manifest(source, itself)
        if manifest is not None and manifest.kind != kind:
            raise InvalidInput(
                f"{manifest_path(source)} is of a sum of {manifest.kind[:40]!r}, the file holds "
                f"{kind}: delete the manifest"
            )
        alone = Manifest(kind, itself.digest, (itself,))
        return Listed(source, itself, manifest or alone, manifest is not None)


class Received:
    """The files added so far; refuses a contribution beyond the limits, or one that came before."""

    def __init__(self, limits: Limits, *, allow_duplicates: bool) -> None:
        self._limits, self._allow = limits, allow_duplicates
        self._classes: set[ClassName] = set()
        self._where: dict[str, str] = {}
        self._named: dict[tuple[str, str], int] = {}
        self.files: list[Listed] = []
        self.contributions: list[Entry] = []

    def admit(self, classes: tuple[ClassName, ...]) -> None:
        """Refuse classes beyond the limits before their file is unfolded."""
        self._limits.check_classes(classes, self._classes)

    def add(self, file: Listed) -> None:
        """Note a file and the contributions that it stands for."""
        brought, path = file.manifest.contributions, file.source
        with naming(path):
            for entry in brought:
                self._limits.check_join(entry, self._classes)
                self._classes |= {*entry.classes}
        # The file itself counts too: under another manifest it is still the same file.
        for entry in (file.itself, *brought):
            # Nothing, twice, is nothing: empty clients all have the same digest.
            if entry.samples and not self._allow and entry.digest in self._where:
                raise DuplicateContribution(
                    f"{path} brings contribution {entry.digest[:12]}… ({entry.client}), which "
                    f"{self._where[entry.digest]} has brought already; leave one out, or, if two "
                    "clients really hold the same data, use --allow-duplicates "
                    "(allow_duplicates= in Python)"
                )
        self._where |= {entry.digest: path for entry in (file.itself, *brought)}
        self.files.append(file)
        self.contributions += map(self._distinct, brought)

    def _distinct(self, entry: Entry) -> Entry:
        """The entry, numbered where it has been listed before."""
        key = (entry.client, entry.digest)
        times = self._named[key] = self._named.get(key, 0) + 1
        return entry if times == 1 else replace(entry, client=f"{entry.client} ({times})")


def manifest_path(path: str | os.PathLike[str]) -> Path:
    """Where the manifest of the sum at ``path`` is."""
    return as_path(f"{path}{SUFFIX}")


def read_manifest(path: str | os.PathLike[str], entry: Entry) -> Manifest | None:
    """The manifest of the sum at ``path``, or None if there is none.

    Parameters
    ----------
    entry : of the sum's content; a manifest of anything else is refused
    """
    beside = manifest_path(path)
    if not beside.exists():
        return None
    manifest = load_manifest(beside)
    try:
        manifest.check_describes(entry.digest, entry.samples, entry.classes)
    except InvalidInput as error:
        raise InvalidInput(f"{beside}: {error}") from error
    return manifest


def load_manifest(path: str | os.PathLike[str]) -> Manifest:
    """Read a manifest file; `WireError` if it is not one."""
    file = as_path(path)
    if file.stat().st_size > MAX_FILE_BYTES:
        raise WireError(f"{file} is larger than {MAX_FILE_BYTES} bytes; not a safle manifest")
    try:
        content = json.loads(file.read_bytes())
        if content["format"] != FORMAT:
            raise WireError(f"manifest format {content['format']!r}; expected {FORMAT!r}")
        lists = [
            tuple(map(Entry.from_json, content[name])) for name in ("contributions", "removed")
        ]
        manifest = Manifest(str(content["kind"]), str(content["digest"]), *lists)
        if manifest.samples != content["samples"]:
            raise WireError(
                f"says {content['samples']!r} samples, its entries add up to {manifest.samples}"
            )
        named = [(entry.client, entry.digest) for entry in manifest.contributions]
        if len(set(named)) != len(named):
            raise WireError("lists a contribution twice")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise WireError(f"{file} is not a valid safle manifest: {error}") from error
    return manifest
