"""What every command does whose file leaves the site: ask the policy, write, and say so."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from safle.cli.options import FILE, option, refuse_overwriting
from safle.cli.private_round import load_round, round_options
from safle.cli.session import Session

if TYPE_CHECKING:
    from safle.site.counting import Counts
    from safle.site.policy import Policy
    from safle.site.release import Counted, Release
    from safle.statistics import Statistics


policy_option = option(
    "--policy policy_path",
    "What this site lets out: see docs/release.md. Refuses what breaks a rule.",
    "FILE",
    type=FILE,
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
    from safle.site.policy import Policy, warning_of
    from safle.site.release import Release
    from safle.site.sheet import write_release
    from safle.wire import encode

    found, rules = Release.of(counts.once, encoder), Policy.find(policy)
    if session.masking:
        return _release_masked(session, counts.total, output, rules, found)
    data = encode(counts.total)
    write_release(output, data, found, rules)
    if warning := warning_of(found, rules):
        session.warn(warning)
    return data


def _release_masked(
    session: Session, counted: Counted, output: Path, policy: Policy | None, plain: Release
) -> bytes:
    from safle.private.keys import PrivateKey
    from safle.private.masked import mask
    from safle.site.sheet import write_release

    paths = session.masking
    if set(paths) != {"round_path", "operator_path", "key_path"}:
        raise click.UsageError("--round, --operator and --key belong together")
    refuse_overwriting(output, *paths.values())
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
