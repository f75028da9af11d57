"""Results -> sections: the paper's table or figure, ours beside it, what differs and why."""

from __future__ import annotations

from collections.abc import Callable

from safle.lab.report import encoders, methods
from safle.lab.report.blocks import Section
from safle.lab.report.lines import Content, Result
from safle.lab.report.paper import Paper

MAKERS: dict[str, Callable[[Result, Paper], Content]] = {
    "table1": methods.table1,
    "bucketing": encoders.bucketing,
    "backbones": encoders.backbones,
    "rounds": methods.rounds,
    "communication": methods.communication,
    "clients": methods.clients,
    "sparsity": encoders.sparsity,
    "noise": methods.noise,
    "ridge": encoders.ridge,
    "unlearning": encoders.unlearning,
}


def section_of(result: Result) -> Section:
    """The section of one experiment's results."""
    blocks, remarks = MAKERS[result["experiment"]](result, Paper(result["data"][0]))
    return Section(
        result["experiment"],
        result["title"],
        result["question"],
        blocks,
        remarks,
        dict(result["settings"]),
    )
