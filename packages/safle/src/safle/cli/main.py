"""The ``safle`` command: its list of commands, its errors and its exit codes.

0: done. 1: an error, in one line. 2: wrong usage. 130: Ctrl-C.
"""

import signal
import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from io import TextIOWrapper
from typing import Any

import rich_click as click

from safle.basics.texts import printable
from safle.cli.airlock import airlock
from safle.cli.count import count, rehearse, show_log
from safle.cli.demo import demo
from safle.cli.encoder import encoder
from safle.cli.evaluate import card, evaluate
from safle.cli.histogram import histogram
from safle.cli.inspect import inspect_file
from safle.cli.options import examples, option, session_options
from safle.cli.predict import export, fit_temperature, predict
from safle.cli.private import private
from safle.cli.publish import publish
from safle.cli.schema import schema
from safle.cli.session import Session, explain
from safle.cli.solve import add_up, solve
from safle.cli.store import store

COMMANDS = (
    *(encoder, rehearse, count, store, evaluate),
    *(schema, histogram, airlock, show_log),
    *(add_up, solve, publish, private),
    *(predict, fit_temperature, card, export, inspect_file),
    demo,
)
HOUSES = {
    "safle-images": ("features", "backbones"),
    "safle-flower": ("deploy", "simulate"),
    "safle-lab": ("experiment", "report", "attack"),
}
"""Packages of this project that add commands, so that one which is missing can be named."""
SETTINGS = {
    "help_option_names": ["-h", "--help"],
    "show_default": True,
    "rich_help_config": {"text_markup": "rich", "max_width": 100},
}
EXAMPLES = examples(
    "safle encoder make --range 0 16 --features 64 -o encoder.safetensors",
    "safle rehearse hospital_a.csv --encoder encoder.safetensors",
    "safle count hospital_a.csv --encoder encoder.safetensors -o a.stats",
    "safle store add store --encoder encoder.safetensors a.stats b.stats c.stats",
    "safle store solve store -o model.safetensors",
    "safle evaluate model.safetensors test.csv",
    title="A federation by files:",
)


class Commands(click.RichGroup):
    """Commands in the order in which a federation needs them, then those of other packages.

    Other packages add theirs by entry points in the group ``safle.commands``. One is imported
    when it is called, or when all are listed.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return [*self.commands, *(name for name in _added() if name not in self.commands)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        added = _added()
        if cmd_name in added:
            command: click.Command = added[cmd_name].load()
            return command
        for package, names in HOUSES.items():
            if cmd_name in names:
                raise click.UsageError(f"'{cmd_name}' is in {package}: pip install {package}")
        return None


def _added() -> dict[str, EntryPoint]:
    """Commands of other packages that are installed, by name."""
    return {found.name: found for found in entry_points(group="safle.commands")}


def _show_version(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        click.echo(f"safle {version('safle')}")
        context.exit()


@click.group(cls=Commands, context_settings=SETTINGS, epilog=EXAMPLES)
@option(
    *("--version", "Show the version and exit."),
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
)
def app() -> None:
    """Single-round analytic federated learning: exact, order-free, one message per client.

    Clients count codes of their features into one small file each; the server adds the
    files up and solves one linear system. Files may travel by any way you like.
    """


app.params += session_options(hidden=False)
for command in COMMANDS:
    app.add_command(command)


def run(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    # A stopped batch job cleans up its scratch files as Ctrl-C does.
    signal.signal(signal.SIGTERM, _terminate)
    if isinstance(sys.stdout, TextIOWrapper):
        # Class names are anybody's: a terminal that cannot show one still gets the rest.
        sys.stdout.reconfigure(errors="backslashreplace")
    session = Session()
    try:
        with session.showing_warnings():
            code = app.main(arguments, prog_name="safle", standalone_mode=False, obj=session)
    except click.ClickException as error:
        code = _fail(_usage(error), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        code = _fail("interrupted", 130)
    except Exception as error:
        if session.debug:
            raise
        code = _fail(explain(error), 1)
    sys.exit(code if isinstance(code, int) else 0)


def _usage(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    hint = f" (see '{context.command_path} --help')" if context is not None else ""
    return error.format_message() + hint


def _fail(text: str, code: int) -> int:
    click.echo(f"error: {printable(text)}", err=True)
    return code


def _terminate(_number: int, _frame: Any) -> None:
    raise SystemExit(_fail("terminated", 143))
