"""Airlock: questions enter a site's inbox, answers wait in its outbox, and no program crosses.

A process that others can program, such as a node of a network, has these two folders and no path
to data. It puts a question into the inbox: a folder of files, named by their digest. The site's
own commands, under the data owner's user, put the answer into the outbox under the same name. The
process sends that answer if it was made for that very question.

    inbox/count-9f2c.../     question.json, encoder.safetensors
    outbox/count-9f2c....stats, or count-9f2c....refused with the reason

Each side can write anything into its folder, and the other expects it: both read regular files of
bounded size only. A question is taken if its name is the digest of its files (`watcher`); an answer
is sent if its header names what was asked for.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import shlex
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from safle import container
from safle.basics import atomic, most_memory, printable
from safle.errors import FederationError, PolicyRefused, WireError

COUNT, MASK, EVALUATE, OPEN = "count", "mask", "evaluate", "open"
"""A question asks a site for statistics, for statistics under masks or for evaluation counts, or a
keyholder to open a sum."""
PLAIN_KINDS = (COUNT, EVALUATE)
"""Kinds whose answers are not under masks."""
ANSWERS = {
    COUNT: (".stats", container.STATISTICS),
    MASK: (".masked", container.MASKED),
    EVALUATE: (".eval", container.EVALUATION),
    OPEN: (".answer", container.ANSWER),
}
"""How the name of an answer's file ends, and the type of wire file that it is."""
ENCODER, ROUND, MODEL, REQUEST = (
    "encoder.safetensors",
    "round.private",
    "model.safetensors",
    "request.ask",
)
QUESTION, TOKEN = "question.json", "asked"
REFUSED = ".refused"
FILES = {COUNT: (ENCODER,), MASK: (ENCODER, ROUND), EVALUATE: (MODEL,), OPEN: (REQUEST, ROUND)}
"""The files of each kind of question, beside its text and token."""
MOST_BYTES = {
    QUESTION: 1 << 12,
    TOKEN: 1 << 6,
    ENCODER: 1 << 28,
    ROUND: 1 << 22,
    REQUEST: 1 << 26,
    MODEL: 1 << 30,
}
"""Most bytes of a file of a question. Encoders and rounds have these limits everywhere; a request
holds less than 1 kB for each client; a model of 10,000 columns and 1,000 classes has 40 MB."""
MOST_REFUSAL_BYTES = 1 << 12
_TOKEN = re.compile(r"[0-9a-f]{32}")
LONGEST_REASON = 500
"""Most characters of a text from outside in a log or a report."""


class Refused(FederationError):
    """The site does not answer this question; the message is what the asker may know."""


@dataclass(frozen=True)
class Question:
    """What a site is asked for.

    Attributes
    ----------
    kind : "count", "mask", "evaluate" or "open"
    files : bytes by name: the encoder, the round, the model, the request
    expects : fields that the header of an answer to this very question has: the fingerprint of
        the encoder, the digest of the round, model or request
    """

    kind: str
    files: Mapping[str, bytes] = field(repr=False)
    expects: Mapping[str, Any]

    def __post_init__(self) -> None:
        if self.kind not in ANSWERS:
            raise FederationError(
                f"a question of kind {self.kind!r}; expected {', '.join(ANSWERS)}"
            )
        if {*self.files} != {*FILES[self.kind]}:
            found = ", ".join(sorted(self.files)) or "no file"
            expected = ", ".join(FILES[self.kind])
            raise FederationError(
                f"a question of kind {self.kind!r} with {found}; expected {expected}"
            )
        for name, data in self.files.items():
            if len(data) > MOST_BYTES[name]:
                raise FederationError(
                    f"{name} has {len(data):,} bytes; a question holds at most {MOST_BYTES[name]:,}"
                )

    @staticmethod
    def from_json(text: str | bytes, files: Mapping[str, bytes]) -> Question:
        """The question whose kind and expected fields `to_json` wrote, with its files."""
        fields = read_text(text)
        return Question(fields.kind, files, fields.expects)

    def to_json(self) -> bytes:
        """Its kind and the expected fields."""
        return container.canonical({"kind": self.kind, "expects": dict(self.expects)})

    @property
    def name(self) -> str:
        """Its kind, and the digest of its text and files."""
        digests = {
            name: (len(data), hashlib.sha256(data).digest()) for name, data in self.files.items()
        }
        return name_question(self.kind, self.to_json(), digests)

    def check(self, data: bytes) -> None:
        """Refuse an answer that is not a whole file, or was made for another question."""
        header = container.from_bytes(data, file_type=ANSWERS[self.kind][1]).header
        head = header.get("head")
        fields = head if isinstance(head, dict) else header
        for name, value in self.expects.items():
            if fields.get(name) != value:
                raise FederationError(
                    f"the answer in the outbox was made for another {name} than {self.name} asks "
                    "for; remove it"
                )


