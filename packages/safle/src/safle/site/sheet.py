"""Release sheet: one page, of text and HTML, about what is to leave; for somebody to sign."""

from __future__ import annotations

import hashlib
import math
import platform
import secrets
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import numpy as np

from safle.basics.atomic import write_together
from safle.basics.memory import readable
from safle.basics.places import SHEET, SHEET_PAGE
from safle.basics.sealed import now
from safle.basics.templates import render_page
from safle.basics.texts import printable
from safle.errors import SafleWarning
from safle.site.log import log_refusal, write_log
from safle.site.policy import Policy
from safle.site.release import Release

CLASSES_SHOWN = 20
LONGEST_TEXT = 60
Rows = Mapping[str, str]


@dataclass(frozen=True)
class Sheet:
    """What a data protection officer needs to know of a file before it leaves.

    ``made`` is when, in UTC. ``number`` is drawn at random: without it, whoever gets a signature
    under the sheet could try out which numbers of samples it was made of.
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
            "What leaves": self._what(),
            f"Samples of each class{hidden}": self._classes(),
            "Who can read it": self._readers(),
            "What the site's policy says": self._verdict(),
            "To tell it from others": {
                "SHA-256 of the file": hashlib.sha256(self.data).hexdigest(),
                "encoder": self.release.encoder or "none",
                "number of this sheet": f"{self.number}, drawn at random",
                "made": f"{self.made} by safle {version('safle')}, Python "
                f"{platform.python_version()}, NumPy {np.__version__}",
            },
        }

    def to_text(self) -> str:
        """The sheet as lines."""
        lines = [f"Release sheet: {_line(self.file)}"]
        for title, rows in self.sections().items():
            if rows:
                lines += ["", title]
            width = max(map(len, rows), default=0)
            lines += [f"  {name:<{width}}  {value}".rstrip() for name, value in rows.items()]
        return "\n".join([*lines, "", "Name, date, signature: ______________________________", ""])

    def to_html(self) -> str:
        """The sheet as a page that prints on one side of A4."""
        facts = {"file": self.file, "sections": self.sections()}
        return render_page("safle.site", "release.html.j2", **facts)

    def _what(self) -> Rows:
        release = self.release
        of = f"{release.samples:,} samples"
        if release.what == "histogram":
            what = f"how often values of each of {release.columns:,} features occur, over {of}"
        elif release.what == "evaluation counts":
            what = (
                f"how often each of {release.columns:,} classes was taken for which, and given "
                f"which probability, over {of}"
            )
        else:
            sums = release.columns * (release.columns + 1) // 2
            what = f"{sums:,} sums of products of {release.columns:,} columns, over {of}"
        stays = "features, and what they were made of, but for what is given away as said below"
        if release.masked:
            stays = "features, their sources and all your numbers: only a sum with others opens"
        return {
            "file": f"{_line(self.file)}, {readable(len(self.data))}",
            "holds": f"{release.mode} {release.what}: {what}",
            "stays here": stays,
        }

    def _classes(self) -> Rows:
        counts = [*self.release.class_counts.items()]
        shown = {_line(name): f"{many:,}" for name, many in counts[:CLASSES_SHOWN]}
        if more := [many for _, many in counts[CLASSES_SHOWN:]]:
            shown[f"{len(more):,} more classes"] = f"{sum(more):,}"
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
                "keyholders": ", ".join(f"{_line(name)} ({key[:12]}…)" for name, key in holders),
            }
        known = "no sample that we know how to work out, which does not prove that there is no way"
        return {
            "this file": "whoever receives it",
            "what it gives away": release.gives_away or known,
        }

    def _verdict(self) -> Rows:
        verdicts = [] if self.policy is None else self.policy.judge(self.release)
        rows = {
            v.rule: f"{'kept' if v.kept else 'broken'}: {v.found} ({v.limit})" for v in verdicts
        }
        missing = "the site has none" if self.policy is None else "no rule of it applies"
        return rows or {"nothing": missing}


def write_release(
    output: Path, data: bytes, release: Release, policy: Policy | None = None
) -> None:
    """Write a contribution and its sheets, if the policy lets it out; `PolicyRefused` if not.

    What the policy says is in the log before anybody else has ``data``.
    """
    digest = hashlib.sha256(data).hexdigest()
    if policy is not None:
        with log_refusal(digest=digest, note=output.name):
            policy.check(release)
    elif release.gives_away:
        warnings.warn(
            f"this plain contribution gives samples away: {release.gives_away}; 'safle rehearse' "
            "says what helps, and a policy can refuse it (docs/release.md)",
            SafleWarning,
            stacklevel=2,
        )
    write_log("sent", digest=digest, note=output.name)
    sheet = Sheet(release, policy, output.name, data)
    sheets = {
        output.with_name(output.name + SHEET): sheet.to_text().encode(),
        output.with_name(output.name + SHEET_PAGE): sheet.to_html().encode(),
    }
    # The contribution is renamed last: there is none without its sheets. They say more than a
    # masked contribution does, so whoever may read that one, in an outbox, may not read them.
    write_together({output: data, **sheets}, private=sheets)


def _line(text: object) -> str:
    """Anybody's text on one line, short."""
    shown = printable(text, " ")
    return shown if len(shown) <= LONGEST_TEXT else f"{shown[:LONGEST_TEXT]}…"
