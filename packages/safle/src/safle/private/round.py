"""The round file: what is added up, by whom, and who opens it; signed by the operator."""

from __future__ import annotations

import json
import math
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

from safle.encoders import Encoder
from safle.encoders.code_space import CodeSpace
from safle.encoders.codes import Layout
from safle.encoders.features import ClassName, as_class_names, is_digest
from safle.encoders.histogram import MAX_SAMPLES, Grid
from safle.encoders.names import as_names
from safle.errors import FederationError, SafleError, SettingsError, WireError
from safle.private.counts_space import EvaluationSpace, HistogramSpace
from safle.private.keys import PrivateKey, PublicKey
from safle.private.noisy_space import NoisySpace
from safle.private.signed import Signed, SignedHead
from safle.private.spaces import StatisticsSpace
from safle.private.vector import Sizes, Space
from safle.wire import container

FORMAT = "safle-round-2"
MOST_KEYHOLDERS = 3
"""All of them must answer: a fourth would protect no more clients, and lose more rounds."""
FINEST_SHARE = 1000
"""Shares are fractions of a denominator up to this: 0.333 and 1/3 are what they look like."""
MOST_BYTES = 1 << 22
"""Of a round's payload: some ten thousand clients."""
_FIELDS = {
    "format",
    "id",
    "space",
    "most_total_samples",
    "clients",
    "keyholders",
    "least",
    "least_share",
}


@dataclass(frozen=True)
class RoundContent:
    """What a round file says.

    Attributes
    ----------
    space : what is added up
    clients, keyholders : by name; all keyholders must answer before a sum opens
    least : fewest clients whose sum is opened, and by whom two opened sums differ
    least_share : the same, as a share of all clients of the round
    """

    space: Space
    clients: Mapping[str, PublicKey]
    keyholders: Mapping[str, PublicKey]
    least: int
    least_share: Fraction

    @property
    def fewest(self) -> int:
        """Clients whose sum is opened, and by whom two opened sums differ, at the least."""
        return max(self.least, math.ceil(self.least_share * len(self.clients)))


@dataclass(frozen=True)
class PrivateRound(RoundContent):
    """A round that its operator has signed: everybody works from the same file.

    Attributes
    ----------
    digest : identity of the round, which every other file names
    operator : who declared it

    Examples
    --------
    >>> from safle.private import Parties
    >>> space = HistogramSpace(Grid(0, 1, bins=4), 2, most_total_samples=1000)
    >>> made = Parties.of(space, "abcdefgh").private_round
    >>> PrivateRound.load(made.data, made.operator).fewest
    4
    """

    digest: str
    operator: PublicKey
    data: bytes = field(repr=False, compare=False)

    @cached_property
    def sizes(self) -> Sizes:
        """Of every vector of the round."""
        return Sizes.of(self.space)

    @property
    def vector_bytes(self) -> int:
        return self.sizes.bytes

    @property
    def epsilon(self) -> float:
        """What noise promises to whoever is in the sum; infinite where it opens exactly."""
        return self.space.epsilon if isinstance(self.space, NoisySpace) else math.inf

    def bound_to(self, client: str, vector_digest: str, keyholder: str) -> bytes:
        """What a box opens with alone: it cannot be moved to another round, client or file."""
        return container.canonical(
            {"round": self.digest, "client": client, "y": vector_digest, "keyholder": keyholder}
        )

    def require(self, digest: object) -> None:
        """Refuse a file of another round."""
        if digest != self.digest:
            raise FederationError(
                f"made for round {str(digest)[:12]}…, this is round {self.digest[:12]}…"
            )

    @staticmethod
    def load(data: bytes, operator: PublicKey) -> PrivateRound:
        """Read a round file; refused unless this operator has signed it."""
        signed = Signed.read(data, container.ROUND)
        signed.head.check(operator, "round")
        content = read_content(signed.unfold(MOST_BYTES))
        digest = signed.head.digest()
        return PrivateRound(**vars(content), digest=digest, operator=operator, data=data)


def read_content(payload: bytes) -> RoundContent:
    """What a round's payload says, whoever has signed it; `SafleError` for nonsense."""
    try:
        content = json.loads(payload)
        if content["format"] != FORMAT or set(content) != _FIELDS:
            raise WireError(f"not a round of format {FORMAT}")
        most = _number(content["most_total_samples"], 1)
        clients, keyholders = _roster(content["clients"]), _roster(content["keyholders"])
        least, least_share = _number(content["least"], 2), _share(content["least_share"])
        space = _read_space(content["space"], most, len(keyholders))
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as e:
        if isinstance(e, SafleError):
            raise
        raise WireError(f"not a valid round: {e}") from e
    _check(clients, keyholders, least)
    return RoundContent(space, clients, keyholders, least, least_share)


