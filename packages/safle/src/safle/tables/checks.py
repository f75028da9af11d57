"""Checks of features, names and labels that come from outside."""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safle.errors import EncoderMismatch, InvalidInput, SafleWarning, SettingsError, TableError

ClassName = int | str
Ranges = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Lowest and highest values, (feature_dim,) each."""
MAX_NAME_LENGTH = 200
MAX_SOURCE_LENGTH = 1000
MAX_NAMED = 3
"""Columns that a warning names one by one; more are counted."""
RENAME_ADVICE = "; rename it, or declare it optional in the schema and make the encoder again"
IGNORE_ADVICE = (
    "; leave out what is not a feature with --ignore NAME (ignore= in Python), and name the column "
    "of labels with --label-column NAME (label_column=)"
)


def as_features(
    features: ArrayLike, feature_dim: int | None = None, *, gaps: bool = False
) -> NDArray[Any]:
    """Features as finite float32 or float64, (samples, feature_dim), C-contiguous.

    With ``gaps``, features may be missing: NaN.

    float16 becomes float32 and integers become float64: both hold every value
    (integers up to 2**53) exactly, so codes do not depend on how a file stored them.

    Examples
    --------
    >>> as_features([[1, 2], [3, 4]]).dtype
    dtype('float64')
    """
    if hasattr(features, "toarray"):
        raise InvalidInput(
            "features are a sparse matrix; expected an array: give features.toarray(), a part of "
            "the samples at a time if it is large. Zeros have codes like any other value: a sparse "
            "matrix saves nothing"
        )
    array = np.asarray(features)
    if array.ndim != 2:
        raise InvalidInput(
            f"features have shape {array.shape}; expected (samples, feature_dim): "
            "reshape a single sample with x[None, :]"
        )
    if feature_dim is not None and array.shape[1] != feature_dim:
        raise InvalidInput(
            f"features have {array.shape[1]} columns; this encoder expects {feature_dim}"
        )
    if array.dtype.kind not in "fiub":
        raise InvalidInput(f"features are {array.dtype}; expected real numbers")
    dtype = np.float32 if array.dtype in (np.float16, np.float32) else np.float64
    array = np.require(array, dtype, ["C", "ALIGNED", "ENSUREARRAY"])
    wrong = np.isinf(array) if gaps else ~np.isfinite(array)
    if wrong.any():
        sample, column = np.argwhere(wrong)[0]
        raise InvalidInput(
            f"features contain {array[sample, column]} at sample {sample}, column {column}; "
            "expected finite numbers: drop the sample, repair the backbone's output, or take an "
            "encoder of kind table, which accepts gaps"
        )
    return array


def as_labels(labels: ArrayLike, sample_count: int) -> NDArray[Any]:
    """Labels as int64 or str, (sample_count,)."""
    array = np.asarray(labels)
    if array.shape != (sample_count,):
        raise InvalidInput(
            f"labels have shape {array.shape}; expected one label for each of "
            f"{sample_count} samples"
        )
    if array.dtype.kind == "O" and all(isinstance(label, str) for label in array):
        array = array.astype(str)
    elif array.dtype.kind == "U" and isinstance(labels, list | tuple):
        # Refuse a list of integers and strings: NumPy has made strings of all of them.
        as_class_names([*{*labels}])
    if array.dtype.kind == "f":
        # Beyond 2**53 neighbouring integers share one float64; NaN is not equal to itself.
        whole = (array == np.round(array)) & (np.abs(array) <= 2.0**53)
        if not whole.all():
            raise InvalidInput(
                f"the label at sample {int(np.argmin(whole))} is not a whole number; "
                "expected classes, not measurements: give integers or strings"
            )
        array = array.astype(np.int64)
    if array.dtype.kind in "iub":
        if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
            raise InvalidInput("labels exceed the int64 range; give them as strings")
        return array.astype(np.int64)
    if array.dtype.kind == "U":
        return array
    raise InvalidInput(f"labels are {array.dtype}; expected integers or strings")


def as_class_names(names: Sequence[Any]) -> tuple[ClassName, ...]:
    """Distinct class names in their canonical (ascending) order: all int or all str."""
    plain = [name.item() if isinstance(name, np.generic) else name for name in names]
    kinds = {type(name) for name in plain}
    if not kinds <= {int} and not kinds <= {str}:
        found = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise InvalidInput(
            f"class names are of types {found}; expected all integers or all strings: "
            "use the same labels at every client"
        )
    for name in plain:
        _check_name(name)
    if len(set(plain)) != len(plain):
        raise InvalidInput("class names repeat; expected each once")
    return tuple(sorted(plain))


def spelling_of(name: ClassName) -> str:
    """A name without its case and spaces, one form of every letter."""
    return "".join(unicodedata.normalize("NFKC", str(name)).split()).casefold()


def group_alike(names: Iterable[Any], key: Callable[[Any], str] = spelling_of) -> list[list[Any]]:
    """Names that differ only in case or spaces, or share another ``key``: groups of two or more.

    >>> group_alike(["Ill", "well", "ill"])
    [['Ill', 'ill']]
    """
    groups: dict[str, list[Any]] = {}
    for name in sorted(names):
        groups.setdefault(key(name), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def _check_name(name: ClassName) -> None:
    if isinstance(name, int):
        if not -(1 << 63) <= name < 1 << 63:
            raise InvalidInput(f"class name {name} exceeds the int64 range")
        return
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"class name {name!r} is not valid UTF-8") from error


def is_digest(text: object) -> bool:
    """Whether this is a SHA-256 in hexadecimal digits."""
    return isinstance(text, str) and len(text) == 64 and not set(text) - set("0123456789abcdef")


def check_texts(values: Iterable[Any], *, what: str) -> list[str]:
    """Printable texts, each once; `SettingsError` for anything else."""
    texts = [*values]
    for text in texts:
        if not isinstance(text, str) or len(text) > MAX_NAME_LENGTH or not text.isprintable():
            raise SettingsError(
                f"{what}: {str(text)[:80]!r}; expected printable text of at most {MAX_NAME_LENGTH} "
                "characters"
            )
    if len({*texts}) < len(texts):
        raise SettingsError(f"{what}: a text occurs twice; expected each once")
    return texts


def as_names(names: Any, feature_dim: int) -> tuple[str, ...]:
    """One name per feature, or none at all; `SettingsError` for anything else."""
    checked = check_texts(names, what="names of features")
    if checked and (len(checked) != feature_dim or "" in checked):
        raise SettingsError(
            f"{len(checked)} names, {checked.count('')} of them empty, for {feature_dim} "
            "features; expected a name for each"
        )
    return tuple(checked)


def as_ranges(low: ArrayLike, high: ArrayLike, feature_dim: int) -> Ranges:
    """Both ends as float64, (feature_dim,); `SettingsError` unless they are finite and ordered."""
    ends = np.array(low, np.float64), np.array(high, np.float64)
    if {end.shape for end in ends} != {(feature_dim,)}:
        raise SettingsError(
            f"ranges of shapes {ends[0].shape} and {ends[1].shape}; expected ({feature_dim},)"
        )
    if not np.isfinite(ends).all() or (ends[0] > ends[1]).any():
        raise SettingsError("ranges must be finite, with low not above high")
    return ends


def find_places(
    expected: Sequence[str], found: Sequence[str], *, where: str, advice: str = IGNORE_ADVICE
) -> list[int]:
    """The position in ``found`` of each name of ``expected``.

    `TableError` if names are missing, unknown or there twice.
    """
    missing = {*expected} - {*found}
    unknown = {*found} - {*expected}
    repeated = [name for name, times in Counter(found).items() if times > 1]
    if missing or unknown or repeated:
        problems = {
            "columns that occur twice": repeated,
            "missing columns": [name for name in expected if name in missing],
            "columns that the encoder does not know": [name for name in found if name in unknown],
        }
        text = "; ".join(f"{what}: {', '.join(names)}" for what, names in problems.items() if names)
        advice = advice if unknown else ""
        if missing:
            advice = f"{_suggest_names(missing, unknown) or RENAME_ADVICE}{advice}"
        raise TableError(f"{where}: {text}; expected the encoder's {len(expected)} columns{advice}")
    places = {name: place for place, name in enumerate(found)}
    return [places[name] for name in expected]


def _suggest_names(missing: Iterable[str], unknown: Iterable[str]) -> str:
    """Which unknown names differ from missing ones only in case or spaces; empty if none does."""
    by_letters = {spelling_of(name): name for name in unknown}
    pairs = [(by_letters.get(spelling_of(name)), name) for name in sorted(missing)]
    alike = [f"{found!r} meant to be {name!r}" for found, name in pairs if found is not None]
    return f"; is {', and '.join(alike)}? Rename it" if alike else ""


def match_columns(
    expected: Sequence[str], found: Sequence[str], *, where: str, advice: str = IGNORE_ADVICE
) -> list[int] | None:
    """As `find_places`; None if a side has no names, with a warning if the other has some."""
    if expected and found:
        return find_places(expected, found, where=where, advice=advice)
    if expected or found:
        nameless = "its columns have no names"
        if found:
            nameless = "the encoder knows no names (Encoder.declare adds them)"
        warnings.warn(
            f"{where}: {nameless}: columns are matched by position; check their order",
            SafleWarning,
            stacklevel=4,
        )
    return None


def as_source(source: object) -> str:
    """What makes features (a backbone, its weights, preprocessing): one line of text.

    Two encoders with the same thresholds for different backbones are different encoders. The core
    does not interpret a source: it only compares two texts.
    """
    if not isinstance(source, str) or len(source) > MAX_SOURCE_LENGTH or not source.isprintable():
        raise SettingsError(
            f"the source of features is {str(source)[:80]!r}; expected one line of text with at "
            f"most {MAX_SOURCE_LENGTH} characters"
        )
    return source


def check_source(
    expected: str,
    found: str,
    *,
    where: str,
    trusted: bool = False,
    beside: str = "the encoder is for",
) -> None:
    """Raise `EncoderMismatch` unless features fit the encoder that is to encode them.

    Parameters
    ----------
    expected : the encoder's source, empty if it was made without one
    found : the features' source, empty if their file does not name one
    where : name of the features' file, for the message
    trusted : accept features if one of the two is empty; two sources that differ are refused
    beside : what expects the source, for the message: an encoder, or another file of features

    Examples
    --------
    >>> check_source("network a", "network b", where="features")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    safle.errors.EncoderMismatch: features: made by [network b], but the encoder is for ...
    """
    unknown = not (expected and found)
    if expected == found or (unknown and trusted):
        return
    advice = "use the same backbone, weights and preprocessing everywhere"
    if unknown:
        advice = (
            "make the features with 'safle features' and the encoder with --features-source FILE, "
            "or pass --trust-features if you know that they fit"
        )
    raise EncoderMismatch(
        f"{where}: made by [{_shorten_source(found)}], but {beside} "
        f"[{_shorten_source(expected)}]; {advice}"
    )


def _shorten_source(source: str) -> str:
    """The source with its digests cut to 12 digits, for messages."""
    return re.sub(r"([0-9a-f]{12})[0-9a-f]{52}", r"\1…", source) or "no named source"
