"""The members of a store: who is in, by the changes that its index lists, one after the other."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from safle.encoders import Encoder
from safle.encoders.features import as_class_names
from safle.errors import CountOverflow, DuplicateContribution, InvalidInput
from safle.federation.manifest import Contribution, parse_contribution

LONGEST_NAME = 200


@dataclass(frozen=True)
class Member:
    """A client that is in.

    Attributes
    ----------
    contribution : what it sent; its ``file`` is the client's name
    received : when, in UTC
    """

    contribution: Contribution
    received: str


def added_line(member: Member) -> dict[str, Any]:
    """The change that takes a member in."""
    return {"do": "add", **vars(member.contribution), "received": member.received}


def removed_line(member: Member) -> dict[str, Any]:
    """The change that drops a member."""
    contribution = member.contribution
    return {"do": "remove", "file": contribution.file, "digest": contribution.digest}


def apply_change(members: dict[str, Member], line: Mapping[str, Any]) -> None:
    """Make one change; `KeyError`, `TypeError` or `ValueError` if it is none."""
    if line["do"] == "remove":
        del members[line["file"]]
        return
    if line["do"] != "add":
        raise ValueError(f"unknown change {line['do']!r}")
    contribution = parse_contribution(line)
    # It becomes a file's name: nothing but a digest may.
    if not re.fullmatch("[0-9a-f]{64}", contribution.digest):
        raise ValueError(f"{contribution.digest[:80]!r} is not a digest")
    members[check_client(contribution.file)] = Member(contribution, str(line["received"]))


def check_fits(
    members: Mapping[str, Member],
    added: Contribution,
    encoder: Encoder,
    *,
    allow_duplicates: bool,
) -> None:
    """Whatever would keep the sum from being made is refused before it is kept."""
    before = members.get(added.file)
    if before is not None:
        same = "the same" if before.contribution.digest == added.digest else "another"
        raise DuplicateContribution(
            f"client {added.file!r} has sent {same} contribution on {before.received}; to "
            "replace it, remove the client first"
        )
    for client, member in members.items():
        # Nothing, twice, is nothing: empty clients all have the same digest.
        twice = added.samples and member.contribution.digest == added.digest
        if twice and not allow_duplicates:
            raise DuplicateContribution(
                f"{added.digest[:12]}… is the contribution of client {client!r} already; if two "
                "clients really hold the same data, use --allow-duplicates "
                "(allow_duplicates= in Python)"
            )
    names = {name for member in members.values() for name in member.contribution.classes}
    as_class_names([*{*names, *added.classes}])
    held, most = samples_of(members), encoder.layout.most_samples
    if held + added.samples > most:
        raise CountOverflow(
            f"{held} + {added.samples} samples exceed the {most} that this gram's integers can "
            "count: split the federation"
        )


def samples_of(members: Mapping[str, Member]) -> int:
    """Samples of all members together."""
    return sum(member.contribution.samples for member in members.values())


def check_client(name: object) -> str:
    """A client's name, or `InvalidInput`."""
    if (
        not isinstance(name, str)
        or not 1 <= len(name) <= LONGEST_NAME
        or not name.isprintable()
        or name != name.strip()
    ):
        raise InvalidInput(
            f"the client's name is {str(name)[:80]!r}; expected one line of 1 to {LONGEST_NAME} "
            "characters without spaces around it"
        )
    return name
