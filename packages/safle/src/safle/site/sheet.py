"""Release sheet: a page about a file that is to leave, as text that somebody signs and as JSON."""

from __future__ import annotations

import hashlib
import json
import math
import platform
import secrets
import warnings
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from safle.basics.atomic import check_place, write_together
from safle.basics.journal import now
from safle.basics.memory import readable
from safle.basics.paths import SHEET, SHEET_JSON
from safle.basics.texts import printable
from safle.errors import SafleWarning
from safle.site.log import ACCEPTED, log_refusal, was_accepted, write_log
from safle.site.policy import Policy
from safle.site.release import Before, Release
from safle.statistics.exposure import describe_cells
from safle.wire.container import declared_digest
from safle.wire.formats import format_named

CLASSES_SHOWN = 20
MAX_TEXT = 60
NOT_ACCEPTED = "chosen by the coordinator; not accepted here before"
Rows = Mapping[str, str]
Sheet = Mapping[str, Rows]
"""Titles, and the rows below each of them."""


def release_sheet(release: Release, policy: Policy | None, file: str, data: bytes) -> Sheet:
    """What a data protection officer needs to know about a file before it leaves.

    Its number is drawn at random: without it, a reader of a signature under the sheet could find
    its numbers of samples by trying.
    """
    hidden = ", which the file does not show" if release.masked else ""
    number = secrets.token_hex(16)
    made_by = (
        f"safle {version('safle')}, Python {platform.python_version()}, NumPy {np.__version__}"
    )
    return {
        "What leaves": _content(release, file, data),
        f"Samples of each class{hidden}": _classes(release),
        "Who can read it": _readers(release),
        "Who chose what it was made with": dict.fromkeys(release.not_accepted, NOT_ACCEPTED),
        "What the site's policy says": _verdicts(release, policy),
        "How to identify it": {
            "digest of the content": declared_digest(data),
            "SHA-256 of the file": hashlib.sha256(data).hexdigest(),
            "encoder": release.encoder or "none",
            "number of this sheet": f"{number}, drawn at random",
            "made": f"{now()} by {made_by}, NumPy {np.__version__}",
        },
    }


def sheet_text(file: str, sheet: Sheet) -> str:
    """A release sheet as lines, to be signed."""
    lines = [f"Release sheet: {_shorten(file)}"]
    for title, rows in sheet.items():
        if rows:
            lines += ["", title]
        width = max(map(len, rows), default=0)
        lines += [f"  {name:<{width}}  {value}".rstrip() for name, value in rows.items()]
    return "\n".join([*lines, "", "Name, date, signature: ______________________________", ""])


def _content(release: Release, file: str, data: bytes) -> Rows:
    samples = f"{release.samples:,} samples"
    if release.distinct_rows is not None:
        samples += f", {release.distinct_rows.samples:,} different rows"
    stays = "features and raw data, except what can be reconstructed (see below)"
    if release.masked:
        stays = "features, their sources and all your numbers: only a sum with others opens"
    return {
        "file": f"{_shorten(file)}, {readable(len(data))}",
        "holds": f"{release.mode} {release.what}: {release.holds}, over {samples}",
        "stays here": stays,
    }


def _classes(release: Release) -> Rows:
    counts = release.class_counts
    rows = (release.distinct_rows or release).class_counts
    names = [*counts]
    shown = {
        _shorten(name): _describe_class(counts[name], rows[name]) for name in names[:CLASSES_SHOWN]
    }
    if omitted := names[CLASSES_SHOWN:]:
        omitted_samples = sum(counts[name] for name in omitted)
        omitted_rows = sum(rows[name] for name in omitted)
        shown[f"{len(omitted):,} more classes"] = _describe_class(omitted_samples, omitted_rows)
    return shown


