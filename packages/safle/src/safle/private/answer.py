"""A keyholder's answer: the sums of the masks that it was given, over the clients of one set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from safle.encoders.features import is_digest
from safle.errors import FederationError, WireError
from safle.private.keys import PrivateKey
from safle.private.round import PrivateRound
from safle.private.signed import Head, Signed
from safle.private.vector import Bytes
from safle.wire import container

KIND = "answer"


@dataclass(frozen=True)
class Answer:
    """Sums of masks, signed by their keyholder.

    Attributes
    ----------
    round_digest, request_digest : what was asked
    vectors : uint8, by the number of the share
    """

    keyholder: str
    round_digest: str
    request_digest: str
    vectors: Mapping[int, Bytes] = field(repr=False)

    def to_bytes(self, key: PrivateKey) -> bytes:
        """The bytes of the answer's file, the same every time."""
        payload = b"".join(vector.tobytes() for vector in self.vectors.values())
        said = {"round": self.round_digest, "request": self.request_digest}
        head = Head.sign(key, KIND, payload, keyholder=self.keyholder, **said)
        return head.to_bytes(container.ANSWER, payload)

    @staticmethod
    def from_bytes(data: bytes | memoryview, declared: PrivateRound) -> Answer:
        """Read an answer; a `SafleError` unless a keyholder of this round has signed it."""
        signed = Signed.read(data, container.ANSWER)
        head, fields = signed.head, signed.head.fields
        if set(fields) != {"kind", "payload", "round", "request", "keyholder"}:
            raise WireError("the head does not hold exactly the fields of an answer")
        name, request = fields["keyholder"], fields["request"]
        if not isinstance(name, str) or name not in declared.keyholders:
            raise FederationError(f"{str(name)[:80]!r} is not a keyholder of this round")
        head.check(declared.keyholders[name], KIND)
        declared.require(fields["round"])
        if not is_digest(request):
            raise WireError("the answer does not say what was asked")
        given, size = declared.shares_of(name), declared.vector_bytes
        if signed.payload_bytes != len(given) * size:
            raise WireError(
                f"{name} answered {signed.payload_bytes} bytes; expected {len(given) * size}"
            )
        payload = signed.unfold(len(given) * size)
        whole = np.frombuffer(payload, np.uint8).reshape(len(given), size)
        return Answer(name, declared.digest, request, dict(zip(given, whole, strict=True)))

    def require(self, declared: PrivateRound, request_digest: str) -> None:
        """Refuse an answer to another question."""
        declared.require(self.round_digest)
        if self.request_digest != request_digest:
            raise FederationError(
                f"{self.keyholder} answers request {self.request_digest[:12]}…; this sum's is "
                f"{request_digest[:12]}…: it is of other clients"
            )
