"""The round file: what is added up, by whom, and who opens it; signed by the operator.

Its head has the kind "round" and no other fields; the SHA-256 of the head is the round's identity.
The payload is canonical JSON:

- ``format`` ("safle-round-5"), ``id`` (random), ``most_total_samples`` (of all clients together);
- ``clients`` and ``keyholders`` (one to three): public keys;
- ``least_clients``: the fewest whose sum is opened, and by whom two opened sums differ;
- ``after``: by keyholder, the identities of earlier requests that its history must hold;
- ``space``: ``kind`` ("statistics"), ``fingerprint``, ``layout`` and ``classes``, with noise also
  ``promise`` (``[epsilon, delta, calibration]``); or ``kind`` ("histogram"), ``grid``, ``features``
  and maybe ``names``; or ``kind`` ("evaluation counts"), ``model`` and ``classes``.
"""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from safle.basics import as_settings, naming
from safle.encoders import CodeSpace, Layout, as_class_names
from safle.errors import FederationError, SafleError, SettingsError, WireError
from safle.statistics import MAX_SAMPLES, Grid
from safle.wire import container
from safle_private.keys import Hexadecimal, PrivateKey, PublicKey, SignedFile, SignedHeader
from safle_private.spaces import EvaluationSpace, HistogramSpace, StatisticsSpace
from safle_private.vector import Sizes, Space

MOST_KEYHOLDERS = 3
"""All of them must answer: a fourth would protect no more clients, and lose more rounds."""
LEAST_CLIENTS = 3
"""Of a round that declares no other number: with two, each could take its own sum off."""
MOST_BYTES = 1 << 22
"""Most bytes of a round's payload: some ten thousand clients."""


class _SpaceFile(msgspec.Struct, tag_field="kind", forbid_unknown_fields=True, omit_defaults=True):
    """A space, as JSON; floating-point numbers are hexadecimal text."""


class _StatisticsFile(_SpaceFile, tag="statistics"):
    fingerprint: Hexadecimal
    layout: list[dict[str, Any]]
    classes: tuple[int | str, ...]
    promise: tuple[str, str, str] | None = None


class _EvaluationFile(_SpaceFile, tag="evaluation counts"):
    model: Hexadecimal
    classes: tuple[int | str, ...]


class _HistogramFile(_SpaceFile, tag="histogram"):
    grid: list[Any]
    features: Annotated[int, Meta(ge=1, le=MAX_SAMPLES)]
    names: tuple[str, ...] = ()


class _RoundFile(msgspec.Struct, forbid_unknown_fields=True):
    format: Literal["safle-round-5"]
    id: str
    space: _StatisticsFile | _EvaluationFile | _HistogramFile
    most_total_samples: Annotated[int, Meta(ge=1, le=MAX_SAMPLES)]
    clients: list[PublicKey]
    keyholders: list[PublicKey]
    least_clients: Annotated[int, Meta(ge=2, le=MAX_SAMPLES)]
    after: dict[str, list[Hexadecimal]]


