"""The attack: samples worked out of a plain contribution, as whoever receives it could."""

from safle.federation.attack.attack import Attack, attack

__all__ = ["Attack", "attack"]
