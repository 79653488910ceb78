"""Random strings that look like nothing known: characters one by one, each as frequent as in the texts they replace.

Sakai et al. 2024, section 3.2: p(s) = Π p(sᵢ), with an end symbol that is as frequent as texts are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fathom.building.worlds.texts import blocks
from fathom.data.taking import is_blank, put_rows, take_rows
from fathom.errors import BadInput

_SYMBOLS = 1 << 23
"""Symbols drawn together."""
_VAIN = 50
"""Rounds without a new string after which there are taken to be no more."""


class Unigram(NamedTuple):
    """:param signs: the characters, in the order of their code points.
    :param counts: how often each occurs, and last, the end symbol: how many texts there are; shape (signs + 1,)."""

    signs: tuple[str, ...]
    counts: NDArray[np.int64]

    @property
    def end(self) -> int:
        """Place of the end symbol."""
        return len(self.signs)


def learn(texts: pa.ChunkedArray) -> Unigram:
    """How often each character occurs; texts that are empty or blank are left out."""
    texts = texts.filter(pc.not_equal(pc.utf8_trim_whitespace(texts), ""))
    counts = np.zeros(0x110000, dtype=np.int64)
    for part in blocks(texts, 1 << 24):
        points = np.frombuffer(part.data.tobytes().decode().encode("utf-32-le"), dtype=np.uint32)
        found = np.bincount(points)
        counts[: len(found)] += found
    known = np.flatnonzero(counts)
    return Unigram(tuple(map(chr, known.tolist())), np.append(counts[known], len(texts)))


def draw_symbols(model: Unigram, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Raw draws: numbers of characters, :attr:`Unigram.end` for the end of a string; shape (count,)."""
    # A whole number below the total is one of all characters of the texts: which, is where it falls among the counts.
    limits = np.cumsum(model.counts)
    total = int(limits[-1])
    drawn = generator.integers(0, total, count)
    # Most fall in a cell of a table that belongs to one symbol alone.
    cells = 1 << 16
    width = -(-total // cells)
    lowest = np.searchsorted(limits, np.arange(cells + 1) * width, side="right")
    cell = drawn // width
    symbols = lowest[cell]
    unsure = np.flatnonzero(symbols != lowest[cell + 1])
    symbols[unsure] = np.searchsorted(limits, drawn[unsure], side="right")
    return symbols


def _draw_strings(model: Unigram, generator: np.random.Generator, per_block: int) -> Iterator[pa.Array]:
    """Blocks of strings without end; what a block leaves unfinished the next one goes on with."""
    signs = pa.array([*model.signs, ""], pa.string())
    rest = np.zeros(0, dtype=np.int64)
    while True:
        symbols = np.concatenate([rest, draw_symbols(model, per_block, generator)])
        ends = np.flatnonzero(symbols == model.end)
        if not len(ends):
            rest = symbols
            continue
        rest = symbols[ends[-1] + 1 :]
        letters = signs.take(pa.array(symbols[: ends[-1] + 1]))
        offsets = np.concatenate([[0], ends + 1]).astype(np.int32)  # the end symbol is an empty text
        yield pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), letters), "")


def new_names(old: pa.ChunkedArray, count: int, generator: np.random.Generator, what: str) -> pa.Array:
    """*count* different random strings, none of which is in *old*, in the order in which they were drawn.

    Drawn again are strings that are empty, begin or end with a space, or have ", " where no old name has it (the layout
    of WordNet's graphs ends a name there).

    :raises BadInput: there are too few different strings of these characters.
    :param what: what bears them, for messages.
    """
    model = learn(old)
    may_have_comma = bool(pc.any(pc.match_substring(old, ", ")).as_py())
    mean = int(model.counts.sum()) // max(int(model.counts[-1]), 1) + 1
    found = pa.chunked_array([pa.array([], pa.string())])
    vain = 0
    strings = _draw_strings(model, generator, min(max(2 * count * mean, 1 << 10), _SYMBOLS))
    while len(found) < count:
        before = len(found)
        wanted, drawn, kept = count - before, [], 0
        while kept < wanted:
            drawn.append(_usable(next(strings), may_have_comma))
            kept += len(drawn[-1]) or wanted // _VAIN + 1
        fresh = pa.chunked_array(drawn, pa.string())
        fresh = fresh.filter(pc.invert(pc.is_in(fresh, value_set=pc.unique(old))))
        found = pa.chunked_array([pc.unique(pa.chunked_array([*found.chunks, *fresh.chunks], pa.string()))])
        vain = 0 if len(found) > before else vain + 1
        if vain > _VAIN:
            raise BadInput(
                f"there are not {count:,} different random names for the {what}: only {len(found):,} were found, as "
                f"their names are made of {''.join(model.signs[:20])!r} and about {mean - 1} characters long"
            )
    return found.slice(0, count).combine_chunks()


def new_descriptions(old: pa.ChunkedArray, generator: np.random.Generator) -> pa.ChunkedArray:
    """A random string for each text of *old* that is not blank; none is the text it replaces, or blank."""
    rows = np.flatnonzero(~is_blank(old))
    replaced = take_rows(old, rows)
    strings = _draw_strings(learn(old), generator, _SYMBOLS if len(rows) > 1000 else 1 << 16)
    new = _next_usable(strings, len(rows))
    while len(same := np.flatnonzero(pc.equal(new, replaced).to_numpy())):
        new = put_rows(new, same, _next_usable(strings, len(same)))
    return put_rows(old, rows, new)


def _next_usable(strings: Iterator[pa.Array], count: int) -> pa.ChunkedArray:
    found: list[pa.Array] = []
    while (missing := count - sum(map(len, found))) > 0:
        found.append(_usable(next(strings), may_have_comma=True).slice(0, missing))
    return pa.chunked_array(found, pa.string())


def _usable(strings: pa.Array, may_have_comma: bool) -> pa.Array:
    fine = pc.and_(pc.not_equal(strings, ""), pc.equal(pc.utf8_trim_whitespace(strings), strings))
    if not may_have_comma:
        fine = pc.and_(fine, pc.invert(pc.match_substring(strings, ", ")))
    return strings.filter(fine)
