"""FedAvg: local training, weighted average; see `safle.baselines.training`."""

from __future__ import annotations

from safle.baselines.training import RATES, Algorithm, iterative

METHOD = iterative("fedavg", "FedAvg", Algorithm, grid={"rate": RATES})
