"""FedAvg: local training, weighted average; see `safle.lab.baselines.training`."""

from safle.lab.baselines.training import FEDAVG, RATES, Rounds, iterative

METHOD = iterative("fedavg", "FedAvg", FEDAVG, Rounds(), {"rate": RATES})
