"""Files of torch tensors (.pt, .pth) -> tables: what a script that extracts features saves.

torch reads them with ``weights_only``: it builds tensors and plain containers, and runs nothing
else that a file may ask for. No tensor may claim more numbers than the file holds.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from safle import Table, existing_file
from safle.basics import require_package
from safle.errors import TableError

SUFFIXES = (".pt", ".pth")
EXPECTED = (
    "expected what torch.save wrote of a dict with the tensors 'features' and 'labels' (or "
    "'train_features' and so on), or of the tuple (features, labels)"
)


def read_tensors(path: Path, split: str | None = None) -> Table:
    """The features and labels of a file; of a split, if it has several."""
    content = _load(existing_file(path, TableError))
    if isinstance(content, tuple | list) and len(content) == 2:
        content = dict(zip(("features", "labels"), content, strict=True))
    if not isinstance(content, dict):
        raise TableError(f"{path}: holds {type(content).__name__}; {EXPECTED}")
    begin = "" if split is None else f"{split}_"
    if f"{begin}features" not in content:
        found = ", ".join(map(str, [*content][:8])) or "nothing"
        raise TableError(f"{path}: no '{begin}features', only {found[:200]}; {EXPECTED}")
    most = path.stat().st_size
    arrays = [
        _as_array(content[name], most, where=f"{path}: {name!r}")
        for name in (f"{begin}features", f"{begin}labels")
        if name in content
    ]
    features, labels = arrays if len(arrays) > 1 else (arrays[0], None)
    fit = labels is not None and labels.shape == features.shape[:1] and labels.dtype.kind in "iub"
    if features.ndim != 2 or not fit:
        found = " and ".join(f"{array.dtype} {array.shape}" for array in arrays)
        raise TableError(
            f"{path}: {found}; expected features, (samples, features), and labels, class numbers, "
            "(samples,)"
        )
    return Table(features, labels)


def _load(path: Path) -> Any:
    torch = require_package("torch", "safle-lab[torch]", f"reading {path.suffix} files")
    # What torch.save writes is an archive that stores its tensors as they are, each once: what is
    # unpacked is not larger than the file.
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(part.file_size for part in archive.infolist())
    except zipfile.BadZipFile as error:
        raise TableError(f"{path}: not a whole file of torch ({error}); save it again") from None
    if unpacked > path.stat().st_size:
        raise TableError(
            f"{path}: unpacks to {unpacked:,} bytes, more than it has; save it again by torch.save"
        )
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many types for a file that it refuses
        reason = str(error).partition("\n")[0][:200]
        raise TableError(f"{path}: torch does not read it safely ({reason}); {EXPECTED}") from error


def _as_array(value: Any, most: int, *, where: str) -> NDArray[Any]:
    """A tensor of at most ``most`` bytes as an array."""
    import torch

    if not isinstance(value, torch.Tensor):
        raise TableError(f"{where} is {type(value).__name__}; {EXPECTED}")
    odd = value.layout != torch.strided or value.is_quantized or value.is_complex()
    if odd or value.device.type != "cpu":
        found = f"is not an array of real numbers ({value.type()})"
        raise TableError(f"{where} {found}; {EXPECTED}")
    if value.nbytes > most:
        raise TableError(f"{where} claims {value.nbytes:,} bytes, more than the file has")
    if value.dtype in (torch.bfloat16, torch.float16):
        value = value.float()
    array: NDArray[Any] = value.detach().numpy()
    return array
