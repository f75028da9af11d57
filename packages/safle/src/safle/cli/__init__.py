"""The command line: a federation with nothing but files, one command a module.

Modules here import nothing heavy at the top, so that help answers at once. What is listed below
is for the commands of other packages.
"""

from safle.cli.options import (
    COUNT,
    FILE,
    FOLDER,
    POSITIVE,
    Decorator,
    command,
    encoder_file,
    examples,
    option,
    output,
    refuse_overwriting,
    written,
)

# Not by its own name: that is the module's.
from safle.cli.options import options as option_group
from safle.cli.session import Session

__all__ = [
    "COUNT",
    "FILE",
    "FOLDER",
    "POSITIVE",
    "Decorator",
    "Session",
    "command",
    "encoder_file",
    "examples",
    "option",
    "option_group",
    "output",
    "refuse_overwriting",
    "written",
]
