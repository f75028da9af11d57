"""Files of moments: what an encoder can be made of without a sample."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import save_file

from safle import load_encoder, make_encoder, read_moments
from safle.encoders.calibration import declared_moments
from safle.errors import TableError

MEAN, DEVIATION = [5.0, 100.0, 0.5], [2.0, 15.0, 0.1]


def test_the_encoder_is_that_of_the_same_numbers_and_knows_its_source(tmp_path, safle):
    arrays = {"mean": np.array(MEAN), "deviation": np.array(DEVIATION)}
    save_file(arrays, tmp_path / "m.safetensors", metadata={"source": "network a"})
    moments = ("--moments", tmp_path / "m.safetensors")
    safle("encoder", "make", *moments, "-o", tmp_path / "b.safetensors")
    known = load_encoder(tmp_path / "b.safetensors")
    assert known.contract.source == "network a"
    assert known.declare(source="") == make_encoder(declared_moments(MEAN, DEVIATION))
    other = {"features": np.zeros((2, 3), np.float32)}
    save_file(other, tmp_path / "f.safetensors", metadata={"source": "network b"})
    declared = ("--features-source", tmp_path / "f.safetensors")
    refused = safle("encoder", "make", *moments, *declared, "-o", tmp_path / "c.st", code=1)
    assert "network a" in refused
    assert "network b" in refused


@pytest.mark.parametrize(
    ("arrays", "metadata"),
    [
        ({"mean": np.zeros(3)}, {}),
        ({"mean": np.zeros(3), "deviation": np.ones(4)}, {}),
        ({"mean": np.zeros((3, 1)), "deviation": np.ones((3, 1))}, {}),
        ({"mean": np.full(3, np.nan), "deviation": np.ones(3)}, {}),
        ({"mean": np.zeros(3), "deviation": -np.ones(3)}, {}),
        ({"mean": np.zeros(3), "deviation": np.ones(3)}, {"source": "two\nlines"}),
    ],
)
def test_files_that_hold_no_moments(tmp_path, arrays, metadata):
    path = tmp_path / "m.safetensors"
    save_file(arrays, path, metadata=metadata)
    whole = path.read_bytes()
    for content in (whole, whole[:-1], b"", b"\xff" * 40):
        path.write_bytes(content)
        with pytest.raises(TableError, match=r"m\.safetensors"):
            read_moments(path)
