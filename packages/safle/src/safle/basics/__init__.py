"""Small things that every room and house may use: files written whole, texts, optional packages."""

from safle.basics import atomic
from safle.basics.memory import readable
from safle.basics.optional import require
from safle.basics.texts import printable, reason_of

__all__ = ["atomic", "printable", "readable", "reason_of", "require"]
