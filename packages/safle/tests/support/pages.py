"""The code of README and docs: what a reader would paste, and what the tests do with it."""

from __future__ import annotations

import io
import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import rich_click as click

ROOT = Path(__file__).parents[4]
PAGES = [
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs/guides").glob("*.md")),
    ROOT / "README.md",
]
"""Not the reference, which is written from docstrings that run as they are."""
STORY = ("file-federation", "private-sums", "differential-privacy", "paper")
"""Pages that go on with the hospitals of the first guide."""
PROGRAMS = ("safle", "python", "python3", "pip", "make", "cmp", "cat", "echo", "for", "ssh-keygen")

NOT_RUN = {
    r"pip |python3 -m venv|make ": "installs or builds: test_installs.py and .ci/run do it",
    r"safle experiment all ": "takes hours; test_experiments.py runs it on digits",
    r"safle features hf:": "downloads; safle-images' test_opening.py has data sets of its own",
    r"safle backbones export hf:": "downloads; test_libraries.py has networks of its own",
    r"python -m benchmarks ": "takes minutes; test_benchmarks.py runs small ones",
    r"safle sum s3:": "needs a bucket; test_summing.py has other addresses and clusters",
}
"""All commands of the docs that no test runs as they stand, and why."""


def blocks(page: Path, *languages: str) -> list[str]:
    """The blocks of a page in one of these languages; "" is a block that names none."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    return [text for language, text in found if language in languages]


def commands(page: Path) -> list[str]:
    """Every line of a page that is a command, whole."""
    shown = "\n".join(blocks(page, "sh", "console", "text", "")).replace("\\\n", " ")
    lines = [line.removeprefix("$ ") for line in shown.splitlines()]
    return [line for line in lines if line.split(" ")[0] in PROGRAMS]


def runs_here(line: str) -> bool:
    return not any(re.match(pattern, line) for pattern in NOT_RUN)


def parse_line(line: str) -> None:
    """Read a command and its options as ``safle`` does, without running it."""
    from safle.cli.main import app
    from safle.cli.session import Session

    words, name = shlex.split(line, comments=True)[1:], "safle"
    command: click.Command | None = app
    context = None
    while command is not None:
        context = command.make_context(name, words, parent=context, obj=Session())
        if not isinstance(command, click.Group):
            return
        words = [*context._protected_args, *context.args]
        name, command, words = command.resolve_command(context, words) if words else ("", None, [])


def run_program(path: str, *arguments: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [path, *arguments])
    runpy.run_path(str(ROOT / path), run_name="__main__")


def run_line(line: str, monkeypatch: pytest.MonkeyPatch, code: int = 0) -> None:
    """Run a command in this process if it is ours, else in a shell."""
    from safle.cli.main import run

    command, *arguments = shlex.split(line, comments=True)
    if command == "python":
        run_program(*arguments, monkeypatch=monkeypatch)
    elif command == "safle":
        # Whoever is asked agrees.
        monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
        with pytest.raises(SystemExit) as ended:
            run(arguments)
        assert ended.value.code == code, line
    else:
        beside = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        ran = ["env", f"PATH={beside}", "bash", "-ec", line]
        subprocess.run(ran, input=b"\n\n", check=True, capture_output=True)


def run_python(page: Path, without: str = "\0") -> None:
    """Run every block of Python on a page ``without`` this text, each as a program of its own."""
    for snippet in blocks(page, "python"):
        if without not in snippet:
            exec(compile(snippet, str(page), "exec"), {"__name__": "__main__"})
