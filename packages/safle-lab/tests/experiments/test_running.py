"""Experiments: settings, cells that survive a crash, choices that never see the test set."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest
import tomli_w
from msgspec import structs, to_builtins

from safle.errors import InvalidInput, SettingsError
from safle_lab.baselines import METHODS
from safle_lab.baselines.base import LinearModel, SeparateModels, predict
from safle_lab.experiments import EXPERIMENTS, running
from safle_lab.experiments.data import DataSet, load_digits
from safle_lab.experiments.measuring import judge, judge_real_clients, measure_method
from safle_lab.experiments.plan import Cell, Federation, Request
from safle_lab.experiments.running import load_settings, run_experiment
from safle_lab.experiments.suite import Bucketing, Settings, Sparsity, Table1
from safle_lab.experiments.summary import summarise, to_csv
from safle_lab.report.paper import Paper


@pytest.fixture(scope="module")
def digits() -> DataSet:
    return load_digits()


@pytest.fixture
def settings() -> Settings:
    """Two methods in a scenario each, two seeds; and who holds what in one scenario."""
    federation = Federation(clients=4, seeds=2, seeds_of={})
    only = {"fedcgs": ("shards=2",)}
    table = Table1(methods=("afl", "fedcgs"), scenarios=("alpha=0.1",), only=only)
    defaults = load_settings(None, small=True)
    return structs.replace(defaults, federation=federation, table1=table)


@pytest.mark.parametrize("small", [True, False])
def test_defaults_survive_a_round_trip(tmp_path, small):
    defaults = load_settings(None, small=small)

    (tmp_path / "saved.toml").write_text(tomli_w.dumps(to_builtins(defaults)))

    assert load_settings(tmp_path / "saved.toml", small=small) == defaults


def test_iterative_methods_share_the_papers_protocol_on_a_features_file():
    methods = load_settings(None, small=False).methods

    iterative = [name for name, method in METHODS.items() if method.kind == "iterative"]
    assert "fedavg" in iterative
    for name in iterative:
        used = METHODS[name].settings(methods[name])
        protocol = (used.participation, used.epochs, used.rounds, used.batch)
        assert protocol == (0.1, 5, 200, 50)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[federation]\nclient = 3", "unknown setting 'client'.* clients"),
        ("table1 = 3", "table1 is 3; expected"),
        ("[table1]\nmethods = []", r"table1\.methods is"),
        ("[table1]\nmethods = [3]", r"table1\.methods.* is .*3.*; expected"),
        ('[noise]\nkinds = ["client"]', r"noise\.kinds.* is .*client.*; expected .*symmetric"),
        ("[methods]\nafl = 3", "methods.*(3|int)"),
        ("[table1\n", "not a TOML file"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(tmp_path, text, complaint):
    (tmp_path / "my.toml").write_text(text)

    with pytest.raises(SettingsError, match=complaint):
        load_settings(tmp_path / "my.toml", small=True)


def test_given_settings_take_the_place_of_defaults(tmp_path):
    (tmp_path / "my.toml").write_text("[methods.feddyn]\nrate = 0.5\n[federation]\nclients = 7\n")

    loaded = load_settings(tmp_path / "my.toml", small=True)

    assert loaded.methods["feddyn"] == {"rounds": 20, "batch": 20, "rate": 0.5}
    assert loaded.federation == Federation(clients=7, seeds=2, seeds_of={})


def test_a_lucky_last_round_does_not_choose_a_setting(settings):
    """Rounds with few clients each swing; the mean of the last ones decides."""
    tuning = structs.replace(settings.tuning, grids={"fedavg": {"rate": (0.1, 0.2)}}, judged=2)
    swinging, steady = [[1, 0.9, 8], [2, 0.1, 16], [3, 0.7, 24]], [[1, 0.0, 8], [2, 0.5, 16]]
    curves = {0.1: swinging, 0.2: [*steady, [3, 0.5, 24]]}

    def measured(cell, _):
        curve = curves[cell.settings["rate"]]
        return {"accuracy": curve[-1][1], "curve": curve}

    request = Request({}, Cell("method", "iid", 4, 0, "fedavg"), tune=True)
    chosen = running.choose_settings(request, structs.replace(settings, tuning=tuning), measured)

    assert chosen["rate"] == 0.2


def test_many_classes_have_the_papers_scenarios_for_them():
    few, many = (load_settings(None, small=False, class_count=n).table1 for n in (10, 200))

    assert few.scenarios == ("alpha=0.1", "alpha=0.05", "shards=4", "shards=2")
    assert many.scenarios == ("alpha=0.1", "alpha=0.01", "shards=10", "shards=5")
    assert {"local", "safle-smallest", "safle-default"} <= {*few.methods}
    assert few.methods == many.methods


def test_a_client_is_judged_on_its_own_mix_of_classes(digits):
    """A model that knows zeros and ones only, and clients that hold those, or all others."""
    weights = np.zeros((64, 10))
    weights[:, 0], weights[:, 1] = digits.train[digits.train_labels == 0].mean(axis=0), -1.0
    model = LinearModel(weights)
    right = predict(model, digits.test) == digits.test_labels
    zeros, ones = (right[digits.test_labels == number].mean() for number in (0, 1))
    mix = np.zeros((3, 10), np.int64)
    mix[0, :2], mix[2, 2:] = (3, 1), 5

    joint, alone = (judge(m, digits, mix) for m in (model, SeparateModels([model, model])))

    assert joint["accuracy"] == alone["accuracy"] == right.mean()
    assert joint["per_client"] == pytest.approx([0.75 * zeros + 0.25 * ones, 0.0])
    assert "worst_client" not in joint
    assert (alone["worst_client"], alone["clients_deviation"]) == (right.mean(), 0.0)


def test_balanced_accuracy_is_the_mean_of_the_recalls_of_tested_classes(digits):
    """Nothing but zeros is predicted, and the test samples have no nine."""
    tested = digits.test_labels != 9
    data = replace(digits, test=digits.test[tested], test_labels=digits.test_labels[tested])
    always_zero = LinearModel(np.zeros((64, 10)))

    figures = judge(always_zero, data, np.ones((1, 10), np.int64))

    assert figures["recalls"] == [1.0, *[0.0] * 8, None]
    assert figures["balanced_accuracy"] == pytest.approx(1 / 9)
    assert figures["accuracy"] == (data.test_labels == 0).mean()


def test_a_real_client_is_judged_on_its_own_test_samples(digits):
    """Clients with zeros, with ones, and with no test sample; one model knows zeros only."""
    chosen = digits.test_labels < 2
    labels = digits.test_labels[chosen]
    own = {"client_names": ("a", "b", "c"), "test_clients": labels}
    data = replace(digits, test=digits.test[chosen], test_labels=labels, **own)
    zeros = LinearModel(np.zeros((64, 10)))
    ones = LinearModel(np.zeros((64, 10)), np.eye(10)[1])

    joint = judge_real_clients(zeros, data)
    alone = judge_real_clients(SeparateModels([zeros, ones, zeros]), data)

    assert [line["client"] for line in joint["real_clients"]] == ["a", "b"]
    assert [line["accuracy"] for line in joint["real_clients"]] == [1.0, 0.0]
    assert (joint["clients_accuracy"], alone["clients_accuracy"]) == (0.5, 1.0)
    assert joint["clients_balanced"] == 0.5


def test_uniform_priors_find_more_of_a_rare_class(digits):
    """Of the training samples' nines one in ten is left, and the test set has all of its own."""
    nines = np.flatnonzero(digits.train_labels == 9)
    kept = np.delete(np.arange(len(digits.train)), nines[len(nines) // 10 :])
    data = replace(digits, train=digits.train[kept], train_labels=digits.train_labels[kept])
    settings = {"calibration": "range", "units": 64}

    found = {}
    for name in ("safle-default", "safle-uniform"):
        cell = Cell("method", "pooled", 1, 0, name, settings)
        found[name] = measure_method(data, cell, lambda _: None)

    assert found["safle-uniform"]["recalls"][9] > found["safle-default"]["recalls"][9]
    balanced = {name: figures["balanced_accuracy"] for name, figures in found.items()}
    assert balanced["safle-uniform"] > balanced["safle-default"]


def test_the_area_under_the_curve_is_that_of_each_class_against_the_rest(digits):
    oracle = np.eye(10)[digits.test_labels]
    perfect = replace(digits, test=oracle.astype(np.float32))
    mix = np.ones((1, 10), np.int64)

    areas = [judge(LinearModel(sign * np.eye(10)), perfect, mix)["auc"] for sign in (1, -1, 0)]

    assert areas == [1.0, 0.0, 0.5]


def test_results_of_other_data_are_not_replaced(digits, settings, tmp_path):
    run_experiment("table1", [digits], settings, tmp_path)
    before = (tmp_path / "table1.json").read_bytes()
    other = replace(digits, test=digits.test[:-1], test_labels=digits.test_labels[:-1])

    with pytest.raises(SettingsError, match="has results of other data"):
        run_experiment("table1", [other], settings, tmp_path)

    assert (tmp_path / "table1.json").read_bytes() == before


@pytest.mark.parametrize("text", ["", "[]", '{"format": "other"}'])
def test_experiment_does_not_replace_another_file(digits, settings, tmp_path, text):
    (tmp_path / "table1.json").write_text(text)

    with pytest.raises(InvalidInput, match=r"not the results of an experiment"):
        run_experiment("table1", [digits], settings, tmp_path)

    assert (tmp_path / "table1.json").read_text() == text


def test_an_interrupted_run_goes_on_where_it_stopped(digits, settings, tmp_path, monkeypatch):
    measure = running.MEASURES["method"]
    calls = []

    def dying(*arguments):
        calls.append(arguments)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return measure(*arguments)

    monkeypatch.setitem(running.MEASURES, "method", dying)
    with pytest.raises(KeyboardInterrupt):
        run_experiment("table1", [digits], settings, tmp_path)
    assert len(list((tmp_path / "cells").glob("*.json"))) == 4
    assert not (tmp_path / "table1.json").exists()

    shares: list[float] = []
    result = run_experiment("table1", [digits], settings, tmp_path, shares.append)
    # The partition, AFL with two seeds, and FedCGS: three candidates, then two seeds.
    assert len(calls) == 1 + 7
    assert len(list((tmp_path / "cells").glob("*.json"))) == 8
    assert shares == sorted(shares)
    assert shares[-1] == 1.0

    again = run_experiment("table1", [digits], settings, tmp_path)
    assert len(calls) == 1 + 7
    assert again == result == json.loads((tmp_path / "table1.json").read_text())


def test_cell_key_depends_on_settings(digits, settings, tmp_path):
    run_experiment("table1", [digits], settings, tmp_path)
    before = len(list((tmp_path / "cells").glob("*.json")))
    other = structs.replace(settings, methods={**settings.methods, "afl": {"gamma": 2.0}})

    run_experiment("table1", [digits], other, tmp_path)

    assert len(list((tmp_path / "cells").glob("*.json"))) == before + 2


def test_a_damaged_cell_is_named(digits, settings, tmp_path):
    run_experiment("table1", [digits], settings, tmp_path)
    (cell, *_) = sorted((tmp_path / "cells").glob("*.json"))
    cell.write_text("{")

    with pytest.raises(InvalidInput, match=rf"{cell.name}.*delete it"):
        run_experiment("table1", [digits], settings, tmp_path)


def test_the_test_set_has_no_part_in_the_choice(digits, settings, tmp_path):
    """Wrong test labels change every figure, but no choice."""
    wrong = replace(digits, test_labels=(digits.test_labels + 1) % 10)

    honest = run_experiment("table1", [digits], settings, tmp_path / "a")
    fooled = run_experiment("table1", [wrong], settings, tmp_path / "b")

    assert [row["settings"] for row in honest["rows"]] == [r["settings"] for r in fooled["rows"]]
    assert all(line["accuracy"] < 0.2 for line in fooled["summary"])
    assert all(line["accuracy"] > 0.8 for line in honest["summary"])


def test_held_out_samples_are_training_samples(digits):
    held = digits.held_out(0.2)

    assert len(held.train) + len(held.test) == len(digits.train)
    joined = np.sort(np.concatenate([held.train, held.test]).view(np.uint8), axis=0)
    assert np.array_equal(joined, np.sort(digits.train.view(np.uint8), axis=0))
    shares = np.bincount(held.test_labels) / np.bincount(digits.train_labels)
    assert np.allclose(shares, 0.2, atol=0.01)


def test_results_say_what_they_are_of(digits, settings, tmp_path):
    result = run_experiment("table1", [digits], settings, tmp_path)

    assert result["data"][0]["fingerprint"] == digits.fingerprint
    assert {"python", "safle"} <= set(result["versions"])
    assert result["versions"]["numpy"] == np.__version__
    assert result["settings"]["federation"]["clients"] == 4
    afl = result["summary"][0]
    assert (afl["method"], afl["scenario"], afl["seeds"]) == ("AFL", "alpha=0.1", 2)
    assert len(afl["digests"]) == 1
    table = list(csv.DictReader(io.StringIO((tmp_path / "table1.csv").read_text())))
    assert len(table) == len(result["rows"])
    assert float(table[1]["accuracy"]) == result["rows"][1]["accuracy"]
    assert float(table[1]["gamma"]) == 1000.0
    assert all(row["wall_seconds"] > 0 for row in result["rows"])


def test_mean_and_deviation_are_over_seeds():
    rows = [
        {"method": "A", "seed": seed, "accuracy": accuracy, "rounds": 1, "digest": str(seed)}
        for seed, accuracy in enumerate((0.5, 0.7))
    ]

    (line,) = summarise([*rows, {"partition_of": "iid", "seed": 0}])

    assert line["accuracy"] == pytest.approx(0.6)
    assert line["deviation"] == pytest.approx(np.std([0.5, 0.7], ddof=1))
    assert line["digests"] == ["0", "1"]
    assert "settings" not in to_csv([{**rows[0], "settings": {"rate": 3}, "curve": [1]}])


def test_settings_do_not_hide_labels_of_the_same_name():
    noisy = {"method": "FedAvg", "rate": 0.2, "seed": 0, "settings": {"rate": 0.1, "batch": 50}}

    assert to_csv([noisy]) == "method,rate,seed,setting_rate,batch\nFedAvg,0.2,0,0.1,50\n"


def test_sizes_follow_the_declared_columns():
    assert Bucketing().group_size("binary-overlap", 8, 512) == 2
    assert Bucketing().group_size("integer", 20, 512) == 1
    for size in (1, 2, 4):
        columns = 512 * Sparsity().buckets_for(size, 512) / size * 2**size
        assert columns == 8192
    assert Sparsity().buckets_for(12, 512) == 1


def test_the_papers_figures_belong_to_its_data_sets():
    cifar = {"classes": ["airplane", "frog", "truck", *"abcdefg"], "name": "x", "source": ""}
    assert Paper.of(cifar).table1("FedDyn", "shards=2") == 64.07
    assert Paper.of(cifar).table1("SAFLe", "shards=2") == 90.73
    assert Paper.of(cifar).table1("SAFLe", "iid") == 90.73
    assert Paper.of(cifar).table1("FedNova", "shards=2") is None
    assert Paper.of(cifar).bucketing("one-hot", 14) == 74.43
    other = Paper.of({"classes": ["0", "1"], "name": "digits", "source": ""})
    assert other.table1("SAFLe", "shards=2") is None
    assert not other.backbones()


def test_poorer_digits_are_other_data(digits):
    poorer = load_digits(pooled=True)

    assert poorer.train.shape[1] == 16
    assert poorer.fingerprint != digits.fingerprint
    assert np.allclose(poorer.train.mean(), digits.train.mean(), atol=1e-3)


def test_every_experiment_has_settings():
    assert Settings.__struct_fields__ == ("federation", "tuning", "methods", *EXPERIMENTS)
