"""Evaluation counts: exact sums, true figures, and nothing that no answers could have given."""

from __future__ import annotations

import re
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn import metrics
from sklearn.datasets import load_breast_cancer, load_digits

import safle
from safle import EvaluationReport, decode, encode
from safle.errors import (
    CountOverflow,
    EncoderMismatch,
    InvalidInput,
    InvariantError,
    PolicyRefused,
    WireError,
)
from safle.evaluation.counts import BINS, FORMAT, Evaluation, find_cells, shapes
from safle.evaluation.figures import area_deviations, areas
from safle.evaluation.report import SIDE
from safle.model.scores import exponential, odds, probabilities
from safle.server.summing import sum_files
from safle.site.policy import Policy
from safle.site.release import Release
from safle.wire import container
from safle.wire.formats import FileFormat
from safle_lab.demo.masking import add_privately

WITH_INTERVAL = ("accuracy", "balanced_accuracy", "sensitivity", "specificity", "macro_auc")
MOST_WITH_CLASSES = {"specificity": 1.4, "macro_auc": 2.3}
Answered = tuple[safle.Model, np.ndarray, np.ndarray]


@pytest.fixture(scope="module", params=[load_breast_cancer, load_digits])
def answered(request: pytest.FixtureRequest) -> Answered:
    """A model, and samples that it has not seen."""
    features, labels = request.param(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(features))
    features, labels = features[order][:700], labels[order][:700]
    fitted = safle.SafleClassifier(encoder="linear").fit(features[:300], labels[:300])
    return fitted.model_, features[300:], labels[300:]


def test_sites_add_up_to_the_bytes_of_the_pooled_count(answered: Answered, tmp_path: Path) -> None:
    model, features, labels = answered
    for at, part in enumerate((slice(0, 50), slice(50, 51), slice(51, None))):
        safle.write(tmp_path / f"{at}.eval", safle.evaluate(model, features[part], labels[part]))
    total, _ = sum_files([tmp_path], tmp_path / "total.eval")
    pooled = safle.evaluate(model, features, labels)
    assert (tmp_path / "total.eval").read_bytes() == encode(pooled)
    assert total.sample_count == len(labels)
    assert safle.read(tmp_path / "total.eval", Evaluation) == pooled


def test_figures_are_those_of_single_scores(answered: Answered) -> None:
    model, features, labels = answered
    figures = safle.Figures.of(safle.evaluate(model, features, labels))
    p, taken = model.predict_proba(features), model.predict(features)
    hot = np.eye(p.shape[1])[labels]
    exact = {
        "accuracy": metrics.accuracy_score(labels, taken),
        "balanced_accuracy": metrics.balanced_accuracy_score(labels, taken),
        "macro_f1": metrics.f1_score(labels, taken, average="macro"),
        "macro_auc": metrics.roc_auc_score(hot, p),
        "macro_pr_auc": metrics.average_precision_score(hot, p),
        "brier": ((p - hot) ** 2).sum(axis=1).mean() / (2 if p.shape[1] == 2 else 1),
        "log_loss": metrics.log_loss(labels, p),
    }
    for name, value in exact.items():
        figure = getattr(figures, name)
        assert figure.value == pytest.approx(value, abs=0.002), name
        assert (figure.low < figure.value < figure.high) == (name in WITH_INTERVAL), name
        assert np.isnan(figure.low) == (name not in WITH_INTERVAL), name
    if p.shape[1] == 2:
        assert figures.sensitivity.value == metrics.recall_score(labels, taken)
        assert figures.specificity.value == metrics.recall_score(labels, taken, pos_label=0)


@pytest.mark.parametrize("class_count", [2, 5])
def test_intervals_are_as_wide_as_those_of_resampled_samples(class_count: int) -> None:
    generator = np.random.default_rng(0)
    labels = generator.integers(class_count, size=500)
    logits = generator.normal(size=(500, class_count)) + np.eye(class_count)[labels]
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    cells = find_cells(p / (1 - p), p.argmax(axis=1), labels)

    def count(chosen: np.ndarray) -> safle.Evaluation:
        counted = {
            name: np.bincount(cells[name][chosen].ravel(), minlength=prod(shape)).reshape(shape)
            for name, shape in shapes(class_count).items()
        }
        return safle.Evaluation("0" * 64, tuple(range(class_count)), **counted)

    figures = safle.Figures.of(count(np.arange(500)))
    resamples = generator.integers(500, size=(800, 500))
    resampled = [safle.Figures.of(count(chosen)) for chosen in resamples]
    for name in WITH_INTERVAL:
        deviation = np.std([getattr(each, name).value for each in resampled])
        figure = getattr(figures, name)
        ratio = (figure.high - figure.low) / (2 * 1.96 * deviation)
        # An error of one class is none of others: means over classes are wider than they must be.
        most = 1.15 if class_count == 2 else MOST_WITH_CLASSES.get(name, 1.15)
        # 800 resamples give a ratio to about 3 %.
        assert 0.87 < ratio < most, name


