"""What the run configuration of the Flower app says, checked before anybody is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from safle.errors import SettingsError
from safle.federation.members import check_client

Value = bool | int | float | str
Config = Mapping[str, Value]

DEFAULTS: dict[str, Value] = {
    # Where: paths on the server.
    "store": "",
    "output": "",
    "encoder": "",
    # Rules of the round.
    "expected": "",
    "clients": 0,
    "least": 1,
    "deadline": 3600.0,
    "at-once": 16,
    "largest": 1 << 31,
    # How the sum is solved.
    "ridge": "auto",
    "head": "auto",
    "criterion": "gcv",
    "backend": "auto",
    # Calibration by the clients' histograms, instead of an encoder file.
    "calibrate": False,
    "low": 0.0,
    "high": 0.0,
    "bins": 256,
    "kind": "random-features",
    "units": 0,
    "bits": 4,
    "transform": "",
    "bucketing": "binary-overlap",
    "buckets": 0,
    "group-size": 0,
    "fraction-bits": 8,
    "encoder-seed": 0,
    # Simulation: one table, split over the nodes.
    "features": "",
    "split": "",
    "partition": "iid",
    "alpha": 0.1,
    "shards": 2,
    "seed": 0,
}
"""Every key of the app's configuration; Flower refuses to override any other."""


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

    expected: tuple[str, ...]
    clients: int
    least: int
    deadline: float
    at_once: int
    largest: int

    @staticmethod
    def of(config: Config) -> Rules:
        names = [name.strip() for name in str(config["expected"]).split(",") if name.strip()]
        expected = tuple(dict.fromkeys(check_client(name) for name in names))
        clients = len(expected) or _whole(config, "clients", least=0)
        if not clients:
            raise SettingsError(
                "nobody is waited for; say who is expected (expected='a,b,c') or how many "
                "(clients=3)"
            )
        deadline = _number(config, "deadline")
        if deadline <= 0:
            raise SettingsError(f"deadline={deadline}; expected a positive number of seconds")
        return Rules(
            expected,
            clients,
            _whole(config, "least", least=1),
            deadline,
            _whole(config, "at-once", least=1),
            _whole(config, "largest", least=1),
        )


def place(config: Config, name: str) -> Path:
    """A path of the server's that must be given."""
    text = str(config[name])
    if not text:
        raise SettingsError(f"{name} is not set; name a path on the server: -c '{name}=\"/path\"'")
    return Path(text)


def solver_options(config: Config) -> dict[str, Any]:
    """Keyword arguments of `safle.solve`."""
    ridge: float | Literal["auto"] = "auto"
    if config["ridge"] != "auto":
        ridge = _number(config, "ridge")
    named = {name: str(config[name]) for name in ("head", "criterion", "backend")}
    return {"ridge": ridge, **named}


def complete(config: Config) -> dict[str, Value]:
    """The configuration with defaults for what it does not say."""
    if unknown := sorted(set(config) - set(DEFAULTS)):
        raise SettingsError(f"unknown setting {unknown[0]!r}; expected {', '.join(DEFAULTS)}")
    return {**DEFAULTS, **config}


def _number(config: Config, name: str) -> float:
    try:
        return float(config[name])
    except ValueError:
        raise SettingsError(f"{name}={config[name]!r}; expected a number") from None


def _whole(config: Config, name: str, *, least: int) -> int:
    value = config[name]
    if type(value) is not int or value < least:
        raise SettingsError(f"{name}={value!r}; expected a whole number, at least {least}")
    return value
