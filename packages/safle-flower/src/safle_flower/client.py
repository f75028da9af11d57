"""A client's side: its own table, counted as the server's question says.

The node's configuration names the table: ``features="/data/a.npz" client="hospital-a"``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from safle.basics.texts import split_names
from safle.encoders import Encoder, load_encoder
from safle.encoders.features import as_features
from safle.encoders.histogram import Grid, Histogram
from safle.encoders.schema import Schema
from safle.encoders.source import check_source
from safle.errors import EncoderMismatch, SettingsError
from safle.site.counting import Counts, count_blocks
from safle.site.policy import Policy, let_out, warning_of
from safle.site.release import Counted, Release
from safle.statistics import Statistics
from safle.tables import Table, open_table
from safle.wire import encode_histogram, encode_statistics
from safle_flower import messages
from safle_flower.messages import Answer

if TYPE_CHECKING:
    from safle.private.round import PrivateRound

log = logging.getLogger("flwr")
BATCH = 4096
SELECTION = {
    "id": "id_column",
    **{key: key.replace("-", "_") for key in ("labels", "split", "features-key", "labels-key")},
    "label-column": "label_column",
    "weight-column": "weight_column",
}
"""Keys of a configuration that say how a table is read, by the names of ``safle count``, and what
`open_table` calls them; "ignore" is a list, by commas."""

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Client:
    """A client and its data.

    Attributes
    ----------
    rows : sample numbers of the table that are this client's; None for all
    pinned : the only encoder that this client counts with, if it has a copy
    policy : what it lets out; None for everything
    reading : the configuration that the table was opened by, if it can be opened again
    """

    name: str
    table: Table
    where: str
    rows: NDArray[np.int64] | None = None
    trusted: bool = False
    pinned: Path | None = None
    policy: Policy | None = None
    reading: Settings | None = None

    def release(
        self,
        counted: Counted,
        data: bytes,
        declared: PrivateRound | None = None,
        *,
        encoder: str = "",
    ) -> Answer:
        """The answer with ``data``, which is masked if ``declared``, if the policy lets it out.

        It is judged by what was ``counted``, each sample once.
        """
        answer = Answer(self.name, messages.SENT, data=data)
        if self.rows is not None:
            # A share of a simulation's table: nothing leaves anybody.
            return answer
        found = Release.of(counted, encoder)
        if declared is not None:
            found = found.under_masks(declared)
        let_out(found, data, self.policy, who=self.name, note=f"{found.what}, over Flower")
        if warning := warning_of(found, self.policy):
            log.warning("safle: %s", warning)
        return answer

    def fitting(self, encoder: Encoder) -> Client:
        """The same client, its table as the encoder declares it."""
        if encoder.schema is None or self.reading is None:
            return self.with_columns(encoder.feature_names)
        return replace(self, table=open_configured(self.reading, encoder.schema))

    def with_columns(self, names: Sequence[str]) -> Client:
        """The same client, its features in the order of ``names``."""
        return replace(self, table=self.table.arranged(names, where=self.where))

    @property
    def weights(self) -> NDArray[np.int64] | None:
        """How often each sample is counted, in the order of `batches`; None for once."""
        weights = self.table.weights
        return weights if weights is None or self.rows is None else weights[self.rows]

    def batches(self) -> Iterator[tuple[NDArray[Any], NDArray[Any] | None]]:
        """Features and labels, some at a time."""
        if self.rows is None:
            yield from self.table.batches(BATCH)
            return
        for start in range(0, len(self.rows), BATCH):
            chosen = self.rows[start : start + BATCH]
            labels = self.table.labels
            yield self.table.features[chosen], None if labels is None else labels[chosen]


def client_name(node_id: int, node: Settings) -> str:
    """What this client calls itself."""
    if "client" in node:
        return str(node["client"])
    if "partition-id" in node:
        return f"client-{int(node['partition-id']):03d}"
    return f"node-{node_id}"


def open_client(node_id: int, node: Settings, run: Settings) -> Client:
    """The client that a node's configuration describes."""
    del run
    name = client_name(node_id, node)
    if "features" in node:
        return Client(
            name,
            open_configured(node),
            str(node["features"]),
            reading=node,
            trusted=bool(node.get("trust-features", False)),
            pinned=Path(str(node["encoder"])) if "encoder" in node else None,
            policy=Policy.find(str(node.get("policy", ""))),
        )
    raise SettingsError(
        'this node has no data; start it with --node-config \'features="/path/to/table" '
        'client="its name"\''
    )


def open_configured(config: Settings, schema: Schema | None = None) -> Table:
    """The table that a node's configuration names, or a simulation's."""
    selection: dict[str, Any] = {
        name: str(config[key]) for key, name in SELECTION.items() if config.get(key)
    }
    ignored = split_names(str(config.get("ignore", "")))
    return open_table(str(config["features"]), **selection, ignore=ignored, schema=schema)


def answer_count(client: Client, settings: Settings, payload: bytes) -> Answer:
    """Count everything, unless the server says that it has this client's contribution."""
    if messages.mark(str(settings["salt"]), client.name) in list(settings["known"]):
        return Answer(client.name, messages.KNOWN)
    statistics, once = count_table(client, Encoder.from_bytes(payload))
    return client.release(once, encode_statistics(statistics))


def count_table(client: Client, encoder: Encoder) -> Counts[Statistics]:
    """The statistics of a client's whole table."""
    if client.pinned is not None and load_encoder(client.pinned) != encoder:
        raise EncoderMismatch(
            f"the server asks for encoder {encoder.fingerprint[:12]}…, this client counts only "
            f"with {load_encoder(client.pinned).fingerprint[:12]}… ({client.pinned.name})"
        )
    check_source(encoder.source, client.table.source, where=client.where, trusted=client.trusted)
    client = client.fitting(encoder)
    return count_blocks(encoder, client.batches(), client.weights, where=client.where)


def answer_histogram(client: Client, settings: Settings, payload: bytes) -> Answer:
    """Count every feature on the server's grid."""
    del payload
    grid = Grid(settings["low"], settings["high"], int(settings["bins"]))
    # Nothing, first: a client without samples has a histogram too, of the right width.
    client = client.with_columns(sorted(client.table.names))
    empty = np.empty((0, client.table.feature_dim))
    blocks = (as_features(features) for features, _ in client.batches())
    histogram = Histogram.of(_chained(empty, blocks), grid, names=client.table.names)
    return client.release(histogram, encode_histogram(histogram))


def _chained(first: NDArray[Any], rest: Iterator[NDArray[Any]]) -> Iterator[NDArray[Any]]:
    yield first
    yield from rest
