"""Remarks under the tables of a report: what differs from the paper, and why."""

from safle_lab.baselines import METHODS
from safle_lab.report.rows import Result, distinct

REMARKS: dict[str, dict[str, str]] = {
    "table1": {
        "analytic": "Analytic methods are computed anew in every scenario; equal bytes mean that "
        "the partition of the samples made no difference.",
        "AFL": "The paper took its baselines' figures from other papers, with other preprocessing; "
        "here all methods see the same features.",
        "MOON": "MOON trains a head with a hidden layer, without which its term is constant.",
    },
    "bucketing": {
        "": "The paper does not say how large its groups were. Here they are the largest that keep "
        "the column limit, and the ridge is chosen from the counts: both soften the fall with B_n "
        "that the paper reports for integer and one-hot bucketing.",
    },
    "rounds": {
        "": "One round is one exchange with those who take part.",
        "SAFLe": "SAFLe's thresholds come from histograms that clients send beforehand; they hold "
        "no labels and are counted in its bytes.",
    },
    "communication": {
        "": "Bytes are the sizes of safetensors files with what the methods' papers send; "
        "symmetric matrices are sent as one triangle. What a client receives is the model.",
        "SAFLe": "SAFLe's bytes are the sizes of its statistics and histogram files on the disk.",
    },
    "sparsity": {"": "L is an integer, so E·V is near the target and not equal to it."},
    "noise": {
        "": "The paper's noise experiment is on ISIC 2019, another data set: its figures are not "
        "comparable.",
        "pair-flip": "Pair-flip noise above one half makes the wrong class the likelier one.",
        "client-dependent": "Where noise is client-dependent, ρ is the share of noisy clients, "
        "each with a rate of its own from one half to one.",
    },
    "ridge": {
        "": "The best ridge on the curve was chosen on the test set, and is shown for comparison "
        "only.",
    },
}
"""Experiment -> what its rows must hold (a method, a kind of method or of noise) -> remark."""


def remarks_on(result: Result) -> list[str]:
    """The remarks on what an experiment's results hold."""
    rows = result["rows"]
    titles = distinct(rows, "method")
    kinds = [method.kind for method in METHODS.values() if method.title in titles]
    present = {"", *titles, *kinds, *distinct(rows, "noise")}
    if len(distinct(result["summary"], "scenario")) < 2:
        # The remark on analytic methods compares scenarios.
        present.discard("analytic")
    remarks = REMARKS.get(result["experiment"], {})
    return [text for needed, text in remarks.items() if needed in present]
