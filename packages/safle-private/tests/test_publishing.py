"""Noise for differential privacy: how much, what of, and what is promised."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism
from dp_accounting.rdp import RdpAccountant
from hypothesis import assume, given, settings
from scipy.stats import binom

from safle import (
    LinearEncoder,
    Model,
    Statistics,
    count,
    declared_range,
    encode,
    make_encoder,
    solve,
    write,
)
from safle.encoders.codes import CodeSpace, Layout, tables_of
from safle.errors import InvalidInput, SafleWarning, SettingsError
from safle.site.log import read_log
from safle.statistics.free_sums import FreeSums
from safle.statistics.gram import Triangle
from safle_private.noise import (
    Sensitivity,
    draw_discrete_gaussian,
    draw_noise,
    epsilon_of,
    plan_noise,
    publish,
    rho_within,
)
from safle_private.noisy import NoisyStatistics, Privacy
from support.data_sets import KINDS, data_sets, fixed_encoder
from support.layouts import constant, dense
from support.tables import write_table

DELTA = 1e-5
ANY = Privacy(1, DELTA, 0.03, 1, 1, 1)
SMALL = [
    # Layout, and whether some sample changes the sums by all that is allowed for.
    (Layout([dense(-3, 3, columns=2, norm=3), constant()]), True),
    (Layout([dense(-3, 3, scale=2, columns=2, norm=3), constant(2)]), True),
    (Layout([dense(0, 2), dense(-3, 3, scale=4)]), True),
    (Layout(tables_of([3, 2])), True),
    (Layout([*tables_of([2, 1, 3]), dense(-2, 2, scale=2, norm=2), constant(2)]), True),
    (Layout(tables_of([2])), True),
    # No integers of at most 2 each are, squared, nine together.
    (Layout([dense(-2, 2, columns=2, norm=3)]), False),
]


def whole_statistics(layout, symbols, values, label, classes=2):
    """The statistics of one sample over the whole layout, by the definition."""
    codes = zip(symbols, layout.table_sizes, strict=True)
    onehot = [int(symbol == value) for symbol, size in codes for value in range(size)]
    row = np.array([*onehot, *values], np.int64)
    cross = np.zeros((len(row), classes), np.int64)
    cross[:, label] = row
    counts = np.eye(classes, dtype=np.int64)[label]
    gram = Triangle(np.outer(row, row)[np.triu_indices(len(row))], len(row))
    names = tuple(range(classes))
    space = CodeSpace("0" * 64, layout)
    return Statistics(space, np.arange(layout.code_count), cross, names, counts, gram)


def samples_of(layout):
    """Every sample that a layout allows."""
    ends = zip(layout.low.tolist(), layout.high.tolist(), strict=True)
    ranges = [range(low, high + 1) for low, high in ends]
    norms = [(place, block.norm) for block, place in layout.dense_blocks if block.norm]
    for symbols in product(*map(range, layout.table_sizes.tolist())):
        for values in product(*ranges):
            if all(sum(x * x for x in values[place]) <= most**2 for place, most in norms):
                yield symbols, values


@pytest.mark.parametrize(("layout", "tight"), SMALL)
def test_sensitivity_bounds_the_change_by_one_sample(layout, tight):
    free, bound = FreeSums(layout, 2), Sensitivity.of(layout)
    weights = np.array([Fraction(1, int(unit)) for unit in free.spread(free.scales)])
    # Half the variance beside the diagonal: each product of two columns counts twice there.
    times = np.full(free.size, 2)
    times[free.squares] = 1
    largest = [Fraction(0)] * 3
    for symbols, values in samples_of(layout):
        sample = free.take(whole_statistics(layout, symbols, values, 1), (0, 1)) * weights
        power = (sample**2 * times)[free.products].sum()
        found = power, (sample[free.cross] ** 2).sum(), (sample[free.counts] ** 2).sum()
        largest = [max(a, b) for a, b in zip(largest, found, strict=True)]
    allowed = [bound.gram, bound.cross, bound.counts]
    assert all(a <= b for a, b in zip(largest, allowed, strict=True))
    assert (largest == allowed) == tight


@settings(max_examples=20)
@given(data_sets(least=1))
def test_without_noise_the_free_sums_are_all_the_sums(data):
    counted = data.count()
    assume(counted.layout.dim <= 400)
    free = FreeSums(counted.layout, len(counted.class_names))
    released = free.take(counted, counted.class_names)
    whole = NoisyStatistics.of(counted.space, counted.class_names, released, ANY)
    rows = np.concatenate([counted.codes, np.arange(counted.layout.code_count, whole.dim)])
    assert np.array_equal(whole.gram_square()[np.ix_(rows, rows)], counted.gram_square())
    assert np.array_equal(whole.cross[rows], counted.cross)
    assert not np.delete(whole.cross, rows, axis=0).any()


@pytest.mark.parametrize("kind", [k for k in KINDS if fixed_encoder(k).layout.dense_dim])
def test_a_sample_of_any_length_is_not_published(kind):
    with pytest.raises(SettingsError, match="norm clip"):
        plan_noise(fixed_encoder(kind).layout, 1, DELTA)


def test_products_by_class_are_not_published():
    encoder = LinearEncoder.publishable(declared_range(0, 1, feature_dim=4), by_class=True)
    with pytest.raises(SettingsError, match="by_class"):
        plan_noise(encoder.layout, 1, DELTA)


@pytest.mark.parametrize("epsilon", [0.1, 1, 3, 8])
def test_rho_is_what_others_account_for_as_well(epsilon):
    rho = rho_within(epsilon, DELTA)
    assert epsilon * (1 - 1e-9) <= epsilon_of(rho, DELTA) <= epsilon
    # Of a Gaussian of this rho, the Renyi bound is ours but for its grid of orders, and the exact
    # privacy loss is a little less.
    multiplier = 1 / math.sqrt(2 * rho)
    orders = [1 + x / 100 for x in range(1, 2000)] + list(range(21, 400))
    renyi = RdpAccountant(orders).compose(GaussianDpEvent(multiplier)).get_epsilon(DELTA)
    assert renyi == pytest.approx(epsilon, rel=5e-3)
    exact = from_gaussian_mechanism(multiplier, value_discretization_interval=1e-3)
    assert 0.8 * epsilon < exact.get_epsilon_for_delta(DELTA) <= epsilon


@pytest.mark.parametrize("scale", [0.8, 3.0])
def test_the_noise_is_discrete_gaussian(scale):
    """Real draws: each of at most 14 counts has an exact tail, so one run in 3e9 fails."""
    runs, reach = 20_000, int(2 * scale)
    drawn, values = draw_discrete_gaussian(runs, scale), np.arange(-60, 61)
    chances = np.exp(-(values**2) / (2 * scale**2))
    chances /= chances.sum()
    inner = {
        v: (int((drawn == v).sum()), chances[values == v][0]) for v in range(-reach, reach + 1)
    }
    outside = runs - sum(found for found, _ in inner.values())
    tail = 1 - sum(chance for _, chance in inner.values())
    for found, chance in (*inner.values(), (outside, tail)):
        assert binom.cdf(found, runs, chance) > 1e-11
        assert binom.sf(found - 1, runs, chance) > 1e-11


def seeded(seed):
    generator = np.random.default_rng(seed)
    return lambda size, scale: np.rint(generator.normal(0, scale, size)).astype(np.int64)


def test_every_free_sum_has_the_noise_that_was_planned():
    layout = Layout([*tables_of([3, 3]), dense(-9, 9, scale=4), dense(0, 9, scale=8), constant(4)])
    plan, draws = plan_noise(layout, 1, DELTA), []
    noise = draw_noise(
        layout, 2, plan, lambda n, scale: draws.append((n, scale)) or np.ones(n, np.int64)
    )
    assert len(noise) == FreeSums(layout, 2).size
    assert noise.all()
    sizes = {}
    for n, scale in draws:
        sizes[round(scale, 6)] = sizes.get(round(scale, 6), 0) + n
    beside = plan.gram / math.sqrt(2)
    expected = {plan.gram * 16: 1, plan.gram * 64: 1, beside: 4, beside * 4: 4, beside * 8: 4}
    expected |= {
        beside * 32: 1,
        plan.cross: 8,
        plan.cross * 4: 2,
        plan.cross * 8: 2,
        plan.counts: 2,
    }
    assert sizes == {round(scale, 6): n for scale, n in expected.items()}


@pytest.fixture(scope="module")
def total():
    generator = np.random.default_rng(0)
    features = np.concatenate([generator.normal(c, 1.0, (2000, 6)) for c in (-1, 1)])
    encoder = LinearEncoder.publishable(declared_range(-3, 3, feature_dim=6))
    return encoder, count(encoder, features, np.repeat(["ill", "well"], 2000)), features


def test_noisy_sums_solve_with_a_ridge_as_large_as_their_noise(total):
    encoder, exact, features = total
    noisy = publish(exact, plan_noise(exact.layout, 2, DELTA), ["ill", "well"], draw=seeded(1))
    solution = solve(noisy)
    assert solution.ridge >= noisy.least_ridge * (1 - 1e-5) > 0
    assert solution.promise == noisy.privacy.promise
    model = Model.from_bytes(Model.of(encoder, solution).to_bytes())
    assert model.promise == noisy.privacy.promise
    truth = np.repeat(["ill", "well"], 2000)
    assert (model.predict(features) == truth).mean() > 0.9
    assert Model.of(encoder, solve(exact)).promise == ""


def test_an_evaluation_says_what_was_promised(total, safle, tmp_path):
    encoder, exact, features = total
    noisy = publish(exact, plan_noise(exact.layout, 2, DELTA), ["ill", "well"], draw=seeded(1))
    write_table(tmp_path / "test.npz", features, np.repeat(["ill", "well"], 2000))
    for name, statistics, said in (("noisy", noisy, True), ("exact", exact, False)):
        Model.of(encoder, solve(statistics)).save(tmp_path / name)
        figures = tmp_path / f"{name}.json"
        shown = safle("evaluate", tmp_path / name, tmp_path / "test.npz", "--json", figures)
        assert ("epsilon 2, delta 1e-05" in shown) == said
        written = json.loads(figures.read_text())
        assert written.get("privacy") == ("epsilon 2, delta 1e-05" if said else None)
    (tmp_path / "noisy.stats").write_bytes(encode(noisy))
    card = tmp_path / "card.md"
    safle("card", tmp_path / "noisy", "--sum", tmp_path / "noisy.stats", "-o", card)
    assert f"About {noisy.sample_count:,} samples. Sites: not stated" in card.read_text()


def test_publishing_keeps_to_the_site_s_policy(total, safle, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SAFLE_LOG", str(tmp_path / "log.jsonl"))
    (tmp_path / "policy.toml").write_text("most_epsilon = 2.0\n")
    encoder, exact, _ = total
    encoder.save("encoder.safetensors")
    write("total.stats", exact)
    promised = ("--delta", 1e-5, "--classes", "ill,well", "--calibration", "declared")
    asked = ("publish", "total.stats", *promised, "--policy", "policy.toml", "-o", "noisy.stats")
    refused = safle(*asked, "--epsilon", 3, code=1)
    assert "refused by the policy's most_epsilon" in refused
    assert "drawing" not in refused
    # A larger number of one's own is no way round it.
    assert "policy" in safle(*asked, "--epsilon", 3, "--most-epsilon", 9, code=1)
    assert not (tmp_path / "noisy.stats").exists()
    said = safle(*asked, "--epsilon", 2)
    assert "numbers of noise ..." in said
    assert "warning" not in said
    # With the first one, the second is more than the policy allows.
    assert "before this one: 1" in safle(*asked, "--force", "--epsilon", 1, code=1)
    events = [event["event"] for event in read_log(tmp_path / "log.jsonl")]
    assert events == ["refused", "refused", "written", "refused"]


def test_noisy_sums_are_not_taken_for_copies(safle, tmp_path):
    """Noise may leave no residual; the ridge is as large as the noise all the same."""
    generator = np.random.default_rng(0)
    features = np.concatenate([generator.normal(c, 1.0, (100, 20)) for c in (-1, 1)])
    encoder = LinearEncoder.publishable(declared_range(-3, 3, feature_dim=20))
    exact = count(encoder, features, np.repeat(["ill", "well"], 100))
    noisy = publish(exact, plan_noise(exact.layout, 2, DELTA), ["ill", "well"], draw=seeded(1))
    assert solve(noisy).curve.suspects_copies(noisy.sample_count)
    encoder.save(tmp_path / "encoder.safetensors")
    (tmp_path / "noisy.stats").write_bytes(encode(noisy))
    named = ("--encoder", tmp_path / "encoder.safetensors", "-o", tmp_path / "model.safetensors")
    assert "far too small" not in safle("solve", tmp_path / "noisy.stats", *named)


def test_solve_of_hopeless_noise_is_finite(total):
    _, exact, _ = total
    plan = plan_noise(exact.layout, 0.01, DELTA)
    for draw in (*map(seeded, range(3)), lambda n, scale: np.full(n, -int(scale))):
        noisy = publish(exact, plan, ["a", "ill", "well"], draw=draw)
        assert noisy.class_counts.min() >= 1
        assert np.isfinite(solve(noisy).weights).all()


def test_noisy_sums_of_codes_solve_too():
    encoder = make_encoder(
        declared_range(-3, 3, feature_dim=3), "embedding", buckets=2, group_size=1
    )
    generator = np.random.default_rng(3)
    features = np.concatenate([generator.normal(c, 1.0, (3000, 3)) for c in (-1, 1)])
    exact = count(encoder, features, np.repeat([0, 1], 3000))
    noisy = publish(exact, plan_noise(exact.layout, 3, DELTA), [0, 1], draw=seeded(0))
    model = Model.of(encoder, solve(noisy))
    assert (model.predict(features) == np.repeat([0, 1], 3000)).mean() > 0.85


def test_noisy_statistics_are_not_added(total):
    _, exact, _ = total
    noisy = publish(exact, plan_noise(exact.layout, 1, DELTA), ["ill", "well"], draw=seeded(1))
    assert not hasattr(noisy, "verify")
    for wrong in (
        lambda: noisy + exact,
        lambda: exact + noisy,
        lambda: exact - noisy,
        lambda: noisy - exact,
        lambda: noisy + noisy,
    ):
        with pytest.raises(InvalidInput, match="solved, not added"):
            wrong()
    with pytest.raises(InvalidInput, match="exact sums, that have no noise yet"):
        publish(noisy, noisy.privacy, ["ill", "well"])


def test_classes_are_declared_and_not_found(total):
    _, exact, _ = total
    plan = plan_noise(exact.layout, 1, DELTA)
    noisy = publish(exact, plan, ["ill", "other", "well"], draw=seeded(2))
    assert noisy.class_names == ("ill", "other", "well")
    for classes in (["ill"], []):
        with pytest.raises(InvalidInput, match="declare every class"):
            publish(exact, plan, classes)


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(0, 0.1), (-1, 0.1), (math.inf, 0.1), (1, 0), (1, 1), (2.0**-1070, 2.0**-1070)],
)
def test_impossible_promises_are_refused(epsilon, delta):
    with pytest.raises(InvalidInput, match="epsilon"):
        rho_within(epsilon, delta)


@pytest.mark.slow
def test_canary_is_found_no_better_than_promised():
    """Worst neighbours, the attacker's best test: its errors must obey the promise."""
    encoder = LinearEncoder(np.zeros(2), np.ones(2), fraction_bits=4, norm_clip=1)
    others = count(encoder, [[0.1, -0.2], [0.3, 0.1]], [0, 1])
    canary = others + count(encoder, [[5.0, 0.0]], [1])
    epsilon, delta, runs = 1.0, 0.01, 10_000
    plan, free = plan_noise(encoder.layout, epsilon, delta), FreeSums(encoder.layout, 2)
    without, within = (free.take(s, (0, 1)) for s in (others, canary))
    scales = np.full(free.size, plan.gram * 256 / math.sqrt(2))
    scales[free.squares] = plan.gram * 256
    scales[free.cross] = plan.cross * 16
    scales[free.counts] = plan.counts
    pools = {}

    def draw(size, scale):
        # The noise of all runs at once: OpenDP takes longer to be asked than to draw.
        if scale not in pools:
            pools[scale] = iter(draw_discrete_gaussian(size * runs, scale).reshape(runs, size))
        return next(pools[scale])

    change = within - without
    noise = np.array([draw_noise(encoder.layout, 2, plan, draw) for _ in range(runs)])
    weights = change / scales**2
    assert keeps_promise(noise @ weights, change @ weights, epsilon, delta)
    # A quarter of the noise promises less, and is found out.
    assert not keeps_promise(noise @ weights / 4, change @ weights, epsilon, delta)


def keeps_promise(scores, shift, epsilon, delta):
    """Whether no threshold tells scores from shifted ones better than epsilon and delta allow."""
    # Dvoretzky, Kiefer and Wolfowitz: both curves are within the margin everywhere, but for one
    # run in 5e9.
    margin = math.sqrt(math.log(2 / 1e-10) / (2 * len(scores)))
    factor = math.exp(epsilon)
    for threshold in np.quantile(scores, [0.05, 0.2, 0.4, 0.5, 0.6, 0.8, 0.95]):
        false, true = float((scores > threshold).mean()), float((scores + shift > threshold).mean())
        if true - margin > factor * (false + margin) + delta:
            return False
        if (1 - false) - margin > factor * (1 - true + margin) + delta:
            return False
    return True


def test_a_delta_that_may_give_samples_away_is_warned_of(total):
    _, exact, _ = total
    delta = 0.2 / exact.sample_count
    with pytest.warns(SafleWarning, match=r"samples is 0\.2: "):
        publish(exact, plan_noise(exact.layout, 2, delta), ["ill", "well"], draw=seeded(1))
