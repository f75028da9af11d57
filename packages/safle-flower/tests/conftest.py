"""Federations for the tests of this package."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flower_support.federation import Federation


@pytest.fixture(scope="session")
def federation(tmp_path_factory) -> Federation:
    """Five unequal clients; the first three are those of a small federation."""
    sizes = {"a": 20, "b": 50, "c": 60, "d": 40, "e": 30}
    return Federation.made(tmp_path_factory.mktemp("federation"), "table", sizes)


@pytest.fixture
def crowd(tmp_path) -> Callable[[int, int], Federation]:
    """``crowd(clients, samples)``: a federation of many alike, in a folder of its own."""
    return lambda clients, samples: Federation.made(
        tmp_path, "embedding", {f"client-{number:04}": samples for number in range(clients)}
    )
