"""Private rounds over Flower: masked contributions, then the keyholders' nodes alone."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from flower_support.clients import node_with_airlock, site_app
from flower_support.serving import RegisteredGrid
from private_support.private_rounds import make_parties
from safle import Model, Statistics, encode, solve, sum_statistics
from safle.errors import FederationError
from safle.site.log import LOG, read_log
from safle_flower.adapter import InProcessGrid
from safle_flower.report import Report
from safle_flower.server import serve
from safle_flower.settings import Run
from safle_private import (
    History,
    KeyholderAnswer,
    PrivateKey,
    PrivateRound,
    PublicKey,
    declare_round,
)
from support.data_sets import fixed_data
from support.tables import write_table

DATA = fixed_data("linear", 40)
PARTS = [DATA.part(np.arange(40) % 4 == at) for at in range(4)]


@pytest.fixture
def federation(tmp_path):
    """Everybody's files, a run and the nodes' configurations: clients first, then keyholders."""
    parties = make_parties(Statistics.empty(DATA.encoder.space, [0, 1, 2]), 4, 100, least_clients=3)
    DATA.encoder.save(tmp_path / "encoder.safetensors")
    parties.operator.public.save(tmp_path / "operator.pub")
    parties.operator.save(tmp_path / "operator.key")
    (tmp_path / "round.private").write_bytes(parties.private_round.data)
    nodes = []
    for at, key in enumerate((*parties.clients, *parties.keyholders)):
        key.save(tmp_path / f"{key.name}.key")
        if at < len(PARTS):
            write_table(tmp_path / f"{key.name}.npz", PARTS[at].features, PARTS[at].labels)
            nodes.append(site(tmp_path, key.name))
        else:
            nodes.append(keyholder(tmp_path, key.name))
    names = {"encoder": "encoder.safetensors", "round": "round.private"}
    names |= {"operator": "operator.pub", "store": "store", "output": "out"}
    places = {name: str(tmp_path / path) for name, path in names.items()}
    return Run(**places, clients=4, deadline=600), nodes


def site(folder, name, table="", *options):
    """A node whose site has a table, a key and the operator's public key."""
    papers = ["--operator", folder / "operator.pub", "--key", folder / f"{name}.key"]
    table = folder / (table or f"{name}.npz")
    return node_with_airlock(folder, name, table, *papers, *options)


def keyholder(folder, name):
    papers = ["--operator", folder / "operator.pub", "--key", folder / f"{name}.key"]
    papers += ["--history", begun(folder / f"{name}.history")]
    return node_with_airlock(folder, name, *papers, role="keyholder")


def begun(history):
    History(history, new=True)
    return history


def play(run, nodes, kind=InProcessGrid):
    return serve(kind(site_app, nodes), run)


def expected(chosen):
    return sum_statistics(part.count() for part in chosen)


def test_the_model_is_that_of_plain_contributions(federation, tmp_path, monkeypatch):
    monkeypatch.setenv("SAFLE_LOG", str(tmp_path / "nodes.jsonl"))
    run, nodes = federation
    report = play(run, nodes)
    total = expected(PARTS)
    assert (tmp_path / "out/total.stats").read_bytes() == encode(total)
    model = Model.of(DATA.encoder, solve(total)).to_bytes()
    assert (tmp_path / "out/model.safetensors").read_bytes() == model
    assert sorted(report.accepted) == [f"client-{at:02d}" for at in range(4)]
    # The server has not learnt how many samples each has, only all of them.
    assert {row.samples for row in report.clients} == {0}
    assert report.samples == 40
    opened = [row.client for row in report.keyholders if row.status == "accepted"]
    assert sorted(opened) == ["keyholder-0", "keyholder-1"]
    shown = [row[:3] for row in report.table()]
    assert {("client-00", "accepted", ""), (opened[0], "opened the sum", "")} <= {*shown}
    assert Report.read(tmp_path / "out/report.json").keyholders == report.keyholders
    # What the next round can name, so that a keyholder's history cannot be an older copy.
    answers = [path.read_bytes() for path in (tmp_path / "store").glob("*.answer")]
    assert sorted(KeyholderAnswer.read_names(data)[0] for data in answers) == sorted(opened)
    assert [event["event"] for event in read_log(tmp_path / "store" / LOG)] == [
        *["received"] * 4,
        "opened",
    ]
    at_nodes = read_log(tmp_path / "nodes.jsonl")
    assert {event["who"] for event in at_nodes if event["event"] == "opened"} >= {*opened}
    assert [event["event"] for event in at_nodes].count("sent") == 4


