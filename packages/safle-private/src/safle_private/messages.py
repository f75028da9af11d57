r"""The files of a private round: a client's masked file, the server's request, its answers.

A masked file is a signed file of kind "masked": the head has ``round``, ``client`` and ``boxes``
(keyholder's name to hexadecimal), the payload is the vector. A mask is AES-256 in counter mode
from zero over zeros, as long as a vector, added entry by entry. Its key is HKDF-SHA256 of the seed
(32 random bytes), salt the round's identity, info ``safle mask\n<keyholder>\n<client>``. A box is
HPKE (X25519, HKDF-SHA256, AES-256-GCM) of the seed, its info the canonical JSON of ``round``,
``client``, ``y`` (the vector's SHA-256) and ``keyholder``.

A request has the header ``{"round"}`` and the section ``heads``: a JSON list of the clients'
``{"head", "signature"}`` by ascending name. A masked sum has the section ``sum``, a vector, as
well. The identity of a request is the SHA-256 of the round's identity and, sorted, each ``<payload
digest> <client>``, joined by line feeds. An answer is a signed file of kind "answer": the head has
``round``, ``request`` and ``keyholder``, the payload is the sum of the keyholder's masks.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from safle import container, is_digest, log_refusal, write_log
from safle.basics import BESIDE, StrPath, find_files, naming
from safle.errors import DuplicateContribution, FederationError, SafleError, WireError
from safle_private.keys import PrivateKey, SignedFile, SignedHeader
from safle_private.round import PrivateRound
from safle_private.vector import SEED_BYTES, Bytes, derive_key

LARGEST_BOX = 512
LARGEST_HEAD = 8192
"""Bytes: a box for each of three keyholders, and names of 200 characters."""


@dataclass(frozen=True)
class Masked:
    """One client's contribution to a private round, its signature checked.

    Attributes
    ----------
    vector : uint8, y = x + masks; random to everybody without the masks
    """

    client: str
    head: SignedHeader
    vector: Bytes = field(repr=False)

    def to_bytes(self) -> bytes:
        """The bytes of the file."""
        return self.head.to_bytes(container.MASKED, self.vector.tobytes())

    @staticmethod
    def from_bytes(data: bytes | memoryview, private_round: PrivateRound) -> Masked:
        """Read a client's file; a `SafleError` unless it is of this round and of its roster."""
        signed = SignedFile.read(data, container.MASKED)
        client = _check_client_head(signed.head, private_round)
        vector = signed.decompress(private_round.moduli.size)
        return Masked(client, signed.head, np.frombuffer(vector, np.uint8))


def mask(private_round: PrivateRound, key: PrivateKey, value: Any) -> Masked:
    """Hide a client's value under fresh masks, to send it to the server.

    Parameters
    ----------
    key : the client's
    value : statistics, a histogram or evaluation counts, as the round says
    """
    client = private_round.check_party("client", key.name)
    if private_round.clients[client] != key.public:
        raise FederationError(
            f"the round lists another key for {client}; ask its operator for a new round"
        )
    vector = private_round.to_vector(value)
    # A seed is never used again: two vectors under one mask give away their difference.
    seeds = {name: os.urandom(SEED_BYTES) for name in private_round.keyholders}
    keys = [derive_key(seed, private_round.digest, client, name) for name, seed in seeds.items()]
    private_round.moduli.add_masks(vector, keys)
    digest = hashlib.sha256(vector.data).hexdigest()
    boxes = {
        name: keyholder.seal_box(seeds[name], private_round.bound_to(client, digest, name)).hex()
        for name, keyholder in private_round.keyholders.items()
    }
    fields = {"round": private_round.digest, "client": client, "boxes": boxes}
    return Masked(client, SignedHeader.sign(key, "masked", vector.data, **fields), vector)


def _check_client_head(head: SignedHeader, private_round: PrivateRound) -> str:
    """The client that signed a head; a `SafleError` unless it is of this round, for this round."""
    client = private_round.check_head(head, "masked", "client", "boxes")
    boxes = head.fields["boxes"]
    if not isinstance(boxes, dict) or set(boxes) != set(private_round.keyholders):
        raise WireError(f"{client} did not seal one box for each keyholder")
    if any(not isinstance(box, str) or len(box) > 2 * LARGEST_BOX for box in boxes.values()):
        raise WireError(f"a box of {client} is not text of up to {2 * LARGEST_BOX} characters")
    return client


