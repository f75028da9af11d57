"""The attack: samples worked out of a plain contribution, as whoever receives it could."""

from safle_lab.attack.attack import Attack, attack

__all__ = ["Attack", "attack"]
