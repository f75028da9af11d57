"""Research beside the product: partitions, noise, baselines, experiments and their report.

Outside, only the commands that run it import it, and `safle simulate`, for partitions.
"""
