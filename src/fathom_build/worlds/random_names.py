"""Random strings: characters drawn independently, each as frequent as in the replaced texts.

Sakai et al. 2024, section 3.2: p(s) = Π p(sᵢ), with an end symbol that is as frequent as texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fathom.base.errors import BadInput
from fathom.data.columns import is_blank, put_rows, take_rows
from fathom_build.worlds.texts import blocks

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
        points = np.frombuffer(part.data.tobytes().decode().encode("utf-32-le"), dtype=np.uint32)
        part_counts = np.bincount(points)
        counts[: len(part_counts)] += part_counts
    known = np.flatnonzero(counts)
    return Unigram(tuple(map(chr, known.tolist())), np.append(counts[known], len(texts)))


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
    names, known = pa.array([], pa.string()), pc.unique(old)
    idle = 0
    for strings in _draw_strings(model, generator, min(max(2 * count * mean, 1 << 10), _SYMBOLS)):
        usable = _usable(strings, may_have_comma)
        fresh = usable.filter(pc.invert(pc.is_in(usable, value_set=known)))
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
