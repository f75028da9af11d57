"""The rules of a round, in one process, every message through Flower's own serialisation."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from importlib import import_module
from operator import attrgetter

import numpy as np
import pytest
from flwr.app import Message, RecordDict
from flwr.superlink.grid.http_grid import HttpGrid

from flower_support.clients import DEADLINE
from flower_support.rounds import (
    Deployment,
    altered,
    many_arrays,
    named,
    of_another_type,
    raising,
    shapeless,
    with_data,
)
from safle.basics import as_settings, to_mapping
from safle.errors import FederationError, SettingsError, SolveError, StoreError
from safle.server.limits import Limits
from safle.server.store import Store
from safle_flower import messages
from safle_flower import round as flower_round
from safle_flower.adapter import InProcessGrid
from safle_flower.messages import Answer
from safle_flower.settings import Run


@pytest.fixture
def deployment(federation, tmp_path):
    return Deployment(federation, tmp_path)


class Clock:
    """What a round takes for the time; a test can put it forward."""

    ahead = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead

    def ends_after(self, answers: int) -> Callable[[float], None]:
        """As ``progress`` of a run: when so many have answered, the deadline is over."""
        heard = []

        def note(share: float) -> None:
            heard.append(share)
            if len(heard) == answers:
                self.ahead = DEADLINE

        return note


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(flower_round, "time", made)
    return made


def statuses(report) -> dict[str, str]:
    return {row.name: row.status for row in report.clients}


def reasons(report) -> dict[str, str]:
    return {row.client: row.reason for row in report.clients if row.reason}


def test_the_model_is_that_of_files_and_of_the_pooled_data(deployment, federation, tmp_path):
    report = deployment.run(federation.names)
    assert statuses(report) == dict.fromkeys(federation.names, "accepted")
    assert deployment.model() == federation.by_files(federation.names, tmp_path)
    assert deployment.model() == federation.pooled(federation.names)
    total = tmp_path / "results" / "total.stats"
    assert total.read_bytes() == (tmp_path / "by-files.stats").read_bytes()
    sizes = [federation.statistics_file(name).stat().st_size for name in federation.names]
    assert [row.bytes for row in report.clients] == sizes
    assert report.bytes_received == sum(sizes)
    assert all(row.seconds > 0 for row in report.clients)
    assert report.samples == 200


def test_round_names_misbehaving_clients_and_goes_on(deployment, federation, tmp_path):
    other = federation.statistics_file("a").read_bytes()
    mischief = {
        "b": altered(lambda honest: Answer("b", "sent", data=honest.data[:-1])),
        "c": with_data(other),
        "d": raising,
    }
    # One after the other: a copy can only be told from what came before it.
    report = deployment.run(federation.names, mischief, **{"at-once": 1})
    assert statuses(report) == {
        "a": "accepted",
        "b": "refused",
        "c": "refused",
        "node 5": "failed",
        "e": "accepted",
    }
    assert "checksum" in reasons(report)["b"]
    assert "came from 'a' already" in reasons(report)["c"]
    assert "ZeroDivisionError: a bug" in reasons(report)[""]
    assert deployment.model() == federation.by_files(["a", "e"], tmp_path)
    assert [*Store.open(tmp_path / "store").members] == ["a", "e"]


@pytest.mark.parametrize(
    ("mischief", "reason"),
    [
        (shapeless, "does not hold a safle answer"),
        (of_another_type, "numpy.ndarray"),
        (many_arrays, "does not hold a safle answer"),
        (with_data(b""), "not a safle file"),
        (with_data(b"\x89SAFLE\r\n" + b"\xff" * 5000), "version"),
        (with_data(bytes(3_000_000)), "reads up to"),
        (named("a"), "'a' has sent the same contribution|already|another"),
        (named("\x1b[2J"), "name"),
        (named("x" * 100_000), "name"),
        (altered(lambda honest: Answer("b", "known")), "not a safle file"),
        (altered(lambda honest: Answer("b", "nonsense")), "does not name its client"),
    ],
)
def test_round_refuses_a_message_that_is_not_an_answer(
    deployment, federation, tmp_path, mischief, reason
):
    settings = {"largest": 1_000_000, "at-once": 1}
    report = deployment.run(["a", "b"], {"b": mischief}, **settings)
    (row,) = [row for row in report.clients if row.status == "refused"]
    assert np.any([part in row.reason for part in reason.split("|")]), row.reason
    assert len(row.reason) <= 500
    assert deployment.model() == federation.by_files(["a"], tmp_path)
    outside = [p for p in tmp_path.iterdir() if p.name not in ("store", "results")]
    assert [p.name for p in outside] == ["by-files.stats"]


class Silent(InProcessGrid):
    """Client b never gives its answer away; ``asked`` is called when it should."""

    def asked(self):
        pass

    def pull_messages(self, message_ids):
        replies = [*super().pull_messages(message_ids)]
        given = [reply for reply in replies if messages.read_answer(reply).client != "b"]
        if len(given) < len(replies):
            self.asked()
        return given


def test_a_straggler_is_left_behind_at_the_deadline(deployment, federation, tmp_path, clock):
    grid = deployment.grid(["a", "b", "c"], kind=Silent)
    report = deployment.run(["a", "b", "c"], grid=grid, progress=clock.ends_after(2))
    assert reasons(report) == {"": "no answer in time"}
    assert statuses(report) == {"a": "accepted", "node 3": "late", "c": "accepted"}
    assert deployment.model() == federation.by_files(["a", "c"], tmp_path)


def test_silent_clients_do_not_keep_the_others_from_being_asked(deployment, clock, monkeypatch):
    grid = deployment.grid(["b", "a", "c"], kind=Silent)
    patience = flower_round.SLOT_SHARE * DEADLINE
    monkeypatch.setattr(grid, "asked", lambda: setattr(clock, "ahead", patience))
    settings = {"progress": clock.ends_after(2), "at-once": 1}
    report = deployment.run(["b", "a", "c"], grid=grid, **settings)
    assert sorted(report.accepted) == ["a", "c"]


def test_too_few_contributions_make_no_model_and_are_kept(deployment, federation, tmp_path):
    with pytest.raises(FederationError, match="1 contributions are in, at least 2"):
        deployment.run(["a", "b"], {"b": raising}, least=2)
    report = json.loads((tmp_path / "results" / "report.json").read_text())
    assert report["accepted"] == ["a"]
    reason = "(1 accepted, 1 failed; node 3: its app raised an error: ZeroDivisionError: a bug)"
    assert f"at least 2 are needed {reason}" in report["error"]
    assert "\n" not in report["error"]
    assert not (tmp_path / "results" / "model.safetensors").exists()
    deployment.run(["a", "b"], least=2)
    assert deployment.counted == ["a", "b", "b"]
    assert deployment.model() == federation.by_files(["a", "b"], tmp_path)


def test_an_interrupted_round_goes_on_with_what_it_has(deployment, federation, tmp_path):
    def interrupt(share):
        if share >= 2 / 5:
            raise KeyboardInterrupt

    settings = {"at-once": 1}
    with pytest.raises(KeyboardInterrupt):
        deployment.run(federation.names, progress=interrupt, **settings)
    assert len(Store.open(tmp_path / "store").members) == 2
    report = deployment.run(federation.names)
    assert [row.status for row in report.clients].count("kept") == 2
    assert sorted(report.accepted) == [*federation.names]
    # Nobody counted twice.
    assert sorted(deployment.counted) == [*federation.names]
    assert deployment.model() == federation.pooled(federation.names)


def test_a_late_client_is_added_without_a_second_round_for_the_others(
    deployment, federation, tmp_path
):
    deployment.run(["a", "b"])
    report = deployment.run(["a", "b", "c"])
    # Whether a and b had time to say that they are in or not: they are, and did not count.
    found = {row.client: (row.status, row.samples) for row in report.clients if row.client}
    assert found == {"a": ("kept", 20), "b": ("kept", 50), "c": ("accepted", 60)}
    assert deployment.counted == ["a", "b", "c"]
    assert deployment.model() == federation.by_files(["a", "b", "c"], tmp_path)


def test_expected_clients_that_never_come_are_missing(deployment, federation, tmp_path, clock):
    ending = clock.ends_after(2)
    report = deployment.run(["a", "z"], {"z": raising}, expected="a, b", progress=ending)
    assert statuses(report)["a"] == "accepted"
    assert statuses(report)["b"] == "missing"
    assert deployment.model() == federation.by_files(["a"], tmp_path)


def test_a_client_that_is_not_expected_is_refused(deployment, federation, tmp_path, clock):
    report = deployment.run(["c", "a"], expected="a,b", progress=clock.ends_after(2))
    assert statuses(report) == {"a": "accepted", "c": "refused", "b": "missing"}
    assert deployment.model() == federation.by_files(["a"], tmp_path)


def test_a_false_name_does_not_end_the_round_for_its_owner(deployment, federation, tmp_path):
    mischief = {"c": altered(lambda honest: Answer("b", "sent", data=b"garbage"))}
    report = deployment.run(["c", "a", "b"], mischief, expected="a,b")
    assert sorted(report.accepted) == ["a", "b"]
    assert [row.status for row in report.clients].count("refused") == 1
    assert deployment.model() == federation.by_files(["a", "b"], tmp_path)


def test_round_blames_the_sender_for_any_error_of_its_answer(deployment, federation, monkeypatch):
    add = Store.add

    def choking(store, client, data, **options):
        if client == "b":
            raise OverflowError("int too large to convert to float")
        return add(store, client, data, **options)

    monkeypatch.setattr(Store, "add", choking)
    report = deployment.run(["a", "b", "c"])
    assert statuses(report) == {"a": "accepted", "b": "refused", "c": "accepted"}
    assert "OverflowError: int too large" in reasons(report)["b"]


class Broken(InProcessGrid):
    """Flower itself fails after the first answer."""

    def push_messages(self, messages):
        if self.contexts[2].node_config.get("asked"):
            raise RuntimeError("the SuperLink is gone\nsecond line")
        self.contexts[2].node_config["asked"] = True
        return super().push_messages(messages)


def test_the_report_is_written_however_a_run_ends_and_says_why_in_one_line(deployment, tmp_path):
    grid = deployment.grid(["a", "b"], kind=Broken)
    with pytest.raises(RuntimeError):
        deployment.run(["a", "b"], grid=grid, **{"at-once": 1})
    report = json.loads((tmp_path / "results" / "report.json").read_text())
    assert report["error"] == "RuntimeError: the SuperLink is gone second line"
    assert report["accepted"] == ["a"]


def test_the_limits_of_a_run_are_those_of_its_store(deployment, federation, tmp_path):
    report = deployment.run(["b", "a"], **{"most-samples": 49, "classes": "0,1,2"})
    assert statuses(report) == {"b": "refused", "a": "accepted"}
    assert "50 samples" in reasons(report)["b"]
    assert Store.open(tmp_path / "store").limits.most_samples == 49
    with pytest.raises(StoreError, match="classes"):
        deployment.run(["b", "a"], classes="a,b")
    deployment.run(["b", "a"])
    assert Store.open(tmp_path / "store").limits.most_samples == 49


@pytest.mark.parametrize(
    ("module", "path"),
    [
        ("flwr.superlink.grid.http_grid", "HttpGrid._runtime_client"),
        ("flwr.superlink.grid.http_grid", "RuntimeHttpClient.PullObject"),
        ("flwr.supercore.inflatable.inflatable_object", "get_all_nested_objects"),
        ("flwr.supercore.inflatable.inflatable_utils", "inflate_object_from_contents"),
        ("flwr.supercore.task_identity", "TaskIdentity._run_id"),
        ("flwr.supercore.task_identity", "TaskIdentity._task_id"),
        ("flwr.supercore.task_identity", "TaskIdentity._node_id"),
    ],
)
def test_flower_has_what_the_adapter_needs(module, path):
    attrgetter(path)(import_module(module))


def test_flower_keeps_what_the_adapter_replaces():
    assert Message(RecordDict(), 2, "train.x").metadata.__dict__["_message_id"] == ""
    assert "_client" in HttpGrid("127.0.0.1:1", insecure=True, token="x").__dict__


def test_settings_survive_flowers_flat_configuration():
    limits = Limits(classes=(1, 2))
    run = Run.limited(limits, store="/s", output="/o", encoder="/e", expected="a,b", least=2)
    flat = to_mapping(run)
    assert as_settings(Run, flat) == run
    assert run.limits == limits
    assert {type(value) for value in flat.values()} <= {bool, int, float, str}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"clients": 0}, "no client is expected"),
        ({"deadline": 0.0}, "deadline"),
        ({"deadline": "soon"}, "deadline"),
        ({"least": 0}, "least"),
        ({"at-once": 0}, "at-once"),
        ({"output": ""}, "output is not set"),
        ({"store": ""}, "store is not set"),
        ({"encoder": ""}, "encoder is not set"),
        ({"most-samples": 0}, "most_samples"),
        ({"nosuch": 1}, "unknown setting"),
        ({"ridge": "x"}, "ridge"),
    ],
)
def test_wrong_settings_are_refused_before_anybody_is_asked(deployment, settings, said):
    with pytest.raises(SettingsError, match=said):
        deployment.run(["a"], **settings)
    assert not deployment.counted


def test_a_contribution_that_breaks_in_the_store_is_named(deployment, tmp_path, monkeypatch):
    def break_and_fail(*_arguments, **_options):
        for path in (tmp_path / "store" / "contributions").iterdir():
            path.write_bytes(path.read_bytes()[:-1])
        raise SolveError("no convergence")

    monkeypatch.setattr("safle_flower.server.solve", break_and_fail)
    with pytest.raises(SolveError, match=r"^no convergence; .*'a' is damaged"):
        deployment.run(["a"])


def test_a_failed_run_leaves_no_older_model(deployment, tmp_path):
    results = tmp_path / "results"
    deployment.run(["a", "b"])
    model = deployment.model()
    for wrong in ({"least": 9}, {"ridge": "x"}):
        with pytest.raises((FederationError, SettingsError)):
            deployment.run(["a", "b"], **wrong)
        assert sorted(path.name for path in results.iterdir()) == ["earlier", "report.json"]
        assert json.loads((results / "report.json").read_text())["error"]
        # What was there is kept, and a second failure does not lose it.
        assert (results / "earlier" / "model.safetensors").read_bytes() == model
    deployment.run(["a", "b"])
    assert deployment.model() == model