@dataclass(frozen=True)
class Airlock:
    """The two folders: the asker writes ``inbox`` and reads ``outbox``, the site the other way."""

    inbox: Path
    outbox: Path

    def answer_path(self, question: Question) -> Path:
        """The path of the answer to a question."""
        return self.outbox / (question.name + ANSWERS[question.kind][0])

    def ask(self, question: Question) -> None:
        """Put a question into the inbox; ask again if it is there already."""
        place = self.inbox / question.name
        if not place.is_dir():
            # It has another name until it is complete: the site never sees a part of it.
            scratch = self.inbox / f".{question.name}.{os.getpid()}"
            atomic.make_folder(scratch)
            token = secrets.token_hex(16).encode()
            texts = {QUESTION: question.to_json(), TOKEN: token}
            for name, data in {**question.files, **texts}.items():
                atomic.write_bytes(scratch / name, data)
            scratch.replace(place)
            return
        # A refusal repeats this token: an earlier refusal does not answer a question asked again.
        atomic.write_text(place / TOKEN, secrets.token_hex(16))

    def find_answer(self, question: Question) -> bytes | None:
        """The answer, if the site has given one; `Refused` if it has refused."""
        with contextlib.suppress(FileNotFoundError):
            data = _read_answer(self.answer_path(question))
            question.check(data)
            return data
        reason = self._refusal(question)
        if reason is not None:
            raise Refused(shorten(reason))
        return None

    def explain(self, question: Question) -> list[str]:
        """What the asker waits for, and the commands that a person at the site can run."""
        files = {name: str(self.inbox / question.name / name) for name in question.files}
        arguments = command_for(question.kind, files, "DATA", str(self.answer_path(question)))
        if question.kind in (MASK, OPEN):
            arguments += ["--operator", "OPERATOR.pub", "--key", "OWN.key"]
        if question.kind == OPEN:
            arguments += ["--history", "OPENED.history"]
        command = shlex.join(["safle", "airlock", str(self.inbox), str(self.outbox), "DATA"])
        return [
            f"waiting for {self.answer_path(question)}, the answer to {self.inbox / question.name}",
            f"the owner of the data answers with: {command}",
            f"or with: {shlex.join(['safle', *arguments])}",
        ]

    def refusal_path(self, name: str) -> Path:
        """The path of the refusal of a question of this name: its token, the reason, its state."""
        return self.outbox / (name + REFUSED)

    def _refusal(self, question: Question) -> str | None:
        """Why the question was refused since it was asked last; None if it was not."""
        try:
            lines = read_lines(self.refusal_path(question.name))
        except FileNotFoundError:
            return None
        with open_regular(self.inbox / question.name / TOKEN, MOST_BYTES[TOKEN]) as file:
            token = read_token(file)
        return lines[1] if lines[0] == token else None


class Text(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What question.json holds."""

    kind: str
    expects: dict[str, str]


def read_text(text: str | bytes) -> Text:
    """What question.json holds; `WireError` for anything else."""
    try:
        return msgspec.json.decode(text, type=Text)
    except (ValueError, RecursionError) as error:
        raise WireError(f"{QUESTION} does not hold a kind and the expected fields") from error


def name_question(kind: str, text: bytes, digests: Mapping[str, tuple[int, bytes]]) -> str:
    """The name of a question by its text, and size and SHA-256 of each of its files."""
    digest = hashlib.sha256(text)
    for name, (size, content) in sorted(digests.items()):
        digest.update(f"\n{name} {size}\n".encode() + content)
    return f"{kind}-{digest.hexdigest()[:32]}"


def command_for(
    kind: str, files: Mapping[str, str], data: str, output: str, *, yes: bool = False
) -> list[str]:
    """The arguments of the command that answers a question, without the site's own options.

    ``files`` are the paths of the question's files; with ``yes``, a keyholder has consented.
    """
    if kind == EVALUATE:
        return ["evaluate", files[MODEL], data, "--counts", output]
    if kind == OPEN:
        answer = ["private", "answer", files[REQUEST], "--round", files[ROUND], "-o", output]
        return [*answer, "--yes"] if yes else answer
    masked = ["--round", files[ROUND]] if kind == MASK else []
    return ["count", data, "--encoder", files[ENCODER], *masked, "-o", output]


def open_regular(path: Path | str, most_bytes: int, *, folder: int | None = None) -> BinaryIO:
    """A file, opened in a folder; `WireError` for a link, a pipe, a device, or too many bytes."""
    try:
        # Before it is opened, too: opening a device may do something.
        _require_regular(path, os.stat(path, dir_fd=folder, follow_symlinks=False), most_bytes)
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise WireError(f"{path} cannot be read: {error.strerror}") from error
    try:
        _require_regular(path, os.fstat(descriptor), most_bytes)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _require_regular(path: Path | str, status: os.stat_result, most_bytes: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise WireError(f"{path} is not a regular file")
    if status.st_size > most_bytes:
        raise WireError(f"{path} has {status.st_size:,} bytes; expected at most {most_bytes:,}")


def _read_answer(path: Path) -> bytes:
    """An answer's bytes; only what begins as a file of ours is read."""
    with open_regular(path, most_memory()) as file:
        start = file.read(len(container.MAGIC))
        if start != container.MAGIC:
            raise WireError(f"{path}: not a safle file: it does not begin with the safle signature")
        return start + file.read(os.fstat(file.fileno()).st_size)


def read_token(file: BinaryIO) -> str:
    """The token of a question; `WireError` for any other content."""
    text = file.read(MOST_BYTES[TOKEN]).decode(errors="replace")
    if not _TOKEN.fullmatch(text):
        raise WireError(f"{TOKEN} does not hold a token of 32 hexadecimal digits")
    return text


def read_lines(refusal: Path) -> list[str]:
    """A refusal's token, reason and state, as far as they are there."""
    with open_regular(refusal, MOST_REFUSAL_BYTES) as file:
        lines = file.read(MOST_REFUSAL_BYTES).decode(errors="replace").split("\n")
    return [*lines, "", "", ""][:3]


def shorten(text: object) -> str:
    """A text from outside, on one line, short and without control characters."""
    return printable(text, " ")[:LONGEST_REASON].strip()


def describe_error(error: Exception) -> str:
    """What an asker learns of an error at a site: not a value, a column's name or a path."""
    if isinstance(error, Refused):
        return str(error)
    if isinstance(error, PolicyRefused):
        return f"its policy refuses: {error.rule}"
    line = getattr(error, "line", None)
    place = f" in line {line} of its table" if line else ""
    return f"{type(error).__name__}{place}; its own log says more"
