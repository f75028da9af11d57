"""Archives that are broken or made to do harm: refused, with what to do."""

from __future__ import annotations

import os
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_support.archives import encoded, refuses, write_folder, write_parquet, write_zip
from safle.errors import ImageError, SafleError
from safle_images.readers import decode, open_images


@pytest.mark.parametrize(
    "name", ["../1.png", "cat/../../1.png", "/etc/1.png", "..\\1.png", "C:/1.png"]
)
def test_names_that_lead_out_of_an_archive(tmp_path, name):
    refuses(write_zip(tmp_path / "z.zip", {name: b"x"}), "expected names inside the archive")


def test_links_in_a_zip(tmp_path):
    link = zipfile.ZipInfo("cat/1.png")
    link.external_attr = 0o120777 << 16
    refuses(write_zip(tmp_path / "z.zip", [(link, b"/etc/passwd")]), "not a regular file")


def test_pipes_and_dead_links_in_a_folder(tmp_path):
    folder = tmp_path / "a" / "cat"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "1.png")
    refuses(folder.parent, "cat/1.png is not a regular file")
    (folder / "1.png").unlink()
    (folder / "1.png").symlink_to("nowhere")
    refuses(folder.parent, "cannot be read: No such file")


def test_members_that_are_too_large(tmp_path):
    bomb = bytes(2**20)
    write_zip(tmp_path / "z.zip", {"cat/1.png": bomb})
    write_folder(tmp_path / "d", {"cat/1.png": bomb})
    (tmp_path / "l.csv").write_text("path\nd/cat/1.png")
    for name in ("z.zip", "d", "l.csv"):
        refuses(tmp_path / name, "has 1048576 bytes; expected at most 1000", most_bytes=1000)
        source = open_images(tmp_path / name, label_column="")
        assert len(next(source.records()).data) == 2**20


def test_archive_with_the_same_name_twice(tmp_path):
    with pytest.warns(UserWarning, match="Duplicate"):
        path = write_zip(tmp_path / "z.zip", [("cat/1.png", b"x"), ("cat/1.png", b"y")])
    refuses(path, "has cat/1.png twice")
    path = write_zip(tmp_path / "y.zip", {"cat/1.png": b"x", "./cat/1.png": b"y"})
    refuses(path, "has cat/1.png twice")


def test_one_broken_member_of_a_zip_is_one_unreadable_image(tmp_path):
    path = write_zip(tmp_path / "z.zip", {f"cat/{at}.png": encoded() for at in range(3)})
    data = bytearray(path.read_bytes())
    data[data.find(b"cat/1.png") + 60] ^= 1
    path.write_bytes(data)
    first, second, third = open_images(path, layout="folders").records()
    assert decode(first.data).shape == decode(third.data).shape
    with pytest.raises(ImageError, match="Bad CRC-32"):
        decode(second.data)


def test_a_file_that_is_gone_is_one_unreadable_image(tmp_path):
    folder = write_folder(tmp_path, {f"cat/{at}.png": encoded() for at in range(3)})
    source = open_images(folder, layout="folders")
    (tmp_path / "cat" / "0.png").unlink()
    (tmp_path / "cat" / "1.png").write_bytes(b"longer or shorter")
    gone, changed, good = source.records()
    for record, reason in ((gone, "No such file"), (changed, "no longer has")):
        with pytest.raises(ImageError, match=reason):
            decode(record.data)
    assert decode(good.data).shape == (8, 8, 3)


@pytest.mark.parametrize("suffix", ["zip", "parquet"])
@given(share=st.floats(0.0, 1.0, exclude_max=True))
def test_an_archive_cut_short(tmp_path_factory, suffix, share):
    folder = tmp_path_factory.getbasetemp() / "cut"
    folder.mkdir(exist_ok=True)
    whole = folder / f"whole.{suffix}"
    if not whole.exists():
        make_whole(whole)
    data = whole.read_bytes()
    cut = folder / f"cut.{suffix}"
    cut.write_bytes(data[: int(share * (len(data) - 16))])
    refuses(cut, "again")


def make_whole(path):
    members = {f"cat/{at}.png": encoded() for at in range(4)}
    if path.suffix == ".parquet":
        write_parquet(path, {"image": [*members.values()]})
    else:
        write_zip(path, members)


@given(data=st.binary(max_size=300))
def test_any_bytes_are_refused_by_every_reader(tmp_path_factory, data):
    folder = tmp_path_factory.getbasetemp() / "any"
    folder.mkdir(exist_ok=True)
    for name in ("x.zip", "x.csv", "x.parquet"):
        (folder / name).write_bytes(data)
        with pytest.raises(SafleError):
            list(open_images(folder / name).records())
