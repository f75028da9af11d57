"""What the readers of tables and of images share: places on disk, splits, lists of names."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from safle.encoders.schema import LABEL_COLUMN as LABEL_COLUMN
from safle.errors import SafleError


def existing_file(path: str | os.PathLike[str], error: type[SafleError]) -> Path:
    """``path``, if it is a regular file with something in it.

    >>> existing_file("nowhere.csv", SafleError)
    Traceback (most recent call last):
    safle.errors.SafleError: nowhere.csv: no such file or folder
    """
    file = Path(path)
    if file.is_dir():
        raise error(f"{file}: is a directory; expected a file in it")
    if not file.exists():
        raise error(f"{file}: no such file or folder")
    if not file.is_file():
        raise error(f"{file}: not a regular file; copy its contents into one")
    if file.stat().st_size == 0:
        raise error(f"{file}: is empty; copy or export it again")
    return file


def choose_split(
    where: object,
    wanted: str | None,
    available: Iterable[str | None],
    error: type[SafleError],
    instead: str = "no splits: leave it out",
) -> str | None:
    """The split to read; None if there are none. ``instead`` says what else there is.

    >>> choose_split("data", "test", ["train", "test"], SafleError)
    'test'
    """
    names = sorted({name for name in available if name is not None})
    if wanted is None and len(names) > 1:
        raise error(
            f"{where}: has the splits {listed(names)}; say which with --split NAME "
            "(split= in Python)"
        )
    if wanted is not None and wanted not in names:
        raise error(f"{where}: no split {wanted!r}; it has {listed(names) or instead}")
    return wanted if wanted is not None else next(iter(names), None)


def refuse_options(
    where: object, kind: str, given: object, *options: str, error: type[SafleError]
) -> None:
    """Raise if one of ``options``, of which ``kind`` has no use, is not at its default."""
    for option in options:
        value = getattr(given, option)
        if value != getattr(type(given), option):
            raise error(f"{where}: {option}={str(value)!r} does not apply to {kind}; leave it out")


def find_label(
    where: object,
    wanted: str | None,
    names: Sequence[str],
    error: type[SafleError],
    usual: str = LABEL_COLUMN,
) -> str | None:
    """The column of labels among ``names``; the ``usual`` one may be missing, a wanted one not."""
    if wanted is None:
        return usual if usual in names else None
    if wanted not in names:
        raise error(f"{where}: no column {wanted!r}; it has {listed(names)}")
    return wanted


def listed(names: Iterable[str], most: int = 20) -> str:
    """Names separated by commas, the first ``most`` of them.

    >>> listed("abc", most=2)
    'a, b, ...'
    """
    known = list(names)
    return ", ".join(known[:most]) + (", ..." if len(known) > most else "")
