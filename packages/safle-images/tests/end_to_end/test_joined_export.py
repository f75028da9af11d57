"""``safle export --with-backbone``: one ONNX file, from an image to safle's own class."""

from __future__ import annotations

import importlib.util
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from safle import Model, count, load_model, make_encoder, open_table, public_sample, solve
from safle.cli import Session
from safle.cli.main import app
from safle.errors import BackboneError, EncoderMismatch, SafleWarning
from safle_images.backbones import default, load_backbone, write_features
from safle_images.readers import open_images

onnxruntime = pytest.importorskip("onnxruntime")
PHOTOGRAPHS = Path(__file__).resolve().parents[5] / "shared" / "data" / "cifar10_images_6k.zip"
needs_photographs = pytest.mark.skipif(
    not PHOTOGRAPHS.is_file()
    or default.find_weights() is None
    or importlib.util.find_spec("torch") is None,
    reason="no photographs, torch or weights here",
)


def noise(folder: Path) -> None:
    numbers = np.random.default_rng(0)
    for at in range(30):
        path = folder / "abc"[at % 3] / f"{at}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = numbers.integers(0, 256, (50, 61, 3)) // (1 + at % 3)
        Image.fromarray(pixels.astype(np.uint8)).save(path)


def photographs(folder: Path) -> None:
    with zipfile.ZipFile(PHOTOGRAPHS) as archive:
        for name in sorted(archive.namelist())[::60]:
            path = folder / Path(name).parent.name / Path(name).name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(archive.read(name))


def guide(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the code of docs/exporting.md makes, with nothing of safle's, where whole.onnx is."""
    page = Path(__file__).parents[4] / "docs" / "exporting.md"
    found = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    (block,) = (block for block in found if "whole.onnx" in block)
    first = min((folder / "images").rglob("*.*g"))
    Image.open(first).save(folder / "photograph.jpg")
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    exec(block, names)
    return names


def make_model(folder: Path, backbone: str, *, source: bool = True) -> Path:
    """A model of the images below ``folder``, and their features beside it."""
    found = load_backbone(backbone)
    write_features(open_images(folder / "images"), found, folder / "features.safetensors")
    table = open_table(folder / "features.safetensors")
    encoder = make_encoder(public_sample(table.features[:]), units=64)
    encoder = encoder.declare(source=found.source) if source else encoder
    total = count(encoder, table.features[:], table.labels)
    Model.of(encoder, solve(total)).save(folder / "model.safetensors")
    return folder / "model.safetensors"


def export(model: Path, backbone: str, output: Path) -> str:
    arguments = ["export", model, "--with-backbone", backbone, "-o", output]
    given = [*map(str, arguments)]
    done = CliRunner().invoke(app, given, obj=Session(), catch_exceptions=False)
    assert not done.exit_code, done.output
    return done.output


@pytest.mark.parametrize(
    ("backbone", "fill"),
    [
        ("tiny.onnx", noise),
        pytest.param(default.DEFAULT, photographs, marks=[pytest.mark.slow, needs_photographs]),
    ],
)
def test_joined_export_predicts_what_safle_predicts(
    backbone: str,
    fill: Callable[[Path], None],
    tmp_path: Path,
    tiny_onnx: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SAFLE_CACHE", str(tmp_path / "cache"))
    fill(tmp_path / "images")
    name = backbone if backbone == default.DEFAULT else str(tiny_onnx(tmp_path / backbone))
    saved = make_model(tmp_path, name)
    shown = export(saved, name, tmp_path / "whole.onnx")
    made, model = guide(tmp_path, monkeypatch), load_model(saved)
    assert made["label"][0] in model.class_names
    assert f"resize={made['how']['resize']}" in shown
    told = made["session"].get_modelmeta().custom_metadata_map
    assert told["safle.source"] == model.encoder.contract.source
    assert told["safle.digest"] == model.digest
    table = open_table(tmp_path / "features.safetensors")
    assert table.ids is not None
    images = np.stack([made["prepare"](tmp_path / "images" / name) for name in table.ids])
    label, scores = made["session"].run(["label", "scores"], {"images": images})
    assert np.array_equal(label, model.predict(table.features[:]))
    # A network adds up in another order where calls have another shape: see networks.py.
    assert np.allclose(scores, model.decision_function(table.features[:]), rtol=1e-3, atol=1e-3)


def test_another_backbone_is_refused(tmp_path: Path, tiny_onnx: Callable[..., Path]) -> None:
    noise(tmp_path / "images")
    tiny, wide, mixed, other = (
        str(tiny_onnx(tmp_path / f"{at}.onnx", **how))
        for at, how in enumerate([{}, {"feature_dim": 7}, {"mixed": True}, {"side": "open"}])
    )
    model = make_model(tmp_path, tiny)
    with pytest.raises(EncoderMismatch, match="use the same backbone"):
        export(model, other, tmp_path / "whole.onnx")
    silent = make_model(tmp_path, tiny, source=False)
    with pytest.warns(SafleWarning, match="names no source of its features"):
        export(silent, tiny, tmp_path / "whole.onnx")
    with pytest.raises(BackboneError, match="gives 7 features; the model expects 6"):
        export(silent, wide, tmp_path / "wide.onnx")
    with pytest.raises(BackboneError, match="mixes the images of a call"):
        export(silent, mixed, tmp_path / "mixed.onnx")


def test_a_backbone_of_another_opset_is_converted(
    tmp_path: Path, tiny_onnx: Callable[..., Path]
) -> None:
    import onnx

    noise(tmp_path / "images")
    converted = onnx.version_converter.convert_version(
        onnx.load(tiny_onnx(tmp_path / "a.onnx")), 19
    )
    converted.ir_version = 9
    onnx.save(converted, tmp_path / "b.onnx")
    model = make_model(tmp_path, str(tmp_path / "b.onnx"))
    export(model, str(tmp_path / "b.onnx"), tmp_path / "whole.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "whole.onnx")
    (scores,) = session.run(["scores"], {"images": np.zeros((2, 3, 32, 32), np.float32)})
    assert scores.shape == (2, 3)