def test_the_deviation_of_an_area_is_delongs() -> None:
    """Of single scores, each sample by itself, with ties."""
    generator = np.random.default_rng(0)
    own, others = generator.integers(400, 620, 70), generator.integers(380, 600, 90)
    scores = np.zeros((1, 2, BINS), np.int64)
    np.add.at(scores[0, 1], own, 1)
    np.add.at(scores[0, 0], others, 1)
    wins = (own[:, None] > others) + 0.5 * (own[:, None] == others)
    variance = wins.mean(axis=1).var(ddof=1) / 70 + wins.mean(axis=0).var(ddof=1) / 90
    assert areas(scores)[0] == pytest.approx(wins.mean(), rel=1e-12)
    assert area_deviations(scores)[0] == pytest.approx(np.sqrt(variance), rel=1e-12)


def test_an_area_of_one_or_of_a_single_sample_has_no_interval() -> None:
    right = safle.Evaluation("0" * 64, (0, 1), **_counted([0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1]))
    assert str(safle.Figures.of(right).macro_auc) == "1.000"
    single = safle.Evaluation("0" * 64, (0, 1), **_counted([0.1, 0.7, 0.6], [0, 0, 1]))
    assert str(safle.Figures.of(single).macro_auc) == "0.500"


def _counted(probabilities: list[float], labels: list[int]) -> dict[str, np.ndarray]:
    p = np.array([[1 - second, second] for second in probabilities])
    cells = find_cells(p / (1 - p), p.argmax(axis=1), np.array(labels))
    return {
        name: np.bincount(cells[name].ravel(), minlength=prod(shape)).reshape(shape)
        for name, shape in shapes(2).items()
    }


def test_an_unknown_class_is_an_error(answered: Answered) -> None:
    model, features, labels = answered
    counts = safle.evaluate(model, features[:10], [999] * 10)
    assert counts.confusion[-1].sum() == 10
    assert safle.Figures.of(counts).accuracy.value == 0
    with pytest.raises(InvalidInput, match="labels are like 'a'"):
        safle.evaluate(model, features[:1], ["a"])
    assert safle.evaluate(model, features[:0], labels[:0]).sample_count == 0


def test_counts_of_another_model_are_refused(answered: Answered) -> None:
    model, features, labels = answered
    counts = safle.evaluate(model, features, labels)
    with pytest.raises(EncoderMismatch, match="evaluate the same model everywhere"):
        counts + replace(counts, model="0" * 64)


def test_evaluation_refuses_impossible_counts(answered: Answered) -> None:
    counts = safle.evaluate(*answered)
    for name in ("confusion", "scores", "confidence"):
        for change in (1, -1 - getattr(counts, name).flat[0]):
            forged = getattr(counts, name).copy()
            forged.flat[0] += change
            with pytest.raises(InvariantError):
                replace(counts, **{name: forged})
            with pytest.raises(WireError):
                decode(_written(counts, **{name: forged}), Evaluation)
    with pytest.raises(WireError, match="digest"):
        decode(_written(counts, model="x"), Evaluation)
    with pytest.raises(WireError):
        decode(_written(counts, class_names=("b", "a")), Evaluation)


@pytest.mark.parametrize("classes", ["ab", {"a": 0, "b": 0}, None])
def test_counts_have_no_second_text(classes: Any) -> None:
    # It would be a second identity, by which the same counts are added twice.
    counts = safle.Evaluation.empty("0" * 64, ["a", "b"])
    opened = container.from_bytes(encode(counts), file_type=container.EVALUATION)
    sections = {name: opened.section(name, raw) for name, (_, raw) in opened.frames.items()}
    pairs = {"planes": [[*pair] for pair in opened.header["planes"].items()]}
    header = opened.header | (pairs if classes is None else {"classes": classes})
    with pytest.raises(WireError, match="the header: "):
        decode(container.to_bytes(container.EVALUATION, header, sections), Evaluation)


def _written(counts: safle.Evaluation, **lies: Any) -> bytes:
    """A file, sealed and all, that tells lies."""
    told = {**vars(counts), **lies}
    names = "confusion", "scores", "confidence"
    fields = {"model": told["model"], "classes": [*told["class_names"]]}
    liar = FileFormat(
        FORMAT.number, lambda _: (fields, {n: told[n] for n in names}), FORMAT.restore
    )
    return liar.encode(counts)


def test_odds_keep_what_probabilities_lose() -> None:
    scores = np.array([[0.0, -800.0], [60.0, 0.0], [1.0, 1.0], [0.3, -0.2]])
    found = odds(scores, "averaged")
    assert found[0].tolist() == [np.inf, 0.0]
    assert found[1] == pytest.approx(np.exp([60.0, -60.0]), rel=1e-14)
    p = probabilities(scores, "averaged")
    assert p.sum(axis=1) == pytest.approx(1.0)
    assert found[2:] / (1 + found[2:]) == pytest.approx(p[2:], rel=1e-14)
    line = np.linspace(-699, 0, 10_001)
    assert exponential(line) == pytest.approx(np.exp(line), rel=4e-16)


