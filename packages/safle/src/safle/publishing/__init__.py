"""Differential privacy: noisy sums, and the ledger of what they spent."""

from safle.publishing.ledger import Ledger
from safle.publishing.noise import Sensitivity, epsilon_of, plan_noise, publish

__all__ = ["Ledger", "Sensitivity", "epsilon_of", "plan_noise", "publish"]
