"""Images that could not be read: counted, listed in a report, and an error if they are many."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from safle._internal import atomic
from safle.errors import ImageError

DEFAULT_SHARE = 0.01


@dataclass
class Unreadables:
    """The unreadable images of one run.

    Attributes
    ----------
    report : the text file that lists them, one a line: name, tab, reason
    total : images of the whole source, readable or not
    most : share of them that may be unreadable
    found : name and reason, in the source's order
    """

    report: Path
    total: int
    most: float = DEFAULT_SHARE
    found: list[tuple[str, str]] = field(default_factory=list)

    @staticmethod
    def beside(output: Path, *, total: int, most: float = DEFAULT_SHARE) -> Unreadables:
        """Reported in ``<output>.unreadable.txt``."""
        return Unreadables(output.with_name(output.name + ".unreadable.txt"), total, most)

    def add(self, found: list[tuple[str, str]]) -> None:
        """Count some more; `ImageError` once there are certainly too many."""
        self.found += found
        # Not waiting for the end: a wrong folder should not cost an hour.
        if found and len(self.found) > self.most * self.total:
            self.write()
            name, reason = self.found[0]
            raise ImageError(
                f"{len(self.found):,} unreadable images so far, more than "
                f"{self.most:.3g} of {self.total:,} (--max-unreadable): {name}: {reason}; "
                f"all are in {self.report}"
            )

    def write(self) -> None:
        """Write the report; none, and no old one, if every image could be read."""
        if not self.found:
            self.report.unlink(missing_ok=True)
            return
        lines = [f"{_on_one_line(name)}\t{_on_one_line(reason)}\n" for name, reason in self.found]
        atomic.write_text(self.report, "".join(lines))


def _on_one_line(text: str) -> str:
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
