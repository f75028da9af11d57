"""Points that somebody has to settle: differences between drafts that can be merged.

A rule is a function from one column, as all drafts have it, to sentences. Nothing is merged
silently over a point: somebody mends the tables, or accepts it by its name.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations

from safle.basics.texts import name_some
from safle.errors import SettingsError
from safle.tables.cells import is_number, numeric_marks
from safle.tables.checks import group_alike, spelling_of
from safle.tables.schema import RARE, Column, Schema

Drafts = Mapping[str, Schema]
"""By the names of their files."""
Point = tuple[str, str]
"""Its name, as "units:age", and why it is open."""
Columns = Mapping[str, Column]
"""One column, by the files that have it."""
MAX_WIDTH_RATIO = 8
"""A range more than this many times wider than another is suspect: hospitals differ by less."""
MAX_RATIO = 3
"""So is a range whose two ends are more than this many times larger."""
MAX_CODE = 9
"""Whole numbers up to this one may be codes of levels: ranges of these that only touch differ."""
SHARE_LOWER = 0.2
"""A range that begins lower by this share of a width: a part may be in another unit."""
_UNIT = "kg|g|mg|ug|µg|ng|lbs?|cm|mm|inch|ft|years?|months?|days?|[munp]?mol|dl|ml|iu|mmhg|kpa|%"
_UNIT_IN_NAME = re.compile(
    rf"[(\[][^()\[\]]*[)\]]|[\s_,;:]+(in[\s_]+)?({_UNIT})([\s_/]*(d|m)?l)?$", re.IGNORECASE
)
"""A unit in brackets, or at the end: Weight (kg), weight_kg, creatinine, mg/dL."""


def find_points(drafts: Drafts) -> list[Point]:
    """All points of drafts that can be merged."""
    points = [("classes", text) for text in _find_other_classes(drafts)]
    points += _find_other_names(drafts)
    for name, columns in columns_by_name(drafts).items():
        if ignoring := [file for file, draft in drafts.items() if name in draft.ignore]:
            text = (
                f"column {name!r} is left out: {', '.join(ignoring)} ignores it (dates, free text "
                f"or --ignore), and {', '.join(columns)} has it. Correct that table and draft again"
            )
            points.append((f"ignored:{name}", text))
            continue
        for kind, rule, advice in RULES:
            for text in rule(columns, drafts):
                points.append((f"{kind}:{name}", f"column {name!r}: {text} {advice}"))
    return points


def settle(points: Sequence[Point], accepted: Sequence[str]) -> None:
    """`SettingsError` unless ``accepted`` are the names of all points.

    Examples
    --------
    >>> settle([("units:age", "is it in years?")], [])
    Traceback (most recent call last):
    safle.errors.SettingsError: 1 point is open, so nothing is written; correct the tables ...
    """
    found = [*dict.fromkeys(name for name, _ in points)]
    if unknown := [name for name in accepted if name not in found]:
        raise SettingsError(
            f"--accept {shlex.quote(unknown[0])} is not a point that was found; found were: "
            f"{name_some(found) or 'none'}"
        )
    if still_open := [name for name in found if name not in accepted]:
        count = len(still_open)
        raise SettingsError(
            f"{count} {'point is' if count == 1 else 'points are'} open, so nothing is written; "
            "correct the tables or drafts and merge again, or accept what is right as it is: "
            + " ".join(f"--accept {shlex.quote(name)}" for name in [*accepted, *still_open])
        )


def columns_by_name(drafts: Drafts) -> dict[str, dict[str, Column]]:
    """Each column, as the files that have it say, in the order of the names."""
    found: dict[str, dict[str, Column]] = {}
    for file, draft in drafts.items():
        for column in draft.columns:
            found.setdefault(column.name, {})[file] = column
    return dict(sorted(found.items()))


def _find_other_names(drafts: Drafts) -> Iterator[Point]:
    """Names of columns that are one except for case, blanks, marks or a unit in brackets."""
    has = {
        file: {*draft.names, *draft.ignore, *draft.sparse, draft.label_column}
        for file, draft in drafts.items()
    }
    features = {name for draft in drafts.values() for name in draft.names}
    for alike in group_alike(set().union(*has.values()), _letters):
        # A file that has two of them has two columns.
        are_two = any(len({*alike} & names) > 1 for names in has.values())
        if are_two or not features & {*alike}:
            continue
        files = [(name, [file for file in has if name in has[file]]) for name in alike]
        text = " and ".join(f"{name!r} in {', '.join(where)}" for name, where in files)
        name = f"names:{_letters(alike[0])}"
        why = (
            f"columns {text} differ only in case, blanks or a unit: are they one column? Rename it "
            "in the tables and draft again"
        )
        yield name, why


def _letters(name: str) -> str:
    """A name without case, blanks, marks and units in brackets."""
    plain = spelling_of(_UNIT_IN_NAME.sub("", name) or name)
    return "".join(char for char in plain if char.isalnum()) or plain


def _find_other_classes(drafts: Drafts) -> Iterator[str]:
    classes = {file: tuple(map(str, draft.classes)) for file, draft in drafts.items()}
    # A site with one class of its own is usual.
    for text in _find_other_texts("classes", classes, fewest=2):
        yield f"{text} Write the label one way everywhere and draft again"


def _find_other_levels(columns: Columns, _: Drafts) -> Iterator[str]:
    return _find_other_texts("levels", {file: c.levels for file, c in columns.items()})


def _find_other_texts(
    what: str, texts: Mapping[str, Sequence[str]], fewest: int = 1
) -> Iterator[str]:
    yield from _describe_spellings(what, texts)
    if text := _describe_unlike(what, texts, fewest):
        yield text


def _describe_spellings(what: str, texts: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for alike in group_alike(set().union(*texts.values())):
        files = [next(file for file in texts if text in texts[file]) for text in alike]
        named = " and ".join(f"{text!r}" for text in alike)
        where = ", ".join(dict.fromkeys(files))
        yield f"{what} {named} differ in case or spaces only ({where})."


def _describe_unlike(what: str, texts: Mapping[str, Sequence[str]], fewest: int) -> str:
    """A sentence if two files share less than half of their texts; else empty."""
    spelled = {file: {*map(spelling_of, found)} for file, found in texts.items() if found}
    # Of two texts everywhere, one is not enough: M and F, and M and W.
    are_pairs = {len(found) for found in spelled.values()} == {2}

    def are_unlike(one: set[str], other: set[str]) -> bool:
        most = min(len(one), len(other))
        shared = 2 * len(one & other)
        enough = max(len(one), len(other)) >= fewest
        return enough and (shared < most or (are_pairs and shared == most))

    if not any(are_unlike(one, other) for one, other in combinations(spelled.values(), 2)):
        return ""
    files: dict[tuple[str, ...], list[str]] = {}
    for file in spelled:
        files.setdefault(tuple(texts[file]), []).append(file)
    listed = [f"{name_some(found, 6)} in {', '.join(where)}" for found, where in files.items()]
    return f"{what} are {'; '.join(listed)}: are they two spellings of one?"


def _numbers(columns: Columns) -> dict[str, Column]:
    return {file: column for file, column in columns.items() if not column.is_category}


def _find_other_codes(columns: Columns, _: Drafts) -> Iterator[str]:
    """Whether some write 0 and 1 where others write 1 and 2, or 3, 6 and 7 where others 1 to 3."""
    numbers = _numbers(columns)
    files: dict[str, list[str]] = {}
    for file, column in numbers.items():
        files.setdefault(column.text, []).append(file)
    lows = [column.low for column in numbers.values()]
    highs = [column.high for column in numbers.values()]
    are_codes = all(end in range(MAX_CODE + 1) for end in lows + highs)
    if are_codes and numbers and min(highs) <= max(lows):
        listed = [f"{text} in {', '.join(where)}" for text, where in files.items()]
        yield f"it has {'; '.join(listed)}: are they codes of the same two levels?"


def _find_other_scales(columns: Columns, _: Drafts) -> Iterator[str]:
    """Files whose range is unlike the ranges in most other files."""
    numbers = _numbers(columns)
    named: set[str] = set()
    for file, column in numbers.items():
        unlike = [other for other in numbers if _differ_in_scale(column, numbers[other])]
        is_suspect = len(unlike) > (len(numbers) - 1) / 2
        # Of two drafts, each is unlike the other: one sentence is enough.
        if not is_suspect or file in named:
            continue
        named.add(unlike[0])
        others = " and most other drafts" if len(numbers) > 2 else ""
        yield (
            f"{file} says {column.text}, unlike {unlike[0]} ({numbers[unlike[0]].text}){others}: "
            "are they in the same unit?"
        )


def _differ_in_scale(one: Column, other: Column) -> bool:
    """Whether ranges do not overlap, or one is much wider or higher, or ``one`` begins lower."""
    narrow, wide = sorted([one, other], key=lambda column: column.high - column.low)
    apart = one.high < other.low or other.high < one.low
    wider = wide.high - wide.low > MAX_WIDTH_RATIO * (narrow.high - narrow.low)
    larger = wide.low > MAX_RATIO * narrow.low > 0 and wide.high > MAX_RATIO * narrow.high
    spans = _begins_lower(wide, narrow) and wide.high > MAX_RATIO * narrow.high
    # A part of the values in a smaller unit takes a range down, and leaves its high end.
    is_alike_above = abs(one.high - other.high) < (other.high - other.low) / 2
    has_part = _begins_lower(one, other) and is_alike_above
    return apart or wider or larger or spans or has_part


def _begins_lower(one: Column, other: Column) -> bool:
    """Whether so much lower that a part of the values may be in a smaller unit."""
    width = other.high - other.low
    further = other.low - one.low
    is_fraction = 0 <= MAX_RATIO * one.low < other.low and further > SHARE_LOWER * width
    # Inches among centimetres are 2.5 times smaller, and further down than centimetres span.
    is_below = 0 <= 2 * one.low < other.low and further > width
    # A lone number is a doubt of its own.
    return (is_fraction or is_below) and not one.lone


def _find_unit_of_some(columns: Columns, _: Drafts) -> Iterator[str]:
    numbers = _numbers(columns)
    stating = [file for file, column in numbers.items() if column.unit]
    others = [file for file in numbers if file not in stating]
    if stating and others:
        yield (
            f"the unit {numbers[stating[0]].unit} is stated in {', '.join(stating)} only, not in "
            f"{', '.join(others)}: is it the same there?"
        )


def _find_lone(columns: Columns, _: Drafts) -> Iterator[str]:
    files: dict[str, list[str]] = {}
    for file, column in columns.items():
        for text in column.lone:
            files.setdefault("a number in a few cells" if text == RARE else text, []).append(file)
    if files:
        listed = "; ".join(f"{text} in {', '.join(where)}" for text, where in files.items())
        yield f"{listed}, far from all other values: does it mean a missing value?"


def _find_marks_among_words(columns: Columns, _: Drafts) -> Iterator[str]:
    """A number or a dash that only one file has, among levels that are words."""
    for file, column in columns.items():
        others = {text for name, other in columns.items() if name != file for text in other.levels}
        odd = [text for text in column.levels if is_number(text) or not any(map(str.isalnum, text))]
        words = [text for text in column.levels if text not in odd]
        alone = [text for text in odd if others and text not in others]
        if alone and len(words) > len(odd):
            yield f"{file} has {alone[0]!r} among words: does it mean a missing value?"


def _find_below_zero(columns: Columns, _: Drafts) -> Iterator[str]:
    numbers = _numbers(columns)
    below = [file for file, column in numbers.items() if column.low < 0]
    others = [column for file, column in numbers.items() if file not in below]
    if len(below) != 1 or not others:
        return
    (file,) = below
    lowest = min(column.low for column in others)
    yield (
        f"{file} goes down to {numbers[file].low:g}, and no other file below {lowest:g}: does "
        "it mean a missing value?"
    )


def _find_marks_within(columns: Columns, drafts: Drafts) -> Iterator[str]:
    """Numbers that mean a missing value in one file, and may be a value in another."""
    marks = {file: _marks(drafts[file], column) for file, column in columns.items()}
    for file, declared in marks.items():
        for other, column in _numbers(columns).items():
            within = [m for m in declared - marks[other] if column.low <= m <= column.high]
            if within:
                yield (
                    f"{file} takes {min(within):g} for a missing value, but {other} says "
                    f"{column.text}: is it one there, too?"
                )


def _marks(draft: Schema, column: Column) -> set[float]:
    return {*numeric_marks(draft.missing), *numeric_marks(column.missing)}


Rule = Callable[[Columns, Drafts], Iterator[str]]
WRITE = "Write them one way everywhere and draft again"
MARK = "If so, draft again with --missing COLUMN=MARK"
UNMARK = f"{MARK}; if not, delete 'lone' of the column in the draft"
RULES: tuple[tuple[str, Rule, str], ...] = (
    ("levels", _find_other_levels, WRITE),
    ("levels", _find_other_codes, WRITE),
    ("units", _find_other_scales, "If not, convert one table and draft it again"),
    ("units", _find_unit_of_some, "Write the same unit into every draft"),
    ("missing", _find_lone, UNMARK),
    ("missing", _find_marks_among_words, MARK),
    ("missing", _find_below_zero, UNMARK),
    ("missing", _find_marks_within, f"{MARK}; if not, take another mark"),
)
"""The kind of a point, the rule that finds it, and what to do."""
