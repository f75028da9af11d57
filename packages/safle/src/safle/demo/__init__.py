"""The demo, its data, and ways to split data over clients, which experiments use too.

`safle demo` runs the whole pipeline on scikit-learn's digits (`safle.demo.demo`) and leaves a
page to show to others.
"""

from typing import TYPE_CHECKING

from safle.basics.imports import define_public_names

if TYPE_CHECKING:
    from safle.demo.data import POOLED as POOLED
    from safle.demo.data import Digits as Digits
    from safle.demo.data import class_mix as class_mix
    from safle.demo.data import load_digits as load_digits
    from safle.demo.data import partition as partition

define_public_names(__name__)
