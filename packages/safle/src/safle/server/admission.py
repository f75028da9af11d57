"""Admission: the limits that a contribution must keep, in a store and in a sum alike.

The operator declares `Limits` before anybody sends anything. Without them the first client could
use up all samples that a gram can count, or name classes that no other client has. `Admission` also
knows who has joined; it checks the thousandth client as fast as the first, and keeps of each client
only its name and digest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from safle.basics import atomic
from safle.basics.paths import as_toml, read_toml
from safle.basics.settings import as_settings
from safle.errors import CountOverflow, DuplicateContribution, LimitExceeded, SettingsError
from safle.server.contribution import Contribution
from safle.tables.checks import ClassName, as_class_names

ClassType = Literal["any", "int", "str"]
_TYPES = {"int": int, "str": str}
_PLURALS = {"int": "integers", "str": "strings"}


@dataclass(frozen=True)
class Limits:
    """The most that one contribution, and all of them together, may hold.

    Attributes
    ----------
    most_samples : of one client
    most_classes : of all clients together
    classes : the only classes that are allowed; empty if all are
    class_type : type of the class names: "int", "str", or "any" (the first client decides)
    allow_empty : whether to admit a client without samples; usually it has sent the wrong file

    Examples
    --------
    >>> Limits(most_samples=100).most_classes
    1000
    """

    most_samples: int = 10_000_000
    most_classes: int = 1_000
    classes: tuple[ClassName, ...] = ()
    class_type: ClassType = "any"
    allow_empty: bool = False

    def __post_init__(self) -> None:
        if self.class_type not in ("any", *_TYPES):
            raise SettingsError(f"class_type {self.class_type!r}; expected any, int or str")
        for name in ("most_samples", "most_classes"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise SettingsError(f"{name} {value!r}; expected a whole number, at least 1")
        classes = self.classes
        if self.class_type == "int":
            try:
                classes = tuple(int(name) for name in classes)
            except ValueError as error:
                raise SettingsError(f"classes of type int: {error}") from error
        object.__setattr__(self, "classes", as_class_names(classes))

    @staticmethod
    def read(path: Path) -> Limits:
        """The limits in a TOML file; the defaults if there is none."""
        if not path.exists():
            return Limits()
        return as_settings(Limits, read_toml(path, "limits"), where=f"{path}: ")

    def save(self, path: Path) -> None:
        """Write a TOML file, atomically."""
        lines = [f"{name} = {as_toml(value)}" for name, value in asdict(self).items()]
        atomic.write_text(path, "\n".join(lines) + "\n")

    def check_samples(self, samples: int) -> None:
        """Refuse a client of too many samples, or of none."""
        if not samples and not self.allow_empty:
            raise LimitExceeded(
                "no samples; is it the right file? A client without samples changes nothing: "
                "leave it out, or allow it with --allow-empty (allow_empty= in Python)"
            )
        if samples > self.most_samples:
            raise LimitExceeded(
                f"{samples:,} samples; this federation takes up to {self.most_samples:,} from "
                "a client: if it has more, raise most_samples"
            )

    def check_classes(self, classes: Sequence[ClassName], before: Set[ClassName]) -> None:
        """Refuse classes that break a limit, alone or together with the classes ``before``.

        Without a declared type nobody can tell who is wrong: the error says how to declare it.
        """
        expected = _TYPES.get(self.class_type)
        if expected and (wrong := [name for name in classes if type(name) is not expected]):
            raise LimitExceeded(
                f"class {_quote(wrong[0])}; the classes of this federation are "
                f"{_PLURALS[self.class_type]} (class_type)"
            )
        if self.classes and (unknown := sorted({*classes} - {*self.classes}, key=str)):
            raise LimitExceeded(
                f"class {_quote(unknown[0])} is not one of the {len(self.classes)} that this "
                "federation has (classes)"
            )

        union = before | {*classes}
        if len({type(name) for name in union}) > 1:
            raise LimitExceeded(
                f"class {_quote(classes[0])}; other clients have classes of another type, like "
                f"{_quote(next(iter(before)))}: declare the right type (class_type), and remove "
                "the clients that have the other"
            )
        if len(union) > self.most_classes:
            raise LimitExceeded(
                f"{len(union):,} classes in all with these; this federation has up to "
                f"{self.most_classes:,}: if there are more, raise most_classes"
            )


class Admission:
    """The clients that have joined: their samples, classes and digests.

    Attributes
    ----------
    limits : what a client may send
    most_total_samples : of all clients together: the most that the integers of a gram can count
    samples : of all clients that have joined

    Examples
    --------
    >>> admission = Admission(Limits(), most_total_samples=1000)
    >>> sent = Contribution("a.stats", "0" * 64, samples=10, bytes=100, classes=("ill", "well"))
    >>> admission.check(sent)
    >>> admission.join(sent)
    >>> admission.samples, sorted(admission.classes)
    (10, ['ill', 'well'])
    """

    def __init__(self, limits: Limits, *, most_total_samples: float = float("inf")) -> None:
        self.limits = limits
        self.most_total_samples = most_total_samples
        self.samples = 0
        self._classes: Counter[ClassName] = Counter()
        self._senders: dict[str, list[str]] = {}

    @property
    def classes(self) -> Set[ClassName]:
        """Names of the classes of all clients that have joined."""
        return self._classes.keys()

    def check_classes(self, classes: tuple[ClassName, ...]) -> None:
        """Refuse classes before their contribution is decompressed: verifying many takes long."""
        self.limits.check_classes(classes, self.classes)

    def check(self, sent: Contribution, *, allow_duplicates: bool = False) -> None:
        """Refuse a contribution that breaks a limit, overflows the sum or was sent before."""
        # Empty clients all have the same digest, and counting them twice does no harm.
        senders = self._senders.get(sent.digest) if sent.samples else None
        if senders and not allow_duplicates:
            raise DuplicateContribution(
                f"contribution {sent.digest[:12]}… came from {senders[0]!r} already; leave one "
                "out, or, if two clients really hold the same data, use --allow-duplicates "
                "(allow_duplicates= in Python)"
            )
        self.limits.check_samples(sent.samples)
        self.limits.check_classes(sent.classes, self.classes)
        if self.samples + sent.samples > self.most_total_samples:
            raise CountOverflow(
                f"{self.samples} + {sent.samples} samples exceed the {self.most_total_samples} "
                "that this gram's integers can count: split the federation"
            )

    def join(self, sent: Contribution) -> None:
        """Add a client whose contribution `check` has not refused."""
        self._classes.update(sent.classes)
        self._senders.setdefault(sent.digest, []).append(sent.client)
        self.samples += sent.samples

    def leave(self, sent: Contribution) -> None:
        """Remove a client that has joined."""
        self._classes.subtract(sent.classes)
        # Adding to a counter drops the classes that no client has any more.
        self._classes += Counter()
        self.samples -= sent.samples
        self._senders[sent.digest].remove(sent.client)
        if not self._senders[sent.digest]:
            del self._senders[sent.digest]


def _quote(name: ClassName) -> str:
    return repr(name) if isinstance(name, int) else repr(name[:40])