@dataclass(frozen=True)
class PrivateRound:
    """A round that its operator has signed: everybody works from the same file.

    Attributes
    ----------
    digest : identity of the round, which every other file names
    operator : who declared it
    space : what is added up
    clients, keyholders : by name; all keyholders must answer before a sum opens
    least_clients : the fewest whose sum is opened, and by whom two opened sums differ
    after : by keyholder, the requests that it has answered before; its history must hold them
    data : the bytes of its file
    """

    digest: str
    operator: PublicKey
    space: Space
    clients: Mapping[str, PublicKey]
    keyholders: Mapping[str, PublicKey]
    least_clients: int
    after: Mapping[str, Sequence[str]]
    data: bytes = field(repr=False, compare=False)

    @staticmethod
    def load(data: bytes, operator: PublicKey) -> PrivateRound:
        """Read a round file; refused unless this operator has signed it."""
        signed = SignedFile.read(data, container.ROUND)
        signed.head.check(operator, "round")
        content = read_content(decompress_payload(signed))
        return PrivateRound(**content, digest=signed.head.digest(), operator=operator, data=data)

    @cached_property
    def sizes(self) -> Sizes:
        """Sizes of every vector of the round."""
        return Sizes.of(self.space)

    @property
    def epsilon(self) -> float:
        """The epsilon that noise promises; infinite if the sum opens exactly."""
        return math.inf if self.space.privacy is None else self.space.privacy.epsilon

    def bound_to(self, client: str, vector_digest: str, keyholder: str) -> bytes:
        """The text that a box is bound to: no other round, client or file can use the box."""
        return container.canonical(
            {"round": self.digest, "client": client, "y": vector_digest, "keyholder": keyholder}
        )

    def check_digest(self, digest: object) -> None:
        """Refuse a file of another round."""
        if digest != self.digest:
            raise FederationError(
                f"made for round {str(digest)[:12]}…; this is round {self.digest[:12]}…: use "
                "the files of one round"
            )

    def check_head(self, head: SignedHeader, kind: str, party: str, *more: str) -> str:
        """The signer of a head; a `SafleError` unless a party of this round signed it for it.

        Parameters
        ----------
        party : "client" or "keyholder", the field that names the signer
        more : the names of the other fields
        """
        if set(head.fields) != {"kind", "payload", "round", party, *more}:
            raise WireError(f"the head does not hold exactly the fields of kind {kind!r}")
        name = self.check_party(party, head.fields[party])
        head.check(self._roster(party)[name], kind)
        self.check_digest(head.fields["round"])
        return name

    def check_party(self, party: str, name: object) -> str:
        """The name of a client or a keyholder of this round; others are refused."""
        if not isinstance(name, str) or name not in self._roster(party):
            raise FederationError(
                f"{str(name)[:80]!r} is not a {party} of this round; its operator declares "
                f"the {party}s"
            )
        return name

    def _roster(self, party: str) -> Mapping[str, PublicKey]:
        return self.clients if party == "client" else self.keyholders


def load_round(round_path: Path, operator_path: Path) -> PrivateRound:
    """The round in a file, if this operator has signed it; errors name the file."""
    operator = PublicKey.load(operator_path)
    with naming(round_path):
        return PrivateRound.load(container.read_limited(round_path), operator)


def decompress_payload(signed: SignedFile) -> bytes:
    """The payload of a round's file, in no more memory than a round takes."""
    size = signed.opened.raw_bytes
    if size > MOST_BYTES:
        # A few compressed bytes could fill the memory.
        raise WireError(f"holds {size} bytes; expected at most {MOST_BYTES}")
    return signed.decompress(size)


def read_content(payload: bytes) -> dict[str, Any]:
    """The fields of a round by its payload, whoever signed it; `SafleError` if it is not valid."""
    invalid = "not a valid round: "
    try:
        file = as_settings(_RoundFile, json.loads(payload), where=invalid, error=WireError)
        _check(file)
        space = _read_space(file.space, file.most_total_samples, len(file.keyholders))
        if payload != _canonical(file):
            raise WireError(f"{invalid}expected canonical JSON")
    except SafleError:
        raise
    except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise WireError(f"{invalid}{error}") from error
    return {
        "space": space,
        "clients": {key.name: key for key in file.clients},
        "keyholders": {key.name: key for key in file.keyholders},
        "least_clients": file.least_clients,
        "after": file.after,
    }


def _check(file: _RoundFile) -> None:
    """Refuse a round that would not protect its clients."""
    for parties in (file.clients, file.keyholders):
        if len({key.name for key in parties}) != len(parties):
            raise SettingsError(
                "two clients, or two keyholders, of the same name; give each its own"
            )
        if len({key.signing for key in parties}) != len(parties):
            raise SettingsError("one key under two names; give each party a key of its own")
    if not 1 <= len(file.keyholders) <= MOST_KEYHOLDERS:
        raise SettingsError(f"{len(file.keyholders)} keyholders; expected 1 to {MOST_KEYHOLDERS}")
    if file.least_clients > len(file.clients):
        raise SettingsError(
            f"least {file.least_clients} of {len(file.clients)} clients; expected at least 2, and "
            "at most all clients: the sum of one client is that client's value"
        )
    keyholders = [key.name for key in file.keyholders]
    if strangers := sorted({*file.after} - {*keyholders}):
        raise SettingsError(
            f"an answer of {strangers[0]}, who is not a keyholder of this round; name answers of "
            f"its keyholders only: {', '.join(keyholders)}"
        )


