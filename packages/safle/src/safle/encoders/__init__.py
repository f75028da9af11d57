"""Encoders: the declared, fingerprinted functions features -> codes that clients share."""

from typing import TYPE_CHECKING

from safle.basics.imports import define_public_names

if TYPE_CHECKING:
    from safle.encoders.base import Encoder as Encoder
    from safle.encoders.base import load_encoder as load_encoder
    from safle.encoders.codes import Codes as Codes
    from safle.encoders.embedding import Bucketing as Bucketing
    from safle.encoders.embedding import EmbeddingEncoder as EmbeddingEncoder
    from safle.encoders.features import as_features as as_features
    from safle.encoders.features import check_source as check_source
    from safle.encoders.linear import LinearEncoder as LinearEncoder
    from safle.encoders.random_features import RandomFeatureEncoder as RandomFeatureEncoder
    from safle.encoders.random_features import suits_by_class as suits_by_class
    from safle.encoders.registry import DEFAULT_KIND as DEFAULT_KIND
    from safle.encoders.registry import kinds as kinds
    from safle.encoders.registry import make_encoder as make_encoder
    from safle.encoders.table import TableEncoder as TableEncoder

define_public_names(__name__)
