"""Flower's ServerApp of a safle federation."""

from __future__ import annotations

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from safle.federation.flower.server import serve

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """One round, by the run configuration."""
    serve(grid, context.run_config)
