"""The data of experiments: files of one backbone, tensors of torch, clients that are real."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs
from safetensors.numpy import save_file

from safle.errors import InvalidInput, SafleWarning, SettingsError, TableError
from safle_lab.experiments import EXPERIMENTS
from safle_lab.experiments.data import REAL, load_digits
from safle_lab.experiments.loading import load_features
from safle_lab.experiments.measuring import task_of
from safle_lab.experiments.plan import Cell
from safle_lab.experiments.running import load_settings, run_experiment
from support.tables import write_table

OURS, THEIRS = "resnet18 crop=224", "vgg11 crop=224"
SHORT = """
federation = {clients = 3, seeds = 1}
table1 = {methods = ["afl"], scenarios = ["iid"]}
rounds = {methods = ["afl"]}
backbones = {methods = ["afl"]}
"""
ROWS, FEATURES = 60, 4
GENERATOR = np.random.default_rng(0)
LABELS = np.arange(ROWS) % 3
VALUES = (GENERATOR.normal(size=(ROWS, FEATURES)) + LABELS[:, None]).astype(np.float32)


def table(path: Path, source: str = "", *, width: int = FEATURES, **arrays: Any) -> Path:
    tensors = {"features": VALUES[:, :width].copy(), "labels": LABELS, **arrays}
    save_file(tensors, path, {"source": source} if source else {})
    return path


@pytest.fixture
def short(tmp_path: Path) -> tuple[object, ...]:
    (tmp_path / "short.toml").write_text(SHORT)
    return ("--settings", tmp_path / "short.toml", "--out", tmp_path / "out")


# --- One backbone --------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_refuses_test_features_of_another_backbone(safle, tmp_path, short, name):
    train = table(tmp_path / "train.safetensors", OURS)
    test = table(tmp_path / "test.safetensors", THEIRS)

    said = safle("experiment", name, "--features", train, "--test", test, *short, code=1)

    assert "test.safetensors: made by [vgg11 crop=224]" in said
    assert "train.safetensors is of [resnet18 crop=224]" in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_refuses_another_width(safle, tmp_path, short, name):
    train = table(tmp_path / "train.safetensors")
    test = table(tmp_path / "test.safetensors", width=3)

    said = safle("experiment", name, "--features", train, "--test", test, *short, code=1)

    assert "3 features beside 4 of" in said
    assert "report it" not in said


def test_a_file_that_names_no_backbone_is_said_first(tmp_path):
    train = table(tmp_path / "train.safetensors", OURS)
    test = table(tmp_path / "test.safetensors")

    with pytest.warns(SafleWarning, match=r"does not say which backbone"):
        assert load_features([train], test).source == OURS


def test_columns_are_matched_by_name(tmp_path):
    (tmp_path / "train.csv").write_text("a,b,label\n1,2,x\n3,4,y\n")
    (tmp_path / "test.csv").write_text("b,label,a\n2,x,1\n")
    (tmp_path / "other.csv").write_text("b,label,c\n2,x,1\n")

    data = load_features([tmp_path / "train.csv"], tmp_path / "test.csv")

    assert data.test.tolist() == [[1, 2]]
    with pytest.raises(TableError, match="'a', 'c' in one of them only"):
        load_features([tmp_path / "train.csv"], tmp_path / "other.csv")


def test_labels_of_two_types_are_refused(tmp_path):
    (tmp_path / "numbers.csv").write_text("a,label\n1,0\n3,1\n")
    (tmp_path / "names.csv").write_text("a,label\n1,x\n2,1\n")

    with pytest.raises(TableError, match=r"labels are text, and those of .*numbers"):
        load_features([tmp_path / "numbers.csv"], tmp_path / "names.csv")


def test_features_files_need_both_splits_with_the_same_classes(tmp_path):
    digits = load_digits()
    arrays = {
        "train_features": digits.train[:200],
        "train_labels": digits.train_labels[:200],
        "test_features": digits.test[:20],
        "test_labels": digits.test_labels[:20],
    }
    np.savez(tmp_path / "good.npz", **arrays)
    loaded = load_features([tmp_path / "good.npz"])
    assert np.array_equal(loaded.train, digits.train[:200])
    assert loaded.name == "good"

    np.savez(tmp_path / "strange.npz", **{**arrays, "test_labels": np.full(20, 99)})
    with pytest.raises(TableError, match=r"\[99\] occur in no training sample"):
        load_features([tmp_path / "strange.npz"])
    write_table(tmp_path / "one.npz", digits.train[:5], digits.train_labels[:5])
    with pytest.raises(TableError, match="no split 'train'"):
        load_features([tmp_path / "one.npz"])
    np.savez(tmp_path / "bare.npz", train_features=digits.train[:5])
    with pytest.raises(TableError, match="no labels"):
        load_features([tmp_path / "bare.npz"])


# --- One file or two, several backbones ----------------------------------------------------


def test_backbones_take_two_files_each(safle, tmp_path, short):
    files = []
    for name, source, width in (("a", OURS, 4), ("b", THEIRS, 3)):
        for split in ("train", "test"):
            path = table(tmp_path / f"{name}-{split}.safetensors", source, width=width)
            files += ["--features" if split == "train" else "--test", path]

    safle("experiment", "backbones", *files, *short)

    rows = json.loads((tmp_path / "out/backbones.json").read_text())["rows"]
    assert [(row["features"], row["feature_dim"]) for row in rows] == [
        ("a-train", 4),
        ("b-train", 3),
    ]
    crossed = [files[0], files[1], files[4], files[5], files[2], files[7], files[6], files[3]]
    assert "made by" in safle("experiment", "backbones", *crossed, *short, code=1)
    said = safle("experiment", "backbones", *files[:-2], *short, code=1)
    assert "2 --features and 1 --test for 'backbones'; expected one --test" in said
    assert "beside each" in said


@pytest.mark.parametrize("name", ["table1", "all", "backbones"])
def test_experiment_refuses_two_test_files_for_one(safle, tmp_path, short, name):
    file = table(tmp_path / "a.safetensors")
    words = ("--features", file, "--test", file, "--test", file)
    assert "expected one --test" in safle("experiment", name, *words, *short, code=1)
    for alone in (words[2:4], ("--clients", "site")):
        assert "0 --features" in safle("experiment", name, *alone, *short, code=1)


# --- Real clients --------------------------------------------------------------------------


def write_with_clients(path: Path, clients: np.ndarray) -> Path:
    if path.suffix == ".csv":
        lines = ["a,b,c,d,site,label"]
        for row, site, label in zip(VALUES, clients, LABELS, strict=True):
            lines.append(",".join([*map(repr, row.tolist()), f"site {site}", str(label)]))
        path.write_text("\n".join(lines) + "\n")
    elif path.suffix == ".npz":
        np.savez(
            path, features=VALUES, labels=LABELS, site=np.array([f"s{own}" for own in clients])
        )
    else:
        table(path, site=clients)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".npz", ".safetensors"])
def test_a_column_names_the_client_of_each_sample(tmp_path, suffix):
    clients = GENERATOR.integers(0, 4, ROWS)
    file = write_with_clients(tmp_path / f"train{suffix}", clients)

    data = load_features([file], file, clients_in="site")

    assert data.train.shape == data.test.shape == (ROWS, FEATURES)
    parts = task_of(data, Cell("method", REAL, 4, 0), lambda _: None).parts
    assert [part.tolist() for part in parts] == [
        np.flatnonzero(clients == number).tolist() for number in range(4)
    ]
    held = data.held_out(0.2)
    assert len(held.clients) == len(held.train)
    for number in range(4):
        rows = {row.tobytes() for row in held.train[held.clients == number]}
        assert rows <= {row.tobytes() for row in VALUES[clients == number]}


@pytest.mark.parametrize("suffix", [".csv", ".npz", ".safetensors"])
def test_test_samples_say_from_which_client_they_are(safle, tmp_path, short, suffix):
    clients = GENERATOR.permutation(np.arange(ROWS) % 3)
    train = write_with_clients(tmp_path / f"train{suffix}", clients)
    test = write_with_clients(tmp_path / f"test{suffix}", (clients + 1) % 3)

    data = load_features([train], test, clients_in="site")
    files = ("--features", train, "--test", test, "--clients", "site")
    shown = safle("experiment", "table1", *files, *short)

    assert data.test_clients.tolist() == ((clients + 1) % 3).tolist()
    assert "balanced accuracy of each client" in shown
    assert "mean of clients" in shown
    rows = json.loads((tmp_path / "out/table1.json").read_text())["rows"]
    [real] = [row for row in rows if row.get("scenario") == REAL]
    sizes = np.bincount(data.test_clients).tolist()
    assert [line["client"] for line in real["real_clients"]] == list(data.client_names)
    assert [line["samples"] for line in real["real_clients"]] == sizes
    hits = sum(line["samples"] * line["accuracy"] for line in real["real_clients"])
    assert hits / ROWS == pytest.approx(real["accuracy"])


@pytest.mark.parametrize("suffix", [".csv", ".npz"])
def test_test_samples_may_be_of_nobody_in_particular(tmp_path, suffix):
    train = write_with_clients(tmp_path / f"train{suffix}", np.arange(ROWS) % 2)
    test = tmp_path / f"test{suffix}"
    np.savez(tmp_path / "test.npz", features=VALUES, labels=LABELS)
    if suffix == ".csv":
        cells = [[*row, label] for row, label in zip(VALUES.tolist(), LABELS.tolist(), strict=True)]
        lines = [",".join(map(repr, line)) for line in cells]
        test.write_text("\n".join(["a,b,c,d,label", *lines]))

    data = load_features([train], test, clients_in="site")

    assert data.test_clients is None


def test_test_samples_of_an_unknown_client_are_refused(tmp_path):
    train = write_with_clients(tmp_path / "train.npz", np.arange(ROWS) % 2)
    test = write_with_clients(tmp_path / "test.npz", np.arange(ROWS) % 3)

    with pytest.raises(TableError, match="s2"):
        load_features([train], test, clients_in="site")


def test_a_file_of_each_client_is_its_samples(safle, tmp_path, short):
    clients = np.sort(GENERATOR.integers(0, 3, ROWS))
    files: list[object] = []
    for number in range(3):
        own = clients == number
        path = tmp_path / f"{number}.safetensors"
        files += ["--features", table(path, features=VALUES[own], labels=LABELS[own])]
    test = ("--test", table(tmp_path / "test.safetensors"))

    safle("experiment", "table1", *files, *test, *short)
    safle("experiment", "rounds", *files, *test, *short)

    rows = json.loads((tmp_path / "out/table1.json").read_text())["rows"]
    mix = next(row["class_mix"] for row in rows if row.get("partition_of") == REAL)
    assert mix == [np.bincount(LABELS[clients == own], minlength=3).tolist() for own in range(3)]
    assert [row["scenario"] for row in rows if "method" in row] == [REAL, "iid"]
    rows = json.loads((tmp_path / "out/rounds.json").read_text())["rows"]
    assert [row["scenario"] for row in rows] == [REAL]
    assert "--test" in safle("experiment", "table1", *files, *short, code=1)
    both = (*files, *test, "--clients", "site")
    assert "no --clients" in safle("experiment", "table1", *both, *short, code=1)


def test_cell_key_depends_on_clients(tmp_path):
    one, two = (
        load_features(
            [write_with_clients(tmp_path / f"{seed}.npz", np.roll(np.arange(ROWS) % 2, seed))],
            tmp_path / "0.npz",
            clients_in="site",
        )
        for seed in (0, 1)
    )
    cell = Cell("method", REAL, 2, 0, "afl")

    assert one.fingerprint == two.fingerprint
    assert cell.key(one) != cell.key(two)


@pytest.mark.parametrize(
    ("suffix", "column", "complaint"),
    [
        (".csv", "place", "no column 'place'"),
        (".npz", "place", "no array 'place' of names or numbers"),
        (".safetensors", "place", "no array 'place' of names or numbers"),
        (".safetensors", "features", "expected the name or number of a client"),
    ],
)
def test_a_column_that_names_no_clients_is_refused(tmp_path, suffix, column, complaint):
    file = write_with_clients(tmp_path / f"train{suffix}", np.arange(ROWS) % 2)

    with pytest.raises(TableError, match=complaint):
        load_features([file], file, clients_in=column)


def test_a_client_without_a_name_is_refused(tmp_path):
    (tmp_path / "train.csv").write_text("a,site,label\n1,x,0\n2,,1\n")

    with pytest.raises(InvalidInput, match="client"):
        load_features([tmp_path / "train.csv"], tmp_path / "train.csv", clients_in="site")


def test_the_scenario_needs_clients(tmp_path):
    settings = load_settings(None, small=True)
    chosen = structs.replace(settings.table1, methods=("afl",), scenarios=(REAL,))

    with pytest.raises(SettingsError, match="--clients COLUMN"):
        run_experiment(
            "table1", [load_digits()], structs.replace(settings, table1=chosen), tmp_path
        )


# --- Tensors of torch ----------------------------------------------------------------------


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


def test_tensors_are_read_like_other_files(torch, safle, tmp_path, short):
    features, labels = torch.from_numpy(VALUES), torch.from_numpy(LABELS)
    splits = {"train_features": features, "train_labels": labels}
    splits |= {"test_features": features.double(), "test_labels": labels}
    torch.save(splits, tmp_path / "both.pt")
    torch.save((features.requires_grad_(), labels), tmp_path / "pair.pth")
    torch.save({"features": features.half(), "labels": labels}, tmp_path / "half.pt")

    one = load_features([tmp_path / "both.pt"])
    two = load_features([tmp_path / "pair.pth"], tmp_path / "half.pt")

    assert np.array_equal(one.train, VALUES)
    assert np.array_equal(two.train, VALUES)
    assert np.array_equal(two.test, VALUES.astype(np.float16).astype(np.float32))
    assert one.test_labels.tolist() == two.test_labels.tolist() == LABELS.tolist()
    safle("experiment", "table1", "--features", tmp_path / "both.pt", *short)


class Runs:
    """What unpickles by running a program."""

    def __reduce__(self):
        return (exec, ("open('ran', 'w').close()",))


def bad_tensors(torch: Any) -> dict[str, Any]:
    rows, labels = torch.ones(ROWS, 2), torch.from_numpy(LABELS)
    return {
        "one tensor": rows,
        "no features": {"x": rows},
        "no labels": {"features": rows},
        "a list": {"features": [[1.0]], "labels": labels},
        "labels of another length": (rows, labels[:-1]),
        "labels that are measurements": (rows, labels.float()),
        "one row": (rows[0], labels),
        "sparse": (rows.to_sparse(), labels),
        "more than the file holds": (torch.ones(1).expand(10**7, 10**3), labels),
        "complex numbers": (rows * 1j, labels),
    }


BAD = (
    *("one tensor", "no features", "no labels", "a list", "labels of another length"),
    *("labels that are measurements", "one row", "sparse", "more than the file holds"),
    "complex numbers",
)


@pytest.mark.parametrize("name", BAD)
def test_torch_file_must_be_a_table(torch, tmp_path, name):
    assert {*bad_tensors(torch)} == {*BAD}
    path = tmp_path / "bad.pt"
    torch.save(bad_tensors(torch)[name], path)

    with pytest.raises(InvalidInput, match=r"bad\.pt"):
        load_features([path], path)


def test_nothing_in_a_file_of_tensors_is_run(torch, safle, tmp_path, short, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"features": torch.ones(2, 2), "labels": Runs()}, "code.pt")

    said = safle(
        "experiment", "table1", "--features", "code.pt", "--test", "code.pt", *short, code=1
    )

    assert "torch does not read it safely" in said
    assert not Path("ran").exists()


def test_damaged_files_of_tensors_are_refused(torch, tmp_path):
    good = io.BytesIO()
    torch.save((torch.from_numpy(VALUES), torch.from_numpy(LABELS)), good)
    packed = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(good.getvalue())) as archive,
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as smaller,
    ):
        for part in archive.namelist():
            smaller.writestr(part, archive.read(part))
        smaller.writestr("archive/data/9", bytes(10**7))
    damaged = {
        "half": good.getvalue()[: len(good.getvalue()) // 2],
        "a pickle": b"\x80\x04}\x94.",
        "text": b"features",
        "unpacks to more": packed.getvalue(),
    }
    for name, content in damaged.items():
        (tmp_path / "bad.pt").write_bytes(content)
        with pytest.raises(TableError, match=r"bad\.pt: (not a whole file|unpacks|torch does)"):
            load_features([tmp_path / "bad.pt"], tmp_path / "bad.pt")
        assert name
    for missing in (tmp_path / "none.pt", tmp_path):
        with pytest.raises(InvalidInput):
            load_features([missing], missing)
