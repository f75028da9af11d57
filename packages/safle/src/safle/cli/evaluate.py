"""``safle evaluate``, ``fit-temperature`` and ``card``: how good a model is."""

from __future__ import annotations

import json
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import rich_click as click

from safle.basics import atomic
from safle.basics.paths import naming
from safle.basics.texts import name_some
from safle.cli import options as opt
from safle.cli.count import least_cell, release, warn_of_repeats
from safle.cli.facts import privacy_facts, temperature_of
from safle.cli.readers import open_samples
from safle.cli.release import before_options, prepare_before
from safle.cli.session import Session, command
from safle.errors import DuplicateContribution, InvalidInput
from safle.evaluation.counts import Evaluation
from safle.evaluation.evaluating import fit_temperature as fit
from safle.evaluation.report import CLASS_TITLES, EvaluationReport
from safle.model.model import Model, load_model
from safle.server.card import write_card
from safle.server.store import Store
from safle.server.summing import read_total
from safle.site.counting import evaluate_table
from safle.site.disguises import Disguises
from safle.site.policy import Policy
from safle.statistics.statistics import digest_of_sum
from safle.tables.checks import ClassName
from safle.tables.table import Table
from safle.wire.container import peek_file_type
from safle.wire.formats import read

FILES = "A model and a labelled table; or counts that --counts wrote, of one or several sites."
COUNTS = "Write the counts of this table, for `safle sum`: no sample and no single score leaves."
POSITIVE = "Of two classes, the one whose sensitivity and specificity are shown."
PAGE = "Also write a page: figures, curves, reliability, confusion matrix."


@command(
    "safle evaluate model.safetensors test.npz --html evaluation.html",
    "safle evaluate model.safetensors ward.csv --counts hospital_a.eval",
    "safle evaluate hospital_a.eval hospital_b.eval --html evaluation.html",
)
@click.argument("files", nargs=-1, required=True, type=opt.PLACE, help=FILES)
@opt.written("--counts", COUNTS)
@opt.written("--json", "Also write all figures.")
@opt.written("--html", PAGE)
@opt.option("--positive", POSITIVE, "CLASS", show_default="the last")
@opt.backbone_option()
@opt.table_options()
@opt.policy_option
@before_options
def evaluate(
    session: Session, /, files: tuple[Path, ...], counts: Path | None, **options: Any
) -> None:
    """Evaluate a model on a labelled table, or show the counts of several sites.

    Use samples that were not counted for training: on counted ones the model does better, and the
    command cannot know. Shares and areas have intervals of 95 %. A class that the model has never
    seen counts as an error. With --counts, a site writes integers that add up over sites: the
    confusion matrix, and a histogram of the given probabilities per class.
    """
    privacy: dict[str, str] = {}
    if peek_file_type(files[0]) == "evaluation counts":
        if counts is not None:
            raise click.UsageError("--counts needs a model and a table; to add up, use 'safle sum'")
        sites = _read_sites(files)
        total = reduce(add, sites.values())
    elif len(files) == 2:
        # A policy applies only to what leaves.
        leaves = counts is not None
        policy = Policy.find(options["policy_path"]) if leaves else None
        before = prepare_before(options) if leaves else None
        model = load_model(files[0])
        cell = least_cell(policy, before)
        counted = _count(session, model, files[1], options, leaves=leaves, least_cell=cell)
        total = counted[0]
        sites = {}
        privacy = privacy_facts(model)
        if counts is not None:
            fingerprint = model.encoder.fingerprint
            release(session, counted, counts, policy, before, encoder=fingerprint)
    else:
        raise click.UsageError(f"{len(files)} files; expected a model and a table, or counts")
    several = sites if len(sites) > 1 else {}
    known: dict[str, ClassName] = {str(name): name for name in total.class_names}
    report = EvaluationReport(total, several, known.get(options["positive"], options["positive"]))
    if options["json"] is not None:
        figures = json.dumps(report.to_json() | privacy, indent=1)
        atomic.write_text(options["json"], figures + "\n")
    if options["html"] is not None:
        atomic.write_text(options["html"], report.to_html())
    title = " on ".join(path.name for path in files)
    _show(session, report, f"{len(sites)} sites together" if several else title, privacy)


def _count(
    session: Session,
    model: Model,
    path: Path,
    options: dict[str, Any],
    *,
    leaves: bool = False,
    least_cell: int = 0,
) -> tuple[Evaluation, Evaluation, Disguises | None]:
    """Counts of a model's answers on a labelled table; ``leaves`` if they will leave the site."""
    # Features that do not name their backbone may pass: evaluating adds nothing to a sum.
    table = open_samples(session, model.encoder, path, options)
    _check_classes(session, model, table, path)
    with session.progress(f"evaluating on {path.name}") as advance:
        counts = evaluate_table(model, table, where=path, least_cell=least_cell, progress=advance)
    total, rows, _ = counts
    if not total.sample_count:
        raise InvalidInput(f"{path}: has no samples; nothing can be evaluated")
    if leaves:
        warn_of_repeats(session, table, rows)
    return counts


