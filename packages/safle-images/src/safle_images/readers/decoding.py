"""An encoded image -> uint8 pixels (height, width, 3), as torchvision gives them.

Pillow's ``convert("RGB")`` converts every image, as it did the images that backbones were trained
on, with these additions and exceptions:

==============  =====================================================================
EXIF            the orientation is applied, so that up is up
alpha           dropped, as ``convert`` does: the colours below it are kept
16 bits         the high byte, as Pillow reads 16-bit colour; ``convert`` would clip
animations      the first frame
floating point  refused: nothing says which value is white
==============  =====================================================================
"""

import contextlib
import io
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from safle.errors import ImageError
from safle_images.readers.sources import Unreadable

MOST_PIXELS = 89_478_485
"""Above this number Pillow itself warns of a decompression bomb."""

# Pillow reads more formats, but its EPS reader, for example, runs Ghostscript.
_FORMATS = ("JPEG", "PNG", "GIF", "BMP", "DIB", "TIFF", "WEBP", "PPM", "JPEG2000", "AVIF")


def decode(data: bytes | NDArray[np.uint8], *, most_pixels: int = MOST_PIXELS) -> NDArray[np.uint8]:
    """Decode one image.

    Parameters
    ----------
    data
        An encoded file; pixels (height, width, 3) are returned as they are.
    most_pixels
        A larger image is refused by the size in its header, before it is decoded.

    Returns
    -------
    pixels : uint8, (height, width, 3), RGB

    Raises
    ------
    ImageError
        The image is broken, cut short, too large or of an unknown kind.

    Examples
    --------
    >>> decode(np.zeros((2, 3, 3), np.uint8)).shape
    (2, 3, 3)
    """
    if isinstance(data, np.ndarray):
        return _checked(data, most_pixels)
    if isinstance(data, Unreadable):
        raise ImageError(data.reason)
    if not data:
        raise ImageError("has no bytes; copy it again")
    Image.init()
    # A build of Pillow may lack some formats.
    known = [name for name in _FORMATS if name in Image.OPEN]
    try:
        with Image.open(io.BytesIO(data), formats=known) as image:
            _check_size(image.width, image.height, most_pixels)
            image.load()
            # An image with broken EXIF data is still readable.
            with contextlib.suppress(Exception):
                ImageOps.exif_transpose(image, in_place=True)
            return _pixels(image)
    except (ImageError, MemoryError):
        raise
    except Image.UnidentifiedImageError:
        raise ImageError(
            f"is not an image ({len(data)} bytes); expected one of {', '.join(known)}"
        ) from None
    # Hostile bytes can make a decoder raise any exception.
    except Exception as error:
        raise ImageError(
            f"cannot be decoded ({error}); expected a complete image: copy it again"
        ) from error


def _check_size(width: int, height: int, most_pixels: int) -> None:
    if not 0 < width * height <= most_pixels:
        raise ImageError(
            f"claims {width}×{height} pixels; expected at most {most_pixels}, at least 1: "
            "make it smaller"
        )


def _checked(pixels: NDArray[np.uint8], most_pixels: int) -> NDArray[np.uint8]:
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
        raise ImageError(
            f"pixels are {pixels.dtype} of shape {pixels.shape}; expected uint8, (height, width, 3)"
        )
    _check_size(pixels.shape[1], pixels.shape[0], most_pixels)
    return pixels


def _pixels(image: Any) -> NDArray[np.uint8]:
    """The image in RGB, from any colour mode of the file."""
    if image.mode == "F":
        raise ImageError("has floating-point pixels; expected integers: save it with 8 bits")
    if image.mode == "I" or image.mode.startswith("I;16"):
        grey = _high_byte(np.asarray(image))
        return np.repeat(grey[:, :, None], 3, axis=2)
    if image.mode == "P":
        # Pillow warns if a palette with alpha is converted straight to RGB.
        image = image.convert("RGBA")
    return np.array(image if image.mode == "RGB" else image.convert("RGB"))


def _high_byte(values: NDArray[Any]) -> NDArray[np.uint8]:
    least, most = int(values.min()), int(values.max())
    if not 0 <= least <= most < 2**16:
        raise ImageError(
            f"has pixels from {least} to {most}; expected 0 to 65535: save it with 8 or 16 bits"
        )
    return (values.astype(np.uint16) >> 8).astype(np.uint8)
