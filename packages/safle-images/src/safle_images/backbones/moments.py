"""Moments of a backbone's features over public images: encoders without a sample or a round.

They are files beside this module, as `safle.tables.read_moments` reads them. Whoever has images of
another kind than these photographs should calibrate by a public sample or by histograms.
"""

from pathlib import Path

from safle.errors import BackboneError

FOLDER = Path(__file__).parent / "shipped"


def shipped_moments(name: str) -> Path:
    """The file of a backbone's moments.

    Examples
    --------
    >>> from safle.tables import read_moments
    >>> moments, source = read_moments(shipped_moments("efficientnet_lite0"))
    >>> moments.feature_dim, source[:27]
    (1280, 'efficientnet_lite0 weights=')
    >>> shipped_moments("resnet18")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    safle.errors.BackboneError: no moments of 'resnet18' are shipped, but of efficientnet_lite0, ...
    """
    shipped = {path.stem: path for path in sorted(FOLDER.glob("*.safetensors"))}
    if name not in shipped:
        raise BackboneError(
            f"no moments of {name!r} are shipped, but of {', '.join(shipped)}; turn public images "
            "into features ('safle features') and make the encoder with --sample"
        )
    return shipped[name]
