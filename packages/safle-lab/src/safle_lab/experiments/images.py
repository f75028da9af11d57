"""Images -> the data of an experiment: features of both splits, kept beside the results."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from safle.tables import Table, open_table
from safle_images.backbones import load_backbone, write_features
from safle_images.readers import ImageSource, open_images
from safle_lab.experiments.data import DataSet, join_splits

Watch = Callable[[str, ImageSource], AbstractContextManager[dict[str, Any]]]
"""A title and images -> a block in which their progress is shown."""


def name_of(dataset: str, backbone: str) -> str:
    """What results of a data set are called.

    Examples
    --------
    >>> name_of("hf:uoft-cs/cifar100", "resnet18")
    'cifar100-resnet18'
    """
    return f"{Path(dataset.removeprefix('hf:')).stem}-{Path(backbone).stem}"


def load_images(
    dataset: str,
    backbone: str,
    folder: Path,
    *,
    test_split: str,
    watch: Watch,
    label_column: str = "label",
) -> DataSet:
    """Features of a data set's training and test images.

    They are kept in ``folder`` and used again for the same images; a run that was interrupted
    goes on.

    Parameters
    ----------
    dataset : as `safle_images.readers.open_images` takes it, with the split ``train``
    backbone : the default's name, or an ONNX file
    test_split : what the other split is called
    label_column : where labels are, in data sets with columns
    """
    folder.mkdir(parents=True, exist_ok=True)
    network, name = load_backbone(backbone), name_of(dataset, backbone)
    tables: list[Table] = []
    for split in ("train", test_split):
        source = open_images(dataset, split=split, label_column=label_column)
        path = folder / f"{name}-{split}-{source.digest()[:12]}.safetensors"
        # Another backbone of the same name makes other features.
        if not path.exists() or open_table(path).source != network.source:
            with watch(f"features of {split}", source) as options:
                write_features(source, network, path, **options)
        tables.append(open_table(path))
    return join_splits(name, tables, folder)
