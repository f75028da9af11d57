"""Clients and server in one process: Flower's apps and serialisation, without its processes.

For tests and small runs. Every message is taken apart into Flower's objects and put together
again on the other side, as it is on a network. The identity that Flower gives a process is
internal to it; nothing outside this file touches it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, cast

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.task_identity import TaskIdentity

from safle.federation.flower.settings import Config

SERVER = RUN = 1
CLIENT_RAISED = 2
_Packed = tuple[str, dict[str, bytes]]


class InProcessGrid(Grid):
    """A grid whose nodes are calls of a ClientApp; node i has ``node_configs[i]``."""

    def __init__(
        self, client_app: ClientApp, node_configs: Sequence[Config], run_config: Config
    ) -> None:
        self._app = client_app
        self._contexts = {
            number: Context(RUN, number, dict(node), RecordDict(), dict(run_config))
            for number, node in enumerate(node_configs, start=2)
        }
        self._replies: dict[str, _Packed] = {}
        self._numbers = itertools.count(1)
        TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = RUN, 1, SERVER

    def get_node_ids(self) -> Iterable[int]:
        return [*self._contexts]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Each client answers at once, and its answer waits to be pulled."""
        ids = []
        for message in messages:
            name = f"message-{next(self._numbers)}"
            message.metadata.__dict__["_message_id"] = name
            self._replies[name] = _packed(self._answer(_unpacked(_packed(message))))
            ids.append(name)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """The answers that nobody has pulled yet."""
        found = (self._replies.pop(name, None) for name in message_ids)
        return [_unpacked(packed) for packed in found if packed is not None]

    def _answer(self, message: Message) -> Message:
        context = self._contexts[message.metadata.dst_node_id]
        try:
            return self._app(message, context)
        except Exception as error:
            # As Flower does it in a client's process.
            reason = f"{type(error).__name__}: {error}"
            return Message(Error(CLIENT_RAISED, reason), reply_to=message)

    def set_run(self, run: Any) -> None:
        raise NotImplementedError("there is one run")

    @property
    def run(self) -> Any:
        raise NotImplementedError("there is one run")

    def create_message(self, *arguments: Any, **options: Any) -> Message:
        raise NotImplementedError("use Message(...)")

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """All at once; a round asks and pulls one by one instead."""
        del timeout
        return self.pull_messages(self.push_messages(messages))


def _packed(message: Message) -> _Packed:
    objects = get_all_nested_objects(message)
    return message.object_id, {name: part.deflate() for name, part in objects.items()}


def _unpacked(packed: _Packed) -> Message:
    name, contents = packed
    return cast(Message, inflate_object_from_contents(name, contents))