def _readers(release: Release) -> Rows:
    if release.masked:
        return _masked_readers(release)
    given_away = release.gives_away
    if given_away and release.distinct_rows is not None:
        given_away += " (each different row is one sample here)"
    readers = {"this file": "everybody who receives it", "what it gives away": given_away}
    if release.rank and release.cells is not None:
        rows = (release.distinct_rows or release).samples
        readers["cells"] = describe_cells(release.cells)
        readers["independent columns"] = f"{release.rank:,}; different samples: {rows:,}"
    return readers


def _masked_readers(release: Release) -> Rows:
    holders = release.keyholders.items()
    all_of_them = "all keyholders" if len(holders) > 1 else "the keyholder"
    noise = f", with noise of epsilon {release.epsilon:g}" if release.epsilon < math.inf else ""
    return {
        "this file": f"nobody: it is masked; the server and {all_of_them} could if they worked "
        "together",
        "a sum": f"the server, of at least {release.least_clients:,} clients{noise}, opened by "
        f"{all_of_them}",
        "keyholders": ", ".join(f"{_shorten(name)} ({key[:12]}…)" for name, key in holders),
    }


def _verdicts(release: Release, policy: Policy | None) -> Rows:
    if policy is None:
        return {"policy": "none"}
    verdicts = policy.judge(release)
    rows = {rule: f"{'kept' if kept else 'broken'}: {found}" for rule, kept, found in verdicts}
    return rows or {"policy": "no rule of it applies"}


def write_release(
    value: Any,
    release: Release,
    output: Path,
    policy: Policy | None = None,
    before: Before | None = None,
) -> tuple[bytes, str]:
    """Write a contribution and its sheets, if the policy lets it out; `PolicyRefused` if not.

    Everything that leaves passes here. The log holds the policy's decision before anybody else has
    the bytes.

    Parameters
    ----------
    value : what was counted
    release : what its plain file is and gives away
    before : what another house does to it first, such as to mask it

    Returns
    -------
    The bytes that leave, and a note of ``before`` for the user.
    """
    note = ""
    if before is None:
        data = format_named(value.format).encode(value)
    else:
        data, release, note = before(value, release)
    digest = hashlib.sha256(data).hexdigest()
    for suffix in ("", SHEET, SHEET_JSON):
        check_place(output.with_name(output.name + suffix))
    if policy is not None:
        with log_refusal(digest=digest, note=output.name):
            policy.check(release)
    elif release.warns:
        warnings.warn(
            f"this plain contribution gives samples away: {release.gives_away}; 'safle rehearse' "
            "says what helps, and a policy can refuse it (docs/release.md)",
            SafleWarning,
            stacklevel=2,
        )
    made_with = {"encoder": release.encoder, "model": release.model}
    new = {name: key for name, key in made_with.items() if key and not was_accepted(key)}
    pinned = () if policy is None else (*policy.encoders, *policy.models)
    not_accepted = tuple(name for name, key in new.items() if key not in pinned)
    release = replace(release, not_accepted=not_accepted)
    write_log("sent", digest=digest, note=output.name)
    for name, key in new.items():
        write_log(ACCEPTED, digest=key, note=f"{name} of {output.name}")
    sheet = release_sheet(release, policy, output.name, data)
    sheets = {
        output.with_name(output.name + SHEET): sheet_text(output.name, sheet).encode(),
        output.with_name(output.name + SHEET_JSON): json.dumps(sheet, indent=1).encode(),
    }
    # The contribution is renamed last: there is none without its sheets. The sheets say more than
    # a masked contribution, so those who may read the outbox may not read the sheets.
    write_together({output: data, **sheets}, private=sheets)
    return data, note


def _describe_class(samples: int, rows: int) -> str:
    return f"{samples:,}" if rows == samples else f"{samples:,}, {rows:,} different rows"


def _shorten(text: object) -> str:
    """A text that anybody may have written, as one short line."""
    shown = printable(text, " ")
    return shown if len(shown) <= MAX_TEXT else f"{shown[:MAX_TEXT]}…"
