"""A Ray cluster one of whose processes dies."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil


@contextmanager
def killing_a_worker() -> Iterator[list[int]]:
    """Kill the first process of this one's Ray cluster that works on a task."""
    killed, ended = list[int](), threading.Event()

    def kill() -> None:
        while not killed and not ended.wait(0.005):
            for process in psutil.Process().children(recursive=True):
                with suppress(psutil.Error, IndexError):
                    title = process.cmdline()[0]
                    # Its first task imports safle: there is time to find it.
                    if title.startswith("ray::") and "IDLE" not in title:
                        process.kill()
                        killed.append(process.pid)
                        return

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    yield killed
    ended.set()
    killer.join()
