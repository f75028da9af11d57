"""What every command shares: --quiet, --debug, --force, overwriting, how results are shown."""

from __future__ import annotations

import errno
import math
import os
import stat
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import rich_click as click
from click.core import augment_usage_errors

from safle.basics.atomic import check_place, name_kind
from safle.basics.texts import printable
from safle.errors import InvalidInput, SafleError, SafleWarning

if TYPE_CHECKING:
    from rich.console import Console

Advance = Callable[[float], None]
"""Called with the progress: a share from 0 to 1, or a number of things."""
STANDARD_OUTPUT = Path("-")
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
            say(text)

    def warn(self, text: str) -> None:
        """A warning on stderr, with --quiet as well."""
        say(f"warning: {text}")

    @contextmanager
    def showing_warnings(self) -> Iterator[None]:
        """Show the library's warnings in this block by `warn`, each once."""
        shown: set[str] = set()
        show_other = warnings.showwarning

        def show(message: Any, category: Any, *rest: Any, **named: Any) -> None:
            if not issubclass(category, SafleWarning):
                show_other(message, category, *rest, **named)
            elif str(message) not in shown:
                shown.add(str(message))
                self.warn(str(message))

        with warnings.catch_warnings():
            warnings.simplefilter("always", SafleWarning)
            warnings.showwarning = show
            yield

    def facts(self, title: str, rows: Mapping[str, object]) -> None:
        """A result on stdout: names and values, one pair per line."""
        from rich.text import Text

        console = _console(sys.stdout)
        width = max(map(len, rows), default=0)
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
        for index, title in enumerate(columns):
            table.add_column(title, justify="left" if index < names else "right")
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

        The yielded function is called with the finished share or, of ``total`` things with a
        ``unit``, with how many are done; its first call says what was done before this run.
        """
        if self.quiet:
            yield lambda _: None
            return
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        count = "{task.completed:,.0f} of {task.total:,.0f} " + unit
        done_so_far = TextColumn(count if unit else "{task.percentage:.0f}%")
        left = TimeRemainingColumn(elapsed_when_finished=True)
        description = TextColumn("{task.description}", markup=False)
        columns = (description, BarColumn(), done_so_far, left)
        console = _console(sys.stderr)
        bars = Progress(*columns, console=console, transient=True, get_time=time.monotonic)
        # The mean speed so far: that of the last seconds jumps, and ends with a pause.
        bars.speed_estimate_period = math.inf
        task = bars.add_task(printable(title), total=max(total, 1), start=False)
        last = time.monotonic()

        def advance(done: float) -> None:
            nonlocal last
            if not bars.tasks[0].started:
                bars.start_task(task)
                bars.tasks[0].completed = done
            bars.update(task, completed=done)
            silent = bars.live.is_started or bars.tasks[0].finished
            if not silent and time.monotonic() - last > SECONDS_BETWEEN_LINES:
                last = time.monotonic()
                text = f"{title}: {done_so_far.render(bars.tasks[0])}"
                if bars.tasks[0].time_remaining is not None:
                    text = f"{text}, {left.render(bars.tasks[0])} left"
                self.note(text)

        with bars if sys.stderr.isatty() else nullcontext():
            yield advance


def say(text: str) -> None:
    """A line on stderr, if it can be written: a full disk does not end the command."""
    with suppress(OSError, RuntimeError, ValueError):
        click.echo(printable(text), err=True)


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
    if isinstance(error, ImportError):
        return f"safle is not installed as it should be: {error}"
    return f"unexpected {type(error).__name__}: {error}; please report it, with --debug's output"


def examples(*commands: str, title: str = "") -> str:
    """The end of a command's help: what a user would type."""
    heading = title or ("Example:" if len(commands) == 1 else "Examples:")
    return "\n\n".join([heading, *(f"  {command}" for command in commands)])


def _remember(context: click.Context, option: click.Parameter, value: bool) -> None:
    session = context.find_object(Session)
    if value and session is not None and option.name is not None:
        setattr(session, option.name, True)


