"""Tables as hospitals have them: mixed, in any order, with gaps; one schema, one model."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from safle import Model, count, load_encoder, solve
from safle.tables import open_table
from support.hospitals import SITES, make_rows, write_rows

CATEGORIES = ("region", "family history")


@pytest.fixture(scope="module")
def hospitals(tmp_path_factory):
    """The sites' tables, and all of them in one."""
    folder = tmp_path_factory.mktemp("hospitals")
    rows, owners = make_rows()
    for number, site in enumerate(SITES):
        share = [row for row, owner in zip(rows, owners, strict=True) if owner == number]
        write_rows(folder / f"{site}.csv", share, site)
    # What site c alone measures is a gap everywhere else.
    measured = iter(range(7, 7 + len(rows)))
    pooled = [
        row | {"nodes (mm)": f"{next(measured)} mm" if SITES[owner] == "c" else ""}
        for row, owner in zip(rows, owners, strict=True)
    ]
    write_rows(folder / "pooled.csv", pooled)
    return folder, rows


def regression_accuracy(train, test):
    """Of scikit-learn's logistic regression with what its users do about gaps and levels."""
    numbers = [n for n in train[0] if n not in (*CATEGORIES, "label")]

    def matrix(rows):
        values = [[float(row[n] or "nan") for n in numbers] for row in rows]
        texts = [[row[n] for n in CATEGORIES] for row in rows]
        return np.concatenate([np.array(values, object), np.array(texts, object)], axis=1)

    places = np.arange(len(numbers))
    prepared = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), places),
        (OneHotEncoder(handle_unknown="ignore"), [len(numbers), len(numbers) + 1]),
    )
    model = make_pipeline(prepared, LogisticRegression(max_iter=1000))
    model.fit(matrix(train), [row["label"] for row in train])
    return model.score(matrix(test), [row["label"] for row in test])


def cross_validate(encoder, path, rows):
    """Accuracy in five folds of what was pooled: ours, and logistic regression's."""
    table = open_table(path, schema=encoder.schema)
    features, labels = np.asarray(table.features), table.labels
    right = np.zeros(2)
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(features, labels):
        model = Model(encoder, solve(count(encoder, features[train], labels[train])))
        ours = (model.predict(features[test]) == labels[test]).sum()
        theirs = regression_accuracy([rows[at] for at in train], [rows[at] for at in test])
        right += ours, theirs * len(test)
    return right / len(rows)


@pytest.mark.slow
def test_four_hospitals_of_mixed_tables(safle, hospitals, tmp_path):
    folder, rows = hospitals
    drafts, sent = [], []
    for site in SITES:
        drafts.append(tmp_path / f"{site}.toml")
        safle("schema", "draft", folder / f"{site}.csv", "--id", "patient", "-o", drafts[-1])
        assert "abroad" not in drafts[-1].read_text()
    said = safle("schema", "merge", *drafts, "-o", tmp_path / "schema.toml")
    assert "'nodes (mm)' is not in every table: who lacks it has gaps" in " ".join(said.split())
    encoder = tmp_path / "encoder.safetensors"
    safle("encoder", "make", "--schema", tmp_path / "schema.toml", "-o", encoder)
    assert load_encoder(encoder).classes == ("benign", "malignant")

    for name in (*SITES, "pooled"):
        sent.append(tmp_path / f"{name}.stats")
        safle("count", folder / f"{name}.csv", "--encoder", encoder, "-o", sent[-1])
    total = tmp_path / "total.stats"
    safle("sum", *sent[:4], "-o", total)
    assert total.read_bytes() == sent[4].read_bytes()
    models = []
    for statistics in (total, sent[4]):
        models.append(tmp_path / f"{statistics.stem}.safetensors")
        safle("solve", statistics, "--encoder", encoder, "-o", models[-1])
    assert models[0].read_bytes() == models[1].read_bytes()

    # Whoever uses the model reads tables by what it says, too.
    for site in ("c", "d"):
        safle(
            "predict",
            models[0],
            folder / f"{site}.csv",
            "--id",
            "patient",
            "-o",
            tmp_path / "p.csv",
        )
        written = (tmp_path / "p.csv").read_text().splitlines()
        assert written[1].startswith("p7,")
    accuracy, regression = cross_validate(load_encoder(encoder), folder / "pooled.csv", rows)
    assert accuracy >= regression - 0.01
