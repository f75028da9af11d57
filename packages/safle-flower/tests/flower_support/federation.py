"""A federation's data: some hospitals' tables, an encoder, and what files alone make of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from safle import Encoder, Model, count, load_encoder, open_table, read, solve, write
from safle.server.summing import sum_files
from support.data_sets import fixed_data
from support.tables import write_table


@dataclass(frozen=True)
class Federation:
    """Tables of some clients, and their encoder."""

    folder: Path
    names: tuple[str, ...]

    @staticmethod
    def made(folder: Path, kind: str, sizes: Mapping[str, int]) -> Federation:
        """One of so many samples per client, in a folder."""
        data = fixed_data(kind, sum(sizes.values()))
        data.encoder.save(folder / "encoder.safetensors")
        ends = np.cumsum([*sizes.values()])
        for name, end in zip(sizes, ends, strict=True):
            part = slice(end - sizes[name], end)
            write_table(folder / f"{name}.npz", data.features[part], data.labels[part])
        return Federation(folder, tuple(sizes))

    @property
    def encoder_path(self) -> Path:
        return self.folder / "encoder.safetensors"

    @property
    def encoder(self) -> Encoder:
        return load_encoder(self.encoder_path)

    def table(self, name: str) -> Path:
        return self.folder / f"{name}.npz"

    def statistics_file(self, name: str) -> Path:
        """The contribution that ``safle count`` would write."""
        path = self.folder / f"{name}.stats"
        if not path.exists():
            table = open_table(self.table(name))
            write(path, count(self.encoder, table.features, table.labels))
        return path

    def by_files(self, names: Sequence[str], output: Path) -> bytes:
        """The model of a federation by files of exactly these clients."""
        sum_files([self.statistics_file(name) for name in names], output / "by-files.stats")
        statistics = read(output / "by-files.stats")
        return Model.of(self.encoder, solve(statistics)).to_bytes()

    def pooled(self, names: Sequence[str]) -> bytes:
        """The model of these clients' tables in one."""
        tables = [open_table(self.table(name)) for name in names]
        features = np.concatenate([np.asarray(table.features) for table in tables])
        labels = np.concatenate([table.labels for table in tables])
        statistics = count(self.encoder, features, labels)
        return Model.of(self.encoder, solve(statistics)).to_bytes()
