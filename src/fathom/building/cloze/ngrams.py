"""What a model of neighbouring words alone would answer: how far a sentence can be answered without a language model.

The corpus's sentences that name one listed entity once, kept or not, are counted as (two words before, entity, two
words behind). Of a query the sentences of its own document are left out, and so is what says the same elsewhere; of a
long document those within :data:`WITHIN` such sentences. Each candidate w between … l₂ l₁ and r₁ r₂ … then scores

    S(w | l₂ l₁) · S(r₁ | w) · S(r₂ | w r₁)

where S is the share among the counts, of what was never counted 0.4 times that of the shorter history (Brants et al.,
"Large Language Models in Machine Translation", EMNLP 2007, equation 5: trigrams with stupid backoff), an entity being
one word however many it is written with. Names that no other sentence has score 0.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fathom.building.cloze.rows import Row
from fathom.building.cloze.typography import fold, plain
from fathom.data.templates import ANSWER

BACKOFF = 0.4
WITHIN = 100
_TWO_WORDS = re.compile(r"\s*(\w+|[^\w\s])?\s*(\w+|[^\w\s])?")
_FAR = 120
"""Characters beside the gap among which two words are looked for."""
_AT_ONCE, _CELLS = 1 << 12, 200_000
"""Queries, and pairs of a query and an entity, looked at together."""
_EDGE = "\n"
"""What stands for the end of a sentence: no word."""
_ENTITY, _DOCUMENT, _SAID, _OWN, _LEFT, _LEFT_TWO, _RIGHT, _RIGHT_TWO = range(8)
_COLUMNS = 8

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class NgramRank(NamedTuple):
    """Where the model puts the best right answer among a pool.

    :param first: its place if it came before all that score as much.
    :param last: and if it came behind them.
    :param pool: size of the pool.
    """

    first: int
    last: int
    pool: int

    def __str__(self) -> str:
        place = str(self.first) if self.first == self.last else f"{self.first}-{self.last}"
        return f"{place} of {self.pool}"


class Neighbours:
    """The words beside every name that stood alone in its sentence, on disk, 64 bytes each.

    Words are kept as hashes that hold within one process; nothing but whether they are equal matters.

    :param path: a new file to keep them in.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pending = array("q")

    def add(self, entity: int, masked: str, document: str) -> None:
        """The next sentence; those of a document stand together. :param masked: with the name's place in it."""
        self._pending.extend(_slot(entity, masked, document))
        if len(self._pending) >= 1 << 16:
            self._flush()

    def model(self) -> Ngrams:
        """Once all have been added."""
        self._flush()
        slots = np.fromfile(self._path, np.int64).reshape(-1, _COLUMNS)
        self._path.unlink()
        return Ngrams(slots)

    def _flush(self) -> None:
        with self._path.open("ab") as file:
            self._pending.tofile(file)
        self._pending = array("q")


def _slot(entity: int, masked: str, document: str) -> tuple[int, ...]:
    before, _, behind = masked.partition(ANSWER)
    first, second = _two_words(before[-_FAR:].casefold()[::-1])  # whose letters stand the other way round, all of them
    next_, after = _two_words(behind[:_FAR].casefold())
    said, own = _said_and_own(entity, masked, document)
    return entity, hash(document), said, own, hash(first), hash((second, first)), hash(next_), hash((next_, after))


def _two_words(text: str) -> tuple[str, str]:
    found = _TWO_WORDS.match(text)
    return (found[1] or _EDGE, found[2] or _EDGE) if found else (_EDGE, _EDGE)


def _said_and_own(entity: int, masked: str, document: str) -> tuple[int, int]:
    said = hash((entity, fold(plain(masked))))
    return said, hash((said, document))


class _Pairs(NamedTuple):
    """Numbers of pairs (query, entity), others being 0.

    :param keys: query × entities + entity, sorted, each once.
    """

    keys: Ints
    numbers: Floats

    def at(self, keys: Ints) -> Floats:
        """Of *keys*, which hold all that are here and are sorted."""
        found = np.zeros(len(keys))
        found[np.searchsorted(keys, self.keys)] = self.numbers
        return found


class _Counts:
    """How often each entity stood beside each context, and which context each sentence has."""

    def __init__(self, contexts: Ints, entity: Ints, counted: NDArray[np.bool_], entities: int) -> None:
        known, self.of_slot = np.unique(contexts, return_inverse=True)
        keys, numbers = np.unique(self.of_slot[counted] * entities + entity[counted], return_counts=True)
        self._numbers, self._entity = numbers.astype(float), keys % entities
        self._from = np.searchsorted(keys, np.arange(len(known) + 1) * entities)

    def sizes(self, slots: Ints) -> Ints:
        """With how many entities the context of each slot stood."""
        context = self.of_slot[slots]
        return np.asarray(self._from[context + 1] - self._from[context])

    def beside(self, slots: Ints, query: Ints, left_out: Ints, entity: Ints, entities: int) -> _Pairs:
        """How often each entity stood beside the context of each slot, without some sentences.

        :param left_out: sentences, each left out of the *query* whose slot is at that place.
        :param entity: that of each sentence.
        """
        of, places = _ranges(self._from[self.of_slot[slots]], self.sizes(slots))
        keys, numbers = of * entities + self._entity[places], self._numbers[places]
        alike = self.of_slot[left_out] == self.of_slot[slots][query]
        np.subtract.at(numbers, np.searchsorted(keys, query[alike] * entities + entity[left_out[alike]]), 1)
        return _Pairs(keys, numbers)


