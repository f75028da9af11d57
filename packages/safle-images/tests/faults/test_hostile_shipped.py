"""Data sets that are broken or made to do harm: a clear error, nothing run, nothing written."""

from __future__ import annotations

import contextlib
import gzip
import io
import pickletools
import struct
import tarfile
import tracemalloc
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_support import shipped
from image_support.archives import encoded, write_folder, write_parquet, write_zip
from image_support.shipped import write_any, write_tar
from safle.errors import ImageError, SafleError
from safle_images.readers import open_images
from safle_images.readers.opcodes import read_opcodes

# Imported late, it would count as the memory of a reader.
pytest.importorskip("datasets")
TWO = {"cat/1.png": b"x", "dog/1.png": b"x"}


def special(name, kind, target=""):
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = target
    return info


def tar_with(name, **files):
    """A tar of two classes and one more member."""
    return lambda folder: write_tar(folder / "x.tar", TWO | {name: b""})


def zip_link(folder):
    link = zipfile.ZipInfo("bird")
    link.external_attr = 0o120777 << 16
    return write_zip(folder / "x.zip", [*TWO.items(), (link, b"/etc")])


def endless(name):
    """A .tar.gz of some hundred kB, whose one member is 100 MB of zeros and claims 10 TB."""

    def make(folder):
        info = tarfile.TarInfo(name)
        info.size = 10**13
        with gzip.open(folder / "x.tar.gz", "wb", compresslevel=1) as file:
            file.write(info.tobuf(tarfile.GNU_FORMAT))
            for _ in range(100):
                file.write(bytes(10**6))
        return folder / "x.tar.gz"

    return make


def many_zeros(folder):
    """A .tar.gz of 1 MB that unpacks to 1 GB, member by member, none of them large."""
    info = tarfile.TarInfo("cat/1.bin")
    info.size = 10**6 - 10**6 % 512
    part = gzip.compress((info.tobuf() + bytes(info.size)) * 100, 9)
    (folder / "x.tar.gz").write_bytes(part * 10)
    return folder / "x.tar.gz"


def overlapping(folder):
    """A zip of some kB whose 20,000 names are one member of 200 MB: 4 TB."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("cat/1.png", b"x")
    raw = data.getvalue()
    start = raw.find(b"PK\1\2")
    entry = bytearray(raw[start : raw.find(b"PK\5\6")])
    entry[24:28] = struct.pack("<I", 200 * 10**6)
    body = b"".join(bytes(entry).replace(b"cat/1", b"%05d" % at) for at in range(20_000))
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 20_000, 20_000, len(body), start, 0)
    (folder / "x.zip").write_bytes(raw[:start] + body + end)
    return folder / "x.zip"


def damaged(offset, data):
    """A tar whose second header is overwritten from ``offset`` on."""

    def make(folder):
        path = write_tar(folder / "x.tar", TWO)
        with path.open("r+b") as file:
            file.seek(1024 + offset)
            file.write(data)
        return path

    return make


def long_header(folder):
    info = special("x", tarfile.GNUTYPE_LONGNAME)
    info.size = 2**33
    (folder / "x.tar").write_bytes(info.tobuf(tarfile.GNU_FORMAT) + bytes(10240))
    return folder / "x.tar"


def npz(**arrays):
    def make(folder):
        np.savez(folder / "x.npz", **arrays)
        return folder / "x.npz"

    return make


def claimed(folder):
    """An array that claims 10^15 images and holds one."""
    data = io.BytesIO()
    shape = {"descr": "|u1", "fortran_order": False, "shape": (10**15, 28, 28)}
    np.lib.format.write_array_header_1_0(data, shape)
    return write_zip(folder / "x.npz", {"train_images.npy": data.getvalue() + bytes(784)})


def cifar(**files):
    """CIFAR-10's python version with other files in place of some."""

    def make(folder):
        whole = shipped.cifar10_python()
        whole |= {f"cifar-10-batches-py/{name}": data for name, data in files.items()}
        return write_folder(folder / "set", whole)

    return make


def binary_of(length, label=0):
    def make(folder):
        files = shipped.cifar10_binary()
        files["cifar-10-batches-bin/data_batch_1.bin"] = bytes([label]) + bytes(length - 1)
        return write_any(folder, files, ".tar.gz")

    return make


def batch(**changes):
    rows = shipped.rows_of(3, 0)
    return shipped.pickled({"labels": [0, 1, 2], "data": rows} | changes)


def csv_with_breaks(folder):
    (folder / "1.png").write_bytes(b"x")
    (folder / "l.csv").write_text('path,label\n1.png,"cat\nand dog"\n')
    return folder / "l.csv"


def hub_with_breaks(folder):
    names = {"_type": "ClassLabel", "names": ["a\nb", "c"]}
    described = {"image": {"_type": "Image"}, "label": names}
    return write_parquet(folder / "p.parquet", {"image": [b"x"], "label": [0]}, described)


def command(code):
    return cifar(data_batch_1=b"\x80\x02" + code + b".")


