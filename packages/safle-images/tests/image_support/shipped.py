"""Data sets in the exact formats of their authors, with few images, written byte by byte."""

from __future__ import annotations

import csv
import io
import json
import struct
import tarfile
import zipfile

import numpy as np

from image_support.archives import to_bytes, write_folder

WNIDS = ("n01443537", "n01629819", "n02504458")


def image_of(row, kind="PNG"):
    """Three planes of 32 × 32 as an encoded image, without loss if it is a PNG."""
    from PIL import Image

    pixels = np.asarray(row, np.uint8).reshape(3, 32, 32).transpose(1, 2, 0)
    return to_bytes(Image.fromarray(np.ascontiguousarray(pixels)), kind)


def rows_of(count, seed):
    return np.random.default_rng(seed).integers(0, 256, (count, 3072), dtype=np.uint8)


def binstring(text):
    data = text.encode("latin-1")
    return b"U" + bytes([len(data)]) + data


class Pickle:
    """What Python 2's cPickle, protocol 2, wrote of dictionaries of lists and of NumPy's arrays."""

    def __init__(self):
        self.puts = 0

    def put(self):
        self.puts += 1
        if self.puts < 256:
            return b"q" + bytes([self.puts])
        return b"r" + struct.pack("<i", self.puts)

    def of(self, value):
        if isinstance(value, dict):
            start = b"}" + self.put() + b"("
            return start + b"".join(self.of(k) + self.of(v) for k, v in value.items()) + b"u"
        if isinstance(value, list):
            start = b"]" + self.put()
            items = [self.of(item) for item in value]
            return start + (items[0] + b"a" if len(items) == 1 else b"(" + b"".join(items) + b"e")
        if isinstance(value, str):
            return binstring(value) + self.put()
        if isinstance(value, np.ndarray):
            return self.array(value)
        if value < 256:
            return b"K" + bytes([value])
        return b"M" + struct.pack("<H", value)

    def array(self, value):
        """As the authors' files have it, to the opcode."""
        rows, columns = (self.of(size) for size in value.shape)
        data = value.tobytes()
        return b"".join(
            [
                *(b"cnumpy.core.multiarray\n_reconstruct\n", self.put()),
                *(b"cnumpy\nndarray\n", self.put(), b"K\0\x85U\x01b\x87R", self.put()),
                *(b"(K\x01", rows, columns, b"\x86cnumpy\ndtype\n", self.put()),
                *(b"U\x02u1K\0K\x01\x87R", self.put()),
                *(b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb", b"\x89"),
                *(b"T", struct.pack("<i", len(data)), data, b"tb"),
            ]
        )


def pickled(value):
    return b"\x80\x02" + Pickle().of(value) + b"."


CIFAR_10 = ("airplane", "automobile", "bird", "cat")
FINE, COARSE = ("apple", "aquarium_fish", "baby", "bear"), ("fruit", "fish", "people")


def cifar_parts():
    """Name of a batch -> fine labels, coarse labels, pixels."""
    names = [*(f"data_batch_{at}" for at in range(1, 6)), "test_batch"]
    return {
        name: ([(at + i) % 4 for i in range(3)], [(at + i) % 3 for i in range(3)], rows_of(3, at))
        for at, name in enumerate(names)
    }


def cifar10_python():
    files = {
        name: pickled(
            {
                "batch_label": f"training batch {at} of 5",
                "labels": fine,
                "data": pixels,
                "filenames": [f"{CIFAR_10[label]}_s_{i:06d}.png" for i, label in enumerate(fine)],
            }
        )
        for at, (name, (fine, _, pixels)) in enumerate(cifar_parts().items())
    }
    meta = {"num_cases_per_batch": 10000, "label_names": [*CIFAR_10], "num_vis": 3072}
    files |= {"batches.meta": pickled(meta), "readme.html": b"<meta>"}
    return {f"cifar-10-batches-py/{name}": data for name, data in files.items()}


def cifar10_binary():
    files = {
        f"{name}.bin": b"".join(
            bytes([label]) + row.tobytes() for label, row in zip(fine, pixels, strict=True)
        )
        for name, (fine, _, pixels) in cifar_parts().items()
    }
    files |= {"batches.meta.txt": ("\n".join(CIFAR_10) + "\n\n").encode(), "readme.html": b"<meta>"}
    return {f"cifar-10-batches-bin/{name}": data for name, data in files.items()}


def cifar100_parts():
    return {"train": cifar_parts()["data_batch_1"], "test": cifar_parts()["test_batch"]}


def cifar100_python():
    files = {
        name: pickled(
            {
                "filenames": [f"bos_taurus_s_{i:06d}.png" for i in range(3)],
                "batch_label": f"{name}ing batch 1 of 1",
                "fine_labels": fine,
                "coarse_labels": coarse,
                "data": pixels,
            }
        )
        for name, (fine, coarse, pixels) in cifar100_parts().items()
    }
    meta = {"fine_label_names": [*FINE], "coarse_label_names": [*COARSE]}
    files |= {"meta": pickled(meta), "file.txt~": b""}
    return {f"cifar-100-python/{name}": data for name, data in files.items()}


def cifar100_binary():
    files = {
        f"{name}.bin": b"".join(
            bytes([b, a]) + row.tobytes() for a, b, row in zip(fine, coarse, pixels, strict=True)
        )
        for name, (fine, coarse, pixels) in cifar100_parts().items()
    }
    files["fine_label_names.txt"] = ("\n".join(FINE) + "\n").encode()
    files["coarse_label_names.txt"] = ("\n".join(COARSE) + "\n").encode()
    return {f"cifar-100-binary/{name}": data for name, data in files.items()}


def tiny_imagenet():
    root = "tiny-imagenet-200"
    words = "".join(f"{wnid}\tname of {wnid}, and others\n" for wnid in WNIDS)
    files = {f"{root}/wnids.txt": "\n".join(WNIDS).encode(), f"{root}/words.txt": words.encode()}
    for at, wnid in enumerate(WNIDS):
        files[f"{root}/train/{wnid}/{wnid}_boxes.txt"] = f"{wnid}_0.JPEG\t0\t10\t63\t58\n".encode()
        for i in range(2):
            data = image_of(rows_of(1, 10 * at + i))
            files[f"{root}/train/{wnid}/images/{wnid}_{i}.JPEG"] = data
    lines = [f"val_{i}.JPEG\t{WNIDS[-i]}\t0\t32\t44\t62\n" for i in range(3)]
    files[f"{root}/val/val_annotations.txt"] = "".join(lines).encode()
    for i in range(3):
        files[f"{root}/val/images/val_{i}.JPEG"] = image_of(rows_of(1, 50 + i))
        files[f"{root}/test/images/test_{i}.JPEG"] = image_of(rows_of(1, 60 + i))
    return files


def listed(header, rows):
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    return text.getvalue().encode()


def ham10000():
    rows = [
        ("HAM_0000118", "ISIC_0027419", "bkl", "histo", "80.0", "male", "scalp"),
        ("HAM_0000118", "ISIC_0025030", "bkl", "histo", "80.0", "male", "scalp"),
        ("HAM_0002730", "ISIC_0026769", "mel", "histo", "", "female", "scalp"),
        ("HAM_0001466", "ISIC_0031633", "nv", "follow_up", "75.0", "male", "ear"),
    ]
    header = ("lesion_id", "image_id", "dx", "dx_type", "age", "sex", "localization")
    files = {"HAM10000_metadata.csv": listed(header, rows)}
    for at, row in enumerate(rows):
        part = 1 + at % 2
        files[f"HAM10000_images_part_{part}/{row[1]}.jpg"] = image_of(rows_of(1, at))
    return files


def isic2019():
    classes = ("MEL", "NV", "BCC", "AK", "BKL", "DF", "VASC", "SCC", "UNK")
    names = ("ISIC_0000000", "ISIC_0000002_downsampled", "ISIC_0000013")
    truth = ("NV", "MEL", "UNK")
    rows = [
        (name, *("1.0" if name_of == label else "0.0" for name_of in classes))
        for name, label in zip(names, truth, strict=True)
    ]
    files = {
        "ISIC_2019_Training_GroundTruth.csv": listed(("image", *classes), rows),
        "ISIC_2019_Training_Metadata.csv": b"image,age_approx\nISIC_0000000,55.0\n",
    }
    for at, name in enumerate(names):
        files[f"ISIC_2019_Training_Input/{name}.jpg"] = image_of(rows_of(1, at))
    return files


def medmnist(path, *, grey=False):
    rows = {name: rows_of(4, at) for at, name in enumerate(("train", "val", "test"))}
    arrays = {}
    for name, values in rows.items():
        images = values.reshape(4, 3, 32, 32).transpose(0, 2, 3, 1)
        arrays[f"{name}_images"] = np.ascontiguousarray(images[..., 0] if grey else images)
        arrays[f"{name}_labels"] = np.array([[8], [0], [3], [8]], np.uint8)
    np.savez_compressed(path, **arrays)
    return path


def webdataset(label="cls"):
    """Files of one shard of four samples; classes 0 to 2."""
    files = {}
    for at in range(4):
        key = f"sample{at:06d}"
        value = {"cls": str(at % 3), "txt": f"class {at % 3}\n"}.get(label)
        value = json.dumps({"label": at % 3, "source": "x"}) if value is None else value
        files[f"{key}.png"] = image_of(rows_of(1, at))
        files[f"{key}.{label}"] = value.encode()
    return files


def write_tar(path, files, **kinds):
    """``files`` in a tar, compressed if its name ends so."""
    mode = "w" if path.suffix == ".tar" else "w:gz"
    with tarfile.open(path, mode) as archive:
        for name, data in files.items():
            info = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def write_any(root, files, kind):
    """``files`` as a folder, or in an archive that ends in ``kind``."""
    if kind == "folder":
        return write_folder(root / "folder", files)
    path = root / f"archive{kind}"
    if kind == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in files.items():
                archive.writestr(name, data)
        return path
    return write_tar(path, files)