@pytest.mark.parametrize("allowed", [False, True])
def test_a_client_of_no_samples_is_masked_only_where_its_site_allows_it(
    federation, tmp_path, allowed
):
    run, nodes = federation
    secret = tmp_path / "Mustermann.npz"
    write_table(secret, np.zeros((0, DATA.features.shape[1])), np.zeros(0, np.int64))
    nodes[1] = site(tmp_path, "client-01", secret.name, *["--allow-empty"] * allowed)
    report = play(run, nodes)
    failed = [(row.client, row.reason) for row in report.clients if row.status == "failed"]
    reason = "InvalidInput; its own log says more"
    assert failed == ([] if allowed else [("client-01", reason)])
    assert ("client-01" in report.accepted) == allowed
    total = expected([PARTS[0], *PARTS[2:]])
    assert (tmp_path / "out/total.stats").read_bytes() == encode(total)
    held = b"".join(path.read_bytes() for path in (tmp_path / "out").iterdir())
    assert b"Mustermann" not in held


def test_a_client_that_drops_out_costs_nothing(federation, tmp_path):
    run, nodes = federation
    nodes[1] = site(tmp_path, "client-01", "nowhere.npz")
    play(run, nodes)
    total = expected([PARTS[0], *PARTS[2:]])
    assert (tmp_path / "out/total.stats").read_bytes() == encode(total)
    # Those who are in are not asked again, and one more client would be told apart.
    nodes[1] = site(tmp_path, "client-01")
    with pytest.raises(FederationError, match="no answer of keyholder-0, keyholder-1"):
        play(run, nodes)
    report = json.loads((tmp_path / "out/report.json").read_text())
    refused = [row for row in report["keyholders"] if row["client"].startswith("keyholder")]
    assert len(refused) == 2
    shown = [row[1] for row in Report.read(tmp_path / "out/report.json").table()]
    assert sum(text.startswith("did not open the sum: with the sums") for text in shown) == 2
    assert sum("would tell 1 client apart" in row["reason"] for row in refused) == 2
    assert [row["status"] for row in report["clients"]].count("kept") == 3


def refusals(folder):
    rows = Report.read(folder / "out/report.json").keyholders
    return [row.reason for row in rows if row.client.startswith("keyholder")]


def test_a_second_round_without_one_client_opens_for_nobody(federation, tmp_path):
    """A new round, with the same keys: nobody at a keyholder's is asked, so it is refused."""
    run, nodes = federation
    play(run, nodes)
    private_round = PrivateRound.load(
        (tmp_path / "round.private").read_bytes(), PublicKey.load(tmp_path / "operator.pub")
    )
    again = declare_round(
        PrivateKey.load(tmp_path / "operator.key"),
        private_round.zero,
        private_round.most_total_samples,
        clients=[*private_round.clients.values()],
        keyholders=[*private_round.keyholders.values()],
        least_clients=3,
    )
    (tmp_path / "second.private").write_bytes(again.data)
    second = structs.replace(
        run, round=str(tmp_path / "second.private"), store=str(tmp_path / "second")
    )
    nodes[3] = site(tmp_path, "client-03", "nowhere.npz")
    with pytest.raises(FederationError, match="no answer of keyholder-0, keyholder-1"):
        play(second, nodes)
    reasons = refusals(tmp_path)
    assert len(reasons) == 2
    assert all("this would give away client-03, alone or" in reason for reason in reasons)


def test_a_keyholder_whose_history_is_gone_opens_nothing(federation, tmp_path):
    run, nodes = federation
    for at in range(2):
        shutil.rmtree(tmp_path / f"keyholder-{at}.history")
    with pytest.raises(FederationError, match="no answer of keyholder-0, keyholder-1"):
        play(run, nodes)
    assert ["this history is empty" in reason for reason in refusals(tmp_path)] == [True, True]
    assert not (tmp_path / "keyholder-0.history").exists()


def test_registered_keyholders_are_asked_though_no_contribution_is_expected_of_them(
    federation, tmp_path
):
    run, nodes = federation
    names = ",".join(node["client"] for node in nodes[:4])
    report = play(structs.replace(run, expected=names, clients=0), nodes, RegisteredGrid)
    assert [row.client for row in report.clients if row.status == "refused"] == []
    assert (tmp_path / "out/total.stats").read_bytes() == encode(expected(PARTS))


def test_sites_without_keys_are_named(federation, tmp_path):
    run, nodes = federation
    for node in nodes[:2]:
        node["site"] = str(tmp_path / f"{node['client']}.npz")
    with pytest.raises(FederationError, match="2 clients are in"):
        play(run, nodes)


def test_a_hospital_may_hold_keys_too(tmp_path, federation):
    run, _ = federation
    parties = make_parties(Statistics.empty(DATA.encoder.space, [0, 1, 2]), 4, 100, least_clients=3)
    both = replace(parties, keyholders=parties.clients[:2])
    both = both.again(parties.private_round.zero)
    for key in both.clients:
        (tmp_path / f"{key.name}.key").unlink()
        key.save(tmp_path / f"{key.name}.key")
    both.operator.public.save(tmp_path / "operator.pub")
    (tmp_path / "round.private").write_bytes(both.private_round.data)
    names = [key.name for key in both.clients]
    nodes = [
        site(tmp_path, name, "", "--history", begun(tmp_path / f"{name}.history")) for name in names
    ]
    report = play(run, nodes)
    assert report.total
    assert (tmp_path / "out/total.stats").read_bytes() == encode(expected(PARTS))
