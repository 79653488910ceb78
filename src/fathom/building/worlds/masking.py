"""Masking of descriptions: their rarest words are masked until the attack fails.

In each round, descriptions whose entity is still re-identified lose a tenth of their words, at least one. The rarest
(those in the fewest original descriptions) go first. It ends if at most the given share of entities is re-identified;
here ten guesses are allowed. Exchanged names stay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fathom.building.worlds.mentions import Mentions, replace_mentions
from fathom.building.worlds.reidentification import CUTOFFS, WORD, TfIdf
from fathom.data.columns import take_rows
from fathom.reading import Json

MASK = "…"
"""Replaces a word: no model takes it for a gap to fill."""
HUNDREDTH = 100
"""An attack fails if an entity's description is not among the first ten, or the nearest hundredth if that is fewer."""
SHARE = 10
"""A round masks one of so many words of a description."""
_WORD = re.compile(WORD)


class Masks(NamedTuple):
    """Masked words as rows of descriptions and bytes in the original, in order; arrays have the shape (masks,)."""

    described: NDArray[np.int32]
    start: NDArray[np.int32]
    end: NDArray[np.int32]
    counts: Json

    def among(self, mentions: Mentions, entities: int) -> Mentions:
        """Merge masks and mentions: a mask is a mention of one entity more than there are."""
        row = np.concatenate([mentions.described, self.described])
        start, end = (np.concatenate([getattr(mentions, name), getattr(self, name)]) for name in ("start", "end"))
        entity = np.concatenate([mentions.entity, np.full(len(self.start), entities, dtype=np.int32)])
        order = np.lexsort((start, row))
        return mentions._replace(described=row[order], entity=entity[order], start=start[order], end=end[order])


class _Description:
    """A description in the world: exchanged names, given by bytes in the *old* text, and the text between them."""

    def __init__(self, old: bytes, names: Sequence[tuple[int, int, str]], attack: TfIdf) -> None:
        ends = [0, *(end for _, end, _ in names)]
        starts = [*(start for start, _, _ in names), len(old)]
        self.between = [(start, old[start:stop].decode()) for start, stop in zip(ends, starts, strict=True)]
        self.names = [*(name for *_, name in names), ""]
        words = {word.lower() for _, text in self.between for word in _WORD.findall(text)}
        self.unmasked = sorted(
            words & attack.words.keys(), key=lambda word: (-attack.frequency[attack.words[word]], word)
        )
        self.masked: set[str] = set()

    def mask_more(self) -> bool:
        """:returns: whether there was a word to mask."""
        more = bool(self.unmasked)
        self.masked.update(self.unmasked.pop() for _ in range(-(-len(self.unmasked) // SHARE)))
        return more

    @property
    def text(self) -> str:
        """Its text in the world."""
        parts = (self._shown(text) + name for (_, text), name in zip(self.between, self.names, strict=True))
        return "".join(parts)

    def _shown(self, text: str) -> str:
        return _WORD.sub(lambda match: MASK if match[0].lower() in self.masked else match[0], text)

    def spans(self) -> list[tuple[int, int]]:
        """Return start and end, in bytes of the original text, of all masked words."""
        return [
            (begin + len(text[: match.start()].encode()), begin + len(text[: match.end()].encode()))
            for begin, text in self.between
            for match in _WORD.finditer(text)
            if match[0].lower() in self.masked
        ]


def mask(
    descriptions: pa.ChunkedArray,
    described: NDArray[np.int64],
    mentions: Mentions,
    names: pa.ChunkedArray,
    attack: TfIdf,
    rate: float,
) -> Masks:
    """Mask words until the attack re-identifies at most the share *rate* of the entities, or no word is left.

    :param descriptions: original descriptions.
    :param described: rows that have one, ascending.
    :param mentions: to be replaced by *names*, the new name of each entity.
    :param attack: trained on the descriptions of *described*.
    """
    world = take_rows(replace_mentions(descriptions, mentions, names)[0], described).to_pylist()
    old, new_names = take_rows(descriptions, described).to_pylist(), names.to_pylist()
    among = min(CUTOFFS[-1], max(1, len(described) // HUNDREDTH))
    hits = attack.places(world, np.arange(len(described))).hits(among)
    started: dict[int, _Description] = {}

    def description(number: int) -> _Description:
        if number not in started:
            first, last = np.searchsorted(mentions.described, described[number] + np.array([0, 1]))
            part = (column[first:last].tolist() for column in (mentions.start, mentions.end, mentions.entity))
            placed = [(start, end, new_names[entity]) for start, end, entity in zip(*part, strict=True)]
            started[number] = _Description(old[number].encode(), placed, attack)
        return started[number]

    rounds = 0
    while hits.mean() > rate:
        changed = [number for number in np.flatnonzero(hits).tolist() if description(number).mask_more()]
        if not changed:
            break
        rounds += 1
        hits[changed] = attack.places([started[number].text for number in changed], np.array(changed)).hits(among)
    reached = {"rate_wanted": rate, "rate_among": among, "rate_reached": float(hits.mean()), "rounds": rounds}
    placed = {int(described[number]): started[number].spans() for number in sorted(started)}
    return _placed(placed, reached | {"words": sum(len(_WORD.findall(text)) for text in old)})


def _placed(spans: Mapping[int, Sequence[tuple[int, int]]], counts: Json) -> Masks:
    masks = [(row, start, end) for row, of_row in spans.items() for start, end in of_row]
    row, start, end = np.array(masks, dtype=np.int32).reshape(-1, 3).T
    masked = {"descriptions_masked": sum(map(bool, spans.values())), "words_masked": len(masks)}
    return Masks(row, start, end, counts | masked)
