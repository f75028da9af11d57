"""Rounds that open with noise: whose, how much, and never twice."""

from __future__ import annotations

import math

import numpy as np
import pytest

from private_support.private_rounds import make_parties, new_history
from safle import LinearEncoder, Model, Statistics, count, declared_range, solve, sum_statistics
from safle.errors import (
    CountOverflow,
    FederationError,
    PolicyRefused,
    SafleError,
    SettingsError,
)
from safle.site.policy import Policy
from safle.site.release import Release
from safle.statistics.free_sums import FreeSums
from safle_private import (
    History,
    PrivateRound,
)
from safle_private.keyholder import explain
from safle_private.noise import draw_noise, epsilon_of, plan_noise
from safle_private.release import under_masks
from support.data_sets import KINDS, fixed_calibration, publishable_encoder

CALIBRATION = declared_range(-3, 3, feature_dim=3)
LINEAR = LinearEncoder.publishable(CALIBRATION)
GENERATOR = np.random.default_rng(0)


def noisy_parties(encoder, clients=3, most=10_000, epsilon=2.0):
    """Parties of a round that opens with the noise of three keyholders."""
    zero = Statistics.empty(encoder.space, [0, 1, 2])
    privacy = plan_noise(encoder.layout, epsilon, 1e-5)
    return make_parties(zero, clients, most, keyholders=3, privacy=privacy)


def parts_of(encoder):
    return [
        count(encoder, GENERATOR.normal(0, 1, (30, 3)), GENERATOR.integers(0, 2, 30))
        for _ in range(3)
    ]


def no_noise(size, scale):
    return np.zeros(size, np.int64)


@pytest.mark.parametrize("kind", KINDS)
def test_noise_and_sums_go_the_same_way(kind):
    encoder = publishable_encoder(kind, fixed_calibration(3))
    noisy, total = noisy_parties(encoder).private_round, sum_statistics(parts_of(encoder))
    free, draws = FreeSums(encoder.layout, 3), np.random.default_rng(1)
    exact, sums = free.take(total, [0, 1, 2]), slice(free.cross.start, None)
    opened = noisy.from_vector(noisy.moduli.pack(exact)).released
    assert np.array_equal(opened[sums], exact[sums])
    noise = draw_noise(
        encoder.layout, 3, noisy.privacy, lambda n, scale: draws.integers(-9, 10, n) * int(scale)
    )
    hidden = noisy.to_vector(total)
    noisy.hide(hidden, lambda n, scale: np.full(n, int(scale)))
    assert np.array_equal(noisy.from_vector(noisy.moduli.pack(noise)).released[sums], noise[sums])
    lower = noisy.from_vector(hidden).released
    assert (lower[free.cross] < exact[free.cross]).all()


def test_more_samples_than_declared_are_noticed_under_noise():
    noisy = noisy_parties(LINEAR).private_round
    vector = noisy.to_vector(parts_of(LINEAR)[0])
    for _ in range(16):
        noisy.moduli.add(vector, vector.copy())
    with pytest.raises(CountOverflow, match=r"the round allows 10,000"):
        noisy.from_vector(vector)
    with pytest.raises(CountOverflow, match="declare fewer samples"):
        noisy_parties(LINEAR, most=LINEAR.layout.most_samples)


@pytest.fixture(scope="module")
def played():
    """A round, its masked sum, and all answers."""
    parties = noisy_parties(LINEAR)
    total = parties.add_up(parts_of(LINEAR))
    return parties, total, [parties.answer(at, total) for at in range(3)]


def test_opened_sum_has_the_noise_of_all_keyholders(played):
    parties, total, files = played
    opened = parties.open(total, files)
    planned = parties.private_round.privacy
    assert opened.privacy.promise == "epsilon 2, delta 1e-05"
    assert opened.privacy.gram == pytest.approx(planned.gram * math.sqrt(3))
    assert np.isfinite(Model.of(LINEAR, solve(opened)).weights).all()
    other = parties.open(total)
    # Two histories, two draws.
    assert not np.array_equal(opened.released, other.released)


def test_the_exact_sum_opens_for_nobody(played, monkeypatch):
    """Less all noise it would: so it is noise, and nothing else, that is in the way."""
    parties, total, files = played
    with pytest.raises(FederationError, match="no answer of keyholder-2; all 3"):
        parties.open(total, files[:2])
    monkeypatch.setattr(PrivateRound.hide, "__defaults__", (no_noise,))
    exact = parties.open(total).released
    noisy = parties.open(total, files).released
    # A draw may be nought, of the three counts often, of the fifteen others once in 1,900: that
    # half of them are has a chance below 1e-15.
    assert (exact != noisy).mean() > 0.5
    # One honest keyholder's noise is left where two give their masks without any.
    given = [parties.answer(0, total), parties.answer(1, total), files[2]]
    honest = parties.open(total, given).released
    assert (exact != honest).mean() > 0.5


def test_a_second_answer_is_the_first(played, tmp_path):
    parties, total, _ = played
    place = tmp_path / "history"
    assert parties.answer(0, total, place) == parties.answer(0, total, place)


def test_rounds_of_a_keyholder_add_up(played, tmp_path):
    parties, total, _ = played
    place = tmp_path / "history"
    for _ in range(2):
        parties.answer(0, total, place)
    history = History(place)
    spent = history.ledger.releases()
    assert [(row["epsilon"], row["rho"]) for row in spent] == [
        (2.0, parties.private_round.privacy.rho)
    ]
    assert "before:" not in explain(total.request, history)[-1]
    given = parties.private_round
    again = parties.again(given.zero, 10_000, privacy=given.privacy)
    files = [again.mask(at, part) for at, part in enumerate(parts_of(LINEAR))]
    told = explain(again.gather(files).request, history)[-1]
    together = epsilon_of(2 * spent[0]["rho"], 1e-5)
    assert (
        f"opened before: 1; all together, for the same people, they make epsilon {together:.3g}."
        in told
    )


def test_a_round_opens_one_set(played, tmp_path):
    parties = noisy_parties(LINEAR, 6)
    files = [
        parties.mask(at, part) for at, part in enumerate([*parts_of(LINEAR), *parts_of(LINEAR)])
    ]
    place = tmp_path / "history"
    parties.answer(0, parties.gather(files[:3]), place)
    with pytest.raises(FederationError, match="declare a new round"):
        parties.answer(0, parties.gather(files), place)


def test_keyholder_question_states_the_noise(played):
    _, total, _ = played
    with new_history() as history:
        assert "You add noise: epsilon 2" in explain(total.request, history)[-1]


def test_a_round_with_noise_needs_a_clip_and_a_promise(played):
    parties, _, _ = played
    again = PrivateRound.load(parties.private_round.data, parties.operator.public)
    assert again == parties.private_round
    assert again.privacy.epsilon == 2
    with pytest.raises(SettingsError, match="norm clip"):
        noisy_parties(LinearEncoder.calibrated(CALIBRATION))
    for epsilon in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(SafleError):
            noisy_parties(LINEAR, epsilon=epsilon)


def test_a_site_s_policy_sees_the_epsilon_of_the_round(played):
    parties, _, _ = played
    masked = under_masks(Release.of(parts_of(LINEAR)[0]), parties.private_round)
    Policy(most_epsilon=2.0).check(masked)
    with pytest.raises(PolicyRefused, match="most_epsilon"):
        Policy(most_epsilon=1.5).check(masked)
