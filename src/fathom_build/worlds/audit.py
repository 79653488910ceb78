"""The audit of worlds: mentions of entities that remain in descriptions.

The manifest of an audited world has them by kind, as ``left``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from fathom.base.reading import Json
from fathom.results.tables import Table
from fathom_build.worlds.constructions import Materials
from fathom_build.worlds.forms import KINDS, Forms
from fathom_build.worlds.texts import Spans, blocks, in_characters
from fathom_build.worlds.tries import Matches, Tries

REMEDY = "fathom build audit FOLDER"
LEFT = (*KINDS, "short", "other case")
"""Kinds of remaining mentions: names, other names and inflected forms that are long enough to be searched for; shorter
ones; and those found only if the case of A to Z is ignored in all names."""


class RemainingMentions:
    """A counter of remaining mentions in any world of one graph; names of *shortest* characters are searched for."""

    def __init__(self, forms: Forms, shortest: int) -> None:
        exact, long_enough = forms.exact("auto"), forms.have(shortest)
        self._tries = Tries(forms.texts, exact)
        sought = forms.texts.filter(pa.array(long_enough & exact))
        self._any_case = Tries(sought, np.zeros(len(sought), dtype=bool))
        self._kind = self._tries.smallest(forms.kind)
        self._short = np.zeros(self._tries.count, dtype=bool)
        self._short[self._tries.numbers] = ~long_enough

    def count(self, texts: pa.ChunkedArray, new: Spans) -> dict[str, int]:
        """Count mentions of each of :data:`LEFT` in descriptions of a world, outside *new* (inserted) text."""
        matches = self._tries.find(texts)
        spans = _in_characters(texts, matches)
        number = matches.number[~spans.meet(new)]
        short = self._short[number]
        counts = np.bincount(self._kind[number[~short]], minlength=len(KINDS)).tolist()
        others = _in_characters(texts, self._any_case.find(texts))
        more = ~others.meet(new) & ~others.meet(spans)
        return dict(zip(LEFT, (*counts, int(short.sum()), int(more.sum())), strict=True))


def _in_characters(texts: pa.ChunkedArray, matches: Matches) -> Spans:
    places = [(np.zeros(0, np.int32), np.zeros(0, np.int32))]
    for part in blocks(texts):
        first, last = np.searchsorted(matches.row, [part.first, part.first + len(part.starts) - 1])
        row = part.starts[matches.row[first:last] - part.first]
        start, end = in_characters(part.data, row, row + matches.start[first:last], row + matches.end[first:last])
        places.append((start, end))
    starts, ends = (np.concatenate(column).astype(np.int64) for column in zip(*places, strict=True))
    return Spans(matches.row.astype(np.int64), starts, ends)


class Auditor:
    """Counts remaining mentions in worlds of one graph; work that several of them share is done once."""

    def __init__(self, materials: Materials) -> None:
        self.source, self._materials = materials.graph, materials
        self._left: dict[bytes, dict[str, int]] = {}

    def left(self, descriptions: pa.ChunkedArray, spans: Spans) -> dict[str, int]:
        """Count mentions of each of :data:`LEFT` in a world. :param spans: inserted text, in the order of the texts."""
        if not len(self._materials.described):
            return dict.fromkeys(LEFT, 0)
        key = _digest(descriptions) + hashlib.blake2b(np.stack(spans).tobytes()).digest()
        if key not in self._left:
            self._left[key] = self._remaining.count(descriptions, spans)
        return dict(self._left[key])

    @cached_property
    def _remaining(self) -> RemainingMentions:
        return RemainingMentions(self._materials.forms, self._materials.options.shortest_mention)


def _digest(texts: pa.ChunkedArray) -> bytes:
    letters, lengths = hashlib.blake2b(digest_size=16), hashlib.blake2b(digest_size=16)
    for part in blocks(texts):
        letters.update(part.data.tobytes())
        lengths.update(np.diff(part.starts).tobytes())
    return letters.digest() + lengths.digest()


def left_table(manifests: Sequence[Json]) -> list[Table]:
    """Tabulate remaining mentions by world; no table if no world was audited."""
    if not any("left" in manifest for manifest in manifests):
        return []
    rows = [(manifest["world"], *(manifest.get("left", {}).get(kind) for kind in LEFT)) for manifest in manifests]
    notes = ["short: of fewer characters than are searched for; other case: found if case is ignored in all names"]
    if lacking := [manifest["world"] for manifest in manifests if "left" not in manifest]:
        notes.append(f"not audited: {', '.join(lacking)}; to audit: {REMEDY}")
    title = "worlds: mentions of entities that are left"
    return [Table(("world", *LEFT), tuple(rows), title=title, notes=tuple(notes))]
