"""A journal of a server's answers, written line by line as they arrive: a kill loses none of them."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from fathom.base.errors import BadInput, RunFailed
from fathom.base.reading import file_exists, json_value, read_bytes
from fathom.base.reading.bounds import JOURNAL
from fathom.base.reading.objects import Object
from fathom.store.files import make_folder

Answer = dict[str, Any]
"""Fields of :class:`ChatAnswer` or :class:`ScoredText`."""


class ChatAnswer(Object):
    """An answer of a chat server; earlier versions kept ``logprobs``, too."""

    text: str
    finish_reason: str
    prompt_tokens: Annotated[int, Field(ge=0)]
    completion_tokens: Annotated[int, Field(ge=0)]


class ScoredText(Object):
    """The score of a text by a likelihood server. :param log_probs: of tokens in nats; None for a first token."""

    log_probs: list[float | None]
    prompt_tokens: Annotated[int, Field(ge=0)]
    completion_tokens: Annotated[int, Field(ge=0)]


class _Entry(Object):
    key: str
    answer: ChatAnswer | ScoredText


def request_key(request: Mapping[str, Any]) -> str:
    """Return a hash of a request, regardless of the order of its fields. :returns: 32 hex digits."""
    return hashlib.blake2b(json.dumps(request, sort_keys=True).encode(), digest_size=16).hexdigest()


class Journal:
    """Answers by key; threads may share it, two processes may not.

    :param path: JSON Lines, created with the first answer. An incomplete last line is removed.
    :raises BadInput: the file cannot be read, or a line in it is invalid.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        try:
            content = read_bytes(self.path, JOURNAL) if file_exists(self.path) else b""
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
            place = ".".join(map(str, error.errors()[0]["loc"])) if isinstance(error, ValidationError) else ""
            raise BadInput(
                f'{self.path}:{number}: expected {{"key": …, "answer": {{…}}}}, '
                f"found {line[:40].decode(errors='replace')}{place and f', with a fault at {place}'}; delete this line"
            ) from error

    def __len__(self) -> int:
        return len(self._answers)

    def get(self, key: str) -> Answer | None:
        """Return the answer to a request, None if there is none yet."""
        return self._answers.get(key)

    def add(self, key: str, answer: Answer) -> None:
        """Write an answer to the disk. :raises RunFailed: it cannot be written."""
        self.add_all({key: answer})

    def add_all(self, answers: Mapping[str, Answer]) -> None:
        """Write several answers at once. :raises RunFailed: they cannot be written."""
        lines = b"".join(json.dumps({"key": key, "answer": answer}).encode() + b"\n" for key, answer in answers.items())
        with self._lock:
            try:
                make_folder(self.path.parent)
                with self.path.open("ab") as file:
                    if file.tell() > self._size:
                        file.truncate(self._size)  # removes an incomplete line of a failed write
                    file.write(lines)
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as error:
                raise RunFailed(f"cannot write {self.path}: {error.strerror}; earlier answers are kept") from error
            self._size += len(lines)
            self._answers.update(answers)

    def total(self, field: str) -> int:
        """Return the sum of a field over all answers, such as ``prompt_tokens``."""
        return sum(answer[field] for answer in self._answers.values())
