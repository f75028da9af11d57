"""Model: weights -> predictions.

A `Model` is an encoder and solved weights: it predicts, saves and loads itself (`load_model`), and
`safle.model.export` writes it for torch and ONNX. `safle.SafleClassifier` is the same for
scikit-learn, from features to predictions.
"""

from safle.model.model import Model, load_model

__all__ = ["Model", "load_model"]
