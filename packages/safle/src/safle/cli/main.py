"""The ``safle`` command: its list of commands, its errors and its exit codes.

0: done. 1: an error, in one line. 2: wrong usage. 130: Ctrl-C.
"""

import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from io import TextIOWrapper
from operator import attrgetter
from typing import Any

import rich_click as click

from safle.cli.session import Session, examples, explain, say, session_options

PANELS: dict[str, dict[str, tuple[str, str]]] = {
    "Five to see first": {
        "encoder": ("encoder.encoder", "Make the encoder that all clients share."),
        "rehearse": ("count.rehearse", "What your samples would send and give away."),
        "count": ("count.count", "Count a client's samples into one statistics file."),
        "store": ("store.store", "Keep contributions, and remove clients."),
        "evaluate": ("evaluate.evaluate", "Evaluate a model on a labelled table."),
    },
    "Before the round": {
        "schema": ("schema.schema", "Say what the columns of a table are."),
        "policy": ("policy.policy", "Write the rules of what may leave your site."),
        "histogram": ("count.histogram", "Count features, to calibrate the encoder."),
    },
    "At the server": {
        "sum": ("sums.add_up", "Add up files: each is verified, none twice."),
        "solve": ("solve.solve", "Solve a store or a sum: one linear system."),
    },
    "With a model": {
        "predict": ("predict.predict", "Predict the class of every sample of a table."),
        "fit-temperature": ("evaluate.fit_temperature", "Make probabilities fit."),
        "card": ("evaluate.card", "Write a model card."),
        "export": ("predict.export", "Export a model to ONNX."),
    },
    "Any file": {
        "inspect": ("inspect.inspect_file", "Say what a file is, and whether it is sound."),
        "log": ("inspect.show_log", "Show a log, and check that nobody changed it."),
    },
}
"""Panel of the help -> command -> its module and function, and what the list says of it."""
COMMANDS = {
    name: (panel, *place) for panel, places in PANELS.items() for name, place in places.items()
}
HOUSES = {
    "private": ("safle-private", "Private sums", "Add up contributions that nobody can read."),
    "publish": ("safle-private", "Private sums", "Add noise to a sum: differential privacy."),
    "features": ("safle-images", "At a client", "Turn images into features by a backbone."),
    "backbones": ("safle-images", "At a client", "Show the default backbone, or export another."),
    "airlock": ("safle-flower", "Over a network", "Answer the questions in a site's inbox."),
    "deploy": ("safle-flower", "Over a network", "Prepare and check a federation on a network."),
    "simulate": ("safle-flower", "Over a network", "Run a whole network on this machine."),
    "demo": ("safle-lab", "Try it", "Run one round on digits, through real files."),
    "experiment": ("safle-lab", "Try it", "Run an experiment of the paper."),
    "report": ("safle-lab", "Try it", "Make one page of all results in a folder."),
    "attack": ("safle-lab", "At a client", "Reconstruct samples from a contribution."),
}
"""Commands of this project's other packages: their package, panel, and what the list says of them.

The list needs no import of a package for that, and an error names the package to install."""
UTF8 = "PYTHONUTF8"
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
    "safle solve store -o model.safetensors",
    "safle evaluate model.safetensors test.csv",
    title="A federation by files:",
)


class Commands(click.RichGroup):
    """Commands in the order in which a federation needs them, then those of other packages.

    Other packages add theirs by entry points in the group ``safle.commands``.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return [*COMMANDS, *_find_added()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        listing = ctx.meta.get("listing")
        if listing and cmd_name in HOUSES:
            _package, panel, summary = HOUSES[cmd_name]
            return click.RichCommand(name=cmd_name, help=summary, panel=panel)
        if cmd_name not in COMMANDS:
            return _load_added(cmd_name)
        panel, place, summary = COMMANDS[cmd_name]
        if listing:
            return click.RichCommand(name=cmd_name, help=summary, panel=panel)
        module, _, function = place.partition(".")
        loaded: click.RichCommand = getattr(import_module(f"safle.cli.{module}"), function)
        loaded.panel = panel
        return loaded

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """List the commands without importing what they need."""
        ctx.meta["listing"] = True
        super().format_help(ctx, formatter)


def _find_added() -> dict[str, EntryPoint]:
    """Commands of other packages that are installed, by name."""
    # By name: the order in which packages were installed does not matter.
    entries = sorted(entry_points(group="safle.commands"), key=attrgetter("name"))
    return {entry.name: entry for entry in entries}


def _load_added(name: str) -> click.Command | None:
    if entry := _find_added().get(name):
        command: click.Command = entry.load()
        return command
    if name in HOUSES:
        package = HOUSES[name][0]
        raise click.UsageError(f"'{name}' is in {package}: pip install {package}")
    return None


@click.group(cls=Commands, context_settings=SETTINGS, epilog=EXAMPLES)
@click.version_option(package_name="safle", message="safle %(version)s")
def app() -> None:
    """Single-round analytic federated learning: exact, order-free, one message per client.

    Clients count codes of their features into one small file each; the server adds the
    files up and solves one linear system. Send the files in any way you like.
    """


app.params += session_options(hidden=False)


def run(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    if arguments is None:
        _require_utf8()
    # A stopped batch job cleans up its scratch files as Ctrl-C does.
    signal.signal(signal.SIGTERM, _terminate)
    if isinstance(sys.stdout, TextIOWrapper):
        # Class names may hold characters that the terminal cannot show: they are escaped.
        sys.stdout.reconfigure(errors="backslashreplace")
    session = Session()
    try:
        with session.showing_warnings():
            code = app.main(arguments, prog_name="safle", standalone_mode=False, obj=session)
    except click.ClickException as error:
        code = _fail(_explain_usage(error), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        code = _fail("interrupted", 130)
    except Exception as error:
        if session.debug:
            raise
        code = _fail(explain(error), 1)
    sys.exit(code if isinstance(code, int) else 0)


def _require_utf8() -> None:
    """Restart with UTF-8 where the locale knows ASCII only, and Python would follow it.

    Python decides about names of files before any program runs: no later setting could open a
    file with another letter in its name. Processes that this one starts inherit the choice.
    """
    if sys.getfilesystemencoding() == "ascii" and os.environ.get(UTF8) != "1" and sys.executable:
        arguments = [sys.executable, *sys.orig_argv[1:]]
        os.execve(sys.executable, arguments, {**os.environ, UTF8: "1"})


def _explain_usage(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    hint = f" (see '{context.command_path} --help')" if context is not None else ""
    # click lists choices on lines of their own; an error is one line.
    return " ".join(error.format_message().split()) + hint


def _fail(text: str, code: int) -> int:
    say(f"error: {text}")
    return code


def _terminate(_number: int, _frame: Any) -> None:
    raise SystemExit(_fail("terminated", 143))
