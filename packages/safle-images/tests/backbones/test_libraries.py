"""Networks by the names that people know: features are those of plain library code.

Fifty images of six sizes go through the two commands, and through the library's own transforms and
layers. Weights are random, under the names of the real ones; where real ones lie, they are taken.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_sample_images

from safle import open_table
from safle.errors import BackboneError, SafleWarning
from safle_images.backbones import export_named, load_backbone

torch = pytest.importorskip("torch")
Safle = Callable[..., str]
Plain = Callable[[Image.Image], Any]
SIZES = [(32, 32), (64, 48), (97, 131), (224, 224), (300, 200), (333, 400)]
REAL = Path(__file__).resolve().parents[5] / "shared" / "data"
CLOSEST = 1e-5


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Parts of photographs, of six sizes."""
    folder = tmp_path_factory.mktemp("images") / "images"
    folder.mkdir()
    numbers = np.random.default_rng(0)
    for at in range(50):
        photograph = load_sample_images().images[at % 2]
        wide, tall = SIZES[at % len(SIZES)]
        top, left = (int(numbers.integers(most)) for most in (427 - tall, 640 - wide))
        part = photograph[top : top + tall, left : left + wide]
        Image.fromarray(part).save(folder / f"{at:02}.png")
    return folder


def made(safle: Safle, images: Path, folder: Path, what: str, *options: object) -> np.ndarray:
    """Features by command, in the order of the images' names."""
    network, features = folder / "network.onnx", folder / "features.safetensors"
    safle("backbones", "export", what, *options, "-o", network)
    words = ("--backbone", network, "--label-column", "", "--device", "cpu", "-o", features)
    safle("features", images, *words)
    table = open_table(features)
    assert table.ids is not None
    assert table.ids.tolist() == [path.name for path in sorted(images.iterdir())]
    return table.features[:]


def expected(images: Path, prepare: Plain, network: Callable[[Any], Any]) -> np.ndarray:
    """Features by the library alone."""
    pictures = [Image.open(path).convert("RGB") for path in sorted(images.iterdir())]
    with torch.no_grad():
        parts = [network(torch.as_tensor(prepare(picture))[None]) for picture in pictures]
    return torch.cat(parts).flatten(1).numpy()


def before(network: Any, layer: Any) -> Callable[[Any], Any]:
    """What a network gives to a layer."""
    seen: list[Any] = []
    layer.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    network.eval()

    def run(images: Any) -> Any:
        network(images)
        return seen.pop()

    return run


def assert_close(found: np.ndarray, exact: np.ndarray) -> None:
    assert found.shape == exact.shape
    away = np.linalg.norm(found - exact, axis=1) / np.linalg.norm(exact, axis=1)
    assert away.max() < CLOSEST, away.max()


def weights_of(network: Any, folder: Path, real: str = "") -> Path:
    """Put real weights into a network, if they lie here; its weights in a file."""
    if (REAL / real).is_file():
        from safetensors.torch import load_file

        network.load_state_dict(load_file(REAL / real))
    torch.save(network.state_dict(), folder / "weights.pth")
    return folder / "weights.pth"


