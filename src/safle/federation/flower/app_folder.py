"""The folder that ``flwr run`` takes: a pyproject.toml that names our apps and settings."""

from __future__ import annotations

import json
from pathlib import Path

from safle._internal import atomic
from safle.federation.flower.settings import Config, complete

SERVER_APP = "safle.federation.flower.server_app:app"
CLIENT_APP = "safle.federation.flower.client_app:app"

_TEMPLATE = """\
# A Flower app: the code is in the package safle, installed on the server and on every node.
[project]
name = "safle-federation"
version = "1.0.0"
description = "One round of analytic federated learning"
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "safle"

[tool.flwr.app.components]
serverapp = "{server}"
clientapp = "{client}"

# Every setting can be overridden: flwr run . NAME -c 'deadline=600.0'
[tool.flwr.app.config]
{config}
"""


def write_app(
    folder: Path, config: Config, *, server: str = SERVER_APP, client: str = CLIENT_APP
) -> Path:
    """Write the app's folder; what ``config`` does not say has its default."""
    folder.mkdir(parents=True, exist_ok=True)
    # JSON's numbers, strings and booleans are TOML's.
    lines = [f"{key} = {json.dumps(value)}" for key, value in complete(config).items()]
    text = _TEMPLATE.format(server=server, client=client, config="\n".join(lines))
    atomic.write_text(folder / "pyproject.toml", text)
    return folder
