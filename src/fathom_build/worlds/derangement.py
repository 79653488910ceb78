"""New places and new strings: random derangements of entities, matchings of relations, and random names.

:func:`derange` draws whole permutations until one is permitted, or, where that is expensive, sweeps of random swaps,
which tend to the uniform distribution but do not reach it exactly. Characters of random strings are drawn
independently, each as frequent as in the replaced texts (Sakai et al. 2024, section 3.2).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array, triu
from scipy.sparse.csgraph import maximum_bipartite_matching

from fathom.base.errors import BadInput
from fathom.data.columns import is_blank, put_rows, take_rows
from fathom.data.knowledge import KnowledgeGraph
from fathom_build.worlds.mentions import blocks

NO_LABEL = -1
"""Label without restrictions, such as of a missing description."""
_MOST_TRIES = 20_000
_MOST_DRAWN = 1 << 28
"""Limit of permutations times elements for rejection: about five seconds."""
_SWEEPS_TO_REPAIR = 1_000


class Derangement(NamedTuple):
    """A permutation: ``source`` has the origin of each place's text, shape (n,), and ``method`` how it was drawn."""

    source: NDArray[np.int64]
    method: str


class NoDerangement(Exception):
    """None exists or none was found. :param label: that of more than half of the places, or None."""

    def __init__(self, label: int | None) -> None:
        self.label = label
        super().__init__(label)


