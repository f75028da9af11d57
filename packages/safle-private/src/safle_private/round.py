"""The round file: what is added up, by whom, and who opens it; signed by the operator.

Its head has the kind "round" and no other fields; the SHA-256 of the head is the round's identity.
The payload is canonical JSON:

- ``format`` ("safle-round-6"), ``id`` (random), ``most_total_samples`` (of all clients together);
- ``clients`` and ``keyholders`` (one to three): public keys;
- ``least_clients``: the fewest whose sum is opened, and by whom two opened sums differ;
- ``after``: by keyholder, the identities of earlier requests that its history must hold;
- ``what`` is added up, a type of file, and its ``zero``: for "statistics" ``fingerprint``,
  ``layout`` and ``classes``, for "histogram" ``grid``, ``features`` and maybe ``names``, for
  "evaluation counts" ``model`` and ``classes``, as in the headers of these files;
- with noise also ``promise``: epsilon and delta, as hexadecimal text, and the calibration.
"""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import msgspec
from msgspec import Meta

from safle import MAX_SAMPLES, Statistics, Summable, container, format_named
from safle.basics import as_settings, naming
from safle.errors import (
    CountOverflow,
    FederationError,
    InvalidInput,
    SafleError,
    SettingsError,
    WireError,
)
from safle_private.keys import Hexadecimal, PrivateKey, PublicKey, SignedFile, SignedHeader
from safle_private.noise import Draw, draw_discrete_gaussian, draw_noise, most_noise, plan_noise
from safle_private.noisy import NoisyStatistics, Privacy
from safle_private.vector import Bytes, Moduli, check_opened

MOST_KEYHOLDERS = 3
"""All of them must answer: a fourth would protect no more clients, and lose more rounds."""
LEAST_CLIENTS = 3
"""Of a round that declares no other number: with two, each could take its own sum off."""
MOST_BYTES = 1 << 22
"""Most bytes of a round's payload: enough for about ten thousand clients."""


