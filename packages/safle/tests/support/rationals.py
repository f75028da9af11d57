"""Linear algebra over the rational numbers, by the book."""

from __future__ import annotations


def rank_of(rows):
    """The rank of rows of fractions."""
    rows, rank = [row[:] for row in rows], 0
    for column in range(len(rows[0]) if rows else 0):
        pivot = next((at for at in range(rank, len(rows)) if rows[at][column]), None)
        if pivot is None:
            continue
        rows[rank], rows[pivot] = rows[pivot], rows[rank]
        for at in range(rank + 1, len(rows)):
            factor = rows[at][column] / rows[rank][column]
            rows[at] = [a - factor * b for a, b in zip(rows[at], rows[rank], strict=True)]
        rank += 1
    return rank
