"""A solve that fails after a round: the report says whose contribution it was."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flower_support.federation import Federation
from flower_support.rounds import Deployment, with_data
from safle.encoders import LinearEncoder
from safle.errors import SolveError
from safle.statistics import count
from safle.statistics.gram import Triangle
from safle.tables import open_table, write_table
from safle.wire import encode_statistics

TINY = "1e-9"


@pytest.fixture
def twins(tmp_path):
    """Three clients whose second feature repeats the first, in many bits."""
    encoder = LinearEncoder([0.0] * 3, [1.0] * 3, fraction_bits=12)
    encoder.save(tmp_path / "encoder.safetensors")
    generator = np.random.default_rng(0)
    for name in "abc":
        features = generator.normal(size=(100, 3))
        features[:, 1] = features[:, 0]
        write_table(tmp_path / f"{name}.npz", features, generator.integers(0, 2, 100))
    return Federation(tmp_path, ("a", "b", "c"))


def impossible(federation, name):
    """Two equal columns whose product is one more than their squares."""
    table = open_table(federation.table(name))
    statistics = count(federation.encoder, table.features, table.labels)
    packed = statistics.gram.packed.copy()
    packed[1] += 1
    return encode_statistics(replace(statistics, gram=Triangle(packed, statistics.dim)))


def test_sums_that_no_data_have_are_refused_before_anything_is_solved(twins, tmp_path):
    deployment = Deployment(twins, tmp_path)
    mischief = {"b": with_data(impossible(twins, "b"))}
    report = deployment.run(twins.names, mischief, ridge=TINY)
    found = {row.client: row.status for row in report.clients}
    assert found == {"a": "accepted", "b": "refused", "c": "accepted"}


def test_a_contribution_that_breaks_in_the_store_is_named(twins, tmp_path, monkeypatch):
    def break_and_fail(*_arguments, **_options):
        for path in (tmp_path / "store" / "contributions").iterdir():
            path.write_bytes(path.read_bytes()[:-1])
        raise SolveError("no convergence")

    monkeypatch.setattr("safle_flower.server.solve", break_and_fail)
    with pytest.raises(SolveError, match=r"^no convergence; .*the contribution of 'a' is damaged"):
        Deployment(twins, tmp_path).run(["a"])
