"""``safle export``: a model for other programs."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from safle.cli.options import FILE, Command, output, refuse_overwriting
from safle.cli.session import Session

LOAD = {
    "torch": "torch.export.load({!r}).module()",
    "onnx": "onnxruntime.InferenceSession({!r})",
}
EXAMPLE = "Example:\n\n  safle export model.safetensors --to onnx -o model.onnx"


@click.command(cls=Command, panel="With a model", epilog=EXAMPLE)
@click.argument("model", type=FILE, help="A model file.")
@click.option(
    "--to",
    "target",
    type=click.Choice(["torch", "onnx"]),
    required=True,
    help="A torch program (.pt2) or an ONNX graph.",
)
@output("The file to write.")
@click.pass_obj
def export(session: Session, /, model: Path, target: str, output: Path) -> None:
    """Export a model to torch or ONNX; both predict the same classes, without safle."""
    from safle._internal.memory import readable
    from safle.model import load_model
    from safle.model.export import export_onnx, export_torch

    refuse_overwriting(output, model)
    write = {"torch": export_torch, "onnx": export_onnx}[target]
    write(load_model(model), output)
    facts = {
        "format": target,
        "file": readable(output.stat().st_size),
        "load with": LOAD[target].format(str(output)),
    }
    session.facts(f"{output}: exported model", facts)
