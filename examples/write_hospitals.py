"""Write four hospitals' CSV files to play with: `python examples/write_hospitals.py hospitals`.

The measurements are scikit-learn's copy of the Wisconsin breast cancer data: 30 numbers from a
digitised image of each tumour, and whether it was benign or malignant. The hospitals are
unequal on purpose: d.csv has malignant tumours only. What a and b hold out
is in no other file.
"""

import csv
import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "hospitals")
folder.mkdir(parents=True, exist_ok=True)

data = load_breast_cancer()
order = np.random.default_rng(0).permutation(len(data.target))
public, test, held_a, held_b, private = np.split(order, [60, 120, 150, 180])
malignant = private[data.target[private] == 0]
others = np.setdiff1d(private, malignant[:60])
held_out = {"a-held-out": held_a, "b-held-out": held_b}
parts = {"a": others[:180], "b": others[180:280], "c": others[280:], "d": malignant[:60]}

for name, rows in {"public": public, **parts, **held_out, "test": test}.items():
    with (folder / f"{name}.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(
            [*(str(column).replace(" ", "_") for column in data.feature_names), "label"]
        )
        for row in rows:
            writer.writerow([*data.data[row], data.target_names[data.target[row]]])
    print(f"{folder / name}.csv: {len(rows)} patients")
