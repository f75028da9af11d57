"""Four hospitals' tables as hospitals have them, of scikit-learn's breast_cancer."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer

SITES = ("a", "b", "c", "d")
MARKS = {"a": "", "b": "NA", "c": "?", "d": "n/a"}


def make_rows() -> tuple[list[dict[str, str]], np.ndarray]:
    """Patients, by column, and the place of each one's site."""
    data = load_breast_cancer()
    generator = np.random.default_rng(5)
    owners = generator.integers(0, 4, len(data.target))
    rows = []
    for number, (values, target) in enumerate(zip(data.data, data.target, strict=True)):
        row = {str(n): f"{v:.6g}" for n, v in zip(data.feature_names, values, strict=True)}
        for name in ("mean texture", "mean area", "worst symmetry"):
            if generator.random() < 0.08:
                row[name] = ""
        # Site d never saw a patient of the west, and a lone patient is nobody's level.
        regions = ["north", "south", "west"][: 2 if owners[number] == 3 else 3]
        row["region"] = generator.choice(regions) if generator.random() > 0.05 else ""
        row["family history"] = str(generator.choice(["no", "yes"], p=[0.8, 0.2]))
        row["label"] = str(data.target_names[target])
        rows.append(row)
    rows[int(np.flatnonzero(owners == 1)[0])]["region"] = "abroad"
    return rows, owners


def write_rows(path: Path, rows: list[dict[str, str]], site: str = "") -> Path:
    """``rows`` in the manner of a site: columns shuffled, IDs, gaps, one with decimal commas."""
    generator = np.random.default_rng(sum(map(ord, site)))
    names = [str(name) for name in generator.permutation([*rows[0]])] if site else [*rows[0]]
    more = {"patient": "p{}"} if site else {}
    # One site measures something else, with its unit.
    more |= {"nodes (mm)": "{} mm"} if site == "c" else {}
    comma = site == "d"
    with path.open("w", encoding="utf-8-sig" if comma else "utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=";" if comma else ",")
        writer.writerow([*more, *names])
        for number, row in enumerate(rows):
            cells = [row[name] or MARKS.get(site, "") for name in names]
            cells = [cell.replace(".", ",") for cell in cells] if comma else cells
            writer.writerow([*(text.format(number + 7) for text in more.values()), *cells])
    return path
