"""A keyholder's answer: the sum of the masks that it was given, over the clients of one set."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from safle.encoders.features import is_digest
from safle.errors import FederationError, WireError
from safle.private.keys import PrivateKey
from safle.private.round import PrivateRound
from safle.private.signed import Signed, SignedHead
from safle.private.vector import Bytes
from safle.wire import container

KIND = "answer"


@dataclass(frozen=True)
class KeyholderAnswer:
    """The sum of a keyholder's masks, signed by it.

    Attributes
    ----------
    round_digest, request_digest : what was asked
    masks : uint8, their sum over all clients of the request

    Examples
    --------
    See `MaskedSum`, which answers open.

    >>> import numpy as np
    >>> from safle import DeclaredRange, LinearEncoder
    >>> from safle.private import Parties, statistics_space
    >>> encoder = LinearEncoder.calibrated(DeclaredRange(0, 1, feature_dim=1))
    >>> parties = Parties.of(statistics_space(encoder, ["ill"], 100), ["a", "b"])
    >>> masks, digest = parties.private_round.sizes.zeros(), parties.private_round.digest
    >>> made = KeyholderAnswer("keyholder-1", digest, "0" * 64, masks)
    >>> data = made.to_bytes(parties.keyholders[0])
    >>> KeyholderAnswer.from_bytes(data, parties.private_round).keyholder
    'keyholder-1'
    """

    keyholder: str
    round_digest: str
    request_digest: str
    masks: Bytes = field(repr=False)

    def to_bytes(self, key: PrivateKey) -> bytes:
        """The bytes of the answer's file, the same every time."""
        payload = self.masks.tobytes()
        said = {"round": self.round_digest, "request": self.request_digest}
        head = SignedHead.sign(key, KIND, payload, keyholder=self.keyholder, **said)
        return head.to_bytes(container.ANSWER, payload)

    @staticmethod
    def from_bytes(data: bytes | memoryview, private_round: PrivateRound) -> KeyholderAnswer:
        """Read an answer; a `SafleError` unless a keyholder of this round has signed it."""
        signed = Signed.read(data, container.ANSWER)
        head, fields = signed.head, signed.head.fields
        if set(fields) != {"kind", "payload", "round", "request", "keyholder"}:
            raise WireError("the head does not hold exactly the fields of an answer")
        name, request = fields["keyholder"], fields["request"]
        if not isinstance(name, str) or name not in private_round.keyholders:
            raise FederationError(f"{str(name)[:80]!r} is not a keyholder of this round")
        head.check(private_round.keyholders[name], KIND)
        private_round.require(fields["round"])
        if not is_digest(request):
            raise WireError("the answer does not say what was asked")
        size = private_round.vector_bytes
        if signed.payload_bytes != size:
            raise WireError(f"{name} answered {signed.payload_bytes} bytes; expected {size}")
        masks = np.frombuffer(signed.unfold(size), np.uint8)
        return KeyholderAnswer(name, private_round.digest, request, masks)

    def require(self, private_round: PrivateRound, request_digest: str) -> None:
        """Refuse an answer to another question."""
        private_round.require(self.round_digest)
        if self.request_digest != request_digest:
            raise FederationError(
                f"{self.keyholder} answers request {self.request_digest[:12]}…; this sum's is "
                f"{request_digest[:12]}…: it is of other clients"
            )
