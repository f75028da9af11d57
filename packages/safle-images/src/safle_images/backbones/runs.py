"""A run over images that can be interrupted, and the report of images that it could not read."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypedDict

from safle.basics import atomic
from safle.basics.texts import printable
from safle.errors import ImageError
from safle_images.backbones.extraction import DEFAULT_BATCH, Batch, extract
from safle_images.backbones.journal import Journal
from safle_images.backbones.loading import Backbone
from safle_images.readers import ImageSource

DEFAULT_SHARE = 0.01


class Options(TypedDict, total=False):
    """How a run is done; the result does not depend on it.

    Attributes
    ----------
    batch : images that a worker takes at a time
    workers : threads
    max_unreadable : share of unreadable images above which it is an error
    advance : called with the number of images done
    note : called with remarks for the user
    """

    batch: int
    workers: int | None
    max_unreadable: float
    advance: Callable[[int], None]
    note: Callable[[str], None]


@dataclass
class Unreadables:
    """The unreadable images of one run.

    Attributes
    ----------
    report : the text file that lists them, one per line: name, tab, reason
    total : images of the whole source, readable or not
    most : share of them that may be unreadable
    found : name and reason, in the source's order

    Examples
    --------
    >>> few = Unreadables(Path("unreadable.txt"), total=100, most=0.01)
    >>> few.add([("a.png", "cut short")])
    >>> len(few.found)
    1
    """

    report: Path
    total: int
    most: float = DEFAULT_SHARE
    found: list[tuple[str, str]] = field(default_factory=list)

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
        lines = [f"{printable(name)}\t{printable(reason)}\n" for name, reason in self.found]
        atomic.write_text(self.report, "".join(lines))


class Run:
    """One pass over images, from where an earlier run with the same ``header`` stopped.

    The caller puts each of its `batches` into the `journal` before it takes the next.

    Attributes
    ----------
    journal : what is done
    unreadable : what could not be read
    done : images that are done, readable or not
    resumed : images that an earlier run had done
    """

    def __init__(
        self,
        images: ImageSource,
        backbone: Backbone,
        output: Path,
        header: dict[str, Any],
        *,
        batch: int = DEFAULT_BATCH,
        workers: int | None = None,
        max_unreadable: float = DEFAULT_SHARE,
        advance: Callable[[int], None] = lambda _: None,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._images, self._backbone = images, backbone
        self._batch, self._workers, self._advance = batch, workers, advance
        listing = {"listing": images.digest(), "images": len(images)}
        self.journal = Journal(output, {"source": backbone.source, **listing, **header})
        self.done = self.resumed = self.journal.images
        report = output.with_name(output.name + ".unreadable.txt")
        self.unreadable = Unreadables(report, len(images), max_unreadable)
        if self.journal.discarded:
            note("an unfinished run with other images or another backbone was begun again")
        elif self.resumed:
            note(f"resuming: {self.resumed:,} of {len(images):,} images are done")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.journal.__exit__()

    def batches(self) -> Iterator[Batch]:
        """The batches that are left; each counts as done when the next is asked for."""
        self.unreadable.add(self.journal.unreadable[:])
        self._advance(self.done)
        records = self._images.records(self.done)
        for part in extract(records, self._backbone, batch=self._batch, workers=self._workers):
            self.done += part.images
            yield part
            self.unreadable.add(part.unreadable)
            self._advance(self.done)

    def finish(self) -> None:
        """Write the report and delete the journal: the output is there."""
        self.unreadable.write()
        self.journal.remove()
