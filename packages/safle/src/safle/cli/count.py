"""At a client: ``safle rehearse``, ``safle count`` and ``safle log``, and how any file leaves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from safle.cli import options as opt
from safle.cli.private_round import load_round, round_options
from safle.cli.session import Session

if TYPE_CHECKING:
    from safle.encoders import Encoder
    from safle.site.counting import Counts
    from safle.site.policy import Policy
    from safle.site.rehearsal import Worth
    from safle.site.release import Counted, Release
    from safle.statistics import Statistics

policy_option = opt.option(
    "--policy policy_path",
    "What this site lets out: see docs/release.md. Refuses what breaks a rule.",
    "FILE",
    type=opt.FILE,
    show_default="$SAFLE_POLICY, or all",
)


def _remember(context: click.Context, parameter: click.Parameter, path: Path | None) -> None:
    session = context.find_object(Session)
    if path is not None and session is not None and parameter.name is not None:
        session.masking[parameter.name] = path


masking_options = round_options(callback=_remember, expose_value=False, panel="Under masks")
"""--round, --operator and --key: all of them, or none; kept in the session for `release`."""


def release(
    session: Session, counts: Counts[Any], output: Path, policy: Path | None, *, encoder: str = ""
) -> bytes:
    """Write what was counted, masked if a round is named, with its release sheets.

    `PolicyRefused` if the policy does not let it out. ``encoder`` is the fingerprint of an
    evaluated model's.
    """
    from safle.site.files import kind_for
    from safle.site.policy import Policy, warning_of
    from safle.site.release import Release
    from safle.site.sheet import write_release

    found, rules = Release.of(counts.once, encoder), Policy.find(policy)
    if session.masking:
        return _release_masked(session, counts.total, output, rules, found)
    data = kind_for(counts.total).encode(counts.total)
    write_release(output, data, found, rules)
    if warning := warning_of(found, rules):
        session.warn(warning)
    return data


def _release_masked(
    session: Session, counted: Counted, output: Path, policy: Policy | None, plain: Release
) -> bytes:
    from safle.private import PrivateKey, mask
    from safle.site.sheet import write_release

    paths = session.masking
    if set(paths) != {"round_path", "operator_path", "key_path"}:
        raise click.UsageError("--round, --operator and --key belong together")
    opt.refuse_overwriting(output, *paths.values())
    private_round = load_round(paths["round_path"], paths["operator_path"])
    data = mask(private_round, PrivateKey.load(paths["key_path"]), counted).to_bytes()
    masked = plain.under_masks(private_round)
    write_release(output, data, masked, policy)
    session.note(
        "masked: only the sum with others can be opened, of at least "
        f"{private_round.fewest} clients, if all of {', '.join(private_round.keyholders)} answer"
    )
    return data


def release_statistics(
    session: Session, counts: Counts[Statistics], output: Path, policy: Path | None
) -> tuple[str, dict[str, object]]:
    """Write a statistics file if the policy lets it out; its title, and what it holds."""
    from safle.cli.describe import statistics_facts
    from safle.wire import container

    data = release(session, counts, output, policy)
    digest = container.declared_digest(data)
    kind = "masked contribution" if session.masking else "statistics"
    return f"{output}: {kind}", statistics_facts(counts.total, size=len(data), digest=digest)


CLASSES = "The only labels there may be; anything else is refused."
EMPTY = "Write a file that counts no samples; it changes nothing in a sum."


@opt.command(
    opt.FIRST,
    "safle count hospital_a.csv --encoder encoder.safetensors -o a.stats",
    "safle count x.npy --labels y.npy --encoder encoder.safetensors -o b.stats",
)
@opt.features_argument
@opt.encoder_file()
@opt.table_options(labels=True)
@opt.option("--classes", CLASSES, "A,B,C", show_default="all")
@opt.option("--allow-empty", EMPTY, is_flag=True)
@opt.batch_option
@opt.outside_option
@opt.trust_option
@policy_option
@masking_options
@opt.output(
    "The statistics file to write; send it to the server.", "statistics", "masked contribution"
)
def count(
    session: Session,
    /,
    features: Path,
    encoder_path: Path,
    policy_path: Path | None,
    output: Path,
    **options: Any,
) -> None:
    """Count a client's samples and labels into one statistics file.

    The file holds exact counts of codes, pairs of codes and classes, not samples. It is
    the only thing that leaves the client.
    """
    from safle.encoders import load_encoder
    from safle.errors import InvalidInput

    opt.refuse_overwriting(output, features, encoder_path, options["labels"], policy_path)
    encoder = load_encoder(encoder_path)
    counts = _count(session, features, encoder, options)
    if not counts.total.sample_count and not options["allow_empty"]:
        raise InvalidInput(
            f"{features}: has no samples, so there is nothing to send; is it the right file? If it "
            "is, say --allow-empty"
        )
    title, facts = release_statistics(session, counts, output, policy_path)
    session.facts(title, facts)


def _count(
    session: Session, path: Path, encoder: Encoder, options: dict[str, Any]
) -> Counts[Statistics]:
    from safle.cli.reading import advancing, declared_classes, open_matching
    from safle.site.counting import count_blocks

    table = open_matching(encoder, path, trusted=options["trust_features"], **opt.selected(options))
    classes = declared_classes(options["classes"], table)
    with session.progress(f"counting {path.name}") as advance:
        blocks = advancing(table, options["batch"], advance)
        return count_blocks(
            encoder,
            blocks,
            table.weights,
            where=path,
            classes=classes,
            allow_outside=options["allow_outside"],
        )


LEAST_FIT = 0.5


@opt.command(opt.FIRST, "safle rehearse hospital_a.csv --encoder encoder.safetensors")
@opt.features_argument
@opt.encoder_file()
@opt.table_options(labels=True)
@opt.outside_option
@opt.trust_option
def rehearse(
    session: Session,
    /,
    features: Path,
    encoder_path: Path,
    allow_outside: bool,
    trust_features: bool,
    **selection: Any,
) -> None:
    """Say what your samples would send and be worth, before anything is sent.

    Counts and packs them as [b]safle count[/b] would, but writes no file. A fifth of them,
    held out, says how well the others do on their own: a federation does better. What can be
    worked out from a file, [b]safle attack[/b] of safle-lab works out.
    """
    import numpy as np

    from safle.cli.describe import contribution_facts, listing, worked_out
    from safle.cli.reading import open_matching
    from safle.encoders import load_encoder
    from safle.site.rehearsal import fitting_share, weigh, worth

    encoder = load_encoder(encoder_path)
    table = open_matching(encoder, features, trusted=trust_features, **selection)
    values, labels = np.asarray(table.features), np.asarray(table.labels)
    with session.progress(f"rehearsing {features.name}") as advance:
        allowed = {"allow_outside": allow_outside}
        sent = weigh(encoder, values, labels, table.weights, **allowed)
        advance(0.4)
        own = values, labels, table.weights
        alone = worth(encoder, *own, lambda done: advance(0.4 + 0.5 * done))
        fit = fitting_share(encoder, values)
    facts: dict[str, object] = {
        "samples": f"{sent.samples:,}",
        "classes": listing(sorted(set(labels.tolist()))),
        "columns that fit": f"{fit:.0%} vary within their calibrated range",
        "accuracy alone": f"{alone.accuracy:.1%} ± {alone.error:.1%} of {alone.judged:,} held-out "
        f"samples (always the most frequent class: {alone.largest_class:.1%})",
    }
    facts |= contribution_facts(sent)
    session.facts(f"{features}: a contribution", facts)
    session.text(worked_out(sent.gives_away, sent.warning))
    session.text([f"warning: {text}" for text in _warnings(fit, alone)])


def _warnings(fit: float, alone: Worth) -> list[str]:
    found = []
    if fit < LEAST_FIT:
        found.append(
            f"only {fit:.0%} of the columns fit; expected nearly all. Are these the columns and "
            "units, or for images the backbone, that the encoder was calibrated for?"
        )
    if alone.largest_class < 1 and alone.accuracy + 2 * alone.error < alone.largest_class:
        found.append(
            "your samples alone do worse than always naming the most frequent class: do "
            "features and labels belong together?"
        )
    return found


@opt.command("Any file", "safle log", "safle log store", name="log")
@click.argument(
    "place",
    type=click.Path(path_type=Path),
    required=False,
    metavar="[LOG]",
    help="A log, or a store; by default this site's own ($SAFLE_LOG).",
)
def show_log(session: Session, /, place: Path | None) -> None:
    """Show a log, and check that no row of it was changed or taken out.

    A client's log says what has left by the commands of safle, a store's what came in. The last
    seal stands for the whole log: note it down, and rows that are cut off later will show.
    """
    from safle.server.database import DATABASE
    from safle.site.log import LOG, read_log, site_log

    path = place or site_log()
    if path.is_dir():
        path = path / (DATABASE if (path / DATABASE).exists() else LOG)
    events = read_log(path)
    rows = [(e.time, e.event, e.who, e.digest[:16], e.note) for e in events]
    session.table(["time", "event", "who", "SHA-256", "note"], rows, names=5)
    seal = events[-1].seal if events else "none"
    session.facts(f"{path}: log", {"rows": len(events), "unbroken": "yes", "last seal": seal})
