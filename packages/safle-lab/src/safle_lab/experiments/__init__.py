"""Experiments: whole federations, measured, on data that is at hand."""
