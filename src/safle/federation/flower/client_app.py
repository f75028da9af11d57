"""Flower's ClientApp of a safle federation."""

from __future__ import annotations

import logging
from collections.abc import Callable

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from safle.errors import SafleError
from safle.federation.flower import messages
from safle.federation.flower.client import (
    Client,
    Settings,
    answer_count,
    answer_histogram,
    client_name,
    open_client,
)
from safle.federation.flower.messages import Answer

log = logging.getLogger("flwr")
Opener = Callable[[int, Settings, Settings], Client]
"""Node number, its configuration and the run's -> the client and its data."""


def make_app(opener: Opener) -> ClientApp:
    """An app whose data ``opener`` finds: a node's own table, or a simulation's share of one."""
    app = ClientApp()

    @app.train("count")
    def count(message: Message, context: Context) -> Message:
        return _reply(message, context, opener, answer_count)

    @app.query("histogram")
    def histogram(message: Message, context: Context) -> Message:
        return _reply(message, context, opener, answer_histogram)

    return app


def _reply(
    message: Message,
    context: Context,
    opener: Opener,
    work: Callable[[Client, Settings, bytes], Answer],
) -> Message:
    try:
        settings, payload = messages.read_question(message)
        client = opener(context.node_id, context.node_config, context.run_config)
        answer = work(client, settings, payload)
    except (SafleError, OSError, MemoryError) as error:
        # The server learns what is wrong. Ours say all there is to say; of others, the whole
        # story stays in this node's log.
        ours = isinstance(error, SafleError)
        log.error("safle: this client cannot answer: %s", error, exc_info=not ours)
        name = client_name(context.node_id, context.node_config)
        answer = Answer(name, messages.FAILED, reason=messages.printable(error))
    return Message(messages.answer(answer), reply_to=message)


app = make_app(open_client)
