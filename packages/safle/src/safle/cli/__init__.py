"""The command line: a federation with nothing but files, a group of commands a module.

`main` lists the commands and imports a module when one of its commands is called. What is listed
below is for the commands of other packages.
"""

from typing import TYPE_CHECKING

from safle.basics.imports import define_public_names

if TYPE_CHECKING:
    from safle.cli.facts import counts_facts as counts_facts
    from safle.cli.main import app as app
    from safle.cli.options import COUNT as COUNT
    from safle.cli.options import FILE as FILE
    from safle.cli.options import FOLDER as FOLDER
    from safle.cli.options import PLACE as PLACE
    from safle.cli.options import POSITIVE as POSITIVE
    from safle.cli.options import counting_options as counting_options
    from safle.cli.options import encoder_file as encoder_file
    from safle.cli.options import features_argument as features_argument
    from safle.cli.options import file_option as file_option
    from safle.cli.options import flag as flag
    from safle.cli.options import grid_options as grid_options
    from safle.cli.options import limit_options as limit_options
    from safle.cli.options import option as option
    from safle.cli.options import output as output
    from safle.cli.options import parse_classes as parse_classes
    from safle.cli.options import parse_grid as parse_grid
    from safle.cli.options import pick_table_options as pick_table_options
    from safle.cli.options import policy_option as policy_option
    from safle.cli.options import seed_option as seed_option
    from safle.cli.options import table_options as table_options
    from safle.cli.options import take_limits as take_limits
    from safle.cli.options import written as written
    from safle.cli.session import Session as Session
    from safle.cli.session import command as command
    from safle.cli.session import examples as examples
    from safle.cli.session import explain as explain

define_public_names(__name__)
