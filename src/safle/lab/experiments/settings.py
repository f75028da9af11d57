"""Settings of experiments: defaults, and TOML files with what differs from them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from safle.errors import MissingExtra, SettingsError
from safle.lab.declared import with_given
from safle.lab.experiments.plan import Federation, Tuning
from safle.lab.experiments.suite import Settings


def load_settings(path: Path | None, *, small: bool) -> Settings:
    """Defaults of features files, or of digits (``small``), with the file's in their place."""
    settings = Settings()
    if small:
        # The methods' own settings are the start here, not the protocol of features files.
        bare = Settings(Federation(seeds_of={}), Tuning(grids={}), methods={})
        text = resources.files(__package__).joinpath("digits.toml").read_text("utf-8")
        settings = with_given(bare, tomllib.loads(text), "digits.toml: ")
    if path is None:
        return settings
    try:
        given = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: not valid TOML: {error}") from error
    return with_given(settings, given, f"{path}: ")


def to_toml(values: Mapping[str, Any]) -> str:
    """Settings as TOML."""
    try:
        import tomli_w
    except ImportError as error:
        raise MissingExtra("tomli-w", "lab", "writing settings") from error
    return tomli_w.dumps(values)
