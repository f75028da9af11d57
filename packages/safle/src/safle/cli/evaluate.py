"""``safle evaluate``: how good a model's answers are, at one site or over all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from safle.cli import options as opt
from safle.cli.releasing import masking_options, policy_option, release
from safle.cli.session import Session

if TYPE_CHECKING:
    from safle.encoders.features import ClassName
    from safle.evaluation.report import Report
    from safle.model import Model
    from safle.site.counting import Counts
    from safle.statistics.evaluation import Evaluation

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
@opt.weight_option
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
    from safle.cli.scores import score

    session.announce_compilation()
    with session.progress(f"evaluating on {data.name}") as advance:
        return score(model, data, options["batch"], advance, **opt.selected(options))


def _read_sites(files: tuple[Path, ...]) -> dict[str, Evaluation]:
    from safle.basics.places import naming
    from safle.wire import read_evaluation

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
