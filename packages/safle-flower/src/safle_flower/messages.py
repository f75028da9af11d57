"""What a Flower message holds: a question to a site, and its answer.

A question carries the files of an `airlock.Question`; an answer carries the bytes of a wire file
and who sent it. Bytes travel as an `Array` of a type of our own: Flower cuts them into chunks and
does not interpret them.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from safle.errors import WireError
from safle_flower.airlock import Question, shorten

if TYPE_CHECKING:
    from flwr.app import Message, RecordDict

TYPE = "query.question"
"""The type of every message; the question says what it asks for."""
SENT, KNOWN, FAILED, KEYHOLDER = "sent", "known", "failed", "keyholder"
STYPE = "safle.bytes"
"""The type of every `Array`."""


@dataclass(frozen=True)
class Answer:
    """A client's answer as it came, not verified yet.

    Attributes
    ----------
    client : the name it gives itself
    status : "sent", "known" (the server has its contribution already), "failed", or "keyholder"
        (it has nothing to send, but opens sums)
    reason : why it failed
    data : bytes of a wire file; empty unless sent
    """

    client: str
    status: str
    reason: str = ""
    data: bytes = b""


def write_question(question: Question, **settings: Any) -> RecordDict:
    """The content of a question; the settings are the asker's own."""
    return _write("question", {"json": question.to_json().decode(), **settings}, question.files)


def read_question(message: Message) -> tuple[Question, Mapping[str, Any]]:
    """A question and the asker's settings."""
    settings, files = _read(message, "question")
    return Question.from_json(str(settings["json"]), files), settings


def write_answer(content: Answer) -> RecordDict:
    """The content of an answer."""
    fields = {name: getattr(content, name) for name in ("client", "status", "reason")}
    return _write("answer", fields, {"answer": content.data})


def read_answer(message: Message) -> Answer:
    """An answer; `WireError` for anything else."""
    fields, files = _read(message, "answer")
    if [*files] != ["answer"]:
        raise WireError("the message does not hold a safle answer: it has other files")
    client, status = fields.get("client"), fields.get("status")
    if not isinstance(client, str) or status not in (SENT, KNOWN, FAILED, KEYHOLDER):
        raise WireError("the answer does not name its client, or has an unknown status")
    return Answer(client, status, shorten(fields.get("reason", "")), files["answer"])


def known_marks(names: Collection[str]) -> dict[str, Any]:
    """Marks of clients that are in: each client recognises its own, and no name is readable."""
    salt = secrets.token_hex(16)
    return {"salt": salt, "known": [_mark(salt, name) for name in names]}


def is_known(name: str, settings: Mapping[str, Any]) -> bool:
    """Whether the asker says that it has this client's answer."""
    return _mark(str(settings.get("salt")), name) in list(settings.get("known", []))


def _mark(salt: str, name: str) -> str:
    """Digest of a client's name: only a reader who guesses the name can confirm it."""
    return hashlib.sha256(f"{salt}\n{name}".encode()).hexdigest()


def _write(name: str, fields: dict[str, Any], files: Mapping[str, bytes]) -> RecordDict:
    from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

    arrays = {file: Array("uint8", (len(data),), STYPE, data) for file, data in files.items()}
    return RecordDict({name: ConfigRecord(fields), "files": ArrayRecord(arrays, keep_input=False)})


def _read(message: Message, name: str) -> tuple[dict[str, Any], dict[str, bytes]]:
    fields = message.content.config_records.get(name)
    arrays = message.content.array_records.get("files")
    if fields is None or arrays is None:
        raise WireError(f"the message does not hold a safle {name}")
    for array in arrays.values():
        if array.stype != STYPE:
            raise WireError(f"a file is of type {shorten(array.stype)!r}; expected {STYPE!r}")
    return dict(fields), {file: array.data for file, array in arrays.items()}