@pytest.mark.slow
@pytest.mark.parametrize("paper", [False, True], ids=["own", "paper"])
@pytest.mark.parametrize(
    ("name", "head", "real"),
    [
        ("resnet18", "fc", "resnet18_imagenet_f16.safetensors"),
        ("vgg11", "classifier.6", "none"),
        ("vit_b_16", "heads.head", "none"),
    ],
)
def test_the_papers_backbones_of_torchvision(
    name: str,
    head: str,
    real: str,
    paper: bool,
    torchvision: Any,
    safle: Safle,
    images: Path,
    tmp_path: Path,
) -> None:
    torch.manual_seed(0)
    network = torchvision.models.get_model(name, weights=None)
    weights = weights_of(network, tmp_path, real)
    parts = torchvision.transforms
    prepare = torchvision.models.get_model_weights(name).DEFAULT.transforms()
    if paper:
        halves = (0.5, 0.5, 0.5)
        steps = [parts.Resize(224), parts.CenterCrop(224), parts.ToTensor()]
        prepare = parts.Compose([*steps, parts.Normalize(halves, halves)])
    options = ("--weights", weights, *(("--preprocessing", "paper") if paper else ()))
    found = made(safle, images, tmp_path, f"torchvision:{name}", *options)
    assert_close(found, expected(images, prepare, before(network, network.get_submodule(head))))
    for path in tmp_path.glob("*.*"):
        path.unlink()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "real"),
    [
        ("vit_tiny_patch16_224", "vit_tiny_patch16_224_f16.safetensors"),
        ("mobilenetv3_small_050", "none"),
    ],
)
def test_two_networks_of_timm(
    name: str, real: str, timm: Any, safle: Safle, images: Path, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    network = timm.create_model(name)
    weights = weights_of(network, tmp_path, real)
    prepare = timm.data.create_transform(**timm.data.resolve_model_data_config(network))
    found = made(safle, images, tmp_path, f"timm:{name}", "--weights", weights)
    run = before(network, network.get_classifier())
    assert_close(found, expected(images, prepare, run))


@pytest.mark.slow
def test_positions_of_tokens_fit_another_size(
    timm: Any, safle: Safle, images: Path, tmp_path: Path
) -> None:
    """As DINOv2 needs it, whose images have 518 pixels."""
    torch.manual_seed(0)
    network = timm.create_model("test_vit", num_classes=0)
    weights = weights_of(network, tmp_path)
    found = made(safle, images, tmp_path, "timm:test_vit", "--weights", weights, "--size", 64)
    assert load_backbone(str(tmp_path / "network.onnx")).preprocessing.crop == 64
    config = timm.data.resolve_data_config({"img_size": 64}, model=network)
    again = timm.create_model("test_vit", num_classes=0, img_size=64)
    fitted = timm.models.vision_transformer.checkpoint_filter_fn(network.state_dict(), again)
    again.load_state_dict(fitted)
    assert_close(found, expected(images, timm.data.create_transform(**config), again.eval()))


# --- transformers ----------------------------------------------------------------------


SMALL_VIT = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 40,
    "image_size": 64,
}


def save_hf(folder: Path, network: Any, processor: Any) -> str:
    network.save_pretrained(folder)
    processor.save_pretrained(folder)
    return str(folder)


def test_a_network_of_transformers_squashes(
    transformers: Any, safle: Safle, images: Path, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    network = transformers.ViTForImageClassification(transformers.ViTConfig(**SMALL_VIT)).eval()
    processor = transformers.ViTImageProcessor(size={"height": 64, "width": 64})
    folder = save_hf(tmp_path / "vit", network, processor)
    found = made(safle, images, tmp_path, folder)
    backbone = load_backbone(str(tmp_path / "network.onnx"))
    assert "resize=64 squash bilinear crop=64" in backbone.source
    plain = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")

    def prepare(picture: Image.Image) -> Any:
        return plain(images=picture, return_tensors="pt")["pixel_values"][0]

    assert_close(found, expected(images, prepare, before(network, network.classifier)))


def test_a_pooler_without_weights_is_left_out(
    transformers: Any, images: Path, tmp_path: Path
) -> None:
    """As DINO's: its first tokens are the features, not noise made of them."""
    network = transformers.ViTModel(transformers.ViTConfig(**SMALL_VIT), add_pooling_layer=False)
    processor = transformers.ViTImageProcessor(size={"height": 64, "width": 64})
    folder = save_hf(tmp_path / "vit", network.eval(), processor)
    export_named(f"hf:{folder}", tmp_path / "a.onnx")
    backbone = load_backbone(str(tmp_path / "a.onnx"))
    noise = np.random.default_rng(0).standard_normal((8, 3, 64, 64), np.float32)
    with torch.no_grad():
        tokens = network(torch.from_numpy(noise)).last_hidden_state
    np.testing.assert_allclose(backbone.network(noise), tokens[:, 0].numpy(), atol=1e-4)


def small_networks(of: Any) -> dict[str, tuple[Any, Any, str]]:
    """Networks, their processors, and what becomes of an image."""
    sizes = {"hidden_sizes": [8, 8, 8, 8], "depths": [1, 1, 1, 1]}
    vision = {**SMALL_VIT, "projection_dim": 16}
    text = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 99}
    clip = of.CLIPConfig(text_config=text, vision_config=vision, projection_dim=16)
    crops = {"size": {"shortest_edge": 72}, "crop_size": {"height": 64, "width": 64}}
    return {
        "convnext": (
            of.ConvNextModel(of.ConvNextConfig(**sizes)),
            of.ConvNextImageProcessor(size={"shortest_edge": 56}, crop_pct=0.875),
            "resize=64 bicubic crop=56",
        ),
        "clip": (of.CLIPModel(clip), of.CLIPImageProcessor(**crops), "resize=72 bicubic crop=64"),
        "dinov2": (
            of.Dinov2Model(of.Dinov2Config(**SMALL_VIT, patch_size=16)),
            of.BitImageProcessor(**crops),
            "resize=72 bicubic crop=64",
        ),
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["convnext", "clip", "dinov2"])
def test_other_networks_of_transformers(kind: str, transformers: Any, tmp_path: Path) -> None:
    network, processor, how = small_networks(transformers)[kind]
    folder = save_hf(tmp_path / kind, network, processor)
    assert export_named(f"hf:{folder}", tmp_path / "a.onnx") < 1e-4
    assert how in load_backbone(str(tmp_path / "a.onnx")).source


