"""A whole federation on scikit-learn's digits: 100 clients, one round, through real files.

Every client has a file of features and counts it into a statistics file. The server adds the
statistics files and solves the sum. A linear encoder (AFL), the paper's (SAFLe) and our default go
through the same steps. The result is a page in one file.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, balanced_accuracy_score, confusion_matrix

from safle import (
    DEFAULT_KIND,
    Encoder,
    Limits,
    Model,
    RidgeCurve,
    Statistics,
    count_table,
    declared_range,
    make_encoder,
    open_table,
    read,
    solve,
    sum_files,
    write,
)
from safle.basics import atomic, render_page
from safle_lab.charts import SHARED_TEMPLATES, Chart, Mix, Series, draw
from safle_lab.demo.masking import add_privately
from safle_lab.digits import Digits, load_digits
from safle_lab.partitions import Parts, class_mix, partition

PIXELS = declared_range(0, 16, 64)
"""A digit is 8 x 8 pixels of 0 to 16: a range everybody knows without seeing data."""

Head = Literal["auto", "least-squares"]
Method = tuple[str, str, Head]
"""A method's name, the kind of its encoder, and its head."""
AFL: Method = ("AFL (linear)", "linear", "least-squares")
SAFLE: Method = ("SAFLe (the paper's)", "embedding", "least-squares")
DEFAULT: Method = ("safle's default", DEFAULT_KIND, "auto")

Announce = Callable[[str], None]
"""Called with a sentence about what is done next."""


@dataclass(frozen=True)
class Result:
    """One method's line of the table.

    Attributes
    ----------
    megabytes_per_client : what a client sends, and the encoder and the model that it receives
    digests : the model's digest for each way to add
    bytes_sent : the size of each client's file
    """

    method: str
    accuracy: float
    balanced_accuracy: float
    megabytes_per_client: float
    seconds: float
    digest: str
    digests: dict[str, str]
    bytes_sent: list[int]

    @property
    def same_model(self) -> bool:
        """Whether every way to split and add the data gave the same bytes."""
        return set(self.digests.values()) == {self.digest}


def run_demo(
    output: Path,
    *,
    clients: int = 100,
    alpha: float = 0.1,
    seed: int = 0,
    announce: Announce = lambda _: None,
) -> list[Result]:
    """Run the demo; page, results and all files of the federation go to ``output``."""
    data = load_digits(seed=seed)
    generator = np.random.default_rng(seed)
    scenario = f"alpha={alpha}"
    parts = partition(data.train_labels, scenario, clients=clients, generator=generator)
    folder = output / "federation"
    tables = _deal_out(data, parts, folder)
    sizes = [len(part) for part in parts]
    announce(
        f"{len(data.train):,} handwritten digits are dealt out to {clients} clients, very "
        f"unequally: one holds {max(sizes)} of them, {sizes.count(0)} hold none. Each counts a "
        "file of its own and sends the counts once; the server adds them up and solves one system. "
        "The whole federation runs three times, with another encoder each time."
    )
    results = []
    for method in (AFL, SAFLE, DEFAULT):
        announce(f"{method[0]} ...")
        result, model, curve = _federate(method, folder, tables, data)
        results.append(result)
    settings = {"clients": clients, "alpha": alpha, "seed": seed, "test_samples": len(data.test)}
    content = {"settings": settings, "results": [asdict(result) for result in results]}
    atomic.write_text(output / "results.json", json.dumps(content, indent=2) + "\n")
    confusions = confusion_matrix(data.test_labels, model.predict(data.test))
    mix = class_mix(data.train_labels, parts)
    page = _render(results, mix, confusions, curve, model.class_names)
    atomic.write_text(output / "index.html", page)
    return results


def _deal_out(data: Digits, parts: Parts, folder: Path) -> list[Path]:
    """Write a table for each client, and tables of all samples; return the clients' tables."""
    atomic.make_folder(folder)
    tables = [folder / f"client-{client:03d}.npz" for client in range(len(parts))]
    for table, part in zip(tables, parts, strict=True):
        _write_table(table, data.train[part], data.train_labels[part])
    _write_table(folder / "train.npz", data.train, data.train_labels)
    _write_table(folder / "test.npz", data.test, data.test_labels)
    return tables


def _write_table(path: Path, features: NDArray[Any], labels: NDArray[Any]) -> None:
    with atomic.replacing(path) as scratch, scratch.open("wb") as file:
        np.savez(file, allow_pickle=False, features=features, labels=labels)


