"""Templates -> HTML pages that need nothing else; whatever they are given is escaped."""

from typing import Any

from safle._internal.optional import require
from safle.lab.report.charts import draw


def render_page(template: str, **values: Any) -> str:
    """A page by one of the templates beside this module."""
    jinja2 = require("jinja2", "lab", "writing a report")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("safle.lab.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    return str(environment.get_template(template).render(draw=draw, **values))
