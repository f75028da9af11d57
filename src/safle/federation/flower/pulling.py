"""Pull one answer from Flower's grid, without trusting its size or its sender's patience.

Flower assembles an answer of any size, and waits minutes for one whose sender died in the
middle of it. Over HTTP, every piece of an answer comes through one call of the grid's client;
a stand-in for that client counts the bytes and stops when the round is over.
"""

from __future__ import annotations

import copy
import threading
from typing import TYPE_CHECKING, Any

from safle._internal.memory import readable
from safle.errors import WireError

if TYPE_CHECKING:
    from flwr.app import Message
    from flwr.serverapp import Grid


class RoundOver(Exception):
    """Nobody waits for this answer any more."""


class _Metered:
    """Flower's HTTP client, for the pieces of one answer."""

    def __init__(self, client: Any, largest: int, over: threading.Event) -> None:
        self._client = client
        self._left = largest
        self._over = over
        self._lock = threading.Lock()

    def PullObject(self, *arguments: Any, **options: Any) -> Any:  # noqa: N802
        if self._over.is_set():
            raise RoundOver
        response = self._client.PullObject(*arguments, **options)
        with self._lock:
            self._left -= len(response.object_content)
            if self._left < 0:
                raise WireError("the answer is larger than this federation reads")
        return response

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


def pull(grid: Grid, message_id: str, *, largest: int, over: threading.Event) -> Message | None:
    """The answer to a message, or None if there is none yet.

    Raises
    ------
    WireError
        It is larger than ``largest`` bytes.
    RoundOver
        ``over`` was set while it was still being sent.
    """
    client = getattr(grid, "_runtime_client", None)
    if client is not None:
        grid = copy.copy(grid)
        grid._client = _Metered(client, largest, over)
    pulled = list(grid.pull_messages([message_id]))
    return pulled[0] if pulled else None


def check_size(data: bytes, largest: int) -> None:
    """The same limit where Flower keeps answers in this process and has no pieces to count."""
    if len(data) > largest:
        raise WireError(
            f"the answer has {readable(len(data))}; this federation reads up to {readable(largest)}"
        )
