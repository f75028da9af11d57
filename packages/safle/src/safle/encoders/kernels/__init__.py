"""The tight loops of encoding (Numba): plain arrays in, plain arrays out."""
