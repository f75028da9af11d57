"""Every command's help ends with examples; those of the core run here as they are shown.

Those of the other houses need networks, keys or hours: here only their options are checked.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars
import pytest
import rich_click as click

from safle.cli.main import COMMANDS, app
from support.command import safle
from support.pages import parse_line
from support.tables import write_table

NOT_RUN = {
    r" --ray ": "starts a cluster; test_summing.py and test_counting.py have one",
    r" --(with-)?backbone ": "needs safle-images, whose tests run it",
    r" --moments ": "needs a file of safle-images, whose tests make one",
}
"""Examples of the core that are not run here, and why."""
CLIENTS = ("a", "b", "c", "late", "hospital-b")
OUTPUTS = ("-o", "--counts", "--html", "--curve")


def commands() -> Iterator[tuple[str, list[str], click.Command]]:
    """All commands and groups: the first word, all words, the command."""
    context = click.Context(app)
    waiting = [([name], app.get_command(context, name)) for name in app.list_commands(context)]
    while waiting:
        words, command = waiting.pop()
        assert command is not None
        yield words[0], words, command
        if isinstance(command, click.Group):
            inside = click.Context(command)
            names = command.list_commands(inside)
            waiting += [([*words, name], command.get_command(inside, name)) for name in names]


def examples_of(command: click.Command) -> list[str]:
    return re.findall(r"^  (safle .*)$", command.epilog or "", re.MULTILINE)


RUN = sorted(
    {
        line
        for name, _, command in commands()
        if name in COMMANDS
        for line in examples_of(command)
        if not any(re.search(pattern, line) for pattern in NOT_RUN)
    }
)


def test_help_ends_with_an_example_of_the_command() -> None:
    for _, words, command in commands():
        shown = examples_of(command)
        assert any(f"{line} ".startswith(f"safle {' '.join(words)} ") for line in shown), words


def test_examples_have_the_options_they_are_shown_with() -> None:
    lines = [line for _, _, command in commands() for line in examples_of(command)]
    # Asking for help ends a command before its options are looked at.
    for line in lines:
        for part in line.split(" && "):
            if not part.endswith(" -h"):
                parse_line(part)


def test_patterns_of_examples_that_are_not_run_still_occur() -> None:
    lines = [line for _, _, command in commands() for line in examples_of(command)]
    for pattern in NOT_RUN:
        assert any(re.search(pattern, line) for line in lines), pattern


def write_client(path: Path, seed: int, *, with_ids: bool = False) -> None:
    """A table of a hospital: 64 features from 0 to 16, and two classes."""
    generator = np.random.default_rng(seed)
    labels = np.arange(120) % 2
    features = generator.normal(5 + 4 * labels[:, None], 3, (120, 64)).clip(0, 16).round()
    write_table(path, features, np.where(labels, "ill", "well"))
    if with_ids:
        frame = polars.read_csv(path)
        frame.insert_column(0, polars.Series("patient", [f"p{at}" for at in range(120)]))
        frame.write_csv(path)


PREPARATION = """
encoder make --range 0 16 --features 64 --units 32 -o encoder.safetensors
store add store --encoder encoder.safetensors a.stats b.stats c.stats hospital-b.stats
sum a.stats b.stats c.stats -o total.stats
sum a.hist b.hist c.hist -o total.hist
schema merge a.toml b.toml c.toml -o schema.toml
solve store -o model.safetensors
"""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every file that the core's examples name."""
    folder = tmp_path_factory.mktemp("examples")
    for place in ("clients", "sites", "with_ids"):
        (folder / place).mkdir()
    for seed, name in enumerate((*CLIENTS, "hospital_a", "ward", "test", "held_out")):
        write_client(folder / f"{name}.csv", seed)
        write_client(folder / "with_ids" / f"{name}.csv", seed, with_ids=True)
    write_client(folder / "test.npz", 10)
    write_client(folder / "public.npz", 11)
    ward = polars.read_csv(folder / "ward.csv")
    ward.drop("label").write_csv(folder / "new.csv")
    ward.rename({"label": "outcome"}).write_parquet(folder / "b.parquet")
    make, *others = PREPARATION.strip().splitlines()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SAFLE_LOG", str(folder / "log.jsonl"))
        safle(*make.split(), folder=folder)
        for name in CLIENTS:
            encoder = ("--encoder", "encoder.safetensors")
            safle("count", f"{name}.csv", *encoder, "-o", f"{name}.stats", folder=folder)
            grid = ("--low", 0, "--high", 16)
            safle("histogram", f"{name}.csv", *grid, "-o", f"{name}.hist", folder=folder)
            ids = ("--id", "patient")
            table = f"with_ids/{name}.csv"
            safle("schema", "draft", table, *ids, "-o", f"{name}.toml", folder=folder)
        for line in others:
            safle(*line.split(), folder=folder)
        for name in ("a", "b", "hospital_a"):
            counts = ("--counts", f"{name}.eval")
            safle("evaluate", "model.safetensors", f"{name}.csv", *counts, folder=folder)
    shutil.copy(folder / "b.eval", folder / "hospital_b.eval")
    for name in ("a", "b"):
        shutil.copy(folder / f"{name}.stats", folder / "clients")
        shutil.copy(folder / f"{name}.eval", folder / "sites")
    return folder


@pytest.mark.parametrize("line", RUN)
def test_help_example_runs(
    prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    folder = tmp_path / "examples"
    shutil.copytree(prepared, folder)
    monkeypatch.setenv("SAFLE_LOG", str(folder / "log.jsonl"))
    if "--id patient" in line:
        shutil.copy(folder / "with_ids" / "hospital_a.csv", folder)
    words = []
    for word in shlex.split(line)[1:]:
        found = sorted(str(path.relative_to(folder)) for path in folder.glob(word))
        words += found if "*" in word else [word]
    outputs = [folder / new for option, new in pairwise(words) if option in OUTPUTS]
    for output in outputs:
        output.unlink(missing_ok=True)
    safle(*words, folder=folder)
    assert all(output.stat().st_size for output in outputs)