@dataclass(frozen=True)
class Request:
    """What keyholders are asked to open: the heads of the files that were added up.

    Attributes
    ----------
    heads : by client, in ascending order; each checked against the round
    """

    private_round: PrivateRound
    heads: dict[str, SignedHeader]

    @property
    def members(self) -> frozenset[str]:
        """Each client with what it sent: another file of the same client is another member."""
        return frozenset(f"{head.payload_digest} {name}" for name, head in self.heads.items())

    @property
    def digest(self) -> str:
        """Identity of the set: the same clients with the same files."""
        text = "\n".join([self.private_round.digest, *sorted(self.members)])
        return hashlib.sha256(text.encode()).hexdigest()

    def to_bytes(self) -> bytes:
        """The bytes of the request's file."""
        return _write_request(self, container.REQUEST)

    @staticmethod
    def from_bytes(data: bytes, private_round: PrivateRound) -> Request:
        """Read a request; a `SafleError` unless every head is of this round and its roster."""
        opened = container.from_bytes(data, file_type=container.REQUEST)
        request = _read_request(opened, private_round)
        opened.finish()
        return request


def _write_request(request: Request, file_type: int, **sections: bytes) -> bytes:
    heads = container.canonical([head.to_json() for head in request.heads.values()])
    header = {"round": request.private_round.digest}
    return container.to_bytes(file_type, header, {"heads": heads, **sections})


def _read_request(opened: container.Container, private_round: PrivateRound) -> Request:
    if set(opened.header) != {"round"} or "heads" not in opened.frames:
        raise WireError("not a request: expected a round and the heads of its clients")
    private_round.check_digest(opened.header["round"])
    _, size = opened.frames["heads"]
    most = LARGEST_HEAD * len(private_round.clients)
    if size > most:
        raise WireError(f"heads of {size} bytes; those of all clients have at most {most}")
    try:
        content = json.loads(opened.section("heads", size))
        heads = [SignedHeader.from_json(head) for head in content]
    except SafleError:
        raise
    except (ValueError, TypeError, RecursionError) as error:
        raise WireError(f"the heads of the clients are not valid: {error}") from error
    by_client = {_check_client_head(head, private_round): head for head in heads}
    if [*by_client] != sorted(by_client) or len(by_client) != len(heads):
        raise WireError("the clients are not in ascending order, or one comes twice")
    return Request(private_round, by_client)


@dataclass(frozen=True)
class KeyholderAnswer:
    """The sum of a keyholder's masks over the clients of one request, signed by it.

    Attributes
    ----------
    round_digest, request_digest : of the request that it answers
    masks : uint8, their sum over all clients of the request
    """

    keyholder: str
    round_digest: str
    request_digest: str
    masks: Bytes = field(repr=False)

    def to_bytes(self, key: PrivateKey) -> bytes:
        """The bytes of the answer's file, the same every time."""
        payload = self.masks.tobytes()
        fields = {"round": self.round_digest, "request": self.request_digest}
        head = SignedHeader.sign(key, "answer", payload, keyholder=self.keyholder, **fields)
        return head.to_bytes(container.ANSWER, payload)

    @staticmethod
    def from_bytes(data: bytes | memoryview, private_round: PrivateRound) -> KeyholderAnswer:
        """Read an answer; a `SafleError` unless a keyholder of this round has signed it."""
        signed = SignedFile.read(data, container.ANSWER)
        keyholder = private_round.check_head(signed.head, "answer", "keyholder", "request")
        request = signed.head.fields["request"]
        if not is_digest(request):
            raise WireError("the answer does not name its request by a digest")
        masks = np.frombuffer(signed.decompress(private_round.moduli.size), np.uint8)
        return KeyholderAnswer(keyholder, private_round.digest, request, masks)

    @staticmethod
    def read_names(data: bytes | memoryview) -> tuple[str, str]:
        """The keyholder and the request that an answer names; its signature is not checked.

        An operator's own file of an earlier round, whose roster may have been another.
        """
        fields = SignedFile.read(data, container.ANSWER).head.fields
        keyholder = fields.get("keyholder")
        request = fields.get("request")
        if not isinstance(keyholder, str) or not is_digest(request):
            raise WireError("the answer does not name its keyholder and its request")
        return keyholder, str(request)

    def check_request(self, request: Request) -> None:
        """Refuse an answer to another request."""
        request.private_round.check_digest(self.round_digest)
        if self.request_digest != request.digest:
            raise FederationError(
                f"{self.keyholder} answers request {self.request_digest[:12]}…; this sum's is "
                f"{request.digest[:12]}…, of other clients: ask {self.keyholder} again"
            )


