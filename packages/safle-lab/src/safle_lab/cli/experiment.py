"""``safle experiment``: the paper's tables and figures on a features file."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from safle.cli import FILE, FOLDER, Session, command, option
from safle.errors import InvalidInput
from safle_images.cli import BACKBONE, LABEL_COLUMN, running

if TYPE_CHECKING:
    from safle_lab.experiments.data import DataSet

ALL = "all"
NAMES = (
    *("table1", "bucketing", "backbones", "rounds", "communication"),
    *("clients", "sparsity", "noise", "ridge", "unlearning"),
)
"""As in `safle_lab.experiments.suite`, whose import is too slow for --help."""
FEATURES = (
    "Features with the splits train and test, labelled; several for 'backbones'. Without, "
    "scikit-learn's digits."
)
DATASET = "Images in place of features: hf:NAME, or a folder or archive with the splits."
TEST_SPLIT = "What the test split of --dataset is called."
TEXTS = "Embeddings of texts, labelled with the class that each describes: for TOFA."
OUT = "Where results go; by default NAME-results, after the features file."
UNATTENDED = {"batch": 32, "workers": None, "max_unreadable": 0.01}
"""How `safle features` runs if it is told nothing."""
METHOD = "A Python file with a method of your own, which is run beside the others."
SETTINGS = "TOML with what differs from the defaults; a saved one repeats its run."


@command(
    "safle experiment table1 --features cifar10.safetensors --out results",
    "safle experiment all && safle report digits-results",
    "safle experiment table1 --dataset hf:cifar100 --label-column fine_label",
    "safle experiment table1 --method my_method.py",
    panel="Try it",
)
@click.argument(
    "name", type=click.Choice([*NAMES, ALL]), help="Which experiment; 'all' runs one after another."
)
@option("--features features_paths", FEATURES, "FILE", type=FILE, multiple=True)
@option("--dataset", DATASET, "IMAGES")
@option("--backbone", BACKBONE, "NAME|FILE.onnx", default="efficientnet_lite0")
@option("--test-split", TEST_SPLIT, "NAME", default="test")
@option("--label-column", LABEL_COLUMN, "NAME", default="label")
@option("--texts texts_path", TEXTS, "FILE", type=FILE)
@option("--out folder", OUT, "DIR", type=FOLDER)
@option("--method method_paths", METHOD, "FILE.py", type=FILE, multiple=True)
@option("--settings settings_path", SETTINGS, "FILE", type=FILE)
def experiment(
    session: Session,
    /,
    name: str,
    features_paths: tuple[Path, ...],
    dataset: str | None,
    backbone: str,
    test_split: str,
    label_column: str,
    texts_path: Path | None,
    folder: Path | None,
    method_paths: tuple[Path, ...],
    settings_path: Path | None,
) -> None:
    """Run an experiment of the paper: the same features for every method.

    table1: methods in non-IID scenarios. bucketing: three strategies. backbones: several
    features files. rounds, communication: accuracy against exchanges and megabytes.
    clients: 100 to 1000 of them. sparsity: table sizes. noise: wrong labels. ridge: its
    effect and automatic choice. unlearning: clients that leave.

    Settings are chosen on a part of the training samples, never on the test set. Every
    figure is kept as soon as it is measured: run the same command again after an
    interruption and it goes on. `safle report DIR` makes a page of the results; with
    --dataset the same command makes features, figures and page.
    """
    from safle_lab.baselines import add_method
    from safle_lab.experiments.data import describe_classes, load_digits
    from safle_lab.experiments.running import Runner, load_settings, with_method

    if len(features_paths) > 1 and name != "backbones":
        raise InvalidInput(
            f"{len(features_paths)} features files for '{name}'; expected one: only "
            "'backbones' compares several"
        )
    if dataset and features_paths:
        raise InvalidInput("both --dataset and --features; expected images or their features")
    columns = {"test_split": test_split, "label_column": label_column}
    data, target = _load_data(session, features_paths, dataset, backbone, columns, folder)
    if texts_path:
        data = [describe_classes(one, texts_path) for one in data]
    small = not features_paths and not dataset
    added = [add_method(path).name for path in method_paths]
    settings = load_settings(settings_path, small=small, class_count=data[0].class_count)
    for method in added:
        settings = with_method(settings, method)
    target.mkdir(parents=True, exist_ok=True)
    for chosen in NAMES if name == ALL else (name,):
        poorer = chosen == "backbones" and small
        several = [load_digits(pooled=True)] if poorer else []
        runner = Runner([*data, *several], settings, target)
        with session.progress(chosen) as advance:
            result = runner.run(getattr(settings, chosen), advance)
        session.text([f"{result['title']}: {result['question']}"])
        session.table(*_table(result["summary"]))
    _say_what_is_next(session, target, report=bool(dataset))


def _load_data(
    session: Session,
    features: Sequence[Path],
    dataset: str | None,
    backbone: str,
    columns: dict[str, str],
    folder: Path | None,
) -> tuple[list[DataSet], Path]:
    """The data sets, and where their results go."""
    from safle_lab.experiments.data import load_digits, load_features
    from safle_lab.experiments.images import load_images, name_of

    if not dataset:
        data = [load_features(path) for path in features] or [load_digits()]
        return data, folder or Path(f"{data[0].name}-results")
    target = folder or Path(f"{name_of(dataset, backbone)}-results")
    watch = partial(running, session, options=UNATTENDED)
    place = target / "features"
    return [load_images(dataset, backbone, place, watch=watch, **columns)], target


def _say_what_is_next(session: Session, target: Path, *, report: bool) -> None:
    if report:
        from safle_lab.report import write_report

        write_report(target, target / "report.html")
        session.text([f"results: {target}/; {target / 'report.html'}"])
    else:
        session.text([f"results: {target}/; next: safle report {target}"])


def _table(summary: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Labels, accuracy ± deviation, AUC, and what it cost where that was measured."""
    figures = {
        *("accuracy", "deviation", "auc", "worst_client", "clients_deviation", "seeds"),
        *("rounds", "seconds"),
        *("bytes_up", "bytes_down", "digests"),
    }
    names = list(dict.fromkeys(name for line in summary for name in line if name not in figures))
    rows = []
    for line in summary:
        spread = f" ± {100 * line['deviation']:.2f}" if line["seeds"] > 1 else ""
        costs = ["", ""]
        if "bytes_up" in line:
            megabytes = (line["bytes_up"] + line["bytes_down"]) / 1e6
            costs = [f"{line['rounds']:.0f}", f"{megabytes:.3f}"]
        digests = ", ".join(digest[:8] for digest in line["digests"][:2])
        more = " …" if len(line["digests"]) > 2 else ""
        labels = (str(line.get(name, "")) for name in names)
        accuracy = f"{line['accuracy']:.2%}{spread}"
        area = f"{line['auc']:.3f}" if "auc" in line else ""
        rows.append([*labels, accuracy, area, str(line["seeds"]), *costs, digests + more])
    return [*names, "accuracy", "AUC", "seeds", "rounds", "MB per client", "models"], rows
