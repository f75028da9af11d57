"""Tables: real tables with text and gaps, by the commands, against what one house would do alone.

A table's rows go to three folds, those of two folds to four clients. Each drafts a schema and
counts; the merged schema, the sum and the model are made by the commands as anybody would give
them, without an option, and so are the probabilities of the third fold. Logistic regression and
gradient boosting, both scikit-learn's and of the pooled rows, stand beside: numbers with gaps at
the median, and a column for every level.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
from click.testing import CliRunner
from numpy.typing import NDArray
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from benchmarks.report import Bar, Outcome, note
from benchmarks.settings import REPOSITORY, Settings
from safle.cli.main import app
from safle.cli.session import Session

TABLES_VARIABLE = "SAFLE_BENCH_TABLES"
DEFAULT_TABLES = REPOSITORY.parent / "shared" / "data" / "tables"
LABEL, YES = "outcome", "yes"
FOLDS, CLIENTS = 3, 4
CALIBRATION_BINS = 10
Figures = dict[str, float]


def run(settings: Settings) -> Outcome:
    """Every table, fold after fold."""
    rows = []
    for name, table in tables_at_hand(quick=settings.quick):
        note(f"tables: {name} ...")
        rows.append({"table": name, "samples": len(table), **_mean_of_folds(table)})
        note(f"  {rows[-1]}")
    gains = [row["auc"] - row["logistic_auc"] for row in rows]
    ratios = [row["log_loss"] / row["logistic_log_loss"] for row in rows]
    figures = {
        "auc_over_logistic": fmean(gains),
        "worst_auc": min(gains),
        "log_loss_ratio": fmean(ratios),
        "worst_ratio": max(ratios),
    }
    return Outcome(
        figures={**figures, "calibration_error": fmean(r["calibration_error"] for r in rows)}
        | {"rows": rows, "folds": FOLDS, "clients": CLIENTS},
        data="generated" if settings.quick else "tables",
        compared="nothing: figures stand side by side",
        bars=[
            Bar("tables: mean AUC over logistic regression", figures["auc_over_logistic"], 0.004),
            Bar("tables: worst AUC over logistic regression", figures["worst_auc"], -0.010),
            Bar("tables: log loss over its", figures["log_loss_ratio"], 0.96, at_most=True),
            Bar("tables: worst log loss over its", figures["worst_ratio"], 1.01, at_most=True),
        ],
        tables={"AUC, and log loss, in three folds": _shown(rows)},
    )


def _shown(rows: list[dict[str, Any]]) -> list[list[str]]:
    header = ["table", "samples", "logistic", "boosting", "safle", "calibration error"]
    shown = [header]
    for row in rows:
        pairs = [
            f"{row[f'{who}auc']:.3f} {row[f'{who}log_loss']:.3f}"
            for who in ("logistic_", "boosting_", "")
        ]
        error = f"{row['calibration_error']:.3f}"
        shown.append([row["table"], f"{row['samples']:,}", *pairs, error])
    return shown


def tables_at_hand(*, quick: bool) -> Iterator[tuple[str, pl.DataFrame]]:
    """Names and tables; all cells are text."""
    if quick:
        yield "generated", _generated()
        return
    folder = Path(os.environ.get(TABLES_VARIABLE) or DEFAULT_TABLES)
    paths = sorted(folder.glob("*.csv"))
    if not paths:
        raise FileNotFoundError(f"{folder} holds no tables; name a folder in ${TABLES_VARIABLE}")
    for path in paths:
        table = pl.read_csv(path, infer_schema=False)
        if LABEL in table.columns:
            yield path.stem, table


def _generated(samples: int = 300) -> pl.DataFrame:
    generator = np.random.default_rng(0)
    age, dose = generator.normal(60, 10, samples), generator.normal(5, 1, samples)
    sex = generator.choice(["f", "m"], samples)
    risk = (age - 60) / 10 + (sex == "m") * (dose - 5) + generator.logistic(size=samples)
    columns = {"age": age.round(1).astype(str), "dose": dose.round(2).astype(str), "sex": sex}
    return pl.DataFrame({**columns, LABEL: np.where(risk > 0, YES, "no")})


def folds_of(table: pl.DataFrame) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """Training rows and test rows."""
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    for train, test in folds.split(np.zeros(len(table)), table[LABEL]):
        yield table[train], table[test]


def _mean_of_folds(table: pl.DataFrame) -> Figures:
    found = []
    for train, test in folds_of(table):
        truth = (test[LABEL] == YES).to_numpy()
        with TemporaryDirectory() as folder:
            ours = by_commands(Path(folder), train, test)
        figures = {**judge(truth, ours), "calibration_error": calibration_error(truth, ours)}
        for name, answers in pooled_rivals(train, test).items():
            figures |= {f"{name}_{key}": value for key, value in judge(truth, answers).items()}
        found.append(figures)
    return {key: fmean(figures[key] for figures in found) for key in found[0]}


def judge(truth: NDArray[np.bool_], answers: NDArray[np.float64]) -> Figures:
    """AUC and log loss of probabilities of yes."""
    return {
        "auc": float(roc_auc_score(truth, answers)),
        "log_loss": float(log_loss(truth, np.clip(answers, 1e-6, 1 - 1e-6))),
    }


def calibration_error(truth: NDArray[np.bool_], answers: NDArray[np.float64]) -> float:
    """Mean distance of a probability from the share of yes, in bins of as many samples each."""
    bins = np.array_split(np.argsort(answers, kind="stable"), CALIBRATION_BINS)
    distances = [abs(answers[own].mean() - truth[own].mean()) * len(own) for own in bins]
    return float(sum(distances) / len(truth))


def by_commands(folder: Path, train: pl.DataFrame, test: pl.DataFrame) -> NDArray[np.float64]:
    """Probabilities of yes of the test rows."""
    sites = [folder / f"{client}.csv" for client in range(CLIENTS)]
    for client, site in enumerate(sites):
        train[client::CLIENTS].write_csv(site)
        label = ("--label-column", LABEL)
        _safle("schema", "draft", site, *label, "-o", site.with_suffix(".toml"))
    schema, encoder = folder / "schema.toml", folder / "encoder.safetensors"
    _safle("schema", "merge", *(site.with_suffix(".toml") for site in sites), "-o", schema)
    _safle("encoder", "make", "--schema", schema, "-o", encoder)
    for site in sites:
        _safle("count", site, "--encoder", encoder, "-o", site.with_suffix(".stats"))
    total, model = folder / "total.stats", folder / "model.safetensors"
    _safle("sum", *(site.with_suffix(".stats") for site in sites), "-o", total)
    _safle("solve", total, "--encoder", encoder, "-o", model)
    test.write_csv(folder / "test.csv")
    _safle("predict", model, folder / "test.csv", "--proba", "-o", folder / "answers.csv")
    with (folder / "answers.csv").open(newline="") as file:
        lines = [*csv.DictReader(file)]
    (column,) = (name for name in lines[0] if name.endswith(YES))
    return np.array([float(line[column]) for line in lines])


def _safle(*arguments: object) -> None:
    """One command, in this process."""
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], obj=Session())
    if done.exit_code:
        raise RuntimeError(f"safle {arguments[0]} failed: {done.output}") from done.exception


def pooled_rivals(train: pl.DataFrame, test: pl.DataFrame) -> dict[str, NDArray[np.float64]]:
    """Probabilities of yes by what trains on all rows at once."""
    numbers = [name for name in train.columns if _is_number(train[name])]
    frames = []
    for part in (train, test):
        cast = part.drop(LABEL).with_columns(pl.col(numbers).cast(pl.Float64))
        frames.append(cast.to_pandas())
    texts = make_column_selector(dtype_exclude="number")
    logistic = make_column_transformer(
        (make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numbers),
        (OneHotEncoder(handle_unknown="ignore"), texts),
    )
    dense = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    boosting = make_column_transformer(("passthrough", numbers), (dense, texts))
    rivals = {
        "logistic": make_pipeline(logistic, LogisticRegression(max_iter=1_000)),
        "boosting": make_pipeline(boosting, HistGradientBoostingClassifier(random_state=0)),
    }
    labels = (train[LABEL] == YES).to_numpy()
    fitted = {name: rival.fit(frames[0], labels) for name, rival in rivals.items()}
    return {name: rival.predict_proba(frames[1])[:, 1] for name, rival in fitted.items()}


def _is_number(column: pl.Series) -> bool:
    present = column.drop_nulls()
    return column.name != LABEL and not present.cast(pl.Float64, strict=False).is_null().any()
