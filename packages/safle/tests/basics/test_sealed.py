"""Sealed files: rows are added, never changed, and a change by other means shows."""

import sqlite3

import pytest

from safle.basics.sealed import SealedFile
from safle.errors import StoreError

TABLES = {"opened": ("who", "answer"), "other": ("value",)}


@pytest.fixture
def path(tmp_path):
    place = tmp_path / "a.sqlite"
    with SealedFile(place, TABLES) as file, file.transaction():
        file.append("opened", "a", b"\0\1")
        file.append("opened", "b", None)
        file.append("opened", "c", 0.1)
        file.append("other", float("inf"))
    return place


def test_rows_come_back_as_they_were_added(path):
    with SealedFile(path, TABLES, create=False) as file:
        assert [*file.rows("opened")] == [(1, "a", b"\0\1"), (2, "b", None), (3, "c", 0.1)]
        assert [*file.rows("other")] == [(1, float("inf"))]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE opened SET answer = x'0002' WHERE number = 1",
        "UPDATE opened SET number = 9 WHERE number = 3",
        "DELETE FROM opened WHERE number = 1",
        "DELETE FROM opened WHERE number = 2",
        "INSERT INTO opened VALUES (4, 'd', 1, 'no seal')",
        "INSERT INTO opened SELECT 4, value, value, seal FROM other",
    ],
)
def test_a_change_is_refused_and_shows_where_it_was_forced(path, change):
    base = sqlite3.connect(path, isolation_level=None)
    if not change.startswith("INSERT"):
        with pytest.raises(sqlite3.DatabaseError, match="never changed"):
            base.execute(change)
    # Whoever may write the file can take the triggers out: then the chain shows it.
    base.execute("DROP TRIGGER opened_unchanged")
    base.execute("DROP TRIGGER opened_kept")
    base.execute(change)
    base.close()
    with (
        SealedFile(path, TABLES, create=False) as file,
        pytest.raises(StoreError, match=r"a\.sqlite: row \d of opened is not what was written"),
    ):
        list(file.rows("opened"))


def test_a_transaction_that_fails_adds_nothing(path):
    with SealedFile(path, TABLES) as file:
        with pytest.raises(StoreError, match="no such table"), file.transaction():
            file.append("none", file.append("other", 1))
        with pytest.raises(StoreError, match="within a transaction"):
            file.append("other", 1)
        with pytest.raises(StoreError, match="NaN cannot be kept"), file.transaction():
            file.append("other", float("nan"))
        assert len([*file.rows("other")]) == 1


def test_every_commit_is_flushed_to_a_log_that_is_written_ahead(path):
    """What SQLite's documentation asks for where a power loss must not take a commit back."""
    with SealedFile(path, TABLES) as file:
        asked = file._connection.execute
        assert asked("PRAGMA journal_mode").fetchone() == ("wal",)
        assert asked("PRAGMA synchronous").fetchone() == (2,), "FULL"


def test_a_file_that_was_not_made_to_the_end_says_so(tmp_path, path):
    (tmp_path / "empty.sqlite").touch()
    with SealedFile(tmp_path / "empty.sqlite", TABLES, create=False) as file:
        assert not file.complete
    with SealedFile(path, TABLES, create=False) as file:
        assert file.complete
    with pytest.raises(StoreError, match="missing"):
        SealedFile(tmp_path / "missing.sqlite", TABLES, create=False)
