"""The commands that safle-images adds to the command line, and options that others share."""

from safle_images.cli.options import BACKBONE, LABEL_COLUMN, running

__all__ = ["BACKBONE", "LABEL_COLUMN", "running"]
