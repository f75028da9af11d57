"""``safle private round``: the operator declares what is summed, by whom, and who opens it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import rich_click as click

from safle.basics.memory import readable
from safle.basics.places import naming
from safle.basics.texts import split_names
from safle.cli.options import COUNT, FILE, POSITIVE, command, grid_options, option, output
from safle.cli.reading import declared_classes, declared_grid
from safle.cli.session import Session
from safle.encoders import load_encoder
from safle.encoders.features import as_names
from safle.model import load_model
from safle.private import (
    EvaluationSpace,
    HistogramSpace,
    PrivateKey,
    PrivateRound,
    PublicKey,
    StatisticsSpace,
    declare_round,
)
from safle.private.vector import Space
from safle.wire import container

PARTIES = (
    "--client a.pub --client b.pub --client c.pub --keyholder k1.pub --keyholder k2.pub "
    "--key operator.key"
)
MODEL = "For evaluation counts: the model that all sites evaluate."
CLASSES = "For statistics: every class that any client may have."
FEATURES = "For histograms: the number of features, if they have no names."
COLUMNS = "For histograms: the names of the features."
EPSILON = (
    "For statistics: every keyholder adds noise that gives the opened sum this differential "
    "privacy."
)
CALIBRATION = "Goes with --epsilon: where the encoder's thresholds came from."
SAMPLES = "Most samples of all clients together; a larger number makes larger files."
KEYHOLDER = (
    "A keyholder's public key; up to three, two are usual. All of them must answer: if one is "
    "lost, so is the round. A server with all of them but one learns nothing."
)
LEAST = "Fewest clients whose sum is opened, and by which two opened sums may differ."
SHARE = "The same as a share of the round's clients; the larger of the two counts."
KEY = "The operator's private key, which signs the round."
EACH: dict[str, Any] = {"type": FILE, "multiple": True, "required": True}


@command(
    "safle private round --encoder encoder.safetensors --classes ill,well "
    f"--most-total-samples 10000 {PARTIES} -o round.private",
    "safle private round --low 0 --high 16 --features 64 --most-total-samples 10000 "
    f"{PARTIES} -o round.private",
    f"safle private round --model model.safetensors --most-total-samples 10000 {PARTIES} "
    "-o evaluation.private",
    name="round",
)
@option("--encoder encoder_path", "For statistics: the encoder.", "FILE", type=FILE)
@option("--classes", CLASSES, "A,B,C")
@grid_options
@option("--features", FEATURES, "N", type=COUNT)
@option("--columns", COLUMNS, "A,B,C")
@option("--model model_path", MODEL, "FILE", type=FILE)
@option("--most-total-samples", SAMPLES, "N", type=COUNT, required=True)
@option("--epsilon", EPSILON, "E", type=POSITIVE)
@option(
    "--delta", "The delta of the differential privacy; goes with --epsilon.", "D", type=POSITIVE
)
@option("--calibration", CALIBRATION, type=click.Choice(["declared", "public"]))
@option("--client clients", "A client's public key; once for each.", "FILE", **EACH)
@option("--keyholder keyholders", KEYHOLDER, "FILE", **EACH)
@option("--least", LEAST, "N", type=click.IntRange(min=2), default=3)
@option("--least-share", SHARE, "SHARE", type=click.FloatRange(0, 1), default=0.5)
@option("--key key_path", KEY, "FILE", type=FILE, required=True)
@output("The round file to write; all parties need it.", "private round")
def declare(
    session: Session,
    /,
    model_path: Path | None,
    most_total_samples: int,
    epsilon: float | None,
    delta: float | None,
    calibration: str | None,
    clients: tuple[Path, ...],
    keyholders: tuple[Path, ...],
    least: int,
    least_share: float,
    key_path: Path,
    output: Path,
    **sum_options: Any,
) -> None:
    """Declare a private round: what is summed, by which clients, and who opens the sum.

    It sums statistics (--encoder, --classes), histograms for a calibration (--ranges; or --low and
    --high, and --columns or --features), or evaluation counts (--model). The round goes on without
    clients who stay away.
    """
    space = _space(most_total_samples, model_path, sum_options)
    private_round = declare_round(
        PrivateKey.load(key_path),
        _with_noise(space, epsilon, delta, calibration, len(keyholders)),
        clients=[PublicKey.load(path) for path in clients],
        keyholders=[PublicKey.load(path) for path in keyholders],
        least=least,
        least_share=least_share,
    )
    container.write_file(output, private_round.data)
    facts = {
        "operator": private_round.operator.name,
        "clients": ", ".join(private_round.clients),
        "keyholders": ", ".join(private_round.keyholders),
        "needed to open": f"all keyholders, at least {private_round.fewest} clients",
        "a client sends": readable(private_round.sizes.bytes),
        "round": private_round.digest,
    }
    session.facts(f"{output}: private round", facts)


def _with_noise(
    space: Space,
    epsilon: float | None,
    delta: float | None,
    calibration: str | None,
    keyholders: int,
) -> Space:
    if epsilon and delta and calibration and isinstance(space, StatisticsSpace):
        return space.with_noise(epsilon, delta, calibration, keyholders)
    if epsilon or delta or calibration:
        raise click.UsageError("--epsilon, --delta and --calibration go together, with --encoder")
    return space


def _space(most_total_samples: int, model_path: Path | None, options: dict[str, Any]) -> Space:
    """The space of the sum: of evaluation counts, of statistics or of histograms."""
    encoder_path = options["encoder_path"]
    classes = declared_classes(options["classes"])
    features = options["features"]
    columns = tuple(sorted(split_names(options["columns"] or "")))
    grid, grid_columns = declared_grid(options)
    given = [encoder_path, classes, features, columns, grid]
    if model_path is not None and not any(given):
        model = load_model(model_path)
        return EvaluationSpace(model.digest, model.class_names, most_total_samples)
    if model_path is None and encoder_path and classes and not any(given[2:]):
        return StatisticsSpace.of(load_encoder(encoder_path), classes, most_total_samples)
    columns = columns or tuple(grid_columns)
    feature_dim = features or len(columns)
    if grid and feature_dim and not (model_path or encoder_path or classes):
        names = as_names(columns, feature_dim)
        return HistogramSpace(grid, feature_dim, most_total_samples, names)
    raise click.UsageError(
        "give --encoder and --classes, or --ranges, or --low and --high and --columns or "
        "--features, or --model alone"
    )


def load_round(round_path: Path, operator_path: Path) -> PrivateRound:
    """The round, if this operator has signed it; errors name the file."""
    operator = PublicKey.load(operator_path)
    with naming(round_path):
        return PrivateRound.load(container.read_limited(round_path), operator)
