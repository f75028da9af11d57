"""Names of features, where their source has them: a table is matched by name, in any order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from safle.errors import SettingsError, TableError

LONGEST = 200
ADVICE = (
    "; leave them out with --ignore NAME (ignore= in Python), but for the column of labels, which "
    "is named with --label-column NAME (label_column=)"
)


def as_names(names: Any, feature_dim: int) -> tuple[str, ...]:
    """One name per feature, or none at all; `SettingsError` for anything else."""
    checked = tuple(names)
    if not checked:
        return ()
    if len(checked) != feature_dim or len({*checked}) != len(checked):
        raise SettingsError(
            f"{len(checked)} names, {len({*checked})} of them different, for {feature_dim} "
            "features; expected a name of its own for each"
        )
    for name in checked:
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST or not name.isprintable():
            raise SettingsError(
                f"a feature is called {str(name)[:80]!r}; expected 1 to {LONGEST} characters that "
                "can be printed"
            )
    return checked


def find_places(
    wanted: Sequence[str], found: Sequence[str], *, where: str, advice: str = ADVICE
) -> list[int]:
    """Where in ``found`` each name of ``wanted`` stands; every other name must be known.

    Examples
    --------
    >>> find_places(["age", "dose"], ["dose", "age"], where="visits.csv")
    [1, 0]
    """
    twice = [name for name, times in Counter(found).items() if times > 1]
    missing = [name for name in wanted if name not in {*found}]
    extra = [name for name in found if name not in {*wanted}]
    problems = {"columns that stand there twice": twice, "missing columns": missing}
    problems["columns that the encoder does not know"] = extra
    if any(problems.values()):
        told = "; ".join(f"{what}: {', '.join(names)}" for what, names in problems.items() if names)
        end = f"expected the encoder's {len(wanted)} columns{advice if extra else ''}"
        raise TableError(f"{where}: {told}; {end}")
    places = {name: place for place, name in enumerate(found)}
    return [places[name] for name in wanted]
