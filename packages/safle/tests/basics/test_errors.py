"""Errors are made again where a cluster's work is fetched."""

from __future__ import annotations

import copy

import pytest

from safle.errors import MissingExtra, PolicyRefused, TableError


@pytest.mark.parametrize(
    "error",
    [
        MissingExtra("onnx", "safle[onnx]", "exporting"),
        PolicyRefused("too few", rule="least_cell"),
        TableError("a.csv: line 7 has no label", line=7),
    ],
)
def test_an_error_that_is_made_again_is_the_same(error: Exception) -> None:
    again = copy.copy(error)
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)
    assert "onnx" in str(again) or not isinstance(again, MissingExtra)
