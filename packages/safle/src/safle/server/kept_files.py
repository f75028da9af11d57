"""The contributions that a store keeps: a folder of files, each named by its content."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from safle.encoders import Encoder
from safle.errors import SafleError, StoreError, WireError
from safle.server.database import Member
from safle.statistics import Statistics
from safle.wire.contribution import Contribution, Entry

CONTRIBUTIONS = "contributions"
_OURS = re.compile(r"[0-9a-f]{64}\.stats|\.[0-9a-f]{64}\.stats\.\w+\.part")


class KeptFiles:
    """The files of one store, all counted with one encoder.

    Parameters
    ----------
    store : the store's folder, in which theirs lies
    """

    def __init__(self, store: Path, encoder: Encoder) -> None:
        self._within, self._encoder = store, encoder

    @property
    def folder(self) -> Path:
        """Where they lie; `StoreError` if somebody has put something else there."""
        folder = self._within / CONTRIBUTIONS
        if folder.is_symlink() or not folder.is_dir():
            raise StoreError(f"{folder} is not a folder of this store's own; bring it back")
        return folder

    def path(self, entry: Entry) -> Path:
        """Where the contribution lies, or would."""
        return self.folder / f"{entry.digest}.stats"

    def read(self, expected: Member) -> Statistics:
        """A member's statistics, verified again."""
        path, client = self.path(expected), expected.client
        if not path.is_file():
            raise StoreError(
                f"{path}: the contribution of {client!r} is missing; get it from the client again "
                f"('safle store remove', then 'safle store add')"
            )
        statistics, entry = Contribution.read(path, client).open(self._encoder.space)
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

    def unnamed(self, members: Iterable[Member]) -> list[Path]:
        """Our own files that are not in: those of removed clients and of crashes."""
        named = {f"{member.digest}.stats" for member in members}
        found = (path for path in self.folder.iterdir() if path.name not in named)
        return sorted(path for path in found if _is_ours(path))

    def strangers(self) -> list[Path]:
        """What lies among the contributions and is not the store's: it is never touched."""
        return sorted(path for path in self.folder.iterdir() if not _is_ours(path))


def _is_ours(path: Path) -> bool:
    """Whether a store wrote this file; never what a link leads to."""
    return bool(_OURS.fullmatch(path.name)) and path.is_file() and not path.is_symlink()
