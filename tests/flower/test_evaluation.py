"""The second message: clients evaluate the model on tables of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

import safle
from safle.errors import SettingsError
from safle.federation.flower.adapter import InProcessGrid
from safle.federation.flower.apps import client_app
from safle.federation.flower.server import serve
from safle.federation.flower.settings import Run
from tests.support.data_sets import fixed_data

CLIENTS = "abc"


@pytest.fixture
def nodes(tmp_path: Path) -> list[dict[str, Any]]:
    """Three nodes, each with a table to count and one to test on."""
    data = fixed_data("linear")
    data.encoder.save(tmp_path / "encoder.safetensors")
    nodes = []
    for at, name in enumerate(CLIENTS):
        for kind, part in (("features", slice(at, 60, 3)), ("test", slice(60 + at, None, 3))):
            np.savez(
                tmp_path / f"{name}-{kind}.npz",
                features=data.features[part],
                labels=np.asarray(data.labels)[part],
            )
        paths = {kind: str(tmp_path / f"{name}-{kind}.npz") for kind in ("features", "test")}
        nodes.append({"client": name, **paths})
    return nodes


def run_round(folder: Path, nodes: list[dict[str, Any]], **settings: Any) -> Any:
    config = {
        "encoder": str(folder / "encoder.safetensors"),
        "store": str(folder / "store"),
        "output": str(folder / "output"),
        "clients": len(nodes),
        "evaluate": True,
        "deadline": 60.0,
        **settings,
    }
    return serve(InProcessGrid(client_app, nodes, Run().to_flat()), Run.from_flat(config))


def test_counts_come_after_the_model_and_add_up(tmp_path: Path, nodes: Any) -> None:
    report = run_round(tmp_path, nodes)
    assert [row.status for row in report.evaluation] == ["accepted"] * 3
    model = safle.load_model(tmp_path / "output/model.safetensors")
    data = fixed_data("linear")
    pooled = safle.evaluate(model, data.features[60:], np.asarray(data.labels)[60:])
    assert safle.read_evaluation(tmp_path / "output/evaluation.eval") == pooled
    page = (tmp_path / "output/evaluation.html").read_text()
    assert all(f"<th>{name}</th>" in page for name in CLIENTS)


def test_a_policy_and_a_missing_table_leave_the_model_as_it_is(tmp_path: Path, nodes: Any) -> None:
    (tmp_path / "policy.toml").write_text("least_samples = 20\n")
    # 20 samples were counted, and fewer are left to test on.
    short = np.load(nodes[0]["test"])
    np.savez(nodes[0]["test"], features=short["features"][:19], labels=short["labels"][:19])
    nodes[0]["policy"] = str(tmp_path / "policy.toml")
    del nodes[1]["test"]
    report = run_round(tmp_path, nodes)
    verdicts = {row.client: (row.status, row.reason) for row in report.evaluation}
    assert verdicts["a"] == ("failed", "its policy refuses: least_samples")
    assert verdicts["b"][1].startswith("SettingsError")
    assert verdicts["c"][0] == "accepted"
    assert (tmp_path / "output/model.safetensors").exists()
    assert report.model


def test_a_private_round_asks_for_no_plain_counts(tmp_path: Path, nodes: Any) -> None:
    with pytest.raises(SettingsError, match="evaluate"):
        run_round(tmp_path, nodes, round="r.private", operator="o.pub")
