"""Model: weights -> predictions."""

from safle.model.model import Model, load_model

__all__ = ["Model", "load_model"]
