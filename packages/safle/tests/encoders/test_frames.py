"""Frames of pandas, polars and pyarrow: columns are matched by name, and nothing is guessed."""

from __future__ import annotations

import numpy as np
import pytest

from safle import (
    DeclaredRange,
    Grid,
    Histogram,
    Model,
    PublicSample,
    SafleClassifier,
    count,
    make_encoder,
    solve,
)
from safle.errors import InvalidInput, SafleWarning

NAMES = ("age", "dose", "pulse")
ROWS = np.random.default_rng(0).uniform(0, 100, (60, 3))
LABELS = np.where(ROWS[:, 1] > 50, "ill", "well")
ENCODER = make_encoder(DeclaredRange([0] * 3, [100] * 3, names=NAMES), "linear")


def frame_of(library, names=NAMES, rows=ROWS):
    module = pytest.importorskip(library)
    columns = {name: rows[:, NAMES.index(name)] for name in names}
    return module.table(columns) if library == "pyarrow" else module.DataFrame(columns)


libraries = pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])


@libraries
def test_columns_are_matched_by_name_everywhere(library):
    turned = frame_of(library, NAMES[::-1])
    assert np.array_equal(ENCODER.encode(turned).dense, ENCODER.encode(ROWS).dense)
    total = count(ENCODER, ROWS, LABELS)
    assert count(ENCODER, turned, LABELS) == total
    model = Model(ENCODER, solve(total, ridge=1.0))
    assert np.array_equal(model.decision_function(turned), model.decision_function(ROWS))
    classifier = SafleClassifier(encoder=ENCODER, ridge=1.0).fit(turned, LABELS)
    assert classifier.statistics_ == total
    for given in (turned, frame_of(library)):
        assert np.array_equal(classifier.predict(given), model.predict(ROWS))


@libraries
def test_missing_and_unknown_columns_are_refused(library):
    with pytest.raises(InvalidInput, match="missing columns: pulse"):
        count(ENCODER, frame_of(library, NAMES[:2]), LABELS)
    with pytest.raises(InvalidInput, match="missing columns: pulse"):
        SafleClassifier(encoder=ENCODER).fit(frame_of(library, NAMES[:2]), LABELS)
    more = frame_of(library)
    extra = make_encoder(DeclaredRange([0] * 2, [100] * 2, names=NAMES[:2]), "linear")
    with pytest.raises(InvalidInput, match=r"does not know: pulse.*drop them"):
        count(extra, more, LABELS)


@libraries
def test_names_come_from_the_frame_that_calibrates(library):
    sample = PublicSample(frame_of(library))
    assert sample.names == NAMES
    assert Histogram.of(frame_of(library), Grid(0, 100)).names == NAMES
    fitted = SafleClassifier(encoder="linear").fit(frame_of(library), LABELS)
    if library != "pyarrow":
        # scikit-learn knows no names of pyarrow's columns.
        assert fitted.encoder_.feature_names == NAMES


@libraries
def test_an_encoder_without_names_warns(library):
    plain = make_encoder(DeclaredRange(0, 100, feature_dim=3), "linear")
    with pytest.warns(SafleWarning, match="taken by position"):
        count(plain, frame_of(library), LABELS)


def test_text_is_refused_with_the_name_of_its_column():
    polars = pytest.importorskip("polars")
    frame = frame_of("polars").with_columns(dose=polars.lit("two"))
    with pytest.raises(InvalidInput, match="column 'dose' holds something else than numbers"):
        count(ENCODER, frame, LABELS)


def test_numbered_columns_are_an_array():
    pandas = pytest.importorskip("pandas")
    assert count(ENCODER, pandas.DataFrame(ROWS), LABELS) == count(ENCODER, ROWS, LABELS)
