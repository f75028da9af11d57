"""What a file of a private round declares, without the keys that could check it.

The entry points of this package in the group ``safle.formats``: `safle inspect` opens every file by
its format, and shows the facts of its value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from safle import ClassName, FileFormat, container
from safle_private.keys import SignedFile
from safle_private.round import decompress_payload, read_content

_SIGNED = (container.ROUND, container.MASKED, container.ANSWER)


@dataclass(frozen=True)
class _Unchecked:
    """The fields of a file whose signatures nobody has checked."""

    fields: Mapping[str, str]

    def facts(self) -> dict[str, str]:
        return {**self.fields, "checks": "checksum, sizes; signatures need keys"}

    def samples_by_class(self) -> dict[ClassName, int]:
        return {}

    def exposure(self) -> None:
        """Nothing: nobody can read it."""


def _restore(opened: container.Container) -> _Unchecked:
    if opened.file_type not in _SIGNED:
        return _Unchecked(_texts(opened.header))
    signed = SignedFile.of(opened)
    facts = _texts(signed.head.fields)
    if opened.file_type == container.ROUND:
        facts |= _round_facts(read_content(decompress_payload(signed)))
    return _Unchecked(facts)


def _texts(fields: Mapping[str, Any]) -> dict[str, str]:
    return {name: text for name, text in fields.items() if isinstance(text, str)}


def _round_facts(content: Mapping[str, Any]) -> dict[str, str]:
    facts = {}
    for parties in ("clients", "keyholders"):
        keys = content[parties].values()
        facts[parties] = ", ".join(f"{key.name} ({key.fingerprint[:16]}…)" for key in keys)
    facts["needed to open"] = f"all keyholders, at least {content['least_clients']} clients"
    if content["after"]:
        facts["after sums of"] = ", ".join(content["after"])
    facts["at most"] = f"{content['most_total_samples']:,} samples"
    return facts


def _refuse(_value: object) -> NoReturn:
    raise NotImplementedError("these files are written by who signs them")


ROUND = FileFormat(container.ROUND, _refuse, _restore)
MASKED = FileFormat(container.MASKED, _refuse, _restore)
MASKED_SUM = FileFormat(container.MASKED_SUM, _refuse, _restore)
REQUEST = FileFormat(container.REQUEST, _refuse, _restore)
ANSWER = FileFormat(container.ANSWER, _refuse, _restore)
