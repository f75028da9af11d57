"""``safle attack``: where what it finds goes, and what it says about the rest."""

from __future__ import annotations

import numpy as np
import pytest

from safle import count, declared_range, make_encoder, open_table
from safle_lab.attack import attack
from safle_lab.cli import describe_attack
from support.tables import write_table

pytest.importorskip("flint", reason="needs the extra attack")


@pytest.fixture
def words(tmp_path, monkeypatch, safle):
    monkeypatch.chdir(tmp_path)
    write_table("ward.npz", [[61.0, 2.0], [35.0, 1.0]], ["ill", "well"])
    safle("encoder", "make", "--sample", "ward.npz", "--kind", "linear", "-o", "e.safetensors")
    safle("count", "ward.npz", "--encoder", "e.safetensors", "-o", "ward.stats")
    return ("attack", "ward.stats", "--encoder", "e.safetensors")


def test_attack_output_replaces_no_other_file(words, tmp_path, safle):
    safle(*words, "-o", "found.npz")
    assert sorted(open_table("found.npz").labels.tolist()) == ["ill", "well"]
    for name in ("ward.npz", "found.npz"):
        before = (tmp_path / name).read_bytes()
        assert f"{name} exists" in safle(*words, "-o", name, code=2)
        assert (tmp_path / name).read_bytes() == before
    safle(*words, "-o", "found.npz", "--force")
    assert "ends in .npz" in safle(*words, "-o", "found.csv", code=2)


def sums_of(samples):
    features = np.random.default_rng(0).integers(0, 17, (samples, 24)).astype(float)
    encoder = make_encoder(declared_range(0, 16, feature_dim=24), "linear")
    return count(encoder, features, (np.arange(samples) % 2).tolist())


def test_attack_command_separates_untried_from_not_found():
    """No more samples than columns are found as a rule, whether or not it was tried."""
    few, many = attack(sums_of(9), most_reduced=8), attack(sums_of(40))

    assert (few.found, few.untried) == (0, 9)
    assert "9 more, not more than the columns" in str(describe_attack(few)["not tried"])
    assert "not found" not in describe_attack(few)
    assert (many.found, many.untried) == (0, 0)
    assert "not tried" not in describe_attack(many)
    assert "40 others" in str(describe_attack(many)["not found"])
    assert {*describe_attack(attack(sums_of(9)))} & {"not tried", "not found"} == set()
