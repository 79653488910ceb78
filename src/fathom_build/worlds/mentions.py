"""Mentions of entities in descriptions: finding them, linking them to entities, and replacing them.

They are names, other names, and inflected forms of both (LemmInflect). All are searched for in one pass,
leftmost-longest, on word boundaries, by a trie over tokens: a word, or one character outside words. A node is the
64-bit hash of the text that leads to it; walks from all tokens of a block descend at the same time.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Literal, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fathom.base.reading import read_text
from fathom.data.columns import few_chunks, is_blank, take_rows
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.words import word_characters

_ODD = 0x9E3779B97F4A7C15  # 2^64 / golden ratio: an odd number of well mixed bits
_INVERSE = pow(_ODD, -1, 1 << 64)
BLOCK = 1 << 20
"""Bytes of text processed together: arrays of eight times that fit the processor's cache."""
_ASCII_WORD = np.zeros(256, dtype=bool)
_ASCII_WORD[[*b"_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"]] = True


class TextBlock(NamedTuple):
    """Consecutive rows as UTF-8 bytes: number of the first row, and where each begins and the last ends in *data*."""

    first: int
    data: NDArray[np.uint8]
    starts: NDArray[np.int64]


def blocks(column: pa.ChunkedArray, size: int = BLOCK) -> Iterator[TextBlock]:
    """Cut a column into blocks of whole rows of about *size* bytes; a longer row is a block."""
    first = 0
    for chunk in column.chunks:
        if not len(chunk):
            continue
        text = chunk if pa.types.is_string(chunk.type) else chunk.cast(pa.string())
        _, offsets, characters = text.buffers()
        places = np.frombuffer(offsets, dtype=np.int32)[text.offset : text.offset + len(text) + 1].astype(np.int64)
        data = np.frombuffer(characters, dtype=np.uint8) if characters is not None else np.zeros(0, dtype=np.uint8)
        row = 0
        while row < len(text):
            stop = max(int(np.searchsorted(places, places[row] + size, side="right")) - 1, row + 1)
            yield TextBlock(first + row, data[places[row] : places[stop]], places[row : stop + 1] - places[row])
            row = stop
        first += len(text)


def to_arrow(data: NDArray[np.uint8], starts: NDArray[np.int64]) -> pa.Array:
    """Build texts from their bytes and where each begins, and the end."""
    offsets = pa.py_buffer(np.ascontiguousarray(starts, dtype=np.int32))
    return pa.StringArray.from_buffers(len(starts) - 1, offsets, pa.py_buffer(np.ascontiguousarray(data)))


def in_characters(
    data: NDArray[np.uint8], row: NDArray[np.int64], start: NDArray[np.int64], end: NDArray[np.int64]
) -> Iterator[NDArray[np.int32]]:
    """Convert starts and ends of spans to characters from the start of their row."""
    if not len(data) or data.max() < 0x80:  # all bytes are characters
        yield from ((place - row).astype(np.int32) for place in (start, end))
        return
    before = np.zeros(len(data) + 1, dtype=np.int64)
    np.cumsum((data & 0xC0) != 0x80, out=before[1:])
    yield from ((before[place] - before[row]).astype(np.int32) for place in (start, end))


class Spans(NamedTuple):
    """Disjoint parts of texts, in order; arrays have the shape (spans,). ``start`` and ``end`` count characters."""

    row: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]

    def meet(self, others: Spans) -> NDArray[np.bool_]:
        """Return whether each shares a character with one of *others*."""
        if not len(others.row):
            return np.zeros(len(self.row), dtype=bool)
        width = max(int(self.end.max(initial=0)), int(others.end.max())) + 1
        last = np.searchsorted(others.row * width + others.start, self.row * width + self.end, side="left") - 1
        ends = others.row * width + others.end
        return np.asarray((last >= 0) & (ends[last] > self.row * width + self.start))


