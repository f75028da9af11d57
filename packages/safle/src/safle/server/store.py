"""The store: contributions kept on disk, so that a model can be solved again from any of them.

    store/
        encoder.safetensors              the encoder of all contributions
        contributions/<digest>.stats     one file per contribution, named by its content
        store.sqlite                     the members: `safle.server.folder`
        lock                             held by the one process that may change the store

A contribution counts from the moment its row is in the database until another row says that it
was removed. A file is written before its row, and deleted after it, so a kill at any moment
leaves at most a file that no row names; the next writer deletes it. The store leaves files with
other names alone.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from sqlite3 import Connection
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

from safle.basics import atomic
from safle.basics.progress import Progress, no_progress
from safle.basics.texts import name_some, require_type
from safle.encoders import Encoder
from safle.errors import (
    DuplicateContribution,
    EncoderMismatch,
    InvalidInput,
    SafleError,
    SolveError,
    StoreError,
)
from safle.server.admission import Admission, Limits
from safle.server.folder import (
    DATABASE,
    SECONDS_TO_WAIT,
    Database,
    Folder,
    Member,
    check_unused,
    make_folder,
    take_lock,
)
from safle.statistics import Accumulator, Statistics
from safle.wire.contribution import Contribution, Entry

if TYPE_CHECKING:
    from safle.model import Model

_log = logging.getLogger(__name__)
NAMED = "Contribution(client, safle.wire.encode(statistics)), or Contribution.read(path)"


class Store:
    """Open it with `Store.open` or `Store.create`; close it, or use it in a ``with`` block.

    Attributes
    ----------
    encoder : the encoder of all contributions
    limits : what a client may send
    files : the contributions on the disk

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from safle import DeclaredRange, LinearEncoder
    >>> encoder = LinearEncoder.calibrated(DeclaredRange(0, 1, feature_dim=2))
    >>> with TemporaryDirectory() as folder, Store.create(f"{folder}/store", encoder) as store:
    ...     store.sample_count
    0
    """

    def __init__(
        self, folder: Path, lock: Connection | None, encoder: Encoder | None = None
    ) -> None:
        self.folder = folder
        self._resources = ExitStack()
        with ExitStack() as stack:
            if lock is not None:
                stack.callback(lock.close)
            database = stack.enter_context(closing(Database(folder, create=encoder is not None)))
            # Only the process with the lock makes the store, so none replaces another's.
            if encoder is not None and database.declared() is None:
                make_folder(folder, encoder)
                database.declare(encoder.fingerprint, Limits())
            declared = database.declared()
            if declared is None:
                raise StoreError(
                    f"{folder} is not a store: its making was interrupted; make it again with "
                    "'safle store add --encoder'"
                )
            fingerprint, self.limits = declared
            self.files = Folder(folder, fingerprint)
            self.encoder = self.files.encoder
            self._members = {member.client: member for member in database.members()}
            self._admission = self._admit_all(self.limits)
            self._database = None if lock is None else database
            if lock is not None:
                for path in self.files.find_unnamed(self._members.values()):
                    path.unlink(missing_ok=True)
                self._resources = stack.pop_all()

    @staticmethod
    def create(
        folder: str | os.PathLike[str], encoder: Encoder, *, seconds: float = SECONDS_TO_WAIT
    ) -> Store:
        """A new store, or an existing one of the same encoder; open for writing.

        ``seconds`` is how long to wait for another process that is changing it.
        """
        place = Path(folder)
        check_unused(place)
        atomic.make_folder(place)
        store = Store(place, take_lock(place, seconds=seconds), encoder)
        if store.encoder != encoder:
            store.close()
            raise EncoderMismatch(
                f"{place} holds contributions of encoder {store.encoder.fingerprint[:12]}…, not of "
                f"{encoder.fingerprint[:12]}…; choose another store"
            )
        return store

    @staticmethod
    def open(
        folder: str | os.PathLike[str], *, writing: bool = False, seconds: float = SECONDS_TO_WAIT
    ) -> Store:
        """A store that exists. One process at a time may have it open for writing."""
        place = Path(folder)
        if not (place / DATABASE).is_file():
            raise StoreError(
                f"{place} is not a store: it has no {DATABASE}; make one with 'safle store add'"
            )
        return Store(place, take_lock(place, seconds=seconds) if writing else None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the lock, so that other processes can change the store."""
        self._database = None
        self._resources.close()

    @property
    def members(self) -> Mapping[str, Member]:
        """The clients in the store, by name, in the order in which they came."""
        return MappingProxyType(self._members)

    @property
    def sample_count(self) -> int:
        return self._admission.samples

    def declare(self, limits: Limits) -> None:
        """Set what clients may send from now on; refused if a member has sent more."""
        database = self._writable()
        admission = self._admit_all(limits, checking=True)
        database.declare(self.encoder.fingerprint, limits)
        self.limits, self._admission = limits, admission

    def _admit_all(self, limits: Limits, *, checking: bool = False) -> Admission:
        admission = Admission(limits, most_total_samples=self.encoder.layout.most_samples)
        for client, member in self._members.items():
            try:
                if checking:
                    admission.check(member, allow_duplicates=True)
            except SafleError as error:
                raise StoreError(
                    f"client {client!r} is in and breaks these limits: {error}"
                ) from error
            admission.join(member)
        return admission

    def add(
        self,
        contribution: Contribution,
        *,
        total: Accumulator | None = None,
        allow_duplicates: bool = False,
    ) -> Member:
        """Verify a contribution and keep it; it is on the disk when this returns.

        The same counts, sent again by the same client, change nothing. A `SafleError` means that
        the contribution is refused and the store unchanged.

        Parameters
        ----------
        contribution : one per client: `safle.wire.Contribution.read(path)` of a statistics file
        total : the sum of all members, to which it is added as well
        allow_duplicates : take it although another client has sent the very same counts
        """
        require_type("contribution", contribution, Contribution, advice=NAMED)
        database, file_digest = self._writable(), hashlib.sha256(contribution.data).hexdigest()
        try:
            statistics, entry = contribution.open(self.encoder.space, self._admission.check_classes)
            if (member_before := self._find_member(entry)) is not None:
                return member_before
            self._admission.check(entry, allow_duplicates=allow_duplicates)
            # Multiplying out shows whether all sums are integers; `Accumulator.add` does it too.
            if total is None:
                statistics.multiply_out()
            else:
                total.add(statistics)
        except SafleError as error:
            database.refuse(contribution.client, file_digest, str(error))
            raise
        try:
            atomic.write_bytes(self.files.path(entry), contribution.data)
            member = database.add(entry, file_digest)
        except BaseException:
            if total is not None:
                total.subtract(statistics)
            raise
        self._members[member.client] = member
        self._admission.join(member)
        _log.info("%s: took %s, %d samples", self.folder, member.client, member.samples)
        return member

    def _find_member(self, entry: Entry) -> Member | None:
        """The member, if the client has sent these counts before; other counts are refused."""
        before = self._members.get(entry.client)
        if before is not None and before.digest != entry.digest:
            raise DuplicateContribution(
                f"client {entry.client!r} sent another contribution on {before.received}; to "
                "replace it, remove the client first"
            )
        return before

    def remove(self, client: str) -> Member:
        """Unlearn a client: the store is as if it had never sent anything."""
        member = self._members.get(client)
        if member is None:
            content = f"it has {name_some(self._members)}" if self._members else "it is empty"
            raise StoreError(f"{self.folder} has no client {client!r}; {content}")
        path = self.files.path(member)
        file_digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        self._writable().remove(member, file_digest)
        del self._members[client]
        # The file stays if another client has sent the same counts.
        if self._admission.leave(member):
            path.unlink(missing_ok=True)
        _log.info("%s: removed %s", self.folder, client)
        return member

    def total(self, progress: Progress = no_progress) -> Accumulator:
        """The sum of all members, in memory that does not grow with their number.

        ``total().snapshot()`` gives the statistics that `safle.solve` takes.
        """
        total = Accumulator(self.encoder)
        for member in self._walk_members(progress):
            with self.files.naming(member):
                total.add(self.files.read(member))
        return total

    def check_origin(self, model: Model, progress: Progress = no_progress) -> None:
        """`StoreError` unless the model was solved from the sum of exactly the members."""
        # Only here: taking contributions in needs no solver.
        from safle.solver.solution import digest_of_sum

        sum_digest = digest_of_sum(self.total(progress).snapshot())
        if model.sum_digest != sum_digest:
            raise StoreError(
                f"the model was solved from another sum ({model.sum_digest[:12] or 'unknown'}…) "
                f"than the one of the {len(self._members)} clients of {self.folder} "
                f"({sum_digest[:12]}…): clients have come or gone since, or the model is of "
                "another store; solve again: safle store solve"
            )

    def problems(self, progress: Progress = no_progress) -> list[str]:
        """Read everything and list what is wrong; the list is empty if all is well."""
        problems = [self.files.find_problem(member) for member in self._walk_members(progress)]
        return [*filter(None, problems)] + [
            f"{path}: no row of the database names it; the next change of the store deletes it"
            for path in self.files.find_unnamed(self._members.values())
        ]

    def explain(self, solving: Callable[[Statistics], object]) -> str:
        """Why ``solving`` the sum failed: broken files, or else clients that also fail alone."""
        if broken := self.problems():
            return "; ".join(broken)
        failing = []
        for member in self._members.values():
            try:
                solving(self.files.read(member))
            except SolveError:
                failing.append(member.client)
            except InvalidInput:
                # One client's classes or samples may be too few for a head that the sum can have.
                continue
        intact = f"all {len(self._members)} contributions verify"
        if not failing:
            return f"{intact}, and none fails when it is solved alone"
        return f"{intact}; these fail too when they are solved alone: {name_some(failing)}"

    def _walk_members(self, progress: Progress) -> Iterator[Member]:
        for done, member in enumerate(self.members.values(), start=1):
            yield member
            progress(done / len(self.members))

    def _writable(self) -> Database:
        if self._database is None:
            raise StoreError(f"{self.folder} is open for reading only")
        return self._database
