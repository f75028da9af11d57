"""Model: weights -> predictions.

A `Model` is an encoder and solved weights: it predicts, saves and loads itself (`load_model`), and
`safle.model.export` writes it as an ONNX graph. `safle.SafleClassifier` is the same for
scikit-learn, from features to predictions.
"""

from typing import TYPE_CHECKING

from safle.basics.imports import define_public_names

if TYPE_CHECKING:
    from safle.model.model import Model as Model
    from safle.model.model import load_model as load_model

define_public_names(__name__)
