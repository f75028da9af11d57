"""The backbone's identity is part of the encoder's: other features cannot be counted by mistake."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest
import rich_click as click
from safetensors.numpy import save_file

from safle import Model, count, load_encoder, load_model, solve
from safle.cli.main import app
from safle.encoders.base import encoder_header, restore_encoder
from safle.errors import EncoderMismatch, SettingsError, WireError
from safle.tables.checks import check_source
from support.data_sets import KINDS, fixed_data, fixed_encoder

OURS, THEIRS = f"resnet18 weights={'a' * 64} crop=224", f"resnet18 weights={'b' * 64} crop=224"


@pytest.mark.parametrize("kind", KINDS)
def test_a_source_changes_the_fingerprint_and_nothing_else(kind, tmp_path):
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
    assert (loaded.contract.source, loaded) == (OURS, ours)


def test_models_and_sums_keep_it_too(tmp_path):
    data = fixed_data()
    encoders = [data.encoder.declare(source=source) for source in (OURS, THEIRS)]
    first, second = (count(encoder, data.features, data.labels) for encoder in encoders)
    with pytest.raises(EncoderMismatch):
        first + second
    Model.of(encoders[0], solve(first)).save(tmp_path / "m.safetensors")
    assert load_model(tmp_path / "m.safetensors").encoder.contract.source == OURS


@pytest.mark.parametrize("source", ["two\nlines", "x" * 1001, 7, ["a"]])
def test_invalid_features_sources_are_refused(source):
    encoder = fixed_encoder("linear")
    with pytest.raises(SettingsError):
        encoder.declare(source=source)
    object.__setattr__(encoder.contract, "source", source)
    with pytest.raises(WireError):
        restore_encoder(encoder_header(encoder), encoder.arrays())


@pytest.mark.parametrize("trusted", [False, True])
def test_features_source_decides_who_is_counted_together(trusted):
    check_source("", "", where="f", trusted=trusted)
    check_source(OURS, OURS, where="f", trusted=trusted)
    with pytest.raises(EncoderMismatch, match=r"weights=bbbbbbbbbbbb….*weights=aaaaaaaaaaaa…"):
        check_source(OURS, THEIRS, where="f", trusted=trusted)
    for declared, found in [("", OURS), (OURS, "")]:
        if trusted:
            check_source(declared, found, where="f", trusted=True)
        else:
            with pytest.raises(EncoderMismatch, match=r"no named source.*--trust-features"):
                check_source(declared, found, where="f")


# --- By the command line -------------------------------------------------------------------


def table(path, source):
    generator = np.random.default_rng(1)
    tensors = {
        "features": generator.normal(size=(40, 3)).astype(np.float32),
        "labels": generator.integers(0, 2, 40),
    }
    save_file(tensors, path, {"source": source} if source else {})
    return path


def test_the_sample_or_a_file_names_it(safle, tmp_path):
    sample, made = table(tmp_path / "f.safetensors", OURS), tmp_path / "e.safetensors"
    declared = ("--range", 0, 1, "--features", 3)
    by_file = (*declared, "--features-source", sample)
    for words, source in ((("--sample", sample), OURS), (declared, ""), (by_file, OURS)):
        safle("encoder", "make", *words, "--force", "-o", made)
        assert load_encoder(made).contract.source == source
    plain = table(tmp_path / "plain.safetensors", "")
    safle("encoder", "make", *declared, "--features-source", plain, "--force", "-o", made, code=1)
    theirs = table(tmp_path / "theirs.safetensors", "another network")
    both = ("--sample", sample, "--features-source", theirs)
    assert "another network" in safle("encoder", "make", *both, "--force", "-o", made, code=1)


@pytest.mark.parametrize(
    ("declared", "found", "code", "trusted"),
    [("", "", 0, 0), (OURS, OURS, 0, 0), (OURS, THEIRS, 1, 1), (OURS, "", 1, 0), ("", OURS, 1, 0)],
)
def test_count_checks_it(safle, tmp_path, declared, found, code, trusted):
    encoder, sample = tmp_path / "e.safetensors", table(tmp_path / "s.safetensors", declared)
    safle("encoder", "make", "--sample", sample, "--force", "-o", encoder)
    features = table(tmp_path / "f.safetensors", found)
    arguments = ("count", features, "--encoder", encoder, "--force", "-o", tmp_path / "a.stats")
    said = safle(*arguments, code=code)
    for source in (declared, found):
        assert code == 0 or (source[:28] or "no named source") in said
    safle(*arguments, "--trust-features", code=trusted)


@pytest.mark.parametrize(("found", "code"), [(OURS, 0), ("", 0), (THEIRS, 1)])
def test_a_model_refuses_another_backbones_features(safle, tmp_path, found, code):
    made, model, total = (tmp_path / name for name in ("e.safetensors", "m.safetensors", "a.stats"))
    sample = table(tmp_path / "s.safetensors", OURS)
    safle("encoder", "make", "--sample", sample, "-o", made)
    safle("count", sample, "--encoder", made, "-o", total)
    safle("solve", total, "--encoder", made, "-o", model)
    features = table(tmp_path / "f.safetensors", found)
    safle("evaluate", model, features, code=code)
    safle("predict", model, features, "-o", tmp_path / "p.csv", code=code)


BESIDE = {
    "count": "THEIRS --encoder ENCODER -o NEW",
    "rehearse": "THEIRS --encoder ENCODER",
    "predict": "MODEL THEIRS -o NEW",
    "evaluate": "MODEL THEIRS --json NEW",
    "card": "MODEL --test THEIRS -o NEW",
    "encoder make": "--sample OURS --features-source THEIRS -o NEW",
    "simulate": "THEIRS --encoder ENCODER --clients 2 --out NEW",
    "experiment": "table1 --features OURS --test THEIRS --out NEW",
}
"""Every command that takes features beside what has a source; words in capitals are files."""
ALONE = {
    "histogram": "one table, and a grid without a source",
    "inspect": "one file",
    "schema draft": "one table of columns",
    "airlock": "it runs count and evaluate",
}


def commands_with_features(group: click.Group = app, before: str = "") -> Iterator[str]:
    """Names of the commands that read a file of features or a table."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands_with_features(command, f"{before}{name} ")
        for own in command.params:
            read = isinstance(own.type, click.Path) and type(own).__name__ != "Written"
            text = str(getattr(own, "help", ""))
            if read and re.search(r"[Ff]eatures|[Tt]able|test samples|^A file", text):
                yield f"{before}{name}"


