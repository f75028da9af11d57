"""The tight loops of counting and of packed triangles (Numba)."""