def declare_round(
    key: PrivateKey,
    space: Space,
    *,
    clients: Sequence[PublicKey],
    keyholders: Sequence[PublicKey],
    least: int = 3,
    least_share: float = 0.5,
) -> PrivateRound:
    """A new round, signed by its operator.

    Parameters
    ----------
    space : what is added up
    keyholders : one, two or three; all of them must answer, and a server that works with all but
        one of them learns nothing more
    least, least_share : no sum of fewer clients is opened, nor two that differ by fewer

    Examples
    --------
    >>> operator, *others = (PrivateKey.new(name) for name in "abcdef")
    >>> public = [key.public for key in others]
    >>> space = HistogramSpace(Grid(0, 1, bins=4), 2, most_total_samples=1000)
    >>> private_round = declare_round(operator, space, clients=public[:3], keyholders=public[3:])
    >>> private_round.fewest, [*private_round.keyholders]
    (3, ['e', 'f'])
    >>> PrivateRound.load(private_round.data, operator.public) == private_round
    True
    """
    content = {
        "format": FORMAT,
        "id": secrets.token_hex(16),
        "space": _write_space(space),
        "most_total_samples": space.most_total_samples,
        "clients": [party.to_json() for party in clients],
        "keyholders": [party.to_json() for party in keyholders],
        "least": least,
        "least_share": str(Fraction(least_share).limit_denominator(FINEST_SHARE)),
    }
    payload = container.canonical(content)
    head = SignedHead.sign(key, "round", payload)
    data = head.to_bytes(container.ROUND, payload)
    return PrivateRound.load(data, key.public)


def statistics_space(
    encoder: Encoder, classes: Sequence[ClassName], most_total_samples: int
) -> StatisticsSpace:
    """What a round of statistics adds up.

    Parameters
    ----------
    encoder : the one that all clients share
    classes : every class that any client may have
    most_total_samples : of all clients together

    Examples
    --------
    >>> from safle import DeclaredRange, LinearEncoder
    >>> encoder = LinearEncoder.calibrated(DeclaredRange(0, 1, feature_dim=2))
    >>> statistics_space(encoder, ["well", "ill"], 1000).class_names
    ('ill', 'well')
    """
    return StatisticsSpace(encoder.space, as_class_names(classes), most_total_samples)


def _check(
    clients: Mapping[str, PublicKey], keyholders: Mapping[str, PublicKey], least: int
) -> None:
    if not 1 <= len(keyholders) <= MOST_KEYHOLDERS:
        raise SettingsError(f"{len(keyholders)} keyholders; expected 1 to {MOST_KEYHOLDERS}")
    if not 2 <= least <= len(clients):
        raise SettingsError(
            f"least {least} of {len(clients)} clients; expected 2 to as many as there are: the "
            "sum of one client is that client's"
        )
    for parties in (clients, keyholders):
        if len({party.signing for party in parties.values()}) != len(parties):
            raise SettingsError("one key under two names; each has a key of its own")


def _roster(content: Any) -> dict[str, PublicKey]:
    parties = [PublicKey.from_json(party) for party in content]
    if len({party.name for party in parties}) != len(parties):
        raise SettingsError("two clients, or two keyholders, of the same name; give each its own")
    return {party.name: party for party in parties}


def _number(value: object, least: int) -> int:
    if type(value) is not int or not least <= value <= MAX_SAMPLES:
        raise WireError(f"{value!r}; expected a whole number from {least}")
    return value


def _share(value: object) -> Fraction:
    """A share from its one text, such as "1/2"."""
    # Python would take "1e999999999" for a fraction, and work it out.
    if not isinstance(value, str) or not re.fullmatch(r"\d{1,9}(/[1-9]\d{0,8})?", value):
        raise WireError("least_share is no share; expected a text such as 1/2")
    share = Fraction(value)
    if str(share) != value or share > 1:
        raise WireError(f"least_share {value}; expected a share from 0 to 1, such as 1/2")
    return share


def _write_space(space: Space) -> dict[str, Any]:
    if isinstance(space, NoisySpace):
        promise = [float(space.epsilon).hex(), float(space.delta).hex(), space.calibration]
        return {**_write_space(space.exact), "promise": promise}
    if isinstance(space, StatisticsSpace):
        layout, classes = space.layout.to_json(), [*space.class_names]
        return {"fingerprint": space.fingerprint, "layout": layout, "classes": classes}
    if isinstance(space, EvaluationSpace):
        return {"model": space.model, "classes": [*space.class_names]}
    assert isinstance(space, HistogramSpace), "nothing else is added up"
    names = {"names": [*space.names]} if space.names else {}
    return {"grid": space.grid.to_json(), "features": space.feature_dim, **names}


def _read_space(content: Any, most_total_samples: int, keyholders: int) -> Space:
    if set(content) - {"promise"} == {"fingerprint", "layout", "classes"}:
        classes = tuple(content["classes"])
        if not is_digest(content["fingerprint"]) or as_class_names(classes) != classes:
            raise WireError("expected an encoder's fingerprint, and classes in ascending order")
        exact = (
            CodeSpace(content["fingerprint"], Layout.from_json(content["layout"])),
            classes,
            most_total_samples,
        )
        if "promise" not in content:
            return StatisticsSpace(*exact)
        epsilon, delta, calibration = content["promise"]
        promise = float.fromhex(epsilon), float.fromhex(delta), calibration
        return NoisySpace(StatisticsSpace(*exact), *promise, keyholders)
    if set(content) == {"model", "classes"}:
        classes = tuple(content["classes"])
        if not is_digest(content["model"]) or as_class_names(classes) != classes:
            raise WireError("expected a model's digest, and classes in ascending order")
        return EvaluationSpace(content["model"], classes, most_total_samples)
    grid, features = Grid.from_json(content["grid"]), _number(content["features"], 1)
    return HistogramSpace(
        grid, features, most_total_samples, as_names(content.get("names", ()), features)
    )
