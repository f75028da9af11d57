"""The paper's own figures (paper.toml) beside ours, and remarks on what differs and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from safle.basics import parse_toml
from safle_lab.baselines import METHODS
from safle_lab.report.rows import Result, Rows, distinct


@dataclass(frozen=True)
class Paper:
    """The paper's figures for one of its data sets; for any other it has none.

    Attributes
    ----------
    figures : the data set's tables of paper.toml
    """

    dataset: str = ""
    figures: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Paper:
        """The paper's figures for the data that results are about."""
        dataset = _recognise(set(data["classes"]), f"{data['name']} {data['source']}".lower())
        if not dataset:
            return cls()
        text = resources.files(__package__).joinpath("paper.toml").read_text("utf-8")
        return cls(dataset, parse_toml(text, "paper.toml")[dataset])

    def table1(self, method: str, scenario: str) -> float | None:
        """Accuracy of a method in a scenario, in percent."""
        iterative = self._table("iterative").get(scenario, {})
        return self._table("analytic").get(method, iterative.get(method))

    def bucketing(self, strategy: str, buckets: int) -> float | None:
        """Accuracy of a way of bucketing, in percent."""
        accuracy: float | None = self._table("bucketing").get(strategy, {}).get(str(buckets))
        return accuracy

    def backbones(self) -> Rows:
        """Accuracies of AFL and SAFLe on other backbones, in percent."""
        return [{"name": name, **line} for name, line in self._table("backbones").items()]

    def _table(self, name: str) -> Mapping[str, Any]:
        return self.figures.get(name, {})


def _recognise(classes: set[str], words: str) -> str:
    """The name of the paper's data set with these classes; "" for any other."""
    if len(classes) == 10 and {"airplane", "frog", "truck"} <= classes:
        return "CIFAR-10"
    if len(classes) == 100 and "cifar" in words:
        return "CIFAR-100"
    return "Tiny-ImageNet" if len(classes) == 200 and "tiny" in words else ""


REMARKS: dict[str, dict[str, str]] = {
    "table1": {
        "analytic": "Analytic methods are computed anew in every scenario; equal bytes mean that "
        "the partition of the samples made no difference.",
        "AFL": "The paper took its baselines' figures from other papers, with other preprocessing; "
        "here all methods see the same features.",
        "MOON": "MOON trains a head with a hidden layer, without which its term is constant.",
    },
    "bucketing": {
        "": "The paper does not say how large its groups were. Here they are the largest that keep "
        "the column limit, and the ridge is chosen from the counts: both soften the fall with B_n "
        "that the paper reports for integer and one-hot bucketing.",
    },
    "rounds": {
        "": "One round is one exchange with those who take part.",
        "SAFLe": "SAFLe's thresholds come from histograms that clients send beforehand; they hold "
        "no labels and are counted in its bytes.",
    },
    "communication": {
        "": "Bytes are the sizes of safetensors files with what the methods' papers send; "
        "symmetric matrices are sent as one triangle.",
        "SAFLe": "SAFLe's bytes are the sizes of its files: a client sends statistics and a "
        "histogram, and receives the encoder and the model.",
    },
    "sparsity": {"": "L is an integer, so E·V is near the target and not equal to it."},
    "noise": {
        "": "The paper's noise experiment is on ISIC 2019, another data set: its figures are not "
        "comparable.",
        "pair-flip": "Pair-flip noise above one half makes the wrong class the likelier one.",
        "client-dependent": "Where noise is client-dependent, ρ is the share of noisy clients, "
        "each with a rate of its own from one half to one.",
    },
    "ridge": {
        "": "The best ridge on the curve was chosen on the test set, and is shown for comparison "
        "only.",
    },
}
"""Experiment -> what its rows must hold (a method, a kind of method or of noise) -> remark."""


def remarks_on(result: Result) -> list[str]:
    """The remarks that apply to an experiment's results."""
    rows = result["rows"]
    titles = distinct(rows, "method")
    kinds = [method.kind for method in METHODS.values() if method.title in titles]
    present = {"", *titles, *kinds, *distinct(rows, "noise")}
    if len(distinct(result["summary"], "scenario")) < 2:
        # The remark on analytic methods compares scenarios.
        present.discard("analytic")
    remarks = REMARKS.get(result["experiment"], {})
    protocols = _protocol_remarks(rows) if result["experiment"] == "table1" else []
    return [text for needed, text in remarks.items() if needed in present] + protocols


def _protocol_remarks(rows: Rows) -> list[str]:
    """How the iterative methods were trained, for every protocol that occurs."""
    methods: dict[str, list[str]] = {}
    for row in rows:
        used = row.get("settings", {})
        if "participation" in used:
            epochs = "1 local epoch" if used["epochs"] == 1 else f"{used['epochs']} local epochs"
            text = (
                f"{used['rounds']} rounds with {used['participation']:.0%} of the clients in each, "
                f"{epochs}, batches of {used['batch']}"
            )
            methods.setdefault(text, []).append(row["method"])
    return [f"{', '.join(dict.fromkeys(names))}: {text}." for text, names in methods.items()]
