"""Encoder and model files from strangers: a `WireError`, or the very same value."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save as to_safetensors

from safle import Model, load_encoder, load_model, solve
from safle.errors import WireError
from support.data_sets import KINDS, fixed_data


@pytest.fixture(scope="module")
def models():
    """A saved model of every encoder kind."""
    made = {}
    for kind in KINDS:
        data = fixed_data(kind, 60)
        statistics = data.count()
        made[kind] = Model.of(data.encoder, solve(statistics, ridge=1.0))
    return made


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("hostile") / "file.safetensors"


def taken_apart(data):
    size = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8 : 8 + size])
    meta = header.pop("__metadata__")
    dtypes = {
        "F64": np.float64,
        "F32": np.float32,
        "I64": np.int64,
        "I32": np.int32,
        "I16": np.int16,
    }
    arrays = {}
    for name, place in header.items():
        first, last = place["data_offsets"]
        raw = data[8 + size + first : 8 + size + last]
        arrays[name] = np.frombuffer(raw, dtypes[place["dtype"]]).reshape(place["shape"])
    return json.loads(meta["safle"]), arrays


def canonical(header):
    # As safle writes it: otherwise every lie would be refused for its form alone.
    return json.dumps(header, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def put_together(header, arrays):
    text = header if isinstance(header, str) else canonical(header)
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return to_safetensors(whole, metadata={"safle": text})


def refuse(path, load, content, match=None):
    path.write_bytes(content)
    with pytest.raises(WireError, match=match):
        load(path)


def refuse_lie(path, load, header, arrays, match=None):
    refuse(path, load, put_together(header, arrays), match)


def without(mapping, name):
    return {key: value for key, value in mapping.items() if key != name}


def both(models, kind):
    model = models[kind]
    return [(model.encoder.to_bytes(), load_encoder), (model.to_bytes(), load_model)]


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=60)
def test_damage_gives_a_wire_error_or_another_valid_file(models, path, kind, data):
    for true, load in both(models, kind):
        damaged = bytearray(true)
        for _ in range(data.draw(st.integers(1, 3))):
            damaged[data.draw(st.integers(0, len(true) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        path.write_bytes(bytes(damaged))
        try:
            loaded = load(path)
        except WireError:
            continue
        # Safetensors has no checksum: a changed number is another encoder, and says so.
        path.write_bytes(loaded.to_bytes())
        assert load(path).to_bytes() == loaded.to_bytes()
        if load is load_encoder and loaded != models[kind].encoder:
            assert loaded.fingerprint != models[kind].encoder.fingerprint


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=40)
def test_truncated_and_foreign_files_are_refused(models, path, kind, data):
    for true, load in both(models, kind):
        cut = data.draw(st.integers(0, len(true) - 1))
        for content in (true[:cut], true + b"\0", data.draw(st.binary(max_size=100))):
            refuse(path, load, content)


def test_a_safetensors_file_that_is_not_ours_is_refused(models, path):
    array = {"weight": np.zeros(3, np.float32)}
    for content in (
        to_safetensors(array),
        to_safetensors(array, metadata={"format": "pt"}),
        to_safetensors(array, metadata={"safle": "{}"}),
        to_safetensors(array, metadata={"safle": "[]"}),
        to_safetensors(array, metadata={"safle": "null"}),
        to_safetensors(array, metadata={"safle": '"x"'}),
        to_safetensors(array, metadata={"safle": "{"}),
        to_safetensors(array, metadata={"safle": "[" * 100_000}),
        to_safetensors(array, metadata={"safle": '{"format":' * 50_000}),
    ):
        for load in (load_encoder, load_model):
            refuse(path, load, content)
    refuse(path, load_encoder, models["linear"].to_bytes(), "not a safle encoder")
    path.write_bytes(models["linear"].encoder.to_bytes())
    with pytest.raises(WireError, match="not a safle model") as error:
        load_model(path)
    assert str(path) in str(error.value)


NONSENSE = [None, True, -1, 0.5, 2**70, "x", [], [1], {}, {"a": 1}]
OTHER_VALUES = {
    "ridge": ["nan", "inf", "-0x1p+0", "0x1p+99999"],
    "head": ["other"],
    "classes": [[2, 1, 0], [0, 1], [0, 1, "2"], [0, 1, 2**63]],
    "encoder": ["{}", "[" * 100_000],
}
"""Lies of the right type, in the header of a model."""


@pytest.mark.parametrize("kind", KINDS)
def test_headers_must_make_sense(models, path, kind):
    for true, load in both(models, kind):
        header, arrays = taken_apart(true)
        for name in header:
            others = OTHER_VALUES.get(name, []) if load is load_model else []
            for lie in (*NONSENSE, *others):
                refuse_lie(path, load, {**header, name: lie}, arrays)
            # Without a temperature, it is a model without one.
            if name != "temperature":
                refuse_lie(path, load, without(header, name), arrays)
    header, arrays = taken_apart(models[kind].encoder.to_bytes())
    for name in header["settings"]:
        for lie in (*NONSENSE, 10**300):
            changed = {**header, "settings": {**header["settings"], name: lie}}
            refuse_lie(path, load_encoder, changed, arrays)


def lies_of(name, array):
    """Other types, shapes and values of an array in a file."""
    if name == "codes":
        far = [array[::-1], array - array[0] - 1, array + 10**6, array * 0] if len(array) else []
        return [array.astype(np.float64), array[None], np.arange(3), *far]
    floats = array.dtype.kind == "f"
    types = {np.float64, np.float32, np.int64, np.int32, np.int16} - {array.dtype.type}
    wrong = [np.nan, np.inf] if floats else [np.iinfo(array.dtype).min]
    return [
        *(array.astype(other) for other in types if floats or other(array.max()) == array.max()),
        array[:-1],
        array[..., :-1],
        array[None],
        *(np.full_like(array, value) for value in wrong),
        np.zeros((0, 0), array.dtype),
        array.dtype.type(3.0).reshape(()),
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_must_make_sense(models, path, kind):
    for true, load in both(models, kind):
        header, arrays = taken_apart(true)
        for name, array in arrays.items():
            for lie in lies_of(name, array):
                refuse_lie(path, load, header, {**arrays, name: lie})
            refuse_lie(path, load, header, without(arrays, name))


@pytest.mark.parametrize("kind", KINDS)
def test_an_encoder_of_a_version_with_another_layout_is_refused(models, path, kind):
    header, arrays = taken_apart(models[kind].encoder.to_bytes())
    path.write_bytes(put_together(header, arrays))
    assert load_encoder(path) == models[kind].encoder
    other = [*header["layout"][:-1], header["layout"][-1] | {"name": "other"}]
    for lie in (other, [], {}, None):
        refuse_lie(path, load_encoder, {**header, "layout": lie}, arrays, "make the encoder again")


def test_a_header_has_one_text(models, path):
    header, arrays = taken_apart(models["linear"].encoder.to_bytes())
    refuse_lie(path, load_encoder, json.dumps(header), arrays, "make the encoder again")


def test_a_missing_file_is_named(tmp_path):
    for load in (load_encoder, load_model):
        with pytest.raises(FileNotFoundError, match="nothing-here"):
            load(tmp_path / "nothing-here")
