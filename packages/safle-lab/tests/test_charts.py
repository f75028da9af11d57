"""Charts are drawn with any names, or not at all."""

from __future__ import annotations

import re
from html import unescape

import pytest

from safle_lab.charts import Chart, Mix, Series, draw


@pytest.mark.parametrize("name", [r"$\frac{$", "$", "a$b$c", r"\$x$", "_hidden", "two\nlines"])
def test_names_are_shown_as_they_are_and_never_read_as_formulas(name: str) -> None:
    bars = Mix("bars", [[1, 0], [0, 1]], [name, "other"])
    lines = Chart("lines", "x", "y", [Series(n, [1, 2], [1, 2]) for n in (name, "other")])
    for block in (bars, lines):
        texts = re.findall(r"<text [^>]*>([^<]*)</text>", draw(block, "a").content)
        assert name.replace("\n", "�") in map(unescape, texts)
