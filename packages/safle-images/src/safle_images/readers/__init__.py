"""Images: folders, archives and data sets as distributed -> encoded files and labels -> pixels.

What a client with photographs starts from. A source is listed once and then streamed: an
image is in memory while it is used, and nothing is ever unpacked to disk or unpickled.
Decoding needs Pillow, Parquet files and data sets by name need Hugging Face datasets (both in
the extra ``images``).
"""

from safle_images.readers.decoding import MOST_PIXELS, decode
from safle_images.readers.opening import open_images
from safle_images.readers.sources import ImageSource, Label, Record, Unreadable

__all__ = ["MOST_PIXELS", "ImageSource", "Label", "Record", "Unreadable", "decode", "open_images"]