SPLIT = {"split": "train"}
BREAKS = r"has the class .*\\n.*one line"
BAD = {
    "a tar's ../": (tar_with("../1.png"), "names inside the archive", {}),
    "a tar's /": (tar_with("/etc/1.png"), "names inside the archive", {}),
    "a tar's .. of a list": (tar_with("a/../../l.csv"), "names inside the archive", {}),
    "a soft link": (tar_with(special("cat/2.png", tarfile.SYMTYPE, "/etc/passwd")), "a link", {}),
    "a hard link": (tar_with(special("cat/2.png", tarfile.LNKTYPE, "cat/1.png")), "a link", {}),
    "a link to a folder": (tar_with(special("bird", tarfile.SYMTYPE, "/etc")), "a link", {}),
    "a device": (tar_with(special("bird", tarfile.CHRTYPE)), "a link or a device", {}),
    "a zip's link to a folder": (zip_link, "a link", {}),
    "terabytes, an image": (endless("cat/1.png"), "claims to unpack to 10,000,000,0", {}),
    "terabytes, no image": (endless("cat/notes.txt"), "claims to unpack to 10,000,000,0", {}),
    "a thousand members": (many_zeros, "claims to unpack to", {}),
    "a zip of terabytes": (overlapping, "claims to unpack to 4,000,000,000,000 bytes", {}),
    "a long header": (long_header, r"a header of 8589934592 bytes", {}),
    "a damaged header": (damaged(100, b"zzzz"), "not a complete tar file", {}),
    "a negative size": (damaged(124, b"\xff" * 12), "not a complete tar file", {}),
    "pickled objects": (
        npz(train_images=np.zeros((2, 8, 8), np.uint8), train_labels=np.array([{}, []], object)),
        "train_labels.npy claims .* of object",
        {},
    ),
    "10^15 images": (claimed, r"claims \(1000000000000000, 28, 28\)", {"label_column": ""}),
    "volumes": (npz(train_images=np.zeros((2, 8, 8, 8), np.uint8)), "holds uint8 of shape", {}),
    "several labels": (
        npz(train_images=np.zeros((2, 8, 8), np.uint8), train_labels=np.zeros((2, 14), np.uint8)),
        "several at once are not read",
        {},
    ),
    "no labels": (
        npz(train_images=np.zeros((2, 8, 8), np.uint8)),
        "has no train_labels.npy; without labels: --label-column",
        {},
    ),
    "half a record": (binary_of(3072), "has 3072 bytes; expected records of 3073", SPLIT),
    "a class without name": (binary_of(3073, label=9), "not among 4 classes", SPLIT),
    "a class without name, pickled": (
        cifar(data_batch_1=batch(labels=[0, 4, 1])),
        "not among 4 classes",
        SPLIT,
    ),
    "fewer labels": (cifar(data_batch_1=batch(labels=[0])), "one of its labels per image", SPLIT),
    "no pixels": (cifar(data_batch_1=batch(data=[1])), "not a whole array", SPLIT),
    "other pixels": (
        cifar(data_batch_1=batch(data=np.zeros((3, 9), np.uint8))),
        "expected 3072 numbers",
        SPLIT,
    ),
    "a pickle cut short": (
        cifar(data_batch_1=batch()[:-900]),
        "data_batch_1: not a complete pickle",
        SPLIT,
    ),
    "a command": (command(b"cos\nsystem\n(U\x07rm -rf /tR"), "GLOBAL 'os system'", SPLIT),
    "a command, protocol 4": (
        command(b"\x8c\x02os\x8c\x06system\x93\x8c\x01x\x85R"),
        "STACK_GLOBAL 'os system'",
        SPLIT,
    ),
    "a command, protocol 0": (command(b"(S'ls'\nios\nsystem\n"), "STRING|INST", SPLIT),
    "a class's making": (command(b"cnumpy\nndarray\nK\x00\x85\x81"), "opcode NEWOBJ", SPLIT),
    "a codec": (command(b"c_codecs\nencode\n"), "GLOBAL '_codecs encode'", SPLIT),
    "breaks in a folder": (
        lambda folder: write_folder(folder / "set", {"a\nb/1.png": b"x", "c/1.png": b"x"}),
        BREAKS,
        {},
    ),
    "breaks in a list": (csv_with_breaks, BREAKS, {}),
    "breaks in a data set": (hub_with_breaks, BREAKS, {}),
    "breaks in CIFAR": (
        cifar(**{"batches.meta": shipped.pickled({"label_names": ["a\nb", "c", "d", "e"]})}),
        BREAKS,
        SPLIT,
    ),
    "breaks in a shard": (
        lambda folder: write_tar(
            folder / "x.tar", {"1.png": encoded(), "1.json": b'{"label": "a\\nb"}'}
        ),
        BREAKS,
        {},
    ),
    "code for torch": (
        lambda folder: write_tar(
            folder / "x.tar", {"1.png": encoded(), "1.cls": b"1", "1.pth": b"x"}
        ),
        "has 1.pth; expected images, .cls",
        {},
    ),
    "two of one name in a shard": (
        lambda folder: write_tar(
            folder / "x.tar", {"1.png": encoded(), "1.cls": b"1", "./1.png": encoded()}
        ),
        "has 1.png twice",
        {},
    ),
}


