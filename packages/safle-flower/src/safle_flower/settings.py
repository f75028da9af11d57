"""The settings of a run: dataclasses here, and a flat list of keys where Flower wants one.

`Run.from_flat` and `Run.to_flat` are the one place where the two meet: the key of a field is its
name with dashes, ``at-once`` for ``at_once``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from safle.basics.texts import split_names
from safle.encoders import Encoder, make_encoder
from safle.encoders.histogram import Grid, Histogram
from safle.encoders.registry import DEFAULT_KIND, read_settings
from safle.errors import SettingsError
from safle.server.contribution import check_client
from safle.server.limits import Limits
from safle.tables import read_ranges

Value = bool | int | float | str
Config = Mapping[str, Value]


@dataclass(frozen=True)
class Places:
    """Paths on the server; the encoder's is empty if the clients calibrate one.

    A private round's file and its operator's public key are empty if contributions come plain.
    """

    store: str = ""
    output: str = ""
    encoder: str = ""
    round: str = ""
    operator: str = ""

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
    """When a round is over.

    Attributes
    ----------
    expected : names of the clients that should take part; empty if only their number matters
    clients : how many contributions are wanted, those of earlier runs included
    least : contributions without which no model is solved
    deadline : seconds after which the round goes on without those that have not answered
    at_once : clients asked at a time, so that unread answers do not pile up anywhere
    largest : bytes of the largest answer that is read
    """

    expected: tuple[str, ...] = ()
    clients: int = 0
    least: int = 3
    deadline: float = 3600.0
    at_once: int = 16
    largest: int = 1 << 31

    def __post_init__(self) -> None:
        expected = tuple(dict.fromkeys(map(check_client, self.expected)))
        object.__setattr__(self, "expected", expected)
        for name, least in {"clients": 0, "least": 1, "at_once": 1, "largest": 1}.items():
            if getattr(self, name) < least:
                raise SettingsError(
                    f"{_key(name)}={getattr(self, name)}; expected a whole number, at least {least}"
                )
        if not self.deadline > 0:
            raise SettingsError(f"deadline={self.deadline}; expected a positive number of seconds")

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
    criterion: str = "gcv"

    def options(self) -> dict[str, Any]:
        """The arguments; a ridge that is not "auto" is a number."""
        try:
            ridge = self.ridge if self.ridge == "auto" else float(self.ridge)
        except ValueError:
            raise SettingsError(f"ridge={self.ridge!r}; expected a number or auto") from None
        return {**vars(self), "ridge": ridge}


@dataclass(frozen=True)
class After:
    """What clients are asked for once the model is there: ``evaluate``, counts of its answers."""

    evaluate: bool = False


class Declared(NamedTuple):
    """What the histograms of a calibration must be: arguments of `Limits.check_histogram`."""

    grid: Grid
    features: int
    names: tuple[str, ...]


@dataclass(frozen=True)
class Calibration:
    """Clients' histograms instead of an encoder file: how many features, and on which grid.

    ``feature_names`` are those that tables must have, in any order; if empty, the first client's.
    ``ranges`` is a file of the server's, with a grid for each feature: it names them too.
    """

    calibrate: bool = False
    feature_count: int = 0
    feature_names: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0
    bins: int = 256
    ranges: str = ""

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
        return Declared(
            Grid(self.low, self.high, self.bins), self.feature_count, self.feature_names
        )


@dataclass(frozen=True)
class NewEncoder:
    """The encoder that a calibration makes: its kind, and settings such as "units=512 bits=4"."""

    kind: str = DEFAULT_KIND
    encoder_settings: str = ""

    def build(self, histogram: Histogram) -> Encoder:
        """The encoder of the summed histograms."""
        settings = read_settings(self.kind, self.encoder_settings)
        return make_encoder(histogram, self.kind, **settings)


@dataclass(frozen=True)
class Simulation:
    """One table, read by the options of ``safle count``, and split over the nodes."""

    features: str = ""
    split: str = ""
    features_key: str = ""
    label_column: str = ""
    ignore: tuple[str, ...] = ()
    id: str = ""
    labels: str = ""
    labels_key: str = ""
    weight_column: str = ""
    partition: str = "iid"
    alpha: float = 0.1
    shards: int = 2
    seed: int = 0
    keys: str = ""


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
    after: After = After()
    calibration: Calibration = Calibration()
    new_encoder: NewEncoder = NewEncoder()
    simulation: Simulation = Simulation()

    @staticmethod
    def from_flat(config: Config) -> Run:
        """The settings that a flat configuration says, and defaults for what it does not."""
        known = Run().to_flat()
        if unknown := sorted(set(config) - set(known)):
            raise SettingsError(f"unknown setting {unknown[0]!r}; expected {', '.join(known)}")
        groups = {}
        for group, default in vars(Run()).items():
            said = {
                name: _parse(name, config[_key(name)], value)
                for name, value in vars(default).items()
                if _key(name) in config
            }
            groups[group] = replace(default, **said)
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


def _parse(name: str, value: Value, default: Any) -> Any:
    """A value of the default's type; `SettingsError` for another."""
    kind = type(default)
    if kind is tuple:
        return split_names(str(value))
    if kind is str:
        return str(value)
    if kind is float and type(value) in (int, float):
        return float(value)
    if type(value) is not kind:
        expected = {int: "a whole number", float: "a number", bool: "true or false"}[kind]
        raise SettingsError(f"{_key(name)}={value!r}; expected {expected}")
    return value
