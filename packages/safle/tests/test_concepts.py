"""A ratchet: the core has no more ideas and no more lines than its best commit had.

A change that lowers a number lowers it in `MOST`; a number rises only where the change says why.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[1] / "src"
SUFFIXES = (".py", ".pyi", ".c", ".h", ".inc")
SUMMABLES = ("NoisyStatistics", "Histogram", "Evaluation")
MOST = {
    "public classes": 69,
    "packed tuples": 0,
    "isinstance on values that add up": 0,
    "lines": 23_967,
}


def nodes() -> Iterator[tuple[Path, ast.AST]]:
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            yield path, node


def is_public_class(path: Path, node: ast.AST) -> bool:
    """A class that a reader must know: no error, no part of click, none with an underscore."""
    if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
        return False
    bases = " ".join(ast.unparse(base) for base in node.bases)
    return path.name != "errors.py" and "click" not in bases and "Error" not in node.name


def is_packed_tuple(_path: Path, node: ast.AST) -> bool:
    """``a, b = c, d``: two things on one line."""
    return (
        isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Tuple)
        and isinstance(node.value, ast.Tuple)
    )


def asks_for_a_summable(_path: Path, node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or ast.unparse(node.func) != "isinstance":
        return False
    return any(name in ast.unparse(node) for name in SUMMABLES)


RULES = {
    "public classes": is_public_class,
    "packed tuples": is_packed_tuple,
    "isinstance on values that add up": asks_for_a_summable,
}


def count_lines() -> int:
    """Of Python, stubs and C."""
    paths = (path for path in SOURCES.rglob("*") if path.suffix in SUFFIXES)
    return sum(path.read_text().count("\n") for path in paths)


@pytest.mark.parametrize("name", RULES)
def test_the_core_has_no_more_concepts_than_are_written_down(name):
    found = [(path, node) for path, node in nodes() if RULES[name](path, node)]
    places = [f"{path.relative_to(SOURCES)}:{node.lineno}" for path, node in found]
    assert len(places) <= MOST[name], f"{len(places)} {name}: {places}"


def test_the_core_has_no_more_lines_than_are_written_down():
    assert count_lines() <= MOST["lines"]


def test_the_rules_find_what_they_count():
    source = "class A: ...\nclass _B: ...\na, b = 1, 2\na, b = c\nisinstance(v, (Histogram, X))\n"
    tree = [*ast.walk(ast.parse(source))]
    found = {name: sum(rule(Path("a.py"), node) for node in tree) for name, rule in RULES.items()}
    assert found == dict.fromkeys(RULES, 1)
