"""Pictures: the ridge curve, a confusion matrix, who holds which classes. PNG files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from safle.basics.atomic import replacing
from safle.basics.texts import printable
from safle.errors import InvalidInput, MissingExtra

if TYPE_CHECKING:
    from safle.solver import RidgeCurve

StrPath = str | os.PathLike[str]
DOTS_PER_INCH = 150
NAMES_SHOWN = 40
"""Beyond so many classes, names and numbers would be too small to read."""
NUMBERS_SHOWN = 25
ERROR_GAMMA = 0.45
INK, BLUE, ORANGE, GREY = "#222222", "#2b6cb0", "#dd6b20", "#8a8f98"


def require_matplotlib() -> None:
    """Raise `MissingExtra` now, not after hours of work, if pictures cannot be drawn.

    >>> require_matplotlib()
    """
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise MissingExtra("matplotlib", "safle[plots]", "drawing pictures") from error


def ridge_curve(curve: RidgeCurve, path: StrPath) -> None:
    """Criterion and degrees of freedom over the candidate ridges, the best one marked."""
    figure, axes = new_figure(7.0, 4.2)
    usable = np.isfinite(curve.scores)
    title = {"gcv": "generalised cross-validation", "evidence": "minus log evidence"}
    axes.plot(curve.ridges[usable], curve.scores[usable], color=BLUE, linewidth=2)
    axes.axvline(curve.best, color=ORANGE, linewidth=1.2, linestyle="--")
    axes.plot([curve.best], [np.min(curve.scores)], "o", color=ORANGE, markersize=7, zorder=3)
    axes.set_xscale("log")
    if curve.criterion == "gcv" and np.min(curve.scores) > 0:
        axes.set_yscale("log")
    axes.set_xlabel("ridge")
    axes.set_ylabel(f"{title[curve.criterion]} (lower is better)", color=BLUE)
    freedom = axes.twinx()
    freedom.plot(curve.ridges, curve.degrees_of_freedom, color=GREY, linewidth=1.2)
    freedom.set_ylabel("degrees of freedom", color=GREY)
    freedom.set_ylim(bottom=0)
    freedom.spines["top"].set_visible(False)
    axes.set_title(f"ridge {curve.best:.4g}, chosen from the statistics alone", color=INK)
    _save(figure, path)


def confusion(matrix: ArrayLike, names: Sequence[object], path: StrPath) -> None:
    """A confusion matrix; rows are true classes, columns predicted ones.

    Parameters
    ----------
    matrix : counts, (class_count, class_count)
    names : of the classes
    """
    require_matplotlib()
    from matplotlib.colors import PowerNorm
    from sklearn.metrics import ConfusionMatrixDisplay

    counts = np.asarray(matrix)
    size = len(names)
    if counts.shape != (size, size):
        raise InvalidInput(f"a confusion matrix of shape {counts.shape} for {size} classes")
    side = float(np.clip(2.6 + 0.42 * size, 4.2, 12.0))
    figure, axes = new_figure(side + 0.8, side)
    axes.grid(visible=False)
    labels = [shown(name) for name in names]
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    drawn = ConfusionMatrixDisplay(shares, display_labels=labels).plot(
        ax=axes,
        cmap="Blues",
        # Errors are rare: a linear scale would paint them all white.
        im_kw={"norm": PowerNorm(ERROR_GAMMA, vmin=0, vmax=1)},
        include_values=size <= NUMBERS_SHOWN,
        xticks_rotation=45 if max(map(len, labels)) > 3 else "horizontal",
        colorbar=False,
    )
    figure.colorbar(drawn.im_, ax=axes, label="share of the true class", fraction=0.046, pad=0.03)
    if size <= NUMBERS_SHOWN:
        for text, count in zip(drawn.text_.flat, counts.flat, strict=True):
            text.set_text(f"{count}" if count else "")
    if size > NAMES_SHOWN:
        axes.set(xticks=[], yticks=[])
    total = max(int(counts.sum()), 1)
    axes.set(xlabel="predicted class", ylabel="true class")
    axes.set_title(f"accuracy {np.trace(counts) / total:.2%} of {total:,} samples", color=INK)
    _save(figure, path)


def new_figure(width: float, height: float) -> tuple[Any, Any]:
    """A figure and its axes, in the style of all pictures here."""
    require_matplotlib()
    from matplotlib.figure import Figure

    # No pyplot: no window system, and no state shared with the caller's own figures.
    figure = Figure(figsize=(width, height), dpi=DOTS_PER_INCH, layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
    axes.grid(visible=True, color="#e5e7eb", linewidth=0.8)
    return figure, axes


def stack_bars(axes: Any, mix: Any, names: Sequence[object]) -> tuple[list[Any], list[str]]:
    """Bars of one class on top of those of the classes before it.

    Returns
    -------
    handles, labels : for a legend, which by itself would leave out names that begin with "_"
    """
    import matplotlib

    count = len(names)
    if count <= 20:
        colours = matplotlib.colormaps["tab10" if count <= 10 else "tab20"](range(count))
    else:
        colours = matplotlib.colormaps["turbo"](np.linspace(0.03, 0.97, count))
    bottom = np.zeros(len(mix))
    handles, labels = [], []
    for at, name in enumerate(names):
        holders = np.flatnonzero(mix[:, at])
        if len(holders):
            heights = mix[holders, at]
            bars = axes.bar(holders, heights, 0.9, bottom[holders], color=colours[at])
            handles.append(bars)
            labels.append(shown(name))
            bottom += mix[:, at]
    return handles, labels


def shown(name: object, longest: int = 18) -> str:
    r"""Somebody's name for something as a picture shows it: short, on one line, as it is.

    Matplotlib takes what is between two dollars for a formula and fails if it is none.

    >>> print(shown(r"$\frac{$"))
    \$\frac{\$
    """
    text = printable(name, "�")
    if len(text) > longest:
        # From the middle: long names tend to differ at their ends.
        half = longest // 2
        text = f"{text[:half]}…{text[1 - half :]}"
    return text.replace("$", r"\$")


def _save(figure: Any, path: StrPath) -> None:
    with replacing(path) as scratch:
        # The scratch file's suffix says nothing; the date would change equal pictures.
        figure.savefig(scratch, format="png", metadata={"Software": "safle"})
