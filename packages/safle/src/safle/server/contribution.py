"""Contribution: the facts of one client's file; and how a client's name becomes a file's name."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote_to_bytes

from safle.encoders.codes import CodeSpace
from safle.errors import InvalidInput
from safle.statistics.statistics import Statistics
from safle.tables.checks import ClassName
from safle.wire.formats import Admit
from safle.wire.statistics import FORMAT, read_head

SUFFIX = ".stats"
MOST_BYTES = 240
"""Of a file's name: what a write in progress adds to it fits into the 255 of a file system."""


@dataclass(frozen=True)
class Contribution:
    """The facts of one client's file, as stores and sums list them.

    Attributes
    ----------
    client : who sent it, or the name of its file
    digest : of its content; the contribution's identity
    samples : number of samples that it counts
    bytes : size of the file
    classes : names of the classes it has seen; none in a histogram
    received : when it came into a store, in UTC

    Examples
    --------
    >>> Contribution("hospital-a", "0" * 64, samples=120, bytes=4096, classes=("ill",)).samples
    120
    """

    client: str
    digest: str
    samples: int
    bytes: int
    classes: tuple[ClassName, ...] = ()
    received: str = ""


def open_contribution(
    client: str, data: bytes, space: CodeSpace, admit: Admit = lambda _classes: None
) -> tuple[Statistics, Contribution]:
    """The statistics in a file's bytes, and their facts; a `SafleError` for bad ones.

    All is verified but one thing: a gram that was sent as columns is multiplied out when it is
    first added or read, and only then shows whether its entries are integers.

    Parameters
    ----------
    space : the code space that is expected
    admit : gets the class names before sections are decompressed; refuses by `LimitExceeded`
    """
    statistics, digest = FORMAT.open(data, space=space, admit=admit, multiply_out=False)
    samples = statistics.sample_count
    return statistics, Contribution(client, digest, samples, len(data), statistics.class_names)


def read_contribution(
    path: Path, client: str, space: CodeSpace, received: str = ""
) -> Contribution:
    """What the head of a file says; its sums are not read, and nothing vouches for it yet."""
    digest, header = read_head(path)
    space.check_same_encoder(header.fingerprint, same_layout=True)
    size = path.stat().st_size
    return Contribution(client, digest, header.samples, size, tuple(header.classes), received)


def check_client(name: object) -> str:
    """A client's name, or `InvalidInput`.

    >>> check_client("hospital-a")
    'hospital-a'
    """
    if (
        not isinstance(name, str)
        or not name
        or not name.isprintable()
        or name != name.strip()
        or len(file_name_of(name).encode()) > MOST_BYTES
    ):
        raise InvalidInput(
            f"the client's name is {str(name)[:80]!r}; expected one line without spaces around it, "
            f"of at least one character, whose file name takes at most {MOST_BYTES} bytes"
        )
    return name


def file_name_of(client: str) -> str:
    """The name of a client's file: one that no system takes for a folder, a command or another's.

    Letters and digits of any script, ``-``, ``_``, space and inner ``.`` stay; all else is ``%XX``.

    >>> file_name_of("Klinik Süd"), file_name_of("../etc"), file_name_of("a.b")
    ('Klinik Süd.stats', '%2E.%2Fetc.stats', 'a.b.stats')
    """
    kept = "".join(char if _stays(char) else _escape(char) for char in client)
    # Letters may be one character only together, as the parts of a Korean syllable.
    if unicodedata.normalize("NFC", kept) != kept:
        kept = "".join(char if char.isascii() else _escape(char) for char in kept)
    for end in ("^[.]", "[.]$"):
        kept = re.sub(end, "%2E", kept)
    return kept + SUFFIX


def client_of(file_name: str) -> str | None:
    """The client whose file has this name; None if it is nobody's.

    >>> client_of("%2E.%2Fetc.stats"), client_of("thesis.txt"), client_of("%61.stats")
    ('../etc', None, None)
    """
    stem = file_name.removesuffix(SUFFIX)
    try:
        client = check_client(unquote_to_bytes(stem).decode())
    except (ValueError, InvalidInput):
        return None
    return client if file_name_of(client) == file_name else None


def fold(client: str) -> str:
    """Equal for names that some file systems take for one."""
    return unicodedata.normalize("NFC", client.casefold())


def _stays(char: str) -> bool:
    return char in "-_. " or unicodedata.category(char)[0] == "L" or char.isdecimal()


def _escape(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode(errors="surrogatepass"))
