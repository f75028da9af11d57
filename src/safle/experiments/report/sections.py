"""Results -> sections: the paper's table or figure, ours beside it, what differs and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

from safle.experiments.report.blocks import Cell, Chart, Mix, Section, Series, Table
from safle.experiments.report.paper import Paper
from safle.experiments.scenario import in_words

Result = Mapping[str, Any]
Rows = Sequence[Mapping[str, Any]]
Blocks = list[Table | Chart | Mix]
MEGA = 1e6
ACCURACY = "top-1 accuracy, %"


def section_of(result: Result) -> Section:
    """The section of one experiment's results."""
    paper = Paper(result["data"][0])
    blocks, remarks = MAKERS[result["experiment"]](result, paper)
    return Section(
        result["experiment"],
        result["title"],
        result["question"],
        blocks,
        remarks,
        {name: result["settings"][name] for name in result["settings"]},
    )


def _score(line: Mapping[str, Any], paper: float | None = None, *, strong: bool = False) -> Cell:
    text = f"{100 * line['accuracy']:.2f}"
    if line["seeds"] > 1:
        text += f" ± {100 * line['deviation']:.2f}"
    return Cell(text, "" if paper is None else f"paper {paper:.2f}", strong)


def _megabytes(line: Mapping[str, Any], name: str) -> str:
    return f"{line[name] / MEGA:.3g}"


def _distinct(lines: Rows, name: str) -> list[Any]:
    return list(dict.fromkeys(line[name] for line in lines if name in line))


def _matching(lines: Rows, **labels: Any) -> list[Mapping[str, Any]]:
    return [line for line in lines if all(line.get(name) == v for name, v in labels.items())]


def _table1(result: Result, paper: Paper) -> tuple[Blocks, list[str]]:
    lines = result["summary"]
    scenarios = _distinct(lines, "scenario")
    rows = []
    for method in _distinct(lines, "method"):
        own = _matching(lines, method=method)
        digests = {digest for line in own for digest in line["digests"]}
        same = len(own) > 1 and len(digests) <= max(line["seeds"] for line in own)
        cells = [
            _score(line, paper.table1(method, scenario), strong="SAFLe" in method)
            for scenario in scenarios
            for line in _matching(own, scenario=scenario)
        ]
        rows.append(
            [
                method,
                *cells,
                f"{own[0]['rounds']:.0f}",
                _megabytes(own[0], "bytes_up"),
                _megabytes(own[0], "bytes_down"),
                f"{fmean(line['seconds'] for line in own):.1f}",
                "same bytes" if same else f"{len(digests)} models",
            ]
        )
    titles = [in_words(scenario) for scenario in scenarios]
    columns = ["method", *titles, "rounds", "MB up", "MB down", "seconds", "across scenarios"]
    mixes = [
        Mix(
            f"mix-{number}",
            f"Class mix, {in_words(row['partition_of'])}: "
            f"{row['mean_classes']:.1f} classes a client, "
            f"{row['least_samples']} to {row['most_samples']} samples.",
            row["class_mix"],
            result["data"][0]["classes"],
        )
        for number, row in enumerate(_matching(result["rows"], seed=0))
        if "class_mix" in row
    ]
    caption = "Top-1 accuracy in percent, mean ± deviation over seeds; bytes are per client."
    remarks = _gap_remarks(lines, scenarios, paper)
    return [Table(caption, columns, rows), *mixes], remarks