def _check_classes(session: Session, model: Model, table: Table, path: Path) -> None:
    """Refuse a table without any class of the model; name the unknown classes."""
    labels = table.labels
    present = set() if labels is None else {*np.unique(labels).tolist()}
    unknown = present - {*model.class_names}
    if labels is None or not unknown:
        return
    found = f"{name_some(sorted(unknown))}; the model knows {name_some(model.class_names)}"
    if unknown == present:
        raise InvalidInput(
            f"{path}: has only classes that the model does not know: {found}: use the labels that "
            "were counted, by --label-column NAME or another table"
        )
    samples = int(np.isin(labels, [*unknown]).sum())
    session.warn(
        f"{path}: {samples:,} of {len(table):,} samples are of classes that the model does not "
        f"know, and count as errors: {found}"
    )


def _read_sites(files: tuple[Path, ...]) -> dict[str, Evaluation]:
    """Counts by their files' names; an error for those of another model, and for the same twice."""
    sites: dict[str, Evaluation] = {}
    for path in files:
        if str(path) in sites:
            raise click.UsageError(f"{path} is named twice")
        counts = read(path, Evaluation)
        with naming(path):
            for name, before in sites.items():
                before.check_same(counts)
                if counts.sample_count and counts == before:
                    raise DuplicateContribution(
                        f"the same counts are in {name} already; leave one out, or, if two "
                        "clients really hold the same data, add them up first: 'safle sum "
                        "--allow-duplicates'"
                    )
        sites[str(path)] = counts
    return sites


def _show(session: Session, report: EvaluationReport, title: str, privacy: dict[str, str]) -> None:
    session.facts(title, {"model": report.counts.model} | privacy | report.facts())
    for titles, *rows in report.site_tables():
        session.table(titles, rows)
    session.table(CLASS_TITLES, report.rows())
    session.text(report.confusion_lines())
    if report.hardly_found:
        session.warn(
            f"rare classes are hardly found: {name_some(report.hardly_found)}; if they matter as "
            "much as the others, solve the same sums with 'safle solve --priors uniform': more of "
            "their samples are found, and more of the frequent classes' are mistaken for them"
        )


@command(
    "safle evaluate model.safetensors held_out.csv --counts a.eval",
    "safle fit-temperature model.safetensors a.eval b.eval -o fitted.safetensors",
)
@opt.model_argument
@click.argument(
    "counts",
    nargs=-1,
    required=True,
    type=opt.FILE,
    help="Counts that `safle evaluate --counts` wrote, of one or several sites.",
)
@opt.output("The model to write.")
def fit_temperature(
    session: Session, /, model: Path, counts: tuple[Path, ...], output: Path
) -> None:
    """Give a model the temperature that suits its answers on samples outside its training.

    For models whose statistics give no temperature, such as those of noisy sums, or a poor one.
    Probabilities change; predicted classes do not.

    Evaluate samples that were not counted for training; otherwise the model becomes overconfident.
    Counts do not show which samples they are of, so the command cannot check this.
    """
    before = load_model(model)
    total = reduce(add, _read_sites(counts).values())
    fitted = fit(before, total)
    fitted.save(output)
    facts = {
        "probabilities": temperature_of(fitted),
        "before": temperature_of(before),
        "samples": f"{total.sample_count:,}",
        "digest": fitted.digest,
    }
    session.facts(f"{output}: model", facts)


SUM = "The store, or the file of a sum, that it was solved from."
MODE = "How contributions travelled: readable by the server, or as private sums."


@command("safle card model.safetensors --sum store --test test.csv -o model-card.md")
@opt.model_argument
@opt.option("--sum total", SUM, "STORE|FILE", type=opt.PLACE)
@opt.option("--mode", MODE, type=click.Choice(["plain", "masked"]))
@opt.file_option("--test", "Labelled features to measure it on.")
@opt.backbone_option()
@opt.table_options()
@opt.output("The Markdown file to write.")
def card(session: Session, /, model: Path, test: Path | None, output: Path, **options: Any) -> None:
    """Write a model card: sites, samples, head, privacy, figures, digests and limits.

    With --sum, the model must have been solved from exactly that: a store that has changed since is
    refused. The card is Markdown, for people to read and complete: add what the model is for, and
    who is responsible for it.
    """
    loaded = load_model(model)
    figures = {}
    data = _find_data(session, loaded, options["total"])
    if test is not None:
        counts, _, _ = _count(session, loaded, test, options)
        figures = {"measured on": test.name, **EvaluationReport(counts).facts()}
    text = write_card(loaded, **data, mode=options["mode"], figures=figures)
    atomic.write_text(output, text)
    session.text([f"{output}: a model card of {len(text.splitlines())} lines"])


def _find_data(session: Session, model: Model, total: Path | None) -> dict[str, Any]:
    """What a card says of its data; an error if the model was not solved from this sum."""
    if total is None:
        return {}
    with session.progress(f"reading {total}") as advance:
        statistics = read_total(total, model.encoder.space, advance)
    if digest_of_sum(statistics) != model.sum_digest:
        raise InvalidInput(
            f"{total}: the model was solved from another sum; name that one or, if clients have "
            "come to the store or left it since, solve again"
        )
    if total.is_dir():
        return {"sites": list(Store.open(total).members.values())}
    return {"samples": statistics.sample_count}
