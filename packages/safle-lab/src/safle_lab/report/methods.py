"""Sections that compare methods: table 1, rounds, bytes, clients, noise."""

from collections.abc import Sequence
from statistics import fmean

from safle_lab.charts import Chart, Mix, Series
from safle_lab.experiments.summary import real_clients
from safle_lab.report.paper import Paper
from safle_lab.report.rows import (
    ACCURACY,
    COSTS,
    MB_RULE,
    MEGA,
    MEGABYTES,
    Blocks,
    Entry,
    Result,
    Row,
    Rows,
    Show,
    Table,
    column,
    distinct,
    draw_curves,
    draw_lines,
    first_lines,
    matching,
    score_where,
    show_score,
)


def table1(result: Result, paper: Paper) -> Blocks:
    """Methods x scenarios beside the paper's figures, and the partitions."""
    lines = result["summary"]
    scenarios = distinct(lines, "scenario")

    def of_method(row: Row) -> list[Row]:
        return matching(lines, method=row["method"])

    def accuracy(scenario: str) -> Show:
        def show(row: Row) -> str | Entry:
            measured = matching(of_method(row), scenario=scenario)
            published = paper.table1(row["method"], scenario)
            best = max(line["accuracy"] for line in matching(lines, scenario=scenario))
            return (
                show_score(measured[0], published, strong=measured[0]["accuracy"] == best)
                if measured
                else "not run"
            )

        return show

    def models(row: Row) -> str:
        measured = of_method(row)
        digests = {digest for line in measured for digest in line["digests"]}
        same = len(measured) > 1 and len(digests) <= max(line["seeds"] for line in measured)
        return "same bytes" if same else f"{len(digests)} model{'s' * (len(digests) > 1)}"

    table = Table.of(
        _caption(lines, scenarios, paper),
        first_lines(lines, "method"),
        {
            "method": column("method"),
            **{in_words(scenario): accuracy(scenario) for scenario in scenarios},
            **COSTS,
            "seconds": lambda row: f"{fmean(line['seconds'] for line in of_method(row)):.1f}",
            **({"across scenarios": models} if len(scenarios) > 1 else {}),
        },
    )
    charts = _each_client(result["rows"], scenarios)
    return [table, *_real_clients(result), *_recalls(result), *charts, *_mixes(result)]


def _caption(lines: Rows, scenarios: Sequence[str], paper: Paper) -> str:
    """The caption of table 1; it names only figures that were measured."""
    methods = distinct(lines, "method")
    has_deviations = any(line["seeds"] > 1 for line in lines)
    parts = ["Top-1 accuracy in percent" + ", mean ± deviation over seeds" * has_deviations]
    if len(methods) > 1:
        parts[0] += ", the best in bold"
    if any("balanced_accuracy" in line for line in lines):
        parts.append("balanced is the mean of the classes' recalls")
    if any("auc" in line for line in lines):
        parts.append("AUC is the mean over classes, each against the rest")
    if any(paper.table1(name, case) is not None for name in methods for case in scenarios):
        parts.append("the paper's own figures are in small print")
    return "; ".join([*parts, MB_RULE]) + "."


def _real_clients(result: Result) -> list[Table]:
    """A row for each real client: accuracy and balanced accuracy of its own test samples."""
    rows = [row for row in result["rows"] if "real_clients" in row]
    if not rows:
        return []
    caption = (
        "Each client's own test samples, and the mean of the clients: accuracy, and the mean of "
        "its classes' recalls in small print."
    )
    methods = {method: _at_client(method) for method in distinct(rows, "method")}
    columns = {"client": column("client"), "test samples": column("samples", ","), **methods}
    return [Table.of(caption, real_clients(rows), columns)]


def _at_client(method: str) -> Show:
    def show(line: Row) -> Entry:
        accuracy, balanced = line[method]
        return Entry(f"{100 * accuracy:.2f}", f"balanced {100 * balanced:.1f}")

    return show


MANY_CLASSES = 20
"""With more classes their recalls fill pages: the CSV has them."""


def _recalls(result: Result) -> list[Table]:
    """The recall of each class, for every scenario: a mean over seeds."""
    names = result["data"][0]["classes"]
    tables = []
    for scenario in distinct(result["summary"], "scenario"):
        rows = [row for row in matching(result["rows"], scenario=scenario) if "recalls" in row]
        if not rows or len(names) > MANY_CLASSES:
            continue
        methods = distinct(rows, "method")
        lines = [
            {"class": name, **{method: _recall(rows, method, at) for method in methods}}
            for at, name in enumerate(names)
        ]
        columns = {"class": column("class"), **{method: column(method) for method in methods}}
        caption = f"Recall of each class, in percent, {in_words(scenario)}."
        tables.append(Table.of(caption, lines, columns))
    return tables


