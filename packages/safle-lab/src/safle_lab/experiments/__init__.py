"""Experiments: whole federations, measured, on a user's features or on scikit-learn's digits."""

EXPERIMENTS = (
    *("table1", "bucketing", "backbones", "rounds", "communication"),
    *("clients", "sparsity", "noise", "ridge", "unlearning"),
)
"""Names of the experiments, in the order of the report; fields of `suite.Settings`."""
