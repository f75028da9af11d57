"""The tight loops (Numba): encode, count, pack, multiply, look up.

Nothing here knows what an encoder or a statistics value is: plain arrays in,
plain arrays out. Compiled code is cached on disk next to this package, or in
Numba's user cache directory where the package cannot be written to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def when_compiling(say: Callable[[], None]) -> None:
    """Call ``say`` once, when a kernel is about to be compiled rather than loaded."""
    from numba.core import event

    class Watch(event.Listener):  # type: ignore[misc]
        said = False

        def on_start(self, _event: Any) -> None:
            if not self.said:
                self.said = True
                say()

        def on_end(self, _event: Any) -> None:
            """Only the start matters."""

    event.register("numba:compile", Watch())
