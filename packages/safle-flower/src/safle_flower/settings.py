"""The settings of a run: one flat Struct, as Flower's configuration is a flat list of keys.

The key of a field is its name with dashes: ``at-once`` for ``at_once``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from safle import Limits, check_client
from safle.basics import split_names
from safle.cli import parse_classes
from safle.errors import SettingsError


class Run(Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """All settings of a run, checked before anybody is asked.

    Attributes
    ----------
    store, output, encoder : paths on the server
    round, operator : a private round's file and its operator's public key; empty without one
    expected : names of the clients that should take part; empty if only their number matters
    clients : how many contributions are wanted, those of earlier runs included
    least : fewest contributions that a model is solved from
    deadline : seconds after which the round goes on without clients that have not answered
    at_once : clients asked at a time, so that unread answers do not pile up anywhere
    largest : bytes of the largest answer that is read
    evaluate : whether clients are asked for evaluation counts once the model is there
    most_samples, most_classes, classes, allow_empty : of `safle.server.Limits`
    ridge, head, criterion : of `safle.solve`

    Examples
    --------
    >>> from safle.basics import as_settings
    >>> as_settings(Run, {"expected": "a, b", "at-once": 2}).expected_clients
    ('a', 'b')
    """

    store: str = ""
    output: str = ""
    encoder: str = ""
    round: str = ""
    operator: str = ""
    expected: str = ""
    clients: Annotated[int, Meta(ge=0)] = 0
    least: Annotated[int, Meta(ge=1)] = 3
    deadline: Annotated[float, Meta(gt=0)] = 3600.0
    at_once: Annotated[int, Meta(ge=1)] = 16
    largest: Annotated[int, Meta(ge=1)] = 1 << 31
    evaluate: bool = False
    most_samples: int = Limits.most_samples
    most_classes: int = Limits.most_classes
    classes: str = ""
    allow_empty: bool = False
    ridge: float | Literal["auto"] = "auto"
    head: str = "auto"
    criterion: str = "auto"

    @staticmethod
    def limited(limits: Limits, **settings: Any) -> Run:
        """A run whose clients may claim what ``limits`` says."""
        classes = ",".join(map(str, limits.classes))
        return Run(**vars(limits) | {"classes": classes}, **settings)

    def path(self, name: str) -> Path:
        """The path in a setting; `SettingsError` if it is empty."""
        text = str(getattr(self, name))
        if not text:
            raise SettingsError(
                f"{name} is not set; name a path on the server: -c '{name}=\"/path\"'"
            )
        return Path(text)

    @property
    def expected_clients(self) -> tuple[str, ...]:
        """The names in ``expected``, each once."""
        return tuple(dict.fromkeys(map(check_client, split_names(self.expected))))

    @property
    def contributions_wanted(self) -> int:
        """How many contributions complete the round."""
        return len(self.expected_clients) or self.clients

    @property
    def limits(self) -> Limits:
        """What a client may claim."""
        return Limits(
            self.most_samples,
            self.most_classes,
            tuple(parse_classes(self.classes or None) or ()),
            self.allow_empty,
        )

    @property
    def solving(self) -> dict[str, Any]:
        """Keyword arguments of `safle.solve`."""
        return {"ridge": self.ridge, "head": self.head, "criterion": self.criterion}

    def check(self) -> None:
        """Refuse settings with which no round can run."""
        for name in ("output", "encoder", "store"):
            self.path(name)
        # Making the limits checks them.
        _ = self.limits
        if self.evaluate and self.round:
            raise SettingsError(
                "evaluate asks for plain counts; after a private round, declare one of evaluation "
                "counts (safle private round --model) and leave evaluate out"
            )
        if not self.contributions_wanted:
            raise SettingsError(
                "no client is expected; name the clients (expected='a,b,c') or their number "
                "(clients=3)"
            )
