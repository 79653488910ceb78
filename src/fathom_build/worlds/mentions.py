"""Mentions of entities in descriptions: finding them, linking them to entities, and replacing them.

They are names, other names, and inflected forms of both: LemmInflect, a dictionary of English word forms, inflects the
last and the first word of a name ("states of mind", "ticked off"). Function words are no form of a name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fathom.base.reading import read_text
from fathom.data.columns import few_chunks, is_blank
from fathom.data.knowledge import KnowledgeGraph
from fathom_build.worlds.tries import (
    Matches,
    TextBlock,
    Tries,
    blocks,
    bytes_of,
    in_characters,
    in_order,
    spread,
    to_arrow,
)

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

    def only(self, chosen: NDArray[np.bool_]) -> Forms:
        """Select forms by a mask."""
        return Forms(self.texts.filter(pa.array(chosen)), self.entity[chosen], self.kind[chosen])

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

    known = lru_cache(_CACHED)(getAllInflections)
    unknown = lru_cache(_CACHED)(partial(getAllInflectionsOOV, upos="NOUN"))

    def forms(word: str, tags: Sequence[str] = ()) -> Iterator[str]:
        for tag, spelt in (known(word) or ({} if tags else unknown(word))).items():
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
    counts = {"itself": int(itself.sum()), "linked": int(linked.sum()), "first": int((~linked).sum())}
    return entity, counts


def _linked_homographs(graph: KnowledgeGraph, bearers: _Bearers) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return ascending keys of an entity and a form that a neighbour shares, and the first such neighbour of each."""
    rows = graph.training
    part = slice(rows.start, rows.stop)
    several = np.flatnonzero((np.diff(bearers.first) > 1)[bearers.owner])
    order = several[np.argsort(bearers.members[several], kind="stable")]
    member, number = bearers.members[order], bearers.owner[order]  # of entities that share a name, by entity
    one = np.concatenate([graph.head[part], graph.tail[part]])
    other = np.concatenate([graph.tail[part], graph.head[part]])
    begin = np.searchsorted(member, other, side="left")
    names = np.searchsorted(member, other, side="right") - begin
    shared = number[spread(begin, names)]
    keys = np.repeat(one, names).astype(np.int64) * bearers.tries.count + shared
    other = np.repeat(other, names)
    order = np.lexsort((other, keys))
    keys, place = np.unique(keys[order], return_index=True)
    return keys, other[order][place].astype(np.int32)


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
