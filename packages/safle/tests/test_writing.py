"""One module writes files: no other opens one for writing, in any package. All text is UTF-8."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGES = Path(__file__).parents[2]
SOURCES = sorted(PACKAGES.glob("*/src/**/*.py"))
WRITES = {
    *("write_text", "write_bytes", "touch", "mkdir", "makedirs", "symlink_to", "hardlink_to"),
    *("rename", "savez", "savez_compressed", "save_file", "tofile", "savefig", "write_csv"),
    *("write_parquet", "write_table", "mkstemp", "NamedTemporaryFile", "copyfile", "copy2"),
    *("copytree", "move", "truncate"),
}
"""Functions and methods that make or change a file, whatever they belong to."""
OTHERS = {"sqlite3.connect", "np.save", "onnx.save", "torch.save", "torch.onnx.export"}
MODE = re.compile("r?b?[wax+][bt+]*")
"""A mode of ``open`` that writes."""
ALLOWED = {
    "safle/basics/atomic.py": "it is the one module",
    "safle/basics/journal.py": "appends to a file at which atomic.check_place looked first",
    "safle_lab/charts.py": "draws into memory",
    "safle/_native/build.py": "the library of kernels, built before the package can be imported",
    "safle_flower/airlock.py": "renames the complete folder of a question",
    "safle_flower/server.py": "sets the results of an earlier run aside, in their own folder",
    "safle_images/backbones/writing.py": "SQLite opens its file itself; check_place looks first",
    "safle_images/backbones/exporting.py": "torch writes to a path: it is given a scratch path",
}


def dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def modes_of(call: ast.Call) -> list[str]:
    """The texts among a call's arguments: one of them is the mode of ``open``."""
    arguments = [*call.args, *(k.value for k in call.keywords if k.arg == "mode")]
    return [a.value for a in arguments if isinstance(a, ast.Constant) and isinstance(a.value, str)]


def scratch_names(tree: ast.AST) -> set[str]:
    """Names of paths that ``replacing`` gave."""
    return {
        item.optional_vars.id
        for node in ast.walk(tree)
        if isinstance(node, ast.With)
        for item in node.items
        if isinstance(item.context_expr, ast.Call)
        and dotted(item.context_expr.func).split(".")[-1] == "replacing"
        and isinstance(item.optional_vars, ast.Name)
    }


def writes(call: ast.Call) -> bool:
    name = dotted(call.func)
    last = name.split(".")[-1] or getattr(call.func, "attr", "")
    if name.startswith("atomic.") or (isinstance(call.func, ast.Name) and last == "write_bytes"):
        return False
    if last == "open":
        if name == "os.open":
            return not all("RDONLY" in ast.dump(a) for a in call.args[1:2])
        return any(MODE.fullmatch(mode) for mode in modes_of(call))
    if last == "replace" and isinstance(call.func, ast.Attribute):
        return len(call.args) == 1 and not call.keywords
    return name in OTHERS or (isinstance(call.func, ast.Attribute) and last in WRITES)


def find_writes(source: str) -> Iterator[int]:
    """Lines that write elsewhere than to a scratch path."""
    tree = ast.parse(source)
    scratch = scratch_names(tree)
    opened = {"file"} if scratch else set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and writes(node):
            parts = [n for part in (node.func, *node.args) for n in ast.walk(part)]
            touched = {n.id for n in parts if isinstance(n, ast.Name)}
            if not touched & (scratch | opened):
                yield node.lineno


def place_of(path: Path) -> str:
    return str(path).partition("/src/")[2]


@pytest.mark.parametrize("path", SOURCES, ids=place_of)
def test_files_are_opened_for_writing_in_one_module(path: Path) -> None:
    found = [*find_writes(path.read_text("utf-8"))]
    if place_of(path) in ALLOWED:
        assert found, "it writes nothing: take it off the list"
    else:
        assert not found, f"{place_of(path)}: lines {found}: write with safle.basics.atomic"


@pytest.mark.parametrize("path", SOURCES, ids=place_of)
def test_text_is_read_as_utf8_in_every_locale(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        named = {keyword.arg for keyword in node.keywords}
        if node.func.attr == "read_text":
            assert node.args or "encoding" in named, f"line {node.lineno}"
        if node.func.attr == "open" and {*modes_of(node)} & {*"rwax"}:
            assert "encoding" in named, f"line {node.lineno}"


@pytest.mark.parametrize(
    "line",
    [
        "path.write_text('x')",
        "(folder / 'a').write_bytes(data)",
        "open(path, 'w')",
        "path.open('ab')",
        "path.open(mode='x', encoding='utf-8')",
        "np.savez(path, a=1)",
        "np.save(path, a)",
        "sqlite3.connect(path)",
        "os.open(path, os.O_WRONLY | os.O_CREAT)",
        "path.replace(other)",
        "path.mkdir()",
        "figure.savefig(path)",
        "frame.write_csv(path)",
    ],
)
def test_each_way_of_writing_is_found(line: str) -> None:
    assert [*find_writes(line)] == [1]
    assert not [*find_writes("with replacing(target) as path:\n    path.write_text('x')")]
