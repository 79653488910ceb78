"""Lists of entities: their types and names; and the search for these names in texts.

A list is a text file in one of these layouts; the first line may name it after a ``#``:

- ``name`` per line, other names of the same entity after tabs: ``name<TAB>alias<TAB>alias``;
- ``count<TAB>name`` (``#count``): recognised by whole numbers in the first column;
- ``type<TAB>name`` (``#type``): recognised by few values in the first column, at least ten lines each on average;
- JSON Lines, ``{"id": "…", "name": "…", "aliases": ["…"], "type": "…"}``; only the name is required.

The type is the prefix in ``--entities chemicals=FILE``, else the column, else the file name. A name is found at word
boundaries; the leftmost, then longest counts. One listed with a capital is not found in small letters, unless it is
listed so, too, or the list begins all names with a capital.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from fathom.base.errors import optional
from fathom.base.reading import Faults, Json, Missing, NotData, Unreadable, json_value, read_text, stands
from fathom.data.templates import ANSWER, SUBJECT
from fathom_build.cloze.typography import fold, plain, plain_with_places, tidy
from fathom_build.options import ClozeBuildOptions

LONGEST_NAME = 1_000
"""Characters; the longest names in published lists have a few hundred."""
_SHORT = 3
"""Letters up to which names count only as written."""
_WORD = re.compile(r"[^\W_]+")
MARK = re.compile(
    rf"{re.escape(SUBJECT)}|{re.escape(ANSWER)}"
    r"|\[(?:MASK|CLS|SEP|PAD|UNK|BOS|EOS|unused\d+)\]"
    r"|</?s>|<(?:mask|pad|unk|cls|sep|bos|eos|eod|eop|extra_id_\d+|start_of_turn|end_of_turn)>"
    r"|<\|[a-z][a-z0-9_]*\|>"
)
"""Fathom's marks in prompts, and tokens of BERT, RoBERTa, T5, GPT and chat models for a mask, a start or an end."""
Layout = Literal["name", "count", "type", "json"]
_IN_WORDS = {"name": "one entity per line", "count": "count and name", "type": "type and name", "json": "JSON Lines"}


class ListedEntity(NamedTuple):
    """:param names: the first is its name among the candidates."""

    id: str
    type: str
    names: tuple[str, ...]

    @property
    def name(self) -> str:
        """Its name among the candidates."""
        return self.names[0]


class EntityList(NamedTuple):
    """The listed entities; ``about`` has each file with its layout and the numbers of empty and repeated lines."""

    entities: tuple[ListedEntity, ...]
    about: list[Json]
    notes: list[str]

    @property
    def types(self) -> list[str]:
        """Distinct types, in the order of the lists."""
        return list(dict.fromkeys(entity.type for entity in self.entities))


def as_written(name: str, options: ClozeBuildOptions) -> bool:
    """Return whether a name is found only in its own letter case.

    ``smart``: short names ("NO", "tin") and those with a capital after the first letter of a word ("mRNA", "GABA"),
    which are other words in another case; "Nitric oxide" and "vitamin D" are found in any case.
    """
    if options.case != "smart":
        return options.case == "exact"
    inner = not name.islower() and any(any(sign.isupper() for sign in word[1:]) for word in _WORD.findall(name))
    return inner or len(name) <= _SHORT


def spellings(name: str, options: ClozeBuildOptions) -> tuple[str, ...]:
    """Return a name, and a short lower-case name also as it begins a sentence: "Tin"."""
    if options.case == "smart" and name.islower() and as_written(name, options):
        return (name, name[:1].upper() + name[1:])
    return (name,)


class _Line(NamedTuple):
    number: int
    type: str
    id: str
    names: list[str]


