"""Policy: a file of rules about what may leave a site; every command that sends obeys it.

    mode = "masked"                  # nothing leaves but masked sums
    least_samples = 50
    least_per_class = 5
    least_cell = 10                  # of plain contributions
    most_columns_per_sample = 0.1
    least_clients = 3                # of masked rounds
    most_epsilon = 3.0               # of what is published
    encoders = ["9f2c..."]           # fingerprints, as "safle inspect" shows them
    models = ["07ad..."]             # digests, likewise
    keyholders = ["51d0..."]         # fingerprints, as "safle private keys" shows them

A rule that the file leaves out does not apply. A refusal names the rule that was broken.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec

from safle.basics.paths import read_toml
from safle.basics.settings import as_settings
from safle.errors import PolicyRefused, SettingsError
from safle.site.disguises import MAX_WEIGHT
from safle.site.release import Release

VARIABLE = "SAFLE_POLICY"
"""The environment variable that names a site's policy where no option does."""
MAX_BYTES = 1 << 20
MIN_OPENED = 3
"""Of a sum of two clients, each knows the other's part."""
EXAMPLE = """\
mode = "plain"                  # or "masked": only sums under masks leave
least_samples = 50              # that were counted: each different row once
least_per_class = 10            # of every class that occurs
least_cell = 10                 # of plain files: each count is 0 or at least this
most_columns_per_sample = 0.5   # of plain files; with 1 and more, all samples may be reconstructed
least_clients = 3               # that a masked round adds up before anybody opens it
# encoders = ["9f2c..."]        # the only encoders: fingerprints, from 'safle inspect'
# models = ["07ad..."]          # the only models that are evaluated: digests, from 'safle inspect'
# keyholders = ["51d0..."]      # the only keyholders: fingerprints, from 'safle private keys'
# most_epsilon = 3.0            # only sums with noise leave
"""
"""What `safle policy` writes."""
Verdict = tuple[str, bool, str]
"""A rule, whether a release keeps it, and what was found and expected."""
Count = Annotated[int, msgspec.Meta(ge=0)]
Number = Annotated[float, msgspec.Meta(ge=0)]


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What may leave a site.

    Attributes
    ----------
    mode : "masked" lets only masked sums out; "plain" lets plain ones out as well
    least_samples, least_per_class : fewest counted samples, in all and of every class; samples
        with equal rows count as one
    most_columns_per_sample : of a plain contribution; with 1 and more, samples may be reconstructed
    least_clients : fewest clients that a masked round adds up before anybody opens the sum
    most_epsilon : of what is published; exact sums, masked or not, have no epsilon
    encoders, models : fingerprints of the encoders, and digests of the models, that this site
        answers; empty for all. The sheet names one that the site has not accepted before
    least_cell : fewest samples in a cell of a plain contribution that is not empty: a sum, or a
        difference of sums, that is a count. No sample then weighs more than `MAX_WEIGHT` in a
        weighted sum of columns, no fewer samples all of it, and no row outweighs a cell: see
        `safle.site.disguises`
    keyholders : fingerprints of the allowed keyholders' keys; empty for all

    Examples
    --------
    >>> from safle.site.release import Release
    >>> Policy(least_samples=50).check(Release("statistics", samples=12, columns=65))
    Traceback (most recent call last):
        ...
    safle.errors.PolicyRefused: refused by the policy's least_samples: 12; expected at least 50
    """

    mode: Literal["plain", "masked"] = "plain"
    least_samples: Count = 0
    least_per_class: Count = 0
    most_columns_per_sample: Number = math.inf
    least_clients: Count = 1
    most_epsilon: Number = math.inf
    encoders: tuple[str, ...] = ()
    keyholders: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    least_cell: Count = 0

    def __post_init__(self) -> None:
        # An unknown word must not let plain contributions out.
        if self.mode not in ("plain", "masked"):
            raise SettingsError(f"mode is {self.mode!r}; expected plain or masked")
        for name in ("most_columns_per_sample", "most_epsilon"):
            if math.isnan(getattr(self, name)):
                raise SettingsError(f"{name} is not a number; expected a number from 0")

    @staticmethod
    def read(path: str | os.PathLike[str]) -> Policy:
        """The policy in a file; `SettingsError` if the file holds none."""
        content = read_toml(path, "a policy", most=MAX_BYTES)
        return as_settings(Policy, content, where=f"{path}: ")

    @staticmethod
    def find(path: str | os.PathLike[str] | None = None) -> Policy | None:
        """The policy at ``path``, or else at $SAFLE_POLICY; None if neither names one."""
        place = path or os.environ.get(VARIABLE)
        return Policy.read(place) if place else None

    def check(self, release: Release) -> None:
        """Raise `PolicyRefused` by the first rule that is broken."""
        for rule, kept, found in self.judge(release):
            if not kept:
                raise PolicyRefused(f"refused by the policy's {rule}: {found}", rule=rule)

    def judge(self, release: Release) -> Iterator[Verdict]:
        """The verdict of every rule that applies to a release."""
        judged = release.distinct_rows or release
        rows = "" if judged is release else " different rows"
        if self.mode == "masked":
            yield _verdict("mode", "masked sums only", release.mode, release.masked)
        yield from self._judge_pins(release)
        if self.least_samples:
            yield self._judge_minimum("least_samples", judged.samples, rows)
        if self.least_per_class and judged.class_counts:
            name, fewest = min(judged.class_counts.items(), key=lambda item: item[1])
            of_class = f"{rows} of class {str(name)[:40]!r}"
            yield self._judge_minimum("least_per_class", fewest, of_class)
        if self.least_cell:
            yield self._judge_cells(release)
        if not release.masked and math.isfinite(self.most_columns_per_sample):
            share = release.columns / max(judged.samples, 1)
            per_row = "" if judged is release else " per different row"
            yield self._judge_maximum("most_columns_per_sample", share, per_row)
        if math.isfinite(self.most_epsilon):
            yield self._judge_maximum("most_epsilon", release.epsilon)
        if release.masked and self.least_clients > 1:
            yield self._judge_minimum("least_clients", release.least_clients)
        if release.masked and self.keyholders:
            strangers = [key for key in release.keyholders.values() if key not in self.keyholders]
            found = f"{strangers[0][:60]} is not" if strangers else "all are"
            yield _verdict("keyholders", "only those that it lists", found, not strangers)

    def _judge_pins(self, release: Release) -> Iterator[Verdict]:
        pins = {"encoders": release.encoder, "models": release.model}
        for rule, digest in pins.items():
            allowed = getattr(self, rule)
            if allowed and digest:
                yield _verdict(rule, "one that it lists", f"{digest[:12]}…", digest in allowed)

    def _judge_cells(self, release: Release) -> Verdict:
        if release.masked:
            found = (
                f"cells cannot be judged here: only a sum of at least {release.least_clients:,} "
                f"clients is opened, of at most {release.most_samples:,} samples"
            )
            enough = release.least_clients >= MIN_OPENED and release.most_samples >= self.least_cell
            limit = f"sums of at least {MIN_OPENED} clients and {self.least_cell:,} samples"
            return _verdict("least_cell", limit, found, enough)
        judged = release.distinct_rows or release
        disguises = judged.disguises
        limit = f"at least {self.least_cell:,} samples in each cell that is not empty"
        smallest = 0 if judged.cells is None else judged.cells.smallest
        if 0 < smallest < self.least_cell:
            return _verdict("least_cell", limit, f"a cell of {smallest:,}", kept=False)
        if judged.cells is None or (release.samples > 0 and disguises is None):
            return _verdict("least_cell", limit, "cells that were not judged", kept=False)
        if disguises is not None and 0 < disguises.smallest < self.least_cell:
            found = f"a cell of {disguises.smallest:,} in disguise"
            found = f"{found}: codes, differences, or rows that are counted often"
            return _verdict("least_cell", limit, found, kept=False)
        if disguises is not None and disguises.weight > MAX_WEIGHT:
            found = f"a sample with {disguises.weight:.0%} of the weight of a sum of columns"
            return _verdict("least_cell", f"at most {MAX_WEIGHT:.0%}", found, kept=False)
        # Of a cell of k equal samples, k - 1 have 1 - 1 / k; those of a smaller one have all.
        most = 1 - 0.5 / self.least_cell
        if disguises is not None and disguises.few > most:
            found = (
                f"fewer than {self.least_cell:,} samples with {disguises.few:.0%} of the weight "
                "of a sum of columns: a cell in disguise"
            )
            return _verdict("least_cell", f"at most {most:.0%}", found, kept=False)
        return _verdict("least_cell", limit, f"at least {smallest:,}", kept=True)

    def _judge_minimum(self, rule: str, found: int, detail: str = "") -> Verdict:
        limit: int = getattr(self, rule)
        return _verdict(rule, f"at least {limit:,}", f"{found:,}{detail}", found >= limit)

    def _judge_maximum(self, rule: str, found: float, detail: str = "") -> Verdict:
        limit: float = getattr(self, rule)
        shown = f"{found:,.3g}" if math.isfinite(found) else "no epsilon: the sums are exact"
        return _verdict(rule, f"at most {limit:g}", shown + detail, found <= limit)


def _verdict(rule: str, limit: str, found: str, kept: bool) -> Verdict:
    return rule, kept, f"{found}; expected {limit}"