def test_a_policy_applies_to_counts(answered: Answered) -> None:
    counts = safle.evaluate(*answered)
    Policy(least_samples=counts.sample_count).check(Release.of(counts))
    with pytest.raises(PolicyRefused, match="least_per_class"):
        Policy(least_per_class=300).check(Release.of(counts))
    with pytest.raises(PolicyRefused, match="mode"):
        Policy(mode="masked").check(Release.of(counts))


def test_under_masks_the_sum_is_the_same(answered: Answered) -> None:
    model, features, labels = answered
    parts = [safle.evaluate(model, features[at::3], labels[at::3]) for at in range(3)]
    zero = safle.Evaluation.empty(model.digest, model.class_names)
    clients = {f"site-{at}": lambda part=part: part for at, part in enumerate(parts)}
    pooled = safle.evaluate(model, features, labels)
    assert add_privately(zero, 400, clients) == pooled
    with pytest.raises(EncoderMismatch):
        add_privately(replace(zero, model="0" * 64), 400, clients)


def test_more_samples_than_the_round_allows_are_refused_under_masks(answered: Answered) -> None:
    """Three sites of 90, where the round allows 250: one byte would hold 14 of 270."""
    model, features, labels = answered
    site = safle.evaluate(model, features[:90], labels[:90])
    zero = safle.Evaluation.empty(model.digest, model.class_names)
    clients = {f"site-{at}": lambda: site for at in range(3)}
    with pytest.raises(CountOverflow, match="270 samples; the round allows 250"):
        add_privately(zero, 250, clients)


def test_a_page_shows_all_and_asks_no_host(answered: Answered) -> None:
    counts = safle.evaluate(*answered)
    names = ("<script>", *(f"class {at}" for at in range(1, len(counts.class_names))))
    counts = replace(counts, class_names=names)
    figures = safle.Figures.of(counts)
    page = EvaluationReport(counts, {"<b>": counts}).to_html()
    assert "<script" not in page
    assert "<b>" not in page
    assert "&lt;script&gt;" in page
    assert "http" not in page
    assert page.count("<polyline") == 2 * (1 if len(names) == 2 else len(names))
    assert page.count(f"{figures.macro_auc.value:.3f}<small>") >= 2


def test_a_report_says_what_the_most_frequent_class_reaches_and_which_is_never_predicted() -> None:
    bins = np.zeros((2, 2, 1024), np.int64)
    bins[0, :, 600] = bins[1, ::-1, 423] = 7, 93
    confidence = np.zeros((2, 1024), np.int64)
    confidence[:, 600] = 7, 93
    confusion = np.array([[93, 0], [7, 0], [0, 0]])
    counts = safle.Evaluation("0" * 64, ("<well>", "ill"), confusion, bins, confidence)
    report = EvaluationReport(counts)
    assert report.facts()["always the most frequent class"] == "93.00%"
    assert report.facts()["never predicted"] == "ill"
    assert report.to_json()["always_most_frequent_class"] == 0.93
    assert report.to_json()["never_predicted"] == ["ill"]
    assert "accuracy of 0.930. Never predicted: ill." in report.to_html()
    both = replace(counts, confusion=np.array([[92, 1], [6, 1], [0, 0]]))
    assert "never predicted" not in EvaluationReport(both).facts()


def test_rare_classes_that_are_hardly_found_are_named() -> None:
    bins = np.zeros((2, 2, 1024), np.int64)
    bins[0, :, 600] = bins[1, ::-1, 423] = 7, 93
    confidence = np.zeros((2, 1024), np.int64)
    confidence[:, 600] = 7, 93
    few = np.array([[92, 1], [6, 1], [0, 0]])
    counts = safle.Evaluation("0" * 64, ("fit", "ill"), few, bins, confidence)
    assert EvaluationReport(counts).facts()["hardly found"] == "ill (1 of 7)"
    half = replace(counts, confusion=np.array([[89, 4], [3, 4], [0, 0]]))
    assert not EvaluationReport(half).hardly_found
    assert "hardly found" not in EvaluationReport(half).facts()


def test_the_areas_under_the_curves_of_a_page_are_its_figures(answered: Answered) -> None:
    counts = safle.evaluate(*answered)
    lines = re.findall('<polyline points="([^"]*)"', EvaluationReport(counts).to_html())
    curves = [np.array([point.split(",") for point in line.split()], float) for line in lines]
    area = [np.trapezoid(1 - y / SIDE, x / SIDE) for x, y in (curve.T for curve in curves)]
    figures, drawn = safle.Figures.of(counts), len(area) // 2
    assert np.mean(area[:drawn]) == pytest.approx(figures.macro_auc.value, abs=0.003)
    for curve in curves[drawn:]:
        assert curve[0].tolist() == [0, 0]
        assert curve[-1][0] == SIDE
