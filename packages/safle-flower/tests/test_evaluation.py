"""The second message: clients evaluate the model on tables of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

import safle
from flower_support.clients import node_with_airlock, serve_sites
from safle import encode, open_table
from safle.errors import EncoderMismatch, SettingsError
from safle.evaluation.counts import Evaluation
from safle.server.limits import Limits
from safle.tables.schema import Column, Schema
from safle.wire import container
from safle_flower.tasks import EvaluationTask
from support.data_sets import fixed_data

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
        paths = [tmp_path / f"{name}-{kind}.npz" for kind in ("features", "test")]
        nodes.append(node_with_airlock(tmp_path, name, paths[0], "--test", paths[1]))
    return nodes


def run_round(folder: Path, nodes: list[dict[str, Any]], **settings: Any) -> Any:
    settings = {"evaluate": True, **settings}
    return serve_sites(folder, folder / "encoder.safetensors", nodes, **settings)[0]


def test_a_site_counts_and_tests_by_its_encoders_schema(tmp_path: Path) -> None:
    schema = Schema((Column("age", 0, 90), Column("sex", levels=("f", "m"))))
    safle.make_encoder(safle.of_schema(schema), "table", units=4).save(
        tmp_path / "encoder.safetensors"
    )
    nodes, repeated = [], []
    for name in CLIENTS:
        path = tmp_path / f"{name}.csv"
        lines = [(2, "31,f,well"), (1, "NA,m,ill"), (3, f"{60 + CLIENTS.index(name)},?,ill")]
        own = [line for n, line in lines for _ in range(n)]
        path.write_text("\n".join(["age,sex,label", *own]))
        repeated += own
        nodes.append(node_with_airlock(tmp_path, name, path, "--test", path))
    report = run_round(tmp_path, nodes)
    assert [row.samples for row in report.clients] == [6] * 3
    assert [row.samples for row in report.evaluation] == [6] * 3
    whole = tmp_path / "whole.csv"
    whole.write_text("\n".join(["age,sex,label", *repeated]))
    encoder = safle.load_encoder(tmp_path / "encoder.safetensors")
    table = open_table(whole, schema=encoder.contract.schema)
    counted = safle.count(encoder, table.features, table.labels)
    total = safle.read(tmp_path / "results/total.stats")
    assert encode(total) == encode(counted)


def test_counts_come_after_the_model_and_add_up(tmp_path: Path, nodes: Any) -> None:
    report = run_round(tmp_path, nodes)
    assert [row.status for row in report.evaluation] == ["accepted"] * 3
    model = safle.load_model(tmp_path / "results/model.safetensors")
    data = fixed_data("linear")
    pooled = safle.evaluate(model, data.features[60:], np.asarray(data.labels)[60:])
    assert safle.read(tmp_path / "results/evaluation.eval", Evaluation) == pooled
    page = (tmp_path / "results/evaluation.html").read_text()
    assert all(f"<th>{name}</th>" in page for name in CLIENTS)


def test_a_policy_and_a_missing_table_leave_the_model_as_it_is(tmp_path: Path, nodes: Any) -> None:
    (tmp_path / "policy.toml").write_text("least_samples = 20\n")
    # 20 samples were counted, and fewer are left to test on.
    short = np.load(tmp_path / "a-test.npz")
    np.savez(tmp_path / "a-test.npz", features=short["features"][:19], labels=short["labels"][:19])
    nodes[0]["site"] += f" --policy {tmp_path / 'policy.toml'}"
    nodes[1]["site"] = str(tmp_path / "b-features.npz")
    report = run_round(tmp_path, nodes)
    verdicts = {row.client: (row.status, row.reason) for row in report.evaluation}
    assert verdicts["a"] == ("failed", "its policy refuses: least_samples")
    assert verdicts["b"] == ("failed", "this site has no data for this question")
    assert verdicts["c"][0] == "accepted"
    assert (tmp_path / "results/model.safetensors").exists()
    assert report.model


def test_a_policy_names_the_encoders_of_models_too(tmp_path: Path, nodes: Any) -> None:
    (tmp_path / "policy.toml").write_text('encoders = ["another"]\n')
    # Counted before there was a policy, and asked for an evaluation under it.
    run_round(tmp_path, nodes, evaluate=False)
    nodes[0]["site"] += f" --policy {tmp_path / 'policy.toml'}"
    verdicts = {row.client: row.reason for row in run_round(tmp_path, nodes).evaluation}
    assert verdicts == {"a": "its policy refuses: encoders", "b": "", "c": ""}


def test_counts_of_another_model_are_not_decompressed(tmp_path: Path, nodes: Any) -> None:
    run_round(tmp_path, nodes)
    model = safle.load_model(tmp_path / "results/model.safetensors")
    task, honest = EvaluationTask(model, Limits()), tmp_path / "results/evaluation.eval"
    assert task.take("a", honest.read_bytes())[0] == 60
    many = container.to_bytes(
        container.EVALUATION,
        {"model": model.digest, "classes": [*range(9_999)], "planes": {}},
        {},
    )
    # Decompressed, it would fail for lack of memory or of sections.
    with pytest.raises(EncoderMismatch, match="answers of model"):
        task.take("b", many)


def test_a_private_round_asks_for_no_plain_counts(tmp_path: Path, nodes: Any) -> None:
    with pytest.raises(SettingsError, match="evaluate"):
        run_round(tmp_path, nodes, round="r.private", operator="o.pub")
