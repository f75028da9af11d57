"""Data: tables and images -> features. Where a client's way begins; feeds the encoders.

`open_table` opens a file of features, `open_images` a set of images, `load_backbone` the
network that makes features of images, and `extract` runs it.
"""

from safle.data.backbones import extract, load_backbone
from safle.data.images import open_images
from safle.data.tables import open_table

__all__ = ["extract", "load_backbone", "open_images", "open_table"]
