"""Policies: every rule lets out what keeps it, refuses what does not, and is named for it."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from safle import count
from safle.errors import PolicyRefused, SettingsError
from safle.site.disguises import Disguises
from safle.site.policy import EXAMPLE, VARIABLE, Policy
from safle.site.release import Release
from safle.statistics.cells import Cells
from safle.statistics.histogram import Histogram
from support.data_sets import KINDS, fixed_data

KEPT = Release(
    "statistics",
    samples=100,
    columns=10,
    class_counts={"ill": 40, "well": 60},
    encoder="e" * 64,
    masked=True,
    keyholders={"board": "k1", "lawyer": "k2"},
    least_clients=3,
    epsilon=2.0,
)
STRICT = Policy("masked", 100, 40, math.inf, 3, 2.0, ("e" * 64,), ("k1", "k2", "k3"))


def rule_of(policy: Policy, release: Release) -> str:
    with pytest.raises(PolicyRefused) as refused:
        policy.check(release)
    assert "\n" not in str(refused.value)
    assert f"the policy's {refused.value.rule}: " in str(refused.value)
    return refused.value.rule


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("mode", {"masked": False}),
        ("encoders", {"encoder": "f" * 64}),
        ("least_samples", {"samples": 99}),
        ("least_per_class", {"class_counts": {"ill": 39, "well": 61}}),
        ("most_epsilon", {"epsilon": 2.01}),
        ("most_epsilon", {"epsilon": math.inf}),
        ("least_clients", {"least_clients": 2}),
        ("keyholders", {"keyholders": {"board": "k1", "other": "stranger"}}),
    ],
)
def test_each_rule_refuses_by_its_name_and_lets_its_limit_pass(rule, change):
    STRICT.check(KEPT)
    assert rule_of(STRICT, replace(KEPT, **change)) == rule
    # A rule that is not written does not apply.
    Policy().check(replace(KEPT, **change))


def test_columns_per_sample_are_of_plain_contributions():
    policy = Policy(most_columns_per_sample=0.1)
    plain = replace(KEPT, masked=False)
    policy.check(plain)
    assert rule_of(policy, replace(plain, columns=11)) == "most_columns_per_sample"
    policy.check(replace(KEPT, columns=11))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_counted_is_judged_by_what_it_holds(kind):
    data = fixed_data(kind, 30)
    labels = np.repeat(["few", "many"], [4, 26])
    release = Release.of(count(data.encoder, data.features, labels))
    assert release.class_counts == {"few": 4, "many": 26}
    Policy(least_samples=30, least_per_class=4, encoders=(data.encoder.fingerprint,)).check(release)
    assert rule_of(Policy(least_per_class=5), release) == "least_per_class"
    assert rule_of(Policy(least_samples=31), release) == "least_samples"
    assert rule_of(Policy("masked"), release) == "mode"
    assert "5 samples" in Release.of(fixed_data(kind, 5).count()).gives_away


def test_a_plain_release_says_what_its_holder_can_do_and_claims_nothing():
    many = Release.of(fixed_data("linear", 2_000).count())
    can = "a holder of this file can reconstruct samples; the attack that we ran reconstructed"
    assert many.gives_away == f"{can} 0 of 2,000"
    assert not many.warns
    # One sample has a class to itself.
    data = fixed_data("linear", 2_000)
    rare = Release.of(count(data.encoder, data.features, ["common"] * 1_999 + ["rare"]))
    assert rare.gives_away == f"{can} 1 of 2,000"
    assert rare.warns


def test_histograms_are_judged_too():
    release = Release.of(Histogram.empty(0, 1, 2, bins=4).count([np.zeros((3, 2))]))
    Policy(least_samples=3, least_per_class=9, encoders=("e",)).check(release)
    assert rule_of(Policy(least_samples=4), release) == "least_samples"
    assert rule_of(Policy("masked"), release) == "mode"


def test_a_file_is_read_as_written(tmp_path, monkeypatch):
    path = tmp_path / "policy.toml"
    path.write_text('mode = "masked"\nleast_samples = 5\nmost_epsilon = 3\nencoders = ["e"]\n')
    assert Policy.read(path) == Policy("masked", 5, most_epsilon=3, encoders=("e",))
    monkeypatch.delenv(VARIABLE, raising=False)
    assert Policy.find() is None
    monkeypatch.setenv(VARIABLE, str(path))
    assert Policy.find() == Policy.read(path)
    with pytest.raises(FileNotFoundError):
        Policy.find(tmp_path / "other.toml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "least_sample = 5",
            "unknown setting 'least_sample'; expected some of mode, least_samples",
        ),
        ('mode = "secret"', "mode is 'secret'; expected one of 'masked', 'plain'"),
        ("least_samples = -1", "least_samples is -1; expected an integer of at least 0"),
        ("most_epsilon = nan", "most_epsilon is nan; expected a number of at least 0"),
        ("most_epsilon = 1" + "0" * 400, "expected a number of at least 0"),
        ("x" * (1 << 20) + "x", "more than 1,048,576 bytes"),
    ],
)
def test_policy_refuses_invalid_settings_with_the_place(tmp_path, text, said):
    path = tmp_path / "policy.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(SettingsError, match=r"policy.toml: ") as refused:
        Policy.read(path)
    assert said in str(refused.value)


def test_a_policy_made_in_python_never_means_plain_by_mistake():
    with pytest.raises(SettingsError, match="mode is 'Masked'"):
        Policy("Masked")
    with pytest.raises(SettingsError, match="most_epsilon is not a number"):
        Policy(most_epsilon=math.nan)


def test_models_are_pinned_like_encoders():
    release = replace(KEPT, model="m" * 64)
    Policy(models=("m" * 64,)).check(release)
    assert rule_of(Policy(models=("n" * 64,)), release) == "models"
    # Statistics are of no model.
    Policy(models=("n" * 64,)).check(KEPT)


def test_cells_are_judged_in_plain_files_and_clients_under_masks():
    policy = Policy(least_cell=10)
    plain = replace(KEPT, masked=False, cells=Cells(5, 0, 10), disguises=Disguises(10, 0.8))
    policy.check(plain)
    for change in (
        {"cells": Cells(5, 1, 9)},
        {"cells": None},
        {"disguises": Disguises(9, 0.8)},
        {"disguises": Disguises(10, 0.81)},
        {"disguises": Disguises(10, 0.8, few=0.96)},
        {"disguises": None},
    ):
        assert rule_of(policy, replace(plain, **change)) == "least_cell"
        assert rule_of(policy, replace(plain, distinct_rows=replace(plain, **change))) == (
            "least_cell"
        )
    masked = replace(KEPT, most_samples=100)
    ((rule, kept, found),) = policy.judge(masked)
    assert rule == "least_cell"
    assert kept
    assert found.startswith("cells cannot be judged here")
    assert "at least 3 clients is opened, of at most 100 samples" in found
    assert rule_of(policy, replace(masked, least_clients=2)) == "least_cell"
    assert rule_of(policy, replace(masked, most_samples=9)) == "least_cell"


def test_cells_of_a_histogram_are_judged():
    grid = Histogram.empty(0, 1, 1, bins=2)
    ten = np.array([[0.1]] * 10 + [[0.9]] * 10)
    assert rule_of(Policy(least_cell=10), Release.of(grid.count([ten]))) == "least_cell"
    Policy(least_cell=10).check(Release.of(grid.count([ten]), disguises=Disguises(10, 0.0)))
    nine = Release.of(grid.count([ten[1:]]), disguises=Disguises(10, 0.0))
    assert rule_of(Policy(least_cell=10), nine) == "least_cell"
    assert nine.gives_away == (
        "a holder of this file can reconstruct samples; we have no attack to run on it, and it "
        "holds 2 counts, 1 of them of fewer than 10 samples"
    )


def test_the_example_is_a_policy_with_the_rule_on_cells(tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text(EXAMPLE)
    assert Policy.read(path).least_cell == 10
    # The lines that are comments are rules, too.
    path.write_text(re.sub("^# ", "", EXAMPLE, flags=re.MULTILINE))
    assert Policy.read(path).models == ("07ad...",)