def test_processors_and_weights_that_are_not_whole(transformers: Any, tmp_path: Path) -> None:
    network = transformers.ViTForImageClassification(transformers.ViTConfig(**SMALL_VIT))
    processor = transformers.ViTImageProcessor(size={"height": 64, "width": 48})
    folder = save_hf(tmp_path / "vit", network, processor)
    with pytest.raises(BackboneError, match="prepares images in a way"):
        export_named(folder, tmp_path / "a.onnx")
    transformers.ViTImageProcessor(size={"height": 64, "width": 64}).save_pretrained(folder)
    transformers.ViTConfig(**{**SMALL_VIT, "num_hidden_layers": 3}).save_pretrained(folder)
    about = json.loads(Path(folder, "config.json").read_text())
    about["architectures"] = ["ViTForImageClassification"]
    Path(folder, "config.json").write_text(json.dumps(about))
    with pytest.raises(BackboneError, match=r"lacks weights: 'vit\..*download it again"):
        export_named(folder, tmp_path / "a.onnx")
    with pytest.raises(BackboneError, match="could not be loaded"):
        export_named(f"hf:{tmp_path / 'nothing'}", tmp_path / "a.onnx")
    assert not (tmp_path / "a.onnx").exists()


# --- weights ---------------------------------------------------------------------------


def squeezed(torchvision: Any, folder: Path, classes: int = 1000) -> Path:
    network = torchvision.models.squeezenet1_1(num_classes=classes)
    torch.save(network.state_dict(), folder / "w.pth")
    return folder / "w.pth"


def test_classes_of_ones_own_do_no_harm(torchvision: Any, tmp_path: Path) -> None:
    """The layer of classes is left out, whatever their number."""
    weights = squeezed(torchvision, tmp_path, classes=3)
    export_named("torchvision:squeezenet1_1", tmp_path / "a.onnx", weights=weights)
    assert load_backbone(str(tmp_path / "a.onnx")).feature_dim == 512


