"""Private rounds in memory, and a second, plain implementation of masks and vectors."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from safle.private import History, KeyholderAnswer
from safle.private.rehearsal import Parties


def make_parties(space, clients, *, least_share=0, **rules):
    """Everybody who takes part in a round, with their keys; clients are known by numbers."""
    names = [f"client-{at:02d}" for at in range(clients)]
    return Parties.of(space, names, least_share=least_share, **rules)


def answers_of(parties, total):
    """The answers of all keyholders, who have opened nothing before."""
    files = [parties.answer(at, total) for at in range(len(parties.keyholders))]
    return [KeyholderAnswer.from_bytes(data, parties.private_round) for data in files]


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
