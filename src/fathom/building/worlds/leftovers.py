"""What a world's descriptions still call entities: mentions that stayed when names were exchanged, by kind."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fathom.building.worlds.forms import KINDS, Forms
from fathom.building.worlds.mentions import find, in_characters
from fathom.building.worlds.texts import blocks
from fathom.building.worlds.tries import Found, Tries

LEFT = (*KINDS, "short", "other case")
"""Kinds of mentions that stay: names, other names and inflected forms as they are looked for; of these, those that are
too short to be looked for; and all that would be found if the case of A to Z counted in no name."""


class Spans(NamedTuple):
    """Parts of texts that do not overlap, in the order of the texts; arrays have the shape (spans,).

    :param row: of the text.
    :param start: its first character in the text.
    :param end: behind its last character.
    """

    row: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]

    def meet(self, others: Spans) -> NDArray[np.bool_]:
        """Whether each shares a character with one of *others*."""
        if not len(others.row):
            return np.zeros(len(self.row), dtype=bool)
        width = max(int(self.end.max(initial=0)), int(others.end.max())) + 1
        last = np.searchsorted(others.row * width + others.start, self.row * width + self.end, side="left") - 1
        ends = others.row * width + others.end
        return np.asarray((last >= 0) & (ends[last] > self.row * width + self.start))


class Leftovers:
    """Counts what is left, in any world of one graph.

    :param forms: what its entities may be called, of any length.
    :param shortest: characters of the names that worlds look for.
    """

    def __init__(self, forms: Forms, shortest: int) -> None:
        exact, long_enough = forms.exact("auto"), forms.have(shortest)
        self._tries = Tries(forms.texts, exact)
        sought = forms.texts.filter(pa.array(long_enough & exact))
        self._any_case = Tries(sought, np.zeros(len(sought), dtype=bool))
        self._kind = np.full(self._tries.count, len(KINDS), dtype=np.int64)
        np.minimum.at(self._kind, self._tries.numbers, forms.kind)
        self._short = np.zeros(self._tries.count, dtype=bool)
        self._short[self._tries.numbers] = ~long_enough

    def count(self, texts: pa.ChunkedArray, new: Spans) -> dict[str, int]:
        """How many mentions of each of :data:`LEFT` stand in some texts.

        :param texts: descriptions of the world.
        :param new: what was put into them; what stands there counts for nothing.
        """
        found = find(self._tries, texts)
        spans = _placed(texts, found)
        left = ~spans.meet(new)
        number = found.number[left]
        short = self._short[number]
        counts = np.bincount(self._kind[number[~short]], minlength=len(KINDS)).tolist()
        others = _placed(texts, find(self._any_case, texts))
        more = ~others.meet(new) & ~others.meet(spans)
        return dict(zip(LEFT, (*counts, int(short.sum()), int(more.sum())), strict=True))


def _placed(texts: pa.ChunkedArray, found: Found) -> Spans:
    """Places of what was found, in characters instead of bytes."""
    places = [(np.zeros(0, np.int32), np.zeros(0, np.int32))]
    for part in blocks(texts):
        first, last = np.searchsorted(found.row, [part.first, part.first + len(part.starts) - 1])
        row = part.starts[found.row[first:last] - part.first]
        start, end = in_characters(part.data, row, row + found.start[first:last], row + found.end[first:last])
        places.append((start, end))
    starts, ends = (np.concatenate(column).astype(np.int64) for column in zip(*places, strict=True))
    return Spans(found.row.astype(np.int64), starts, ends)
