"""safle: single-round analytic federated learning, imported name by name when it is used."""

import logging

import lazy_loader

# The logger "safle" is silent until a program gives it a handler.
logging.getLogger("safle").addHandler(logging.NullHandler())

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
