"""Options that the commands of a private round share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from safle.cli.options import FILE, Decorator, option, options

if TYPE_CHECKING:
    from safle.private.round import PrivateRound

_EXPLAINED = {
    "--round": "The round file that the operator has declared.",
    "--operator": "The operator's public key, from a source you trust.",
    "--key": "Your private key, whose public half is in the round.",
}


def round_options(*, key: bool = True, **settings: Any) -> Decorator:
    """--round FILE and --operator FILE, which `load_round` takes, and --key FILE."""
    return options(
        *(
            option(f"{name} {name[2:]}_path", text, "FILE", type=FILE, **settings)
            for name, text in [*_EXPLAINED.items()][: 2 + key]
        )
    )


def load_round(round_path: Path, operator_path: Path) -> PrivateRound:
    """The round, if this operator has signed it; errors name the file."""
    from safle.basics.places import naming
    from safle.private.keys import PublicKey
    from safle.private.round import PrivateRound
    from safle.wire import container

    operator = PublicKey.load(operator_path)
    with naming(round_path):
        return PrivateRound.load(container.read_limited(round_path), operator)
