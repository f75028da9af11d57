"""A node's policy over the network: it refuses, and only the rule's name travels."""

from __future__ import annotations

from safle_flower.adapter import InProcessGrid
from safle_flower.apps import client_app
from safle_flower.server import serve
from safle_flower.settings import Run


def test_a_policy_refuses_and_only_its_rule_travels(federation, tmp_path):
    nodes = [{"client": name, "features": str(federation.table(name))} for name in federation.names]
    (tmp_path / "strict.toml").write_text('mode = "masked"')
    (tmp_path / "broken.toml").write_text("modes = 1")
    nodes[0]["policy"] = str(tmp_path / "strict.toml")
    nodes[1]["policy"] = str(tmp_path / "broken.toml")
    config = {
        "store": str(tmp_path / "store"),
        "output": str(tmp_path / "results"),
        "encoder": str(federation.encoder_path),
        "clients": len(nodes),
        "deadline": 600.0,
    }
    report = serve(InProcessGrid(client_app, nodes, Run().to_flat()), Run.from_flat(config))
    rows = {row.client: row for row in report.clients}
    refused, broken = (rows[name] for name in federation.names[:2])
    assert (refused.status, refused.reason) == ("failed", "its policy refuses: mode")
    # A policy that cannot be read lets nothing out.
    assert broken.status == "failed"
    assert broken.reason == "SettingsError; its own log says more"
    assert sorted(report.accepted) == sorted(federation.names[2:])
