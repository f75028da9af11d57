"""A site's policy over the network: it refuses, and only the rule's name travels."""

from __future__ import annotations

from flower_support.clients import node_with_airlock, site_app
from safle_flower.adapter import InProcessGrid
from safle_flower.server import serve
from safle_flower.settings import Run


def test_a_policy_refuses_and_only_its_rule_travels(federation, tmp_path):
    (tmp_path / "strict.toml").write_text('mode = "masked"')
    (tmp_path / "broken.toml").write_text("modes = 1")
    policies = {"a": tmp_path / "strict.toml", "b": tmp_path / "broken.toml"}
    nodes = []
    for name in federation.names:
        words = ["--policy", policies[name]] if name in policies else []
        nodes.append(node_with_airlock(tmp_path, name, federation.table(name), *words))
    config = {
        "store": str(tmp_path / "store"),
        "output": str(tmp_path / "results"),
        "encoder": str(federation.encoder_path),
        "clients": len(nodes),
        "deadline": 600.0,
    }
    report = serve(InProcessGrid(site_app, nodes, Run().to_flat()), Run.from_flat(config))
    rows = {row.client: row for row in report.clients}
    refused, broken = (rows[name] for name in federation.names[:2])
    assert (refused.status, refused.reason) == ("failed", "its policy refuses: mode")
    # A policy that cannot be read lets nothing out.
    assert broken.status == "failed"
    assert broken.reason == "SettingsError; its own log says more"
    assert sorted(report.accepted) == sorted(federation.names[2:])
    model = (tmp_path / "results" / "model.safetensors").read_bytes()
    assert model == federation.by_files(federation.names[2:], tmp_path)
