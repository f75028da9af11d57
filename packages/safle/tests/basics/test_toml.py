"""TOML from outside: what is parsed is bounded."""

import pytest

from safle.basics import parse_toml, read_toml
from safle.errors import SettingsError
from safle.site.policy import Policy
from safle.tables.schema import Schema
from support.forging import at_most

LONG = "a." * 50_000 + "a"


@pytest.mark.parametrize(
    "text",
    [f"{LONG} = 1", f"[{LONG}]", f"x = {{{LONG} = 1}}", '"a" . ' * 50_000 + "a = 1"],
    ids=["key", "table", "inline", "quoted"],
)
def test_long_keys_are_refused_before_they_are_parsed(tmp_path, text):
    with at_most(10_000_000), pytest.raises(SettingsError, match="a key of more than 16 parts"):
        parse_toml(text, "a.toml")
    (tmp_path / "a.toml").write_text(text)
    for read in (Schema.read, Policy.read):
        with pytest.raises(SettingsError, match=r"a\.toml: a key of more than 16 parts"):
            read(tmp_path / "a.toml")


@pytest.mark.parametrize(
    "text",
    ["x = " + "[" * 50_000, "x = " + "{a=" * 50_000, "\n".join(f"a{n}=1" for n in range(300_000))],
)
def test_depth_and_number_are_bounded(text):
    with pytest.raises(SettingsError, match=r"a\.toml: "):
        parse_toml(text, "a.toml")


def test_toml_points_in_texts_and_numbers_are_not_keys(tmp_path):
    text = "x = [" + "1.5, " * 1000 + ']\ny = "' + "a sentence. Another one. " * 40 + '"\n'
    (tmp_path / "a.toml").write_text(text)
    assert len(read_toml(tmp_path / "a.toml", "a file")["x"]) == 1000


@pytest.mark.parametrize("data", [b"\xff", b"a", b"a = 1\na = 2"])
def test_toml_errors_are_typed(data):
    with pytest.raises(SettingsError, match=r"a\.toml: not a TOML file"):
        parse_toml(data, "a.toml")