def read_entities(files: Sequence[str], options: ClozeBuildOptions) -> EntityList:
    """Read lists of entities.

    :param files: each optionally as ``type=file``.
    :param options: determine which names are equal.
    :raises BadInput: a file is unreadable, a line is malformed, or a list has no names.
    """
    faults = Faults()
    merged: dict[tuple[str, str], ListedEntity] = {}
    about: list[Json] = []
    notes: list[str] = []
    for text in files:
        type_, path = split_given(text)
        lines = _numbered_lines(path, faults)
        if lines is None:
            continue
        stated = _stated_layout(lines[0])
        layout: Layout = "json" if path.suffix in (".jsonl", ".ndjson") else _layout(stated, lines)
        if stated:
            lines[0] = ""  # so that the others keep their numbers
        named = [line for line in _parsed(path, lines, layout, faults) if any(line.names)]
        again = _merge(named, type_, path.stem.split(".")[0], options, merged)
        counts = {
            "entities": len(named) - len(again),
            "empty lines": sum(not line.strip() for line in lines) - bool(stated),
            "named again": len(again),
        }
        about.append({"path": path, "layout": layout, "lines": len(lines)} | counts)
        notes.append(f"{path.name}: {_IN_WORDS[layout]}: {counts['entities']:,} entities")
        if counts["empty lines"]:
            notes.append(f"{path.name}: {counts['empty lines']:,} empty lines")
        if again:
            first = f"line {again[0].number}: {again[0].names[0]!r}"
            notes.append(f"{path.name}: {len(again):,} lines repeat an earlier entity and are merged, first {first}")
        if not named:
            faults.add(path, None, "no names: expected one per line")
    entities = tuple(merged.values())
    _check_ids(entities, faults)
    faults.stop_if_any()
    return EntityList(entities, about, notes)


def split_given(text: str) -> tuple[str | None, Path]:
    """Split ``type=file``; without a type if the whole text is an existing file."""
    type_, sign, path = text.partition("=")
    return (type_.strip(), Path(path)) if sign and type_.strip() and not stands(Path(text)) else (None, Path(text))


def _numbered_lines(path: Path, faults: Faults) -> list[str] | None:
    try:
        return read_text(path).removesuffix("\n").split("\n")
    except Missing:
        faults.add(path, None, "file is missing: expected a list of entities, TYPE=FILE or FILE")
    except Unreadable as error:
        faults.keep(error)
    return None


def _stated_layout(line: str) -> str:
    stated = line.removeprefix("#").partition("\t")[0].strip() if line.startswith("#") else ""
    return stated if stated in _IN_WORDS else ""


def _layout(stated: str, lines: list[str]) -> Layout:
    if stated in ("name", "count", "type"):
        return stated  # type: ignore[return-value]
    rows = [line.split("\t") for line in lines if line.strip()]
    if rows and all(len(row) == 2 for row in rows):
        first = Counter(row[0].strip() for row in rows)
        if all(value.isdigit() for value in first):
            return "count"
        if len(rows) >= 10 * len(first):
            return "type"
    return "name"


def _parsed(path: Path, lines: list[str], layout: Layout, faults: Faults) -> Iterator[_Line]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        if layout == "json":
            yield from _json_line(path, number, line, faults)
            continue
        cells = [tidy(cell) for cell in line.split("\t")]
        column = cells.pop(0) if layout in ("count", "type") and len(cells) > 1 else ""
        if (layout == "count" and not column.isdigit()) or (layout == "type" and not column):
            faults.add(path, number, f"expected a {layout}, a tab and a name, found {line[:60]!r}")
        else:
            yield _Line(number, column if layout == "type" else "", "", _check_names(path, number, cells, faults))


def _json_line(path: Path, number: int, line: str, faults: Faults) -> Iterator[_Line]:
    try:
        row = json_value(line)
    except NotData as error:
        faults.add(path, number, error.why)
        return
    aliases = row.get("aliases", []) if isinstance(row, dict) else []
    texts: list[Any] = [row.get("name"), *aliases] if isinstance(row, dict) and isinstance(aliases, list) else [None]
    if not all(isinstance(text, str) for text in texts) or not texts[0].strip():
        faults.add(path, number, f'expected {{"id": "…", "name": "…", "aliases": ["…"]}}, found {line.strip()[:60]}')
    else:
        names = _check_names(path, number, [tidy(text) for text in texts], faults)
        yield _Line(number, str(row.get("type", "")), str(row.get("id", "")), names)


