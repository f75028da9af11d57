"""A client's file: its vector under masks, and the seeds of the masks in boxes for keyholders."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from safle.errors import FederationError, WireError
from safle.private.keys import PrivateKey, Signed, SignedHead
from safle.private.round import PrivateRound
from safle.private.vector import SEED_BYTES, Bytes, add_masks, derive_key, new_seed, pack
from safle.wire import container

KIND = "masked"
LARGEST_BOX = 512
LARGEST_HEAD = 8192
"""Bytes: a box for each of three keyholders, and names of 200 characters."""


@dataclass(frozen=True)
class Masked:
    """One client's contribution to a private round, its signature checked.

    Attributes
    ----------
    vector : uint8, y = x + masks; without the masks, as good as drawn at random

    Examples
    --------
    >>> from safle.private import EvaluationSpace, Parties
    >>> from safle.evaluation import Evaluation
    >>> parties = Parties.of(EvaluationSpace("0" * 64, ("ill",), 100), ["a", "b"])
    >>> value = Evaluation.none("0" * 64, ["ill"])
    >>> sent = mask(parties.private_round, parties.clients[0], value)
    >>> Masked.from_bytes(sent.to_bytes(), parties.private_round).client
    'a'
    """

    client: str
    head: SignedHead
    vector: Bytes = field(repr=False)

    def to_bytes(self) -> bytes:
        """The bytes of the file."""
        return self.head.to_bytes(container.MASKED, self.vector.tobytes())

    @staticmethod
    def from_bytes(data: bytes | memoryview, private_round: PrivateRound) -> Masked:
        """Read a client's file; a `SafleError` unless it is of this round and of its roster."""
        signed = Signed.read(data, container.MASKED)
        client = check_head(signed.head, private_round)
        vector = private_round.unfold_vector(signed, client)
        return Masked(client, signed.head, np.frombuffer(vector, np.uint8))


def mask(private_round: PrivateRound, key: PrivateKey, value: Any) -> Masked:
    """What a round adds up, under fresh masks: what a client sends to the server.

    Parameters
    ----------
    key : the client's
    value : statistics, a histogram or evaluation counts, as the round says

    Examples
    --------
    >>> from safle.private import EvaluationSpace, Parties
    >>> from safle.evaluation import Evaluation
    >>> parties = Parties.of(EvaluationSpace("0" * 64, ("ill",), 100), ["a", "b"])
    >>> asked = parties.private_round, parties.clients[0], Evaluation.none("0" * 64, ["ill"])
    >>> mask(*asked).to_bytes() == mask(*asked).to_bytes()
    False
    """
    client = key.name
    _require_member(client, private_round)
    if private_round.clients[client] != key.public:
        raise FederationError(
            f"the round lists another key for {client}; ask its operator for a new round"
        )
    vector = pack(private_round.space, private_round.space.entries(value))
    seeds = {name: new_seed() for name in private_round.keyholders}
    keys = [derive_key(seed, private_round.digest, client, at) for at, seed in seeds.items()]
    add_masks(private_round.sizes, vector, keys)
    digest = hashlib.sha256(vector.data).hexdigest()
    boxes = {
        name: keyholder.seal_box(seeds[name], private_round.bound_to(client, digest, name)).hex()
        for name, keyholder in private_round.keyholders.items()
    }
    fields = {"round": private_round.digest, "client": client, "boxes": boxes}
    return Masked(client, SignedHead.sign(key, KIND, vector.data, **fields), vector)


def check_head(head: SignedHead, private_round: PrivateRound) -> str:
    """Whose head this is; a `SafleError` unless a client of this round has signed it for it."""
    fields = head.fields
    if set(fields) != {"kind", "payload", "round", "client", "boxes"}:
        raise WireError("the head does not hold exactly the fields of a masked contribution")
    client = fields["client"]
    _require_member(client, private_round)
    head.check(private_round.clients[client], KIND)
    private_round.require(fields["round"])
    boxes = fields["boxes"]
    if not isinstance(boxes, dict) or set(boxes) != set(private_round.keyholders):
        raise WireError(f"{client} did not seal one box for each keyholder")
    if any(not isinstance(box, str) or len(box) > 2 * LARGEST_BOX for box in boxes.values()):
        raise WireError(f"a box of {client} is not one")
    return str(client)


def open_mask_key(head: SignedHead, private_round: PrivateRound, key: PrivateKey) -> bytes:
    """The key of the mask that a client has given to a keyholder; errors name the client."""
    client = str(head.fields["client"])
    try:
        box = bytes.fromhex(head.fields["boxes"][key.name])
        seed = key.open_box(box, private_round.bound_to(client, head.payload_digest, key.name))
        if len(seed) != SEED_BYTES:
            raise FederationError(f"sealed {len(seed)} bytes; expected a seed of {SEED_BYTES}")
    except (FederationError, ValueError) as error:
        raise FederationError(f"{client}: {error}; ask for a sum without {client}") from error
    return derive_key(seed, private_round.digest, client, key.name)


def _require_member(client: object, private_round: PrivateRound) -> None:
    if not isinstance(client, str) or client not in private_round.clients:
        raise FederationError(
            f"{str(client)[:80]!r} is not on the roster of this round; its operator declares who is"
        )