def _federate(
    method: Method, folder: Path, tables: Sequence[Path], data: Digits
) -> tuple[Result, Model, RidgeCurve]:
    """One round of one method, and the same data split in other ways."""
    name, kind, head = method
    encoder = make_encoder(PIXELS, kind)
    place = folder / kind
    atomic.make_folder(place)
    encoder.save(place / "encoder.safetensors")
    start = time.perf_counter()
    sent = [_count_file(encoder, table, place / f"{table.stem}.stats") for table in tables]
    model, curve = _sum_and_solve(encoder, head, sent, place / "total")
    seconds = time.perf_counter() - start
    alone = _count_file(encoder, folder / "train.npz", place / "train.stats")
    pooled, _ = _sum_and_solve(encoder, head, [alone], place / "pooled")
    masked = _solve_under_masks(encoder, sent, head, data)
    shuffled = [sent[i] for i in np.random.default_rng(1).permutation(len(sent))]
    reordered, _ = _sum_and_solve(encoder, head, shuffled, place / "shuffled")
    predicted = model.predict(data.test)
    sizes = [path.stat().st_size for path in sent]
    received = len(encoder.to_bytes()) + len(model.to_bytes())
    result = Result(
        name,
        accuracy=float(accuracy_score(data.test_labels, predicted)),
        balanced_accuracy=float(balanced_accuracy_score(data.test_labels, predicted)),
        megabytes_per_client=(float(np.mean(sizes)) + received) / 1e6,
        seconds=seconds,
        digest=model.digest,
        digests={
            f"{len(sent)} clients": model.digest,
            "1 client": pooled.digest,
            f"{len(sent)} clients, shuffled": reordered.digest,
            **masked,
        },
        bytes_sent=sizes,
    )
    return result, model, curve


def _solve_under_masks(
    encoder: Encoder, sent: Sequence[Path], head: Head, data: Digits
) -> dict[str, str]:
    """A private round's name and its model's digest; empty if no private round is run."""
    # With the paper's encoder, the only one here with experts, every client would send 30 MB.
    if encoder.layout.experts or len(sent) < 2:
        return {}
    classes = sorted({*data.train_labels.tolist()})
    zero = Statistics.empty(encoder.space, classes)
    total = add_privately(zero, len(data.train), {path.stem: partial(read, path) for path in sent})
    model = Model.of(encoder, solve(total, head=head))
    return {f"{len(sent)} clients, under masks": model.digest}


def _count_file(encoder: Encoder, table: Path, output: Path) -> Path:
    total, _, _ = count_table(encoder, open_table(table), where=table)
    write(output, total)
    return output


def _sum_and_solve(
    encoder: Encoder, head: Head, sent: Sequence[Path], base: Path
) -> tuple[Model, RidgeCurve]:
    total = base.with_suffix(".stats")
    # A split may leave clients without samples.
    sum_files(sent, total, space=encoder.space, limits=Limits(allow_empty=True))
    solution = solve(read(total), head=head)
    model = Model.of(encoder, solution)
    model.save(base.with_suffix(".safetensors"))
    assert solution.curve is not None, "ridge='auto' keeps its curve"
    return model, solution.curve


def _render(
    results: Sequence[Result],
    mix: NDArray[Any],
    confusions: NDArray[Any],
    curve: RidgeCurve,
    names: Sequence[object],
) -> str:
    """The page: who held what, what each client sent, and ridge and confusions of the last result.

    Parameters
    ----------
    mix : samples by client and class, (clients, class_count)
    confusions : of the last result's model, (class_count, class_count)
    curve : of the same model's ridge
    """
    result, sizes = results[-1], mix.sum(axis=1)
    kilobytes = np.array(result.bytes_sent) / 1e3
    return render_page(
        ("safle_lab.demo", *SHARED_TEMPLATES),
        "demo.html.j2",
        draw=draw,
        result=result,
        results=results,
        clients=len(mix),
        samples=int(mix.sum()),
        empty_clients=int((sizes == 0).sum()),
        largest_client=int(sizes.max()),
        test_samples=int(confusions.sum()),
        median_classes=int(np.median((mix > 0).sum(axis=1))),
        most_kilobytes=float(kilobytes.max()),
        held=Mix(
            "One bar for each client, one colour for each digit.",
            mix.tolist(),
            [str(name) for name in names],
        ),
        sent=Mix(
            "The one file that each client sent, in the same order.",
            kilobytes[:, None].tolist(),
            ["statistics"],
            unit="kB",
        ),
        ridge=_draw_ridge(curve),
        class_names=names,
        confusion=dict(zip(names, confusions.tolist(), strict=True)),
    )


def _draw_ridge(curve: RidgeCurve) -> Chart:
    usable = np.isfinite(curve.scores)
    return Chart(
        "Lower is better. The server has tried every ridge on the sum of the counts.",
        "ridge",
        "estimated error",
        [Series("score", curve.ridges[usable], curve.scores[usable])],
        log_base=10,
        marks=[(f"chosen: {curve.best:.3g}", curve.best)],
    )