def test_every_command_that_reads_features_is_named_here():
    images = {"export": "a backbone, which test_joined_export.py compares"}
    named = {*BESIDE, *ALONE, *images}
    assert {*BESIDE} - {"simulate", "experiment"} <= {*commands_with_features()} <= named


@pytest.mark.parametrize("name", BESIDE)
def test_every_command_refuses_features_of_another_backbone(safle, tmp_path, name):
    for house, command in (("safle_flower", "simulate"), ("safle_lab", "experiment")):
        if name == command:
            pytest.importorskip(house)
    files = {word: tmp_path / f"{word}.safetensors" for word in ("OURS", "THEIRS", "ENCODER")}
    files |= {word: tmp_path / f"{word.lower()}.safetensors" for word in ("MODEL", "NEW")}
    table(files["OURS"], OURS)
    table(files["THEIRS"], THEIRS)
    safle("encoder", "make", "--sample", files["OURS"], "-o", files["ENCODER"])
    counted = ("--encoder", files["ENCODER"], "-o", tmp_path / "a.stats")
    safle("count", files["OURS"], *counted)
    safle("solve", tmp_path / "a.stats", *counted[:2], "-o", files["MODEL"])

    said = safle(*name.split(), *(files.get(w, w) for w in BESIDE[name].split()), code=1)

    assert re.search(r"THEIRS.safetensors: made by \[resnet18 weights=bbbbbbbbbbbb", said)
    assert not files["NEW"].exists()
