"""README and docs say what is so: commands and options, files, public names, the reference.

Whatever they show is run in `test_pages`.
"""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path

import pytest
import rich_click as click

import safle
from support.pages import NOT_RUN, PAGES, ROOT, STORY, blocks, commands, parse_line, runs_here

RUN = {
    *(f"docs/guides/{name}.md" for name in ("build", "hospital", "research")),
    *(f"docs/{name}.md" for name in ("backbones", "deployment", "experiments", "exporting")),
    *(f"docs/{name}.md" for name in ("from-images", "heads", "release", "reproduction", "scale")),
    *(f"docs/{name}.md" for name in STORY),
    "README.md",
}
"""Pages with code: `test_pages` runs it."""
ARCHITECTURE = ROOT / "docs/architecture.md"


def test_every_command_of_the_docs_has_the_options_it_is_shown_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a command is not run, or not by everybody: see `support.pages`."""
    monkeypatch.chdir(tmp_path)
    lines = [line for page in PAGES for line in commands(page) if line.startswith("safle ")]
    assert len(lines) > 80
    for line in lines:
        try:
            parse_line(line)
        except click.ClickException as error:
            pytest.fail(f"{line}: {error.format_message()}")
    with pytest.raises(click.NoSuchOption):
        parse_line("safle backbones export x.onnx --no-such-option")


def test_every_page_with_code_is_in_some_test() -> None:
    pages = {
        str(page.relative_to(ROOT))
        for page in PAGES
        if any(map(runs_here, commands(page))) or blocks(page, "python")
    }
    assert pages == RUN


def test_every_block_is_in_a_language_that_these_tests_read() -> None:
    for page in PAGES:
        languages = {*re.findall(r"^```(\w+)", page.read_text(), re.MULTILINE)}
        assert languages <= {"sh", "console", "text", "python", "toml"}, page


def test_patterns_not_run_still_occur() -> None:
    lines = [line for page in PAGES for line in commands(page)]
    assert len(lines) > 90
    for pattern in NOT_RUN:
        assert any(re.match(pattern, line) for line in lines), pattern


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_files_that_a_contributor_is_sent_to_are_there(page: str) -> None:
    places = (ROOT, ROOT / "packages/safle/src/safle", *ROOT.glob("packages/*/src"))
    quoted = " ".join(re.findall(r"`([^`\n]+)`", (ROOT / page).read_text()))
    named = re.findall(r"[\w.-]+/[\w./-]+", quoted)
    assert len(named) > 10
    for path in named:
        assert any((place / path).exists() for place in places), path


def test_architecture_has_the_rooms_in_the_order_of_the_import_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = " ".join(contracts["contracts"][0]["layers"])
    assert [*rooms()] == re.findall(r"\w+", layers)


def rooms() -> dict[str, str]:
    """What the page of the architecture says of each room of the core, in its order."""
    return dict(re.findall(r"^- \*\*`(\w+)`\*\*: (.*)$", ARCHITECTURE.read_text(), re.MULTILINE))


def test_links_of_the_pages_of_the_root_lead_somewhere() -> None:
    for page in ("README.md", "CONTRIBUTING.md", "SECURITY.md"):
        links = re.findall(r"\]\(([^)#]+)", (ROOT / page).read_text())
        assert links
        for link in links:
            assert (ROOT / link).exists(), f"{page}: {link}"
    assert "SECURITY.md" in (ROOT / "README.md").read_text()
    assert len((ROOT / "CONTRIBUTING.md").read_text().split()) <= 900


@pytest.fixture(scope="module")
def reference() -> str:
    """All pages that `make docs` writes."""
    writer = runpy.run_path(str(ROOT / "docs/hooks/reference.py"))
    return "\n".join(writer["pages"]().values())


@pytest.mark.parametrize("name", safle.__all__)
def test_every_public_name_has_its_place_in_the_reference_with_an_example(
    name: str, reference: str
) -> None:
    described = f"\n## `safle.{name}`\n" in reference
    assert described or f"`{name}` |" in reference
    assert not described or ">>> " in (getattr(safle, name).__doc__ or "")


def test_the_reference_says_what_every_module_does(reference: str) -> None:
    """So the page of the architecture need not name each of them."""
    modules = [
        str(path.relative_to(source))
        for source in ROOT.glob("packages/*/src/*")
        for path in source.rglob("*.py")
    ]
    assert len(modules) > 200
    said = {*re.findall(r"^- `([\w/.]+\.py)`: .", reference, re.MULTILINE)}
    assert said == {*modules}
