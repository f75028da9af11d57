"""Pickled arrays, as Python 2 wrote them and as Python 3 does."""

from __future__ import annotations

import pickle  # noqa: TID251 (CIFAR is distributed so)

import numpy as np
import pytest

from safle.data.images.pickled import read_pickled_arrays

ROWS = np.arange(12, dtype=np.uint8).reshape(3, 4) * 20


def string(data):
    return b"T" + len(data).to_bytes(4, "little") + data


def test_the_bytes_that_python_2_wrote_for_cifar():
    """Strings without an encoding, and the modules of an old NumPy."""
    pickled = (
        b"\x80\x02}q\x01("
        + string(b"labels")
        + b"]q\x02(K\x00K\x02K\x01e"
        + string(b"data")
        + b"cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\nq\x04K\x00\x85U\x01b\x87R"
        + b"(K\x01K\x03K\x04\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNN"
        + b"J\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
        + string(ROWS.tobytes())
        + b"tbu."
    )
    entries = read_pickled_arrays(pickled, where="here")
    assert entries["labels"] == [0, 2, 1]
    np.testing.assert_array_equal(entries["data"], ROWS)
    assert entries["data"].dtype == np.uint8


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("kind", ["u1", "i2", ">i4", "<u8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_every_protocol(protocol, kind, order):
    array = np.array(ROWS, kind, order=order)
    plain = {"names": ["a", "é"], "more": {"x": (1, None, True), "y": 2.5, "z": ()}, "big": 2**70}
    entries = {b"data": array, "again": array, **plain}
    read = read_pickled_arrays(pickle.dumps(entries, protocol), where="here")
    np.testing.assert_array_equal(read["data"], array)
    np.testing.assert_array_equal(read["again"], array)
    assert {key: read[key] for key in plain} == plain
