"""``safle export``: a model for other programs."""

from pathlib import Path

import rich_click as click

from safle.cli import options as opt
from safle.cli.session import Session

LOAD = {"torch": "torch.export.load({!r}).module()", "onnx": "onnxruntime.InferenceSession({!r})"}
TO = "A torch program (.pt2) or an ONNX graph."


@opt.command("With a model", "safle export model.safetensors --to onnx -o model.onnx")
@opt.model_argument
@opt.option("--to target", TO, type=click.Choice([*LOAD]), required=True)
@opt.output("The file to write.", ".onnx", ".pt2")
def export(session: Session, /, model: Path, target: str, output: Path) -> None:
    """Export a model to torch or ONNX; both predict the same classes, without safle."""
    from safle.basics.memory import readable
    from safle.model import load_model
    from safle.model.export import export_onnx, export_torch

    opt.refuse_overwriting(output, model)
    write = {"torch": export_torch, "onnx": export_onnx}[target]
    write(load_model(model), output)
    facts = {
        "format": target,
        "file": readable(output.stat().st_size),
        "load with": LOAD[target].format(str(output)),
    }
    session.facts(f"{output}: exported model", facts)
