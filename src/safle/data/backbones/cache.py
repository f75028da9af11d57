"""Where downloaded weights and exported networks are kept between runs."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "SAFLE_CACHE"


def cache_folder(*parts: str) -> Path:
    """``$SAFLE_CACHE``, else ``$XDG_CACHE_HOME/safle``, else ``~/.cache/safle``; may not exist."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen, *parts)
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home, "safle", *parts)