def _recall(rows: Rows, method: str, at: int) -> str:
    shares = [row["recalls"][at] for row in matching(rows, method=method)]
    return "none tested" if None in shares else f"{100 * fmean(shares):.1f}"


def _each_client(rows: Rows, scenarios: Sequence[str]) -> list[Chart]:
    """Accuracy at every client, worst first, a chart for every scenario."""
    charts = []
    for scenario in scenarios:
        shown = [row for row in matching(rows, scenario=scenario, seed=0) if "per_client" in row]
        series = [
            Series(row["method"], range(1, len(accuracies) + 1), accuracies)
            for row in shown
            for accuracies in [[100 * share for share in sorted(row["per_client"])]]
        ]
        if series:
            caption = (
                f"Accuracy at every client, {in_words(scenario)}: on test samples in the client's "
                "own mix of classes, worst first."
            )
            if separate := [row["method"] for row in shown if "worst_client" in row]:
                caption += f" {' and '.join(separate)}: every client with its own model."
            charts.append(Chart(caption, "clients", ACCURACY, series))
    return charts


def _mixes(result: Result) -> list[Mix]:
    """Who holds which classes, for every scenario."""
    mixes = []
    for row in matching(result["rows"], seed=0):
        if "class_mix" in row:
            caption = (
                f"Class mix, {in_words(row['partition_of'])}: "
                f"{row['mean_classes']:.1f} classes per client, "
                f"{row['least_samples']} to {row['most_samples']} samples."
            )
            mixes.append(Mix(caption, row["class_mix"], result["data"][0]["classes"]))
    return mixes


def in_words(scenario: str) -> str:
    """A scenario as the paper's tables write it."""
    kind, _, number = scenario.partition("=")
    return {"alpha": f"α = {number}", "shards": f"s = {number}", "iid": "IID"}.get(kind, scenario)


MANY_ROUNDS = 10
"""With more rounds the axis is logarithmic, so that the first rounds remain visible."""


def rounds(result: Result, _paper: Paper) -> Blocks:
    """Accuracy over rounds."""
    scenario = in_words(result["settings"]["rounds"]["scenario"])
    series = draw_curves(result["rows"], 0)
    bands = "; bands are deviations over seeds" * any(len(line.deviation) for line in series)
    caption = f"Accuracy after so many rounds, {scenario}{bands}."
    many = max(max(line.x) for line in series) > MANY_ROUNDS
    return [Chart(caption, "rounds", ACCURACY, series, log_base=10 if many else 0)]


def communication(result: Result, _paper: Paper) -> Blocks:
    """Accuracy over megabytes, and the bytes themselves."""
    sized = [row for row in result["rows"] if "encoder" in row]
    ordered = sorted(sized, key=lambda row: row["curve"][0][2])
    sizes = [row["curve"][0][2] / MEGA for row in ordered]
    curves = draw_curves(result["rows"], 2, 1 / MEGA)
    if ordered:
        accuracies = [100 * row["accuracy"] for row in ordered]
        curves.append(Series("SAFLe, sizes", sizes, accuracies))
    chart = Chart(
        "Accuracy against megabytes that a client sends and receives.",
        MEGABYTES,
        ACCURACY,
        curves,
        log_base=10,
    )
    table = Table.of(
        f"{MB_RULE}.",
        result["summary"],
        {
            "method": lambda row: f"{row['method']} {row.get('encoder', '')}".strip(),
            "accuracy": show_score,
            **COSTS,
        },
    )
    return [chart, table]


def clients(result: Result, _paper: Paper) -> Blocks:
    """Accuracy over the number of clients, with the models' digests."""
    lines = result["summary"]
    table = Table.of(
        f"The same samples, spread over more and more clients; {MB_RULE}.",
        lines,
        {
            "method": column("method"),
            "clients": column("clients", ","),
            "accuracy": show_score,
            MEGABYTES: COSTS[MEGABYTES],
            "model digest": lambda row: ", ".join(digest[:12] for digest in row["digests"]),
        },
    )
    series = draw_lines(lines, "method", "clients")
    return [Chart("Accuracy over the number of clients.", "clients", ACCURACY, series), table]


def noise(result: Result, _paper: Paper) -> Blocks:
    """Accuracy over the noise rate, a chart for every kind."""
    lines = result["summary"]
    charts = [
        Chart(
            f"Accuracy on clean test labels, {kind} noise.",
            "share of wrong labels ρ",
            ACCURACY,
            draw_lines(matching(lines, noise=kind), "method", "rate"),
        )
        for kind in distinct(lines, "noise")
    ]
    rates = {
        f"ρ = {rate:g}": score_where(lines, "noise", "method", rate=rate)
        for rate in distinct(lines, "rate")
    }
    table = Table.of(
        "Accuracy on clean test labels, in percent.",
        first_lines(lines, "noise", "method"),
        {"method": column("method"), "noise": column("noise"), **rates},
    )
    return [*charts, table]
