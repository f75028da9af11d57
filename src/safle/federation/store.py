"""The store: contributions kept on disk, so that a model can be solved again from any of them.

    store/
        encoder.safetensors              what they were all counted with
        contributions/<digest>.stats     one file a contribution, named by its content
        index                            who is in: `safle.federation.index`

A contribution counts from the moment its line is in the index, and until the line that removes
it. Files come before the lines that name them and go after the lines that drop them, so a
kill at any moment leaves at most a file that no line names; the next writer deletes it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from safle._internal import atomic
from safle.encoders import Encoder, load_encoder
from safle.errors import EncoderMismatch, SafleError, StoreError, WireError
from safle.federation.index import IndexWriter, create_index, read_index
from safle.federation.manifest import Contribution, Manifest
from safle.federation.members import (
    Member,
    added_line,
    apply_change,
    check_client,
    check_fits,
    removed_line,
    samples_of,
)
from safle.statistics import Accumulator, Statistics
from safle.wire import container
from safle.wire.statistics import from_container

FORMAT = "safle-store-1"
INDEX, ENCODER, CONTRIBUTIONS = "index", "encoder.safetensors", "contributions"

Progress = Callable[[float], None]
"""Called with the finished share, 0 to 1."""


class Store:
    """Open it with `Store.open` or `Store.create`; close it, or use it in a ``with`` block.

    Attributes
    ----------
    encoder : that every contribution was counted with
    members : who is in, by the client's name, in the order in which they came
    """

    def __init__(self, folder: Path, encoder: Encoder, writer: IndexWriter | None) -> None:
        self.folder = folder
        self.encoder = encoder
        self._writer = writer
        self._members: dict[str, Member] = {}

    @staticmethod
    def create(folder: str | os.PathLike[str], encoder: Encoder) -> Store:
        """A new store, or the one that is there if it is of the same encoder; for writing."""
        place = Path(folder)
        if not (place / INDEX).exists():
            _check_unused(place)
            (place / CONTRIBUTIONS).mkdir(parents=True, exist_ok=True)
            encoder.save(place / ENCODER)
            create_index(place / INDEX, {"format": FORMAT, "fingerprint": encoder.fingerprint})
        store = Store.open(place, writing=True)
        if store.encoder != encoder:
            store.close()
            raise EncoderMismatch(
                f"{place} holds contributions of encoder {store.encoder.fingerprint[:12]}…, not of "
                f"{encoder.fingerprint[:12]}…; choose another store"
            )
        return store

    @staticmethod
    def open(folder: str | os.PathLike[str], *, writing: bool = False) -> Store:
        """A store that exists. One process at a time may have it open for writing."""
        place = Path(folder)
        if not (place / INDEX).is_file():
            raise StoreError(
                f"{place} is not a store: it has no index; make one with 'safle store add'"
            )
        writer = IndexWriter(place / INDEX) if writing else None
        try:
            lines = writer.lines if writer else read_index(place / INDEX)
            encoder = load_encoder(place / ENCODER)
            store = Store(place, encoder, writer)
            store._replay(lines)
            if writing:
                store._sweep()
        except BaseException:
            if writer:
                writer.close()
            raise
        return store

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let others change the store."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    @property
    def members(self) -> Mapping[str, Member]:
        return self._members

    @property
    def sample_count(self) -> int:
        return samples_of(self._members)

    def add(
        self, client: str, data: bytes | memoryview, *, allow_duplicates: bool = False
    ) -> Statistics:
        """Verify a contribution and keep it; it is on the disk when this returns.

        Parameters
        ----------
        client : its name; one contribution a client
        data : a statistics file's bytes
        allow_duplicates : take it although another client has sent the very same counts

        Returns
        -------
        statistics : what the contribution holds, until the next one is added or read

        Raises
        ------
        SafleError
            It is refused, and the store is as it was.
        """
        name = check_client(client)
        opened = container.from_bytes(data, kind=container.STATISTICS)
        statistics = self._decode(opened)
        added = Contribution(
            opened.digest, name, statistics.sample_count, len(data), statistics.class_names
        )
        check_fits(self._members, added, self.encoder, allow_duplicates=allow_duplicates)
        atomic.write_bytes(self._path(added.digest), data)
        member = Member(added, datetime.now(UTC).isoformat(timespec="seconds"))
        self._append(added_line(member))
        self._members[name] = member
        return statistics

    def remove(self, client: str) -> Member:
        """Unlearn a client: the store is as if it had never sent anything."""
        member = self._members.get(client)
        if member is None:
            raise StoreError(f"{self.folder} has no client {client!r}; {self._listing()}")
        self._append(removed_line(member))
        del self._members[client]
        self._sweep()
        return member

    def contributions(self, progress: Progress | None = None) -> Iterator[Statistics]:
        """Every member's statistics, verified again, each in the memory of the one before."""
        for done, (client, member) in enumerate(self._members.items(), start=1):
            yield self._read(client, member.contribution)
            if progress is not None:
                progress(done / len(self._members))

    def total(self, progress: Progress | None = None) -> Accumulator:
        """The sum of all members."""
        total = Accumulator(self.encoder)
        for statistics in self.contributions(progress):
            total.add(statistics)
        return total

    def manifest(self) -> Manifest:
        """What the sum of all members is made of; its digest is not known yet."""
        parts = tuple(member.contribution for member in self._members.values())
        return Manifest("statistics", "", self.sample_count, parts)

    def problems(self, progress: Progress | None = None) -> list[str]:
        """Read everything and say what is wrong with it; nothing, if all is well."""
        found = []
        for done, (client, member) in enumerate(self._members.items(), start=1):
            try:
                self._read(client, member.contribution)
            except (SafleError, OSError) as error:
                found.append(str(error))
            if progress is not None:
                progress(done / len(self._members))
        found += [
            f"{path}: no line of the index names it; the next change of the store deletes it"
            for path in self._unnamed()
        ]
        return found

    def _read(self, client: str, expected: Contribution) -> Statistics:
        path = self._path(expected.digest)
        if not path.is_file():
            raise StoreError(
                f"{path}: the contribution of {client!r} is missing; get it from the client again "
                f"('safle store remove', then 'safle store add')"
            )
        try:
            opened = container.read_file(path, kind=container.STATISTICS)
            statistics = self._decode(opened)
            if (opened.digest, statistics.sample_count) != (expected.digest, expected.samples):
                raise WireError("not the content that the index names")
        except SafleError as error:
            raise StoreError(
                f"{path}: the contribution of {client!r} is damaged: {error}"
            ) from error
        return statistics

    def _decode(self, opened: container.Container) -> Statistics:
        encoder = self.encoder
        statistics = from_container(
            opened,
            fingerprint=encoder.fingerprint,
            limit=container.DEFAULT_LIMIT,
        )
        encoder.require(statistics)
        return statistics

    def _append(self, line: dict[str, Any]) -> None:
        if self._writer is None:
            raise StoreError(f"{self.folder} is open for reading only")
        self._writer.append(line)

    def _replay(self, lines: Iterable[dict[str, Any]]) -> None:
        header, *changes = [*lines] or [{}]
        if header.get("format") != FORMAT:
            raise StoreError(
                f"{self.folder / INDEX} has format {header.get('format')!r}; this safle reads "
                f"{FORMAT!r}"
            )
        if header.get("fingerprint") != self.encoder.fingerprint:
            raise StoreError(
                f"{self.folder / ENCODER} is not the encoder that this store was made with "
                f"({str(header.get('fingerprint'))[:12]}…); bring it back"
            )
        for number, line in enumerate(changes, start=2):
            try:
                apply_change(self._members, line)
            except (KeyError, TypeError, ValueError) as error:
                raise StoreError(
                    f"{self.folder / INDEX}: line {number} is not valid: {error}"
                ) from error

    def _sweep(self) -> None:
        for path in self._unnamed():
            path.unlink(missing_ok=True)

    def _unnamed(self) -> list[Path]:
        """Files of contributions that are not in: those of removed clients and of crashes."""
        named = {self._path(member.contribution.digest) for member in self._members.values()}
        return sorted(set((self.folder / CONTRIBUTIONS).iterdir()) - named)

    def _path(self, digest: str) -> Path:
        return self.folder / CONTRIBUTIONS / f"{digest}.stats"

    def _listing(self) -> str:
        names = [*self._members][:8]
        more = len(self._members) - len(names)
        shown = ", ".join(map(repr, names)) + (f" and {more} more" if more else "")
        return f"it has {shown}" if names else "it is empty"


def _check_unused(place: Path) -> None:
    """Refuse a folder of other things; what a store half made has left behind may be there."""
    ours = {ENCODER, CONTRIBUTIONS}
    if place.exists() and any(
        path.name not in ours and path.suffix != ".part" for path in place.iterdir()
    ):
        raise StoreError(f"{place} holds other files; choose a new or an empty folder")
