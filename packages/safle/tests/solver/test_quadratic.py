"""The quadratic head: against the formula in NumPy, and where there is little to go by."""

from __future__ import annotations

import json

import numpy as np
import pytest

from safle import (
    LinearEncoder,
    Model,
    SafleClassifier,
    count,
    make_encoder,
    public_sample,
    solve,
)
from safle.basics.tensors import decode_tensors, encode_tensors
from safle.encoders.calibration import declared_range
from safle.encoders.random_features import suits_by_class
from safle.errors import InvalidInput, WireError
from safle.model.scores import check_squares
from safle.solver.heads.quadratic import TEMPERATURE_RATIO, directions

CLASSES = 3


def draw(samples, features=6, classes=CLASSES, seed=0):
    """Classes that differ in their covariances more than in their means."""
    stretch = np.random.default_rng(99).standard_normal((classes, features))
    stretch, labels = np.exp(0.7 * stretch), np.arange(samples) % classes
    generator = np.random.default_rng(seed)
    drawn = generator.standard_normal((samples, features)) * stretch[labels]
    return drawn + 0.4 * labels[:, None], labels


def by_class(features, **settings):
    return LinearEncoder.calibrated(public_sample(features), by_class=True, **settings)


@pytest.fixture(scope="module")
def counted():
    features, labels = draw(400)
    encoder = by_class(features)
    return encoder, features, labels, count(encoder, features, labels)


def reference_scores(values, labels, at, kept, spread):
    """Log posteriors in plain NumPy, from the samples themselves.

    Where ``kept`` directions of a class count, all others are as in the pool.
    """
    n, d = values.shape
    classes = np.unique(labels)
    centred = [values[labels == c] - values[labels == c].mean(0) for c in classes]
    pooled = sum(z.T @ z for z in centred) / max(n - len(classes), 1)
    scores = []
    for c, z in zip(classes, centred, strict=True):
        share = 0.1 * (1 - 1 / len(z))
        covariance = 0.1 * z.T @ z / len(z) + (1 - share) * pooled + spread * np.eye(d)
        if kept:
            whole = np.linalg.cholesky(pooled + spread * np.eye(d))
            white = np.linalg.inv(whole)
            sizes, vectors = np.linalg.eigh(white @ covariance @ white.T)
            beyond = np.where(np.arange(d) < d - kept, 0, np.maximum(sizes - 1, 0))
            covariance = whole @ (np.eye(d) + (vectors * beyond) @ vectors.T) @ whole.T
        away = at - values[labels == c].mean(0)
        distance = np.einsum("ij,ij->i", away @ np.linalg.inv(covariance), away)
        log_det = np.linalg.slogdet(covariance)[1]
        scores.append(-0.5 * distance - 0.5 * log_det + np.log(len(z) / n))
    return np.stack(scores, axis=1)


def centre(scores):
    return scores - scores.mean(axis=1, keepdims=True)


@pytest.mark.parametrize(("samples", "kept"), [(400, 0), (30, 2), (10, 1), (3, 1)])
def test_scores_are_the_log_posteriors_of_the_formula(samples, kept):
    features, labels = draw(samples)
    encoder = by_class(features)
    total = count(encoder, features, labels)
    assert directions(total) == kept
    linear, solution = solve(total, head="discriminant"), solve(total, head="quadratic")
    assert solution.ridge == linear.ridge
    assert solution.temperature is linear.temperature is None or (
        solution.temperature == TEMPERATURE_RATIO * linear.temperature
    )
    model = Model.of(encoder, solution)
    scale = encoder.layout.scales[0]
    fresh, _ = draw(50, seed=1)
    values, at = (encoder.encode(some).dense[:, :-1] / scale for some in (features, fresh))
    expected = centre(reference_scores(values, labels, at, kept, solution.ridge / samples))
    size = np.abs(expected).max()
    assert np.allclose(centre(model.decision_function(fresh)), expected, atol=0.005 * size)
    raised = np.exp(expected / (solution.temperature or 1.0))
    posterior = raised / raised.sum(axis=1, keepdims=True)
    assert np.allclose(model.predict_proba(fresh), posterior, atol=0.02)


def test_any_partition_gives_the_same_bytes(counted):
    encoder, features, labels, total = counted
    order = np.random.default_rng(3).permutation(len(labels))
    # One client has all samples of a class.
    parts = [order[labels[order] == 0], *np.array_split(order[labels[order] != 0], 3)]
    summed = sum(
        (count(encoder, features[part], labels[part]) for part in parts[1:]),
        start=count(encoder, features[parts[0]], labels[parts[0]]),
    )
    for head in ("quadratic", "averaged"):
        models = [Model.of(encoder, solve(value, head=head)) for value in (total, summed)]
        assert models[0].to_bytes() == models[1].to_bytes()


