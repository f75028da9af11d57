"""The paper's own figures (paper.toml), to be set beside ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from safle.basics import parse_toml


@dataclass(frozen=True)
class Paper:
    """The paper's figures for one of its data sets; for any other it has none.

    Attributes
    ----------
    analytic : method -> accuracy, in percent
    iterative, bucketing : (method, scenario) and (strategy, buckets) -> accuracy
    backbones : name -> AFL and SAFLe
    """

    dataset: str = ""
    analytic: Mapping[str, float] = field(default_factory=dict)
    iterative: Mapping[tuple[str, str], float] = field(default_factory=dict)
    bucketing: Mapping[tuple[str, int], float] = field(default_factory=dict)
    backbones: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Paper:
        """For the data that results are about."""
        dataset = _recognise(set(data["classes"]), f"{data['name']} {data['source']}".lower())
        if not dataset:
            return cls()
        text = resources.files(__package__).joinpath("paper.toml").read_text("utf-8")
        figures = parse_toml(text, "paper.toml")
        own = figures[dataset]
        return cls(
            dataset,
            own["analytic"],
            {
                (method, scenario): accuracy
                for scenario, line in own["iterative"].items()
                for method, accuracy in zip(figures["iterative"], line, strict=True)
            },
            {
                (strategy, buckets): accuracy
                for strategy, line in own["bucketing"].items()
                for buckets, accuracy in zip(figures["buckets"], line, strict=True)
            },
            {name: (afl, safle) for name, (afl, safle) in own["backbones"].items()},
        )

    def table1(self, method: str, scenario: str) -> float | None:
        """Accuracy of a method in a scenario, in percent."""
        return self.analytic.get(method, self.iterative.get((method, scenario)))


def _recognise(classes: set[str], words: str) -> str:
    """Which of the paper's data sets these classes are of."""
    if len(classes) == 10 and {"airplane", "frog", "truck"} <= classes:
        return "CIFAR-10"
    if len(classes) == 100 and "cifar" in words:
        return "CIFAR-100"
    return "Tiny-ImageNet" if len(classes) == 200 and "tiny" in words else ""
