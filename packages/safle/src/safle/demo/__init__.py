"""Data to try things on, and who holds what of it: the demo's, and that of experiments.

`safle demo` runs the whole pipeline on scikit-learn's digits (`safle.demo.demo`) and leaves a
page to show to others.
"""

from safle.demo.data import POOLED, Digits, class_mix, load_digits, partition

__all__ = ["POOLED", "Digits", "class_mix", "load_digits", "partition"]
