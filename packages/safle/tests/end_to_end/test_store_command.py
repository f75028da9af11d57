"""A federation by files that keeps its contributions: the store commands, as a user runs them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from safle.errors import SolveError
from safle.server.store import Store
from support.command import safle
from support.data_sets import fixed_data
from support.tables import write_table

pytestmark = pytest.mark.slow
NAMES = ("a", "b", "c")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Three clients' statistics files, and the models of files alone."""
    place = tmp_path_factory.mktemp("store-command")
    data = fixed_data("embedding", 90)
    data.encoder.save(place / "encoder.safetensors")
    for name, part in zip(NAMES, np.split(np.arange(90), [20, 50]), strict=True):
        write_table(place / f"{name}.npz", data.features[part], data.labels[part])
        encoder = ("--encoder", "encoder.safetensors")
        safle("count", f"{name}.npz", *encoder, "-o", f"{name}.stats", folder=place)
    for names in ("abc", "ab"):
        files = [f"{name}.stats" for name in names]
        safle("sum", *files, "-o", f"{names}.total", folder=place)
        model = ("--encoder", "encoder.safetensors", "-o", f"{names}.model")
        safle("solve", f"{names}.total", *model, folder=place)
    return place


def test_add_remove_and_solve_give_the_models_of_files(folder):
    encoder = ("--encoder", "encoder.safetensors")
    safle("store", "add", "store", *encoder, "a.stats", "b.stats", folder=folder)
    safle("solve", "store", "-o", "1.model", folder=folder)
    safle("sum", "store", "-o", "1.total", folder=folder)
    assert (folder / "1.model").read_bytes() == (folder / "ab.model").read_bytes()
    assert (folder / "1.total").read_bytes() == (folder / "ab.total").read_bytes()
    safle("store", "add", "store", "c.stats", "--client", "hospital c", folder=folder)
    safle("solve", "store", "-o", "2.model", folder=folder)
    assert (folder / "2.model").read_bytes() == (folder / "abc.model").read_bytes()
    listed = safle("store", "list", "store", folder=folder).stdout
    assert "hospital c" in listed
    assert "90" in listed
    safle("store", "remove", "store", "hospital c", folder=folder)
    safle("solve", "store", "-o", "3.model", folder=folder)
    assert (folder / "3.model").read_bytes() == (folder / "ab.model").read_bytes()
    assert "none" in safle("store", "verify", "store", folder=folder).stdout


def test_a_folder_is_added_by_one_command(folder):
    inside = folder / "clients"
    inside.mkdir()
    for name in ("a", "b"):
        shutil.copy(folder / f"{name}.stats", inside)
    (inside / "a.stats.release.json").write_text("what lies beside a contribution is not one")
    add = ("store", "add", "whole", "--encoder", "encoder.safetensors", inside)
    assert re.search(r"added +2", safle(*add, folder=folder).stdout)
    safle("sum", "whole", "-o", "whole.total", folder=folder)
    assert (folder / "whole.total").read_bytes() == (folder / "ab.total").read_bytes()
    (folder / "nothing").mkdir()
    refused = safle("store", "add", "whole", "nothing", folder=folder, code=1)
    assert "no file" in refused.stderr


def test_a_store_is_solved_by_its_own_encoder_and_a_file_names_none(folder):
    encoder = ("--encoder", "encoder.safetensors")
    safle("store", "add", "own", *encoder, "a.stats", "b.stats", folder=folder)
    safle("solve", "own", *encoder, "-o", "own.model", folder=folder)
    assert (folder / "own.model").read_bytes() == (folder / "ab.model").read_bytes()
    said = safle("solve", "ab.total", "-o", "none.model", folder=folder, code=2).stderr
    assert "--encoder" in said
    said = safle("solve", "nosuch", *encoder, "-o", "none.model", folder=folder, code=1).stderr
    assert "nosuch" in said