@pytest.fixture(params=BAD)
def bad(request, tmp_path):
    maker, match, options = BAD[request.param]
    return maker(tmp_path), match, options


def test_shipped_files_are_refused_with_the_place_in_little_memory(bad):
    path, match, options = bad
    tracemalloc.start()
    with pytest.raises(ImageError, match=match) as caught:
        list(open_images(path, **options).records())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert str(path) in str(caught.value)
    assert peak < 100 * 2**20


def test_nothing_is_written(bad, tmp_path, safle):
    path, _, options = bad
    before = sorted(tmp_path.rglob("*"))
    given_options = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    output = tmp_path / "f.safetensors"
    shown = safle("features", str(path), *given_options, "-o", str(output), code=1)
    assert "Traceback" not in shown
    assert sorted(tmp_path.rglob("*")) == before


READ = {
    *("BINBYTES", "BINGET", "BININT", "BININT1", "BININT2"),
    *("BINPUT", "BINSTRING", "BINUNICODE", "SHORT_BINBYTES", "SHORT_BINSTRING"),
    *("SHORT_BINUNICODE", "LONG_BINGET", "LONG_BINPUT", "MEMOIZE", "APPEND"),
    *("APPENDS", "BUILD", "EMPTY_DICT", "EMPTY_LIST", "FRAME"),
    *("MARK", "NEWFALSE", "NEWTRUE", "NONE", "PROTO"),
    *("REDUCE", "SETITEM", "SETITEMS", "STOP", "TUPLE"),
    *("TUPLE1", "TUPLE2", "TUPLE3"),
}
LENGTHS = {-2: 1, -3: 4, -4: 4, -5: 8}
"""Bytes of the length that comes before an argument, by `pickletools`' word for it."""


@pytest.mark.parametrize("opcode", pickletools.opcodes, ids=lambda opcode: opcode.name)
def test_every_other_opcode_is_refused_by_name(opcode):
    """What a pickle can say and CIFAR's files do not; GLOBAL and STACK_GLOBAL by what they name."""
    size = 0 if opcode.arg is None else opcode.arg.n
    argument = b"1\n1\n" if size == pickletools.UP_TO_NEWLINE else bytes(LENGTHS.get(size, size))
    data = b"\x80\x02U\x01xq\0" + opcode.code.encode("latin-1")
    data += (b"'1'\n" if opcode.name == "STRING" else argument) + b"."
    if opcode.name in READ:
        assert read_opcodes(data, "x") == {}
        return
    with pytest.raises(ImageError, match=f"byte 7: the pickle's opcode {opcode.name} "):
        read_opcodes(data, "x")


def test_npz_image_size_is_bounded(tmp_path):
    path = shipped.medmnist(tmp_path / "x.npz")
    assert len(open_images(path, split="test", most_bytes=3072)) == 4
    with pytest.raises(ImageError, match="at most 3071 bytes per image"):
        open_images(path, split="test", most_bytes=3071)


@given(at=st.integers(0, 10**6), value=st.integers(0, 255))
def test_any_flipped_byte_of_a_pickle_is_an_image_or_an_error(tmp_path_factory, at, value):
    folder = tmp_path_factory.getbasetemp() / "flipped"
    data = bytearray(batch())
    data[at % len(data)] = value
    path = cifar(data_batch_1=bytes(data))(folder)
    with contextlib.suppress(ImageError):
        assert len(list(open_images(path, split="train").records())) == 15


@pytest.mark.parametrize("suffix", [".tar", ".tar.gz", ".npz"])
@given(share=st.floats(0.0, 1.0, exclude_max=True))
def test_an_archive_cut_short(tmp_path_factory, suffix, share):
    folder = tmp_path_factory.getbasetemp() / "cut_shipped"
    folder.mkdir(exist_ok=True)
    if suffix == ".npz":
        whole = shipped.medmnist(folder / "whole.npz")
    else:
        whole = write_tar(folder / f"whole{suffix}", shipped.cifar10_binary())
    data = whole.read_bytes()
    # The last blocks of a tar are empty.
    end = len(data) - 16 if suffix != ".tar" else data.rstrip(b"\0").__len__()
    path = folder / f"cut{suffix}"
    path.write_bytes(data[: int(share * end)])
    with pytest.raises(ImageError, match="again"):
        list(open_images(path, split="test").records())


@given(data=st.binary(max_size=1500))
def test_any_bytes_are_refused_by_every_reader(tmp_path_factory, data):
    folder = tmp_path_factory.getbasetemp() / "any_shipped"
    folder.mkdir(exist_ok=True)
    for name in ("x.tar", "x.tar.gz", "x.npz"):
        (folder / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
        with pytest.raises(SafleError):
            list(open_images(folder / name).records())
