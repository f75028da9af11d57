"""The store: contributions kept on disk, so that a model can be solved again from any of them.

    store/
        encoder.safetensors              what they were all counted with
        contributions/<digest>.stats     one file a contribution, named by its content
        store.sqlite                     who is in: `safle.server.database`
        lock                             held by the one process that may change the store

A contribution counts from the moment its row is in the database, and until the row says that
it was removed. Files come before the rows that name them and go after, so a kill at any moment
leaves at most a file that no row names; the next writer deletes it. Files that are not named as
the store names its own are nobody's business but their owner's.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Self

from safle.basics import atomic
from safle.basics.texts import name_some
from safle.encoders import Encoder
from safle.errors import EncoderMismatch, InvalidInput, SafleError, SolveError, StoreError
from safle.server.contribution import Contribution
from safle.server.database import DATABASE, SECONDS_TO_WAIT, Database, Lock, Member
from safle.server.kept_files import KeptFiles
from safle.server.limits import Limits
from safle.server.membership import Membership
from safle.server.store_facts import check_unused, make_store, read_facts, write_limits
from safle.statistics import Accumulator, Statistics

_log = logging.getLogger(__name__)

Progress = Callable[[float], None]
"""Called with the finished share, 0 to 1."""


class Store:
    """Open it with `Store.open` or `Store.create`; close it, or use it in a ``with`` block.

    Attributes
    ----------
    encoder : that every contribution was counted with
    limits : what a client may claim
    roster : names by public key of those one of whom must have signed; empty if nobody must
    members : who is in, by the client's name, in the order in which they came
    files : what they sent

    >>> from tempfile import TemporaryDirectory
    >>> from safle import DeclaredRange, LinearEncoder
    >>> encoder = LinearEncoder.calibrated(DeclaredRange(0, 1, feature_dim=2))
    >>> with TemporaryDirectory() as folder, Store.create(f"{folder}/store", encoder) as store:
    ...     store.sample_count
    0
    """

    def __init__(self, folder: Path, lock: Lock | None, making: Encoder | None = None) -> None:
        self.folder = folder
        self._held = ExitStack()
        with ExitStack() as stack:
            if lock is not None:
                stack.callback(lock.close)
            database = stack.enter_context(closing(Database(folder, create=making is not None)))
            # Whoever has the lock makes the store: nobody replaces what another has made.
            if making is not None and not database.facts():
                make_store(folder, making, database)
            self.encoder, self.limits, self.roster = read_facts(folder, database.facts())
            self.files = KeptFiles(folder, self.encoder)
            self.members = Membership(database.members())
            self._database = None if lock is None else database
            if lock is not None:
                for path in self.files.unnamed(self.members.values()):
                    path.unlink(missing_ok=True)
                self._held = stack.pop_all()

    @staticmethod
    def create(
        folder: str | os.PathLike[str], encoder: Encoder, *, seconds: float = SECONDS_TO_WAIT
    ) -> Store:
        """A new store, or the one that is there if it is of the same encoder; for writing.

        ``seconds`` is how long to wait for another process that is changing it.
        """
        place = Path(folder)
        check_unused(place)
        place.mkdir(parents=True, exist_ok=True)
        store = Store(place, Lock(place, seconds=seconds), encoder)
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
        return Store(place, Lock(place, seconds=seconds) if writing else None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let others change the store."""
        self._database = None
        self._held.close()

    @property
    def sample_count(self) -> int:
        return self.members.samples

    def declare(self, limits: Limits) -> None:
        """Set what clients may claim from now on; refused if those who are in claim more."""
        database = self._writable()
        for client, member in self.members.items():
            try:
                self.members.check_limits(limits, member)
            except SafleError as error:
                raise StoreError(f"client {client!r}, who is in, has {error}") from error
        database.set_fact("limits", write_limits(limits))
        self.limits = limits

    def require_approval(self, roster: Mapping[str, str]) -> None:
        """Take only what one of these has signed from now on; who is in stays.

        Parameters
        ----------
        roster : names by public key, from `safle.site.approval.parse_roster`
        """
        self._writable().set_fact("roster", json.dumps(dict(roster)))
        self.roster = dict(roster)

    def add(
        self,
        contribution: Contribution,
        *,
        total: Accumulator | None = None,
        allow_duplicates: bool = False,
    ) -> Member:
        """Verify a contribution and keep it; it is on the disk when this returns.

        Parameters
        ----------
        contribution : one per client
        total : the sum of all members, to which it is added as well
        allow_duplicates : take it although another client has sent the very same counts

        Raises
        ------
        SafleError
            It is refused, and the store is as it was.
        """
        database, sent = self._writable(), hashlib.sha256(contribution.data).hexdigest()
        try:
            admit = partial(self.members.check_classes, self.limits)
            statistics, entry = contribution.open(self.encoder, admit)
            approver = self._check_approved(contribution)
            most = self.encoder.layout.most_samples
            self.members.check_fits(
                entry, self.limits, most_samples=most, allow_duplicates=allow_duplicates
            )
            # Whether all sums are integers shows when they are multiplied out: into the total,
            # where there is one.
            if total is None:
                statistics.multiply_out()
            else:
                total.add(statistics)
        except SafleError as error:
            database.refuse(contribution.client, sent, str(error))
            raise
        try:
            atomic.write_bytes(self.files.path(entry), contribution.data)
            member = database.add(entry, sent, approver)
        except BaseException:
            if total is not None:
                total.subtract(statistics)
            raise
        self.members.join(member)
        _log.info("%s: took %s, %d samples", self.folder, member.client, member.samples)
        return member

    def remove(self, client: str) -> Member:
        """Unlearn a client: the store is as if it had never sent anything."""
        member = self.members.get(client)
        if member is None:
            raise StoreError(f"{self.folder} has no client {client!r}; {self.members.describe()}")
        path = self.files.path(member)
        sent = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        self._writable().remove(member, sent)
        # Another client's file, where two sent the same.
        if self.members.leave(client):
            path.unlink(missing_ok=True)
        _log.info("%s: removed %s", self.folder, client)
        return member

    def contributions(self, progress: Progress | None = None) -> Iterator[Statistics]:
        """Every member's statistics, verified again, one at a time."""
        for member in self._each(progress):
            with self.files.naming(member):
                statistics = self.files.read(member)
                statistics.multiply_out()
            yield statistics

    def total(self, progress: Progress | None = None) -> Accumulator:
        """The sum of all members, in memory that does not grow with their number."""
        total = Accumulator(self.encoder)
        for member in self._each(progress):
            with self.files.naming(member):
                total.add(self.files.read(member))
        return total

    def problems(self, progress: Progress | None = None) -> list[str]:
        """Read everything and say what is wrong with it; nothing, if all is well."""
        found = []
        for member in self._each(progress):
            try:
                with self.files.naming(member):
                    self.files.read(member).multiply_out()
            except (SafleError, OSError) as error:
                found.append(str(error))
        found += [
            f"{path}: no row of the database names it; the next change of the store deletes it"
            for path in self.files.unnamed(self.members.values())
        ]
        return found

    def explain(self, solving: Callable[[Statistics], object]) -> str:
        """Why the sum of all cannot be solved: who is broken, or else who fails alone as well.

        Parameters
        ----------
        solving : what failed for the sum
        """
        if broken := self.problems():
            return "; ".join(broken)
        failing = [
            client
            for client, statistics in zip(self.members, self.contributions(), strict=True)
            if _fails(solving, statistics)
        ]
        found = f"all {len(self.members)} contributions verify"
        if not failing:
            return f"{found}, and none fails by itself"
        return f"{found}; solved by themselves, these fail too: {name_some(failing)}"

    def _each(self, progress: Progress | None) -> Iterator[Member]:
        for done, member in enumerate(self.members.values(), start=1):
            yield member
            if progress is not None:
                progress(done / len(self.members))

    def _check_approved(self, contribution: Contribution) -> str:
        """Who has signed it, for the log; `ApprovalError` if the roster wants somebody to."""
        if not self.roster:
            return ""
        # Where there is no roster, nobody needs to have cryptography.
        from safle.site.approval import check_approved

        return f"signed by {check_approved(self.roster, contribution.data, contribution.approval)}"

    def _writable(self) -> Database:
        if self._database is None:
            raise StoreError(f"{self.folder} is open for reading only")
        return self._database


def _fails(solving: Callable[[Statistics], object], statistics: Statistics) -> bool:
    try:
        solving(statistics)
    except SolveError:
        return True
    except InvalidInput:
        # One client's classes or samples may be too few for a head that the sum can have.
        return False
    return False
