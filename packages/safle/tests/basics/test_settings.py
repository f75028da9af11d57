"""One validator: a mapping becomes settings, or an error says where, found, expected."""

from typing import Annotated, Literal

import msgspec
import numpy as np
import pytest

from safle.basics import as_settings, describe, to_mapping
from safle.errors import SettingsError, TableError


class Inner(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rate: Annotated[float, msgspec.Meta(gt=0)]


class Outer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    inner: Inner
    units: Annotated[int, msgspec.Meta(ge=1, le=9, description="How many.")] | None = None
    head: Literal["least-squares", "quadratic"] = "quadratic"
    names: tuple[str, ...] = ()
    quick: bool = False

    def __post_init__(self) -> None:
        if self.quick and self.units is None:
            raise SettingsError("quick needs units")


GOOD = {"inner": {"rate": 1}}


def test_a_mapping_becomes_a_value_and_back():
    given = {**GOOD, "units": np.int64(3), "names": ["a", "b"]}
    made = as_settings(Outer, given)
    assert made == Outer(Inner(1.0), 3, names=("a", "b"))
    assert as_settings(Outer, to_mapping(made)) == made


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"units": 10}, "units is 10; expected an integer, 1..9"),
        ({"units": True}, "units is True; expected an integer, 1..9"),
        ({"units": "3"}, "units is '3'; expected an integer, 1..9"),
        ({"head": "cubic"}, "head is 'cubic'; expected one of 'least-squares', 'quadratic'"),
        ({"names": "ab"}, "names is 'ab'; expected a list: [...]"),
        ({"names": ["a", 1]}, "names[1] is 1; expected text"),
        ({"quick": 1}, "quick is 1; expected true or false"),
        ({"quick": True}, "quick needs units"),
        ({"inner": {"rate": -1}}, "inner.rate is -1; expected a number above 0"),
        ({"inner": 3}, "inner is 3; expected a table of settings"),
        ({"inner": {}}, "inner has no 'rate'; expected a number above 0"),
        ({"unit": 3}, "unknown setting 'unit'; expected some of inner, units, head, names, quick"),
        ({"inner": {"rate": 1, "x": 2}}, "unknown setting 'x' of inner; expected some of rate"),
        ({"names": ["x" * 500] * 500 + [1]}, "names[500] is 1; expected text"),
    ],
)
def test_an_error_says_where_found_and_expected(change, told):
    with pytest.raises(SettingsError) as refused:
        as_settings(Outer, GOOD | change, where="a.toml: ")
    assert str(refused.value) == f"a.toml: {told}"


@pytest.mark.parametrize("place", ["nosuch", "names[7]", "units"])
def test_a_name_that_ends_like_a_place_is_refused_too(place):
    with pytest.raises(SettingsError, match=r"a\.toml: "):
        as_settings(Outer, GOOD | {"units": 3, f"x - at `$.{place}": 1}, where="a.toml: ")


def test_the_error_is_the_callers():
    with pytest.raises(TableError, match="it is 3; expected a table of settings"):
        as_settings(Outer, 3, error=TableError)


def test_fields_are_described_once():
    units = describe(Outer)["units"]
    assert (units.help, units.minimum, units.maximum, units.type) == ("How many.", 1, 9, int)
    assert describe(Outer)["head"].choices == ("least-squares", "quadratic")
