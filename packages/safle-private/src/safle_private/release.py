"""Counts leave under masks: --round, --operator and --key of the commands that count.

The entry point of this package in the group ``safle.releases``. What it needs is imported when a
round is named: every count loads this module.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import rich_click as click

from safle import Release
from safle import cli as opt

if TYPE_CHECKING:
    from safle_private.round import PrivateRound

Before = Callable[[Any, Release], tuple[bytes, Release, str]]
_HELP = {
    "--round": "The round file that the operator has declared.",
    "--operator": "The operator's public key, from a source you trust.",
    "--key": "Your private key, whose public half is in the round.",
}
_NAMES = ("round_path", "operator_path", "key_path")


def round_options(
    *, key: bool = True, **settings: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """--round FILE and --operator FILE and, with ``key``, --key FILE."""
    named = [name for name in _HELP if key or name != "--key"]

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in reversed(named):
            function = opt.file_option(f"{name} {name[2:]}_path", _HELP[name], **settings)(function)
        return function

    return decorate


def options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a private round to a command."""
    return round_options(panel="Under masks")(function)


def prepare(options: Mapping[str, Any]) -> Before | None:
    """Read the files of a round, and return what masks a value for it; None without a round."""
    paths = [options[name] for name in _NAMES]
    if not any(paths):
        return None
    if not all(paths):
        raise click.UsageError("--round, --operator and --key belong together")
    from safle_private.keys import PrivateKey
    from safle_private.messages import mask
    from safle_private.round import load_round

    round_path, operator_path, key_path = paths
    private_round = load_round(round_path, operator_path)
    key = PrivateKey.load(key_path)
    note = (
        "masked: the file does not show the counts that are listed here. Only a sum of at least "
        f"{private_round.least_clients} clients can be opened, if all of "
        f"{', '.join(private_round.keyholders)} answer"
    )

    def before(value: Any, release: Release) -> tuple[bytes, Release, str]:
        data = mask(private_round, key, value).to_bytes()
        return data, under_masks(release, private_round), note

    return before


def under_masks(release: Release, private_round: PrivateRound) -> Release:
    """The same release, masked for a private round."""
    keyholders = {name: key.fingerprint for name, key in private_round.keyholders.items()}
    return replace(
        release,
        masked=True,
        gives_away="",
        warns=False,
        cells=None,
        rank=0,
        disguises=None,
        keyholders=keyholders,
        least_clients=private_round.least_clients,
        most_samples=private_round.most_total_samples,
        epsilon=math.inf if private_round.privacy is None else private_round.privacy.epsilon,
    )