def token_starts(texts: TextBlock) -> NDArray[np.int64]:
    """Find where a name may begin or end: between bytes that are not of one word or character, and at ends of rows.

    So a token is a whole word, or one character outside words.

    :returns: places in ``data``, ascending, its end included.
    """
    data = texts.data
    word = _ASCII_WORD[data]
    begins = np.ones(len(data) + 1, dtype=bool)
    if len(data) and data.max() >= 0x80:
        lead = np.flatnonzero(data >= 0xC0)
        length = 2 + (data[lead] >= 0xE0).astype(np.int64) + (data[lead] >= 0xF0)
        signs = word_characters()[_code_points(data, lead, length)]
        for step in range(4):
            longer = length > step
            word[lead[longer] + step] = signs[longer]
        begins[:-1] = (data & 0xC0) != 0x80
    begins[1:-1] &= ~(word[1:] & word[:-1])
    begins[texts.starts] = True
    return np.flatnonzero(begins)


def _code_points(data: NDArray[np.uint8], lead: NDArray[np.int64], length: NDArray[np.int64]) -> NDArray[np.int64]:
    point = data[lead].astype(np.int64) & (0x7F >> length)
    for step in range(1, 4):
        longer = length > step
        point[longer] = (point[longer] << 6) | (data[lead[longer] + step] & 0x3F)
    return point


