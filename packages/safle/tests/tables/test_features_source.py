"""The backbone's identity is part of the encoder's: other features cannot be counted by mistake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from safle.cli.main import run
from safle.encoders import Encoder, load_encoder
from safle.encoders.base import encoder_header, restore_encoder
from safle.encoders.features import check_source
from safle.errors import EncoderMismatch, SettingsError, SourceMismatch, WireError
from safle.model import Model, load_model
from safle.solver import solve
from safle.statistics import count
from support.data_sets import KINDS, fixed_data, fixed_encoder

OURS, THEIRS = f"resnet18 weights={'a' * 64} crop=224", f"resnet18 weights={'b' * 64} crop=224"
MakeEncoder = Callable[..., Encoder]


@pytest.mark.parametrize("kind", KINDS)
def test_a_source_changes_the_fingerprint_and_nothing_else(kind: str, tmp_path: Path) -> None:
    plain = fixed_encoder(kind)
    assert "source" not in encoder_header(plain)
    assert plain.declare(source="").fingerprint == plain.fingerprint
    ours, theirs = plain.declare(source=OURS), plain.declare(source=THEIRS)
    assert len({plain.fingerprint, ours.fingerprint, theirs.fingerprint}) == 3
    features = np.random.default_rng(0).normal(size=(9, plain.feature_dim))
    for part in ("symbols", "dense"):
        found = getattr(ours.encode(features), part)
        np.testing.assert_array_equal(found, getattr(plain.encode(features), part))
    ours.save(tmp_path / "e.safetensors")
    loaded = load_encoder(tmp_path / "e.safetensors")
    assert (loaded.source, loaded) == (OURS, ours)


def test_models_and_sums_keep_it_too(tmp_path: Path) -> None:
    data = fixed_data()
    encoders = [data.encoder.declare(source=source) for source in (OURS, THEIRS)]
    first, second = (count(encoder, data.features, data.labels) for encoder in encoders)
    with pytest.raises(EncoderMismatch):
        first + second
    Model(encoders[0], solve(first)).save(tmp_path / "m.safetensors")
    assert load_model(tmp_path / "m.safetensors").encoder.source == OURS


@pytest.mark.parametrize("source", ["two\nlines", "x" * 1001, 7, ["a"]])
def test_sources_that_are_none(source: Any) -> None:
    encoder = fixed_encoder("linear")
    with pytest.raises(SettingsError):
        encoder.declare(source=source)
    encoder.source = source
    with pytest.raises(WireError):
        restore_encoder(encoder_header(encoder), encoder.arrays())


@pytest.mark.parametrize("trusted", [False, True])
def test_who_may_be_counted_with_what(trusted: bool) -> None:
    check_source("", "", where="f", trusted=trusted)
    check_source(OURS, OURS, where="f", trusted=trusted)
    with pytest.raises(SourceMismatch, match=r"weights=bbbbbbbbbbbb….*weights=aaaaaaaaaaaa…"):
        check_source(OURS, THEIRS, where="f", trusted=trusted)
    for declared, found in [("", OURS), (OURS, "")]:
        if trusted:
            check_source(declared, found, where="f", trusted=True)
        else:
            with pytest.raises(SourceMismatch, match=r"no named source.*--trust-features"):
                check_source(declared, found, where="f")


# --- By the command line -------------------------------------------------------------------


def table(path: Path, source: str) -> Path:
    generator = np.random.default_rng(1)
    tensors = {
        "features": generator.normal(size=(40, 3)).astype(np.float32),
        "labels": generator.integers(0, 2, 40),
    }
    save_file(tensors, path, {"source": source} if source else {})
    return path


def safle(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        run(["--quiet", *map(str, arguments)])
    return int(ended.value.code or 0)


def test_the_sample_or_a_file_names_it(tmp_path: Path) -> None:
    sample, encoder = table(tmp_path / "f.safetensors", OURS), tmp_path / "e.safetensors"
    assert safle("encoder", "make", "--sample", sample, "-o", encoder) == 0
    assert load_encoder(encoder).source == OURS
    declared = ("--range", 0, 1, "--features", 3)
    assert safle("encoder", "make", *declared, "-o", encoder) == 0
    assert load_encoder(encoder).source == ""
    made = safle("encoder", "make", *declared, "--features-source", sample, "-o", encoder)
    assert (made, load_encoder(encoder).source) == (0, OURS)
    plain = table(tmp_path / "plain.safetensors", "")
    made = safle("encoder", "make", *declared, "--features-source", plain, "-o", encoder)
    assert made == 1


@pytest.mark.parametrize(
    ("declared", "found", "code", "trusted"),
    [("", "", 0, 0), (OURS, OURS, 0, 0), (OURS, THEIRS, 1, 1), (OURS, "", 1, 0), ("", OURS, 1, 0)],
)
def test_count_checks_it(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    declared: str,
    found: str,
    code: int,
    trusted: int,
) -> None:
    encoder, output = tmp_path / "e.safetensors", tmp_path / "a.stats"
    safle("encoder", "make", "--sample", table(tmp_path / "s.safetensors", declared), "-o", encoder)
    features = table(tmp_path / "f.safetensors", found)
    arguments = ("count", features, "--encoder", encoder, "-o", output)
    capsys.readouterr()
    assert safle(*arguments) == code
    error = capsys.readouterr().err
    for source in (declared, found):
        assert code == 0 or (source[:28] or "no named source") in error
    assert safle(*arguments, "--trust-features") == trusted


@pytest.mark.parametrize(("found", "code"), [(OURS, 0), ("", 0), (THEIRS, 1)])
def test_a_model_refuses_another_backbones_features(tmp_path: Path, found: str, code: int) -> None:
    place = {name: tmp_path / f"{name}.safetensors" for name in ("encoder", "model")}
    sample, total = table(tmp_path / "s.safetensors", OURS), tmp_path / "a.stats"
    encoder = ("--encoder", place["encoder"])
    safle("encoder", "make", "--sample", sample, "-o", place["encoder"])
    safle("count", sample, *encoder, "-o", total)
    assert safle("solve", total, *encoder, "-o", place["model"]) == 0
    features = table(tmp_path / "f.safetensors", found)
    assert safle("evaluate", place["model"], features) == code
    assert safle("predict", place["model"], features, "-o", tmp_path / "p.csv") == code
