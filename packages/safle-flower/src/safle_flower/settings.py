"""The settings of a run: dataclasses here, and a flat list of keys where Flower wants one.

`Run.from_flat` and `Run.to_flat` are the one place where the two meet: the key of a field is its
name with dashes, ``at-once`` for ``at_once``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from msgspec import Meta

from safle import Grid
from safle.basics import as_settings, split_names
from safle.encoders import DEFAULT_KIND
from safle.errors import SettingsError
from safle.server import Limits, check_client
from safle.tables import read_ranges

Value = bool | int | float | str
Config = Mapping[str, Value]


@dataclass(frozen=True)
class Places:
    """Paths on the server; the encoder's is empty if the clients calibrate one.

    A private round's file and its operator's public key are empty if contributions come plain;
    ``simulation`` is the file of a simulation's settings, empty in a deployment.
    """

    store: str = ""
    output: str = ""
    encoder: str = ""
    round: str = ""
    operator: str = ""
    simulation: str = ""

    def path(self, name: str) -> Path:
        """A path that must be given."""
        text = str(getattr(self, name))
        if not text:
            raise SettingsError(
                f"{name} is not set; name a path on the server: -c '{name}=\"/path\"'"
            )
        return Path(text)


@dataclass(frozen=True)
class Rules:
    """When a round is over, and what follows it.

    Attributes
    ----------
    expected : names of the clients that should take part; empty if only their number matters
    clients : how many contributions are wanted, those of earlier runs included
    least : contributions without which no model is solved
    deadline : seconds after which the round goes on without those that have not answered
    at_once : clients asked at a time, so that unread answers do not pile up anywhere
    largest : bytes of the largest answer that is read
    evaluate : whether clients are asked for evaluation counts once the model is there
    """

    expected: tuple[str, ...] = ()
    clients: Annotated[int, Meta(ge=0)] = 0
    least: Annotated[int, Meta(ge=1)] = 3
    deadline: Annotated[float, Meta(gt=0)] = 3600.0
    at_once: Annotated[int, Meta(ge=1)] = 16
    largest: Annotated[int, Meta(ge=1)] = 1 << 31
    evaluate: bool = False

    def __post_init__(self) -> None:
        expected = tuple(dict.fromkeys(map(check_client, self.expected)))
        object.__setattr__(self, "expected", expected)

    @property
    def wanted(self) -> int:
        """How many contributions complete the round."""
        return len(self.expected) or self.clients

    def check(self) -> None:
        """Refuse a round that would wait for nobody."""
        if not self.wanted:
            raise SettingsError(
                "nobody is waited for; say who is expected (expected='a,b,c') or how many "
                "(clients=3)"
            )


@dataclass(frozen=True)
class Solve:
    """How the sum is solved: keyword arguments of `safle.solve`."""

    ridge: str = "auto"
    head: str = "auto"
    criterion: str = "auto"

    def options(self) -> dict[str, Any]:
        """The arguments; a ridge that is not "auto" is a number."""
        try:
            ridge = self.ridge if self.ridge == "auto" else float(self.ridge)
        except ValueError:
            raise SettingsError(f"ridge={self.ridge!r}; expected a number or auto") from None
        return {**vars(self), "ridge": ridge}


class Declared(NamedTuple):
    """What the histograms of a calibration must be: arguments of `Limits.check_histogram`."""

    grid: Grid
    features: int
    names: tuple[str, ...]


@dataclass(frozen=True)
class Calibration:
    """Clients' histograms instead of an encoder file: of which features, on which grid.

    Attributes
    ----------
    feature_names : those that tables must have, in any order; if empty, the first client's
    ranges : a file of the server's, with a grid for each feature: it names them too
    kind, encoder_settings : of the encoder that is made, such as "units=512 bits=4"
    """

    calibrate: bool = False
    feature_count: int = 0
    feature_names: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0
    bins: int = 256
    ranges: str = ""
    kind: str = DEFAULT_KIND
    encoder_settings: str = ""

    def declared(self) -> Declared:
        """What every histogram must be; `SettingsError` if that is not all declared."""
        if self.ranges:
            if self.feature_count or self.feature_names or self.low or self.high:
                raise SettingsError(
                    "ranges says which features there are, and on which grids; leave out "
                    "feature-count, feature-names, low and high"
                )
            found = read_ranges(self.ranges)
            grid = Grid(found.low, found.high, self.bins)
            return Declared(grid, found.feature_dim, tuple(found.names))
        if self.feature_count < 1:
            raise SettingsError(
                f"feature-count={self.feature_count}; say how many features the clients have: the "
                "first histogram must not decide that for everybody"
            )
        grid = Grid(self.low, self.high, self.bins)
        return Declared(grid, self.feature_count, self.feature_names)


@dataclass(frozen=True)
class Run:
    """All settings of a run, checked before anybody is asked.

    >>> Run.from_flat({"clients": 3, "at-once": 2}).rules.at_once
    2
    """

    places: Places = Places()
    rules: Rules = Rules()
    limits: Limits = field(default_factory=Limits)
    solve: Solve = Solve()
    calibration: Calibration = Calibration()

    @staticmethod
    def from_flat(config: Config) -> Run:
        """The settings that a flat configuration says, and defaults for what it does not."""
        known = Run().to_flat()
        if unknown := sorted(set(config) - set(known)):
            raise SettingsError(f"unknown setting {unknown[0]!r}; expected {', '.join(known)}")
        groups = {}
        for group, default in vars(Run()).items():
            values: dict[str, Any] = {}
            for name, value in vars(default).items():
                if _key(name) in config:
                    given = config[_key(name)]
                    values[name] = split_names(str(given)) if isinstance(value, tuple) else given
            groups[group] = as_settings(type(default), values)
        return Run(**groups)

    def to_flat(self) -> dict[str, Value]:
        """Every key of the app's configuration; Flower refuses to override any other."""
        flat: dict[str, Value] = {}
        for group in vars(self).values():
            for name, value in vars(group).items():
                listed = isinstance(value, tuple)
                flat[_key(name)] = ",".join(map(str, value)) if listed else value
        return flat


def _key(name: str) -> str:
    return name.replace("_", "-")
