"""FedAvg: local training, weighted average; see `safle_lab.baselines.training`."""

from safle_lab.baselines.training import FEDAVG, RATES, Rounds, iterative

METHOD = iterative("fedavg", "FedAvg", FEDAVG, Rounds(), {"rate": RATES})
