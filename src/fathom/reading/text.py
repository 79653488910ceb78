"""JSON, JSON Lines and YAML that others wrote: what Python's parsers take badly is said as a fault with its line.

Functions that take :class:`Faults` are for readers of data: they keep every fault and go on, so that all are shown at
once; the others raise the first.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from fathom.errors import BadInput
from fathom.reading.files import (
    LARGEST_TEXT,
    LONGEST_LINE,
    MEGABYTE,
    Unreadable,
    is_there,
    located,
    read_text,
    shown,
    text_lines,
)

Json = dict[str, Any]
"""An object of a JSON file."""

DEEPEST = 100
"""Lists and objects within each other."""
MOST_NODES = 1_000_000
"""Values of a YAML file, each alias counted as what it stands for."""
LARGEST_OPTIONS = MEGABYTE
"""Bytes of a YAML file: its parser takes ten seconds for so many."""
LONGEST_MESSAGE = 1500
"""Characters of what is said of a fault: of a longer one, such as one that shows a huge value, both ends."""
_BEGINS = ("{", "[")
_BETWEEN_ITEMS = re.compile(r"[\s,]*")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class NotData(ValueError):
    """A text is not JSON or YAML, or none that can be used.

    :param line: of the text, counted from 1; None for the text as a whole.
    """

    def __init__(self, line: int | None, why: str) -> None:
        super().__init__(why)
        self.line, self.why = line, why


def _object(pairs: list[tuple[str, Any]]) -> Json:
    """:raises _Twice: of two values of a key, nobody can tell which was meant."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _Twice(Counter(key for key, _ in pairs).most_common(1)[0][0])
    return found


class _Twice(Exception):
    """A key of an object."""

    def __init__(self, key: str, line: int | None = None) -> None:
        super().__init__(key)
        self.key, self.line = key, line

    def said(self, text: str = "") -> NotData:
        """:param text: in which the key's line is looked for, where it is not known: other objects may have it, too."""
        found = [match.start() for match in re.finditer(re.escape(json.dumps(self.key)) + r"\s*:", text)]
        line = text.count("\n", 0, found[1]) + 1 if len(found) == 2 else self.line
        return NotData(line, f"an object has the key {shown(self.key, 40)} twice: keep the one that is meant")


_DECODE = json.JSONDecoder(object_pairs_hook=_object).raw_decode


def json_value(text: str) -> Any:
    """The value of a text; NaN and Infinity are numbers, as Python writes them.

    :raises NotData: also for what is nested too deep, numbers of thousands of digits, halves of characters, and an
        object that has a key twice.
    """
    try:
        value, end = _DECODE(text) if text[:1] in _BEGINS else (None, -1)  # quicker than json.loads for a short line
        if end != len(text):
            value = json.loads(text, object_pairs_hook=_object)
    except _Twice as error:
        raise error.said(text) from error
    except json.JSONDecodeError as error:
        raise NotData(error.lineno, f"not JSON: {error.msg} (column {error.colno})") from error
    except RecursionError as error:
        raise NotData(None, _TOO_DEEP) from error
    except ValueError as error:  # the interpreter's limit on digits
        raise NotData(_line_of_digits(text), "a number of thousands of digits: no data has one") from error
    if len(text) > 2 * DEEPEST and text.count("[") + text.count("{") > DEEPEST and is_deeper(value):
        raise NotData(None, _TOO_DEEP)
    if "\\u" in text and (at := _SURROGATE.search(text)) is not None and not _is_writable(value):
        line = text.count("\n", 0, at.start()) + 1
        raise NotData(line, f"half of a character, such as {at[0]}…: text with it cannot be written as UTF-8")
    return value


_TOO_DEEP = f"lists or objects more than {DEEPEST} deep within each other: expected data, found something else"


def _line_of_digits(text: str) -> int:
    found = re.search(r"\d{4001}", text)
    return text.count("\n", 0, found.start()) + 1 if found else 1


