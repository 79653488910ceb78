"""Answers that cost money or time, one line each, kept the moment they come: a kill loses none of them.

Each line of the file is ``{"key": …, "answer": {…}}``; lines are added at the end, synced, and never changed.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from fathom.errors import BadInput, RunFailed
from fathom.reading import is_there, json_value, read_bytes
from fathom.store.files import make_folder
from fathom.store.manifest import Object

Answer = dict[str, Any]
"""What :class:`Kept` or :class:`KeptScores` describes."""
_LARGEST = 1 << 40
"""Bytes: what was paid for is read, however much it is."""


Likely = tuple[str, float]
"""A token and its log-probability in nats."""


class Kept(Object):
    """An answer of a chat server, as a line keeps it."""

    text: str
    finish_reason: str
    logprobs: list[tuple[str, float, list[Likely]]] | None
    prompt_tokens: Annotated[int, Field(ge=0)]
    completion_tokens: Annotated[int, Field(ge=0)]


class KeptScores(Object):
    """What a server that scores texts says of one, as a line keeps it.

    :param log_probs: of tokens in nats; None where nothing stands before one.
    """

    log_probs: list[float | None]
    prompt_tokens: Annotated[int, Field(ge=0)]
    completion_tokens: Annotated[int, Field(ge=0)]


class _Entry(Object):
    key: str
    answer: Kept | KeptScores


def request_key(request: Mapping[str, Any]) -> str:
    """A hash of everything that was asked, whatever the order of its fields. :returns: 32 hex digits."""
    return hashlib.blake2b(json.dumps(request, sort_keys=True).encode(), digest_size=16).hexdigest()


def _where(error: ValidationError) -> str:
    return ".".join(map(str, error.errors()[0]["loc"])) or "the line as a whole"


class Journal:
    """The answers so far, by key; threads may share it, two commands may not.

    :param path: JSON Lines, made with the first answer. A last line that a kill tore is cut off.
    :raises BadInput: the file cannot be read, or a line in it is none of ours.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        try:
            content = read_bytes(self.path, _LARGEST) if is_there(self.path) else b""
            self._size = content.rfind(b"\n") + 1
            if self._size < len(content):
                os.truncate(self.path, self._size)
        except OSError as error:
            raise BadInput(f"cannot read {self.path}: {error.strerror}") from error
        lines = content[: self._size].split(b"\n")[:-1]
        self._answers = dict(self._entry(number, line) for number, line in enumerate(lines, start=1))

    def _entry(self, number: int, line: bytes) -> tuple[str, Answer]:
        try:
            entry = json_value(line.decode())
            _Entry.model_validate_json(line)
            return entry["key"], entry["answer"]
        except ValueError as error:  # pydantic's errors are, too
            wrong = f", wrong at {_where(error)}" if isinstance(error, ValidationError) else ""
            raise BadInput(
                f'{self.path}:{number}: expected {{"key": …, "answer": {{…}}}}, '
                f"found {line[:40].decode(errors='replace')}{wrong}; without this line its question is asked again"
            ) from error

    def __len__(self) -> int:
        return len(self._answers)

    def get(self, key: str) -> Answer | None:
        """The answer of that request, None where there is none."""
        return self._answers.get(key)

    def add(self, key: str, answer: Answer) -> None:
        """Keep an answer; it is on the disk when this returns. :raises RunFailed: it cannot be written."""
        self.add_all({key: answer})

    def add_all(self, answers: Mapping[str, Answer]) -> None:
        """Keep several answers at the price of one. :raises RunFailed: they cannot be written."""
        lines = b"".join(json.dumps({"key": key, "answer": own}).encode() + b"\n" for key, own in answers.items())
        with self._lock:
            try:
                make_folder(self.path.parent)
                with self.path.open("ab") as file:
                    if file.tell() > self._size:
                        file.truncate(self._size)  # half a line of a failed write would spoil this one
                    file.write(lines)
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as error:
                raise RunFailed(f"cannot write {self.path}: {error.strerror}; the answers before are kept") from error
            self._size += len(lines)
            self._answers.update(answers)

    def total(self, field: str) -> int:
        """Sum over all answers of a number in them, such as ``prompt_tokens``."""
        return sum(answer[field] for answer in self._answers.values())
