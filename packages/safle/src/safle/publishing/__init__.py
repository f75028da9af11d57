"""Differential privacy: noisy sums, and the ledger of what they spent."""

from typing import TYPE_CHECKING

from safle.basics.doors import front_door

if TYPE_CHECKING:
    from safle.publishing.ledger import Ledger
    from safle.publishing.noise import Sensitivity, epsilon_of, plan_noise, publish

__all__ = ["Ledger", "Sensitivity", "epsilon_of", "plan_noise", "publish"]

__getattr__ = front_door(__name__)
