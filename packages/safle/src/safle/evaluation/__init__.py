"""Predictions -> figures: counts that add up, metrics, pages."""
