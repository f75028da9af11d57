"""A server's app and its clients in one process: for tests that measure or kill that process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from flwr.clientapp import ClientApp

from flower_support.clients import direct_app, run_in
from safle_flower import messages
from safle_flower.adapter import InProcessGrid
from safle_flower.report import Report
from safle_flower.server import serve


def noting_app(notes: Path) -> ClientApp:
    """The real client; whoever has counted is noted in a file."""
    app = ClientApp()

    @app.query("question")
    def count(message: Any, context: Any) -> Any:
        reply = direct_app(message, context)
        answer = messages.read_answer(reply)
        if answer.status == messages.SENT:
            with notes.open("a") as file:
                file.write(f"{answer.client}\n")
        return reply

    return app


class RegisteredGrid(InProcessGrid):
    """Its nodes are known by name, as those of a deployment are: who is in is not asked again."""

    def get_nodes(self) -> list[SimpleNamespace]:
        names = {number: context.node_config["client"] for number, context in self.contexts.items()}
        return [SimpleNamespace(node_id=number, name=name) for number, name in names.items()]


def serve_here(
    folder: Path,
    *,
    progress: Callable[[float], None] | None = None,
    kind: type[InProcessGrid] = InProcessGrid,
    **settings: Any,
) -> Report:
    """One run over all tables of a folder: its store, its results and who counted are there too."""
    tables = sorted(folder.glob("*.npz"))
    nodes = [{"client": table.stem, "features": str(table)} for table in tables]
    run = run_in(folder, folder / "encoder.safetensors", len(tables), **settings)
    grid = kind(noting_app(folder / "counted.txt"), nodes)
    return serve(grid, run, progress=progress)
