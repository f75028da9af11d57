"""``safle card``: a page about a model, for whoever is to rely on it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from safle.cli import options as opt
from safle.cli.session import Session

if TYPE_CHECKING:
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

    It is Markdown, to be read and completed by people: what the model is for, and who answers
    for it, is yours to add.
    """
    from safle.basics import atomic
    from safle.cli.scores import score
    from safle.evaluation.report import Report
    from safle.model import load_model
    from safle.server.card import write_card

    opt.refuse_overwriting(output, model, total, test, selection["labels"])
    loaded, figures = load_model(model), {}
    if test is not None:
        session.announce_compilation()
        with session.progress(f"evaluating on {test.name}") as advance:
            counts = score(loaded, test, batch, advance, **selection)
        figures = Report(counts.total).facts()
        figures = {"measured on": test.name, **figures}
    text = write_card(loaded, sites=_sites(store, total), mode=mode, figures=figures)
    atomic.write_text(output, text)
    session.text([f"{output}: a model card of {len(text.splitlines())} lines"])


def _sites(store: Path | None, total: Path | None) -> "list[Entry]":
    from safle.server.contribution import Contribution
    from safle.server.manifest import read_manifest
    from safle.server.store import Store

    if store is not None:
        with Store.open(store) as opened:
            return list(opened.members.values())
    if total is None:
        return []
    _, entry = Contribution.read(total).open()
    manifest = read_manifest(total, entry)
    return [entry] if manifest is None else list(manifest.contributions)
