"""What the command line decides for every benchmark."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

FEATURES_VARIABLE = "SAFLE_BENCH_FEATURES"
REPOSITORY = Path(__file__).resolve().parent.parent
DEFAULT_FEATURES = REPOSITORY.parent / "shared" / "data" / "cifar10_resnet18.safetensors"


@dataclass(frozen=True)
class Settings:
    """Options of a run.

    Attributes
    ----------
    quick : a tiny version on generated data, to see that everything runs
    features : file with the real features, if it exists
    only : data sets of the frontier; all there are, if none is named
    """

    quick: bool = False
    features: Path = DEFAULT_FEATURES
    only: tuple[str, ...] = ()

    @staticmethod
    def chosen(
        *,
        quick: bool,
        features: str | None,
        only: tuple[str, ...] = (),
    ) -> Settings:
        """The option, else the environment variable, else the shared file."""
        path = features or os.environ.get(FEATURES_VARIABLE) or DEFAULT_FEATURES
        return Settings(quick, Path(path), only)
