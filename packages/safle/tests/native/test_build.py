"""The library as other compilers, sanitizers and machines have it: the same integers everywhere."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from safle import _native
from safle._native import build

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
TESTS = HERE.parent
ROOT = TESTS.parents[2]
CORE = ROOT / "packages/safle"
KERNELS = (
    TESTS / "native/test_kernel.py",
    TESTS / "statistics/test_kernels.py",
    TESTS / "statistics/test_products.py",
    TESTS / "theorems/test_counting.py",
    TESTS / "theorems/test_encoding.py",
)
FORGER = f"{TESTS}/faults/test_forger.py::test_forged_sums_that_are_accepted_could_be_of_samples"
MAGIC = {
    "manylinux2014_x86_64": b"\x7fELF\x02\x01",
    "manylinux2014_aarch64": b"\x7fELF\x02\x01",
    "macosx_11_0_x86_64": b"\xcf\xfa\xed\xfe\x07\x00\x00\x01",
    "macosx_11_0_arm64": b"\xcf\xfa\xed\xfe\x0c\x00\x00\x01",
    "win_amd64": b"MZ",
}
"""How a library of each platform begins: Mach-O with its processor, ELF and PE name it later."""
X86_64, ARM64 = 62, 183


def run(*command: object, **environment: str) -> str:
    """What a command printed, which must succeed."""
    words = [str(word) for word in command]
    settings = {**os.environ, **environment}
    done = subprocess.run(
        words, cwd=ROOT, env=settings, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4_000:]
    return done.stdout


def run_tests(library: Path, *tests: object, **environment: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    printed = run(*command, *tests, SAFLE_LIBRARY=str(library), **environment)
    assert " passed" in printed


def test_kernels_and_the_forger_under_sanitizers(tmp_path: Path) -> None:
    """Address and undefined-behaviour sanitizers stop the process at the first fault."""
    compiler = build.find_compiler()
    if compiler is None:
        pytest.skip("no C compiler with sanitizers")
    runtime = run(*compiler, "-print-file-name=libasan.so").strip()
    if not Path(runtime).is_absolute():
        pytest.skip("the compiler has no address sanitizer")
    options = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    made = build.build(tmp_path, extra=options)
    settings = {"LD_PRELOAD": runtime, "ASAN_OPTIONS": "detect_leaks=0"}
    run_tests(made, *KERNELS, **settings)
    forged = [f"{FORGER}[{kind}-0]" for kind in ("random-features", "embedding", "linear", "table")]
    run_tests(made, "-m", "slow", *forged, **settings)


def test_the_path_of_avx512_on_any_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its instructions in plain C: all products are those of NumPy."""
    if build.find_compiler() is None or platform.machine() != "x86_64":
        pytest.skip("no C compiler for x86-64")
    emulated = ["-include", str(HERE / "avx512.h"), "-D__AVX512F__", "-D__AVX512VNNI__"]
    sources = [source for source in build.SOURCES if source.name != "level.c"]
    monkeypatch.setattr(build, "SOURCES", [*sources, HERE / "avx512_level.c"])
    monkeypatch.setitem(build.LEVELS, "avx512", emulated)
    made = build.build(tmp_path)
    run_tests(made, TESTS / "statistics", "-k", "avx512")


def test_the_library_of_the_wheel_for_linux(tmp_path: Path) -> None:
    """Compiled by the package ziglang, where there is no other compiler, and for wheels."""
    pytest.importorskip("ziglang")
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        pytest.skip("another platform")
    run_tests(
        build.build_for("manylinux2014_x86_64", tmp_path), TESTS / "statistics/test_products.py"
    )


def check_wheel(path: Path, tag: str) -> None:
    """One wheel: its name, its tags, and one library, which is of its platform."""
    assert path.name == f"safle-0.1.0-py3-none-{tag}.whl"
    with zipfile.ZipFile(path) as wheel:
        assert wheel.testzip() is None
        names = wheel.namelist()
        (library,) = [name for name in names if Path(name).stem == "libsafle"]
        data = wheel.read(library)
        description = wheel.read("safle-0.1.0.dist-info/WHEEL").decode().splitlines()
    suffix = build.SUFFIXES.get(build.PLATFORMS[tag][1], ".so")
    assert library == f"safle/_native/libsafle{suffix}"
    assert "safle/__init__.py" in names
    assert not [name for name in names if "test" in Path(name).parts[0]]
    assert [line for line in description if line.startswith("Tag:")] == [f"Tag: py3-none-{tag}"]
    assert "Root-Is-Purelib: false" in description
    assert data.startswith(MAGIC[tag])
    assert b"Py_" not in data
    assert b"PyObject" not in data
    if "linux" in tag:
        assert int.from_bytes(data[18:20], "little") == (ARM64 if "aarch64" in tag else X86_64)
        versions = [int(found) for found in re.findall(rb"GLIBC_2\.(\d+)", data)]
        assert versions
        assert max(versions) <= 17
    if tag == "win_amd64":
        header = int.from_bytes(data[0x3C:0x40], "little")
        assert data[header : header + 6] == b"PE\0\0\x64\x86"


