"""The ledger of releases: they add up, nothing is forgotten, and a promise has an end."""

from __future__ import annotations

import numpy as np
import opendp.prelude as dp
import pytest

from safle import LinearEncoder, count, declared_range
from safle.errors import InvalidInput, PrivacyBudgetSpent, StoreError
from safle_private.ledger import Ledger
from safle_private.noise import SHARES, Sensitivity, epsilon_of, rho_within

DELTA = 1e-5
ENCODER = LinearEncoder.publishable(declared_range(0, 1, feature_dim=3))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "releases.jsonl"


@pytest.fixture(scope="module")
def total():
    return count(ENCODER, np.eye(3), ["ill", "well", "ill"])


def test_releases_add_up_as_in_opendp(path):
    made = [Ledger(path).spend(ENCODER.space, epsilon, DELTA) for epsilon in (1, 2)]
    assert [privacy.releases for privacy in made] == [1, 2]
    assert made[0].total_epsilon == 1
    bound, parts = Sensitivity.of(ENCODER.layout), []
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    # Scaled to one distance: a composition has one for all.
    for privacy in made:
        for name, share in SHARES.items():
            scale = getattr(privacy, name) / float(getattr(bound, name)) ** 0.5
            parts.append(dp.m.make_gaussian(*space, scale=scale))
            assert parts[-1].map(1.0) == pytest.approx(share * privacy.rho, rel=1e-6)
    together = dp.c.make_composition(parts)
    assert together.map(1.0) == pytest.approx(sum(privacy.rho for privacy in made), rel=1e-9)
    converted = dp.c.make_zCDP_to_approxDP(together).map(1.0).epsilon(DELTA)
    assert made[1].total_epsilon == pytest.approx(converted, rel=1e-6)
    for privacy in made:
        assert privacy.rho <= rho_within(privacy.epsilon, DELTA) * (1 + 1e-9)
    assert "2 releases" in made[1].promise


def test_ledger_spends_no_more_than_allowed(path):
    ledger = Ledger(path)
    ledger.spend(ENCODER.space, 1, DELTA, most_epsilon=1)
    with pytest.raises(PrivacyBudgetSpent, match="before this one: 1"):
        ledger.spend(ENCODER.space, 1, DELTA, most_epsilon=1.3)
    # What was refused was not spent.
    assert len(ledger.releases()) == 1
    assert ledger.spend(ENCODER.space, 1, DELTA, most_epsilon=1.5).releases == 2
    spent = sum(release["rho"] for release in ledger.releases())
    assert epsilon_of(spent, DELTA) <= 1.5


def test_ledger_is_not_charged_for_a_refusal(path, total):
    ledger = Ledger(path)
    for classes, calibration in ((["ill"], "public"), (["ill", "well"], "histogram")):
        with pytest.raises(InvalidInput):
            ledger.publish(total, classes, 1, DELTA, calibration=calibration)
    assert ledger.releases() == []
    noisy = ledger.publish(total, ["ill", "well"], 1, DELTA, calibration="public")
    assert noisy.privacy.calibration == "public"
    assert [release["rho"] for release in ledger.releases()] == [noisy.privacy.rho]


def test_a_release_that_dies_before_its_noise_is_drawn_is_spent(path, total):
    def die(size, scale):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Ledger(path).publish(total, ["ill", "well"], 1, DELTA, calibration="public", draw=die)
    assert len(Ledger(path).releases()) == 1


def test_a_changed_ledger_is_refused(path):
    ledger = Ledger(path)
    ledger.spend(ENCODER.space, 1, DELTA)
    path.write_text(path.read_text().replace('"rho":', '"rho":0'))
    with pytest.raises(StoreError, match="is not what was written"):
        ledger.spend(ENCODER.space, 1, DELTA)


def test_ledger_refuses_another_file(path):
    path.write_bytes(b"notes of somebody, without the end of a line")
    with pytest.raises(StoreError, match=r"releases\.jsonl"):
        Ledger(path).spend(ENCODER.space, 1, DELTA)
