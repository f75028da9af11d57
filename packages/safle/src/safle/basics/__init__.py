"""Small things that every room and house may use: files written whole, texts, optional packages."""

from typing import TYPE_CHECKING

from safle.basics.doors import front_door

if TYPE_CHECKING:
    from safle.basics import atomic
    from safle.basics.doors import require
    from safle.basics.memory import readable
    from safle.basics.places import parse_toml, read_toml
    from safle.basics.sealed import SealedFile
    from safle.basics.settings import Setting, as_settings, describe, to_mapping
    from safle.basics.texts import neutralise, printable, reason_of, split_names

__all__ = [
    "SealedFile",
    "Setting",
    "as_settings",
    "atomic",
    "describe",
    "neutralise",
    "parse_toml",
    "printable",
    "read_toml",
    "readable",
    "reason_of",
    "require",
    "split_names",
    "to_mapping",
]

__getattr__ = front_door(__name__)
