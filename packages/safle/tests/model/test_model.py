"""Models: exact scores, probabilities, files."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from safle import Model, count, load_model, solve
from safle.errors import EncoderMismatch, InvalidInput, NotEnoughMemory
from safle.model import model as module
from safle.model.scores import probabilities as to_probabilities
from safle.model.scores import round_to_grid
from support.data_sets import KINDS, LINEAR_HEADS, fixed_data
from support.reference import phi


@pytest.fixture(scope="module")
def make_model():
    def make(kind, head="least-squares", names=None, samples=120):
        data = fixed_data(kind, samples)
        labels = data.labels if names is None else np.array(names)[data.labels]
        statistics = count(data.encoder, data.features, labels)
        solution = solve(statistics, ridge=1.0, head=head)
        return Model.of(data.encoder, solution), data, solution

    return make


def exact_scores(model, Phi):
    """Phi W + b in rational numbers."""
    layout = model.encoder.layout
    weights = {int(code): row for code, row in zip(model.codes, model.weights, strict=False)}
    for place in range(layout.dense_dim):
        weights[layout.code_count + place] = model.weights[len(model.codes) + place]
    scales = [1] * layout.code_count + layout.scales.tolist()
    scores = []
    for row in Phi.tolist():
        used = [(c, Fraction(v, scales[c])) for c, v in enumerate(row) if v and c in weights]
        scores.append(
            [
                Fraction(float(model.intercept[k]))
                + sum(Fraction(float(weights[c][k])) * v for c, v in used)
                for k in range(len(model.class_names))
            ]
        )
    return scores


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("head", LINEAR_HEADS)
@pytest.mark.usefixtures("threads")
def test_scores_are_the_exact_sum_of_the_looked_up_weights(make_model, kind, head):
    model, data, _ = make_model(kind, head)
    # Twice as wide as what was seen: codes without weights count as zero.
    features = 2 * data.features[:40]
    found = model.decision_function(features)
    expected = exact_scores(model, phi(model.encoder, features))
    for row, exact in zip(found.tolist(), expected, strict=True):
        if head == "least-squares":
            assert [Fraction(score) for score in row] == exact
        else:
            # The intercept lies on a grid of its own: one rounding.
            assert row == pytest.approx([float(score) for score in exact], rel=1e-14)
    best = [max(range(3), key=lambda k: (row[k], -k)) for row in expected]
    assert model.predict(features).tolist() == best


@pytest.mark.parametrize("kind", KINDS)
def test_scores_do_not_depend_on_the_batch(make_model, monkeypatch, kind):
    model, data, _ = make_model(kind)
    whole = model.decision_function(data.features)
    for size in (1, 7, 64):
        monkeypatch.setattr(module, "BATCH", size)
        assert np.array_equal(model.decision_function(data.features), whole)
        assert np.array_equal(model.decision_function(data.features[5:9]), whole[5:9])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("head", LINEAR_HEADS)
def test_saved_weights_are_the_solution_to_24_bits(make_model, kind, head):
    model, _, solution = make_model(kind, head)
    for saved, true in ((model.weights, solution.weights), (model.intercept, solution.intercept)):
        assert saved.dtype == np.float32
        assert np.abs(saved - true).max() <= 2.0**-24 * np.abs(true).max()


@given(values=arrays(np.float64, st.integers(0, 30), elements=st.floats(-1e30, 1e30)))
def test_the_grid_is_one_power_of_two_and_float32_holds_it(values):
    rounded = round_to_grid(values).astype(np.float64)
    largest = np.abs(values).max(initial=0.0)
    step = 2.0 ** (np.frexp(largest)[1] - 24)
    if largest > 1e-25:
        assert (np.abs(rounded - values) <= step / 2).all()
        assert (np.fmod(rounded, step) == 0).all()
    assert not np.signbit(rounded[rounded == 0]).any()


@given(
    scores=arrays(
        np.float64,
        st.tuples(st.integers(1, 4), st.integers(1, 6)),
        elements=st.floats(-5, 5) | st.sampled_from([0.0, 0.5, 1.0]),
    )
)
def test_least_squares_probabilities_are_the_nearest_point_of_the_simplex(scores):
    found = to_probabilities(scores, "least-squares")
    assert (found >= 0).all()
    assert np.allclose(found.sum(axis=1), 1, atol=1e-12)
    for row, probabilities in zip(scores, found, strict=True):
        order = np.argsort(row)
        assert (np.diff(probabilities[order]) >= -1e-15).all()
        # Optimality: moving mass from any class that has some to any other does not help.
        gain = row - probabilities
        assert gain[probabilities > 1e-12].min() >= gain.max() - 1e-9


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("head", LINEAR_HEADS)
def test_probabilities_add_up_and_agree_with_the_prediction(make_model, kind, head):
    model, data, _ = make_model(kind, head)
    found = model.predict_proba(data.features)
    assert found.shape == (len(data), 3)
    assert (found >= 0).all()
    assert np.allclose(found.sum(axis=1), 1, atol=1e-12)
    assert np.array_equal(np.argmax(found, axis=1), model.predict(data.features))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("head", LINEAR_HEADS)
@pytest.mark.parametrize("names", [None, ["ž", "b", "a c"], [-5, 10**15, 3]])
def test_a_saved_model_is_the_same_model(make_model, tmp_path, kind, head, names):
    model, data, _ = make_model(kind, head, names)
    model.save(tmp_path / "model.safetensors")
    loaded = load_model(tmp_path / "model.safetensors")
    assert loaded.to_bytes() == model.to_bytes() == (tmp_path / "model.safetensors").read_bytes()
    assert loaded.digest == model.digest
    assert loaded.encoder == model.encoder
    assert (loaded.class_names, loaded.head, loaded.ridge) == (
        model.class_names,
        model.head,
        model.ridge,
    )
    assert np.array_equal(
        loaded.decision_function(data.features), model.decision_function(data.features)
    )
    predicted = loaded.predict(data.features)
    assert set(predicted.tolist()) <= set(model.class_names)
    assert np.array_equal(predicted, model.predict(data.features))


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_of_another_encoder_is_refused_naming_both(kind):
    data, other = fixed_data(kind), fixed_data(kind, feature_dim=5)
    statistics = data.count()
    with pytest.raises(EncoderMismatch) as error:
        Model.of(other.encoder, solve(statistics, ridge=1.0))
    assert data.encoder.fingerprint[:12] in str(error.value)
    assert other.encoder.fingerprint[:12] in str(error.value)


def test_features_of_another_shape_are_refused(make_model):
    model, data, _ = make_model("linear")
    with pytest.raises(InvalidInput, match="5 columns"):
        model.predict(data.features[:, :5])
    with pytest.raises(InvalidInput, match="sample 0, column 0"):
        model.predict_proba(np.full((1, 6), np.nan))


def test_model_predicts_nothing_without_samples(make_model):
    model, _, _ = make_model("table")
    nothing = np.empty((0, 6))
    assert model.predict(nothing).shape == (0,)
    assert model.predict_proba(nothing).shape == (0, 3)
    assert model.decision_function(nothing).shape == (0, 3)


def test_tables_that_do_not_fit_are_refused(make_model, monkeypatch):
    model, data, _ = make_model("embedding")
    monkeypatch.setattr(
        "psutil.virtual_memory",
        lambda: type("Memory", (), {"available": 10}),
    )
    with pytest.raises(NotEnoughMemory, match="tables of"):
        model.predict(data.features)


def test_logarithms_of_probabilities_and_classes_are_as_scikit_learn_names_them():
    data = fixed_data("linear")
    model = Model.of(data.encoder, solve(data.count(), head="least-squares"))
    assert model.classes_.tolist() == list(model.class_names)
    found = np.exp(model.predict_log_proba(data.features))
    # Probabilities of 0, which least squares has, are 0 again.
    assert np.allclose(found, model.predict_proba(data.features), rtol=1e-12, atol=0)
