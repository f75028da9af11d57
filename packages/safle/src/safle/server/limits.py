"""Limits: what a contribution must keep, in a store and in a sum alike; and the facts of one.

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

from safle.basics import atomic
from safle.basics.paths import as_toml, read_toml
from safle.basics.settings import as_settings
from safle.encoders.codes import CodeSpace
from safle.errors import CountOverflow, DuplicateContribution, LimitExceeded, SettingsError
from safle.statistics.statistics import Statistics
from safle.tables.checks import ClassName, as_class_names
from safle.wire.formats import Admit
from safle.wire.statistics import FORMAT, read_head


@dataclass(frozen=True)
class Contribution:
    """The facts of one client's file, as stores and sums list them.

    Attributes
    ----------
    client : who sent it, or the name of its file
    digest : of its content; the contribution's identity
    samples : number of samples that it counts
    bytes : size of the file
    classes : names of the classes it has seen; none in a histogram
    received : when it came into a store, in UTC

    Examples
    --------
    >>> Contribution("hospital-a", "0" * 64, samples=120, bytes=4096, classes=("ill",)).samples
    120
    """

    client: str
    digest: str
    samples: int
    bytes: int
    classes: tuple[ClassName, ...] = ()
    received: str = ""


def open_contribution(
    client: str, data: bytes, space: CodeSpace, admit: Admit = lambda _classes: None
) -> tuple[Statistics, Contribution]:
    """The statistics in a file's bytes, and their facts; a `SafleError` for bad ones.

    All is verified except whether the entries that follow from columns are integers. That is
    checked when they are added, or by `safle.statistics.gram.Gram.require_integers`.

    Parameters
    ----------
    space : the code space that is expected
    admit : gets the class names before sections are decompressed; refuses by `LimitExceeded`
    """
    statistics, digest = FORMAT.open(data, like=Statistics.empty(space), admit=admit)
    samples = statistics.sample_count
    return statistics, Contribution(client, digest, samples, len(data), statistics.class_names)


def read_contribution(
    path: Path, client: str, space: CodeSpace, received: str = ""
) -> Contribution:
    """What the header of a file says; its sums are not read, and nothing is verified yet."""
    digest, header = read_head(path)
    space.check_same_encoder(header.fingerprint, same_layout=True)
    size = path.stat().st_size
    return Contribution(client, digest, header.samples, size, tuple(header.classes), received)


@dataclass(frozen=True)
class Limits:
    """The most that one contribution, and all of them together, may hold.

    Attributes
    ----------
    most_samples : of one client
    most_classes : of all clients together
    classes : the only classes that are allowed; empty if all are
    allow_empty : whether to admit a client without samples; usually it has sent the wrong file

    Examples
    --------
    >>> Limits(most_samples=100).most_classes
    1000
    """

    most_samples: int = 10_000_000
    most_classes: int = 1_000
    classes: tuple[ClassName, ...] = ()
    allow_empty: bool = False

    def __post_init__(self) -> None:
        for name in ("most_samples", "most_classes"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise SettingsError(f"{name} {value!r}; expected a whole number, at least 1")
        object.__setattr__(self, "classes", as_class_names(self.classes))

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

        Without declared classes, which client is wrong is unknown: the error says what to do.
        """
        if self.classes and (unknown := sorted({*classes} - {*self.classes}, key=str)):
            raise LimitExceeded(
                f"class {_quote(unknown[0])} is not one of the {len(self.classes)} that this "
                "federation has (classes)"
            )

        union = before | {*classes}
        if len({type(name) for name in union}) > 1:
            raise LimitExceeded(
                f"class {_quote(classes[0])}; other clients have classes of another type, like "
                f"{_quote(next(iter(before)))}: declare the right ones (--only-classes; classes "
                "in limits.toml), and remove the clients that have others"
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
        # Adding to a counter drops the classes that clients no longer have.
        self._classes += Counter()
        self.samples -= sent.samples
        self._senders[sent.digest].remove(sent.client)
        if not self._senders[sent.digest]:
            del self._senders[sent.digest]


def _quote(name: ClassName) -> str:
    return repr(name) if isinstance(name, int) else repr(name[:40])
