"""Contribution: one client's statistics as bytes, with its sender; and the entry that lists it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

import msgspec

from safle.basics.places import StrPath, as_path
from safle.basics.settings import as_settings
from safle.encoders.codes import CodeSpace
from safle.encoders.features import ClassName, as_class_names, is_digest
from safle.errors import InvalidInput
from safle.statistics import Statistics
from safle.wire import container
from safle.wire.statistics import FORMAT, Admit

LONGEST_NAME = 200
Count = Annotated[int, msgspec.Meta(ge=0)]


@dataclass(frozen=True)
class Contribution:
    """One client's statistics as the bytes of a file, and who sent them.

    >>> Contribution("hospital-a", b"...").client
    'hospital-a'
    """

    client: str
    data: bytes = field(repr=False)

    @staticmethod
    def read(path: StrPath, client: str | None = None) -> Contribution:
        """The contribution in a file; the client's name is by default the file's."""
        return Contribution(client or as_path(path).name, container.read_limited(path))

    def open(
        self, space: CodeSpace | None = None, admit: Admit = lambda _classes: None
    ) -> tuple[Statistics, Entry]:
        """The statistics, and the entry that lists them; a `SafleError` for bad ones.

        All is verified but one thing: a gram that was sent as columns is multiplied out when it is
        first added or read, and only then shows whether its entries are integers.

        Parameters
        ----------
        space : the code space that is expected
        admit : gets the class names before sections are decompressed; refuses by `LimitExceeded`
        """
        client = check_client(self.client)
        statistics, digest = FORMAT.open(self.data, space=space, admit=admit, multiply_out=False)
        samples, classes = statistics.sample_count, statistics.class_names
        return statistics, Entry(client, digest, samples, len(self.data), classes)


@dataclass(frozen=True)
class Entry:
    """The facts of a contribution that stores and sums list.

    Attributes
    ----------
    client : who sent it, or the name of its file
    digest : of its content; the contribution's identity
    samples : number of samples that it counts
    bytes : size of the file
    classes : names of the classes it has seen; none in a histogram

    Examples
    --------
    >>> Entry("hospital-a", "0" * 64, samples=120, bytes=4096, classes=("ill", "well")).samples
    120
    """

    client: str
    digest: str
    samples: Count
    bytes: Count
    classes: tuple[ClassName, ...] = ()

    def __post_init__(self) -> None:
        check_client(self.client)
        # The digest becomes a file's name, so it must not be a path.
        if not is_digest(self.digest):
            raise InvalidInput(f"digest {str(self.digest)[:80]!r}; expected 64 hexadecimal digits")
        if as_class_names(self.classes) != self.classes:
            raise InvalidInput("the class names of an entry are not in ascending order")

    def to_json(self) -> dict[str, Any]:
        """The entry as JSON values."""
        return asdict(self)

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Entry:
        """Read `to_json` back; `SettingsError` or `InvalidInput` for anything else."""
        return as_settings(Entry, content, where="the entry of a contribution: ")


def check_client(name: object) -> str:
    """A client's name, or `InvalidInput`.

    >>> check_client("hospital-a")
    'hospital-a'
    """
    if (
        not isinstance(name, str)
        or not 1 <= len(name) <= LONGEST_NAME
        or not name.isprintable()
        or name != name.strip()
    ):
        raise InvalidInput(
            f"the client's name is {str(name)[:80]!r}; expected one line of 1 to {LONGEST_NAME} "
            "characters without spaces around it"
        )
    return name
