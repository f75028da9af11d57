r"""Tables as LaTeX, for a paper: booktabs, nothing but text and rules.

A file has every table of an experiment; ``\input`` it after ``\usepackage{booktabs}``.
"""

import re
from collections.abc import Sequence

from safle.evaluation import Cell, Table

SPECIAL = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "−": "$-$",
    "α": r"$\alpha$",
    "ρ": r"$\rho$",
}


def escape(text: str) -> str:
    r"""Text that LaTeX prints as it is.

    Examples
    --------
    >>> print(escape("70.2 ± 0.1 %"))
    70.2 $\pm$ 0.1 \%
    """
    return re.sub("[" + re.escape("".join(SPECIAL)) + "]", lambda found: SPECIAL[found[0]], text)


def to_latex(table: Table) -> str:
    """One table, with its caption and small print in brackets."""
    alignment = "l" + "r" * (len(table.columns) - 1)
    body = [_line([Cell(name) for name in table.columns]), *map(_line, table.rows)]
    lines = [r"\toprule", body[0], r"\midrule", *body[1:], r"\bottomrule"]
    return "\n".join(
        [
            r"\begin{table}",
            rf"\caption{{{escape(table.caption)}}}",
            rf"\begin{{tabular}}{{{alignment}}}",
            *lines,
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _line(cells: Sequence[Cell]) -> str:
    return " & ".join(map(_cell, cells)) + r" \\"


def _cell(cell: Cell) -> str:
    text = rf"\textbf{{{escape(cell.text)}}}" if cell.strong else escape(cell.text)
    return f"{text} ({escape(cell.remark)})" if cell.remark else text
