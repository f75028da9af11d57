"""What a Flower message holds: a question to a site, and its answer.

A question carries the files of an `airlock.Question`; an answer carries the bytes of a wire file
and who sent it. Bytes travel as an `Array` of a type of our own: Flower cuts them into chunks and
looks at nothing.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from safle.basics import printable as without_controls
from safle.errors import WireError
from safle_flower import airlock

if TYPE_CHECKING:
    from flwr.app import Message, RecordDict

TYPE = "query.question"
"""The type of every message; the question says what it asks for."""
SENT, KNOWN, FAILED, KEYHOLDER = "sent", "known", "failed", "keyholder"
STYPE = "safle.bytes"
"""The type of the payload's `Array`."""
LONGEST_REASON = 500


@dataclass(frozen=True)
class Answer:
    """A client's answer, as it came: nothing of it is verified yet.

    Attributes
    ----------
    client : the name it gives itself
    status : "sent", "known" (the server has its contribution already), "failed", or "keyholder"
        (it has nothing to send, but opens sums)
    reason : why it failed
    data : bytes of a wire file; empty unless sent
    keyholder : whether it opens sums of private rounds
    """

    client: str
    status: str
    reason: str = ""
    data: bytes = b""
    keyholder: bool = False


def write_question(asked: airlock.Question, **settings: Any) -> RecordDict:
    """The content of a question; the settings are the asker's own."""
    fields = {
        "kind": asked.kind,
        "expects": json.dumps(dict(asked.expects)),
        "files": [*asked.files],
        "sizes": [len(data) for data in asked.files.values()],
    }
    return _content("question", fields | settings, b"".join(asked.files.values()))


def read_question(message: Message) -> tuple[airlock.Question, Mapping[str, Any]]:
    """A question and the asker's settings."""
    fields, payload = _read(message, "question")
    files, start = {}, 0
    for name, size in zip(fields["files"], fields["sizes"], strict=True):
        files[str(name)] = payload[start : start + size]
        start += size
    return airlock.Question(str(fields["kind"]), files, json.loads(str(fields["expects"]))), fields


def write_answer(content: Answer) -> RecordDict:
    """The content of an answer."""
    names = ("client", "status", "reason", "keyholder")
    fields = {name: getattr(content, name) for name in names}
    return _content("answer", fields, content.data)


def read_answer(message: Message) -> Answer:
    """An answer; `WireError` for anything else."""
    fields, data = _read(message, "answer")
    client, status, reason = (fields.get(name) for name in ("client", "status", "reason"))
    if not isinstance(client, str) or status not in (SENT, KNOWN, FAILED, KEYHOLDER):
        raise WireError("the answer does not name its client, or has an unknown status")
    return Answer(client, status, printable(reason), data, bool(fields.get("keyholder")))


def known_marks(names: Collection[str]) -> dict[str, Any]:
    """Marks of clients that are in: each client recognises its own, and no name is readable."""
    salt = secrets.token_hex(16)
    return {"salt": salt, "known": [_mark(salt, name) for name in names]}


def is_known(name: str, settings: Mapping[str, Any]) -> bool:
    """Whether the asker says that it has this client's answer."""
    return _mark(str(settings.get("salt")), name) in list(settings.get("known", []))


def _mark(salt: str, name: str) -> str:
    """Digest of a client's name: only whoever guesses the name can tell it."""
    return hashlib.sha256(f"{salt}\n{name}".encode()).hexdigest()


def printable(text: object) -> str:
    """A client's text, on one line, short and without control characters."""
    return without_controls(text or "", " ")[:LONGEST_REASON].strip()


def _content(name: str, fields: dict[str, Any], payload: bytes) -> RecordDict:
    from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

    array = Array("uint8", (len(payload),), STYPE, payload)
    return RecordDict(
        {name: ConfigRecord(fields), "payload": ArrayRecord({"bytes": array}, keep_input=False)}
    )


def _read(message: Message, name: str) -> tuple[dict[str, Any], bytes]:
    content = message.content
    fields, arrays = content.config_records.get(name), content.array_records.get("payload")
    if fields is None or arrays is None or list(arrays) != ["bytes"]:
        raise WireError(f"the message does not hold a safle {name}")
    array = arrays["bytes"]
    if array.stype != STYPE:
        raise WireError(f"the payload is of type {printable(array.stype)!r}; expected {STYPE!r}")
    return dict(fields), array.data