def spread(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Concatenate start, start + 1, … of all runs."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(total)


class Hasher:
    """64-bit hashes of runs of bytes in a block, from one running sum; with *fold*, "A" to "Z" equal "a" to "z"."""

    def __init__(self, fold: bool = False) -> None:
        random = np.random.default_rng(0).integers(1, 1 << 63, 256, dtype=np.uint64)
        self._letters = random * np.uint64(2) + np.uint64(1)
        if fold:
            self._letters[65:91] = self._letters[97:123]
        self._growing = Lock()
        self._powers, self._inverses = _powers(_ODD, 1 << 16), _powers(_INVERSE, 1 << 16)

    def sums(self, data: NDArray[np.uint8]) -> NDArray[np.uint64]:
        """Return Σ letter · odd^place before each byte, and at the end, modulo 2^64."""
        with self._growing:  # threads share the tables, which must never shrink under one of them
            if len(data) >= len(self._powers):
                size = 1 << len(data).bit_length()
                self._powers, self._inverses = _powers(_ODD, size), _powers(_INVERSE, size)
        sums = np.zeros(len(data) + 1, dtype=np.uint64)
        values = self._letters[data]
        values *= self._powers[: len(data)]
        np.cumsum(values, out=sums[1:])
        return sums

    def hash(self, sums: NDArray[np.uint64], start: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Hash the bytes from *start* to *end*, independently of their place."""
        value: NDArray[np.uint64] = (sums[end] - sums[start]) * self._inverses[start]
        value ^= value >> np.uint64(32)
        value *= np.uint64(_ODD)
        return value

    def rows(self, column: pa.ChunkedArray) -> NDArray[np.uint64]:
        """Hash each text."""
        hashes = [self.hash(self.sums(part.data), part.starts[:-1], part.starts[1:]) for part in blocks(column)]
        return np.concatenate([np.zeros(0, dtype=np.uint64), *hashes])


def _powers(base: int, count: int) -> NDArray[np.uint64]:
    powers = np.full(count + 1, base, dtype=np.uint64)
    powers[0] = 1
    return np.multiply.accumulate(powers)


_Result = TypeVar("_Result")


class Matches(NamedTuple):
    """Names in texts, in order; arrays have the shape (matches,). ``start`` and ``end`` count bytes."""

    row: NDArray[np.int32]
    number: NDArray[np.int32]
    start: NDArray[np.int32]
    end: NDArray[np.int32]


class Tries:
    """Names, some with their letter case and others regardless of it. Of two equally long ones the exact one is found.

    ``numbers`` numbers the names, shape (names,): equal names share one of ``count`` numbers.
    """

    def __init__(self, names: pa.ChunkedArray, exact: NDArray[np.bool_]) -> None:
        self._parts: list[tuple[_Trie, int]] = []
        self.numbers = np.zeros(len(names), dtype=np.int64)
        self.count = 0
        for fold in (False, True):
            mask = exact != fold
            if mask.any():
                trie = _Trie(names.filter(pa.array(mask)), Hasher(fold))
                self.numbers[mask] = trie.numbers + self.count
                self._parts.append((trie, self.count))
                self.count += trie.count

    def smallest(self, values: NDArray[np.int8]) -> NDArray[np.int8]:
        """Return the smallest of the values, shape (names,), of equal names; shape (count,)."""
        least = np.full(self.count, np.iinfo(np.int8).max, dtype=np.int8)
        np.minimum.at(least, self.numbers, values)
        return least

    def find(self, texts: pa.ChunkedArray) -> Matches:
        """Find all names in all texts."""
        none = np.zeros(0, dtype=np.int32)
        parts = [Matches(none, none, none, none), *in_order(self._search, blocks(texts))]
        return Matches(*map(np.concatenate, zip(*parts, strict=True)))

    def _search(self, texts: TextBlock) -> Matches:
        token = token_starts(texts)
        number, end = (np.full(len(token) - 1, -1, dtype=np.int64) for _ in range(2))
        for trie, before in self._parts:
            name, name_end = trie.longest(texts, token)
            longer = (name >= 0) & (name_end > end)
            number[longer], end[longer] = name[longer] + before, name_end[longer]
        begun = np.flatnonzero(number >= 0)
        begun = begun[_leftmost(token[begun], end[begun])]
        row = np.searchsorted(texts.starts, token[begun], side="right") - 1
        in_row = texts.starts[row]
        columns = (texts.first + row, number[begun], token[begun] - in_row, end[begun] - in_row)
        return Matches(*(column.astype(np.int32) for column in columns))


def in_order(work: Callable[[TextBlock], _Result], parts: Iterator[TextBlock]) -> Iterator[_Result]:
    """Apply *work* to all parts, on all processors, with only a few parts in memory."""
    workers = min(os.cpu_count() or 1, 8)
    with ThreadPoolExecutor(workers) as pool:
        while ahead := [pool.submit(work, part) for part in islice(parts, 4 * workers)]:
            for result in ahead:
                yield result.result()


def bytes_of(column: pa.ChunkedArray, rows: NDArray[np.int32]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Concatenate the bytes of some rows, and return where each begins."""
    texts = pa.concat_arrays([*take_rows(column, rows).chunks, pa.array([], pa.string())])
    whole = list(blocks(pa.chunked_array([texts]), 1 << 31))
    return (whole[0].data, whole[0].starts) if whole else (np.zeros(0, np.uint8), np.zeros(1, np.int64))


class _Trie:
    """:param names: numbered by ``numbers``, shape (names,); names with one hash by *hasher* share a number."""

    def __init__(self, names: pa.ChunkedArray, hasher: Hasher) -> None:
        self._hasher = hasher
        hashes, rows, whole = self._prefixes(names)
        self.nodes, place = np.unique(hashes, return_inverse=True)
        self.goes_on = np.zeros(len(self.nodes), dtype=bool)
        self.goes_on[place[~whole]] = True
        ends, numbers = np.unique(place[whole], return_inverse=True)
        self.count = len(ends)
        self.name_of = np.full(len(self.nodes), -1, dtype=np.int32)
        self.name_of[ends] = np.arange(len(ends), dtype=np.int32)
        self.numbers = np.zeros(len(names), dtype=np.int64)
        self.numbers[rows[whole]] = numbers
        bits = max(int(np.ceil(np.log2(max(len(self.nodes), 2)))), 1)
        self._shift = np.uint64(64 - bits)
        bounds = np.arange(1 << bits, dtype=np.uint64) << self._shift
        self._buckets = np.append(np.searchsorted(self.nodes, bounds), len(self.nodes)).astype(np.int32)

    def _prefixes(self, names: pa.ChunkedArray) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.bool_]]:
        """Return hash, row and completeness of all prefixes of names."""
        hashes, rows, whole = [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)], [np.zeros(0, bool)]
        for texts in blocks(names):
            ends = token_starts(texts)[1:]
            row = np.searchsorted(texts.starts, ends, side="left") - 1
            hashes.append(self._hasher.hash(self._hasher.sums(texts.data), texts.starts[row], ends))
            rows.append(texts.first + row)
            whole.append(texts.starts[row + 1] == ends)
        return np.concatenate(hashes), np.concatenate(rows), np.concatenate(whole)

    def _node(self, hashes: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Return the node of each hash, −1 for none."""
        bucket = hashes >> self._shift
        place, stop = self._buckets[bucket], self._buckets[bucket + np.uint64(1)]
        nodes = np.full(len(hashes), -1, dtype=np.int32)
        pending = np.flatnonzero(place < stop)
        while len(pending):
            at = place[pending]
            hit = self.nodes[at] == hashes[pending]
            nodes[pending[hit]] = at[hit]
            place[pending] += 1
            pending = pending[~hit & (at + 1 < stop[pending])]
        return nodes

    def longest(self, texts: TextBlock, token: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the longest name that begins at each token (the last is the end), and its end; −1 for none."""
        sums = self._hasher.sums(texts.data)
        walk = np.arange(len(token) - 1)  # the token where each walk began
        step = np.zeros(len(walk), dtype=np.int64)
        name, end = np.full(len(walk), -1, dtype=np.int32), np.full(len(walk), -1, dtype=np.int64)
        row = np.searchsorted(texts.starts, token[:-1], side="right") - 1
        while len(walk):
            reached = token[walk + step + 1]
            node = self._node(self._hasher.hash(sums, token[walk], reached))
            on = node >= 0
            walk, step, reached, node = walk[on], step[on], reached[on], node[on]
            passed = self.name_of[node]
            named = passed >= 0
            name[walk[named]], end[walk[named]] = passed[named], reached[named]
            on = self.goes_on[node] & (reached < texts.starts[row[walk] + 1])
            walk, step = walk[on], step[on] + 1
        return name, end


def _leftmost(start: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.int64]:
    """Choose spans from the left, each without those that begin inside it; return their places."""
    places, reach = [], 0
    for place, (first, last) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        if first >= reach:
            places.append(place)
            reach = last
    return np.array(places, dtype=np.int64)


NAME, ALIAS, INFLECTION = 0, 1, 2
KINDS = ("name", "alias", "inflection")
"""Kinds of mentions, the best first: the name of one entity that is an alias of a second means the first."""
Case = Literal["auto", "exact", "ignore"]
_FIRST_WORD, _LAST_WORD = re.compile(r"^[A-Za-z]+(?=[ -])"), re.compile(r"(?<!\w)[A-Za-z]+$")
_OF_FIRST = ("NNS", "VBZ", "VBD", "VBG", "VBN")
"""Inflections of the first of several words (Penn Treebank): a plural, or those of a verb with a particle."""
_PLURAL = 3
"""Minimum letters of a word with a plural: "his" is not that of "hi" (Hawaii)."""
_WORDS_FILE = read_text(Path(__file__).with_name("function_words.txt"))
FUNCTION_WORDS = frozenset(word for line in _WORDS_FILE.splitlines() if line[0] != "#" for word in line.split())
_PART = 1 << 16
_CACHED = 1 << 16
"""Words whose forms are cached."""


class Forms(NamedTuple):
    """Texts of entities, none blank; arrays (row of the entity, kind such as :data:`NAME`) have the shape (forms,)."""

    texts: pa.ChunkedArray
    entity: NDArray[np.int32]
    kind: NDArray[np.int8]

    def only(self, mask: NDArray[np.bool_]) -> Forms:
        """Select forms by a mask."""
        return Forms(self.texts.filter(pa.array(mask)), self.entity[mask], self.kind[mask])

    def have(self, characters: int) -> NDArray[np.bool_]:
        """Return whether each has at least so many characters."""
        return np.asarray(pc.greater_equal(pc.utf8_length(self.texts), characters).to_numpy())

    def exact(self, case: Case) -> NDArray[np.bool_]:
        """Return whether the case of each counts; in the others A to Z equal a to z.

        :param case: "exact", "ignore", or "auto": in those with a capital letter.
        """
        if case == "auto":
            return np.asarray(pc.match_substring_regex(self.texts, r"\p{Lu}").to_numpy())
        return np.full(len(self.texts), case == "exact")


def names_of(entities: pa.Table) -> Forms:
    """Return the names of entities."""
    names = entities.column("name")
    forms = Forms(names, np.arange(len(names), dtype=np.int32), np.full(len(names), NAME, dtype=np.int8))
    return forms.only(~is_blank(names))


def forms_of(entities: pa.Table) -> Forms:
    """Return the names of entities, their other names, and inflected forms of both."""
    names = names_of(entities)
    aliases = entities.column("aliases")
    lengths = pc.fill_null(pc.list_value_length(aliases), 0).to_numpy()
    bearers = np.repeat(np.arange(len(aliases), dtype=np.int32), lengths)
    kinds = [(*names[:2], NAME), (pc.list_flatten(aliases), bearers, ALIAS)]
    kinds += [(*_inflections(texts, entity), INFLECTION) for texts, entity, _ in tuple(kinds)]
    texts = pa.chunked_array([chunk for part, _, _ in kinds for chunk in part.chunks], pa.string())
    kind = np.repeat(np.array([kind for *_, kind in kinds], np.int8), [len(part) for part, _, _ in kinds])
    forms = Forms(texts, np.concatenate([entity for _, entity, _ in kinds]), kind)
    return forms.only(~is_blank(texts))


def _inflections(names: pa.ChunkedArray, entity: NDArray[np.int32]) -> tuple[pa.ChunkedArray, NDArray[np.int32]]:
    inflect, parts, rows = inflector(), [], []
    for start in range(0, len(names), _PART):
        inflected = [inflect(name) for name in names.slice(start, _PART).to_pylist()]
        parts.append(pa.array([form for forms in inflected for form in forms], pa.string()))
        rows.append(np.repeat(entity[start : start + _PART], [len(forms) for forms in inflected]))
    return pa.chunked_array(parts, pa.string()), np.concatenate([np.zeros(0, np.int32), *rows])


def inflector() -> Callable[[str], Sequence[str]]:
    """Return a function from a name to its inflected forms, without the name and :data:`FUNCTION_WORDS`."""
    from lemminflect import getAllInflections, getAllInflectionsOOV

    in_dictionary = lru_cache(_CACHED)(getAllInflections)
    by_rules = lru_cache(_CACHED)(partial(getAllInflectionsOOV, upos="NOUN"))

    def forms(word: str, tags: Sequence[str] = ()) -> Iterator[str]:
        for tag, spelt in (in_dictionary(word) or ({} if tags else by_rules(word))).items():
            if (not tags or tag in tags) and (tag != "NNS" or len(word) >= _PLURAL):
                yield from spelt

    def inflect(name: str) -> Sequence[str]:
        inflected: dict[str, None] = {}
        if last := _LAST_WORD.search(name):
            inflected |= {name[: last.start()] + form: None for form in forms(last[0])}
        if first := _FIRST_WORD.search(name):
            inflected |= {form + name[first.end() :]: None for form in forms(first[0], _OF_FIRST)}
        inflected.pop(name, None)
        return tuple(form for form in inflected if form.lower() not in FUNCTION_WORDS)

    return inflect


class Mentions(NamedTuple):
    """Names of entities found in descriptions, in the order of the text. Arrays have the shape (mentions,).

    :param described: row of the entity whose description it is.
    :param entity: row of the entity mentioned.
    :param start: first byte of the name in the description.
    :param end: following its last byte.
    :param ambiguous: numbers of mentions of several entities by the rule that chose one. "itself": the described entity
        has the name. "linked": a training triple links it to the first that has. "first": the first that has.
    :param too_short: number of entities whose names are too short to be searched for.
    :param case: "exact" if case counts in all names, "ignore" if in none, else "mixed".
    :param kinds: number of mentions of each of :data:`fathom_build.worlds.mentions.KINDS`.
    """

    described: NDArray[np.int32]
    entity: NDArray[np.int32]
    start: NDArray[np.int32]
    end: NDArray[np.int32]
    ambiguous: dict[str, int]
    too_short: int
    case: str
    kinds: dict[str, int]


def find_mentions(
    graph: KnowledgeGraph, case: Case = "auto", shortest: int = 2, forms: Forms | None = None
) -> Mentions:
    """Find the names of all entities in all descriptions.

    :param case: "exact", "ignore" (the letters A to Z only), or "auto": it counts in names with a capital.
    :param shortest: minimum characters of a name to search for; "a" occurs in every second sentence.
    :param forms: of the entities; by default their names.
    """
    forms = forms or names_of(graph.entities)
    sought = forms.only(forms.have(shortest))
    exact = sought.exact(case)
    bearers = _Bearers(sought, exact)
    matches = bearers.tries.find(graph.entities.column("description"))
    entity, ambiguous = _choose(graph, bearers, matches)
    by_kind = np.bincount(bearers.kind[matches.number], minlength=len(KINDS)).tolist()
    is_exact = exact[sought.kind == NAME]
    too_short = int((forms.kind == NAME).sum()) - len(is_exact)
    cases = "ignore" if not is_exact.any() else "exact" if is_exact.all() else "mixed"
    kinds = dict(zip(KINDS, by_kind, strict=True))
    return Mentions(matches.row, entity, matches.start, matches.end, ambiguous, too_short, cases, kinds)


class _Bearers:
    """Entities by form, of the best kind only: a main name of one entity is no alias of another.

    ``members`` lists the entities by number of the form, ascending; ``first`` is where each number begins in it.
    ``kind`` is the kind of each number. ``keys`` are number · entities + entity of each member, ascending.
    """

    def __init__(self, forms: Forms, exact: NDArray[np.bool_]) -> None:
        self.tries = Tries(forms.texts, exact)
        self.entities = int(forms.entity.max(initial=0)) + 1
        count, number = self.tries.count, self.tries.numbers
        self.kind = self.tries.smallest(forms.kind)
        best = forms.kind == self.kind[number]
        self.keys = np.unique(number[best] * self.entities + forms.entity[best])
        owner, members = np.divmod(self.keys, self.entities)
        self.owner, self.members = owner, members.astype(np.int32)
        self.first = np.searchsorted(owner, np.arange(count + 1))

    def have(self, entity: NDArray[np.int32], number: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return whether each entity has the form of that number; arrays of equal shape."""
        wanted = number.astype(np.int64) * self.entities + entity
        return (entity < self.entities) & _lookup(self.keys, wanted)[1]


def _lookup(keys: NDArray[np.int64], wanted: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the place of each key in the ascending *keys*, and whether it is one of them."""
    if not len(keys):
        return np.zeros(len(wanted), dtype=np.int64), np.zeros(len(wanted), dtype=bool)
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return place, keys[place] == wanted


def _choose(graph: KnowledgeGraph, bearers: _Bearers, matches: Matches) -> tuple[NDArray[np.int32], dict[str, int]]:
    """Choose the entity of each mention, and count how many were chosen among several by which rule.

    Only training triples count: answers of the test must not affect a text.
    """
    first = bearers.first[matches.number]
    entity = bearers.members[first] if len(first) else np.zeros(0, dtype=np.int32)
    shared = np.flatnonzero(bearers.first[matches.number + 1] - first > 1)
    itself = bearers.have(matches.row[shared], matches.number[shared])
    entity[shared[itself]] = matches.row[shared[itself]]
    shared = shared[~itself]
    keys, neighbours = _linked_homographs(graph, bearers)
    place, linked = _lookup(keys, matches.row[shared].astype(np.int64) * bearers.tries.count + matches.number[shared])
    entity[shared[linked]] = neighbours[place[linked]]
    return entity, {"itself": int(itself.sum()), "linked": int(linked.sum()), "first": int((~linked).sum())}


def _linked_homographs(graph: KnowledgeGraph, bearers: _Bearers) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return ascending keys of an entity and a form that a neighbour shares, and the first such neighbour of each."""
    rows = graph.training
    part = slice(rows.start, rows.stop)
    several = np.flatnonzero((np.diff(bearers.first) > 1)[bearers.owner])
    order = several[np.argsort(bearers.members[several], kind="stable")]
    member, number = bearers.members[order], bearers.owner[order]  # of entities that share a name, by entity
    near = np.concatenate([graph.head[part], graph.tail[part]])
    neighbour = np.concatenate([graph.tail[part], graph.head[part]])
    begin = np.searchsorted(member, neighbour, side="left")
    names = np.searchsorted(member, neighbour, side="right") - begin
    shared = number[spread(begin, names)]
    keys = np.repeat(near, names).astype(np.int64) * bearers.tries.count + shared
    neighbour = np.repeat(neighbour, names)
    order = np.lexsort((neighbour, keys))
    keys, place = np.unique(keys[order], return_index=True)
    return keys, neighbour[order][place].astype(np.int32)


def replace_mentions(
    descriptions: pa.ChunkedArray, mentions: Mentions, names: pa.ChunkedArray
) -> tuple[pa.ChunkedArray, pa.Table]:
    """Replace mentions in descriptions by the new *names* of entities.

    :returns: the descriptions, and the spans: ``described`` and ``mention`` (rows of entities), ``start`` and ``end``
        (characters of the old description), ``new_start`` and ``new_end`` (of the new one), ``old`` (the old text).
    """
    parts = list(in_order(partial(_replace, mentions, few_chunks(names)), blocks(descriptions)))
    texts = pa.chunked_array([text for text, _ in parts], pa.string())
    return texts, pa.Table.from_batches([spans for _, spans in parts], SPANS)


_ROWS_AND_PLACES = ("described", "mention", "start", "end", "new_start", "new_end")
SPANS = pa.schema([*((name, pa.int32()) for name in _ROWS_AND_PLACES), ("old", pa.string())])


def _replace(mentions: Mentions, names: pa.ChunkedArray, texts: TextBlock) -> tuple[pa.Array, pa.RecordBatch]:
    rows = len(texts.starts) - 1
    begin, stop = np.searchsorted(mentions.described, [texts.first, texts.first + rows])
    part = slice(int(begin), int(stop))
    described, entity = mentions.described[part], mentions.entity[part]
    row = described - texts.first
    start, end = texts.starts[row] + mentions.start[part], texts.starts[row] + mentions.end[part]
    put, put_starts = bytes_of(names, entity)
    grown = np.diff(put_starts) - (end - start)
    total_grown = np.concatenate([[0], np.cumsum(grown)])
    new_start = start + total_grown[:-1]
    new_end = new_start + np.diff(put_starts)
    text = np.empty(len(texts.data) + int(total_grown[-1]), dtype=np.uint8)
    is_new = _covered(new_start, new_end, len(text))
    old_letters = _covered(start, end, len(texts.data))
    text[is_new] = put
    text[~is_new] = texts.data[~old_letters]
    before = np.searchsorted(row, np.arange(rows + 1))  # mentions of earlier rows
    starts = texts.starts + total_grown[before]
    spans = pa.record_batch(
        [
            described,
            entity,
            *in_characters(texts.data, texts.starts[row], start, end),
            *in_characters(text, starts[row], new_start, new_end),
            to_arrow(texts.data[old_letters], np.concatenate([[0], np.cumsum(end - start)])),
        ],
        schema=SPANS,
    )
    return to_arrow(text, starts), spans


def _covered(start: NDArray[np.int64], end: NDArray[np.int64], size: int) -> NDArray[np.bool_]:
    change = np.zeros(size + 1, dtype=np.int8)
    change[start] += 1
    change[end] -= 1  # cancels out where one span ends and the next begins
    inside: NDArray[np.bool_] = np.cumsum(change[:-1], dtype=np.int8).astype(bool)
    return inside
