"""At the Python prompt: what objects say they are, saving and loading, arguments mixed up."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import safle
from safle.statistics.histogram import Histogram

FEATURES = np.random.default_rng(0).normal(size=(40, 3))
LABELS = np.where(FEATURES[:, 0] > 0, "ill", "well")
ENCODER = safle.make_encoder(safle.declared_moments(np.zeros(3), np.ones(3)), units=8)
STATISTICS = safle.count(ENCODER, FEATURES, LABELS)
SOLUTION = safle.solve(STATISTICS)
MODEL = safle.Model.of(ENCODER, SOLUTION)
HISTOGRAM = safle.Histogram.empty(-3, 3, FEATURES.shape[1], bins=4).count(FEATURES)
WIDE = np.zeros(2_000)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (ENCODER, "3 features, 12 columns, fingerprint"),
        (safle.make_encoder(safle.declared_moments(WIDE, WIDE), "table"), "2,000 features"),
        (STATISTICS, "40 samples, 2 classes, 12 columns, encoder"),
        (safle.Accumulator(ENCODER), "0 samples, 0 classes"),
        (SOLUTION, "40 samples, 2 classes, 12 columns, averaged head, ridge"),
        (MODEL, "2 classes, 12 columns, averaged head, ridge"),
        (HISTOGRAM, "40 samples, 4 bins over -3 to 3, 3 features"),
        (safle.declared_moments(WIDE, WIDE), "2,000 features"),
        (safle.declared_range(0, 1, 2_000), "2,000 features"),
        (safle.public_sample(FEATURES), "<Calibration: 3 features>"),
        (safle.SafleClassifier(encoder=ENCODER), "fingerprint"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_reprs_are_short(value, said):
    shown = repr(value)
    assert said in shown
    assert type(value).__name__ in shown
    assert len(shown) < 160
    assert "\n" not in shown
    assert " object at 0x" not in shown


MIXED_UP = {
    "encoder is a ndarray; expected Encoder": lambda: safle.count(FEATURES, ENCODER, LABELS),
    "encoder is a str; expected Encoder": lambda: safle.count("e.safetensors", FEATURES, LABELS),
    "encoder is a Solution; expected Encoder": lambda: safle.Model.of(SOLUTION, ENCODER),
    "solution is a Statistics; expected Solution": lambda: safle.Model.of(ENCODER, STATISTICS),
    "statistics is a RandomFeatureEncoder": lambda: safle.solve(ENCODER),
    "read": lambda: safle.solve("total.stats"),
    "sum_statistics": lambda: safle.solve([STATISTICS]),
    "a str cannot be written": lambda: safle.write(STATISTICS, "x.stats"),
    "contributions is a Statistics": lambda: safle.sum_statistics(STATISTICS),
    "contribution is a Histogram": lambda: safle.sum_statistics([STATISTICS, HISTOGRAM]),
    "encoder is a ndarray": lambda: safle.Accumulator(FEATURES),
    "expected Calibration: public_sample": lambda: safle.make_encoder(FEATURES),
    "unknown encoder kind": lambda: safle.make_encoder("linear", safle.declared_range(0, 1, 2)),
    "encoder is a Statistics": lambda: safle.SafleClassifier.from_statistics(STATISTICS, ENCODER),
    "features have shape": lambda: MODEL.predict("new.csv"),
}


@pytest.mark.parametrize("said", MIXED_UP)
def test_arguments_in_the_wrong_place_are_typed_errors(said):
    with pytest.raises(safle.SafleError, match=said):
        MIXED_UP[said]()


def test_a_file_of_another_kind_is_a_typed_error_for_every_reader(tmp_path):
    writers = {
        safle.load_encoder: ENCODER.save,
        safle.load_model: MODEL.save,
        partial(safle.read, value_type=Histogram): lambda path: safle.write(path, HISTOGRAM),
        safle.read: lambda path: safle.write(path, STATISTICS),
        None: lambda path: path.write_text("age,label\n7,ill\n"),
    }
    for at, (own, write) in enumerate(writers.items()):
        path = tmp_path / f"{at}.file"
        write(path)
        for reader in filter(None, writers):
            if reader is own:
                reader(path)
            else:
                with pytest.raises(safle.SafleError, match=str(path)):
                    reader(path)


def test_solve_logs_on_request(caplog):
    caplog.set_level("INFO", "safle")
    solution = safle.solve(STATISTICS)
    assert [(r.name, r.getMessage()) for r in caplog.records] == [
        ("safle.solver.solving", f"solved: {solution!r}")
    ]
