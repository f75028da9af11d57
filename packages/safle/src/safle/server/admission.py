"""Admission: what the next contribution is held against, in a store and in a sum alike.

It takes as long for the thousandth as for the first, and keeps a few words about each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set

from safle.encoders.features import ClassName
from safle.errors import CountOverflow, DuplicateContribution
from safle.server.limits import Limits
from safle.wire.contribution import Entry


class Admission:
    """Those who have joined: their samples, their classes and the digests of what they sent.

    Attributes
    ----------
    limits : what a client may claim
    most_samples : that the integers of a gram can count
    samples : of all who have joined

    Examples
    --------
    >>> admission = Admission(Limits(), most_samples=1000)
    >>> entry = Entry("a.stats", "0" * 64, samples=10, bytes=100, classes=("ill", "well"))
    >>> admission.check(entry)
    >>> admission.join(entry)
    >>> admission.samples, sorted(admission.classes)
    (10, ['ill', 'well'])
    """

    def __init__(self, limits: Limits, *, most_samples: float = float("inf")) -> None:
        self.limits, self.most_samples = limits, most_samples
        self.samples = 0
        self._classes: Counter[ClassName] = Counter()
        self._senders: dict[str, list[str]] = {}

    @property
    def classes(self) -> Set[ClassName]:
        """Names of the classes that anybody has brought."""
        return self._classes.keys()

    def check_classes(self, classes: tuple[ClassName, ...]) -> None:
        """Refuse classes before a contribution unfolds: so many would take long to verify."""
        self.limits.check_classes(classes, self.classes)

    def check(self, entry: Entry, *, allow_duplicates: bool = False) -> None:
        """Refuse whatever would keep the sum from being made, or count somebody twice."""
        # Nothing, twice, is nothing: empty clients all have the same digest.
        sent = self._senders.get(entry.digest) if entry.samples else None
        if sent and not allow_duplicates:
            raise DuplicateContribution(
                f"{entry.digest[:12]}… is the contribution of {sent[0]!r} already; leave one out, "
                "or, if two clients really hold the same data, use --allow-duplicates "
                "(allow_duplicates= in Python)"
            )
        self.limits.check_join(entry, self.classes)
        if self.samples + entry.samples > self.most_samples:
            raise CountOverflow(
                f"{self.samples} + {entry.samples} samples exceed the {self.most_samples} that "
                "this gram's integers can count: split the federation"
            )

    def join(self, entry: Entry) -> None:
        """Take somebody in, who was checked."""
        self._classes.update(entry.classes)
        self._senders.setdefault(entry.digest, []).append(entry.client)
        self.samples += entry.samples

    def leave(self, entry: Entry) -> bool:
        """Let somebody go; whether nobody else has sent the same bytes."""
        self._classes.subtract(entry.classes)
        self._classes += Counter()
        self.samples -= entry.samples
        self._senders[entry.digest].remove(entry.client)
        if self._senders[entry.digest]:
            return False
        del self._senders[entry.digest]
        return True
