"""Encoders: the declared, fingerprinted functions features -> codes that clients share."""

from typing import TYPE_CHECKING

from safle.basics.doors import front_door

if TYPE_CHECKING:
    from safle.encoders.base import Encoder
    from safle.encoders.codes import Codes
    from safle.encoders.embedding import EmbeddingEncoder
    from safle.encoders.encoder_file import load_encoder
    from safle.encoders.features import as_features
    from safle.encoders.linear import LinearEncoder
    from safle.encoders.random_features import RandomFeatureEncoder, suits_by_class
    from safle.encoders.registry import DEFAULT_KIND, kinds, make_encoder, read_settings
    from safle.encoders.source import check_source
    from safle.encoders.table import TableEncoder

__all__ = [
    "DEFAULT_KIND",
    "Codes",
    "EmbeddingEncoder",
    "Encoder",
    "LinearEncoder",
    "RandomFeatureEncoder",
    "TableEncoder",
    "as_features",
    "check_source",
    "kinds",
    "load_encoder",
    "make_encoder",
    "read_settings",
    "suits_by_class",
]

__getattr__ = front_door(__name__)