def test_wheels_of_other_platforms(tmp_path: Path) -> None:
    """Of all platforms, if $SAFLE_WHEELS names the folder where 'make wheels' put them."""
    folder = os.environ.get("SAFLE_WHEELS")
    tags = list(build.PLATFORMS)
    if not folder:
        pytest.importorskip("ziglang")
        pytest.importorskip("hatchling")
        tags = ["manylinux2014_aarch64"]
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
        run("env", "-C", CORE, *command, SAFLE_PLATFORM=tags[0])
    for tag in tags:
        (path,) = (ROOT / (folder or tmp_path)).glob(f"safle-*{tag}.whl")
        check_wheel(path, tag)


def test_a_wheel_is_built_with_nothing_but_python(tmp_path: Path) -> None:
    """No compiler on the PATH: the build asks for one that is a package, and compiles."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to(sys.executable)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", tmp_path / "wheels", CORE]
    done = subprocess.run(
        [str(word) for word in command],
        env={**os.environ, "PATH": str(tmp_path / "bin"), "CC": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    if "No matching distribution found" in done.stderr:
        pytest.skip("no packages can be installed here")
    assert done.returncode == 0, done.stderr[-4_000:]
    (path,) = (tmp_path / "wheels").glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        (library,) = [name for name in wheel.namelist() if Path(name).stem == "libsafle"]
        made = wheel.extract(library, tmp_path)
    found = ctypes.CDLL(made).processor_level_portable()
    assert found == _native._library().processor_level_portable()


DEBIAN = (
    *("python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib", "libc6", "libssl3"),
    *("libffi8", "zlib1g", "libexpat1", "libsqlite3-0", "libbz2-1.0", "liblzma5", "libcrypt1"),
    *("libuuid1", "libstdc++6", "libgcc-s1"),
)
"""A Python for ARM64 and the libraries that it needs, in Debian 12."""


def install_arm64(folder: Path) -> tuple[Path, Path]:
    """A root with Python, and a folder of packages, both for ARM64; the system stays as it is."""
    for name in ("lists/partial", "cache/archives/partial", "files", "root"):
        (folder / name).mkdir(parents=True)
    options = {
        "APT::Architecture": "arm64",
        "APT::Architectures": "arm64",
        "Dir::State::lists": folder / "lists",
        "Dir::State::status": "/dev/null",
        "Dir::Cache": folder / "cache",
    }
    apt = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in options.items())]
    run(*apt, "update")
    run("env", "-C", folder / "files", *apt, "download", *DEBIAN)
    for file in (folder / "files").glob("*.deb"):
        run("dpkg-deb", "-x", file, folder / "root")
    project = tomllib.loads((CORE / "pyproject.toml").read_text())["project"]
    tags = [f"--platform=manylinux{tag}_aarch64" for tag in ("2014", "_2_17", "_2_27", "_2_28")]
    pip = [sys.executable, "-m", "pip", "install", "-q", "--only-binary=:all:"]
    packages = [*project["dependencies"], "pytest", "hypothesis"]
    run(*pip, *tags, "--python-version=3.11", "--target", folder / "site", *packages)
    return folder / "root", folder / "site"


def test_theorems_of_counting_and_encoding_on_arm64(tmp_path: Path) -> None:
    """The library of the ARM64 wheel, in an ARM64 Python, which QEMU runs."""
    pytest.importorskip("ziglang")
    qemu = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if qemu is None:
        pytest.skip("no qemu-aarch64: install Debian's package qemu-user-static")
    if shutil.which("apt-get") is None or "bookworm" not in platform.freedesktop_os_release().get(
        "VERSION_CODENAME", ""
    ):
        pytest.skip("a Python for ARM64 is installed from Debian 12's packages alone")
    with tempfile.TemporaryDirectory(prefix="safle-arm64-") as folder:
        root, site = install_arm64(Path(folder))
        python = [qemu, "-L", root, root / "usr/bin/python3.11"]
        settings = {
            "SAFLE_LIBRARY": str(build.build_for("manylinux2014_aarch64", tmp_path)),
            "PYTHONPATH": f"{site}{os.pathsep}{CORE / 'src'}",
        }
        asked = "import platform, safle._native as n; print(platform.machine(), n.level())"
        assert run(*python, "-c", asked, **settings) == "aarch64 portable\n"
        theorems = [TESTS / f"theorems/test_{name}.py" for name in ("counting", "encoding")]
        pytest_command = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
        # What is refused never reaches a kernel, and QEMU takes minutes.
        options = ["--hypothesis-profile=fewest", "-k", "not refused"]
        run(*python, *pytest_command, *options, *theorems, **settings)
