"""A model's answers on a labelled table, for commands that show them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from safle.cli.reading import advancing, open_matching
from safle.cli.session import Advance
from safle.errors import InvalidInput
from safle.model import Model
from safle.site.counting import Counts, evaluate_blocks
from safle.statistics.evaluation import Evaluation


def score(
    model: Model, path: Path, batch: int, advance: Advance, **selection: Any
) -> Counts[Evaluation]:
    """Counts of a model's answers on a labelled table."""
    # What does not say is let pass here: nothing is added to anyone's sum.
    table = open_matching(model.encoder, path, trusted=True, **selection)
    counts = evaluate_blocks(model, advancing(table, batch, advance), table.weights, where=path)
    if not counts.total.sample_count:
        raise InvalidInput(f"{path}: has no samples; nothing can be evaluated")
    return counts
