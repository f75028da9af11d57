"""The tight loops of prediction (Numba)."""
