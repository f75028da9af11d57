"""Release: what leaves a site, and what its receiver can do with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from safle.site.disguises import Disguises
from safle.statistics.cells import Cells
from safle.statistics.summable import Summable
from safle.tables.checks import ClassName


@dataclass(frozen=True)
class Release:
    """What would leave a site: its sizes, and who could read it.

    Attributes
    ----------
    what : type of the file
    samples, class_counts : in the file
    columns : of statistics; a histogram's features; the classes of evaluation counts
    encoder : fingerprint of the encoder, or of the evaluated model's; empty for a histogram
    holds : what the file holds, in words
    gives_away : of a plain file, what its holder can do, in a sentence; empty under masks
    warns : whether that is a reason to warn
    cells : the counts that a plain file holds; None under masks
    rank : independent columns of plain statistics; 0 for all else
    disguises : what a policy judges beside the cells; None where that was not searched
    model : digest of the evaluated model; empty for all else
    not_accepted : what this site has not accepted before: "encoder", "model"
    masked : whether only a sum with others can be read
    keyholders : those who must all help to open a masked sum: fingerprints of keys, by name
    least_clients, most_samples : fewest clients, and most samples, of a masked sum that is opened
    epsilon : of what is published; infinite where sums are exact
    distinct_rows : the same with each different row counted once, whose numbers a policy judges;
        None if no row repeats another
    """

    what: str
    samples: int
    columns: int
    class_counts: Mapping[ClassName, int] = field(default_factory=dict)
    encoder: str = ""
    holds: str = ""
    gives_away: str = ""
    masked: bool = False
    keyholders: Mapping[str, str] = field(default_factory=dict)
    least_clients: int = 1
    epsilon: float = math.inf
    distinct_rows: Release | None = None
    warns: bool = False
    cells: Cells | None = None
    rank: int = 0
    disguises: Disguises | None = None
    model: str = ""
    not_accepted: tuple[str, ...] = ()
    most_samples: int = 0

    @property
    def mode(self) -> str:
        return "masked" if self.masked else "plain"

    @staticmethod
    def of(
        counted: Summable,
        encoder: str = "",
        distinct_rows: Summable | None = None,
        disguises: Disguises | None = None,
        *,
        attacked: bool = True,
    ) -> Release:
        """A plain release of ``counted``; evaluation counts do not hold their ``encoder``.

        ``distinct_rows`` are the same counts with each different row counted once, if they differ,
        and ``disguises`` what their samples show beside these counts. What will leave under masks
        need not be ``attacked``, which can take seconds.
        """
        if distinct_rows is not None and distinct_rows is not counted:
            rows = Release.of(distinct_rows, encoder, disguises=disguises, attacked=attacked)
            return replace(
                rows,
                samples=counted.sample_count,
                class_counts=counted.samples_by_class(),
                distinct_rows=rows,
            )
        made_with = {"encoder": encoder, **counted.made_with}
        release = Release(
            counted.format,
            counted.sample_count,
            counted.columns,
            counted.samples_by_class(),
            made_with["encoder"],
            holds=counted.holds(),
            disguises=disguises,
            model=made_with.get("model", ""),
        )
        exposure = counted.exposure() if attacked else None
        if exposure is None:
            return release
        return replace(
            release,
            gives_away=exposure.summary,
            warns=exposure.warns,
            cells=exposure.cells,
            rank=exposure.rank,
        )


Before = Callable[[Summable, Release], tuple[bytes, Release, str]]
"""What another house does to a value before it leaves (see `safle.cli.release`).

It gets the value and what would leave in plain. It returns the bytes that leave, what the policy
judges and the sheet says of them, and a note for the user.
"""
