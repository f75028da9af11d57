"""``safle deploy``: a federation on other people's machines."""

from __future__ import annotations

import rich_click as click

from safle.cli.deploy_check import check
from safle.cli.deploy_init import init
from safle.cli.deploy_report import report


@click.group(panel="Over a network")
def deploy() -> None:
    """Prepare, check and read a federation over the network.

    Needs the extra flower, on the server and on every node: pip install 'safle[flower]'
    """


for command in (init, check, report):
    deploy.add_command(command)
