"""What is true of a store: its encoder, and what clients may claim."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from safle.encoders import Encoder, load_encoder
from safle.errors import StoreError
from safle.server.database import DATABASE, LOCK, Database
from safle.server.kept_files import CONTRIBUTIONS
from safle.server.limits import Limits

ENCODER = "encoder.safetensors"
_PARTS = re.compile(rf"{ENCODER}|{CONTRIBUTIONS}|{LOCK}|{DATABASE}(-\w+)?|\.{ENCODER}\.\w+\.part")


class Facts(NamedTuple):
    """Of a store that was made."""

    encoder: Encoder
    limits: Limits


def check_unused(place: Path) -> None:
    """Refuse a folder of other things; what a store half made has left behind may be there."""
    if not place.exists() or (place / DATABASE).exists():
        return
    if any(not _PARTS.fullmatch(path.name) for path in place.iterdir()):
        raise StoreError(f"{place} holds other files; choose a new or an empty folder")
    inside = place / CONTRIBUTIONS
    if inside.is_symlink() or (inside.exists() and any(inside.iterdir())):
        raise StoreError(f"{inside} holds files of somebody's; choose a new or an empty folder")


def write_limits(limits: Limits) -> str:
    """Limits as the database keeps them."""
    return json.dumps(asdict(limits))


def make_store(place: Path, encoder: Encoder, database: Database) -> None:
    """Begin an empty store."""
    path = place / ENCODER
    if path.exists() and load_encoder(path) != encoder:
        raise StoreError(f"{path} is another encoder; choose a new or an empty folder")
    (place / CONTRIBUTIONS).mkdir(exist_ok=True)
    encoder.save(path)
    database.create(fingerprint=encoder.fingerprint, limits=write_limits(Limits()))


def read_facts(place: Path, facts: Mapping[str, str]) -> Facts:
    """What the database says of the store, checked against the encoder's file."""
    if not facts:
        raise StoreError(
            f"{place} is not a store: its making was interrupted; make it again with 'safle store "
            "add --encoder'"
        )
    encoder, made_with = load_encoder(place / ENCODER), str(facts.get("fingerprint"))
    if encoder.fingerprint != made_with:
        raise StoreError(
            f"{place / ENCODER} is not the encoder that this store was made with "
            f"({made_with[:12]}…); bring it back"
        )
    try:
        fields = json.loads(facts["limits"])
        limits = Limits(**{**fields, "classes": tuple(fields["classes"])})
        return Facts(encoder, limits)
    except (ValueError, TypeError, KeyError) as error:
        raise StoreError(f"{place / DATABASE}: the limits are damaged: {error}") from error
