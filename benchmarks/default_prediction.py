"""Predictions of the default encoder from features, against torch and our own ONNX export.

- ``default_speedup``: `Model.predict` against torch's Linear-ReLU-Linear of as many units,
  float32, and its best class: not the same function, but what it would be replaced by.
- ``speedup_over_onnx``: against the exported graph in ONNX Runtime, which gives the same
  classes; for all test rows and for one, and for 1,280 features and 600 units as well.

The weights are drawn, not solved: their values take no time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import data
from benchmarks.report import Bar, Disagreement
from benchmarks.timing import Times, race
from safle import Model, make_encoder, public_sample
from safle.model.export import to_onnx
from safle.solver.heads import FittedHead
from safle.solver.solution import Origin

OTHER_DIM, OTHER_UNITS, OTHER_SAMPLES = 1_280, 600, 10_000
REPEATS, ROW_REPEATS = 7, 300
BAR = 2.0

Floats = NDArray[np.float32]
Predict = Callable[[], NDArray[Any]]


def run(dataset: data.Dataset, *, quick: bool) -> tuple[dict[str, Any], list[Bar], list[list[str]]]:
    """Figures, bars, and rows of a table."""
    model = _drawn_model(dataset.test)
    torch_times = _race_torch(model, dataset.test)
    other = data.generated(*((8, 100, 64) if quick else (8, OTHER_SAMPLES, OTHER_DIM))).test
    models = {
        f"{dataset.test.shape[1]} features, 8,192 units": (model, dataset.test),
        "1,280 features, 600 units": (_drawn_model(other, units=OTHER_UNITS), other),
    }
    ratios: dict[str, dict[str, float]] = {}
    rows = [["model", "rows", "safle", "ONNX Runtime", "times faster"]]
    for name, (each, features) in models.items():
        ratios[name] = {}
        for count in (len(features), 1):
            times = _race_onnx(each, features[:count])
            ratios[name][str(count)] = times.ratio("onnx", "safle")
            seconds = [f"{1e3 * times.best(who):.3f} ms" for who in ("safle", "onnx")]
            rows.append([name, str(count), *seconds, f"{times.ratio('onnx', 'safle'):.2f}"])
    slowest = min(ratio for of_model in ratios.values() for ratio in of_model.values())
    speedup = torch_times.ratio("torch", "safle")
    figures = {
        "default_speedup": speedup,
        "speedup_over_onnx": ratios,
        "default_seconds": torch_times.to_json(),
        "default_spread": torch_times.spread(),
    }
    bars = [
        Bar("prediction: speed over torch's Linear-ReLU-Linear, default", speedup, BAR),
        Bar("prediction: speed over our ONNX export, the least of four", slowest, 1.0),
    ]
    return figures, bars, rows


def _drawn_model(features: Floats, **settings: int) -> Model:
    encoder = make_encoder(public_sample(features[: data.PUBLIC_SAMPLES]), **settings)
    generator = np.random.default_rng(0)
    fitted = FittedHead(
        "least-squares",
        1.0,
        generator.standard_normal((encoder.layout.dense_dim, data.CLASSES)),
        generator.standard_normal(data.CLASSES),
    )
    origin = Origin(encoder.space, np.empty(0, np.int64), tuple(range(data.CLASSES)))
    return Model(encoder, origin, fitted)


def _race_torch(model: Model, features: Floats) -> Times:
    import torch

    units = model.encoder.layout.dense_dim - model.encoder.feature_dim - 1
    network = torch.nn.Sequential(
        torch.nn.Linear(features.shape[1], units),
        torch.nn.ReLU(),
        torch.nn.Linear(units, data.CLASSES),
    )
    names = np.array(model.class_names)

    def theirs() -> NDArray[Any]:
        with torch.inference_mode():
            return names[network(torch.from_numpy(features)).argmax(dim=1).numpy()]

    def same(found: NDArray[Any], expected: NDArray[Any]) -> None:
        if found.shape != expected.shape:
            raise Disagreement("prediction: torch's answer has another shape")

    ours = partial(model.predict, features)
    return race(("safle", ours), {"torch": theirs}, same=same, repeats=REPEATS)


def _race_onnx(model: Model, features: Floats) -> Times:
    import onnxruntime

    session = onnxruntime.InferenceSession(
        to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"]
    )

    def theirs() -> NDArray[Any]:
        label: NDArray[Any] = session.run(["label"], {"features": features})[0]
        return label

    def same(found: NDArray[Any], expected: NDArray[Any]) -> None:
        if not np.array_equal(found, expected):
            raise Disagreement("prediction: the exported model gives other classes")

    repeats = ROW_REPEATS if len(features) == 1 else REPEATS
    ours = partial(model.predict, features)
    return race(("safle", ours), {"onnx": theirs}, same=same, repeats=repeats)
