"""FedAvg: local training, weighted average; see `safle.lab.baselines.training`."""

from safle.lab.baselines.training import RATES, Algorithm, Rounds, iterative

METHOD = iterative("fedavg", "FedAvg", Algorithm(), Rounds(), {"rate": RATES})