def test_adding_again_after_an_interruption_takes_the_rest_and_names_what_is_refused(folder):
    add = ("store", "add", "again", "--encoder", "encoder.safetensors")
    safle(*add, "a.stats", folder=folder)
    (folder / "broken.stats").write_bytes((folder / "b.stats").read_bytes()[:-9])
    done = safle(*add, "a.stats", "b.stats", "c.stats", folder=folder)
    assert re.search(r"added +2\n +already there +1\n", done.stdout), done.stdout
    safle("store", "remove", "again", "c", folder=folder)
    done = safle(*add, "a.stats", "broken.stats", "c.stats", folder=folder, code=1)
    assert "warning: refused: broken.stats: " in done.stderr
    assert done.stderr.endswith("error: 1 of 3 files were refused, named above; see --help\n")
    assert [*Store.open(folder / "again").members] == ["a", "b", "c"]


def test_card_refuses_a_store_that_has_changed_since(folder):
    add = ("store", "add", "changing", "--encoder", "encoder.safetensors")
    safle(*add, "a.stats", "b.stats", folder=folder)
    safle("solve", "changing", "-o", "old.model", folder=folder)
    card = ("card", "old.model", "--sum", "changing", "-o", "card.md", "--force")
    safle(*card, folder=folder)
    safle(*add, "c.stats", folder=folder)
    assert "come to the store or left" in safle(*card, folder=folder, code=1).stderr
    safle("store", "remove", "changing", "c", folder=folder)
    safle(*card, folder=folder)
    other = ("card", "old.model", "--sum", "abc.total", "-o", "card.md", "--force")
    assert "solved from another sum" in safle(*other, folder=folder, code=1).stderr
    safle("card", "old.model", "--sum", "ab.total", "-o", "card.md", "--force", folder=folder)
    assert "the sum does not name them" in (folder / "card.md").read_text()
    wrong = ("card", "old.model", "--sum", "encoder.safetensors", "-o", "card.md", "--force")
    assert "encoder.safetensors: " in safle(*wrong, folder=folder, code=1).stderr


def state(store):
    """Who is in, and every file beside the database."""
    files = {path: path.read_bytes() for path in store.rglob("*.stats")}
    return Store.open(store).members, files


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["add", "nosuch", "a.stats"], "not a store"),
        (["add", "one", "b.stats", "--client", "a"], "sent another contribution"),
        (["add", "one", "a.stats", "--client", "z"], "came from 'a' already"),
        (["add", "one", "a.npz"], "a.npz"),
        (["add", "one", "nosuch.stats"], "nosuch.stats"),
        (["remove", "one", "nobody"], "it has 'a'"),
    ],
)
def test_mistakes_are_one_line_and_change_nothing(folder, arguments, said):
    if not (folder / "one").exists():
        add = ("store", "add", "one", "--encoder", "encoder.safetensors", "a.stats")
        safle(*add, folder=folder)
    before = state(folder / "one")
    done = safle("store", *arguments, folder=folder, code=1)
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    # A refusal is logged; nothing else of the store changes.
    assert state(folder / "one") == before


def test_verify_names_what_is_damaged(folder):
    add = ("store", "add", "damaged", "--encoder", "encoder.safetensors", "a.stats")
    safle(*add, folder=folder)
    (path,) = (folder / "damaged" / "contributions").iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    done = safle("store", "verify", "damaged", folder=folder, code=1)
    assert "'a' is damaged" in done.stdout
    assert "1 problems" in done.stderr


def test_a_solve_that_fails_says_whose_contribution_it_was(folder, monkeypatch):
    encoder, tiny = ("--encoder", "encoder.safetensors"), ("--ridge", "1e-300", "-o", "no.model")
    safle("store", "add", "failing", *encoder, "a.stats", "b.stats", folder=folder)
    said = safle("solve", "failing", *tiny, folder=folder, code=1).stderr
    assert "too small" in said
    assert "all 2 contributions verify; these fail too when they are solved alone: 'a', 'b'" in said
    said = safle("solve", "ab.total", *encoder, *tiny, folder=folder, code=1).stderr
    assert "a sum does not show which contribution is at fault" in said

    def break_and_fail(*_arguments, **_options):
        damaged = sorted((folder / "failing" / "contributions").iterdir())[0]
        damaged.write_bytes(damaged.read_bytes()[:-1])
        raise SolveError("no convergence")

    monkeypatch.setattr("safle.cli.solve.solve_statistics", break_and_fail)
    said = safle("solve", "failing", "-o", "no.model", folder=folder, code=1).stderr
    assert re.search(r"error: no convergence; .*the contribution of '[ab]' is damaged", said), said