class _Scored(NamedTuple):
    """Scores of some queries: those of few entities one by one, those of the others by how often these occur.

    :param query: of each entity that is near the context of a query or left out of it, and of each right answer.
    :param entity: its place.
    :param own: its score.
    :param others: of every other entity, [queries, numbers of occurrences].
    """

    query: Ints
    entity: Ints
    own: Floats
    others: Floats


class Ngrams:
    """:param slots: one line per sentence, [sentences, 8]."""

    def __init__(self, slots: Ints) -> None:
        self._document, self._own = slots[:, _DOCUMENT], slots[:, _OWN]
        self.entities, self._entity = np.unique(slots[:, _ENTITY], return_inverse=True)
        _, first, said = np.unique(slots[:, _SAID], return_index=True, return_inverse=True)
        self._first_said: Ints = first[said]
        self._counted = self._first_said == np.arange(len(slots))
        self._contexts = {
            which: _Counts(slots[:, which], self._entity, self._counted, len(self.entities))
            for which in (_LEFT, _LEFT_TWO, _RIGHT, _RIGHT_TWO)
        }
        self._all = np.bincount(self._entity[self._counted], minlength=len(self.entities)).astype(float)
        self._levels, self._level = np.unique(self._all, return_inverse=True)
        self._by_own = np.argsort(self._own, kind="stable")
        new = np.concatenate([[True], self._document[1:] != self._document[:-1]])
        number, starts = np.cumsum(new) - 1, np.flatnonzero(new)
        at = np.arange(len(slots))
        self._from = np.maximum(starts[number], at - WITHIN)
        self._to = np.minimum(np.append(starts[1:], len(slots))[number], at + WITHIN + 1)

    def ranks(self, rows: Iterable[Row], pools: Sequence[Collection[int]]) -> Iterator[tuple[NgramRank, ...]]:
        """Of each query its rank in each of the pools that hold one of its right answers.

        :param pools: numbers of entities.
        """
        each = [_Pool.of(set(pool), self) for pool in pools]
        rest = iter(rows)
        while batch := list(islice(rest, _AT_ONCE)):
            for some in self._parts(batch):
                yield from self._ranked(some, each)

    def scores(self, rows: Sequence[Row]) -> Floats:
        """Of each query and entity that occurs, [queries, entities], the sentence's own document left out."""
        found = self._scored(rows)
        scores = np.asarray(found.others[:, self._level])
        scores[found.query, found.entity] = found.own
        return scores

    def _parts(self, rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
        """So many queries together as have a bounded number of pairs."""
        slots = self._slots(rows)
        pairs = sum(found.sizes(slots) for found in self._contexts.values()) + len(self._levels) + 2 * WITHIN
        part = np.cumsum(pairs) // _CELLS
        starts = np.flatnonzero(np.concatenate([[True], part[1:] != part[:-1]]))
        for start, stop in pairwise([*starts.tolist(), len(rows)]):
            yield rows[start:stop]

    def _ranked(self, rows: Sequence[Row], pools: Sequence[_Pool]) -> Iterator[tuple[NgramRank, ...]]:
        found = self._scored(rows)
        of, golds = self._golds(rows)
        right = np.isin(found.query * len(self.entities) + found.entity, of * len(self.entities) + golds)
        best = np.zeros(len(rows))
        np.maximum.at(best, found.query[right], found.own[right])
        near = 1e-9 * best
        places = [pool.places(found, right, best - near, best + near) for pool in pools]
        for number, row in enumerate(rows):
            yield tuple(
                NgramRank(
                    1 + int(ahead[number]),
                    1 + int(upto[number]) + (pool.unseen if best[number] <= 0 else 0),
                    len(pool.members),
                )
                for pool, (ahead, upto) in zip(pools, places, strict=True)
                if not pool.members.isdisjoint((row.entity, *row.others))
            )

    def _golds(self, rows: Sequence[Row]) -> tuple[Ints, Ints]:
        """Right answers that occur: places of the queries, and of the answers."""
        answers = [(place, entity) for place, row in enumerate(rows) for entity in (row.entity, *row.others)]
        of, numbers = np.array(answers, dtype=np.int64).T
        places = np.minimum(np.searchsorted(self.entities, numbers), len(self.entities) - 1)
        there = self.entities[places] == numbers
        return of[there], places[there]

    def _scored(self, rows: Sequence[Row]) -> _Scored:
        slots, entities = self._slots(rows), len(self.entities)
        query, left_out = self._left_out(slots)
        gone_keys, times = np.unique(query * entities + self._entity[left_out], return_counts=True)
        gone = _Pairs(gone_keys, times.astype(float))
        beside = {w: c.beside(slots, query, left_out, self._entity, entities) for w, c in self._contexts.items()}
        of, golds = self._golds(rows)
        keys = _distinct([of * entities + golds, gone.keys, *(found.keys for found in beside.values())])
        queries, entity = keys // entities, keys % entities
        counts = {which: found.at(keys) for which, found in beside.items()}
        sums = {which: np.bincount(queries, found, len(rows)).astype(float) for which, found in counts.items()}
        total = self._all.sum() - np.bincount(query, minlength=len(rows))
        own = _scores(
            self._all[entity] - gone.at(keys),
            total[queries],
            {which: (counts[which], sums[which][queries]) for which in counts},
        )
        never = np.zeros((1, len(self._levels)))
        others = _scores(self._levels[None], total[:, None], {w: (never, found[:, None]) for w, found in sums.items()})
        return _Scored(queries, entity, own, others)

    def _slots(self, rows: Sequence[Row]) -> Ints:
        own = np.array([_said_and_own(row.entity, row.masked, row.document)[1] for row in rows], dtype=np.int64)
        return self._by_own[np.searchsorted(self._own, own, sorter=self._by_own)]

    def _left_out(self, slots: Ints) -> tuple[Ints, Ints]:
        """Pairs of (place of a query, number of a counted sentence that is left out of its counts)."""
        start, stop = self._from[slots], self._to[slots]
        query, left_out = _ranges(start, stop - start)
        counted = self._counted[left_out]
        query, left_out = query[counted], left_out[counted]
        again = self._first_said[slots]
        elsewhere = np.flatnonzero((again < start) | (again >= stop))
        return np.concatenate([query, elsewhere]), np.concatenate([left_out, again[elsewhere]])


class _Pool(NamedTuple):
    """Candidates.

    :param unseen: how many of them no sentence has: they score 0.
    :param inside: which of the entities that occur are in it, [entities].
    :param by_level: how many of them occur so often, by place of :attr:`Ngrams._levels`.
    """

    members: set[int]
    unseen: int
    inside: NDArray[np.bool_]
    by_level: Ints
    level: Ints

    @classmethod
    def of(cls, members: set[int], model: Ngrams) -> _Pool:
        inside = np.isin(model.entities, list(members))
        by_level = np.bincount(model._level[inside], minlength=len(model._levels))
        return cls(members, len(members) - int(inside.sum()), inside, by_level, model._level)

    def places(
        self, found: _Scored, right: NDArray[np.bool_], least: Floats, most: Floats
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How many of the wrong candidates of each query score more than *most*, and how many at least *least*."""
        queries, levels = found.others.shape
        here = self.inside[found.entity]
        alone = np.bincount(found.query[here] * levels + self.level[found.entity[here]], minlength=queries * levels)
        others = self.by_level - alone.reshape(queries, levels)
        wrong = here & ~right
        query, own = found.query[wrong], found.own[wrong]
        ahead = np.bincount(query[own > most[query]], minlength=queries)
        upto = np.bincount(query[own >= least[query]], minlength=queries)
        ahead += (others * (found.others > most[:, None])).sum(axis=1)
        upto += (others * (found.others >= least[:, None])).sum(axis=1)
        return ahead, upto


def _scores(names: Floats, total: Floats, counts: Mapping[int, tuple[Floats, Floats]]) -> Floats:
    """:param names: how often each entity occurs, *total* how often any.
    :param counts: how often each stands beside a context, and how often any.
    """
    left, left_two, (one, any_one), (two, any_two) = (counts[w] for w in (_LEFT, _LEFT_TWO, _RIGHT, _RIGHT_TWO))
    before = _backed_off(*left, BACKOFF * _share(names, total))
    before = _backed_off(*left_two, BACKOFF * before)
    behind = _backed_off(one, names, BACKOFF * _share(any_one, total))
    further = _backed_off(two, one, BACKOFF * _share(any_two, any_one))
    # What nothing else is followed by tells no name from another.
    return np.asarray(before * np.where(any_one > 0, behind, 1.0) * np.where(any_two > 0, further, 1.0))


def _distinct(keys: Sequence[Ints]) -> Ints:
    """All keys, sorted, each once; numpy's own way is slower by far where most stand in several."""
    every = np.sort(np.concatenate(keys))
    return np.asarray(every[np.concatenate([[True], every[1:] != every[:-1]])])


def _ranges(start: Ints, length: Ints) -> tuple[Ints, Ints]:
    """All numbers of each range, and the place of the range that each is of."""
    of = np.repeat(np.arange(len(start)), length)
    return of, np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length) + np.repeat(start, length)


def _share(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.zeros(np.broadcast(part, whole).shape), where=whole > 0)


def _backed_off(counted: Floats, history: Floats, otherwise: Floats) -> Floats:
    return np.where(counted > 0, _share(counted, history), otherwise)
