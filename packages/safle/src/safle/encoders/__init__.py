"""Encoders: the declared, fingerprinted functions features -> codes that clients share.

Examples
--------
>>> from safle import LinearEncoder, declared_range
>>> from safle.encoders import CodeSpace, Layout, as_class_names, is_digest
>>> space = LinearEncoder.calibrated(declared_range(0, 1, feature_dim=1)).space
>>> CodeSpace(space.fingerprint, Layout.from_json(space.layout.to_json())) == space
True
>>> is_digest(space.fingerprint), as_class_names(["well", "ill"])
(True, ('ill', 'well'))
"""

from typing import TYPE_CHECKING

from safle.basics.imports import define_public_names

if TYPE_CHECKING:
    from safle.encoders.base import Encoder as Encoder
    from safle.encoders.base import load_encoder as load_encoder
    from safle.encoders.codes import DENSE_LIMIT as DENSE_LIMIT
    from safle.encoders.codes import Codes as Codes
    from safle.encoders.codes import CodeSpace as CodeSpace
    from safle.encoders.codes import Layout as Layout
    from safle.encoders.embedding import Bucketing as Bucketing
    from safle.encoders.embedding import EmbeddingEncoder as EmbeddingEncoder
    from safle.encoders.linear import LinearEncoder as LinearEncoder
    from safle.encoders.matching import open_matching as open_matching
    from safle.encoders.random_features import RandomFeatureEncoder as RandomFeatureEncoder
    from safle.encoders.random_features import suits_by_class as suits_by_class
    from safle.encoders.registry import DEFAULT_KIND as DEFAULT_KIND
    from safle.encoders.registry import kinds as kinds
    from safle.encoders.registry import make_encoder as make_encoder
    from safle.encoders.table import TableEncoder as TableEncoder
    from safle.tables.checks import ClassName as ClassName
    from safle.tables.checks import as_class_names as as_class_names
    from safle.tables.checks import as_features as as_features
    from safle.tables.checks import check_source as check_source
    from safle.tables.checks import is_digest as is_digest

define_public_names(__name__)
