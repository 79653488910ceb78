"""A set of the numbers of Wikidata's ids, in a bit each: 140 million ids take 17 MB."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


class Numbers:
    """Numbers from 0 to the greatest given."""

    def __init__(self, numbers: Iterable[int] = ()) -> None:
        self._bits = bytearray(1 << 16)
        self._count = 0
        for number in numbers:
            self.add(number)

    def add(self, number: int) -> bool:
        """:returns: whether it is new."""
        place, bit = number >> 3, 1 << (number & 7)
        if place >= len(self._bits):
            self._bits.extend(bytes(max(place + 1 - len(self._bits), len(self._bits) >> 1)))
        new = not self._bits[place] & bit
        self._bits[place] |= bit
        self._count += new
        return new

    def discard(self, number: int) -> None:
        """Take it out, if it is there."""
        if number in self:
            self._bits[number >> 3] &= ~(1 << (number & 7))
            self._count -= 1

    def __contains__(self, number: int) -> bool:
        place = number >> 3
        return place < len(self._bits) and bool(self._bits[place] & (1 << (number & 7)))

    def __iter__(self) -> Iterator[int]:
        for place, byte in enumerate(self._bits):
            if byte:
                yield from (place << 3 | bit for bit in range(8) if byte & (1 << bit))

    def __len__(self) -> int:
        return self._count
