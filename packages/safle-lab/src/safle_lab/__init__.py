"""Research beside the product: partitions, noise, baselines, experiments and their report.

Nothing outside imports it but the commands that run it.
"""
