"""The package's build hook: compiles the kernels into the wheel, or beside the sources."""

from __future__ import annotations

import os
import runpy
import sysconfig
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
        if self.target_name != "wheel" or os.environ.get("SAFLE_LIBRARY"):
            return []
        builder = self._builder()
        return [] if builder["find_compiler"]() else [builder["ZIG"]]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, or take the library that $SAFLE_LIBRARY names: a cross-build's."""
        del version
        if self.target_name != "wheel":
            return
        given, tag = os.environ.get("SAFLE_LIBRARY"), os.environ.get("SAFLE_PLATFORM")
        made = Path(given) if given else self._builder()["build"]()
        tag = tag or sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{tag}"
        build_data["force_include"][str(made)] = f"safle/_native/{made.name}"
