"""Encoders: the declared, fingerprinted functions features -> codes that clients share."""

from safle.encoders.base import Encoder, load_encoder
from safle.encoders.embedding import EmbeddingEncoder
from safle.encoders.hybrid import HybridEncoder
from safle.encoders.linear import LinearEncoder
from safle.encoders.random_features import RandomFeatureEncoder

__all__ = [
    "EmbeddingEncoder",
    "Encoder",
    "HybridEncoder",
    "LinearEncoder",
    "RandomFeatureEncoder",
    "load_encoder",
]
