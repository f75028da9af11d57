"""``safle evaluate`` and ``safle card``: how good a model is, for whoever relies on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from safle.cli import options as opt
from safle.cli.count import masking_options, policy_option, release
from safle.cli.session import Session

if TYPE_CHECKING:
    from safle.encoders.features import ClassName
    from safle.evaluation.counts import Evaluation
    from safle.evaluation.report import Report
    from safle.model import Model
    from safle.site.counting import Counts
    from safle.wire.contribution import Entry


FILES = "A model and a labelled table; or counts that --counts wrote, of one or several sites."
COUNTS = "Write the counts of this table, for `safle sum`: no sample, no score of its own leaves."
POSITIVE = "Of two classes, the one whose sensitivity and specificity are shown."


@opt.command(
    opt.FIRST,
    "safle evaluate model.safetensors test.npz --png confusion.png",
    "safle evaluate model.safetensors ward.csv --counts hospital_a.eval",
    "safle evaluate hospital_a.eval hospital_b.eval --html evaluation.html",
)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), help=FILES)
@opt.written("--counts", COUNTS, "evaluation counts", "masked contribution")
@opt.written("--png", "Also draw the confusion matrix.", ".png")
@opt.written("--json json_path", "Also write all figures.", ".json")
@opt.written(
    "--html", "Also write a page: figures, curves, reliability, confusion matrix.", ".html"
)
@opt.option("--positive", POSITIVE, "CLASS", show_default="the last")
@opt.table_options(labels=True)
@opt.batch_option
@policy_option
@masking_options
def evaluate(
    session: Session,
    /,
    files: tuple[Path, ...],
    counts: Path | None,
    png: Path | None,
    json_path: Path | None,
    html: Path | None,
    positive: str | None,
    policy_path: Path | None,
    **reading: Any,
) -> None:
    """Evaluate a model on a labelled table, or show what several sites have counted.

    The samples must not be among those that were counted: the model has seen those, and does
    better on them; the command cannot know. Every figure has an interval of 95 %. A class that
    the model has never seen counts as an error. With --counts, a site writes integers that add up
    over sites: the confusion matrix, and how many samples of each class were given which
    probability.
    """
    from safle.basics import atomic
    from safle.cli.describe import privacy_facts
    from safle.evaluation import pictures
    from safle.evaluation.report import Report
    from safle.model import load_model
    from safle.site.counting import Counts
    from safle.wire import peek_kind

    if png is not None:
        pictures.require_matplotlib()
    for path in (counts, png, json_path, html):
        opt.refuse_overwriting(path, *files, reading["labels"], policy_path)
    promised, encoder = dict[str, Any](), ""
    if peek_kind(files[0]) == "evaluation counts":
        if counts is not None:
            raise click.UsageError("--counts needs a model and a table; to add up, use 'safle sum'")
        sites = _read_sites(files)
        judged = total = sum([*sites.values()][1:], start=next(iter(sites.values())))
    elif len(files) == 2:
        model = load_model(files[0])
        total, judged = _count(session, model, files[1], reading)
        sites = {files[1].name: total}
        promised, encoder = privacy_facts(model), model.encoder.fingerprint
    else:
        raise click.UsageError(f"{len(files)} files; expected a model and a table, or counts")
    if counts is not None:
        release(session, Counts(total, judged), counts, policy_path, encoder=encoder)
    told_apart = sites if len(sites) > 1 else {}
    report = Report(total, told_apart, _class_named(total, positive))
    if png is not None:
        pictures.confusion(report.matrix, report.names, png)
    if json_path is not None:
        atomic.write_text(json_path, json.dumps(report.to_json() | promised, indent=1) + "\n")
    if html is not None:
        atomic.write_text(html, report.to_html())
    title = " on ".join(path.name for path in files) if not told_apart else ""
    _show(session, report, title, promised)


def _count(
    session: Session, model: Model, data: Path, options: dict[str, Any]
) -> Counts[Evaluation]:

    from safle.cli.reading import score

    with session.progress(f"evaluating on {data.name}") as advance:
        return score(model, data, options["batch"], advance, **opt.selected(options))


def _read_sites(files: tuple[Path, ...]) -> dict[str, Evaluation]:
    from safle.basics.places import naming
    from safle.evaluation.counts import read_evaluation

    sites: dict[str, Evaluation] = {}
    for path in files:
        counts = read_evaluation(path)
        if first := next(iter(sites.values()), None):
            with naming(path):
                counts.require(first.model, first.class_names)
        if str(path) in sites:
            raise click.UsageError(f"{path} is named twice")
        sites[str(path)] = counts
    return sites


def _class_named(counts: Evaluation, text: str | None) -> ClassName | None:
    from safle.errors import InvalidInput

    if text is None:
        return None
    for name in counts.class_names:
        if str(name) == text:
            return name
    known = ", ".join(map(str, counts.class_names[:20]))
    raise InvalidInput(f"--positive {text}; the model's classes are {known}")


def _show(session: Session, report: Report, title: str, promised: dict[str, Any]) -> None:
    from safle.evaluation.report import CLASS_TITLES

    together = f"{len(report.sites)} sites together"
    session.facts(title or together, {"model": report.counts.model} | promised | report.facts())
    for titles, *rows in report.site_tables():
        session.table(titles, rows)
    session.table(CLASS_TITLES, report.rows())
    session.text(report.confusion_lines())


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
    from safle.cli.reading import score
    from safle.evaluation.report import Report
    from safle.model import load_model
    from safle.server.card import write_card

    opt.refuse_overwriting(output, model, total, test, selection["labels"])
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


def _sites(session: Session, model: Model, store: Path | None, total: Path | None) -> list[Entry]:
    """Who contributed; an error if the model was not solved from that."""
    from safle.errors import InvalidInput
    from safle.server.store import Store
    from safle.solver.solution import digest_of_sum
    from safle.wire.contribution import Contribution

    if store is not None:
        with (
            Store.open(store) as opened,
            session.progress(f"summing {len(opened.members)} contributions") as advance,
        ):
            opened.check_origin(model, advance)
            return list(opened.members.values())
    if total is None:
        return []
    statistics, entry = Contribution.read(total).open(model.encoder.space)
    if digest_of_sum(statistics) != model.sum_digest:
        raise InvalidInput(f"{total}: the model was solved from another sum; name that one")
    return [entry]
