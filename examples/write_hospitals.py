"""Write four real hospitals' CSV files: `python examples/write_hospitals.py hospitals`.

`a.csv` is Cleveland, `b.csv` Budapest, `c.csv` Zurich and Basel, `d.csv` Long Beach: the UCI Heart
Disease data (heart/README.md has the source and the licence). A third of each hospital's patients
goes to `a-held-out.csv` and so on. `label` says whether a vessel of the heart is narrowed. Numbers
are written one way (Cleveland has 1.0 for 1); nothing else is changed: `?` stays.
"""

import csv
import sys
from pathlib import Path

from sklearn.model_selection import train_test_split

SOURCE = Path(__file__).parent / "heart"
HOSPITALS = {"a": "cleveland", "b": "hungarian", "c": "switzerland", "d": "va"}


def plain(cell: str) -> str:
    """A number as it is written everywhere: 1 for 1.0, 0.7 for .7; a question mark stays."""
    return cell if cell == "?" else f"{float(cell):g}"


def write(path: Path, rows: list[dict[str, str]]) -> None:
    """A table with these rows."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    print(f"{path}: {len(rows)} patients")


folder = Path(sys.argv[1] if len(sys.argv) > 1 else "hospitals")
folder.mkdir(parents=True, exist_ok=True)

for name, source in HOSPITALS.items():
    patients = []
    with (SOURCE / f"{source}.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            label = "healthy" if float(row.pop("num")) == 0 else "diseased"
            cells = {column: plain(cell) for column, cell in row.items()}
            patients.append(cells | {"label": label})
    labels = [patient["label"] for patient in patients]
    counted, held_out = train_test_split(patients, test_size=1 / 3, random_state=0, stratify=labels)
    write(folder / f"{name}.csv", counted)
    write(folder / f"{name}-held-out.csv", held_out)
