"""The store: contributions kept in a folder, so that a model can be solved again from any of them.

`safle.server.folder` says what lies in it, and how a kill at any moment ends: with the old store or
the new one. A file is verified, written and on the disk before it is renamed into place.
"""

from __future__ import annotations

import hashlib
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Self

from filelock import FileLock

from safle.basics import atomic
from safle.basics.journal import Row, append_event
from safle.basics.progress import Progress, no_progress
from safle.basics.texts import name_some, require_type
from safle.encoders.base import Encoder, load_encoder
from safle.errors import (
    DuplicateContribution,
    EncoderMismatch,
    InvalidInput,
    SafleError,
    SafleWarning,
    SolveError,
    StoreError,
    WireError,
)
from safle.server import folder as files
from safle.server.limits import (
    Admission,
    Contribution,
    Limits,
    open_contribution,
    read_contribution,
)
from safle.statistics.accumulator import Accumulator
from safle.statistics.statistics import Statistics
from safle.wire.container import read_limited

_log = logging.getLogger(__name__)
ADVICE = "the bytes of a statistics file, such as safle.wire.encode(statistics)"


class Store:
    """Open it with `Store.open` or `Store.create`; close it, or use it in a ``with`` block.

    Attributes
    ----------
    folder : where it is
    encoder : the encoder of all contributions
    limits : what a client may send

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from safle import LinearEncoder, count, declared_range, encode
    >>> encoder = LinearEncoder.calibrated(declared_range(0, 1, feature_dim=1))
    >>> sent = encode(count(encoder, [[0.2], [0.7]], ["ill", "well"]))
    >>> with TemporaryDirectory() as folder, Store.create(f"{folder}/store", encoder) as store:
    ...     store.add("hospital-a", sent).samples
    ...     [path.name for path in Path(folder, "store", "contributions").iterdir()]
    2
    ['hospital-a.stats']
    """

    def __init__(self, folder: Path, lock: FileLock | None = None) -> None:
        self.folder = folder
        self.encoder: Encoder = load_encoder(folder / files.ENCODER)
        self.limits = Limits.read(folder / files.LIMITS)
        self._lock = lock
        if lock is not None:
            files.settle(folder)
        self._logged, places = files.read(folder)
        self._members: dict[str, Contribution] = {}
        self._unreadable = files.find_missing(self._logged, folder, places)
        names = [*places, *self._unreadable]
        self._by_folded_name = {files.fold(name): name for name in names}
        for client, path in places.items():
            received = self._logged.get(client, {}).get("time", "")
            try:
                head = read_contribution(path, client, self.encoder.space, received)
            except (SafleError, OSError) as error:
                self._unreadable[client] = self._describe_damage(client, error)
            else:
                self._members[client] = head
        self._admission = self._admission_by(self.limits)
        for member in self._members.values():
            self._admission.join(member)

    @staticmethod
    def create(
        folder: str | os.PathLike[str], encoder: Encoder, *, seconds: float = files.SECONDS_TO_WAIT
    ) -> Store:
        """A new store, or an existing one of the same encoder; open for writing.

        ``seconds`` is how long to wait for another process that is changing it.
        """
        place = Path(folder)
        files.check_unused(place)
        with files.locking(atomic.make_folder(place), seconds) as lock:
            # Only the holder of the lock makes the store, so nobody replaces another one.
            if not files.is_store(place):
                files.make(place, encoder)
            store = Store(place, lock)
            if store.encoder != encoder:
                raise EncoderMismatch(
                    f"{place} holds contributions of encoder {store.encoder.fingerprint[:12]}…, "
                    f"not of {encoder.fingerprint[:12]}…; choose another store"
                )
            return store

    @staticmethod
    def open(
        folder: str | os.PathLike[str],
        *,
        writing: bool = False,
        seconds: float = files.SECONDS_TO_WAIT,
    ) -> Store:
        """A store that exists. One process at a time may have it open for writing."""
        place = Path(folder)
        if not files.is_store(place):
            raise StoreError(
                f"{place} is not a store: it has no {files.ENCODER}; make one with 'safle store "
                "add --encoder'"
            )
        if not writing:
            return Store(place)
        with files.locking(place, seconds) as lock:
            return Store(place, lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the lock, so that other processes can change the store."""
        if self._lock is not None:
            self._lock.release()
        self._lock = None

    @property
    def members(self) -> Mapping[str, Contribution]:
        """The clients in the store, by name, in the order in which they came."""
        return MappingProxyType(self._members)

    @property
    def sample_count(self) -> int:
        return self._admission.samples

    def declare(self, limits: Limits) -> None:
        """Set what clients may send from now on; refused if a member has sent more."""
        self._require_writing()
        admission = self._admission_by(limits)
        for client, member in self._members.items():
            try:
                admission.check(member, allow_duplicates=True)
            except SafleError as error:
                raise StoreError(
                    f"client {client!r} is in and breaks these limits: {error}"
                ) from error
            admission.join(member)
        limits.save(self.folder / files.LIMITS)
        self.limits = limits
        self._admission = admission

    def _admission_by(self, limits: Limits) -> Admission:
        return Admission(limits, most_total_samples=self.encoder.layout.most_samples)

    def add(
        self,
        client: str,
        data: bytes,
        *,
        total: Accumulator | None = None,
        allow_duplicates: bool = False,
    ) -> Contribution:
        """Verify a client's contribution and keep it; it is on the disk when this returns.

        The same counts, sent again by the same client, change nothing. A `SafleError` means that
        the contribution is refused and the store unchanged.

        Parameters
        ----------
        client : one contribution is kept of each
        data : the bytes of its statistics file
        total : the sum of all members, to which it is added as well
        allow_duplicates : accept it although another client has sent equal counts
        """
        self._require_writing()
        require_type("data", data, bytes, memoryview, advice=ADVICE)
        sha256 = hashlib.sha256(data).hexdigest()
        try:
            files.check_client(client)
            admit = self._admission.check_classes
            statistics, sent = open_contribution(client, data, self.encoder.space, admit)
            if client in self._members:
                return self._check_same(sent)
            self._check_place(client, sha256)
            self._admission.check(sent, allow_duplicates=allow_duplicates)
            # The last check, of what follows from columns: `Accumulator.add` does it too.
            if total is None:
                statistics.gram.require_integers()
            else:
                total.add(statistics)
        except SafleError as error:
            self._note("refused", str(client), sha256, str(error))
            raise
        try:
            received = self._keep(client, data, sha256)
        except BaseException:
            if total is not None:
                total.subtract(statistics)
            raise
        member = replace(sent, received=received)
        self._unreadable.pop(client, None)
        self._members[client] = member
        self._by_folded_name[files.fold(client)] = client
        self._admission.join(member)
        _log.info("%s: took %s, %d samples", self.folder, client, member.samples)
        return member

    def _check_same(self, sent: Contribution) -> Contribution:
        """The member, if it is what was sent; other counts of a client are refused."""
        before = self._members[sent.client]
        if before.digest != sent.digest:
            raise DuplicateContribution(
                f"client {sent.client!r} sent another contribution on {before.received}; to "
                "replace it, remove the client first"
            )
        return before

    def _check_place(self, client: str, sha256: str) -> None:
        """Refuse a name whose file would take another's place."""
        other = self._by_folded_name.get(files.fold(client), client)
        if other != client:
            raise InvalidInput(
                f"client {client!r}: its name differs from that of {other!r} in case only, and "
                "some systems would take their files for one; choose another name"
            )
        path = self._path_of(client)
        is_taken = client in self._unreadable or os.path.lexists(path)
        # The same bytes again mend a file that was damaged, or is missing.
        if is_taken and self._logged.get(client, {}).get("sha256") != sha256:
            raise DuplicateContribution(
                f"client {client!r} sent another contribution, which is damaged or missing, or "
                f"{path.name} is not a file of the store; remove the client first"
            )

    def _keep(self, client: str, data: bytes, sha256: str) -> str:
        """Write a contribution; return when it came."""
        with atomic.replacing(self._path_of(client)) as part:
            part.write_bytes(data)
            atomic.flush(part)
            row = self._note(files.RECEIVING, client, sha256)
            self._logged[client] = row
        try:
            self._note(files.RECEIVED, client, sha256)
        except StoreError as error:
            # The contribution is in all the same; the next opening of the store adds the line.
            warnings.warn(f"client {client!r} is in; {error}", SafleWarning, stacklevel=3)
        return str(row["time"])

    def remove(self, client: str) -> None:
        """Unlearn a client: the store is as if it had never sent anything."""
        self._require_writing()
        if client not in self._members and client not in self._unreadable:
            content = f"it has {name_some(self._members)}" if self._members else "it is empty"
            raise StoreError(f"{self.folder} has no client {client!r}; {content}")
        path = self._path_of(client)
        self._note(files.REMOVED, client, self._logged.get(client, {}).get("sha256", ""))
        if path.is_file() and not path.is_symlink():
            path.unlink()
            atomic.flush(path.parent)
        self._logged.pop(client, None)
        self._by_folded_name.pop(files.fold(client), None)
        self._unreadable.pop(client, None)
        member = self._members.pop(client, None)
        if member is not None:
            self._admission.leave(member)
        _log.info("%s: removed %s", self.folder, client)

    def total(self, progress: Progress = no_progress) -> Accumulator:
        """The sum of all members, in memory that does not grow with their number.

        ``total().snapshot()`` gives the statistics that `safle.solve` takes.
        """
        if self._unreadable:
            raise StoreError("; ".join(self._unreadable.values()))
        total = Accumulator(self.encoder)
        for client in self._walk(progress):
            try:
                total.add(self._read(client))
            except (SafleError, OSError) as error:
                raise StoreError(self._describe_damage(client, error)) from error
        return total

    def problems(self, progress: Progress = no_progress) -> list[str]:
        """Read everything and list the faults; the list is empty if all is well."""
        problems = dict(self._unreadable)
        for client in self._walk(progress):
            try:
                self._read(client).gram.require_integers()
            except (SafleError, OSError) as error:
                problems[client] = self._describe_damage(client, error)
        return [*problems.values()]

    def _read(self, client: str) -> Statistics:
        """A member's statistics, verified again; a gram of columns is not multiplied out yet."""
        data = read_limited(self._path_of(client))
        sha256 = self._logged.get(client, {}).get("sha256")
        if sha256 and sha256 != hashlib.sha256(data).hexdigest():
            raise WireError("its bytes are not those that the log says were received")
        statistics, found = open_contribution(client, data, self.encoder.space)
        if found.digest != self._members[client].digest:
            raise WireError("it has changed since the store was opened")
        return statistics

    def _describe_damage(self, client: str, error: Exception) -> str:
        path = self._path_of(client)
        reason = str(error).removeprefix(f"{path}: ")
        return f"{path}: the contribution of {client!r} is damaged: {reason}"

    def remarks(self) -> list[str]:
        """Worth knowing, but not errors: contributions that nobody added, and other files."""
        unknown = [self._path_of(c) for c in self._members if c not in self._logged]
        foreign = files.find_foreign(self.folder)
        return [
            *(
                f"{path}: the log does not list it: somebody else has put it there"
                for path in unknown
            ),
            *(f"{path}: not a file of the store; left alone" for path in foreign),
        ]

    def explain(self, solving: Callable[[Statistics], object]) -> str:
        """Why ``solving`` the sum failed: broken files, or else clients that also fail alone."""
        if broken := self.problems():
            return "; ".join(broken)
        failing = []
        for client in self._members:
            try:
                solving(self._read(client))
            except SolveError:
                failing.append(client)
            except InvalidInput:
                # One client may have too few classes or samples for a head that the sum allows.
                continue
        intact = f"all {len(self._members)} contributions verify"
        if not failing:
            return f"{intact}, and none fails when it is solved alone"
        return f"{intact}; these fail too when they are solved alone: {name_some(failing)}"

    def _walk(self, progress: Progress) -> Iterator[str]:
        for done, client in enumerate(self.members, start=1):
            yield client
            progress(done / len(self.members))

    def _path_of(self, client: str) -> Path:
        return files.path_of(self.folder, client)

    def _note(self, event: str, client: str, sha256: str, note: str = "") -> Row:
        return append_event(self.folder / files.LOG, event, who=client, sha256=sha256, note=note)

    def _require_writing(self) -> None:
        if self._lock is None:
            raise StoreError(f"{self.folder} is open for reading only")
