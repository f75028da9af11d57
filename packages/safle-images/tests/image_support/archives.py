"""Images, and folders and archives of them, written for tests."""

from __future__ import annotations

import io
import tarfile
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


def _pairs(files):
    return files.items() if isinstance(files, dict) else files


def write_zip(path, files):
    """``files``: what each is called, or a `zipfile.ZipInfo`, and its bytes; a name may repeat."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in _pairs(files):
            archive.writestr(name, data)
    return path


def write_tar(path, files):
    """``files``: what each is called, or a `tarfile.TarInfo`, and its bytes; a name may repeat."""
    mode = {".tar": "w", ".tgz": "w:gz", ".gz": "w:gz", ".bz2": "w:bz2", ".xz": "w:xz"}[path.suffix]
    with tarfile.open(path, mode) as archive:
        for name, data in _pairs(files):
            info = tarfile.TarInfo(name) if isinstance(name, str) else name
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path
