"""One answer by the site's own command, in a process of its own.

A command that runs out of memory, crashes, hangs or is killed is a refusal; the watcher goes on.
"""

from __future__ import annotations

import json
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

from safle.basics import atomic
from safle.errors import FederationError
from safle_flower.airlock import LONGEST_REASON, OPEN, Refused, describe_error, open_regular

REASON = "reason"
"""The file in the question's folder where the command says what the asker may know."""


def run_command(
    arguments: list[str], folder: Path, *, kind: str, seconds: int, **session: Any
) -> None:
    """Run a command of safle; `Refused` if it fails or takes longer than ``seconds``.

    ``folder`` holds the question's files. ``session`` has the defaults of options, quiet, debug.
    """
    reason = folder / REASON
    # -P: a module in the folder where the watcher was started is not taken for one of Python's.
    program = [sys.executable, "-P", "-m", __name__]
    task = {"arguments": arguments, "kind": kind, "reason": str(reason), **session}
    try:
        code = subprocess.run(
            program, input=json.dumps(task, default=str).encode(), timeout=seconds, check=False
        ).returncode
    except subprocess.TimeoutExpired as error:
        raise Refused(f"its command took longer than {seconds} seconds") from error
    if code == 0:
        return
    try:
        with open_regular(reason, 4 * LONGEST_REASON) as file:
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        text = ""
    raise Refused(text or f"its command ended with code {code}; its own log says more")


def main() -> None:
    """What the child does: the command that the task on standard input names."""
    from safle.cli import Session, app, explain

    task = json.loads(sys.stdin.buffer.read())
    session = Session(quiet=task["quiet"], debug=task["debug"])
    settings = {"obj": session, "default_map": task["defaults"]}
    try:
        with session.showing_warnings():
            app.main(task["arguments"], prog_name="safle", standalone_mode=False, **settings)
    except Exception as error:
        if session.debug:
            traceback.print_exc()
        session.warn(explain(error))
        # A keyholder's reason reveals no data; other errors may, and are shortened.
        harmless = task["kind"] == OPEN and isinstance(error, FederationError)
        text = str(error) if harmless else describe_error(error)
        atomic.write_bytes(task["reason"], text[:LONGEST_REASON].encode(errors="replace"))
        sys.exit(1)


if __name__ == "__main__":
    main()