@dataclass(frozen=True)
class MaskedSum:
    """The sum of masked vectors, still under the sum of their masks.

    Attributes
    ----------
    request : what the keyholders are asked
    """

    request: Request
    vector: Bytes = field(repr=False)

    def to_bytes(self) -> bytes:
        """The bytes of the server's own file."""
        return _write_request(self.request, container.MASKED_SUM, sum=self.vector.tobytes())

    @staticmethod
    def from_bytes(data: bytes, private_round: PrivateRound) -> MaskedSum:
        """Read the server's own file."""
        opened = container.from_bytes(data, file_type=container.MASKED_SUM)
        request = _read_request(opened, private_round)
        vector = np.frombuffer(opened.section("sum", private_round.moduli.size), np.uint8)
        opened.finish()
        return MaskedSum(request, vector)

    def open(self, answers: Iterable[KeyholderAnswer]) -> Any:
        """The value of the sum, verified: statistics, a histogram or evaluation counts."""
        private_round = self.request.private_round
        by_keyholder: dict[str, KeyholderAnswer] = {}
        for answer in answers:
            answer.check_request(self.request)
            if answer.keyholder in by_keyholder:
                raise FederationError(f"two answers of {answer.keyholder}; name one of them")
            by_keyholder[answer.keyholder] = answer
        if missing := [name for name in private_round.keyholders if name not in by_keyholder]:
            raise FederationError(
                f"no answer of {', '.join(missing)}; all {len(private_round.keyholders)} "
                "keyholders must answer: if one is lost, begin a new round"
            )
        vector = self.vector.copy()
        for answer in by_keyholder.values():
            private_round.moduli.subtract(vector, answer.masks)
        return private_round.from_vector(vector)


class Gathering:
    """A growing sum of masked contributions: one in memory at a time, one per client."""

    def __init__(self, private_round: PrivateRound) -> None:
        self.private_round = private_round
        self._heads: dict[str, SignedHeader] = {}
        self._total = private_round.moduli.zeros()

    @property
    def clients(self) -> list[str]:
        """The clients whose contributions are in the sum."""
        return [*self._heads]

    def check(self, masked: Masked) -> None:
        """Refuse a client that is in already."""
        if masked.client in self._heads:
            raise DuplicateContribution(
                f"{masked.client} is in already; leave one of its two files out"
            )

    def receive(self, data: bytes, *, client: str = "", place: Path | None = None) -> Masked:
        """Check a client's file and log it, by default in this site's log; `add` then adds it.

        If ``client`` is given, the file must be that client's.
        """
        digest = hashlib.sha256(data).hexdigest()
        with log_refusal(who=client, digest=digest, place=place):
            masked = Masked.from_bytes(data, self.private_round)
            if client not in ("", masked.client):
                raise FederationError(f"{client} sent the contribution of {masked.client}")
            self.check(masked)
        note = f"masked, of round {self.private_round.digest[:12]}…"
        write_log("received", who=masked.client, digest=digest, note=note, place=place)
        return masked

    def add(self, masked: Masked) -> None:
        """Add a client's vector."""
        self.check(masked)
        self.private_round.moduli.add(self._total, masked.vector)
        self._heads[masked.client] = masked.head

    def finish(self) -> MaskedSum:
        """The sum; refused if it has fewer clients than keyholders open."""
        private_round = self.private_round
        if len(self._heads) < private_round.least_clients:
            raise FederationError(
                f"{len(self._heads)} clients are in; keyholders open the sum of at least "
                f"{private_round.least_clients} of this round's {len(private_round.clients)}"
            )
        request = Request(private_round, dict(sorted(self._heads.items())))
        return MaskedSum(request, self._total)


def gather_files(
    private_round: PrivateRound,
    places: Iterable[StrPath],
    progress: Callable[[float], object] = lambda _share: None,
) -> MaskedSum:
    """Add up masked files, or folders of them, one in memory at a time; errors name the file."""
    gathering = Gathering(private_round)
    sources = find_files(places, except_for=BESIDE)
    for done, source in enumerate(sources, start=1):
        with naming(source):
            gathering.add(gathering.receive(container.read_limited(source)))
        progress(done / len(sources))
    return gathering.finish()
