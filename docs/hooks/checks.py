"""What must hold for every page of the built site."""

from __future__ import annotations

import re
from typing import Any

from mkdocs.exceptions import PluginError

# Links may lead anywhere; what a browser loads by itself must come from the site.
LOADED = re.compile(
    r"""<(?:script|img|iframe|link(?=[^>]*rel="?(?:stylesheet|preconnect|icon)))[^>]*"""
    r"""(?:src|href)=["']?((?:https?:)?//[^"'\s>]+)""",
    re.IGNORECASE,
)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Refuse a page that would ask another host for something."""
    del config
    if found := LOADED.findall(output):
        raise PluginError(f"{page.file.src_path} loads {found[0]}; keep a copy in docs/ instead")
    return output