def _check_names(path: Path, number: int, names: list[str], faults: Faults) -> list[str]:
    """Return distinct names; report those without a letter or digit."""
    for name in names:
        if len(name) > LONGEST_NAME:
            faults.add(
                path, number, f"a name of {len(name):,} characters, {name[:40]!r}…: expected {LONGEST_NAME:,} at most"
            )
        elif token := MARK.search(name):
            faults.add(path, number, f"{name!r} contains {token[0]}, which marks a place in prompts: remove it")
        elif name and not any(sign.isalnum() for sign in name):
            faults.add(path, number, f"{name!r} has no letter or digit: remove it")
    return list(dict.fromkeys(name for name in names if name))


def _merge(
    lines: Iterable[_Line],
    type_: str | None,
    file: str,
    options: ClozeBuildOptions,
    merged: dict[tuple[str, str], ListedEntity],
) -> list[_Line]:
    """Merge entities of one type whose names are found in the same places: "Glucose" and "glucose"."""
    again = []
    for line in lines:
        name = line.names[0]
        key = type_ or line.type or file, plain(name) if as_written(name, options) else fold(plain(name))
        if key in merged:
            again.append(line)
            merged[key] = _also_called(merged[key], line)
        else:
            merged[key] = ListedEntity(line.id or name, key[0], tuple(line.names))
    return again


def _also_called(entity: ListedEntity, line: _Line) -> ListedEntity:
    """Add the names of a line that repeats an entity; of two main names prefer the one with plain typography."""
    name, again = entity.name, line.names[0]
    first = again if name != plain(name) and again == plain(again) else name
    id_ = first if entity.id == name else entity.id
    return entity._replace(id=id_, names=tuple(dict.fromkeys((first, *entity.names, *line.names))))


def _check_ids(entities: Sequence[ListedEntity], faults: Faults) -> None:
    seen: dict[tuple[str, str], ListedEntity] = {}
    for entity in entities:
        first = seen.setdefault((entity.type, entity.id), entity)
        if first is not entity:
            two = f"{first.name!r} and {entity.name!r}"
            faults.found.append(f"{entity.type}: {two} have the same id {entity.id!r}: ids must differ")


AMBIGUOUS = -1
_NEARLY_ALL = 0.95


class Mention(NamedTuple):
    """Characters [start, end) of a text, and the number of the entity, or :data:`AMBIGUOUS`."""

    start: int
    end: int
    entity: int


class NameFinder:
    """:param entities: numbered by their order. ``ambiguous`` maps names of several entities to their numbers."""

    def __init__(self, entities: Sequence[ListedEntity], options: ClozeBuildOptions) -> None:
        self._entities = entities
        exact: dict[str, list[int]] = {}
        folded: dict[str, list[int]] = {}
        proper: dict[str, list[int]] = {}
        for number, name, is_proper in _mark_proper_names(entities, options):
            for text in spellings(plain(name), options):
                into, key = (exact, text) if is_proper or as_written(name, options) else (folded, fold(text))
                if number not in into.setdefault(key, []):
                    into[key].append(number)
            if is_proper and not as_written(name, options):
                proper.setdefault(fold(plain(name)), []).append(number)
        for name, bearers in exact.items():  # a name that counts in any case may be written like this one
            bearers += [number for number in folded.get(fold(name), ()) if number not in bearers]
            bearers.sort()
        self.ambiguous = {name: which for names in (exact, folded) for name, which in names.items() if len(which) > 1}
        self._exact, self._folded = _Automaton(exact, 0), _Automaton(folded, 1)
        self._words = {name: numbers for name, numbers in proper.items() if name not in exact and name not in folded}
        self._in_small_letters = _Automaton({name: [number] for number, name in enumerate(self._words)}, 0)
        self._as_names: Counter[int] = Counter()
        self._as_words: Counter[int] = Counter()

    def find(self, text: str) -> list[Mention]:
        """Find names in their order, none overlapping another."""
        seen = plain_with_places(text)
        mentions: list[Mention] = []
        last = 0
        for start, negative_end, _, entity in sorted(self._hits(seen.text)):
            if start >= last:
                last = -negative_end
                mentions.append(Mention(*seen.span(start, last), entity))
        self._as_names.update(mention.entity for mention in mentions)
        self._as_words.update(hit[3] for hit in self._in_small_letters.hits(seen.text, seen.text))
        return mentions

    def find_ordinary(self) -> set[int]:
        """Return entities whose names were more often ordinary words than names in the texts searched so far."""
        words: Counter[int] = Counter()
        for word, numbers in enumerate(self._words.values()):
            words.update(dict.fromkeys(numbers, self._as_words[word]))
        return {number for number, count in words.items() if count > self._as_names[number]}

    def notes(self) -> list[str]:
        """Report how many names are of several entities and how many are proper names, and the first of each."""
        notes = []
        if self.ambiguous:
            name, bearers = next(iter(self.ambiguous.items()))
            listed = ", ".join(f"{self._entities[number].name} ({self._entities[number].type})" for number in bearers)
            many = f"{len(self.ambiguous):,} names are of several entities, as {name!r} is of {listed}"
            notes.append(f"{many}: sentences that name them are dropped")
        if self._words:
            name = self._entities[next(iter(self._words.values()))[0]].name
            many = f"{len(self._words):,} names are listed with a capital, such as {name!r}"
            notes.append(f"{many}: they are not found in small letters; --case ignore finds them so, too")
        return notes

    def _hits(self, text: str) -> list[tuple[int, int, int, int]]:
        return self._exact.hits(text, text) + self._folded.hits(fold(text), text)


