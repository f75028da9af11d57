"""Prediction: scores of 10k samples, against torch's ``nn.EmbeddingBag``.

- ``speedup``: from codes. `Model.decision_function` on ready uint8 symbols against the
  bag's forward on ready int64 indices; making either is not timed.
- ``speedup_from_features``: the whole of `Model.predict` against the same encoding
  followed by the bag: indices, sums, best class.

Where torch is not installed the rival is NumPy: ``tables[indices].sum(axis=1)``.
The default encoder's races are in `benchmarks.default_prediction`; they need torch.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import data, default_prediction
from benchmarks.ready import ReadyCodes
from benchmarks.report import Bar, Disagreement, Outcome
from benchmarks.settings import Settings
from benchmarks.timing import Times, race
from safle import Model, count, solve

FITTED_SAMPLES = 5_000
RIDGE = 1000.0
TOLERANCE = 1e-4
"""Of float32 sums over hundreds of weights below 1."""
REPEATS = 60

Bag = Callable[[NDArray[np.int64]], NDArray[Any]]


def run(settings: Settings) -> Outcome:
    """Race both ways on the test samples."""
    dataset = data.load(settings)
    encoder = data.embedding(dataset.train)
    statistics = count(encoder, *dataset.head(FITTED_SAMPLES))
    model = Model.of(encoder, solve(statistics, ridge=RIDGE, head="least-squares"))
    library, bag = _bag(model.tables)
    codes = _race_codes(model, dataset.test, bag)
    features = _race_features(model, dataset.test, bag)
    speedup = codes.ratio("bag", "safle")
    from_features = features.ratio("bag", "safle")
    figures, bars, rows = default_prediction.run(dataset, quick=settings.quick)
    return Outcome(
        figures={
            "speedup": speedup,
            "speedup_from_features": from_features,
            "rival": library,
            "samples": len(dataset.test),
            "samples_per_second": len(dataset.test) / features.best("safle"),
            "seconds": {"codes": codes.to_json(), "features": features.to_json()},
            "spread": {"codes": codes.spread(), "features": features.spread()},
            **figures,
        },
        data=dataset.source,
        compared=f"scores within {TOLERANCE:g}, classes exactly unless tied within that",
        bars=[
            Bar(f"prediction: speed over {library}, from codes", speedup, 1.0),
            Bar(f"prediction: speed over {library}, from features", from_features, 1.0),
            *bars,
        ],
        tables={"Prediction, default encoder": rows},
    )


def _race_codes(model: Model, features: NDArray[np.float32], bag: Bag) -> Times:
    symbols, layout = model.encoder.encode(features).symbols, model.encoder.layout
    ready = ReadyCodes(symbols, layout.table_sizes.tolist())
    dressed = copy.copy(model)
    dressed.encoder = ready
    ours = partial(dressed.decision_function, ready.numbers)
    theirs = partial(bag, symbols + layout.bases[:-1])
    return race(("safle", ours), {"bag": theirs}, same=_same, repeats=REPEATS)


def _race_features(model: Model, features: NDArray[np.float32], bag: Bag) -> Times:
    names, bases = np.array(model.class_names), model.encoder.layout.bases[:-1]
    scores = model.decision_function(features)

    def theirs() -> NDArray[Any]:
        indices = model.encoder.encode(features).symbols + bases
        best: NDArray[Any] = names[np.argmax(bag(indices), axis=1)]
        return best

    def same(found: NDArray[Any], expected: NDArray[Any]) -> None:
        if (found != expected)[_margin(scores) > TOLERANCE].any():
            raise Disagreement("prediction: the classes differ")

    return race(
        ("safle", partial(model.predict, features)), {"bag": theirs}, same=same, repeats=REPEATS
    )


def _bag(tables: NDArray[np.float32]) -> tuple[str, Bag]:
    try:
        import torch
    except ImportError:
        return "numpy", lambda indices: tables[indices].sum(axis=1)
    module = torch.nn.EmbeddingBag.from_pretrained(torch.from_numpy(tables), mode="sum")

    def forward(indices: NDArray[np.int64]) -> NDArray[Any]:
        with torch.inference_mode():
            scores: NDArray[Any] = module(torch.from_numpy(indices)).numpy()
        return scores

    return "nn.EmbeddingBag", forward


def _margin(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far the best class is ahead of the second."""
    ordered = np.sort(scores, axis=1)
    margin: NDArray[np.float64] = ordered[:, -1] - ordered[:, -2]
    return margin


def _same(found: NDArray[Any], expected: NDArray[np.float64]) -> None:
    if np.abs(found - expected).max() > TOLERANCE:
        raise Disagreement("prediction: the scores differ")
