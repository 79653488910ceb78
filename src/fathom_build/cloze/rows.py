"""Sentences that may become queries, kept on disk, and an n-gram model of the words around their answers.

The model says how far a sentence can be answered without a language model. Each candidate w between … l₂ l₁ and
r₁ r₂ … scores S(w | l₂ l₁) · S(r₁ | w) · S(r₂ | w r₁), where S is the share among the counts, or 0.4 times that of the
shorter history for unseen n-grams (Brants et al., EMNLP 2007, equation 5). Counted are the corpus's sentences that name
one listed entity once, without those of the query's own document (in a long one, within :data:`WINDOW`) and equal ones
elsewhere. Names that no other sentence has score 0.
"""

from __future__ import annotations

import hashlib
import json
import re
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fathom.data.templates import ANSWER
from fathom_build.cloze.entities import ListedEntity
from fathom_build.cloze.typography import fold, plain

_AT_ONCE = 1 << 21
"""Keys resolved together."""
_VERSIONS, _PLACES = 1 << 8, 1 << 55


class Supersession(NamedTuple):
    """Masks of items replaced by another with the same key, and by a deletion; shape (places,)."""

    beaten: NDArray[np.bool_]
    withdrawn: NDArray[np.bool_]


class NumbersOnDisk:
    """Unsigned or signed 64-bit integers, appended to a file in blocks and read back once."""

    def __init__(self, path: Path, code: Literal["Q", "q"]) -> None:
        self.path, self._code, self._pending = path, code, array(code)

    def add(self, numbers: Iterable[int]) -> None:
        """Append *numbers*."""
        self._pending.extend(numbers)
        if len(self._pending) >= 1 << 16:
            self.flush()

    def flush(self) -> None:
        """Write what is pending."""
        with self.path.open("ab") as file:
            self._pending.tofile(file)
        self._pending = array(self._code)


