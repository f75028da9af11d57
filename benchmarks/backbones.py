"""Backbones: JPEG files -> features at 224 pixels, against the same network in torch.

The rival is what a user writes first: decode and resize with Pillow, stack 32 images,
``model(batch)`` in inference mode on all threads torch takes. Both sides do the same decoding
and resizing, on the same CPU. Peak memory is of a whole ``safle features`` process, imports
included.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import pictures
from benchmarks.report import Bar, Disagreement, Outcome
from benchmarks.settings import REPOSITORY, Settings
from benchmarks.timing import race, timed
from safle_images.backbones import DEFAULT, Backbone, extract, load_backbone
from safle_images.backbones.default import build_default, features_of
from safle_images.readers import Record, decode, open_images

IMAGES, MEMORY_IMAGES, QUICK_IMAGES = 256, 1_000, 16
RIVAL_BATCH = 32
SPEEDUP, DIFFERENCE, PEAK = 3.0, 1e-3, 1_500_000_000
Floats = NDArray[np.float32]

CHILD = """
import sys
sys.argv = ["safle", "--quiet", "features", *sys.argv[1:]]
from safle.cli.main import run
try:
    run()
except SystemExit as ended:
    if ended.code:
        raise
# Not getrusage: its figure begins with the parent's.
status = open("/proc/self/status").read().split()
print(1024 * int(status[status.index("VmHWM:") + 1]))
"""


def run(settings: Settings) -> Outcome:
    """Race the default backbone, and measure the memory of a longer run."""
    count = QUICK_IMAGES if settings.quick else IMAGES
    with tempfile.TemporaryDirectory() as scratch:
        found = pictures.find(
            Path(scratch), train=MEMORY_IMAGES, test=count, real=not settings.quick
        )
        records = list(islice(_spread(found.path), count))
        backbone = load_backbone(DEFAULT, device="cpu")
        network = features_of(build_default())
        differences: list[float] = []
        times = race(
            ("safle", partial(ours, records, backbone)),
            {"torch eager": partial(eager, records, backbone, network)},
            same=partial(_same, differences),
            repeats=3,
            rival_repeats=2,
        )
        alone, _ = timed(partial(_calls, backbone, count))
        eager_alone, _ = timed(partial(_eager_calls, network, count))
        peak, samples = _peak(found.path, Path(scratch), quick=settings.quick)
    speedup = times.ratio("torch eager", "safle")
    figures: dict[str, Any] = {
        "backbone": DEFAULT,
        "images": count,
        "images_per_second": count / times.best("safle"),
        "images_per_second_torch_eager": count / times.best("torch eager"),
        "speedup_over_torch_eager": speedup,
        "network_only_speedup": eager_alone / alone,
        "largest_difference": differences[0],
        "peak_bytes": peak,
        "peak_images": samples,
        "seconds": times.to_json(),
        "spread": times.spread(),
    }
    bars = [
        Bar("speedup_over_torch_eager", speedup, SPEEDUP),
        Bar("largest_difference", differences[0], DIFFERENCE, at_most=True),
        Bar("peak_bytes", peak, PEAK, at_most=True),
    ]
    return Outcome(figures, found.source, "features within 1e-3 of torch's", bars)


def ours(records: list[Record], backbone: Backbone) -> Floats:
    """The pipeline as `safle features` runs it."""
    return np.concatenate([batch.features for batch in extract(records, backbone)])


def eager(records: list[Record], backbone: Backbone, network: Any) -> Floats:
    """The same network in torch, batch by batch."""
    import torch

    preprocessing, found = backbone.preprocessing, []
    side = preprocessing.crop
    for first in range(0, len(records), RIVAL_BATCH):
        chosen = records[first : first + RIVAL_BATCH]
        images = np.empty((len(chosen), 3, side, side), np.float32)
        for record, image in zip(chosen, images, strict=True):
            preprocessing.normalise(preprocessing.fit(decode(record.data)), image)
        with torch.inference_mode():
            found.append(network(torch.from_numpy(images)).numpy())
    return np.concatenate(found)


def _spread(path: Path) -> Any:
    """Images of all classes, not only of the first."""
    source = open_images(path, split="test")
    step = max(1, len(source) // IMAGES)
    return islice(source.records(), 0, None, step)


def _calls(backbone: Backbone, count: int) -> None:
    """The network alone, on as many threads as the pipeline has."""
    from concurrent.futures import ThreadPoolExecutor

    from safle_images.backbones import default_workers

    slots, side = backbone.network.slots, backbone.preprocessing.crop
    images = np.zeros((slots, 3, side, side), np.float32)
    with ThreadPoolExecutor(default_workers()) as pool:
        list(pool.map(backbone.network, [images] * (count // slots)))


def _eager_calls(network: Any, count: int) -> None:
    import torch

    images = torch.zeros(RIVAL_BATCH, 3, 224, 224)
    with torch.inference_mode():
        for _ in range(max(1, count // RIVAL_BATCH)):
            network(images)


def _same(differences: list[float], found: Floats, expected: Floats) -> None:
    differences.append(float(np.abs(found - expected).max()))
    if differences[-1] > DIFFERENCE:
        raise Disagreement(f"backbones: features differ by {differences[-1]}")


def _peak(path: Path, folder: Path, *, quick: bool) -> tuple[int, int]:
    """Peak resident bytes of a run of the command, and over how many images."""
    split = "test" if quick or path.name == pictures.SHARED.name else "train"
    output = folder / "features.safetensors"
    arguments = [str(path), "--split", split, "--device", "cpu", "-o", str(output)]
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *arguments],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        check=True,
    )
    samples = len(open_images(path, split=split))
    return int(done.stdout.splitlines()[-1]), samples
