"""``safle card``: a page about a model, for whoever is to rely on it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from safle.cli import options as opt
from safle.cli.session import Session

if TYPE_CHECKING:
    from safle.model import Model
    from safle.server.contribution import Entry

EXAMPLE = "safle card model.safetensors --store store --test test.csv -o model-card.md"
MODE = "How contributions travelled: readable by the server, or as private sums."


@opt.command("With a model", EXAMPLE)
@opt.model_argument
@opt.option("--store", "The store that it was solved from.", "STORE", type=opt.FOLDER)
@opt.option(
    "--sum total", "The sum that it was solved from, if not a store.", "FILE", type=opt.FILE
)
@opt.option("--mode", MODE, type=click.Choice(["plain", "masked"]))
@opt.option("--test", "Labelled features to measure it on.", "FILE", type=opt.FILE)
@opt.table_options(labels=True)
@opt.batch_option
@opt.output("The Markdown file to write.", ".md")
def card(
    session: Session,
    /,
    model: Path,
    store: Path | None,
    total: Path | None,
    mode: Any,
    test: Path | None,
    batch: int,
    output: Path,
    **selection: Any,
) -> None:
    """Write a model card: sites, samples, head, privacy, figures, digests and limits.

    With --store or --sum, the model must have been solved from exactly that: a store that has
    changed since is refused. It is Markdown, to be read and completed by people: what the model
    is for, and who answers for it, is yours to add.
    """
    from safle.basics import atomic
    from safle.cli.scores import score
    from safle.evaluation.report import Report
    from safle.model import load_model
    from safle.server.card import write_card

    opt.refuse_overwriting(output, model, total, test, selection["labels"])
    session.announce_compilation()
    loaded, figures = load_model(model), {}
    sites = _sites(session, loaded, store, total)
    if test is not None:
        with session.progress(f"evaluating on {test.name}") as advance:
            counts = score(loaded, test, batch, advance, **selection)
        figures = Report(counts.total).facts()
        figures = {"measured on": test.name, **figures}
    text = write_card(loaded, sites=sites, mode=mode, figures=figures)
    atomic.write_text(output, text)
    session.text([f"{output}: a model card of {len(text.splitlines())} lines"])


def _sites(
    session: Session, model: "Model", store: Path | None, total: Path | None
) -> "list[Entry]":
    """Who contributed; an error if the model was not solved from that."""
    from safle.errors import InvalidInput
    from safle.server.contribution import Contribution
    from safle.server.store import Store
    from safle.solver.solution import digest_of_sum

    if store is not None:
        with (
            Store.open(store) as opened,
            session.progress(f"summing {len(opened.members)} contributions") as advance,
        ):
            opened.check_origin(model, advance)
            return list(opened.members.values())
    if total is None:
        return []
    statistics, entry = Contribution.read(total).open(model.encoder)
    if digest_of_sum(statistics) != model.sum_digest:
        raise InvalidInput(f"{total}: the model was solved from another sum; name that one")
    return [entry]
