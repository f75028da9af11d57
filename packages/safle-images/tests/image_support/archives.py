"""Images, and folders, zips and Parquet files of them, written for tests."""

from __future__ import annotations

import io
import json
import zipfile

import numpy as np
import pytest

from safle.errors import ImageError
from safle_images.readers import open_images


def refuses(path, match, **options):
    """Reading ``path`` fails, and the message names it."""
    with pytest.raises(ImageError, match=match) as caught:
        list(open_images(path, **options).records())
    assert str(path.parent) in str(caught.value)


def to_bytes(image, kind="PNG", **options):
    """An image of Pillow's as a file."""
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def encoded(kind="PNG", size=(8, 8), seed=0):
    """An image of noise, as a file."""
    from PIL import Image

    pixels = np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)
    return to_bytes(Image.fromarray(pixels), kind)


def write_parquet(path, columns, features=None, **options):
    """A table; ``features`` is the metadata by which Hugging Face describes its columns."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pa.table(columns)
    if features is not None:
        metadata = {"huggingface": json.dumps({"info": {"features": features}})}
        table = table.replace_schema_metadata(metadata)
    pq.write_table(table, path, **options)
    return path


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
