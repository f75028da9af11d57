"""Labels that hospitals agree on: shown, compared, and refused where they were not declared."""

from __future__ import annotations

import numpy as np
import pytest

from safle import declared_range, load_encoder, make_encoder, open_table, read

ROWS = "a,b,label\n1,2,{0}\n3,1,{1}\n2,2,{0}\n"


@pytest.fixture
def encoder_path(tmp_path):
    path = tmp_path / "encoder.safetensors"
    make_encoder(declared_range(0, 4, feature_dim=2, names=["a", "b"]), "linear").save(path)
    return path


def count(safle, folder, name, encoder, *labels, code=0):
    (folder / f"{name}.csv").write_text(ROWS.format(*labels))
    where = folder / f"{name}.stats"
    said = safle("count", folder / f"{name}.csv", "--encoder", encoder, "-o", where, code=code)
    return where, " ".join(said.split())


def test_sums_and_stores_show_classes_and_warn_of_near_duplicates(safle, tmp_path, encoder_path):
    files = [
        count(safle, tmp_path, name, encoder_path, *labels)[0]
        for name, labels in {"one": (" ill", "well "), "two": ("Ill", "well")}.items()
    ]
    assert read(files[0]).class_names == ("ill", "well")
    said = [
        safle("sum", *files, "-o", tmp_path / "total.stats"),
        safle("store", "add", tmp_path / "store", *files, "--encoder", encoder_path),
    ]
    for text in (" ".join(each.split()) for each in said):
        assert "classes 3 (Ill, ill, well)" in text
        assert "'Ill' and 'ill' differ in case or spaces only" in text
    said = safle("sum", files[0], "-o", tmp_path / "one-total.stats")
    assert "differ in case" not in said


def test_an_encoder_declares_its_classes_and_clients_refuse_others(safle, tmp_path):
    path = tmp_path / "e.safetensors"
    made = ("encoder", "make", "--range", 0, 4, "--features", 2, "--kind", "linear", "-o", path)
    safle(*made)
    plain = load_encoder(path)
    safle(*made, "--force", "--only-classes", "well, ill")
    encoder = load_encoder(path)
    assert encoder.contract.classes == ("ill", "well")
    assert encoder.fingerprint != plain.fingerprint
    count(safle, tmp_path, "known", path, "ill", "well")
    where, said = count(safle, tmp_path, "unknown", path, "ill", "wel", code=1)
    assert "'wel', which are not among the declared classes 'ill', 'well'" in said
    assert not where.exists()


def test_spaces_around_labels_are_dropped_in_every_format(tmp_path):
    features = np.zeros((2, 1))
    np.savez(tmp_path / "a.npz", features=features, labels=np.array([" ill", "ill "]))
    (tmp_path / "b.csv").write_text("a,label\n0,ill \n0, ill\n")
    for table in (
        open_table(tmp_path / "a.npz"),
        open_table(tmp_path / "b.csv"),
        open_table(tmp_path / "a.npz", labels=[" ill", "ill "]),
    ):
        assert table.labels.tolist() == ["ill", "ill"]
