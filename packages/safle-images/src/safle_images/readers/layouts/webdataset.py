"""WebDataset: a ``.tar``, or a folder of them, whose files of one name are one sample.

``0001.jpg`` has its class in ``0001.cls``, in a key of ``0001.json``, or in ``0001.txt``. Hugging
Face ``datasets`` reads them, once each archive is checked as all archives are.
"""

from safle_images.readers.files import Files
from safle_images.readers.layouts.hub import LABELS, open_source

EXPECTED = ".tar files with images and .cls, .json or .txt of the same names"


def recognises(files: Files) -> bool:
    """Whether a tar has labels beside its images, or a folder has tars and no images."""
    if files.kind == "folder":
        tars = [m for m in files.members if m.base.endswith((".tar", ".tar.gz", ".tgz"))]
        return bool(tars) and not files.images
    stems = {image.name.partition(".")[0] for image in files.images}
    return files.kind == "tar" and any(
        member.base.endswith(LABELS) and member.name.partition(".")[0] in stems
        for member in files.members
    )


__all__ = ["EXPECTED", "open_source", "recognises"]
