"""Images, and folders and zips of them, written for tests."""

from __future__ import annotations

import io
import zipfile

import numpy as np


def encoded(kind="PNG", size=(8, 8)):
    """An image of noise, as a file."""
    from PIL import Image

    buffer = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(buffer, kind)
    return buffer.getvalue()


def write_folder(root, files):
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def write_zip(path, files):
    """``files``: what each is called, or a `zipfile.ZipInfo`, and its bytes; a name may repeat."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items() if isinstance(files, dict) else files:
            archive.writestr(name, data)
    return path
