"""Decoding: every kind of image against Pillow's own result or a known pixel."""

from __future__ import annotations

import io
import pickle  # noqa: TID251 (what multiprocessing sends)

import numpy as np
import pytest

from image_support.archives import to_bytes
from safle.errors import ImageError
from safle_images.readers import MOST_PIXELS, Unreadable, decode

Image = pytest.importorskip("PIL.Image")
ImageOps = pytest.importorskip("PIL.ImageOps")
features = pytest.importorskip("PIL.features")


def reference(data):
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))


@pytest.fixture(scope="module")
def photo():
    """A smooth colour picture, wider than high."""
    y, x = np.mgrid[0:40, 0:60]
    return Image.fromarray(np.stack([x * 4, y * 6, (x + y) * 2], axis=2).astype(np.uint8))


MODES = {
    "PNG": "RGB RGBA L LA P 1",
    "JPEG": "RGB L CMYK",
    "GIF": "P L",
    "BMP": "RGB 1",
    "DIB": "RGB",
    "TIFF": "RGB RGBA CMYK YCbCr P 1",
    "PPM": "RGB L",
    "WEBP": "RGB RGBA",
    "JPEG2000": "RGB",
    "AVIF": "RGB",
}


@pytest.mark.parametrize(
    ("kind", "mode"), [(kind, mode) for kind, modes in MODES.items() for mode in modes.split()]
)
def test_every_kind_is_what_pillow_makes_of_it(photo, kind, mode):
    needed = {"WEBP": "webp", "JPEG2000": "jpg_2000", "AVIF": "avif"}.get(kind)
    if needed and not features.check(needed):
        pytest.skip(f"this Pillow has no {kind}")
    data = to_bytes(photo.convert(mode), kind)
    pixels = decode(data)
    np.testing.assert_array_equal(pixels, reference(data))
    assert pixels.dtype == np.uint8
    assert pixels.shape == (40, 60, 3)
    assert pixels.flags.c_contiguous


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF", "WEBP"])
def test_orientation_is_applied(photo, kind, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = to_bytes(photo, kind, exif=exif)
    pixels = decode(data)
    np.testing.assert_array_equal(pixels, reference(data))
    assert pixels.shape == ((60, 40, 3) if orientation >= 5 else (40, 60, 3))


def test_a_phone_held_upright(photo):
    """Orientation 6: what the sensor calls left is up."""
    exif = Image.Exif()
    exif[0x0112] = 6
    pixels = decode(to_bytes(photo, exif=exif))
    np.testing.assert_array_equal(pixels, np.rot90(np.asarray(photo), -1))


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
@pytest.mark.parametrize("exif", [b"Exif\0\0nonsense", b"Exif\0\0II*\0\xff\xff\xff\xff", b"x"])
def test_broken_exif_does_not_matter(photo, exif):
    pixels = decode(to_bytes(photo, "JPEG", exif=exif))
    assert pixels.shape == (40, 60, 3)


def test_exif_orientation_out_of_range_is_ignored(photo):
    exif = Image.Exif()
    exif[0x0112] = 99
    np.testing.assert_array_equal(decode(to_bytes(photo, exif=exif)), np.asarray(photo))


def test_alpha_is_dropped():
    clear_red = Image.new("RGBA", (2, 2), (200, 10, 20, 0))
    assert decode(to_bytes(clear_red))[0, 0].tolist() == [200, 10, 20]


@pytest.mark.filterwarnings("error")
def test_a_palette_with_transparency(photo):
    image = photo.quantize(16)
    data = to_bytes(image, transparency=bytes(range(16)))
    np.testing.assert_array_equal(decode(data), np.asarray(image.convert("RGB")))


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "PPM"])
def test_sixteen_bits_are_scaled(kind):
    values = np.array([[0, 255, 256, 32768, 65280, 65535]], np.uint16)
    data = to_bytes(Image.fromarray(values), kind)
    expected = [0, 0, 1, 128, 255, 255]
    assert decode(data)[0].tolist() == [[value] * 3 for value in expected]


def test_integers_beyond_sixteen_bits_are_refused():
    for value in (70_000, -1):
        image = Image.fromarray(np.full((2, 2), value, np.int32))
        with pytest.raises(ImageError, match=r"expected 0 to 65535"):
            decode(to_bytes(image, "TIFF"))


def test_floats_are_refused():
    with pytest.raises(ImageError, match="floating-point"):
        decode(to_bytes(Image.fromarray(np.zeros((2, 2), np.float32)), "TIFF"))


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP", "TIFF"])
def test_the_first_frame_of_several(kind):
    frames = [Image.new("RGB", (4, 4), (shade, shade, shade)) for shade in (0, 255)]
    data = to_bytes(frames[0], kind, save_all=True, append_images=frames[1:])
    assert decode(data).max() == 0


def test_pixels_are_returned_as_they_are():
    pixels = np.zeros((2, 3, 3), np.uint8)
    assert decode(pixels) is pixels
    for wrong in (np.zeros((2, 3), np.uint8), np.zeros((2, 3, 3)), np.zeros((0, 3, 3), np.uint8)):
        with pytest.raises(ImageError, match="expected"):
            decode(wrong)


def test_the_most_pixels(photo):
    assert decode(to_bytes(photo), most_pixels=2400).size == 7200
    with pytest.raises(ImageError, match=r"60×40 pixels; expected at most 2399"):
        decode(to_bytes(photo), most_pixels=2399)
    with pytest.raises(ImageError, match="at most 2399"):
        decode(np.asarray(photo), most_pixels=2399)
    assert MOST_PIXELS == Image.MAX_IMAGE_PIXELS


def test_an_unreadable_file_says_why_even_from_another_process():
    data = pickle.loads(pickle.dumps(Unreadable("cannot be read: gone")))  # noqa: S301
    with pytest.raises(ImageError, match="cannot be read: gone"):
        decode(data)
