"""The street: outer houses know the core by its front doors alone, and the core knows none of them.

The core has four doors: `safle`, `safle.errors`, `safle.basics`, `safle.cli`.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import rich_click as click

from safle.cli import main, release
from safle.errors import MissingExtra
from safle.wire import formats

PACKAGES = Path(__file__).parents[2]
DOORS = ("safle", "safle.basics", "safle.cli")
HOUSES = ("safle-private", "safle-images", "safle-flower", "safle-lab")


def core_imports(path: Path) -> Iterator[tuple[str, str]]:
    """Module and name of everything that a file imports from the core."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if is_core(alias.name))
        elif isinstance(node, ast.ImportFrom) and is_core(node.module or ""):
            yield from ((str(node.module), alias.name) for alias in node.names)


def is_core(module: str) -> bool:
    return module.split(".")[0] == "safle"


def is_public(module: str, name: str) -> bool:
    if module == "safle" and name in ("", "errors", "basics", "cli"):
        return True
    if module == "safle.errors":
        return True
    return module in DOORS and name in import_module(module).__all__


@pytest.mark.parametrize("house", HOUSES)
def test_a_house_takes_from_the_core_what_its_front_doors_give(house):
    strangers = [
        f"{path.relative_to(PACKAGES)}: {module} {name}"
        for path in sorted((PACKAGES / house / "src").rglob("*.py"))
        for module, name in core_imports(path)
        if not is_public(module, name)
    ]
    assert strangers == []


def test_street_distinguishes_a_room_from_its_door():
    assert is_public("safle", "Store")
    assert is_public("safle", "cli")
    assert is_public("safle.basics", "atomic")
    assert not is_public("safle", "server")
    assert not is_public("safle.server", "Store")
    assert not is_public("safle.server.store", "Store")
    assert not is_public("safle.server.store", "")


@pytest.mark.parametrize("house", HOUSES)
def test_a_command_of_a_package_that_is_not_installed_says_what_to_install(
    house, safle, monkeypatch
):
    project = tomllib.loads((PACKAGES / house / "pyproject.toml").read_text())["project"]
    monkeypatch.setattr(main, "entry_points", lambda group: [])
    for name in project["entry-points"]["safle.commands"]:
        assert f"pip install {house}" in safle(name, code=2)


def test_masks_and_their_files_say_which_package_they_need(monkeypatch):
    monkeypatch.setattr(release, "entry_points", lambda **_: [])
    monkeypatch.setattr(formats, "entry_points", lambda **_: [])
    command = click.command()(release.before_options(lambda **options: options))
    assert command.main([], standalone_mode=False) == {}
    with pytest.raises(click.UsageError, match="pip install safle-private"):
        command.main(["--round", "round.private"], standalone_mode=False)
    assert release.prepare_before({}) is None
    with pytest.raises(MissingExtra, match="pip install 'safle-private'"):
        formats.format_named("masked contribution")


def test_the_options_of_a_house_are_those_of_the_commands_that_count():
    for name in ("count", "histogram", "evaluate"):
        shown = {option for one in command_named(name).params for option in one.opts}
        assert {"--round", "--operator", "--key"} <= shown


def command_named(name):
    return main.app.get_command(click.Context(main.app), name)


def test_houses_commands_are_listed_as_they_are():
    """The list of commands knows them without an import; it names their package and panel."""
    packages = {
        entry.name: (entry.dist.name, entry.load().panel)
        for entry in entry_points(group="safle.commands")
    }
    assert {name: main.HOUSES[name][:2] for name in packages} == packages
