"""Who is in a store, and what the next contribution is held against, however many are in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from safle.basics.texts import name_some
from safle.encoders.features import ClassName
from safle.errors import CountOverflow, DuplicateContribution
from safle.server.contribution import Entry
from safle.server.database import Member
from safle.server.limits import Limits


class Membership(Mapping[str, Member]):
    """Members by the client's name, in the order in which they came.

    Joining, leaving and being checked take as long for the thousandth as for the first.

    >>> members = Membership([])
    >>> len(members), members.samples, members.describe()
    (0, 0, 'it is empty')
    """

    def __init__(self, members: Iterable[Member]) -> None:
        self._members: dict[str, Member] = {}
        self._classes: Counter[ClassName] = Counter()
        self._digests: Counter[str] = Counter()
        self.samples = 0
        for member in members:
            self.join(member)

    def __getitem__(self, client: str) -> Member:
        return self._members[client]

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def join(self, member: Member) -> None:
        """Take somebody in."""
        self._members[member.client] = member
        self._classes.update(member.classes)
        self._digests[member.digest] += 1
        self.samples += member.samples

    def leave(self, client: str) -> bool:
        """Let somebody go; whether nobody else has sent the same bytes."""
        member = self._members.pop(client)
        self._classes.subtract(member.classes)
        self._classes += Counter()
        self._digests[member.digest] -= 1
        self.samples -= member.samples
        return not self._digests[member.digest]

    def check_classes(self, limits: Limits, classes: tuple[ClassName, ...]) -> None:
        """Before a contribution is unfolded: so many classes would take long to verify."""
        limits.check_classes(classes, self._classes.keys())

    def check_limits(self, limits: Limits, entry: Entry) -> None:
        """Whether a contribution, of somebody who is in or not, is within the limits."""
        limits.check_join(entry, self._classes.keys())

    def check_fits(
        self, added: Entry, limits: Limits, *, most_samples: int, allow_duplicates: bool
    ) -> None:
        """Whatever would keep the sum from being made is refused before it is kept."""
        before = self._members.get(added.client)
        if before is not None:
            same = "the same" if before.digest == added.digest else "another"
            raise DuplicateContribution(
                f"client {added.client!r} has sent {same} contribution on {before.received}; to "
                "replace it, remove the client first"
            )
        # Nothing, twice, is nothing: empty clients all have the same digest.
        if added.samples and not allow_duplicates and self._digests[added.digest]:
            sent = (name for name, kept in self._members.items() if kept.digest == added.digest)
            raise DuplicateContribution(
                f"{added.digest[:12]}… is the contribution of client {next(sent)!r} already; if "
                "two clients really hold the same data, use --allow-duplicates "
                "(allow_duplicates= in Python)"
            )
        self.check_limits(limits, added)
        if self.samples + added.samples > most_samples:
            raise CountOverflow(
                f"{self.samples} + {added.samples} samples exceed the {most_samples} that this "
                "gram's integers can count: split the federation"
            )

    def describe(self) -> str:
        """Some of their names."""
        return f"it has {name_some(self)}" if self else "it is empty"