class _Automaton:
    """:param rank: orders hits of equal length, the lowest first."""

    def __init__(self, names: dict[str, list[int]], rank: int) -> None:
        library = optional("ahocorasick_rs", "text")
        self._rank = rank
        self._patterns = [
            (AMBIGUOUS if len(which) > 1 else which[0], _joins(name[0]), _joins(name[-1]))
            for name, which in names.items()
        ]
        # All occurrences are needed: the longest may lie in the middle of a word and hide one that does not.
        self._search = library.AhoCorasick(list(names), matchkind=library.MatchKind.Standard, store_patterns=False)

    def hits(self, text: str, original: str) -> list[tuple[int, int, int, int]]:
        """Return (start, −end, rank, entity), in no order. :param original: *text* with its case."""
        hits = []
        for number, start, end in self._search.find_matches_as_indexes(text, overlapping=True):
            entity, begins, ends = self._patterns[number]
            joined_before = begins and start and _joins(original[start - 1])
            if not joined_before and not (ends and end < len(original) and _joins(original[end])):
                hits.append((start, -end, self._rank, entity))
        return hits


def _mark_proper_names(entities: Sequence[ListedEntity], options: ClozeBuildOptions) -> Iterator[tuple[int, str, bool]]:
    """Yield the entity of each name that is long enough, the name, and whether it is a proper name."""
    capital_by_style = _find_types_capitalised_by_style(entities)
    for number, entity in enumerate(entities):
        may_be_proper = options.case == "smart" and entity.type not in capital_by_style
        in_small_letters = {name for name in entity.names if not name[0].isupper()}
        for name in entity.names:
            if sum(map(str.isalnum, name)) >= options.min_letters:
                proper = may_be_proper and name[0].isupper() and fold(name) not in in_small_letters
                yield number, name, proper


def _find_types_capitalised_by_style(entities: Sequence[ListedEntity]) -> set[str]:
    """Return types that begin nearly all names with a capital but few of their later words."""
    first: dict[str, list[bool]] = {}
    later: dict[str, list[bool]] = {}
    for entity in entities:
        for name in entity.names:
            capitals = [word[0].isupper() for word in name.split() if word[0].isalpha() and len(word) > 3]
            first.setdefault(entity.type, []).extend(capitals[:1])
            later.setdefault(entity.type, []).extend(capitals[1:])
    return {
        type_
        for type_, capitals in first.items()
        if sum(capitals) >= _NEARLY_ALL * len(capitals) and later[type_] and 2 * sum(later[type_]) < len(later[type_])
    }


def find_types_in_small_letters(entities: Iterable[ListedEntity]) -> set[str]:
    """Return types that write at least half of their names of one word in small letters, as those of chemicals do."""
    words: dict[str, list[bool]] = {}
    for entity in entities:
        words.setdefault(entity.type, []).extend(name.islower() for name in entity.names if " " not in name)
    return {type_ for type_, small in words.items() if 2 * sum(small) >= len(small)}


def _joins(sign: str) -> bool:
    return sign.isalnum() or sign == "_"
