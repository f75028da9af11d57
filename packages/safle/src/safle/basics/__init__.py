"""Helpers for every room and package: atomic files, settings, texts, optional packages."""

from typing import TYPE_CHECKING

from safle.basics.imports import define_public_names

if TYPE_CHECKING:
    from safle.basics import atomic as atomic
    from safle.basics.imports import require_package as require_package
    from safle.basics.memory import most_memory as most_memory
    from safle.basics.memory import readable as readable
    from safle.basics.places import parse_toml as parse_toml
    from safle.basics.places import read_toml as read_toml
    from safle.basics.sealed import SealedFile as SealedFile
    from safle.basics.settings import Setting as Setting
    from safle.basics.settings import as_settings as as_settings
    from safle.basics.settings import describe as describe
    from safle.basics.settings import to_mapping as to_mapping
    from safle.basics.texts import name_some as name_some
    from safle.basics.texts import neutralise as neutralise
    from safle.basics.texts import printable as printable
    from safle.basics.texts import reason_of as reason_of
    from safle.basics.texts import split_names as split_names

define_public_names(__name__)
