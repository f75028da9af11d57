"""Jinja2 templates: files beside the code that fills them in; a name without value is an error."""

from __future__ import annotations

from typing import Any

import jinja2

SHARED = "safle.evaluation"
"""The room whose templates every page may include: tables, figures, the style."""


def templates_of(package: str, **settings: Any) -> jinja2.Environment:
    """The templates in a package's own folder, and those that all pages share."""
    loaders = [jinja2.PackageLoader(name) for name in (package, SHARED)]
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader(loaders),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        **settings,
    )


def render_page(package: str, template: str, **values: Any) -> str:
    """A page of HTML from a template of ``package``; ``values`` are escaped.

    >>> render_page("safle.evaluation", "page.css")[:5]
    ':root'
    """
    pages = templates_of(package, autoescape=True, lstrip_blocks=True)
    return str(pages.get_template(template).render(**values))