def is_deeper(value: Any, most: int = DEEPEST, nodes: int | None = None) -> bool:
    """Whether lists and mappings lie more than *most* deep within each other, however they refer to each other.

    :param nodes: also whether there are more values than that.
    """
    level, count = [value], 1
    for _ in range(most + 1):
        inner = [node.values() if isinstance(node, dict) else node for node in level if isinstance(node, dict | list)]
        count += sum(map(len, inner))
        if not inner or (nodes is not None and count > nodes):
            return bool(inner)
        level = [child for children in inner for child in children]
    return any(isinstance(node, dict | list) for node in level)


def _is_writable(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def json_file(path: Path, most: int = LARGEST_TEXT) -> Any:
    """The value of a file. :raises Unreadable: it cannot be read, or is not JSON; with the line."""
    try:
        return json_value(read_text(path, most))
    except NotData as error:
        raise Unreadable(path, error.line, error.why) from error


def json_lines(path: Path, longest: int = LONGEST_LINE) -> Iterator[tuple[int, Any]]:
    """(line number, value) of every line that is not blank, one at a time.

    :raises Unreadable: at the first line that cannot be read, or is not JSON.
    """
    for number, line in enumerate(text_lines(path, longest), start=1):
        if line and not line.isspace():
            try:
                value = json_value(line)
            except NotData as error:
                raise Unreadable(path, number, error.why) from error
            yield number, value


def yaml_file(path: Path) -> Any:
    """The value of a YAML file, made of plain values only. :raises Unreadable: it cannot be read, or is not YAML."""
    try:
        return yaml_value(read_text(path, LARGEST_OPTIONS))
    except NotData as error:
        raise Unreadable(path, error.line, error.why) from error


def yaml_value(text: str) -> Any:
    """The value of a text in YAML, made of plain values only. :raises NotData: it is none that can be used."""
    import yaml

    try:
        value = yaml.load(text, _yaml_loader())
    except _Twice as error:
        raise error.said() from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        why = f"not YAML: {getattr(error, 'problem', None) or str(error).splitlines()[0]}"
        raise NotData(mark.line + 1 if mark else None, why) from error
    except RecursionError as error:
        raise NotData(None, _TOO_DEEP) from error
    except (ValueError, TypeError, OverflowError, AttributeError) as error:  # dates that are none, huge numbers
        raise NotData(None, f"not YAML that can be used: {error}") from error
    if is_deeper(value, nodes=MOST_NODES):
        raise NotData(None, _TOO_DEEP)
    return value


@cache
def _yaml_loader() -> Any:
    """Plain values only; the quicker loader in C ends the process where lists lie deep within each other."""
    import yaml

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            known = set()
            for key, _ in node.value:
                if (key.tag, str(key.value)) in known:
                    raise _Twice(str(key.value), key.start_mark.line + 1)
                known.add((key.tag, str(key.value)))
            return super().construct_mapping(node, deep)

    return Loader


def as_read_back(value: Any) -> Any:
    """A value as it is when it has been written as JSON and read again: lists for tuples, texts for keys."""
    return json.loads(json.dumps(value))


# --- every fault, not the first


class Faults:
    """Collects what is wrong with a folder (``found``) and what is only odd (``notes``)."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.notes: list[str] = []

    def add(self, file: Path, line: int | None, message: str) -> None:
        """Something is wrong.

        :param line: counted from 1; None for the file as a whole.
        """
        if len(message) > LONGEST_MESSAGE:
            message = f"{message[: LONGEST_MESSAGE // 2]} … {message[-LONGEST_MESSAGE // 3 :]}"
        self.found.append(located(file, line, message))

    def note(self, file: Path, line: int | None, message: str) -> None:
        """Something is odd, but can be read.

        :param line: as in :meth:`add`.
        """
        self.notes.append(located(file, line, message))

    def keep(self, error: BadInput) -> None:
        """What a guarded reader has raised, once."""
        self.found += [fault for fault in error.faults if fault not in self.found]

    def there(self, file: Path) -> bool:
        """Whether a file that may be absent can be read; what stands in its place and is no file is a fault."""
        try:
            return is_there(file)
        except Unreadable as error:
            self.keep(error)
            return False

    def stop_if_any(self) -> None:
        """:raises BadInput: with every fault found so far."""
        if self.found:
            raise BadInput(self.found)


def line_of(path: Path, key: str) -> int | None:
    """The line where a key of a JSON file stands first; None where it does not."""
    try:
        lines = read_text(path).splitlines()
    except Unreadable:
        return None
    asked, written = f"{json.dumps(key)}:", f'"{key}":'
    found = (at for at, line in enumerate(lines, start=1) if asked in line.replace(" :", ":") or written in line)
    return next(found, None)


def read_json(path: Path, faults: Faults) -> Any:
    """The file's content, or None with a fault noted."""
    try:
        value = json_file(path)
    except Unreadable as error:
        faults.keep(error)
        return None
    if value is None:
        faults.add(path, 1, "expected data, found null")
    return value


def read_lines(path: Path, faults: Faults) -> Iterator[tuple[int, str]]:
    """(line number, line) of a text, as far as it can be read."""
    try:
        yield from enumerate(text_lines(path), start=1)
    except Unreadable as error:
        faults.keep(error)


def read_json_lines(path: Path, required: dict[str, type], faults: Faults) -> Iterator[tuple[int, Json]]:
    """(line number, object) of every good line, one at a time; the others become faults. A ``.gz`` file is unpacked.

    :param required: fields that must be there, with their type.
    """
    needed = tuple(required.items())
    try:
        for number, line in enumerate(text_lines(path), start=1):
            if not line:
                continue
            try:
                row = json_value(line)
            except NotData as error:
                if line.strip():
                    faults.add(path, number, error.why)
                continue
            if not isinstance(row, dict):
                faults.add(path, number, f"expected an object {{…}}, found {line.strip()[:40]}")
                continue
            if _fits(row, needed):
                yield number, row
            else:
                faults.add(path, number, _lacking(row, required))
    except Unreadable as error:
        faults.keep(error)


def read_json_items(path: Path, required: dict[str, type], faults: Faults) -> Iterator[tuple[int, Json]]:
    """(line number, object) of every good item of a file that is one list; the others become faults.

    :param required: as in :func:`read_json_lines`.
    """
    try:
        text = read_text(path)
        value = json_value(text)
    except NotData as error:
        faults.add(path, error.line, error.why)
        return
    except Unreadable as error:
        faults.keep(error)
        return
    if not isinstance(value, list):
        faults.add(path, 1, f"expected a list of objects [{{…}}, …], found {shown(value, 40)}")
        return
    needed = tuple(required.items())
    for number, row in zip(_lines_of_items(text), value, strict=True):
        if not isinstance(row, dict):
            faults.add(path, number, f"expected an object {{…}}, found {shown(row, 40)}")
        elif _fits(row, needed):
            yield number, row
        else:
            faults.add(path, number, _lacking(row, required))


def _lines_of_items(text: str) -> Iterator[int]:
    """Where each item of a list begins; *text* is known to be one."""
    at, line, decode = text.index("[") + 1, 1 + text.count("\n", 0, text.index("[")), json.JSONDecoder().raw_decode
    while True:
        begins = _BETWEEN_ITEMS.match(text, at).end()  # type: ignore[union-attr]
        line += text.count("\n", at, begins)
        if text[begins] == "]":
            return
        yield line
        _, at = decode(text, begins)
        line += text.count("\n", begins, at)


def _fits(row: Json, needed: tuple[tuple[str, type], ...]) -> bool:
    return all(isinstance(row.get(name), kind) and not isinstance(row[name], bool) for name, kind in needed)


def _lacking(row: Json, required: dict[str, type]) -> str:
    """What is wrong with the fields of a row."""
    return "; ".join(
        f"'{name}' is missing" if name not in row else f"'{name}' must be {kind.__name__}, found {shown(row[name])}"
        for name, kind in required.items()
        if not isinstance(row.get(name), kind) or isinstance(row[name], bool)
    )
