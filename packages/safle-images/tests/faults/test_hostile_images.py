"""Images that are broken or made to do harm: refused, with what to do."""

from __future__ import annotations

import contextlib
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_support.archives import encoded
from safle.errors import ImageError
from safle_images.readers import decode

# Pillow warns of some of what it then refuses or mends.
pytestmark = pytest.mark.filterwarnings("ignore")


def png_chunk(name, body):
    data = name + body
    return struct.pack(">I", len(body)) + data + struct.pack(">I", zlib.crc32(data))


@pytest.mark.parametrize(
    ("width", "height"), [(30_000, 30_000), (2**31 - 1, 2**31 - 1), (10**6, 90)]
)
@pytest.mark.filterwarnings("error")
def test_a_bomb_is_refused_by_its_header(width, height):
    header = png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    bomb = b"\x89PNG\r\n\x1a\n" + header + png_chunk(b"IDAT", zlib.compress(bytes(10**6)))
    with pytest.raises(ImageError, match="pixels"):
        decode(bomb)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM"])
def test_cut_short(kind):
    data = encoded(kind, (64, 64))
    for share in (0.1, 0.5, 0.9):
        with pytest.raises(ImageError, match=r"cannot be decoded|is not an image"):
            decode(data[: int(len(data) * share)])


@given(st.binary(max_size=200))
def test_any_bytes_are_an_image_or_an_error(data):
    for prefix in (b"", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"II*\0", b"P6 ", b"BM"):
        with contextlib.suppress(ImageError):
            decode(prefix + data)


@given(at=st.integers(0, 10**6), value=st.integers(0, 255))
def test_any_flipped_byte_is_an_image_or_an_error(at, value):
    for kind in ("JPEG", "PNG", "GIF", "TIFF", "WEBP"):
        data = bytearray(encoded(kind))
        data[at % len(data)] = value
        with contextlib.suppress(ImageError):
            assert decode(bytes(data)).ndim == 3


def test_postscript_is_not_an_image():
    with pytest.raises(ImageError, match="is not an image"):
        decode(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n")


def test_empty_bytes():
    with pytest.raises(ImageError, match="has no bytes"):
        decode(b"")
