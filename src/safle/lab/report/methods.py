"""Sections that compare methods: table 1, rounds, bytes, clients, noise."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from safle.lab.experiments.scenario import in_words
from safle.lab.report.blocks import Chart, Mix, Series, Table
from safle.lab.report.lines import (
    ACCURACY,
    MEGA,
    Content,
    Lines,
    Result,
    Rows,
    curves_of,
    distinct,
    matching,
    megabytes,
    score,
)
from safle.lab.report.paper import Paper


def table1(result: Result, paper: Paper) -> Content:
    """Methods x scenarios beside the paper's, and who holds what."""
    lines = result["summary"]
    scenarios = distinct(lines, "scenario")
    rows = []
    for method in distinct(lines, "method"):
        own = matching(lines, method=method)
        digests = {digest for line in own for digest in line["digests"]}
        same = len(own) > 1 and len(digests) <= max(line["seeds"] for line in own)
        cells = [
            score(line, paper.table1(method, scenario), strong="SAFLe" in method)
            if (line := next(iter(matching(own, scenario=scenario)), None))
            else "not run"
            for scenario in scenarios
        ]
        rows.append(
            [
                method,
                *cells,
                f"{own[0]['rounds']:.0f}",
                megabytes(own[0], "bytes_up"),
                megabytes(own[0], "bytes_down"),
                f"{fmean(line['seconds'] for line in own):.1f}",
                "same bytes" if same else f"{len(digests)} model{'s' * (len(digests) > 1)}",
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
        for number, row in enumerate(matching(result["rows"], seed=0))
        if "class_mix" in row
    ]
    caption = "Top-1 accuracy in percent, mean ± deviation over seeds; bytes are per client."
    remarks = _protocol_remarks(result["rows"]) + _gap_remarks(lines, scenarios, paper)
    return [Table(caption, columns, rows), *mixes], remarks


def _protocol_remarks(rows: Rows) -> list[str]:
    """How the iterative methods were trained, for every protocol that occurs."""
    methods: dict[str, list[str]] = {}
    for row in rows:
        used = row.get("settings", {})
        if "participation" in used:
            epochs = "1 local epoch" if used["epochs"] == 1 else f"{used['epochs']} local epochs"
            text = (
                f"{used['rounds']} rounds with {used['participation']:.0%} of the clients in each, "
                f"{epochs}, batches of {used['batch']}"
            )
            methods.setdefault(text, []).append(row["method"])
    return [f"{', '.join(dict.fromkeys(names))}: {text}." for text, names in methods.items()]


def _gap_remarks(lines: Rows, scenarios: Sequence[str], paper: Paper) -> list[str]:
    mean = {
        method: 100 * fmean(line["accuracy"] for line in matching(lines, method=method))
        for method in distinct(lines, "method")
    }
    remarks = [
        (
            "Analytic methods are computed anew in every scenario; equal bytes mean that who holds "
            "what left no trace. MOON trains a head with a hidden layer (its term is constant "
            "without one), the other iterative methods a linear head."
        )
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


def rounds(result: Result, _paper: Paper) -> Content:
    """Accuracy over rounds."""
    scenario = in_words(result["settings"]["rounds"]["scenario"])
    chart = Chart(
        "rounds",
        f"Accuracy after so many rounds, {scenario}; bands are deviations over seeds.",
        "rounds",
        ACCURACY,
        curves_of(result["rows"], 0),
        log_base=10,
    )
    return [chart], [
        (
            "One round is one exchange with those who take part. SAFLe's thresholds come from "
            "histograms that clients send beforehand; they hold no labels and are counted in its "
            "bytes."
        )
    ]


def communication(result: Result, _paper: Paper) -> Content:
    """Accuracy over megabytes, and the bytes themselves."""
    sized = [row for row in result["rows"] if "encoder" in row]
    series = curves_of(result["rows"], 2, MEGA)
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
    rows: Lines = [
        [
            f"{line['method']} {line.get('encoder', '')}".strip(),
            score(line),
            f"{line['rounds']:.0f}",
            megabytes(line, "bytes_up"),
            megabytes(line, "bytes_down"),
        ]
        for line in result["summary"]
    ]
    table = Table(
        "What a client sends and receives in all, mean over clients.",
        ["method", "accuracy", "rounds", "MB up", "MB down"],
        rows,
    )
    return [chart, table], [
        (
            "SAFLe's bytes are those of its statistics and histogram files as written to disk; the "
            "others' are safetensors files of what their papers send, symmetric matrices as one "
            "triangle. Down is the model."
        )
    ]


def clients(result: Result, _paper: Paper) -> Content:
    """Accuracy over the number of clients, with the models' digests."""
    lines = result["summary"]
    series = []
    for method in distinct(lines, "method"):
        own = matching(lines, method=method)
        series.append(
            Series(
                method, [line["clients"] for line in own], [100 * line["accuracy"] for line in own]
            )
        )
    rows = [
        [
            line["method"],
            f"{line['clients']:,}",
            score(line),
            megabytes(line, "bytes_up"),
            ", ".join(digest[:12] for digest in line["digests"]),
        ]
        for line in lines
    ]
    chart = Chart("clients", "Accuracy over the number of clients.", "clients", ACCURACY, series)
    columns = ["method", "clients", "accuracy", "MB up", "model digest"]
    return [chart, Table("The same samples, spread ever thinner.", columns, rows)], []


def noise(result: Result, _paper: Paper) -> Content:
    """Accuracy over the noise rate, a chart for every kind."""
    lines = result["summary"]
    blocks: list[Table | Chart | Mix] = []
    for kind in distinct(lines, "noise"):
        series = []
        for method in distinct(lines, "method"):
            own = matching(lines, noise=kind, method=method)
            series.append(
                Series(
                    method, [line["rate"] for line in own], [100 * line["accuracy"] for line in own]
                )
            )
        caption = f"Accuracy on clean test labels, {kind} noise."
        blocks.append(Chart(f"noise-{kind}", caption, "share of wrong labels ρ", ACCURACY, series))
    return blocks, [
        (
            "The paper's noise experiment is on ISIC 2019, another data set: its figures are not "
            "comparable. Pair-flip noise above one half makes the wrong class the likelier one."
        )
    ]