class _RoundFile(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    format: Literal["safle-round-6"]
    id: str
    what: str
    zero: dict[str, Any]
    most_total_samples: Annotated[int, Meta(ge=1, le=MAX_SAMPLES)]
    clients: list[PublicKey]
    keyholders: list[PublicKey]
    least_clients: Annotated[int, Meta(ge=2, le=MAX_SAMPLES)]
    after: dict[str, list[Hexadecimal]]
    promise: tuple[str, str, str] | None = None


@dataclass(frozen=True)
class PrivateRound:
    """A round that its operator has signed: everybody works from the same file.

    Attributes
    ----------
    digest : identity of the round, which every other file names
    operator : who declared it
    zero : what is added up: a value of no samples that names everything allowed
    most_total_samples : of all clients together
    privacy : what the noise of each keyholder promises; None if the sum opens exactly
    clients, keyholders : by name; all keyholders must answer before a sum opens
    least_clients : the fewest whose sum is opened, and by whom two opened sums differ
    after : by keyholder, the requests that it has answered before; its history must hold them
    data : the bytes of its file
    """

    digest: str
    operator: PublicKey
    zero: Summable
    most_total_samples: int
    privacy: Privacy | None
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
    def moduli(self) -> Moduli:
        """Of the entries of every vector of the round: see `safle_private.vector`."""
        noise, _ = self._most_noise
        return Moduli.choose(self.zero.vector_bounds(), self.most_total_samples, noise)

    def to_vector(self, value: Summable) -> Bytes:
        """A client's value as a vector; a `SafleError` if it does not belong in the round."""
        self.zero.check_same(value)
        if value.sample_count > self.most_total_samples:
            self._refuse_samples(value.sample_count)
        return self.moduli.pack(value.to_vector(self.zero))

    def from_vector(self, vector: Bytes) -> Any:
        """The value of an opened sum, verified; a `SafleError` if it is not the sum of any data."""
        entries = self.moduli.unpack(vector)
        bounds = self.zero.vector_bounds()
        most = self.most_total_samples
        noise, of_count = self._most_noise
        room = int((bounds == 0).sum()) * of_count
        samples = sum(entries[bounds == 0].tolist())
        if not -room <= samples <= most + room:
            self._refuse_samples(samples)
        check_opened(entries, bounds, most, noise, room)
        if self.privacy is None:
            return self.zero.from_vector(entries)
        zero = self.statistics
        privacy = self.privacy.of_all(len(self.keyholders))
        return NoisyStatistics.of(zero.space, zero.class_names, entries, privacy)

    def hide(self, masks: Bytes, draw: Draw = draw_discrete_gaussian) -> None:
        """Subtract a keyholder's noise from its sum of masks, in place: the opened sum has it.

        Each adds all the noise that the promise needs: one honest keyholder is enough to keep the
        promise, even against the server. The price is a variance as many times as large as there
        are keyholders.
        """
        assert self.privacy is not None, "an exact sum has no noise"
        zero = self.statistics
        noise = draw_noise(zero.layout, len(zero.class_names), self.privacy, draw)
        self.moduli.subtract(masks, self.moduli.pack(noise))

    @property
    def statistics(self) -> Statistics:
        """The zero of a round with noise."""
        assert isinstance(self.zero, Statistics), "nothing else is published with noise"
        return self.zero

    @property
    def _most_noise(self) -> tuple[int, int]:
        """The largest magnitude of noise in any sum, and in any class count."""
        if self.privacy is None:
            return 0, 0
        return most_noise(self.statistics.layout, self.privacy, len(self.keyholders))

    def _refuse_samples(self, found: int) -> NoReturn:
        raise CountOverflow(
            f"{found:,} samples; the round allows {self.most_total_samples:,}, which its moduli "
            "were chosen for: declare a round for more"
        )

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
    """The fields of a round; `SafleError` if it is not valid. No signature is checked."""
    invalid = "not a valid round: "
    try:
        file = as_settings(_RoundFile, json.loads(payload), where=invalid, error=WireError)
        _check(file)
        zero = _read_zero(file)
        privacy = _read_privacy(file, zero)
        if payload != _canonical(file):
            raise WireError(f"{invalid}expected canonical JSON")
    except SafleError:
        raise
    except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise WireError(f"{invalid}{error}") from error
    return {
        "zero": zero,
        "most_total_samples": file.most_total_samples,
        "privacy": privacy,
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
    zero: Summable,
    most_total_samples: int,
    *,
    clients: Sequence[PublicKey],
    keyholders: Sequence[PublicKey],
    least_clients: int | None = None,
    after: Mapping[str, Collection[str]] | None = None,
    privacy: Privacy | None = None,
) -> PrivateRound:
    """A new round, signed by its operator.

    Parameters
    ----------
    zero : what is added up: the value of no samples that names everything allowed, such as
        ``Statistics.empty(encoder.space, classes)`` with every class that any client may have
    most_total_samples : of all clients together; a larger number makes larger files
    keyholders : one, two or three; all of them must answer, and a server that conspires with all
        but one of them learns nothing more
    least_clients : no sum of fewer is opened, nor two that differ by fewer; None for half of the
        clients, and at least three
    after : by keyholder, the digests of requests that it has answered in earlier rounds; its
        history must hold them, so that no older copy of it is taken for the newest
    privacy : from `plan_noise`, for statistics: what the noise of every keyholder promises alone

    Examples
    --------
    >>> from safle import Histogram
    >>> operator, *others = (PrivateKey.new(name) for name in "abcdef")
    >>> public = [key.public for key in others]
    >>> zero = Histogram.empty(0, 1, feature_dim=2, bins=4)
    >>> parties = {"clients": public[:3], "keyholders": public[3:]}
    >>> private_round = declare_round(operator, zero, 1000, **parties)
    >>> private_round.least_clients, [*private_round.keyholders]
    (3, ['e', 'f'])
    """
    if least_clients is None:
        least_clients = max(LEAST_CLIENTS, math.ceil(len(clients) / 2))
    file = _RoundFile(
        format="safle-round-6",
        id=secrets.token_hex(16),
        what=zero.format,
        zero=zero.declaration(),
        most_total_samples=most_total_samples,
        clients=[*clients],
        keyholders=[*keyholders],
        least_clients=least_clients,
        after={name: sorted({*digests}) for name, digests in (after or {}).items()},
        promise=_promise_of(privacy),
    )
    payload = _canonical(file)
    head = SignedHeader.sign(key, "round", payload)
    private_round = PrivateRound.load(head.to_bytes(container.ROUND, payload), key.public)
    # Sums that do not fit 64 bits are refused here, and not when clients have counted.
    _ = private_round.moduli
    return private_round


def _canonical(file: _RoundFile) -> bytes:
    return container.canonical(msgspec.to_builtins(file))


def _promise_of(privacy: Privacy | None) -> tuple[str, str, str] | None:
    if privacy is None:
        return None
    return privacy.epsilon.hex(), privacy.delta.hex(), privacy.calibration


def _read_zero(file: _RoundFile) -> Summable:
    value_type = format_named(file.what).value_type
    if value_type is None:
        raise WireError(f"a round of {file.what}, which does not add up")
    try:
        zero: Summable = value_type.declared(file.zero)
    except (InvalidInput, SettingsError) as error:
        raise WireError(f"not a valid round: {error}") from error
    # Two texts of one round would be two identities.
    if container.canonical(zero.declaration()) != container.canonical(file.zero):
        raise WireError(f"what the round says of its {file.what} is not written as safle writes it")
    if file.most_total_samples > zero.most_samples:
        raise CountOverflow(
            f"most_total_samples {file.most_total_samples}; expected 1 to {zero.most_samples}"
        )
    return zero


def _read_privacy(file: _RoundFile, zero: Summable) -> Privacy | None:
    if file.promise is None:
        return None
    if not isinstance(zero, Statistics):
        raise SettingsError(f"a round of {file.what} with noise; expected one of statistics")
    epsilon, delta, calibration = file.promise
    limits = float.fromhex(epsilon), float.fromhex(delta)
    return plan_noise(zero.layout, *limits, calibration=calibration)
