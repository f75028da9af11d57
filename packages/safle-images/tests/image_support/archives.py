"""Folders and archives of images, written for tests."""

from __future__ import annotations

import io
import tarfile
import zipfile


def write_folder(root, files):
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def write_zip(path, files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def write_tar(path, files):
    mode = {".tar": "w", ".tgz": "w:gz", ".gz": "w:gz", ".bz2": "w:bz2", ".xz": "w:xz"}[path.suffix]
    with tarfile.open(path, mode) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path