def test_published_weights_are_torchvisions_download(
    torchvision: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = torchvision.models.SqueezeNet1_1_Weights.DEFAULT
    kept = tmp_path / "hub/checkpoints"
    kept.mkdir(parents=True)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    squeezed(torchvision, tmp_path).rename(kept / published.url.rpartition("/")[2])
    export_named("torchvision:squeezenet1_1", tmp_path / "a.onnx")
    monkeypatch.setattr(published.value, "url", "http://127.0.0.1:9/none.pth")
    with pytest.raises(BackboneError, match=r"could not be downloaded .*--weights FILE"):
        export_named("torchvision:squeezenet1_1", tmp_path / "b.onnx")


def test_weights_that_are_not(torchvision: Any, tmp_path: Path) -> None:
    def refused(path: Path, match: str) -> None:
        with pytest.raises(BackboneError, match=match) as raised:
            export_named("torchvision:squeezenet1_1", tmp_path / "a.onnx", weights=path)
        assert str(path) in str(raised.value)
        assert not (tmp_path / "a.onnx").exists()

    good = squeezed(torchvision, tmp_path)
    data = good.read_bytes()
    for at, content in enumerate((b"", b"cut short", data[: len(data) // 2])):
        (tmp_path / f"{at}.pth").write_bytes(content)
        refused(tmp_path / f"{at}.pth", "not a file of weights")
    (tmp_path / "b.safetensors").write_bytes(data)
    refused(tmp_path / "b.safetensors", "not a file of weights")
    with zipfile.ZipFile(good) as old, zipfile.ZipFile(tmp_path / "bomb.pth", "w", 8) as new:
        for entry in old.namelist():
            new.writestr(entry, old.read(entry))
    refused(tmp_path / "bomb.pth", "compressed")
    torch.save({"epoch": 3, "model": torch.load(good)}, tmp_path / "more.pth")
    refused(tmp_path / "more.pth", "more than names and tensors")
    torch.save(torchvision.models.alexnet().features.state_dict(), tmp_path / "other.pth")
    refused(tmp_path / "other.pth", "weights of another network")


class Harm:
    def __reduce__(self) -> Any:
        return Path.touch, (Path("harm"),)


def test_code_in_weights_is_not_run(
    torchvision: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"weight": Harm()}, "w.pth")
    with pytest.raises(BackboneError, match=r"w\.pth: not a file of weights"):
        export_named("torchvision:resnet18", tmp_path / "a.onnx", weights=Path("w.pth"))
    assert [path.name for path in tmp_path.iterdir()] == ["w.pth"]


def test_code_of_the_hub_is_not_run(
    transformers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither modules beside the weights nor pickled weights."""
    monkeypatch.chdir(tmp_path)
    network = transformers.ViTForImageClassification(transformers.ViTConfig(**SMALL_VIT))
    processor = transformers.ViTImageProcessor(size={"height": 64, "width": 64})
    folder = Path(save_hf(Path("vit"), network, processor))
    (folder / "model.safetensors").unlink()
    torch.save({"weight": Harm()}, folder / "pytorch_model.bin")
    with pytest.raises(BackboneError, match="could not be loaded"):
        export_named("vit", tmp_path / "a.onnx")
    about = json.loads((folder / "config.json").read_text())
    about |= {"model_type": "mine", "auto_map": {"AutoConfig": "harm.Config"}}
    (folder / "config.json").write_text(json.dumps(about))
    (folder / "harm.py").write_text("from pathlib import Path\nPath('harm').touch()")
    with pytest.raises(BackboneError, match="could not be loaded"):
        export_named("vit", tmp_path / "a.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["vit"]


def test_a_name_that_torchvision_does_not_have(torchvision: Any, tmp_path: Path) -> None:
    with pytest.raises(BackboneError, match=r"network 'resnet19'.*'resnet18'"):
        export_named("torchvision:resnet19", tmp_path / "a.onnx")


@pytest.mark.parametrize(
    ("what", "option"),
    [("hf:x", "weights"), ("a.onnx", "size"), ("torchvision:resnet18", "output_name")],
)
def test_options_of_other_networks(what: str, option: str, tmp_path: Path) -> None:
    with pytest.raises(BackboneError, match=f"--{option.replace('_', '-')} is for"):
        export_named(what, tmp_path / "b.onnx", **{option: Path("w.pth")})


def test_class_scores_are_named(torchvision: Any, tmp_path: Path) -> None:
    from safle_images.backbones import Preprocessing, export_backbone

    plain = Preprocessing(
        resize=64, crop=64, interpolation="bilinear", mean=(0, 0, 0), deviation=(1, 1, 1)
    )
    with pytest.warns(SafleWarning, match=r"class scores.*its 1,000 numbers"):
        export_backbone(torchvision.models.resnet18(), plain, tmp_path / "a.onnx")
    with pytest.warns(SafleWarning, match="class scores"):
        export_backbone(torchvision.models.squeezenet1_1(), plain, tmp_path / "b.onnx")
