"""Foreign JSON, JSON Lines and YAML; faults carry their line.

Functions that take :class:`Faults` are readers of data: they collect all faults and tidy all texts
(:mod:`~fathom.base.reading.spelling`); the others raise the first fault.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Hashable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from fathom.base.errors import BadInput
from fathom.base.reading.bounds import DEPTH, NODES, OPTIONS
from fathom.base.reading.files import Unreadable, file_exists, located, read_text, short_place, shown, text_lines
from fathom.base.reading.spelling import OUTER, Respelt, Spelling

Json = dict[str, Any]
"""A JSON object."""
SHOWN_PLACES = 5
"""Respelt texts that a note shows."""
LONGEST_MESSAGE = 1500
"""Characters of a message; longer ones are cut in the middle."""
_BEGINS = ("{", "[")
_BETWEEN_ITEMS = re.compile(r"[\s,]*")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class NotData(ValueError):
    """Invalid JSON or YAML. :param line: of the text, counted from 1; None for the text as a whole."""

    def __init__(self, line: int | None, why: str) -> None:
        super().__init__(why)
        self.line, self.why = line, why


def _object(pairs: list[tuple[str, Any]]) -> Json:
    """:raises _DuplicateKey: a key occurs twice."""
    content = dict(pairs)
    if len(content) < len(pairs):
        raise _DuplicateKey(Counter(key for key, _ in pairs).most_common(1)[0][0])
    return content


class _DuplicateKey(Exception):
    def __init__(self, key: str, lines: tuple[int, ...] = ()) -> None:
        super().__init__(key)
        self.key, self.lines = key, lines

    def fault(self, text: str = "") -> NotData:
        """:param text: searched for the line, if unknown; in vain if further objects have the key."""
        places = [match.start() for match in re.finditer(re.escape(json.dumps(self.key)) + r"\s*:", text)]
        lines = tuple(text.count("\n", 0, place) + 1 for place in places) if len(places) == 2 else self.lines
        earlier = f", first in line {lines[0]}" if len(set(lines)) > 1 else ""
        line = lines[1] if lines else None
        return NotData(line, f"an object has the key {shown(self.key, 40)} twice{earlier}: remove one of them")


_DECODE = json.JSONDecoder(object_pairs_hook=_object).raw_decode


def json_value(text: str) -> Any:
    """Parse JSON; NaN and Infinity are numbers, as Python writes them.

    :raises NotData: also for deep nesting, numbers of thousands of digits, single surrogates and duplicate keys.
    """
    try:
        value, end = _DECODE(text) if text[:1] in _BEGINS else (None, -1)  # faster than json.loads for short lines
        if end != len(text):
            value = json.loads(text, object_pairs_hook=_object)
    except _DuplicateKey as error:
        raise error.fault(text) from error
    except json.JSONDecodeError as error:
        raise NotData(error.lineno, f"not JSON: {error.msg} (column {error.colno})") from error
    except RecursionError as error:
        raise NotData(None, _TOO_DEEP) from error
    except ValueError as error:  # the interpreter's limit on digits
        digits = re.search(r"\d{4001}", text)
        line = text.count("\n", 0, digits.start()) + 1 if digits else 1
        raise NotData(line, "a number of thousands of digits") from error
    if len(text) > 2 * DEPTH.most and text.count("[") + text.count("{") > DEPTH.most and is_deeper(value):
        raise NotData(None, _TOO_DEEP)
    if "\\u" in text and (at := _SURROGATE.search(text)) is not None and not _is_writable(value):
        line = text.count("\n", 0, at.start()) + 1
        raise NotData(line, f"a single surrogate, such as {at[0]}…, cannot be written as UTF-8")
    return value


_TOO_DEEP = f"lists or objects nested more than {DEPTH.most} deep"


def is_deeper(value: object, most: int = DEPTH.most, nodes: int | None = None) -> bool:
    """Return whether lists and mappings, which may be cyclic, are nested more than *most* deep.

    :param nodes: return True for more values, too.
    """
    level, count = [value], 1
    for _ in range(most + 1):
        inner = [node.values() if isinstance(node, dict) else node for node in level if isinstance(node, dict | list)]
        count += sum(map(len, inner))
        if not inner or (nodes is not None and count > nodes):
            return bool(inner)
        level = [child for children in inner for child in children]
    return any(isinstance(node, dict | list) for node in level)


def _is_writable(value: object) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def json_file(path: Path) -> Any:
    """Read JSON. :raises Unreadable: it cannot be read, or is invalid."""
    try:
        return json_value(read_text(path))
    except NotData as error:
        raise Unreadable(path, error.line, error.why) from error


def json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield (line number, value) of all lines that are not blank. :raises Unreadable: at the first invalid line."""
    for number, line in enumerate(text_lines(path), start=1):
        if line and not line.isspace():
            try:
                value = json_value(line)
            except NotData as error:
                raise Unreadable(path, number, error.why) from error
            yield number, value


