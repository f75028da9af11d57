"""The command line: a federation with nothing but files, a group of commands a module.

`main` lists the commands and imports a module when one of its commands is called. What is listed
below is for the commands of other packages.
"""

from safle.cli.options import (
    COUNT,
    FILE,
    FOLDER,
    POSITIVE,
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
from safle.cli.session import Session, command, examples

__all__ = [
    "COUNT",
    "FILE",
    "FOLDER",
    "POSITIVE",
    "Session",
    "chosen_limits",
    "command",
    "encoder_file",
    "examples",
    "features_argument",
    "limit_options",
    "option",
    "output",
    "seed_option",
    "selected",
    "table_options",
    "written",
]
