"""Sections -> one HTML page that needs nothing else: no script, no font, no network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from typing import Any

from safle.lab.experiments.settings import to_toml
from safle.lab.report.blocks import Cell, Chart, Mix, Section, Table
from safle.lab.report.charts import draw


def page(title: str, sections: Sequence[Section], data: Mapping[str, Any], versions: str) -> str:
    """The whole page."""
    style = resources.files(__package__).joinpath("page.css").read_text("utf-8")
    links = "".join(
        f'<li><a href="#{section.name}">{escape(section.title)}</a></li>' for section in sections
    )
    facts = (
        f"{data['train_samples']:,} training and {data['test_samples']:,} test samples, "
        f"{data['features']:,} features, {len(data['classes'])} classes"
    )
    content = "\n".join(_section(section) for section in sections)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light">
<link rel="icon" href="data:,">
<title>{escape(title)}</title>
<style>
{style}</style>
</head>
<body>
<header>
<h1>{escape(title)}</h1>
<p>{escape(str(data["source"]))}: {escape(facts)}.</p>
<nav><ol>{links}</ol></nav>
</header>
<main>
{content}
</main>
<footer>
<p>Settings were chosen on a part of the training samples; the test set was looked at once, for the
figures here. Data <code>{escape(str(data["fingerprint"])[:16])}</code> · {escape(versions)}</p>
</footer>
</body>
</html>
"""


def _section(section: Section) -> str:
    blocks = "\n".join(_block(block) for block in section.blocks)
    remarks = "".join(f"<p>{escape(remark)}</p>" for remark in section.remarks)
    differs = f"<aside><h3>What differs, and why</h3>{remarks}</aside>" if remarks else ""
    return f"""<section id="{section.name}">
<h2>{escape(section.title)}</h2>
<p class="question">{escape(section.question)}</p>
{blocks}
{differs}
<details><summary>Settings</summary><pre>{escape(to_toml(section.settings).strip())}</pre></details>
</section>"""


def _block(block: Table | Chart | Mix) -> str:
    if isinstance(block, Table):
        return _table(block)
    return (
        f'<figure id="figure-{block.name}">{draw(block)}'
        f"<figcaption>{escape(block.caption)}</figcaption></figure>"
    )


def _table(table: Table) -> str:
    head = "".join(
        f'<th scope="col"{_kind(at, table)}>{escape(name)}</th>'
        for at, name in enumerate(table.columns)
    )
    body = "".join(
        "<tr>" + "".join(_cell(cell, at, table) for at, cell in enumerate(row)) + "</tr>\n"
        for row in table.rows
    )
    return (
        f'<div class="scroll" tabindex="0"><table><caption>{escape(table.caption)}</caption>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>"
    )


def _cell(cell: str | Cell, at: int, table: Table) -> str:
    tag = "th" if at < table.names else "td"
    scope = ' scope="row"' if tag == "th" else ""
    if isinstance(cell, str):
        return f"<{tag}{scope}{_kind(at, table)}>{escape(cell)}</{tag}>"
    text = f"<b>{escape(cell.text)}</b>" if cell.strong else escape(cell.text)
    remark = f"<small>{escape(cell.remark)}</small>" if cell.remark else ""
    return f"<{tag}{scope}{_kind(at, table)}>{text}{remark}</{tag}>"


def _kind(at: int, table: Table) -> str:
    return ' class="name"' if at < table.names else ""
