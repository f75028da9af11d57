"""Sealed file: tables of rows that are added and never changed, in SQLite.

    seal of a row = SHA-256(seal of the row before it, number of the row, its values)

The seal is hexadecimal; it is taken of the JSON list that ``json.dumps`` writes, with the SHA-256
of bytes in their place. The first row takes the table's name for the seal before it.
Ledgers and histories are such files.

A row is on the disk when its transaction ends (write-ahead log, flushed at every commit): neither
a kill nor a power loss takes it back. Triggers refuse changes, and a row that was changed, taken
out or put in by other means breaks the chain. Rows cut off at the end do not break it.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from safle.basics.atomic import check_place
from safle.basics.places import StrPath
from safle.errors import InvalidInput, SafleError, StoreError

SECONDS_TO_WAIT = 60
"""For another process that is writing: its transactions are short."""
_BESIDE = ("-journal", "-shm", "-wal")
_TABLE = """
CREATE TABLE IF NOT EXISTS {name} (
    number INTEGER PRIMARY KEY, {columns}, seal TEXT NOT NULL);
CREATE TRIGGER IF NOT EXISTS {name}_unchanged BEFORE UPDATE ON {name}
BEGIN SELECT RAISE(ABORT, 'its rows are never changed'); END;
CREATE TRIGGER IF NOT EXISTS {name}_kept BEFORE DELETE ON {name}
BEGIN SELECT RAISE(ABORT, 'its rows are never changed'); END;
"""


class SealedFile:
    """A file of tables; any problem with it raises a `StoreError` that names the file.

    Values are texts, whole numbers, floats, bytes or None.

    Parameters
    ----------
    tables : the columns of each table, by its name
    create : make the file and its tables if they are missing
    alone : no other process can open the file until it is closed
    message : what an error says after the file's name

    Examples
    --------
    >>> import tempfile
    >>> tables = {"opened": ("who", "answer")}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with SealedFile(Path(folder) / "log.sqlite", tables) as file, file.transaction():
    ...         number = file.append("opened", "a", b"yes")
    ...         [*file.rows("opened")]
    [(1, 'a', b'yes')]
    """

    def __init__(
        self,
        path: StrPath,
        tables: Mapping[str, Sequence[str]],
        *,
        create: bool = True,
        alone: bool = False,
        message: str = "{error}",
    ) -> None:
        self.path, self._tables, self._message = Path(path), tables, message
        self._check_places(create)
        with self.naming():
            wait = 0 if alone else SECONDS_TO_WAIT
            self._connection = sqlite3.connect(
                self._address(create), uri=True, timeout=wait, isolation_level=None
            )
            try:
                if alone:
                    self._connection.execute("PRAGMA locking_mode=EXCLUSIVE")
                self._connection.execute("PRAGMA synchronous=FULL")
                if create:
                    self._connection.execute("PRAGMA journal_mode=WAL")
                    self._make_tables()
            except BaseException:
                self.close()
                raise

    def _check_places(self, create: bool) -> None:
        """Refuse a file that SQLite would open although it is a pipe, a device or a link."""
        try:
            for suffix in ("", *_BESIDE) if create else ():
                check_place(f"{self.path}{suffix}")
        except (InvalidInput, OSError) as error:
            raise StoreError(self._message.format(error=error)) from None
        if self.path.exists() and not self.path.is_file():
            raise StoreError(f"{self.path}: not a regular file; expected one that safle wrote")

    def _address(self, create: bool) -> str:
        address, folder = self.path.absolute().as_uri(), self.path.absolute().parent
        write_ahead_log = folder / f"{self.path.name}-wal"
        if not create and not write_ahead_log.exists() and not os.access(folder, os.W_OK):
            # SQLite cannot write beside a read-only copy, and need not.
            return f"{address}?immutable=1"
        return f"{address}?mode={'rwc' if create else 'rw'}"

    def _make_tables(self) -> None:
        statements = "".join(
            _TABLE.format(name=name, columns=", ".join(columns))
            for name, columns in self._tables.items()
        )
        with self._connection:
            self._connection.executescript(f"BEGIN IMMEDIATE;{statements}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    @property
    def complete(self) -> bool:
        """Whether all tables are there; a file whose making was interrupted has none."""
        with self.naming():
            found = self._connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            return {*self._tables} <= {name for (name,) in found}

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Keep all rows that the block appends, or none; nobody else writes meanwhile."""
        with self.naming(), self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            yield

    def append(self, table: str, *values: Any) -> int:
        """Add a row within the open transaction; return its number, from 1."""
        with self.naming():
            if not self._connection.in_transaction:
                raise ValueError("a row is added within a transaction")
            if any(value != value for value in values):
                # SQLite would store NULL instead, and the seal would not fit.
                raise ValueError("NaN cannot be kept")
            last_row = f"SELECT number, seal FROM {table} ORDER BY number DESC LIMIT 1"
            number, previous = self._connection.execute(last_row).fetchone() or (0, table)
            row = number + 1, *values
            marks = ", ".join("?" for _ in (*row, "seal"))
            self._connection.execute(
                f"INSERT INTO {table} VALUES ({marks})", (*row, _seal(previous, *row))
            )
            return int(number + 1)

    def rows(self, table: str) -> Iterator[tuple[Any, ...]]:
        """Number and values of every row, in order; `StoreError` for a broken chain."""
        for *row, _ in self.sealed_rows(table):
            yield tuple(row)

    def sealed_rows(self, table: str) -> Iterator[tuple[Any, ...]]:
        """As `rows`, each with its seal at the end; the last seal vouches for the whole table."""
        previous = table
        with self.naming():
            found = self._connection.execute(f"SELECT * FROM {table} ORDER BY number")
            for expected, row in enumerate(found, start=1):
                *fields, seal = row
                if row[0] != expected or seal != _seal(previous, *fields):
                    raise StoreError(
                        f"{self.path}: row {expected} of {table} is not what was written, or rows "
                        "before it are missing: somebody has changed the file, or the disk has; "
                        "bring it back from a backup"
                    )
                previous = seal
                yield row

    @contextmanager
    def naming(self) -> Iterator[None]:
        """Turn errors in this block into a `StoreError` that names the file."""
        try:
            yield
        except SafleError:
            raise
        except (sqlite3.Error, OSError, ValueError, TypeError) as error:
            raise StoreError(f"{self.path}: {self._message.format(error=error)}") from error


def _seal(previous: str, *fields: object) -> str:
    text = json.dumps([previous, *fields], default=lambda data: hashlib.sha256(data).hexdigest())
    return hashlib.sha256(text.encode()).hexdigest()
