"""Private rounds in memory, and a second, plain implementation of masks and vectors."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from safle.private import (
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


@dataclass
class Cast:
    """Everybody who takes part in a round, with their keys."""

    operator: PrivateKey
    clients: list[PrivateKey]
    keyholders: list[PrivateKey]
    private_round: PrivateRound

    @staticmethod
    def of(space, clients, *, keyholders=2, least=2, least_share=0):
        operator = PrivateKey.new("operator")
        parties = [PrivateKey.new(f"client-{at:02d}") for at in range(clients)]
        holders = [PrivateKey.new(f"keyholder-{at}") for at in range(keyholders)]
        rules = {
            "clients": [key.public for key in parties],
            "keyholders": [key.public for key in holders],
            "least": least,
            "least_share": least_share,
        }
        private_round = declare_round(operator, space, **rules)
        return Cast(operator, parties, holders, private_round)

    def again(self, space):
        """Another round of the same people."""
        rosters = [[key.public for key in keys] for keys in (self.clients, self.keyholders)]
        private_round = declare_round(
            self.operator, space, clients=rosters[0], keyholders=rosters[1], least=2, least_share=0
        )
        return Cast(self.operator, self.clients, self.keyholders, private_round)

    def mask(self, number, value):
        """A client's file, as bytes."""
        return mask(self.private_round, self.clients[number], value).to_bytes()

    def gather(self, files):
        """The masked sum of files."""
        gathering = Gathering(self.private_round)
        for data in files:
            gathering.add(Masked.from_bytes(data, self.private_round))
        return gathering.finish()

    def answer(self, number, total, history=None):
        """A keyholder's answer, as bytes."""
        asked = Request.from_bytes(total.request.to_bytes(), self.private_round)
        key = self.keyholders[number]
        with History(history) if history else new_history() as opened:
            return answer_request(asked, key, opened).to_bytes(key)

    def answers(self, total):
        """The answers of all keyholders."""
        files = [self.answer(at, total) for at in range(len(self.keyholders))]
        return [KeyholderAnswer.from_bytes(data, self.private_round) for data in files]

    def open(self, total):
        """The sum, opened by all keyholders."""
        return total.open(self.answers(total))


@contextmanager
def new_history():
    """The history of a keyholder that has opened nothing."""
    with TemporaryDirectory() as folder, History(Path(folder) / "history.sqlite") as history:
        yield history


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


def free_entries(statistics, classes):
    """Entry by entry: the free integers of statistics over the whole layout, in any order."""
    layout, dense = statistics.layout, statistics.layout.dense_dim
    square = np.zeros((layout.embedding_dim, layout.embedding_dim), object)
    rows = np.r_[statistics.codes, layout.code_count + np.arange(dense)]
    square[np.ix_(rows, rows)] = statistics.gram_square()
    cross = np.zeros((layout.embedding_dim, len(classes)), object)
    cross[np.ix_(rows, [classes.index(name) for name in statistics.class_names])] = statistics.cross
    owner = [e for e, size in enumerate(layout.table_sizes) for _ in range(size)]
    firsts = {int(base) for base in layout.bases[:-1]}
    constants = {layout.code_count + column for column in layout.constants}
    free = [c for c in range(layout.embedding_dim) if c not in firsts | constants]
    entries = cross[free].reshape(-1).tolist()
    for i in free:
        for j in free:
            both = max(i, j) < layout.code_count
            if (i < j and not (both and owner[i] == owner[j])) or (i == j and not both):
                entries.append(square[i, j])
    return entries
