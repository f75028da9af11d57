"""The command, run in this process: starting Python anew takes longer than most commands."""

from __future__ import annotations

import io
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pytest

from safle.cli.main import run


class Printed(NamedTuple):
    """What a command said."""

    stdout: str
    stderr: str


def safle(*words: object, folder: Path = Path(), code: int = 0) -> Printed:
    """Run ``safle`` in a folder, or in this one; it must end with ``code``."""
    out, err = io.StringIO(), io.StringIO()
    with (
        chdir(folder),
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        run([str(word) for word in words])
    assert ended.value.code == code, out.getvalue() + err.getvalue()
    return Printed(out.getvalue(), err.getvalue())