@pytest.mark.parametrize("samples", [400, 30], ids=["triangles", "directions"])
def test_a_model_file_keeps_every_score(counted, samples):
    encoder, features, labels, _ = counted
    total = count(encoder, features[:samples], labels[:samples])
    for head in ("quadratic", "averaged"):
        model = Model.of(encoder, solve(total, head=head))
        again = Model.from_bytes(model.to_bytes())
        assert again.head == head
        assert np.array_equal(again.decision_function(features), model.decision_function(features))
        # Row by row, however samples are batched.
        one = np.concatenate([model.decision_function(row[None]) for row in features[:5]])
        assert np.array_equal(one, model.decision_function(features)[:5])


@pytest.mark.parametrize("units", [2, 12])
def test_averaged_adds_by_how_much_the_quadratic_head_differs(counted, units):
    """``Q + a (S - 3/4 L)``, with S that of the same columns not counted by class."""
    _, features, labels, _ = counted
    n, d = features.shape
    sample = public_sample(features)
    plain, encoder = (make_encoder(sample, units=units, by_class=apart) for apart in (False, True))
    linear = by_class(features, fraction_bits=6, transform=encoder.settings.transform)
    columns = count(linear, features, labels)
    models = {
        "S": Model.of(plain, solve(count(plain, features, labels))),
        "L": Model.of(linear, solve(columns, head="discriminant", ridge=0.05 * n)),
        "Q": Model.of(linear, solve(columns, head="quadratic", ridge=0.05 * n)),
    }
    s, linear_scores, q = (centre(model.decision_function(features)) for model in models.values())
    share = min(1, (2 * units / (CLASSES * d)) ** 0.5)
    model = Model.of(encoder, solve(count(encoder, features, labels)))
    found = centre(model.decision_function(features))
    assert np.allclose(
        found, q + share * (s - 0.75 * linear_scores), atol=1e-3 * np.abs(found).max()
    )
    t = {name: model.temperature for name, model in models.items()}
    assert model.temperature == pytest.approx(t["Q"] + share * (t["S"] - 0.75 * t["L"]))


@pytest.mark.parametrize(
    ("counts", "gains"),
    [([100] * 3, True), ([23] * 3, False), ([24] * 3, True), ([40] * 2 + [1_000], False)],
)
def test_covariances_of_few_or_unequal_classes_are_left_out(counts, gains):
    features, _ = draw(sum(counts))
    labels = np.repeat(np.arange(len(counts)), counts)
    encoder = make_encoder(public_sample(features), units=8, by_class=True)
    solution = solve(count(encoder, features, labels))
    assert (solution.quadratic is not None) is gains


@pytest.mark.parametrize(
    "features",
    [
        [[1.0, 2.0]],
        [[1.0, 2.0], [3.0, 1.0]],
        [[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]],
    ],
    ids=["one sample and class", "a sample of each class", "constant features"],
)
def test_little_to_go_by(features):
    encoder = LinearEncoder.calibrated(declared_range(0, 4, feature_dim=2), by_class=True)
    labels = np.arange(len(features)) % 2
    model = Model.of(encoder, solve(count(encoder, features, labels), head="quadratic"))
    assert np.isfinite(model.decision_function(features)).all()
    assert model.predict_proba(features).sum(axis=1) == pytest.approx(1.0)
    if len(np.unique(features, axis=0)) == len(features):
        assert model.predict(features).tolist() == labels.tolist()


def test_more_features_than_samples_and_a_rare_class():
    features, labels = draw(24, features=40, classes=2)
    features, labels = np.vstack([features, features[:1] + 30]), np.append(labels, 2)
    encoder = by_class(features)
    model = Model.of(encoder, solve(count(encoder, features, labels), head="quadratic"))
    assert (model.predict(features) == labels).mean() > 0.9
    # The class of one sample is not a sink: the others keep theirs.
    assert (model.predict(features[:-1]) != 2).all()


def test_far_away_scores_are_cut_off_not_wrong(counted):
    encoder, features, _, total = counted
    model = Model.of(encoder, solve(total, head="quadratic"))
    assert np.isfinite(model.decision_function(np.full((1, features.shape[1]), 1e30))).all()


def test_statistics_without_class_grams_are_refused_with_the_remedy(counted):
    _, features, labels, total = counted
    plain = make_encoder(public_sample(features), "linear")
    with pytest.raises(InvalidInput, match="--by-class"):
        solve(count(plain, features, labels), head="quadratic")
    with pytest.raises(InvalidInput, match="positive ridge"):
        solve(total, head="quadratic", ridge=0)


