"""Benchmarks: speed, memory and bytes, as ratios against what a user would otherwise pick.

``python -m benchmarks NAME --json`` prints one JSON object last; ``python -m benchmarks
all`` prints a table of every figure that has a bar. One file a benchmark; each also checks
that the contestants gave the same answer, and fails if they did not.
"""
