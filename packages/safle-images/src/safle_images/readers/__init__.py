"""Images: folders, archives and data sets as distributed -> encoded files and labels -> pixels.

What a client with photographs starts from. A source is listed once and then streamed: an
image is in memory while it is used, and nothing is ever unpacked to disk or unpickled.
"""

from safle_images.readers.decoding import MOST_PIXELS, decode
from safle_images.readers.opening import open_images
from safle_images.readers.sources import ImageSource, Label, Record, Unreadable

__all__ = ["MOST_PIXELS", "ImageSource", "Label", "Record", "Unreadable", "decode", "open_images"]