class Occurrences:
    """Items with keys, of which the first or the last of each key counts.

    They take 16 bytes each in a new file. Parts of the keys are resolved one by one, within 100 MB and a byte per item.
    """

    def __init__(self, path: Path) -> None:
        self._ranks = NumbersOnDisk(path, "Q")
        self.places = 0

    def add(self, *keys: tuple[str, int], deleted: bool = False) -> None:
        """Append an item by its keys and versions; an item without a key always counts.

        A deletion is an item, too, and may have many keys.
        """
        for key, version in keys:
            rank = min(version, _VERSIONS - 1) * _PLACES + self.places
            hashed = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "little")
            self._ranks.add((hashed, rank * 2 + deleted))
        self.places += 1

    def resolve(self, counts: Literal["first", "last"]) -> Supersession:
        """Determine which items count, once all are added. The last is the latest of the greatest version."""
        self._ranks.flush()
        beaten, withdrawn = np.zeros(self.places, np.bool_), np.zeros(self.places, np.bool_)
        shares = -(-self._ranks.path.stat().st_size // 16 // _AT_ONCE)
        for share in range(shares):
            keys, ranks = self._part(share, shares)
            if not len(keys):
                continue
            order = np.lexsort((ranks, keys))
            keys, ranks = keys[order], ranks[order]
            new = np.concatenate([[True], keys[1:] != keys[:-1]])
            edges = np.flatnonzero(new)
            winner = edges if counts == "first" else np.concatenate([edges[1:], [len(keys)]]) - 1
            deletion = (ranks & np.uint64(1)).astype(np.bool_)
            loses = ~deletion
            loses[winner] = False
            places = ((ranks >> np.uint64(1)) % np.uint64(_PLACES)).astype(np.int64)
            beaten[places[loses]] = True
            withdrawn[places[loses]] = deletion[winner][np.cumsum(new) - 1][loses]
        self._ranks.path.unlink()
        return Supersession(beaten, withdrawn)

    def _part(self, share: int, shares: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        parts = []
        with self._ranks.path.open("rb") as file:
            while len(rows := np.fromfile(file, np.uint64, 1 << 20)):
                rows = rows.reshape(-1, 2)
                parts.append(rows[rows[:, 0] % np.uint64(shares) == share])
        rows = np.concatenate(parts)
        return rows[:, 0], rows[:, 1]


class Row(NamedTuple):
    """A sentence.

    :param entity: number of its answer.
    :param masked: the sentence with the answer slot; *surface*: the answer as written.
    :param ngram: the n-gram model's rank of the answer, among its type and, if that differs, among all.
    """

    entity: int
    masked: str
    surface: str
    document: str
    date: str
    offset: int
    section: str
    source: int
    ngram: Sequence[str] = ()


class SentenceRows:
    """Sentences in temporary files."""

    def __init__(self, folder: Path, entities: Sequence[ListedEntity]) -> None:
        self._all, self.queries = folder / "all", folder / "queries"
        self._file = self._all.open("w", encoding="utf-8")
        self._entities = entities
        self._sentences = Occurrences(folder / "sentences")

    def add(self, row: Row) -> None:
        """Append a sentence."""
        self._file.write(_line(row))
        rank = 1 if is_own_name(row.surface, self._entities[row.entity]) else 2  # prefer the answer's main name
        self._sentences.add((f"{row.entity} {_normalised(row.masked)}", rank))

    def close(self) -> None:
        """Close the file after the last sentence."""
        self._file.close()

    def drop_repeated(self) -> Iterator[Row]:
        """Drop repetitions of a sentence with the same answer, once closed, and yield them."""
        repeated = self._sentences.resolve("first").beaten
        with self.queries.open("w", encoding="utf-8") as file:
            for again, row in zip(repeated, rows_in(self._all), strict=True):
                if again:
                    yield row
                else:
                    file.write(_line(row))
        self._all.unlink()

    def replace(self, rows: Iterable[Row]) -> None:
        """Replace the queries."""
        with self._all.open("w", encoding="utf-8") as file:
            file.writelines(map(_line, rows))
        self._all.replace(self.queries)


def rows_in(path: Path) -> Iterator[Row]:
    """Read rows one at a time."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield Row(*json.loads(line))


def is_own_name(surface: str, entity: ListedEntity) -> bool:
    """Return whether the text has the entity's main name, ignoring case and typography."""
    return _normalised(surface) == _normalised(entity.name)


def _normalised(text: str) -> str:
    return fold(plain(text))


def _line(row: Row) -> str:
    return _ENCODER.encode(row) + "\n"


_ENCODER = json.JSONEncoder(ensure_ascii=False)  # one for all rows: json.dumps would make one for each


BACKOFF = 0.4
WINDOW = 100
_TWO_WORDS = re.compile(r"\s*(\w+|[^\w\s])?\s*(\w+|[^\w\s])?")
_FAR = 120
"""Characters next to the gap that are searched for two words."""
_QUERIES_AT_ONCE = 256
"""Queries processed together."""
_EDGE = "\n"
"""Marks the end of a sentence; it is no word."""
_ENTITY, _DOCUMENT, _SENTENCE, _PLACE, _LEFT, _LEFT_TWO, _RIGHT, _RIGHT_TWO = range(8)
_COLUMNS = 8

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class NgramRank(NamedTuple):
    """Optimistic (``first``) and pessimistic (``last``) rank of the answer in a pool of that size."""

    first: int
    last: int
    pool: int

    def __str__(self) -> str:
        place = str(self.first) if self.first == self.last else f"{self.first}-{self.last}"
        return f"{place} of {self.pool}"


class Neighbours:
    """The words next to names that are the only one in their sentence, hashed, on disk in a new file, 64 bytes each."""

    def __init__(self, path: Path) -> None:
        self._slots = NumbersOnDisk(path, "q")

    def add(self, entity: int, masked: str, document: str) -> None:
        """Append a sentence with its answer slot; those of a document are consecutive."""
        self._slots.add(_slot(entity, masked, document))

    def model(self) -> Ngrams:
        """Build the model, once all sentences have been added."""
        self._slots.flush()
        slots = np.fromfile(self._slots.path, np.int64).reshape(-1, _COLUMNS)
        self._slots.path.unlink()
        return Ngrams(slots)


def _slot(entity: int, masked: str, document: str) -> tuple[int, ...]:
    before, _, after = masked.partition(ANSWER)
    last, second_last = _two_words(before[-_FAR:].casefold()[::-1])  # the letters of both are reversed
    first, second = _two_words(after[:_FAR].casefold())
    words = hash(last), hash((second_last, last)), hash(first), hash((first, second))
    return entity, hash(document), *_identity(entity, masked, document), *words


def _two_words(text: str) -> tuple[str, str]:
    match = _TWO_WORDS.match(text)
    return (match[1] or _EDGE, match[2] or _EDGE) if match else (_EDGE, _EDGE)


def _identity(entity: int, masked: str, document: str) -> tuple[int, int]:
    """Return a hash of the sentence with its answer, and one of both and the document."""
    sentence = hash((entity, fold(plain(masked))))
    return sentence, hash((sentence, document))


class _Pairs(NamedTuple):
    """Counts by query × entities + entity (sorted and distinct); other pairs have 0."""

    keys: Ints
    numbers: Floats

    def at(self, keys: Ints) -> Floats:
        """Return the counts of sorted *keys*, a superset of its own."""
        counts = np.zeros(len(keys))
        counts[np.searchsorted(keys, self.keys)] = self.numbers
        return counts


class _Counts:
    """Counts of entities next to each context, and the context of each sentence."""

    def __init__(self, contexts: Ints, entity: Ints, counted: NDArray[np.bool_], entities: int) -> None:
        distinct, self.context_of_slot = np.unique(contexts, return_inverse=True)
        keys, numbers = np.unique(self.context_of_slot[counted] * entities + entity[counted], return_counts=True)
        self._numbers, self._entity = numbers.astype(float), keys % entities
        self._from = np.searchsorted(keys, np.arange(len(distinct) + 1) * entities)

    def count(self, slots: Ints, query: Ints, excluded: Ints, entity: Ints, entities: int) -> _Pairs:
        """Count each entity next to the context of each slot.

        :param excluded: sentences, each not counted for the query at the same place in *query*.
        """
        context = self.context_of_slot[slots]
        which, places = _ranges(self._from[context], self._from[context + 1] - self._from[context])
        keys, numbers = which * entities + self._entity[places], self._numbers[places]
        same_context = self.context_of_slot[excluded] == context[query]
        np.subtract.at(
            numbers, np.searchsorted(keys, query[same_context] * entities + entity[excluded[same_context]]), 1
        )
        return _Pairs(keys, numbers)


class _NgramScores(NamedTuple):
    """Scores of some (query, entity), whose entity is next to the context, excluded or a gold answer.

    ``others`` has the scores of all others by their number of occurrences, shape (queries, levels).
    """

    query: Ints
    entity: Ints
    score: Floats
    others: Floats


class Ngrams:
    """:param slots: shape (sentences, 8)."""

    def __init__(self, slots: Ints) -> None:
        self._document, self._places = slots[:, _DOCUMENT], slots[:, _PLACE]
        self.entities, self._entity = np.unique(slots[:, _ENTITY], return_inverse=True)
        _, first, equal = np.unique(slots[:, _SENTENCE], return_index=True, return_inverse=True)
        self._first_equal: Ints = first[equal]
        self._counted = self._first_equal == np.arange(len(slots))
        self._contexts = {
            which: _Counts(slots[:, which], self._entity, self._counted, len(self.entities))
            for which in (_LEFT, _LEFT_TWO, _RIGHT, _RIGHT_TWO)
        }
        self._all = np.bincount(self._entity[self._counted], minlength=len(self.entities)).astype(float)
        self.levels, self.level = np.unique(self._all, return_inverse=True)
        self._by_place = np.argsort(self._places, kind="stable")
        new = np.concatenate([[True], self._document[1:] != self._document[:-1]])
        number, starts = np.cumsum(new) - 1, np.flatnonzero(new)
        at = np.arange(len(slots))
        self._from = np.maximum(starts[number], at - WINDOW)
        self._to = np.minimum(np.append(starts[1:], len(slots))[number], at + WINDOW + 1)

    def ranks(self, rows: Iterable[Row], pools: Sequence[Collection[int]]) -> Iterator[tuple[NgramRank, ...]]:
        """Rank the answer of each query in each pool (numbers of entities) that has it."""
        prepared = [_Pool.from_members(set(pool), self) for pool in pools]
        rest = iter(rows)
        while batch := list(islice(rest, _QUERIES_AT_ONCE)):
            yield from self._ranked(batch, prepared)

    def _ranked(self, rows: Sequence[Row], pools: Sequence[_Pool]) -> Iterator[tuple[NgramRank, ...]]:
        scored = self.score(rows)
        is_gold = scored.entity == self._golds(rows)[scored.query]
        best = np.zeros(len(rows))
        best[scored.query[is_gold]] = scored.score[is_gold]
        near = 1e-9 * best
        places = [pool.places(scored, is_gold, best - near, best + near) for pool in pools]
        for number, row in enumerate(rows):
            yield tuple(
                NgramRank(
                    1 + int(ahead[number]),
                    1 + int(upto[number]) + (pool.unseen if best[number] <= 0 else 0),
                    len(pool.members),
                )
                for pool, (ahead, upto) in zip(pools, places, strict=True)
                if row.entity in pool.members
            )

    def _golds(self, rows: Sequence[Row]) -> Ints:
        """Return the places of the answers among the entities that occur: each does, in its own sentence."""
        return np.searchsorted(self.entities, np.array([row.entity for row in rows], dtype=np.int64))

    def score(self, rows: Sequence[Row]) -> _NgramScores:
        """Score entities for each query, without the sentences that it excludes."""
        slots, entities = self._slots(rows), len(self.entities)
        query, excluded = self._excluded(slots)
        excluded_keys, times = np.unique(query * entities + self._entity[excluded], return_counts=True)
        removed = _Pairs(excluded_keys, times.astype(float))
        near = {w: c.count(slots, query, excluded, self._entity, entities) for w, c in self._contexts.items()}
        golds = np.arange(len(rows)) * entities + self._golds(rows)
        keys = _distinct([golds, removed.keys, *(pairs.keys for pairs in near.values())])
        queries, entity = keys // entities, keys % entities
        counts = {which: pairs.at(keys) for which, pairs in near.items()}
        sums = {which: np.bincount(queries, count, len(rows)).astype(float) for which, count in counts.items()}
        total = self._all.sum() - np.bincount(query, minlength=len(rows))
        score = _scores(
            self._all[entity] - removed.at(keys),
            total[queries],
            {which: (counts[which], sums[which][queries]) for which in counts},
        )
        never = np.zeros((1, len(self.levels)))
        others = _scores(self.levels[None], total[:, None], {w: (never, seen[:, None]) for w, seen in sums.items()})
        return _NgramScores(queries, entity, score, others)

    def _slots(self, rows: Sequence[Row]) -> Ints:
        place = np.array([_identity(row.entity, row.masked, row.document)[1] for row in rows], dtype=np.int64)
        return self._by_place[np.searchsorted(self._places, place, sorter=self._by_place)]

    def _excluded(self, slots: Ints) -> tuple[Ints, Ints]:
        """Return pairs of the place of a query and the number of a counted sentence to exclude."""
        start, stop = self._from[slots], self._to[slots]
        query, excluded = _ranges(start, stop - start)
        counted = self._counted[excluded]
        query, excluded = query[counted], excluded[counted]
        again = self._first_equal[slots]
        elsewhere = np.flatnonzero((again < start) | (again >= stop))
        return np.concatenate([query, elsewhere]), np.concatenate([excluded, again[elsewhere]])


class _Pool(NamedTuple):
    """Candidates: how many occur nowhere (``unseen``), which entities are members, and how many have each level."""

    members: set[int]
    unseen: int
    inside: NDArray[np.bool_]
    by_level: Ints
    level: Ints

    @classmethod
    def from_members(cls, members: set[int], model: Ngrams) -> _Pool:
        inside = np.isin(model.entities, list(members))
        by_level = np.bincount(model.level[inside], minlength=len(model.levels))
        return cls(members, len(members) - int(inside.sum()), inside, by_level, model.level)

    def places(
        self, scored: _NgramScores, is_gold: NDArray[np.bool_], least: Floats, most: Floats
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Count distractors of each query that score more than *most*, and those that score at least *least*."""
        queries, levels = scored.others.shape
        inside = self.inside[scored.entity]
        keys = scored.query[inside] * levels + self.level[scored.entity[inside]]
        others = self.by_level - np.bincount(keys, minlength=queries * levels).reshape(queries, levels)
        distractors = inside & ~is_gold
        query, score = scored.query[distractors], scored.score[distractors]
        ahead = np.bincount(query[score > most[query]], minlength=queries)
        upto = np.bincount(query[score >= least[query]], minlength=queries)
        ahead += (others * (scored.others > most[:, None])).sum(axis=1)
        upto += (others * (scored.others >= least[:, None])).sum(axis=1)
        return ahead, upto


def _scores(names: Floats, total: Floats, counts: Mapping[int, tuple[Floats, Floats]]) -> Floats:
    left, left_two, (first, any_first), (both, any_both) = (counts[w] for w in (_LEFT, _LEFT_TWO, _RIGHT, _RIGHT_TWO))
    before = _backed_off(*left, BACKOFF * _share(names, total))
    before = _backed_off(*left_two, BACKOFF * before)
    after = _backed_off(first, names, BACKOFF * _share(any_first, total))
    further = _backed_off(both, first, BACKOFF * _share(any_both, any_first))
    # A word that follows no name distinguishes none.
    return np.asarray(before * np.where(any_first > 0, after, 1.0) * np.where(any_both > 0, further, 1.0))


def _distinct(keys: Sequence[Ints]) -> Ints:
    """Return sorted distinct keys; ``np.unique`` is far slower if most occur in several arrays."""
    merged = np.sort(np.concatenate(keys))
    return np.asarray(merged[np.concatenate([[True], merged[1:] != merged[:-1]])])


def _ranges(start: Ints, length: Ints) -> tuple[Ints, Ints]:
    """Return the place of the range of each number, and all numbers of each range."""
    which = np.repeat(np.arange(len(start)), length)
    return which, np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length) + np.repeat(start, length)


def _share(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.zeros(np.broadcast(part, whole).shape), where=whole > 0)


def _backed_off(counted: Floats, history: Floats, otherwise: Floats) -> Floats:
    return np.where(counted > 0, _share(counted, history), otherwise)
