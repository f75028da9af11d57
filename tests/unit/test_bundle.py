"""The bundle for machines without internet: complete, checked, and installed from itself alone."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from safle.data.backbones.weights import added_file
from safle.data.bundle import write_bundle
from safle.errors import InvalidInput


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of a stand-in that is called safle, needs nothing, and says its version."""
    place = tmp_path_factory.mktemp("bundle")
    wheel = place / "safle-9.9-py3-none-any.whl"
    info = "safle-9.9.dist-info"
    files = {
        "safle_stand_in.py": "def run():\n    print('stand-in 9.9')\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: safle\nVersion: 9.9\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\nsafle = safle_stand_in:run\n",
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in files))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SAFLE_CACHE", str(place / "cache"))
        added_file("mine").parent.mkdir(parents=True)
        added_file("mine").write_bytes(b"a backbone that was added")
        write_bundle(place / "made", wheel, backbones=["mine"])
    return place / "made"


def install(bundle: Path, place: Path) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(place),
        "PYTHON": sys.executable,
        "PIP_NO_INDEX": "1",
    }
    command = ["sh", str(bundle / "install.sh"), str(place / "environment")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_bundle_installs_itself_without_an_index(bundle: Path, tmp_path: Path) -> None:
    done = install(bundle, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("stand-in 9.9\n")
    there = tmp_path / ".cache" / "safle" / "added" / "mine.onnx"
    assert there.read_bytes() == b"a backbone that was added"


def test_a_damaged_bundle_installs_nothing(bundle: Path, tmp_path: Path) -> None:
    (wheel,) = (bundle / "wheels").iterdir()
    whole = wheel.read_bytes()
    wheel.write_bytes(whole[:-1] + b"?")
    try:
        assert install(bundle, tmp_path).returncode != 0
    finally:
        wheel.write_bytes(whole)
    assert not (tmp_path / "environment").exists()


def test_the_script_is_clean(bundle: Path) -> None:
    shellcheck = Path(sys.executable).with_name("shellcheck")
    subprocess.run([shellcheck, bundle / "install.sh"], check=True)


def test_a_folder_in_use_and_a_wheel_that_is_none_are_refused(bundle: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is not empty"):
        write_bundle(bundle, tmp_path / "safle.whl")
    with pytest.raises(InvalidInput, match="could not get"):
        write_bundle(tmp_path / "new", tmp_path / "safle.whl")