def derange(labels: Sequence[NDArray[np.int64]], generator: np.random.Generator) -> Derangement:
    """Draw a random permutation in which no place takes a text with its own label.

    :param labels: one or more labelings of the same places, each of shape (n,); :data:`NO_LABEL` equals nothing.
    :raises NoDerangement: more than half of the places have one label, or, for several labelings, none was found.
    """
    size = len(labels[0])
    for labeling in labels:
        frequent, count = most_frequent(labeling)
        if 2 * count > size:
            raise NoDerangement(frequent)
    # The number of places with equal labels under a uniform permutation is about Poisson with this mean.
    expected_clashes = sum(
        float((np.unique(part[part >= 0], return_counts=True)[1] ** 2.0).sum()) / size for part in labels
    )
    affordable = min(_MOST_TRIES, _MOST_DRAWN // max(size, 1))
    if expected_clashes < math.log(max(affordable, 1)):
        for _ in range(affordable):
            source = generator.permutation(size)
            if not _clashes(labels, np.arange(size), source).any():
                return Derangement(source, "uniform (rejection)")
    return Derangement(_by_swaps(labels, generator), "swaps (tends to uniform)")


def most_frequent(labeling: NDArray[np.int64]) -> tuple[int | None, int]:
    """Return the most frequent label, and how many places have it."""
    values, counts = np.unique(labeling[labeling >= 0], return_counts=True)
    if not len(values):
        return None, 0
    place = int(counts.argmax())
    return int(values[place]), int(counts[place])


def _clashes(
    labels: Sequence[NDArray[np.int64]], places: NDArray[np.int64], taken: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return whether each place would take an equal text."""
    clashes = np.zeros(len(places), dtype=bool)
    for labeling in labels:
        clashes |= (labeling[places] == labeling[taken]) & (labeling[places] >= 0)
    return clashes


def _by_swaps(labels: Sequence[NDArray[np.int64]], generator: np.random.Generator) -> NDArray[np.int64]:
    everywhere = np.arange(len(labels[0]))
    source = _rotated(labels[0], generator)
    for _ in range(_SWEEPS_TO_REPAIR):  # only with several labelings: the first one fits from the start
        if not _clashes(labels, everywhere, source).any():
            break
        _sweep(labels, source, generator)
    else:
        raise NoDerangement(None)
    for _ in range(20 + 4 * math.ceil(math.log2(len(source)))):  # n log n swaps mix a permutation; a sweep has n / 4
        _sweep(labels, source, generator)
    return source


def _sweep(labels: Sequence[NDArray[np.int64]], source: NDArray[np.int64], generator: np.random.Generator) -> None:
    """Swap random disjoint pairs in place if that does not increase the number of equal labels.

    A coin decides for each pair: if all had to swap, some permutations were reached only alternately or never.
    """
    pairs = generator.permutation(len(source))
    first, second = pairs[: len(source) // 2], pairs[len(source) // 2 : len(source) // 2 * 2]
    before = _clashes(labels, first, source[first]).astype(np.int8) + _clashes(labels, second, source[second])
    after = _clashes(labels, first, source[second]).astype(np.int8) + _clashes(labels, second, source[first])
    swapped = (after <= before) & (generator.random(len(first)) < 0.5)
    first, second = first[swapped], second[swapped]
    source[first], source[second] = source[second], source[first]


def _rotated(labeling: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.int64]:
    """Order places by label, and rotate them by the size of the most frequent label."""
    order = generator.permutation(len(labeling))
    order = order[np.argsort(labeling[order], kind="stable")]
    source = np.empty_like(order)
    source[order] = np.roll(order, -max(most_frequent(labeling)[1], 1))
    return source


def match_relations(
    graph: KnowledgeGraph, labels: NDArray[np.int64], generator: np.random.Generator
) -> NDArray[np.int64]:
    """Match relations with other relations' names (Sakai et al. 2024, algorithm 1: Hopcroft-Karp).

    Relation i may take j's name if their names differ and no entity pair (head, tail) of any split is linked by both.
    The order of relations is random, so that the seed chooses among the matchings. If no matching moves all, the result
    is the permutation that moves most (an assignment of least cost, where staying costs one).

    :param labels: equal numbers are equal names; :data:`NO_LABEL` is a relation without a name.
    :returns: the relation whose name each takes, possibly itself.
    """
    size = len(graph.relations)
    allowed = (labels[:, None] != labels[None, :]) & (labels >= 0)[:, None] & (labels >= 0)[None, :]
    first, second = shared_pairs(graph)
    allowed[first, second] = allowed[second, first] = False
    source = np.arange(size)
    takers = np.flatnonzero(labels >= 0)
    rows, columns = generator.permutation(takers), generator.permutation(takers)
    matched = maximum_bipartite_matching(csr_array(allowed[np.ix_(rows, columns)]), perm_type="column")
    if (matched >= 0).all():
        source[rows] = columns[matched]
        return source
    cost = np.where(allowed, 0.0, math.inf)
    np.fill_diagonal(cost, 1.0)
    source[rows] = rows[linear_sum_assignment(cost[np.ix_(rows, rows)])[1]]
    return source


def shared_pairs(graph: KnowledgeGraph) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find pairs of relations (the smaller row first) that link a head to the same tail."""
    pairs, pair = np.unique(graph.head.astype(np.int64) * len(graph.entities) + graph.tail, return_inverse=True)
    cells = (np.ones(len(pair), dtype=np.int64), (graph.relation, pair))
    links = csr_array(cells, shape=(len(graph.relations), len(pairs)))
    first, second = triu(links @ links.T, 1).nonzero()
    return first, second


_SYMBOLS = 1 << 23
"""Symbols drawn together."""
_IDLE = 50
"""Rounds without a new string after which the search ends."""


class Unigram(NamedTuple):
    """Characters by code point, and how often each occurs; the last count is that of texts (end symbols)."""

    signs: tuple[str, ...]
    counts: NDArray[np.int64]


def learn(texts: pa.ChunkedArray) -> Unigram:
    """Count characters, ignoring empty and blank texts."""
    texts = texts.filter(pc.not_equal(pc.utf8_trim_whitespace(texts), ""))
    counts = np.zeros(0x110000, dtype=np.int64)
    for part in blocks(texts, 1 << 24):
        part_counts = np.bincount(np.frombuffer(part.data.tobytes().decode().encode("utf-32-le"), dtype=np.uint32))
        counts[: len(part_counts)] += part_counts
    points = np.flatnonzero(counts)
    return Unigram(tuple(map(chr, points.tolist())), np.append(counts[points], len(texts)))


def draw_symbols(model: Unigram, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Draw indices of characters, their number for the end of a string; shape (count,)."""
    # A number below the total stands for one of all characters of the texts: the one whose counts it falls into.
    limits = np.cumsum(model.counts)
    return np.searchsorted(limits, generator.integers(0, int(limits[-1]), count), side="right")


def _draw_strings(model: Unigram, generator: np.random.Generator, per_block: int) -> Iterator[pa.Array]:
    """Generate blocks of strings; the next block continues an unfinished string."""
    signs = pa.array([*model.signs, ""], pa.string())
    rest = np.zeros(0, dtype=np.int64)
    while True:
        symbols = np.concatenate([rest, draw_symbols(model, per_block, generator)])
        ends = np.flatnonzero(symbols == len(model.signs))
        if not len(ends):
            rest = symbols
            continue
        rest = symbols[ends[-1] + 1 :]
        letters = signs.take(pa.array(symbols[: ends[-1] + 1]))
        offsets = np.concatenate([[0], ends + 1]).astype(np.int32)  # the end symbol is an empty text
        yield pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), letters), "")


def new_names(old: pa.ChunkedArray, count: int, generator: np.random.Generator, what: str) -> pa.Array:
    """Draw *count* distinct random strings, none of which is in *old*.

    Empty strings and those that begin or end with a space are drawn again. So are strings with ", " if no old name has
    it (WordNet's format ends a name there).

    :param what: the bearers, for messages.
    :raises BadInput: there are too few distinct strings of these characters.
    """
    model = learn(old)
    may_have_comma = bool(pc.any(pc.match_substring(old, ", ")).as_py())
    mean = int(model.counts.sum()) // max(int(model.counts[-1]), 1) + 1
    names, taken = pa.array([], pa.string()), pc.unique(old)
    idle = 0
    for strings in _draw_strings(model, generator, min(max(2 * count * mean, 1 << 10), _SYMBOLS)):
        usable = _usable(strings, may_have_comma)
        fresh = usable.filter(pc.invert(pc.is_in(usable, value_set=taken)))
        before, names = len(names), pc.unique(pa.concat_arrays([names, fresh]))
        idle = 0 if len(names) > before else idle + 1
        if len(names) >= count:
            break
        if idle > _IDLE:
            raise BadInput(
                f"there are not {count:,} different random names for the {what}: only {len(names):,} were found, as "
                f"their names are made of {''.join(model.signs[:20])!r} and about {mean - 1} characters long"
            )
    return names.slice(0, count)


def new_descriptions(old: pa.ChunkedArray, generator: np.random.Generator) -> pa.ChunkedArray:
    """Draw a random string for each text of *old* that is not blank; none is blank or the text it replaces."""
    rows = np.flatnonzero(~is_blank(old))
    replaced = take_rows(old, rows)
    strings = _draw_strings(learn(old), generator, _SYMBOLS if len(rows) > 1000 else 1 << 16)
    new = _next_usable(strings, len(rows))
    while len(same := np.flatnonzero(pc.equal(new, replaced).to_numpy())):
        new = put_rows(new, same, _next_usable(strings, len(same)))
    return put_rows(old, rows, new)


def _next_usable(strings: Iterator[pa.Array], count: int) -> pa.ChunkedArray:
    names: list[pa.Array] = []
    while (missing := count - sum(map(len, names))) > 0:
        names.append(_usable(next(strings), may_have_comma=True).slice(0, missing))
    return pa.chunked_array(names, pa.string())


def _usable(strings: pa.Array, may_have_comma: bool) -> pa.Array:
    fine = pc.and_(pc.not_equal(strings, ""), pc.equal(pc.utf8_trim_whitespace(strings), strings))
    if not may_have_comma:
        fine = pc.and_(fine, pc.invert(pc.match_substring(strings, ", ")))
    return strings.filter(fine)
