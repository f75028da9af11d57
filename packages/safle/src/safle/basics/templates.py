"""Jinja2 templates: files beside the code that fills them in; a name without value is an error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jinja2


def templates_of(packages: Sequence[str], **settings: Any) -> jinja2.Environment:
    """The templates in the folders of some packages, looked up in this order."""
    loaders = [jinja2.PackageLoader(name) for name in packages]
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader(loaders),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        **settings,
    )


def render_page(packages: Sequence[str], template: str, **values: Any) -> str:
    """A page of HTML from a template of the ``packages``; ``values`` are escaped.

    >>> render_page(["safle.evaluation"], "page.css")[:5]
    ':root'
    """
    pages = templates_of(packages, autoescape=True, lstrip_blocks=True)
    return str(pages.get_template(template).render(**values))
