"""Blocks of layouts, in few words."""

from __future__ import annotations

from safle.encoders.codes import Block


def dense(low: int, high: int, *, scale: int = 1, columns: int = 1, **more) -> Block:
    """Dense columns of these limits."""
    return Block("linear", columns, scale=scale, low=low, high=high, **more)


def constant(scale: int = 1, **more) -> Block:
    """A constant column."""
    return dense(scale, scale, scale=scale, **more)
