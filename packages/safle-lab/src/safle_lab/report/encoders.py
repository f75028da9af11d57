"""Sections about encoder and solver: bucketing, backbones, sparsity, ridge, unlearning."""

from safle_lab.charts import Chart, Series
from safle_lab.report.paper import Paper
from safle_lab.report.rows import (
    ACCURACY,
    Blocks,
    Entry,
    Result,
    Row,
    Table,
    column,
    distinct,
    draw_lines,
    first_lines,
    matching,
    score_where,
    show_score,
    with_figures,
)


def bucketing(result: Result, paper: Paper) -> Blocks:
    """A chart over B_n, and every strategy and size beside the paper's."""
    series = draw_lines(result["summary"], "strategy", "buckets")
    chart = Chart("Accuracy over the number of buckets.", "buckets B_n", ACCURACY, series)

    def accuracy(line: Row) -> Entry:
        return show_score(line, paper.bucketing(line["strategy"], line["buckets"]))

    table = Table.of(
        "Every strategy and size.",
        with_figures(result, "strategy", "buckets"),
        {
            "strategy": column("strategy"),
            "B_n": column("buckets"),
            "accuracy": accuracy,
            "G": column("group_size"),
            "tables": lambda row: f"{row['experts']:,} × {row['table_size']:,}",
            "columns": column("columns", ","),
            "gram, % full": column("gram_density", ".1f", scale=100),
            "ridge": lambda row: format(row["ridge"], ",.0f" if row["ridge"] >= 100 else ".3g"),
        },
    )
    return [chart, table]


def backbones(result: Result, paper: Paper) -> Blocks:
    """Every method on every features file."""
    lines = result["summary"]
    methods = distinct(lines, "method")
    ours = Table.of(
        "Accuracy in percent, every method on every file.",
        first_lines(lines, "features"),
        {
            "features": column("features"),
            "d": column("feature_dim"),
            **{method: score_where(lines, "features", method=method) for method in methods},
        },
    )
    if not paper.backbones():
        return [ours]
    published = Table.of(
        f"The paper's, on {paper.dataset}.",
        paper.backbones(),
        {"backbone": column("name"), **{m: column(m, ".2f") for m in ("AFL", "SAFLe")}},
    )
    return [ours, published]


def sparsity(result: Result, _paper: Paper) -> Blocks:
    """Accuracy and density of the gram over V."""
    rows = [
        {**row, "every": "accuracy", "density": 100 * row["gram_density"]}
        for row in with_figures(result, "table_rows")
    ]
    x_label = "rows of a table, V"
    density = Series(
        "density", [row["table_rows"] for row in rows], [row["density"] for row in rows]
    )
    accuracy = draw_lines(rows, "every", "table_rows")
    caption = "Accuracy at about the same number of columns."
    pairs = "Pairs of columns that occur together, of all pairs."
    table = Table.of(
        "V, E and L.",
        rows,
        {
            "V": column("table_rows", ","),
            "E": column("experts", ","),
            "columns": column("columns", ","),
            "L": column("buckets"),
            "accuracy": show_score,
            "gram, % full": column("density", ".1f"),
        },
    )
    return [
        Chart(caption, x_label, ACCURACY, accuracy, log_base=2),
        Chart(pairs, x_label, "gram, % full", [density], log_base=2),
        table,
    ]


def ridge(result: Result, _paper: Paper) -> Blocks:
    """Accuracy over the ridge, for every kind of columns."""
    rows = matching(result["rows"], seed=0)
    charts = [
        Chart(
            f"Accuracy over the ridge, {row['columns_of']} columns.",
            "ridge",
            ACCURACY,
            [Series("test", [p[0] for p in row["curve"]], [100 * p[1] for p in row["curve"]])],
            log_base=10,
            marks=[("GCV", row["ridge_gcv"]), ("evidence", row["ridge_evidence"])],
        )
        for row in rows
    ]
    table = Table.of(
        "The choice from the counts, and the test set's.",
        rows,
        {
            "columns": column("columns_of"),
            "D": column("columns", ","),
            "GCV": column("accuracy", ".2f", scale=100),
            "evidence": column("accuracy_evidence", ".2f", scale=100),
            "best on the curve": column("best_of_curve", ".2f", scale=100),
        },
    )
    return [*charts, table]


def unlearning(result: Result, _paper: Paper) -> Blocks:
    """Counts taken back against counting again."""

    def verdict(row: Row) -> str:
        same = row["same_statistics"] and row["same_model"]
        return "the same bytes" if same else "DIFFERENT"

    columns = {
        "columns": column("columns_of"),
        "clients leaving": column("leaving"),
        "samples": column("samples_removed", ","),
        "accuracy before": column("accuracy_before", ".2f", scale=100),
        "after": column("accuracy", ".2f", scale=100),
        "model, against retraining": verdict,
        "s to take back": column("seconds_removing", ".2f"),
        "s to count again": column("seconds_retraining", ".2f"),
    }
    return [Table.of("Counts taken back, against counting again.", result["rows"], columns)]
