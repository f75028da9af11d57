"""CIFAR pickles that are broken or made to run code: refused, and nothing runs."""

from __future__ import annotations

import os
import pickle  # noqa: TID251 (the attack)

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safle.data.images import open_images
from safle.errors import ImageError


def refuses(path, match, **options):
    with pytest.raises(ImageError, match=match) as caught:
        list(open_images(path, **options).records())
    assert str(path.parent) in str(caught.value)


class Attack:
    def __init__(self, call, *arguments):
        self.reduced = call, arguments

    def __reduce__(self):
        return self.reduced


def cifar(folder, batch, meta=None):
    folder.mkdir(exist_ok=True)
    (folder / "test_batch").write_bytes(batch)
    (folder / "batches.meta").write_bytes(meta or pickle.dumps({"label_names": ["a", "b"]}))
    return folder


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_that_runs_code_does_not(tmp_path, protocol):
    mark = tmp_path / "ran"
    for attack in (
        Attack(os.system, f"touch {mark}"),
        Attack(eval, f"open({str(mark)!r}, 'w')"),
        Attack(getattr, mark, "touch"),
    ):
        for bytes_ in (pickle.dumps(attack, protocol), pickle.dumps({"data": attack}, protocol)):
            refuses(cifar(tmp_path / "c", bytes_), "could run code.*delete it")
            refuses(cifar(tmp_path / "c", b"", bytes_), "could run code.*delete it")
    assert not mark.exists()


@pytest.mark.parametrize(
    "program",
    [
        b"cposix\nsystem\n(S'true'\ntR.",
        b"(S'true'\niposix\nsystem\n.",
        b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x04true\x85R.",
        b"cnumpy\nsave\n.",
        b"cnumpy.core.multiarray\n_reconstruct\n}b.",
        b"]}R.",
        b"\x80\x02cnumpy\ndtype\n)\x81.",
        b"Pmoby\n.",
        b"\x82\x01.",
    ],
)
def test_instructions_that_call_are_not_understood(tmp_path, program):
    refuses(cifar(tmp_path / "c", program), "could run code")


@pytest.mark.parametrize(
    "program",
    [
        b"\x80\x02}r\xff\xff\xff\xff.",  # A memo of 2**32 places.
        b"\x80\x04\x8e" + (2**62).to_bytes(8, "little") + b"x.",
        b"\x80\x05\x96" + (2**33).to_bytes(8, "little") + b"x.",
        b"\x80\x02T\xff\xff\xff\x7fx.",
        b"R.",
        b"t.",
        b"",
        b".",
        b"}(K\x01tu.",
        b"K\x01K\x02a.",
        b"(((((",
        b"cnumpy\ndtype\n(S'O8'\ntR.",
        b"K\x01.",
    ],
)
def test_pickles_that_make_no_sense(tmp_path, program):
    refuses(cifar(tmp_path / "c", program), "download it again")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"}", b"K\x01s."),  # A key.
        (b"}(S'label_names'\n](", b"eu."),
        (b"}(S'label_names'\n", b"u."),
        (b"cnumpy\ndtype\n", b"\x85R."),
        (b"cnumpy\ndtype\n(S'u1'\ntRK\x03", b"\x86b."),
        (b"", b"."),
    ],
)
def test_values_that_would_be_printed_for_ever(tmp_path, before, after):
    program = before + b"K\x01" + b"2\x86" * 60 + after
    refuses(cifar(tmp_path / "c", b"", program), "download it again")
    refuses(cifar(tmp_path / "c", program), "download it again")


@given(data=st.binary(max_size=60))
def test_any_pickle_is_refused_or_plain(tmp_path_factory, data):
    folder = tmp_path_factory.getbasetemp() / "pickles"
    for program in (data, b"\x80\x02}(" + data + b"u.", b"cnumpy\ndtype\n(" + data):
        with pytest.raises(ImageError):
            list(open_images(cifar(folder, program)).records())


def test_cifar_that_does_not_fit_together(tmp_path):
    rows = np.zeros((2, 3072), np.uint8)
    for entries, match in (
        ({"data": rows, "labels": [0, 2]}, "labels from 0 to 2; expected 0 to 1"),
        ({"data": rows, "labels": [0]}, "2, 3072.* 1 labels"),
        ({"data": rows.astype(np.int64), "labels": [0, 1]}, "int64"),
        ({"data": rows, "labels": ["a", "b"]}, "expected 'data' and 'labels'"),
        ({"data": rows, "labels": [0, 10**30]}, "expected 'data' and 'labels'"),
        ({"labels": [0, 1]}, "has labels; expected 'data'"),
    ):
        refuses(cifar(tmp_path / "c", pickle.dumps(entries)), match)
    refuses(cifar(tmp_path / "c", b"", pickle.dumps({"x": 1})), "no 'label_names'")
    (tmp_path / "test_batch.bin").write_bytes(bytes(3000))
    (tmp_path / "batches.meta.txt").write_text("a\nb\n")
    (tmp_path / "c" / "batches.meta").unlink()
    refuses(tmp_path, "3000 bytes, not a multiple of 3073")
