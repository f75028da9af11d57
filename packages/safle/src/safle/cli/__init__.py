"""The command line: a federation with nothing but files, a group of commands a module.

`main` lists the commands and imports a module when one of its commands is called. What is listed
below is for the commands of other packages.
"""

from safle.cli.options import (
    COUNT,
    FILE,
    FOLDER,
    POSITIVE,
    Decorator,
    alpha_option,
    chosen_limits,
    encoder_file,
    features_argument,
    limit_options,
    option,
    output,
    seed_option,
    selected,
    table_options,
    written,
)

# Not by its own name: that is the module's.
from safle.cli.options import options as option_group
from safle.cli.session import Session, command, examples

__all__ = [
    "COUNT",
    "FILE",
    "FOLDER",
    "POSITIVE",
    "Decorator",
    "Session",
    "alpha_option",
    "chosen_limits",
    "command",
    "encoder_file",
    "examples",
    "features_argument",
    "limit_options",
    "option",
    "option_group",
    "output",
    "seed_option",
    "selected",
    "table_options",
    "written",
]
