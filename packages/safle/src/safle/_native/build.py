"""Compile the kernels: C sources -> one shared library, with any C compiler.

Every source is compiled once for each instruction level; `safle._native` chooses a level when it
loads the library. The library needs no Python header, so it serves every version of Python. Run by
the package's build (``hatch_build.py``), or by hand: ``python -m safle._native.build``.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
SOURCES = sorted(HERE.glob("*.c"))
TEMPLATES = sorted(HERE.glob("*.inc"))
"""Functions that a source includes once for each type."""
SUFFIXES = {"Darwin": ".dylib", "Windows": ".dll"}
LEVELS = {
    "portable": [],
    "avx2": ["-mavx2", "-mfma"],
    "avx512": [f"-mavx512{part}" for part in ("f", "bw", "vl", "dq", "vnni")] + ["-mfma"],
}
"""Instruction levels of x86-64 and the compiler's options for them; elsewhere, portable alone."""
# No contraction: a multiplication and an addition round twice at every level, so that all levels
# give the same bits. No errno: a square root is one instruction.
OPTIONS = (
    "-std=c17",
    "-O3",
    "-fPIC",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fvisibility=hidden",
)
ZIG = "ziglang>=0.13"
PLATFORMS = {
    "manylinux2014_x86_64": ("x86_64-linux-gnu.2.17", "Linux"),
    "manylinux2014_aarch64": ("aarch64-linux-gnu.2.17", "Linux"),
    "macosx_11_0_x86_64": ("x86_64-macos.11.0", "Darwin"),
    "macosx_11_0_arm64": ("aarch64-macos.11.0", "Darwin"),
    "win_amd64": ("x86_64-windows-gnu", "Windows"),
}
"""Every platform that has a wheel: its name in the package ziglang, and its system."""


def source_digest() -> int:
    """A number that changes with every change of the sources; 0 where there are none."""
    digest = hashlib.sha256()
    for source in [*SOURCES, *HERE.glob("*.h"), *TEMPLATES]:
        digest.update(source.read_bytes())
    return int.from_bytes(digest.digest()[:8], "big") if SOURCES else 0


def find_compiler() -> list[str] | None:
    """The system's C compiler: $CC, cc, gcc or clang; None if there is none."""
    if os.environ.get("CC"):
        return os.environ["CC"].split()
    found = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    return [found] if found else None


def zig() -> list[str]:
    """The command of the C compiler in the package ziglang."""
    if find_spec("ziglang") is None:
        raise FileNotFoundError(
            "no C compiler: found neither $CC, cc, gcc nor clang, nor the package ziglang; install "
            "one of them"
        )
    # Without -mcpu, zig compiles for this very processor at every level.
    return [sys.executable, "-m", "ziglang", "cc", "-mcpu=baseline", "-s"]


def build(folder: Path = HERE, compiler: Sequence[str] = (), *, extra: Sequence[str] = ()) -> Path:
    """Compile the library for this machine.

    Parameters
    ----------
    folder : where it is written
    compiler : the command; if empty, the system's, else the package ziglang's
    extra : further options, for sanitizers
    """
    command = [*(compiler or find_compiler() or zig()), *extra]
    return _build(folder, command, platform.machine(), platform.system())


def build_for(tag: str, folder: Path) -> Path:
    """Compile the library for a platform of `PLATFORMS`, by the package ziglang."""
    target, system = PLATFORMS[tag]
    return _build(folder, [*zig(), "-target", target], target.split("-")[0], system)


def _build(folder: Path, compiler: Sequence[str], machine: str, system: str) -> Path:
    command = [*compiler, *OPTIONS, f"-DSOURCE_DIGEST={source_digest():#x}ULL"]
    levels = LEVELS if machine.lower() in ("x86_64", "amd64") else {"portable": []}
    target = folder / f"libsafle{SUFFIXES.get(system, '.so')}"
    with tempfile.TemporaryDirectory(prefix=".libsafle.", dir=folder) as scratch:
        jobs = []
        for source in SOURCES:
            for level, flags in levels.items():
                object_file = Path(scratch, f"{source.stem}.{level}.o")
                files = ["-c", str(source), "-o", str(object_file)]
                jobs.append([*command, *flags, f"-DLEVEL={level}", *files])
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(_run, jobs))
        objects = sorted(map(str, Path(scratch).glob("*.o")))
        linked = Path(scratch, target.name)
        mathematics = [] if system == "Windows" else ["-lm"]
        _run([*command, "-shared", *objects, *mathematics, "-o", str(linked)])
        # Replaced in one step: a program that has loaded the old library keeps it.
        linked.replace(target)
    return target


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the C compiler failed: {' '.join(command)}\n{done.stderr}")


if __name__ == "__main__":
    sys.stdout.write(f"{build()}\n")
