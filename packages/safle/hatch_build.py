"""The package's build hook: compiles the kernels into the wheel, or beside the sources.

$SAFLE_PLATFORM, one of `PLATFORMS` in ``_native/build.py``, asks for another platform's wheel.
"""

from __future__ import annotations

import os
import runpy
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class NativeBuild(BuildHookInterface):  # type: ignore[type-arg]
    """One library a platform, free of Python's ABI: a wheel serves every version of Python."""

    PLUGIN_NAME = "custom"

    def _builder(self) -> dict[str, Any]:
        return runpy.run_path(str(Path(self.root, "src/safle/_native/build.py")))

    def dependencies(self) -> list[str]:
        """A compiler that is a package, asked for only where there is no other."""
        if self.target_name != "wheel":
            return []
        builder = self._builder()
        own = builder["find_compiler"]() and not os.environ.get("SAFLE_PLATFORM")
        return [] if own else [builder["ZIG"]]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile into the wheel; for an editable installation, beside the sources."""
        if self.target_name != "wheel":
            return
        builder, other = self._builder(), os.environ.get("SAFLE_PLATFORM")
        tag = other or sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{tag}"
        if version == "editable":
            builder["build"]()
            return
        # The folder lives as long as the hook.
        self._folder = tempfile.TemporaryDirectory(prefix="safle-wheel-")
        folder = Path(self._folder.name)
        made = builder["build_for"](other, folder) if other else builder["build"](folder)
        build_data["force_include"][str(made)] = f"safle/_native/{made.name}"
