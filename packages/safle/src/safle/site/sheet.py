"""Release sheet: one page, as text and HTML, about a file that is to leave; somebody signs it."""

from __future__ import annotations

import hashlib
import math
import platform
import secrets
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from safle.basics.atomic import check_place, write_together
from safle.basics.journal import now
from safle.basics.memory import readable
from safle.basics.paths import SHEET, SHEET_PAGE
from safle.basics.templates import render_page
from safle.basics.texts import printable
from safle.errors import SafleWarning
from safle.site.log import ACCEPTED, log_refusal, was_accepted, write_log
from safle.site.policy import Policy
from safle.site.release import Before, Release
from safle.statistics.exposure import describe_cells
from safle.wire.container import declared_digest
from safle.wire.formats import format_named

CLASSES_SHOWN = 20
LONGEST_TEXT = 60
NOT_ACCEPTED = "chosen by the coordinator; not accepted here before"
Rows = Mapping[str, str]


@dataclass(frozen=True)
class Sheet:
    """What a data protection officer needs to know about a file before it leaves.

    ``made`` is a time, in UTC. ``number`` is drawn at random: without it, whoever gets a signature
    under the sheet could find its numbers of samples by trying.
    """

    release: Release
    policy: Policy | None
    file: str
    data: bytes
    made: str = field(default_factory=now)
    number: str = field(default_factory=lambda: secrets.token_hex(16))

    def sections(self) -> dict[str, Rows]:
        hidden = ", which the file does not show" * self.release.masked
        return {
            "What leaves": self._content(),
            f"Samples of each class{hidden}": self._classes(),
            "Who can read it": self._readers(),
            "Who chose what it was made with": self._chosen(),
            "What the site's policy says": self._verdicts(),
            "To tell it from others": {
                "digest of the content": declared_digest(self.data),
                "SHA-256 of the file": hashlib.sha256(self.data).hexdigest(),
                "encoder": self.release.encoder or "none",
                "number of this sheet": f"{self.number}, drawn at random",
                "made": f"{self.made} by safle {version('safle')}, Python "
                f"{platform.python_version()}, NumPy {np.__version__}",
            },
        }

    def to_text(self) -> str:
        """The sheet as lines."""
        lines = [f"Release sheet: {_shorten(self.file)}"]
        for title, rows in self.sections().items():
            if rows:
                lines += ["", title]
            width = max(map(len, rows), default=0)
            lines += [f"  {name:<{width}}  {value}".rstrip() for name, value in rows.items()]
        return "\n".join([*lines, "", "Name, date, signature: ______________________________", ""])

    def to_html(self) -> str:
        """The sheet as a page that prints on one side of A4."""
        facts = {"file": self.file, "sections": self.sections()}
        return render_page(["safle.site", "safle.evaluation"], "release.html.j2", **facts)

    def _content(self) -> Rows:
        release, rows = self.release, self.release.distinct_rows
        samples = f"{release.samples:,} samples"
        if rows is not None:
            samples += f", {rows.samples:,} different rows"
        stays = "features, and what they were made of; but see what it gives away, below"
        if release.masked:
            stays = "features, their sources and all your numbers: only a sum with others opens"
        return {
            "file": f"{_shorten(self.file)}, {readable(len(self.data))}",
            "holds": f"{release.mode} {release.what}: {release.holds}, over {samples}",
            "stays here": stays,
        }

    def _classes(self) -> Rows:
        counts = self.release.class_counts
        rows = (self.release.distinct_rows or self.release).class_counts
        names = [*counts]
        shown = {
            _shorten(name): _describe_class(counts[name], rows[name])
            for name in names[:CLASSES_SHOWN]
        }
        if omitted := names[CLASSES_SHOWN:]:
            omitted_samples = sum(counts[name] for name in omitted)
            omitted_rows = sum(rows[name] for name in omitted)
            shown[f"{len(omitted):,} more classes"] = _describe_class(omitted_samples, omitted_rows)
        return shown

    def _readers(self) -> Rows:
        release = self.release
        if release.masked:
            holders = release.keyholders.items()
            all_of_them = "all keyholders" if len(holders) > 1 else "the keyholder"
            noise = f", with noise of epsilon {release.epsilon:g}"
            return {
                "this file": f"nobody: it is masked; the server and {all_of_them} could if "
                "they worked together",
                "a sum": f"the server, of at least {release.least_clients:,} clients"
                f"{noise * math.isfinite(release.epsilon)}, opened by {all_of_them}",
                "keyholders": ", ".join(f"{_shorten(name)} ({key[:12]}…)" for name, key in holders),
            }
        given_away = release.gives_away
        if given_away and release.distinct_rows is not None:
            given_away += " (each different row is one sample here)"
        readers = {"this file": "whoever receives it", "what it gives away": given_away}
        judged = release.distinct_rows or release
        if release.rank and release.cells is not None:
            readers |= {
                "cells": describe_cells(release.cells),
                "independent columns": f"{release.rank:,}; different samples: {judged.samples:,}",
            }
        return readers

    def _chosen(self) -> Rows:
        return dict.fromkeys(self.release.not_accepted, NOT_ACCEPTED)

    def _verdicts(self) -> Rows:
        verdicts = [] if self.policy is None else self.policy.judge(self.release)
        rows = {
            v.rule: f"{'kept' if v.kept else 'broken'}: {v.found} ({v.limit})" for v in verdicts
        }
        no_verdict = "the site has none" if self.policy is None else "no rule of it applies"
        return rows or {"nothing": no_verdict}


def write_release(
    value: Any,
    release: Release,
    output: Path,
    policy: Policy | None = None,
    before: Before | None = None,
) -> tuple[bytes, str]:
    """Write a contribution and its sheets, if the policy lets it out; `PolicyRefused` if not.

    This is the one way out. The log holds the policy's decision before anybody else has the bytes.

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
    for suffix in ("", SHEET, SHEET_PAGE):
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
    sheet = Sheet(release, policy, output.name, data)
    sheets = {
        output.with_name(output.name + SHEET): sheet.to_text().encode(),
        output.with_name(output.name + SHEET_PAGE): sheet.to_html().encode(),
    }
    # The contribution is renamed last: there is none without its sheets. The sheets say more than
    # a masked contribution, so those who may read the outbox may not read the sheets.
    write_together({output: data, **sheets}, private=sheets)
    return data, note


def _describe_class(samples: int, rows: int) -> str:
    return f"{samples:,}" + f", {rows:,} different rows" * (rows != samples)


def _shorten(text: object) -> str:
    """A text that anybody may have written, as one short line."""
    shown = printable(text, " ")
    return shown if len(shown) <= LONGEST_TEXT else f"{shown[:LONGEST_TEXT]}…"
