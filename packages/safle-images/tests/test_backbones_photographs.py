"""With its own preprocessing a network knows what it sees, and features are the same everywhere.

The photographs ship with scikit-learn and scikit-image. For each, the ImageNet classes that a
sensible network may name, and how sure of them together it is at least. The flower is a
dahlia, which ImageNet does not have: one network says daisy, the other honeycomb, for its petals.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from safle_images.backbones import CARDS, extract, load_backbone
from safle_images.backbones.weights import build, find_weights
from safle_images.readers import Record

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")
data = pytest.importorskip("skimage.data")
datasets = pytest.importorskip("sklearn.datasets")

NAMES = ("efficientnet_lite0", "mobilenet_v2")
TABBY, TIGER_CAT, EGYPTIAN_CAT, LYNX = 281, 282, 285, 287
ESPRESSO, CUP, COFFEE_MUG = 967, 968, 504
MISSILE, PROJECTILE, SPACE_SHUTTLE = 657, 744, 812
PALACE, MONASTERY, STUPA, BELL_COTE = 698, 663, 832, 442
DAISY, HONEYCOMB = 985, 599
EXPECTED = {
    "cat": ({TABBY, TIGER_CAT, EGYPTIAN_CAT, LYNX}, 0.9),
    "coffee": ({ESPRESSO, CUP, COFFEE_MUG}, 0.9),
    "rocket": ({MISSILE, PROJECTILE, SPACE_SHUTTLE}, 0.2),
    "palace": ({PALACE, MONASTERY, STUPA, BELL_COTE}, 0.5),
    "flower": ({DAISY, HONEYCOMB}, 0.3),
}


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Exported once for all tests here, and not into the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SAFLE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module", params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    if find_weights(CARDS[request.param]) is None:
        pytest.skip("its weights are not installed")
    return str(request.param)


@pytest.fixture(scope="module")
def photographs() -> dict[str, np.ndarray]:
    return {
        "cat": data.chelsea(),
        "coffee": data.coffee(),
        "rocket": data.rocket(),
        "palace": datasets.load_sample_image("china.jpg"),
        "flower": datasets.load_sample_image("flower.jpg"),
    }


def scores_of(name: str, pixels: np.ndarray, **changes: object) -> torch.Tensor:
    backbone = load_backbone(name, preprocessing=changes, device="cpu")
    (batch,) = extract([Record("photograph", None, pixels)], backbone)
    network = build(CARDS[name], find_weights(CARDS[name]))
    with torch.inference_mode():
        return network.score(torch.from_numpy(batch.features)).softmax(1)[0]


@pytest.mark.parametrize("photograph", sorted(EXPECTED))
def test_it_sees_what_is_there(
    name: str, photograph: str, photographs: dict[str, np.ndarray]
) -> None:
    classes, share = EXPECTED[photograph]
    scores = scores_of(name, photographs[photograph])
    assert scores[sorted(classes)].sum() > share
    assert classes & set(scores.topk(2).indices.tolist())


def test_wrong_preprocessing_is_noticed(name: str, photographs: dict[str, np.ndarray]) -> None:
    """Values 0..1 instead of centred ones: the tests above would find it."""
    wrong = {"mean": (0.0, 0.0, 0.0), "deviation": (255.0, 255.0, 255.0)}
    missed = 0
    for photograph, (classes, share) in EXPECTED.items():
        missed += scores_of(name, photographs[photograph], **wrong)[sorted(classes)].sum() <= share
    assert missed >= 2


def test_features_are_torchs_and_the_same_bytes_anywhere(
    name: str, photographs: dict[str, np.ndarray]
) -> None:
    backbone = load_backbone(name, device="cpu")
    records = [Record(key, None, pixels) for key, pixels in photographs.items()] * 3
    whole = np.concatenate([part.features for part in extract(records, backbone, workers=1)])
    parts = np.concatenate([p.features for p in extract(records, backbone, batch=2, workers=3)])
    assert parts.tobytes() == whole.tobytes()
    for first in (5, 10):
        assert whole[first : first + 5].tobytes() == whole[:5].tobytes()
    images = np.empty((5, 3, 224, 224), np.float32)
    for image, pixels in zip(images, photographs.values(), strict=True):
        backbone.preprocessing.normalise(backbone.preprocessing.fit(pixels), image)
    with torch.inference_mode():
        network = build(CARDS[name], find_weights(CARDS[name]))
        expected = network.embed(torch.from_numpy(images)).numpy()
    assert np.abs(whole[:5] - expected).max() < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("large", ["resnet18", "vgg11", "vit_b_16"])
def test_large_networks_too(
    large: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, photographs: dict[str, np.ndarray]
) -> None:
    """With random weights: none of theirs are here, and sums in another order would still show."""
    monkeypatch.setenv("SAFLE_CACHE", str(tmp_path / "cache"))
    module, _, kind = CARDS[large].architecture.partition(":")
    torch.manual_seed(0)
    network = getattr(__import__(module, fromlist=[kind]), kind)()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, 0.0, 0.02)
    torch.save(network.state_dict(), tmp_path / "w.pth")
    backbone = load_backbone(large, weights=tmp_path / "w.pth", device="cpu")
    records = [Record(key, None, pixels) for key, pixels in photographs.items()]
    whole = np.concatenate([part.features for part in extract(records, backbone, batch=5)])
    parts = np.concatenate([part.features for part in extract(records, backbone, batch=2)])
    assert whole.shape == (5, CARDS[large].feature_dim)
    assert whole.tobytes() == parts.tobytes()
    assert len(np.unique(whole, axis=0)) == 5
