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
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fathom.building.cloze.rows import Row
from fathom.building.cloze.typography import fold, plain
from fathom.data.templates import ANSWER

BACKOFF = 0.4
WITHIN = 100
_WORD = re.compile(r"\w+|[^\w\s]")
_FAR = 120
"""Characters beside the gap among which two words are looked for."""
_CELLS = 100_000
"""Queries × entities looked at together: so few that a processor's cache holds them."""
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
    *_, second, first = _EDGE, _EDGE, *_WORD.findall(before[-_FAR:].casefold())
    next_, after, *_ = *_WORD.findall(behind[:_FAR].casefold()), _EDGE, _EDGE
    said = hash((entity, fold(plain(masked))))
    words = hash(first), hash((second, first)), hash(next_), hash((next_, after))
    return entity, hash(document), said, hash((said, document)), *words


class _Counts:
    """How often each entity stood beside each context, and which context each sentence has."""

    def __init__(self, contexts: Ints, entity: Ints, counted: NDArray[np.bool_], entities: int) -> None:
        from scipy.sparse import csr_array  # not needed to show --help

        known, self.of_slot = np.unique(contexts, return_inverse=True)
        rows, columns = self.of_slot[counted], entity[counted]
        shape = len(known), entities
        self._matrix = csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)

    def beside(self, slots: Ints) -> Floats:
        """For the context of each slot how often each entity stood there, [slots, entities]."""
        return np.asarray(self._matrix[self.of_slot[slots]].toarray())


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
        inside = [np.isin(self.entities, list(pool)) for pool in pools]
        unseen = [len(set(pool)) - int(own.sum()) for pool, own in zip(pools, inside, strict=True)]
        members = [set(pool) for pool in pools]
        each, at_once = iter(rows), max(1, _CELLS // max(1, len(self.entities)))
        while batch := list(islice(each, at_once)):
            scores = self.scores(batch)
            for row, own in zip(batch, scores, strict=True):
                golds = [row.entity, *row.others]
                right = np.isin(self.entities, golds)
                best = own[right].max()
                yield tuple(
                    _rank(own[those & ~right], best, never, len(pool))
                    for those, never, pool in zip(inside, unseen, members, strict=True)
                    if pool.intersection(golds)
                )

    def scores(self, rows: Sequence[Row]) -> Floats:
        """Of each query and entity that occurs, [queries, entities], the sentence's own document left out."""
        slots = self._slots(rows)
        query, left_out = self._left_out(slots)
        counts = {which: found.beside(slots) for which, found in self._contexts.items()}
        for which, found in self._contexts.items():
            alike = found.of_slot[left_out] == found.of_slot[slots][query]
            np.subtract.at(counts[which], (query[alike], self._entity[left_out[alike]]), 1)
        names = np.tile(self._all, (len(rows), 1))
        np.subtract.at(names, (query, self._entity[left_out]), 1)
        of_all = _share(names, names.sum(axis=1, keepdims=True))
        before = _backed_off(counts[_LEFT], counts[_LEFT].sum(axis=1, keepdims=True), BACKOFF * of_all)
        before = _backed_off(counts[_LEFT_TWO], counts[_LEFT_TWO].sum(axis=1, keepdims=True), BACKOFF * before)
        one, two = counts[_RIGHT], counts[_RIGHT_TWO]
        any_one, any_two = (found.sum(axis=1, keepdims=True) for found in (one, two))
        behind = _backed_off(one, names, BACKOFF * _share(any_one, names.sum(axis=1, keepdims=True)))
        further = _backed_off(two, one, BACKOFF * _share(any_two, any_one))
        # What nothing else is followed by tells no name from another.
        return before * np.where(any_one > 0, behind, 1.0) * np.where(any_two > 0, further, 1.0)

    def _slots(self, rows: Sequence[Row]) -> Ints:
        own = np.array([_slot(row.entity, row.masked, row.document)[_OWN] for row in rows], dtype=np.int64)
        return self._by_own[np.searchsorted(self._own, own, sorter=self._by_own)]

    def _left_out(self, slots: Ints) -> tuple[Ints, Ints]:
        """Pairs of (place of a query, number of a counted sentence that is left out of its counts)."""
        start, stop = self._from[slots], self._to[slots]
        length = stop - start
        query = np.repeat(np.arange(len(slots)), length)
        left_out = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length) + np.repeat(start, length)
        counted = self._counted[left_out]
        query, left_out = query[counted], left_out[counted]
        again = self._first_said[slots]
        elsewhere = np.flatnonzero((again < start) | (again >= stop))
        return np.concatenate([query, elsewhere]), np.concatenate([left_out, again[elsewhere]])


def _share(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.zeros(np.broadcast(part, whole).shape), where=whole > 0)


def _backed_off(counted: Floats, history: Floats, otherwise: Floats) -> Floats:
    return np.where(counted > 0, _share(counted, history), otherwise)


def _rank(others: Floats, best: float, unseen: int, pool: int) -> NgramRank:
    """:param unseen: candidates of the pool that no sentence has: they score 0."""
    near = 1e-9 * best
    ahead, upto = int((others > best + near).sum()), int((others >= best - near).sum())
    return NgramRank(1 + ahead, 1 + upto + (unseen if best <= 0 else 0), pool)
