"""Differential privacy: noisy sums, and the ledger of what they spent."""