def _gap_remarks(lines: Rows, scenarios: Sequence[str], paper: Paper) -> list[str]:
    mean = {
        method: 100 * fmean(line["accuracy"] for line in _matching(lines, method=method))
        for method in _distinct(lines, "method")
    }
    remarks = [
        "Analytic methods are computed anew in every scenario; equal bytes mean that who holds "
        "what left no trace. MOON trains a head with a hidden layer (its term is constant "
        "without one), the other iterative methods a linear head."
    ]
    if {"SAFLe", "AFL"} <= set(mean):
        gap = mean["SAFLe"] - mean["AFL"]
        text = f"SAFLe − AFL on these features: {gap:+.2f} points."
        ours, theirs = (paper.table1(name, scenarios[0]) for name in ("SAFLe", "AFL"))
        if ours is not None and theirs is not None:
            text += (
                f" The paper reports {ours - theirs:+.2f}; it took its baselines' figures from "
                "other papers, so that difference contains a change of preprocessing. Here all "
                "methods see the same features."
            )
        remarks.append(text)
    return remarks


def _bucketing(result: Result, paper: Paper) -> tuple[Blocks, list[str]]:
    lines, rows = result["summary"], []
    series = []
    for strategy in _distinct(lines, "strategy"):
        own = _matching(lines, strategy=strategy)
        series.append(
            Series(
                strategy,
                [line["buckets"] for line in own],
                [100 * line["accuracy"] for line in own],
                [100 * line["deviation"] for line in own],
            )
        )
        for line in own:
            row = _matching(result["rows"], strategy=strategy, buckets=line["buckets"])[0]
            rows.append(
                [
                    strategy,
                    str(line["buckets"]),
                    _score(line, paper.bucketing(strategy, line["buckets"])),
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


def _backbones(result: Result, paper: Paper) -> tuple[Blocks, list[str]]:
    lines = result["summary"]
    methods = _distinct(lines, "method")
    rows: list[list[str | Cell]] = [
        [
            features,
            str(_matching(lines, features=features)[0]["feature_dim"]),
            *(_score(_matching(lines, features=features, method=method)[0]) for method in methods),
        ]
        for features in _distinct(lines, "features")
    ]
    blocks: Blocks = [
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


def _curve(rows: Rows, column: int) -> tuple[list[float], list[float], list[float]]:
    """x, mean accuracy and deviation over seeds, in percent."""
    curves = [row["curve"] for row in rows]
    length = min(len(curve) for curve in curves)
    x = [float(curves[0][at][column]) for at in range(length)]
    values = [[100 * curve[at][1] for curve in curves] for at in range(length)]
    mean = [fmean(value) for value in values]
    spread = [
        (sum((v - m) ** 2 for v in value) / max(len(value) - 1, 1)) ** 0.5
        for value, m in zip(values, mean, strict=True)
    ]
    return x, mean, spread


def _curves(rows: Rows, column: int, scale: float = 1.0) -> list[Series]:
    series = []
    for method in _distinct(rows, "method"):
        own = [row for row in _matching(rows, method=method) if "encoder" not in row]
        if not own:
            continue
        x, mean, spread = _curve(own, column)
        series.append(Series(method, [v / scale for v in x], mean, spread if len(own) > 1 else ()))
    return series


def _rounds(result: Result, _paper: Paper) -> tuple[Blocks, list[str]]:
    scenario = in_words(result["settings"]["rounds"]["scenario"])
    chart = Chart(
        "rounds",
        f"Accuracy after so many rounds, {scenario}; bands are deviations over seeds.",
        "rounds",
        ACCURACY,
        _curves(result["rows"], 0),
        log_base=10,
    )
    return [chart], [
        "One round is one exchange with every client. SAFLe's thresholds come from histograms "
        "that clients send beforehand; they hold no labels and are counted in its bytes."
    ]


def _communication(result: Result, _paper: Paper) -> tuple[Blocks, list[str]]:
    sized = [row for row in result["rows"] if "encoder" in row]
    series = _curves(result["rows"], 2, MEGA)
    ordered = sorted(sized, key=lambda row: row["curve"][0][2])
    series.append(
        Series(
            "SAFLe, sizes",
            [row["curve"][0][2] / MEGA for row in ordered],
            [100 * row["accuracy"] for row in ordered],
        )
    )
    chart = Chart(
        "communication",
        "Accuracy against megabytes that a client sends and receives.",
        "MB per client",
        ACCURACY,
        series,
        log_base=10,
    )
    rows = [
        [
            f"{line['method']} {line.get('encoder', '')}".strip(),
            _score(line),
            f"{line['rounds']:.0f}",
            _megabytes(line, "bytes_up"),
            _megabytes(line, "bytes_down"),
        ]
        for line in result["summary"]
    ]
    table = Table(
        "What a client sends and receives in all, mean over clients.",
        ["method", "accuracy", "rounds", "MB up", "MB down"],
        rows,
    )
    return [chart, table], [
        "SAFLe's bytes are those of its statistics and histogram files as written to disk; the "
        "others' are safetensors files of what their papers send, symmetric matrices as one "
        "triangle. Down is the model."
    ]


def _clients(result: Result, _paper: Paper) -> tuple[Blocks, list[str]]:
    lines = result["summary"]
    series = []
    for method in _distinct(lines, "method"):
        own = _matching(lines, method=method)
        series.append(
            Series(
                method, [line["clients"] for line in own], [100 * line["accuracy"] for line in own]
            )
        )
    rows = [
        [
            line["method"],
            f"{line['clients']:,}",
            _score(line),
            _megabytes(line, "bytes_up"),
            ", ".join(digest[:12] for digest in line["digests"]),
        ]
        for line in lines
    ]
    chart = Chart("clients", "Accuracy over the number of clients.", "clients", ACCURACY, series)
    columns = ["method", "clients", "accuracy", "MB up", "model digest"]
    return [chart, Table("The same samples, spread ever thinner.", columns, rows)], []


def _sparsity(result: Result, _paper: Paper) -> tuple[Blocks, list[str]]:
    lines, rows = result["summary"], []
    density = []
    for line in lines:
        row = _matching(result["rows"], table_rows=line["table_rows"])[0]
        density.append(100 * row["gram_density"])
        rows.append(
            [
                f"{line['table_rows']:,}",
                f"{row['experts']:,}",
                f"{row['columns']:,}",
                str(line["buckets"]),
                _score(line),
                f"{density[-1]:.1f}",
            ]
        )
    sizes = [float(line["table_rows"]) for line in lines]
    accuracies = [100 * line["accuracy"] for line in lines]
    x_label = "rows of a table, V"
    blocks: Blocks = [
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


def _noise(result: Result, _paper: Paper) -> tuple[Blocks, list[str]]:
    lines = result["summary"]
    blocks: Blocks = []
    for kind in _distinct(lines, "noise"):
        series = []
        for method in _distinct(lines, "method"):
            own = _matching(lines, noise=kind, method=method)
            series.append(
                Series(
                    method, [line["rate"] for line in own], [100 * line["accuracy"] for line in own]
                )
            )
        caption = f"Accuracy on clean test labels, {kind} noise."
        blocks.append(Chart(f"noise-{kind}", caption, "share of wrong labels ρ", ACCURACY, series))
    return blocks, [
        "The paper's noise experiment is on ISIC 2019, another data set: its figures are not "
        "comparable. Pair-flip noise above one half makes the wrong class the likelier one."
    ]


def _ridge(result: Result, _paper: Paper) -> tuple[Blocks, list[str]]:
    blocks: Blocks = []
    rows = []
    for row in _matching(result["rows"], seed=0):
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


def _unlearning(result: Result, _paper: Paper) -> tuple[Blocks, list[str]]:
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


MAKERS: dict[str, Callable[[Result, Paper], tuple[Blocks, list[str]]]] = {
    "table1": _table1,
    "bucketing": _bucketing,
    "backbones": _backbones,
    "rounds": _rounds,
    "communication": _communication,
    "clients": _clients,
    "sparsity": _sparsity,
    "noise": _noise,
    "ridge": _ridge,
    "unlearning": _unlearning,
}
