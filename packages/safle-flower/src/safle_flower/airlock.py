"""Airlock: questions come into a site's inbox, answers lie in its outbox, and no program crosses.

A process that others can program, such as a node of a network, has these two folders and no path
to data. It puts a question into the inbox: a folder of files, named by their digest. The site's
own commands, under the data owner's user, put the answer into the outbox under the same name. The
process sends that answer if it was made for that very question.

    inbox/count-9f2c.../     question.json, encoder.safetensors
    outbox/count-9f2c....stats, or count-9f2c....refused with the reason

Whoever programs the process can write anything into the inbox. The site therefore reads regular
files of bounded size only, and takes a question only if its name is the digest of its files.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shlex
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safle.basics import atomic, printable
from safle.errors import FederationError, PolicyRefused, WireError
from safle.wire import container

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
FILES = (ENCODER, ROUND, MODEL, REQUEST)
MOST_BYTES = 1 << 32
"""Most bytes of one file of a question: every encoder and model is far smaller."""
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
        if unknown := [name for name in self.files if name not in FILES]:
            raise FederationError(f"a question with {unknown[0]!r}; expected {', '.join(FILES)}")

    @staticmethod
    def from_json(text: str | bytes, files: Mapping[str, bytes]) -> Question:
        """The question whose kind and expected fields `to_json` wrote, with its files."""
        fields = json.loads(text)
        return Question(fields["kind"], files, fields["expects"])

    def to_json(self) -> bytes:
        """Its kind and the expected fields."""
        return container.canonical({"kind": self.kind, "expects": dict(self.expects)})

    @property
    def name(self) -> str:
        """Its kind, and the digest of its text and files."""
        digest = hashlib.sha256(self.to_json())
        for name, data in sorted(self.files.items()):
            digest.update(f"\n{name} {len(data)}\n".encode() + hashlib.sha256(data).digest())
        return f"{self.kind}-{digest.hexdigest()[:32]}"

    def check(self, data: bytes) -> None:
        """Refuse an answer that is no whole file, or was made for another question."""
        header = container.from_bytes(data, file_type=ANSWERS[self.kind][1]).header
        fields = header.get("head", header)
        for name, value in self.expects.items():
            if fields.get(name) != value:
                raise FederationError(
                    f"the answer in the outbox was made for another {name} than {self.name} asks "
                    "for; remove it"
                )

    def command(
        self, files: Mapping[str, str], data: str, output: str, *, yes: bool = False
    ) -> list[str]:
        """The arguments of the command that answers it, without the site's own options.

        ``files`` are the paths of the question's files; with ``yes``, a keyholder has consented.
        """
        if self.kind == EVALUATE:
            return ["evaluate", files[MODEL], data, "--counts", output]
        if self.kind == OPEN:
            answer = ["private", "answer", files[REQUEST], "--round", files[ROUND], "-o", output]
            return [*answer, "--yes"] if yes else answer
        masked = ["--round", files[ROUND]] if self.kind == MASK else []
        return ["count", data, "--encoder", files[ENCODER], *masked, "-o", output]


@dataclass(frozen=True)
class Airlock:
    """The two folders: the asker writes ``inbox`` and reads ``outbox``, the site the other way."""

    inbox: Path
    outbox: Path

    def answer_path(self, question: Question) -> Path:
        """Where the answer to a question lies."""
        return self.outbox / (question.name + ANSWERS[question.kind][0])

    def ask(self, question: Question) -> None:
        """Put a question into the inbox; ask again if it is there already."""
        place = self.inbox / question.name
        if not place.is_dir():
            # It has another name until it is complete: the site never sees a part of it.
            scratch = self.inbox / f".{question.name}.{os.getpid()}"
            atomic.make_folder(scratch)
            for name, data in {QUESTION: question.to_json(), **question.files}.items():
                atomic.write_bytes(scratch / name, data)
            with contextlib.suppress(FileExistsError):
                scratch.replace(place)
        # A refusal repeats this token: an earlier refusal does not answer a question asked again.
        atomic.write_text(place / TOKEN, secrets.token_hex(16))

    def find_answer(self, question: Question) -> bytes | None:
        """The answer, if the site has given one; `Refused` if it has refused."""
        with contextlib.suppress(FileNotFoundError):
            data = read_regular(self.answer_path(question))
            question.check(data)
            return data
        reason = self._refusal(question)
        if reason is not None:
            raise Refused(shorten(reason))
        return None

    def explain(self, question: Question) -> list[str]:
        """What the asker waits for, and the commands that a person at the site can run."""
        files = {name: str(self.inbox / question.name / name) for name in question.files}
        arguments = question.command(files, "DATA", str(self.answer_path(question)))
        if question.kind in (MASK, OPEN):
            arguments += ["--operator", "OPERATOR.pub", "--key", "OWN.key"]
        if question.kind == OPEN:
            arguments += ["--history", "OPENED.sqlite"]
        command = shlex.join(["safle", "airlock", str(self.inbox), str(self.outbox), "DATA"])
        return [
            f"waiting for {self.answer_path(question)}, the answer to {self.inbox / question.name}",
            f"the owner of the data answers with: {command}",
            f"or with: {shlex.join(['safle', *arguments])}",
        ]

    def open_questions(self) -> Iterator[Question]:
        """Questions that the site has neither answered nor refused since they were asked."""
        for place in sorted(self.inbox.iterdir()):
            if place.name.startswith(".") or place.name.partition("-")[0] not in ANSWERS:
                continue
            try:
                question = self._read(place)
                refused = self._refusal(question) is not None
            except (OSError, ValueError, KeyError, TypeError, RecursionError):
                # It is half written, or somebody who means harm wrote it.
                continue
            if not refused and not self.answer_path(question).exists():
                yield question

    def refuse(self, question: Question, reason: str) -> None:
        """Tell the asker that the site does not answer; ``reason`` is what the asker may know."""
        text = f"{self._token(question)}\n{reason}\n"
        atomic.write_text(self.outbox / (question.name + REFUSED), text)

    def count_answers(self, kind: str) -> int:
        """How many answers to questions of one kind lie in the outbox."""
        return len([*self.outbox.glob(f"{kind}-*{ANSWERS[kind][0]}")])

    def _refusal(self, question: Question) -> str | None:
        """Why the question was refused since it was asked last; None if it was not."""
        try:
            text = read_regular(self.outbox / (question.name + REFUSED), most_bytes=1 << 16)
        except FileNotFoundError:
            return None
        token, _, reason = text.decode(errors="replace").partition("\n")
        return reason if token == self._token(question) else None

    def _token(self, question: Question) -> str:
        return read_regular(self.inbox / question.name / TOKEN, most_bytes=64).decode()

    def _read(self, place: Path) -> Question:
        text = read_regular(place / QUESTION, most_bytes=container.MAX_HEADER_BYTES)
        files = {name: read_regular(place / name) for name in FILES if (place / name).exists()}
        question = Question.from_json(text, files)
        if question.name != place.name:
            raise WireError(f"{place}: its name is not the digest of its files")
        return question


def read_regular(path: Path, most_bytes: int = MOST_BYTES) -> bytes:
    """A file's bytes; `WireError` for a link, a pipe, a device, or too many bytes."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise WireError(f"{path}: cannot be read: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > most_bytes:
            raise WireError(f"{path}: not a regular file of at most {most_bytes} bytes")
        return file.read(most_bytes)


def shorten(text: object) -> str:
    """A text from outside, on one line, short and without control characters."""
    return printable(text, " ")[:LONGEST_REASON].strip()


def describe_error(error: Exception) -> str:
    """What an asker learns of an error at a site: no value, no name of a column, no path."""
    if isinstance(error, Refused):
        return str(error)
    if isinstance(error, PolicyRefused):
        return f"its policy refuses: {error.rule}"
    line = getattr(error, "line", None)
    place = f" in line {line} of its table" if line else ""
    return f"{type(error).__name__}{place}; its own log says more"
