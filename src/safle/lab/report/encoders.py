"""Sections about encoder and solver: bucketing, backbones, sparsity, ridge, unlearning."""

from __future__ import annotations

from safle.lab.report.blocks import Cell, Chart, Mix, Series, Table
from safle.lab.report.lines import (
    ACCURACY,
    Content,
    Lines,
    Result,
    distinct,
    matching,
    score,
)
from safle.lab.report.paper import Paper


def bucketing(result: Result, paper: Paper) -> Content:
    """A chart over B_n, and every strategy and size beside the paper's."""
    lines, rows = result["summary"], []
    series = []
    for strategy in distinct(lines, "strategy"):
        own = matching(lines, strategy=strategy)
        series.append(
            Series(
                strategy,
                [line["buckets"] for line in own],
                [100 * line["accuracy"] for line in own],
                [100 * line["deviation"] for line in own],
            )
        )
        for line in own:
            row = matching(result["rows"], strategy=strategy, buckets=line["buckets"])[0]
            rows.append(
                [
                    strategy,
                    str(line["buckets"]),
                    score(line, paper.bucketing(strategy, line["buckets"])),
                    str(line["group_size"]),
                    f"{row['experts']:,} × {row['table_size']:,}",
                    f"{row['columns']:,}",
                    f"{100 * row['gram_density']:.1f}",
                    f"{row['ridge']:.3g}",
                ]
            )
    chart = Chart(
        "bucketing", "Accuracy over the number of buckets.", "buckets B_n", ACCURACY, series
    )
    columns = ["strategy", "B_n", "accuracy", "G", "tables", "columns", "gram, % full", "ridge"]
    remark = (
        "The paper does not say how large its groups were. Here they are the largest that keep "
        "the column limit, and the ridge is chosen from the counts: both soften the fall with "
        "B_n that the paper reports for integer and one-hot bucketing."
    )
    return [chart, Table("Every strategy and size.", columns, rows, names=1)], [remark]


def backbones(result: Result, paper: Paper) -> Content:
    """Every method on every features file."""
    lines = result["summary"]
    methods = distinct(lines, "method")
    rows: list[list[str | Cell]] = [
        [
            features,
            str(matching(lines, features=features)[0]["feature_dim"]),
            *(score(matching(lines, features=features, method=method)[0]) for method in methods),
        ]
        for features in distinct(lines, "features")
    ]
    blocks: list[Table | Chart | Mix] = [
        Table("Accuracy in percent, every method on every file.", ["features", "d", *methods], rows)
    ]
    if theirs := paper.backbones():
        blocks.append(
            Table(
                f"The paper's, on {paper.dataset}.",
                ["backbone", "AFL", "SAFLe"],
                [[name, f"{afl:.2f}", f"{safle:.2f}"] for name, afl, safle in theirs],
            )
        )
    return blocks, []


def sparsity(result: Result, _paper: Paper) -> Content:
    """Accuracy and density of the gram over V."""
    lines = result["summary"]
    rows: Lines = []
    density = []
    for line in lines:
        row = matching(result["rows"], table_rows=line["table_rows"])[0]
        density.append(100 * row["gram_density"])
        rows.append(
            [
                f"{line['table_rows']:,}",
                f"{row['experts']:,}",
                f"{row['columns']:,}",
                str(line["buckets"]),
                score(line),
                f"{density[-1]:.1f}",
            ]
        )
    sizes = [float(line["table_rows"]) for line in lines]
    accuracies = [100 * line["accuracy"] for line in lines]
    x_label = "rows of a table, V"
    blocks: list[Table | Chart | Mix] = [
        Chart(
            "sparsity-accuracy",
            "Accuracy at about the same number of columns.",
            x_label,
            ACCURACY,
            [Series("accuracy", sizes, accuracies)],
            log_base=2,
        ),
        Chart(
            "sparsity-density",
            "Pairs of columns that occur together, of all pairs.",
            x_label,
            "gram, % full",
            [Series("density", sizes, density)],
            log_base=2,
        ),
        Table("V, E and L.", ["V", "E", "columns", "L", "accuracy", "gram, % full"], rows),
    ]
    return blocks, ["L is an integer, so E·V is near the target and not equal to it."]


def ridge(result: Result, _paper: Paper) -> Content:
    """Accuracy over the ridge, for every kind of columns."""
    blocks: list[Table | Chart | Mix] = []
    rows = []
    for row in matching(result["rows"], seed=0):
        blocks.append(
            Chart(
                f"ridge-{row['columns_of']}",
                f"Accuracy over the ridge, {row['columns_of']} columns.",
                "ridge",
                ACCURACY,
                [Series("test", [p[0] for p in row["curve"]], [100 * p[1] for p in row["curve"]])],
                log_base=10,
                marks=[("GCV", row["ridge_gcv"]), ("evidence", row["ridge_evidence"])],
            )
        )
        rows.append(
            [
                row["columns_of"],
                f"{row['columns']:,}",
                f"{100 * row['accuracy']:.2f}",
                f"{100 * row['accuracy_evidence']:.2f}",
                f"{100 * row['best_of_curve']:.2f}",
            ]
        )
    columns = ["columns", "D", "GCV", "evidence", "best on the curve"]
    return [*blocks, Table("The choice from the counts, and the test set's.", columns, rows)], [
        "The best on the curve looks at the test set and is shown for orientation only."
    ]


def unlearning(result: Result, _paper: Paper) -> Content:
    """Counts taken back against counting again."""
    rows = [
        [
            row["columns_of"],
            str(row["leaving"]),
            f"{row['samples_removed']:,}",
            f"{100 * row['accuracy_before']:.2f}",
            f"{100 * row['accuracy']:.2f}",
            "the same bytes" if row["same_statistics"] and row["same_model"] else "DIFFERENT",
            f"{row['seconds_removing']:.2f}",
            f"{row['seconds_retraining']:.2f}",
        ]
        for row in result["rows"]
    ]
    columns = [
        "columns",
        "clients leaving",
        "samples",
        "accuracy before",
        "after",
        "model, against retraining",
        "s to take back",
        "s to count again",
    ]
    return [Table("Counts taken back, against counting again.", columns, rows)], []
