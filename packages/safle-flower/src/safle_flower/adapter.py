"""All of Flower that is not its public interface, in one place.

`pull` counts the bytes of an answer while Flower assembles it: it puts a stand-in before the client
of Flower's HTTP grid. `InProcessGrid` runs clients and server in one process, every message split
into Flower's objects and joined again as on a network, for tests and small runs.
"""

from __future__ import annotations

import copy
import itertools
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from safle.errors import WireError

SERVER = RUN = 1
_Packed = tuple[str, dict[str, bytes]]


class RoundOver(Exception):
    """The round no longer waits for this answer."""


class _Metered:
    """Flower's HTTP client, with a limit on the bytes of one answer."""

    def __init__(self, client: Any, most_bytes: int, over: threading.Event) -> None:
        self._client = client
        self._bytes_left = most_bytes
        self._over = over
        self._lock = threading.Lock()

    def PullObject(self, *arguments: Any, **options: Any) -> Any:  # noqa: N802
        if self._over.is_set():
            raise RoundOver
        response = self._client.PullObject(*arguments, **options)
        with self._lock:
            self._bytes_left -= len(response.object_content)
            if self._bytes_left < 0:
                raise WireError("the answer is larger than this federation reads")
        return response

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


def pull(grid: Grid, message_id: str, most_bytes: int, over: threading.Event) -> Message | None:
    """The answer to a message, or None if there is none yet.

    Flower assembles an answer of any size, and waits minutes for one whose sender died in the
    middle of it. Over HTTP, every piece comes through one call of the grid's client.

    Raises
    ------
    WireError
        It has more than ``most_bytes`` bytes.
    RoundOver
        ``over`` was set while it was still being sent.
    """
    client = getattr(grid, "_runtime_client", None)
    if client is not None:
        grid = copy.copy(grid)
        grid._client = _Metered(client, most_bytes, over)
    pulled = list(grid.pull_messages([message_id]))
    return pulled[0] if pulled else None


class InProcessGrid(Grid):
    """A grid whose nodes are calls of a ClientApp, each with one of the ``contexts``."""

    def __init__(self, client_app: ClientApp, node_configs: Sequence[Mapping[str, Any]]) -> None:
        from flwr.supercore.task_identity import TaskIdentity

        self._app = client_app
        self.contexts = {
            number: Context(RUN, number, dict(node), RecordDict(), {})
            for number, node in enumerate(node_configs, start=2)
        }
        self._replies: dict[str, _Packed] = {}
        self._numbers = itertools.count(1)
        TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = RUN, 1, SERVER

    def get_node_ids(self) -> Iterable[int]:
        return [*self.contexts]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Each client answers at once, and its answer waits to be pulled."""
        ids = []
        for message in messages:
            name = f"message-{next(self._numbers)}"
            message.metadata.__dict__["_message_id"] = name
            context = self.contexts[message.metadata.dst_node_id]
            self._replies[name] = _pack(self._app(_unpack(_pack(message)), context))
            ids.append(name)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """The answers that were not pulled yet."""
        replies = (self._replies.pop(name, None) for name in message_ids)
        return [_unpack(packed) for packed in replies if packed is not None]

    def set_run(self, run: Any) -> None:
        raise NotImplementedError("there is one run")

    @property
    def run(self) -> Any:
        raise NotImplementedError("there is one run")

    def create_message(self, *arguments: Any, **options: Any) -> Message:
        raise NotImplementedError("use Message(...)")

    def send_and_receive(self, *arguments: Any, **options: Any) -> Iterable[Message]:
        raise NotImplementedError("use push_messages and pull_messages")


def _pack(message: Message) -> _Packed:
    from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

    objects = get_all_nested_objects(message)
    return message.object_id, {name: part.deflate() for name, part in objects.items()}


def _unpack(packed: _Packed) -> Message:
    from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

    name, contents = packed
    return cast(Message, inflate_object_from_contents(name, contents))
