"""Several tables of a site: each is opened where it is counted, and named in what is said."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from safle import LinearEncoder, Table, declared_range
from safle.errors import InvalidInput, SafleWarning
from safle.site.counting import count_table
from safle.site.policy import Policy
from safle.site.release import Release
from safle.site.shards import count_shards

ENCODER = LinearEncoder.calibrated(declared_range(0, 1, feature_dim=1))
FIRST = Table(np.array([[0.1], [0.9], [0.5]]), np.array(["ill", "well", "ill"]))
SECOND = Table(np.array([[0.1], [0.2]]), np.array(["ill", "unknown"]))
EMPTY = Table(np.empty((0, 1)), np.array([], dtype=str))
NUMBERED = Table(np.array([[0.3]]), np.array([1]))


def test_shards_have_the_bytes_of_one_table_also_where_one_is_empty() -> None:
    shards = [EMPTY, FIRST, EMPTY, SECOND]
    features = np.concatenate([shard.features for shard in shards])
    whole = Table(features, np.array(["ill", "well", "ill", "ill", "unknown"]))
    found = count_shards(ENCODER, shards, lambda shard: shard, least_cell=1)
    assert found == count_table(ENCODER, whole, where="whole", least_cell=1)
    total, rows, _ = found
    assert (total.sample_count, rows.sample_count) == (5, 4)


def test_a_shard_with_labels_of_another_type_is_named() -> None:
    shards = {"a.csv": FIRST, "b.csv": NUMBERED}
    with pytest.raises(InvalidInput, match=r"^b\.csv: .*int, str"):
        count_shards(ENCODER, [*shards], shards.__getitem__)


def test_a_warning_names_its_shard_once_also_where_rows_repeat() -> None:
    """A shard whose rows repeat those of another is opened again."""
    shards = {"a.csv": FIRST, "b.csv": SECOND}

    def open_shard(name: str) -> Table:
        warnings.warn(f"{'a.csv: ' if name == 'a.csv' else ''}odd", SafleWarning, stacklevel=1)
        return shards[name]

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SafleWarning)
        _, rows, _ = count_shards(ENCODER, [*shards], open_shard, least_cell=1)
    assert rows.sample_count == 4
    assert [str(warning.message) for warning in caught] == ["a.csv: odd", "b.csv: odd"]


def test_cells_of_one_sample_are_let_out_where_one_is_enough() -> None:
    """No set of fewer samples than one is looked for, nor has any weight."""
    features = np.random.default_rng(0).random((40, 1))
    table = Table(features, np.array(["ill", "well"] * 20))
    total, rows, disguises = count_shards(ENCODER, [table], lambda shard: shard, least_cell=1)
    assert total.sample_count == rows.sample_count == 40
    assert disguises is not None
    assert disguises.few == 0.0 < disguises.weight < 0.5
    kept = Release.of(total, "", rows, disguises)
    assert all(good for _, good, _ in Policy(least_cell=1).judge(kept))