def session_options(*, hidden: bool) -> list[click.Option]:
    """--quiet, --debug and --force."""
    explained = {
        "--quiet": "Only results and errors: no notes, no progress.",
        "--debug": "Show where an error comes from.",
        "--force": "Overwrite files that exist.",
    }
    settings: dict[str, Any] = {"is_flag": True, "expose_value": False, "callback": _remember}
    return [
        click.RichOption([name], help=text, hidden=hidden, **settings)
        for name, text in explained.items()
    ]


class Written(click.RichOption):
    """An option that names a file to write; with ``streams``, ``-`` is standard output."""

    def __init__(self, *args: Any, streams: bool = False, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.streams = streams


class Command(click.RichCommand):
    """A command; it takes --quiet, --debug and --force after its own name as well.

    Before it begins, it refuses output paths that cannot be written or would lose data.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        # Help lists what every call needs before the other panels.
        first = [click.RichOptionPanel(name) for name in ("Arguments", "Options")]
        super().__init__(*args, **{"panels": first, **settings})
        taken = {name for parameter in self.params for name in parameter.opts}
        self.params += [o for o in session_options(hidden=True) if not taken & {*o.opts}]

    def invoke(self, ctx: click.Context) -> Any:
        session = ctx.find_object(Session)
        for parameter in self.params:
            path = ctx.params.get(parameter.name or "")
            if isinstance(parameter.type, click.Path) and not isinstance(parameter, Written):
                for place in _find_paths(path):
                    _check_kind(place, file_okay=parameter.type.file_okay)
            elif isinstance(parameter, Written) and isinstance(path, Path):
                if path == STANDARD_OUTPUT and parameter.streams:
                    continue
                others = (value for name, value in ctx.params.items() if name != parameter.name)
                with augment_usage_errors(ctx):
                    _check_place(path, [p for value in others for p in _find_paths(value)])
                    if path.exists() and not (session and session.force):
                        raise click.UsageError(
                            f"{path} exists: choose another name, or overwrite it with --force"
                        )
        return super().invoke(ctx)


def _find_paths(value: Any) -> Iterator[Path]:
    values = value if isinstance(value, tuple) else [value]
    yield from (item for item in values if isinstance(item, Path))


def _check_kind(path: Path, *, file_okay: bool) -> None:
    """Refuse what is neither a file nor a folder: reading a pipe may wait forever."""
    try:
        mode = path.stat().st_mode
    except OSError:
        # The command itself says what is wrong.
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        wanted = "a regular file: copy it into one" if file_okay else "a folder"
        raise InvalidInput(f"{path}: is {name_kind(mode)}; expected {wanted}")


def _are_same_file(path: Path, other: Path) -> bool:
    both_exist = path.exists() and other.exists()
    return path.samefile(other) if both_exist else path.resolve() == other.resolve()


def _check_place(path: Path, others: list[Path]) -> None:
    """Refuse a place that cannot be written to before the work, not after it."""
    if any(_are_same_file(path, other) for other in others):
        raise click.UsageError(
            f"{path} would overwrite an input, or another output; choose another name"
        )
    if path == STANDARD_OUTPUT:
        raise click.UsageError(
            "this file does not go to standard output; name a file (one called - is ./-)"
        )
    check_place(path)
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(errno.EACCES, "not allowed to write here", str(path.parent))


def command(
    *lines: str,
    name: str | None = None,
    panel: str | None = None,
    of: click.RichGroup | None = None,
) -> Callable[[Callable[..., Any]], click.RichCommand]:
    """A command with examples, ``of`` a group or in a panel of the help.

    Its function takes the session first.
    """
    make: Callable[..., Any] = click.command if of is None else of.command

    def decorate(function: Callable[..., Any]) -> click.RichCommand:
        settings: dict[str, Any] = {"cls": Command, "panel": panel, "epilog": examples(*lines)}
        result: click.RichCommand = make(name, **settings)(click.pass_obj(function))
        return result

    return decorate
