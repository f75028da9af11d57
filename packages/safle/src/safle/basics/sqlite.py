"""SQLite for what must survive a kill: a change is on the disk when its call returns."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from safle.basics.places import StrPath
from safle.errors import SafleError, StoreError


class SqliteFile:
    """A database in a file; whatever is wrong with it is a `StoreError` that names the file.

    Parameters
    ----------
    tables : statements that make what is not there yet
    address : a URI, where the path alone does not say how it is opened
    log : write ahead, so that it can be read while it is written
    message : what is said of the file when something is wrong with it

    >>> base = SqliteFile(":memory:", "CREATE TABLE opened (digest TEXT)")
    >>> with base.transaction():
    ...     _ = base.run("INSERT INTO opened VALUES (?)", "a1")
    >>> base.run("SELECT * FROM opened")
    [('a1',)]
    >>> base.close()
    """

    def __init__(
        self,
        path: StrPath,
        tables: str = "",
        *,
        address: str = "",
        log: bool = False,
        message: str = "{error}",
    ) -> None:
        self.path, self._message = path, message
        with self.naming():
            place = address or path
            self._connection = sqlite3.connect(
                place, uri=bool(address), timeout=60, isolation_level=None
            )
            try:
                if log:
                    self.run("PRAGMA journal_mode=WAL")
                self.run("PRAGMA synchronous=FULL")
                self._connection.executescript(tables)
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def run(self, statement: str, *values: Any) -> list[Any]:
        """The rows of one statement."""
        with self.naming():
            return self._connection.execute(statement, values).fetchall()

    @contextmanager
    def transaction(self, first: str = "") -> Iterator[None]:
        """All of ``first`` and of a block, or nothing; from the beginning on nobody else writes."""
        with self.naming(), self._connection:
            self._connection.executescript(f"BEGIN IMMEDIATE;{first}")
            yield

    @contextmanager
    def naming(self) -> Iterator[None]:
        """Errors about what is in the file name it."""
        try:
            yield
        except SafleError:
            raise
        except (sqlite3.Error, OSError, ValueError, TypeError) as error:
            raise StoreError(f"{self.path}: {self._message.format(error=error)}") from error
