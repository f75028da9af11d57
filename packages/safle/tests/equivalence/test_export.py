"""Exports decide as safle does: every encoder, bucketing and head, on and around thresholds."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
import zipfile

import numpy as np
import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from safle import SafleClassifier
from safle.encoders import LinearEncoder, make_encoder
from safle.encoders.calibration import DeclaredRange, PublicSample
from safle.errors import InvalidInput, MissingExtra
from safle.model import Model
from safle.model.export import PRIVACY_FILE, export_onnx, export_torch, to_onnx, to_torch
from safle.publishing.noise import plan_noise, publish
from safle.solver import solve
from safle.statistics import count
from safle.statistics.noisy import Privacy
from support.data_sets import KINDS, data_sets, declared_settings

PARTS = "embedding,linear,random-features"
BUCKETED = {
    "integer": {"bucketing": "integer", "buckets": 5, "group_size": 3},
    "one-hot": {"bucketing": "one-hot", "buckets": 4, "group_size": 5},
    "wide-integer": {"bucketing": "integer", "buckets": 200, "group_size": 2},
}
CASES = {
    **{kind: declared_settings(kind, units=20, buckets=4, parts=PARTS) for kind in KINDS},
    "by-class": {"kind": KINDS[0], "units": 20, "by_class": True, "transform": "square-root"},
    **{name: {"kind": "embedding", **settings} for name, settings in BUCKETED.items()},
}
"""Settings of every kind of encoder, and of every way to bucket."""
TABLES = ["embedding", *BUCKETED]
HEADS = ["least-squares", "averaged"]
NAMES = {"int": np.array([-7, 3, 2**40]), "str": np.array(["", "Äpfel", "zebra crossing"])}


def encoder_of(case, sample):
    return make_encoder(sample, **{"kind": case, **CASES[case]})


def make_model(encoder, features, labels, head="least-squares"):
    statistics = count(encoder, features, labels)
    return Model(encoder, solve(statistics, ridge=1.0, head=head))


def random_data(names=NAMES["int"], samples=150, feature_dim=7):
    rng = np.random.default_rng(1)
    labels = rng.integers(0, len(names), samples)
    features = rng.normal(size=(samples, feature_dim)) + labels[:, None]
    features[:, 2] = 0.1  # A constant feature: all its thresholds are equal.
    return features.astype(np.float32), names[labels]


def run_torch(model, features):
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    scores = to_torch(model)(torch.from_numpy(features)).numpy()
    return scores, np.array(model.class_names)[scores.argmax(1)]


def run_onnx(proto, features, outputs=("scores", "label")):
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    data = proto if isinstance(proto, bytes) else proto.SerializeToString()
    session = runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return session.run([*outputs], {"features": features})


def runtimes(model, features):
    pytest.importorskip("onnx")
    yield run_torch(model, features)
    yield run_onnx(to_onnx(model), features)


def assert_same(model, features):
    expected = model.predict(features)
    for scores, labels in runtimes(model, features):
        assert np.array_equal(scores, model.decision_function(features))
        assert labels.tolist() == expected.tolist()


def model_of(kind, head="least-squares", names=NAMES["int"]):
    """A model of a case, and the features that it was made of."""
    features, labels = random_data(names)
    return make_model(encoder_of(kind, PublicSample(features)), features, labels, head), features


@pytest.mark.parametrize(("head", "names"), zip(HEADS, NAMES.values(), strict=True))
@pytest.mark.parametrize("kind", CASES)
def test_same_scores_for_any_batch(kind, head, names):
    model, features = model_of(kind, head, names)
    for batch in (0, 1, 150):
        assert_same(model, features[:batch])


@pytest.mark.parametrize("head", [*HEADS, "discriminant"])
def test_onnx_gives_the_same_probabilities(head):
    pytest.importorskip("onnx")
    model, features = model_of("linear", head)
    for batch in (0, 1, 150):
        part = features[:batch]
        (found,) = run_onnx(to_onnx(model), part, ["probabilities"])
        np.testing.assert_allclose(found, model.predict_proba(part), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("together", [1, 1 << 13])
def test_the_quadratic_head_has_the_same_scores(together, monkeypatch):
    monkeypatch.setattr("safle.model.scores.TOGETHER", together)
    model, features = model_of("by-class", "quadratic")
    assert len(set(model.predict(features))) == 3
    assert_same(model, features)


@given(data_sets(1), st.sampled_from(HEADS))
@settings(max_examples=30)
def test_same_scores_on_any_data(drawn, head):
    head = HEADS[0] if len(set(drawn.labels)) < 2 else head
    model = make_model(drawn.encoder, drawn.features, drawn.labels, head)
    assert_same(model, drawn.features.astype(np.float32))


def around(thresholds):
    """Every threshold as float32, and its neighbours on either side; (samples, features)."""
    near = thresholds.astype(np.float32)
    sides = [np.nextafter(near, np.float32(side)) for side in (-np.inf, np.inf)]
    return np.concatenate([near, *sides])


@pytest.mark.parametrize("kind", TABLES)
def test_thresholds_are_decided_exactly(kind):
    # float64 quantiles that float32 cannot hold: rounding them either way would show.
    exact = np.random.default_rng(0).normal(size=(150, 7))
    labels = random_data()[1]
    encoder = encoder_of(kind, PublicSample(exact))
    model = make_model(encoder, exact, labels)
    features = around(encoder.thresholds)
    assert_same(model, features)
    scores, _ = run_torch(model, encoder.thresholds)
    assert np.array_equal(scores, model.decision_function(encoder.thresholds))


@pytest.mark.parametrize("factor", [1e-42, 1e-3, 1e3, 1e30])
@pytest.mark.parametrize("kind", KINDS)
def test_values_far_out_are_clipped_alike(kind, factor):
    model, features = model_of(kind)
    assert_same(model, features * np.float32(factor))


def test_gathering_in_blocks_changes_nothing(monkeypatch):
    graphs = pytest.importorskip("safle.model.export.onnx_graph")
    monkeypatch.setattr(graphs, "GATHERED", 6)
    assert_same(*model_of("embedding"))


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("kind", CASES)
def test_the_module_scripts_and_restores_from_its_state(kind):
    torch = pytest.importorskip("torch")
    features, labels = random_data()
    encoder = encoder_of(kind, PublicSample(features))
    model = make_model(encoder, features, labels)
    module, batch = to_torch(model), torch.from_numpy(features)
    expected = module(batch)
    assert torch.equal(torch.jit.script(module)(batch), expected)
    assert module.class_names == model.class_names
    assert not any(parameter.requires_grad for parameter in module.parameters())
    other = to_torch(make_model(encoder, features, labels[::-1], "discriminant"))
    other.load_state_dict(module.state_dict())
    assert torch.equal(other(batch), expected)


def test_the_module_owns_its_weights():
    torch = pytest.importorskip("torch")
    model, features = model_of("table")
    before = model.digest, model.decision_function(features)
    with torch.no_grad():
        for tensor in to_torch(model).state_dict().values():
            tensor.zero_()
    del model.__dict__["digest"]
    assert model.digest == before[0]
    assert np.array_equal(model.decision_function(features), before[1])


@pytest.mark.parametrize("kind", CASES)
def test_a_pt2_file_takes_any_batch(kind, tmp_path):
    torch = pytest.importorskip("torch")
    model, features = model_of(kind, names=NAMES["str"])
    export_torch(model, tmp_path / "model.pt2")
    extra = {"classes.json": ""}
    program = torch.export.load(tmp_path / "model.pt2", extra_files=extra).module()
    assert json.loads(extra["classes.json"]) == list(model.class_names)
    for batch in (0, 1, 150):
        scores = program(torch.from_numpy(features[:batch])).numpy()
        assert np.array_equal(scores, model.decision_function(features[:batch]))


@pytest.mark.slow
def test_a_pt2_file_needs_no_safle_and_holds_no_pickle(tmp_path):
    pytest.importorskip("torch")
    model, features = model_of("integer")
    path = tmp_path / "model.pt2"
    export_torch(model, path)
    np.save(tmp_path / "features.npy", features)
    code = (
        "import sys, numpy as np, torch\n"
        f"x = torch.from_numpy(np.load({str(tmp_path / 'features.npy')!r}))\n"
        f"print(torch.export.load({str(path)!r}).module()(x).argmax(1).tolist())\n"
        "assert 'safle' not in sys.modules\n"
    )
    run = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    )
    best = np.searchsorted(model.class_names, model.predict(features))
    assert json.loads(run.stdout) == best.tolist()
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            content = archive.read(name)
            assert not content.startswith((b"\x80", b"PK")), name
            assert b".py" not in content, name


def test_onnx_files_are_checked_named_and_reproducible(tmp_path):
    onnx = pytest.importorskip("onnx")
    model, features = model_of("table")
    export_onnx(model, tmp_path / "a.onnx")
    export_onnx(model, tmp_path / "b.onnx")
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    proto = onnx.load(tmp_path / "a.onnx")
    onnx.checker.check_model(proto, full_check=True)
    assert {node.domain for node in proto.graph.node} == {""}
    properties = {entry.key: entry.value for entry in proto.metadata_props}
    assert properties["safle.digest"] == model.digest
    assert json.loads(properties["safle.classes"]) == list(model.class_names)
    _, labels = run_onnx((tmp_path / "a.onnx").read_bytes(), features)
    assert np.array_equal(labels, model.predict(features))


def test_onnx_says_in_which_order_and_form_columns_are():
    pytest.importorskip("onnx")
    frame = polars.DataFrame({"sex": ["m", "f"] * 20, "age": [30.0, None, 50.0, 60.0] * 10})
    labels = np.arange(40) % 4 > 1
    model = SafleClassifier().fit(frame, labels).model_
    (said,) = [p.value for p in to_onnx(model).metadata_props if p.key == "safle.columns"]
    columns = json.loads(said)
    assert columns == [{"name": "age"}, {"name": "sex", "levels": ["f", "m"]}]
    levels = [None if row is None else ["f", "m"].index(row) for row in frame["sex"]]
    features = np.array([frame["age"].to_list(), levels], np.float32).T
    _, found = run_onnx(to_onnx(model).SerializeToString(), features)
    assert np.array_equal(found, model.predict(frame))


def test_exports_of_noisy_sums_say_what_was_promised(linear_model, tmp_path):
    torch, onnx = pytest.importorskip("torch"), pytest.importorskip("onnx")
    encoder = LinearEncoder.publishable(DeclaredRange(-3, 3, 7))
    exact = count(encoder, *random_data())
    generator = np.random.default_rng(0)
    noisy = publish(
        exact,
        plan_noise(exact.layout, 3, 1e-5),
        exact.class_names,
        draw=lambda size, scale: np.rint(generator.normal(0, scale, size)).astype(np.int64),
    )
    promised = []
    for model in (linear_model, Model(encoder, solve(noisy))):
        export_torch(model, tmp_path / "model.pt2")
        export_onnx(model, tmp_path / "model.onnx")
        extra = {PRIVACY_FILE: ""}
        torch.export.load(tmp_path / "model.pt2", extra_files=extra)
        entries = onnx.load(tmp_path / "model.onnx").metadata_props
        found = {entry.key: entry.value for entry in entries}
        promised.append((extra[PRIVACY_FILE], found.get("safle.privacy", "")))
    assert promised[0] == ("", "")
    for text in promised[1]:
        told = json.loads(text)
        assert (told["epsilon"], told["delta"]) == (3, 1e-5)
        assert Privacy.from_json(told) == noisy.privacy


@pytest.fixture
def linear_model():
    return model_of("linear")[0]


@pytest.mark.parametrize(
    ("package", "module", "export"),
    [("onnx", "onnx_graph", to_onnx), ("torch", "torch_module", to_torch)],
)
def test_a_missing_package_is_named(linear_model, monkeypatch, package, module, export):
    monkeypatch.delitem(sys.modules, f"safle.model.export.{module}", raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf"safle\[{package}\]"):
        export(linear_model)


def test_tables_beyond_two_gigabytes(linear_model, monkeypatch):
    graphs = pytest.importorskip("safle.model.export.onnx_graph")
    monkeypatch.setattr(graphs, "MOST_BYTES", 10)
    with pytest.raises(InvalidInput, match="2 GB"):
        to_onnx(linear_model)


def test_a_failed_export_leaves_the_old_file(linear_model, monkeypatch, tmp_path):
    torch = pytest.importorskip("torch")

    def break_off(program, file, **options):
        file.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(torch.export, "save", break_off)
    path = tmp_path / "model.pt2"
    path.write_bytes(b"old")
    with pytest.raises(OSError, match="No space"):
        export_torch(linear_model, path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_exports_of_the_default_are_about_as_small_as_the_model(tmp_path):
    """Signs of random features are few integers: as a matrix of floats they were 42 of 43 MB."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(60, 256)).astype(np.float32)
    labels = np.arange(60) % 3
    model = make_model(make_encoder(PublicSample(features)), features, labels, head="averaged")
    export_onnx(model, tmp_path / "model.onnx")
    export_torch(model, tmp_path / "model.pt2")
    # A model knows the seed of its signs and thresholds; an export holds them, three bytes a sign
    # and eight a threshold.
    own = len(model.to_bytes()) + (16 * 3 + 8) * model.encoder.settings.units
    assert (tmp_path / "model.onnx").stat().st_size < own + 20_000
    # torch describes every node of the program in JSON: 125 kB of it.
    assert (tmp_path / "model.pt2").stat().st_size < own + 150_000
    assert_same(model, features)
