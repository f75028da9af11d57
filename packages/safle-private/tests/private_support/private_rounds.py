"""Private rounds in memory, and a second, plain implementation of masks and vectors."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from safle_private import (
    Gathering,
    History,
    KeyholderAnswer,
    Masked,
    PrivateKey,
    PrivateRound,
    Request,
    answer_request,
    declare_round,
    mask,
)


@dataclass(frozen=True)
class Parties:
    """Everybody who takes part in a round, with their private keys."""

    private_round: PrivateRound
    operator: PrivateKey
    clients: list[PrivateKey]
    keyholders: list[PrivateKey]

    def again(self, zero, most=1000, *, least_clients=2, after=None, privacy=None):
        """Another round of the same people."""
        private_round = declare_round(
            self.operator,
            zero,
            most,
            clients=[key.public for key in self.clients],
            keyholders=[key.public for key in self.keyholders],
            least_clients=least_clients,
            after=after,
            privacy=privacy,
        )
        return replace(self, private_round=private_round)

    def mask(self, number, value):
        """The file of a client."""
        return mask(self.private_round, self.clients[number], value).to_bytes()

    def gather(self, files):
        """The masked sum of clients' files."""
        gathering = Gathering(self.private_round)
        for data in files:
            gathering.add(Masked.from_bytes(data, self.private_round))
        return gathering.finish()

    def add_up(self, values):
        """The masked sum of the values of the first clients."""
        return self.gather(self.mask(number, value) for number, value in enumerate(values))

    def answer(self, number, total, history=None, *, despite=()):
        """The file of a keyholder, who has opened nothing before unless there is a history."""
        request = Request.from_bytes(total.request.to_bytes(), self.private_round)
        key = self.keyholders[number]
        with new_history() as empty:
            opened = open_history(history) if history else empty
            return answer_request(request, key, opened, despite_difference=despite).to_bytes(key)

    def open(self, total, files=None):
        """The sum, opened by the keyholders' files; by default by those of all of them."""
        given = files or [self.answer(number, total) for number in range(len(self.keyholders))]
        return total.open(KeyholderAnswer.from_bytes(data, self.private_round) for data in given)


def make_parties(zero, clients, most=1000, *, keyholders=2, **rules):
    """A round of so many clients and keyholders; ``rules`` are those of `Parties.again`."""
    names = [f"client-{at:02d}" for at in range(clients)]
    holders = [f"keyholder-{at}" for at in range(keyholders)]
    keys = [[*map(PrivateKey.new, those)] for those in (names, holders)]
    return Parties(None, PrivateKey.new("operator"), *keys).again(zero, most, **rules)


def answers_of(parties, total):
    """The answers of all keyholders, who have opened nothing before."""
    files = [parties.answer(at, total) for at in range(len(parties.keyholders))]
    return [KeyholderAnswer.from_bytes(data, parties.private_round) for data in files]


@contextmanager
def new_history():
    """The history of a keyholder that has opened nothing."""
    with TemporaryDirectory() as folder:
        yield open_history(f"{folder}/history")


def open_history(path):
    """A keyholder's history, begun if there is none."""
    return History(path, new=not Path(path).exists())


def plain_mask(wide, narrow, seed, round_digest, client, keyholder):
    """Entry by entry, in Python's integers: the mask of a seed, wide entries and narrow ones."""
    info = f"safle mask\n{keyholder}\n{client}".encode()
    key = HKDF(SHA256(), 32, salt=bytes.fromhex(round_digest), info=info).derive(seed)
    encryptor = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()
    return plain_entries(wide, narrow, encryptor.update(bytes(8 * wide + 4 * narrow)))


def plain_entries(wide, narrow, data):
    """The entries of a vector's bytes: a list of integers of 64 bits, and one of 32."""
    assert len(data) == 8 * wide + 4 * narrow
    first = [int.from_bytes(data[at : at + 8], "little") for at in range(0, 8 * wide, 8)]
    return first, [
        int.from_bytes(data[at : at + 4], "little") for at in range(8 * wide, len(data), 4)
    ]