def declare_round(
    key: PrivateKey,
    space: Space,
    *,
    clients: Sequence[PublicKey],
    keyholders: Sequence[PublicKey],
    least_clients: int | None = None,
    after: Mapping[str, Collection[str]] | None = None,
) -> PrivateRound:
    """A new round, signed by its operator.

    Parameters
    ----------
    space : what is added up
    keyholders : one, two or three; all of them must answer, and a server that conspires with all
        but one of them learns nothing more
    least_clients : no sum of fewer is opened, nor two that differ by fewer; None for half of the
        clients, and at least three
    after : by keyholder, the digests of requests that it has answered in earlier rounds; its
        history must hold them, so that no older copy of it is taken for the newest

    Examples
    --------
    >>> operator, *others = (PrivateKey.new(name) for name in "abcdef")
    >>> public = [key.public for key in others]
    >>> space = HistogramSpace(Grid(0, 1, 2, bins=4), most_total_samples=1000)
    >>> private_round = declare_round(operator, space, clients=public[:3], keyholders=public[3:])
    >>> private_round.least_clients, [*private_round.keyholders]
    (3, ['e', 'f'])
    """
    if least_clients is None:
        least_clients = max(LEAST_CLIENTS, math.ceil(len(clients) / 2))
    file = _RoundFile(
        format="safle-round-5",
        id=secrets.token_hex(16),
        space=_write_space(space),
        most_total_samples=space.most_total_samples,
        clients=[*clients],
        keyholders=[*keyholders],
        least_clients=least_clients,
        after={name: sorted({*digests}) for name, digests in (after or {}).items()},
    )
    payload = _canonical(file)
    head = SignedHeader.sign(key, "round", payload)
    return PrivateRound.load(head.to_bytes(container.ROUND, payload), key.public)


def _canonical(file: _RoundFile) -> bytes:
    return container.canonical(msgspec.to_builtins(file))


def _write_space(space: Space) -> Any:
    if isinstance(space, EvaluationSpace):
        return _EvaluationFile(space.model, space.class_names)
    if isinstance(space, HistogramSpace):
        grid = space.grid
        return _HistogramFile(grid.to_json(), grid.feature_dim, tuple(grid.names))
    assert isinstance(space, StatisticsSpace), "nothing else is added up"
    code_space, noise, promise = space.space, space.privacy, None
    if noise is not None:
        promise = noise.epsilon.hex(), noise.delta.hex(), noise.calibration
    layout = code_space.layout.to_json()
    return _StatisticsFile(code_space.fingerprint, layout, space.class_names, promise)


def _read_space(file: _SpaceFile, most_total_samples: int, keyholders: int) -> Space:
    if isinstance(file, _HistogramFile):
        grid = Grid.from_json(file.grid, file.features, file.names)
        return HistogramSpace(grid, most_total_samples)
    assert isinstance(file, _StatisticsFile | _EvaluationFile), "nothing else is added up"
    if as_class_names(file.classes) != file.classes:
        raise WireError("the classes are not in ascending order")
    if isinstance(file, _EvaluationFile):
        return EvaluationSpace(file.model, file.classes, most_total_samples)
    code_space = CodeSpace(file.fingerprint, Layout.from_json(file.layout))
    exact = StatisticsSpace(code_space, file.classes, most_total_samples)
    if file.promise is None:
        return exact
    epsilon, delta, calibration = file.promise
    return exact.with_noise(float.fromhex(epsilon), float.fromhex(delta), calibration, keyholders)