def test_a_given_ridge_is_added_to_the_covariances(counted):
    _, _, _, total = counted
    chosen = solve(total, head="quadratic")
    again = solve(total, head="quadratic", ridge=chosen.ridge)
    assert np.array_equal(again.quadratic.factors, chosen.quadratic.factors)
    larger = solve(total, head="quadratic", ridge=100 * chosen.ridge)
    assert not np.array_equal(larger.quadratic.factors, chosen.quadratic.factors)


def test_beside_units(counted):
    encoder, features, labels, _ = counted
    other = make_encoder(public_sample(features), units=8, by_class=True)
    alone = solve(count(encoder, features, labels), head="quadratic").quadratic
    total = count(other, features, labels)
    model = Model.of(other, solve(total))
    assert Model.from_bytes(model.to_bytes()).digest == model.digest
    found = solve(total, head="quadratic").quadratic
    assert found.factors.shape == alone.factors.shape
    assert len(other.layout.squared_columns) == features.shape[1]


def test_the_estimator_counts_by_class_by_itself():
    features, labels = draw(300)
    fitted = SafleClassifier(encoder="linear", head="quadratic").fit(features, labels)
    assert fitted.encoder_.settings.by_class
    assert fitted.solution_.head == "quadratic"
    assert fitted.score(features, labels) > 0.6
    with pytest.raises(InvalidInput, match="by_class"):
        SafleClassifier(encoder="embedding", head="quadratic").fit(features, labels)


@pytest.mark.parametrize(("classes", "apart"), [(19, False), (20, True)])
def test_many_classes_are_counted_apart_unless_it_is_refused(classes, apart):
    features, labels = draw(2 * classes, features=4, classes=classes)
    fitted = SafleClassifier(units=8).fit(features, labels)
    assert fitted.encoder_.settings.by_class is apart
    assert fitted.score(features, labels) > 1 / classes
    told = SafleClassifier(units=8, by_class=False).fit(features, labels)
    assert told.encoder_.settings.by_class is False


def test_by_class_is_off_for_sums_that_would_fill_a_server():
    assert suits_by_class(512, 200)
    assert suits_by_class(1_280, 200)
    assert not suits_by_class(4_096, 200)
    assert not make_encoder(declared_range(0, 1, feature_dim=4), units=2).settings.by_class


def test_a_model_of_directions_is_small():
    features, labels = draw(600, features=64, classes=20)
    total = count(encoder := by_class(features), features, labels)
    squares = solve(total, head="quadratic").quadratic
    assert squares.factors.shape == (20, 64, 6)
    assert len(Model.of(encoder, solve(total)).to_bytes()) < 20 * 64 * 65


@pytest.mark.parametrize("samples", [400, 30], ids=["triangles", "directions"])
@pytest.mark.parametrize(
    "change",
    [
        {"factors": lambda a: a[:, :-1]},
        {"factors": lambda a: a[..., :0]},
        {"factors": lambda a: a.astype(np.int32)},
        {"offsets": lambda a: a[:-1]},
        {"exponent": lambda _: 4_000},
        {"share": lambda _: -1.0},
        {"share": lambda _: float("nan")},
    ],
)
def test_what_does_not_fit_is_refused(counted, change, samples):
    encoder, features, labels, _ = counted
    total = count(encoder, features[:samples], labels[:samples])
    head = solve(total, head="quadratic").quadratic
    ((name, forge),) = change.items()
    forged = type(head)(**(vars(head) | {name: forge(getattr(head, name))}))
    with pytest.raises(WireError):
        check_squares(encoder.layout, forged)


@pytest.mark.parametrize("exponent", [1.5, None, "1", True])
def test_a_model_files_exponent_is_a_whole_number(counted, exponent):
    text, arrays = decode_tensors(written(counted))
    header = json.dumps(json.loads(text) | {"exponent": exponent})
    with pytest.raises(WireError, match="expected a whole number"):
        Model.from_bytes(encode_tensors(header, arrays))


@pytest.mark.parametrize("change", [lambda a: a[:-1], lambda a: np.concatenate([a, a])])
def test_a_model_file_has_squares_of_every_class_and_no_other(counted, change):
    text, arrays = decode_tensors(written(counted))
    forged = arrays | {name: change(arrays[name]) for name in ("factors", "offsets")}
    with pytest.raises(WireError, match="classes; expected"):
        Model.from_bytes(encode_tensors(text, forged))


def written(counted):
    """The bytes of a model with a quadratic head."""
    encoder, features, labels, _ = counted
    return Model.of(encoder, solve(count(encoder, features, labels), head="quadratic")).to_bytes()
