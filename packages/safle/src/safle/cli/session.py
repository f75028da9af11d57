"""What every command shares: its options, and the ways it talks to its user."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from safle.basics.texts import printable
from safle.errors import SafleError, SafleWarning

if TYPE_CHECKING:
    from rich.console import Console

Advance = Callable[[float], None]
"""Called with what is done: the share, 0 to 1, or how many things."""
PIPED_WIDTH = 1000
"""Nothing is wrapped or cut where no terminal sets a width."""
SECONDS_BETWEEN_LINES = 10.0


@dataclass
class Session:
    """Options that every command shares, and the ways it talks to its user."""

    quiet: bool = False
    debug: bool = False
    force: bool = False

    def note(self, text: str) -> None:
        """A remark on stderr; none with --quiet."""
        if not self.quiet:
            _console(sys.stderr).print(printable(text), markup=False, soft_wrap=True)

    def warn(self, text: str) -> None:
        """What must be said, on stderr, with --quiet as well."""
        _console(sys.stderr).print(printable(f"warning: {text}"), markup=False, soft_wrap=True)

    @contextmanager
    def showing_warnings(self) -> Iterator[None]:
        """What the library warns of in this block is said as `warn` says it, each thing once."""
        said: set[str] = set()
        usual = warnings.showwarning

        def show(message: Any, category: Any, *rest: Any, **named: Any) -> None:
            if not issubclass(category, SafleWarning):
                usual(message, category, *rest, **named)
            elif str(message) not in said:
                said.add(str(message))
                self.warn(str(message))

        with warnings.catch_warnings():
            warnings.simplefilter("always", SafleWarning)
            warnings.showwarning = show
            yield

    def facts(self, title: str, rows: Mapping[str, object]) -> None:
        """A result on stdout: names and values, one pair a line."""
        from rich.text import Text

        console, width = _console(sys.stdout), max(map(len, rows), default=0)
        console.print(Text(printable(title), style="bold"), soft_wrap=True)
        for name, value in rows.items():
            line = Text(f"  {name:<{width}}  ", style="cyan")
            line.append(printable(str(value)), style="default")
            console.print(line, soft_wrap=True)

    def table(
        self, columns: Sequence[str], rows: Sequence[Sequence[object]], *, names: int = 1
    ) -> None:
        """A result on stdout: the first ``names`` columns are text, the others numbers."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for at, title in enumerate(columns):
            table.add_column(title, justify="left" if at < names else "right")
        for row in rows:
            table.add_row(*(Text(printable(str(cell))) for cell in row))
        console = _console(sys.stdout)
        console.print()
        console.print(table)

    def text(self, lines: Sequence[str]) -> None:
        """A result on stdout: lines that are already laid out, never wrapped."""
        console = _console(sys.stdout)
        console.print()
        for line in lines:
            console.print(printable(line), markup=False, no_wrap=True, soft_wrap=True)

    @contextmanager
    def progress(self, title: str, total: float = 1.0, unit: str = "") -> Iterator[Advance]:
        """A bar on a terminal; elsewhere a line now and then, if it takes long.

        Called with the finished share or, of ``total`` things with a ``unit``, with how many
        are done; the first call says what was done before this run.
        """
        if self.quiet:
            yield lambda _: None
            return
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        counted = "{task.completed:,.0f} of {task.total:,.0f} " + unit
        done_so_far = TextColumn(counted if unit else "{task.percentage:.0f}%")
        left = TimeRemainingColumn(elapsed_when_finished=True)
        named = TextColumn("{task.description}", markup=False)
        columns = (named, BarColumn(), done_so_far, left)
        console = _console(sys.stderr)
        bars = Progress(*columns, console=console, transient=True, get_time=time.monotonic)
        task = bars.add_task(printable(title), total=max(total, 1), start=False)
        last = time.monotonic()

        def advance(done: float) -> None:
            nonlocal last
            if not bars.tasks[0].started:
                bars.start_task(task)
                bars.tasks[0].completed = done
            bars.update(task, completed=done)
            if not bars.live.is_started and time.monotonic() - last > SECONDS_BETWEEN_LINES:
                last = time.monotonic()
                said = (done_so_far.render(bars.tasks[0]), left.render(bars.tasks[0]))
                self.note(f"{title}: {said[0]}, {said[1]} left")

        with bars if sys.stderr.isatty() else nullcontext():
            yield advance


def _console(file: TextIO) -> Console:
    from rich.console import Console

    return Console(file=file, highlight=False, width=None if file.isatty() else PIPED_WIDTH)


def explain(error: Exception) -> str:
    """An error in one line: what went wrong, and with which file."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, SafleError | OSError):
        return str(error)
    if isinstance(error, MemoryError):
        return f"out of memory: {error}"
    return f"unexpected {type(error).__name__}: {error}; please report it, with --debug's output"
