"""Encoders: the declared, fingerprinted functions features -> codes that clients share."""

from typing import TYPE_CHECKING

from safle.basics.doors import front_door

if TYPE_CHECKING:
    from safle.encoders.base import Encoder, load_encoder
    from safle.encoders.codes import Codes
    from safle.encoders.embedding import Bucketing, EmbeddingEncoder
    from safle.encoders.features import as_features, check_source
    from safle.encoders.linear import LinearEncoder
    from safle.encoders.random_features import RandomFeatureEncoder, suits_by_class
    from safle.encoders.registry import DEFAULT_KIND, kinds, make_encoder
    from safle.encoders.table import TableEncoder

__all__ = [
    "DEFAULT_KIND",
    "Bucketing",
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
    "suits_by_class",
]

__getattr__ = front_door(__name__)