def yaml_file(path: Path) -> Any:
    """Read YAML of plain values. :raises Unreadable: it cannot be read, or is invalid."""
    try:
        return yaml_value(read_text(path, OPTIONS))
    except NotData as error:
        raise Unreadable(path, error.line, error.why) from error


def yaml_lines(path: Path) -> dict[tuple[str, ...], int]:
    """Return the line of each key and list item, at most four deep, of a file that :func:`yaml_file` has read."""
    import yaml

    lines: dict[tuple[str, ...], int] = {}

    def note(node: Any, where: tuple[str, ...]) -> None:
        children: list[tuple[str, Any, Any]] = []
        if isinstance(node, yaml.MappingNode):
            children = [(str(key.value), key, value) for key, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            children = [(str(number), child, child) for number, child in enumerate(node.value)]
        for name, marked, child in children:
            lines[(*where, name)] = marked.start_mark.line + 1
            if len(where) < 3:
                note(child, (*where, name))

    note(yaml.compose(read_text(path, OPTIONS), yaml.SafeLoader), ())
    return lines


def yaml_value(text: str) -> Any:
    """Parse YAML of plain values. :raises NotData: it is invalid."""
    import yaml

    try:
        value = yaml.load(text, _yaml_loader())
    except _DuplicateKey as error:
        raise error.fault() from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        why = f"not YAML: {getattr(error, 'problem', None) or str(error).splitlines()[0]}"
        raise NotData(mark.line + 1 if mark else None, why) from error
    except RecursionError as error:
        raise NotData(None, _TOO_DEEP) from error
    except (ValueError, TypeError, OverflowError, AttributeError) as error:  # invalid dates, huge numbers
        raise NotData(None, f"invalid YAML: {error}") from error
    if is_deeper(value, nodes=NODES.most):
        raise NotData(None, f"{_TOO_DEEP}, or {NODES.fault()}")
    return value


@cache
def _yaml_loader() -> Any:
    """Return a loader in Python: the one in C crashes on deep nesting.

    Plain words are read as in YAML 1.2: a model may be called no, 010 is ten, and a date is a text.
    """
    import yaml

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            lines: dict[tuple[str, str], int] = {}
            for key, _ in node.value:
                name, line = (key.tag, str(key.value)), key.start_mark.line + 1
                if name in lines:
                    raise _DuplicateKey(name[1], (lines[name], line))
                lines[name] = line
            return super().construct_mapping(node, deep)

    Loader.yaml_implicit_resolvers = {}
    for name, pattern, signs in _PLAIN:
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{name}", re.compile(f"^(?:{pattern})$"), signs)
    Loader.add_constructor("tag:yaml.org,2002:int", lambda _, node: int(node.value))  # PyYAML's reads 010 as eight
    return Loader


_PLAIN = (
    ("bool", "true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", "~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", "[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("float", r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", "-+."),
    ("merge", "<<", "<"),
)
"""Plain values of YAML 1.2's core schema by kind: their pattern, and the signs with which they begin."""


def as_read_back(value: object) -> Any:
    """Return a value as written to JSON and read again: lists for tuples, strings for keys."""
    return json.loads(json.dumps(value))


class Faults:
    """A collection of faults (``found``) and notes of a data set.

    ``read`` has its files, ``broken`` those that cannot be read to their end. ``respelt`` has the texts that are read
    in another spelling, with file and line; once noted, they are in ``tidied``.
    """

    def __init__(self) -> None:
        self.found: list[str] = []
        self.notes: list[str] = []
        self.read: set[Path] = set()
        self.broken: set[Path] = set()
        self.respelt: list[Respelt] = []
        self.tidied: list[Respelt] = []

    def add(self, file: Path, line: int | None, message: str) -> None:
        """Add a fault. :param line: counted from 1; None for the file as a whole."""
        if len(message) > LONGEST_MESSAGE:
            message = f"{message[: LONGEST_MESSAGE // 2]} … {message[-LONGEST_MESSAGE // 3 :]}"
        self.found.append(located(file, line, message))

    def note(self, file: Path, line: int | None, message: str) -> None:
        """Add a note on what is unusual but readable; parameters as of :meth:`add`."""
        self.notes.append(located(file, line, message))

    def note_respelt(self) -> None:
        """Note the texts read in another spelling (:mod:`fathom.base.reading.spelling`), the first with lines."""
        outer = [place for place in self.respelt if place[2].strip(OUTER) != place[2]]
        inner = [place for place in self.respelt if place[2].strip(OUTER) == place[2]]
        self.tidied += self.respelt
        self.respelt = []
        for places, what in ((outer, "white space at their ends is dropped"), (inner, "read in composed form, NFC")):
            shown = [f"{_place(file, line, text)} {text[:60]!a}" for file, line, text in places[:SHOWN_PLACES]]
            if shown:
                more = f" and {len(places) - len(shown):,} more" if len(places) > len(shown) else ""
                self.notes.append(f"{len(places):,} text{'s' * (len(places) > 1)}, {what}: {', '.join(shown)}{more}")

    def keep(self, error: BadInput) -> None:
        """Add the faults of an error, each once."""
        self.found += [fault for fault in error.faults if fault not in self.found]
        if isinstance(error, Unreadable):
            self.broken.add(error.path)

    def there(self, file: Path) -> bool:
        """Return whether a file exists; a path that is not a file is a fault."""
        try:
            return file_exists(file)
        except Unreadable as error:
            self.keep(error)
            return False

    def stop_if_any(self) -> None:
        """:raises BadInput: with every fault found so far."""
        if self.found:
            raise BadInput(self.found)


def repetition(lines: dict[Any, int], key: Hashable, line: int, name: str) -> str:
    """Return what is wrong if the file has had the same key, else "".

    :param lines: the line of each key so far; this one is added.
    """
    if key in lines:
        return f"{name} is in line {lines[key]} already: remove one of the two"
    lines[key] = line
    return ""


def _place(file: Path, line: int | None, text: str) -> str:
    """Return file and line of a text, which is searched in a file whose lines are not known."""
    if line is None:
        lines = enumerate(read_text(file).splitlines(), start=1)
        line = next((number for number, some in lines if json.dumps(text) in some or f'"{text}"' in some), None)
    return short_place(file, line)


def line_of(path: Path, key: str) -> int | None:
    """Return the first line of a JSON file with that key; None if there is none."""
    try:
        lines = read_text(path).splitlines()
    except Unreadable:
        return None
    escaped, plain = f"{json.dumps(key)}:", f'"{key}":'
    numbered = enumerate(lines, start=1)
    return next((number for number, line in numbered if escaped in line.replace(" :", ":") or plain in line), None)


def read_json(path: Path, faults: Faults) -> Any:
    """Read JSON; return None after a fault."""
    return Spelling(path, faults.respelt).of(None, _untidied(path, faults))


def _untidied(path: Path, faults: Faults) -> Any:
    faults.read.add(path)
    try:
        value = json_file(path)
    except Unreadable as error:
        faults.keep(error)
        return None
    if value is None:
        faults.add(path, 1, "expected data, found null")
    return value


def read_lines(path: Path, faults: Faults) -> Iterator[tuple[int, str]]:
    """Yield (line number, line), untidied, up to the first fault."""
    faults.read.add(path)
    try:
        yield from enumerate(text_lines(path), start=1)
    except Unreadable as error:
        faults.keep(error)


def read_json_lines(path: Path, required: dict[str, type], faults: Faults) -> Iterator[tuple[int, Json]]:
    """Yield (line number, object) of all valid lines; the others become faults.

    :param required: fields with their types.
    """
    faults.read.add(path)
    spelling = Spelling(path, faults.respelt)
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
            if why := _row_fault(row, required):
                faults.add(path, number, why)
            else:
                yield number, spelling.of(number, row)
    except Unreadable as error:
        faults.keep(error)


def read_json_items(path: Path, required: dict[str, type], faults: Faults) -> Iterator[tuple[int, Json]]:
    """Yield (line number, object) as :func:`read_json_lines`, from a file that is one list."""
    value, spelling = _untidied(path, faults), Spelling(path, faults.respelt)
    if not isinstance(value, list | None):
        faults.add(path, 1, f"expected a list of objects [{{…}}, …], found {shown(value, 40)}")
    for number, row in zip(_lines_of_items(read_text(path)), value, strict=True) if isinstance(value, list) else ():
        if why := _row_fault(row, required):
            faults.add(path, number, why)
        else:
            yield number, spelling.of(number, row)


def _lines_of_items(text: str) -> Iterator[int]:
    """Yield the line of each item; *text* is a valid list."""
    at, line, decode = text.index("[") + 1, 1 + text.count("\n", 0, text.index("[")), json.JSONDecoder().raw_decode
    while True:
        start = _BETWEEN_ITEMS.match(text, at).end()  # type: ignore[union-attr]
        line += text.count("\n", at, start)
        if text[start] == "]":
            return
        yield line
        _, at = decode(text, start)
        line += text.count("\n", start, at)


def _row_fault(row: Any, required: dict[str, type]) -> str:
    """Return what is wrong with a row; "" for nothing."""
    if not isinstance(row, dict):
        return f"expected an object {{…}}, found {shown(row, 40)}"
    return "; ".join(
        f"'{name}' is missing" if name not in row else f"'{name}' must be {kind.__name__}, found {shown(row[name])}"
        for name, kind in required.items()
        if not isinstance(row.get(name), kind) or isinstance(row[name], bool)
    )
