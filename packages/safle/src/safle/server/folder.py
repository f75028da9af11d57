"""The folder of a store: its encoder, and the contributions, each named by its content."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from safle.encoders import Encoder, load_encoder
from safle.errors import SafleError, StoreError, WireError
from safle.server.database import DATABASE, LOCK, Member
from safle.statistics import Statistics
from safle.wire.contribution import Contribution, Entry

ENCODER, CONTRIBUTIONS = "encoder.safetensors", "contributions"
_PARTS = re.compile(rf"{ENCODER}|{CONTRIBUTIONS}|{LOCK}|{DATABASE}(-\w+)?|\.{ENCODER}\.\w+\.part")
_OURS = re.compile(r"[0-9a-f]{64}\.stats|\.[0-9a-f]{64}\.stats\.\w+\.part")


def check_unused(place: Path) -> None:
    """Refuse a folder of other things; what a store half made has left behind may be there."""
    if not place.exists() or (place / DATABASE).exists():
        return
    if any(not _PARTS.fullmatch(path.name) for path in place.iterdir()):
        raise StoreError(f"{place} holds other files; choose a new or an empty folder")
    inside = place / CONTRIBUTIONS
    if inside.is_symlink() or (inside.exists() and any(inside.iterdir())):
        raise StoreError(f"{inside} holds files of somebody's; choose a new or an empty folder")


def make_folder(place: Path, encoder: Encoder) -> None:
    """Put the encoder in, and make room for contributions."""
    path = place / ENCODER
    if path.exists() and load_encoder(path) != encoder:
        raise StoreError(f"{path} is another encoder; choose a new or an empty folder")
    (place / CONTRIBUTIONS).mkdir(exist_ok=True)
    encoder.save(path)


class Folder:
    """What lies in a store's folder beside the database.

    Parameters
    ----------
    fingerprint : of the encoder that the store was made with
    """

    def __init__(self, place: Path, fingerprint: str) -> None:
        self._place = place
        self.encoder = load_encoder(place / ENCODER)
        if self.encoder.fingerprint != fingerprint:
            raise StoreError(
                f"{place / ENCODER} is not the encoder that this store was made with "
                f"({fingerprint[:12]}…); bring it back"
            )

    @property
    def contributions(self) -> Path:
        """Where they lie; `StoreError` if somebody has put something else there."""
        folder = self._place / CONTRIBUTIONS
        if folder.is_symlink() or not folder.is_dir():
            raise StoreError(f"{folder} is not a folder of this store's own; bring it back")
        return folder

    def path(self, entry: Entry) -> Path:
        """Where the contribution lies, or would."""
        return self.contributions / f"{entry.digest}.stats"

    def read(self, expected: Member) -> Statistics:
        """A member's statistics, verified again."""
        path, client = self.path(expected), expected.client
        if not path.is_file():
            raise StoreError(
                f"{path}: the contribution of {client!r} is missing; get it from the client again "
                "('safle store remove', then 'safle store add')"
            )
        statistics, entry = Contribution.read(path, client).open(self.encoder.space)
        if (entry.digest, entry.samples) != (expected.digest, expected.samples):
            raise WireError("not the content that the database names")
        return statistics

    @contextmanager
    def naming(self, member: Member) -> Iterator[None]:
        """Whatever is wrong with a contribution is said of its file and client."""
        try:
            yield
        except StoreError:
            raise
        except SafleError as error:
            raise StoreError(
                f"{self.path(member)}: the contribution of {member.client!r} is damaged: {error}"
            ) from error

    def problem(self, member: Member) -> str:
        """What is wrong with a member's contribution; empty if nothing is."""
        try:
            with self.naming(member):
                self.read(member).multiply_out()
        except (SafleError, OSError) as error:
            return str(error)
        return ""

    def unnamed(self, members: Iterable[Member]) -> list[Path]:
        """Our own files that are not in: those of removed clients and of crashes."""
        named = {f"{member.digest}.stats" for member in members}
        found = (path for path in self.contributions.iterdir() if path.name not in named)
        return sorted(path for path in found if _is_ours(path))

    def strangers(self) -> list[Path]:
        """What lies among the contributions and is not the store's: it is never touched."""
        return sorted(path for path in self.contributions.iterdir() if not _is_ours(path))


def _is_ours(path: Path) -> bool:
    """Whether a store wrote this file; never what a link leads to."""
    return bool(_OURS.fullmatch(path.name)) and path.is_file() and not path.is_symlink()
