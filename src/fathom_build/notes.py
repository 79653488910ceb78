"""Notes on what a builder left out, or found odd in its sources."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice


class Notes(list[str]):
    """Notes of a build, one line for all items of a kind."""

    def add_all(self, names: Iterable[str], what: str) -> None:
        """Add "3 classes have no label: a, b, c" unless there are none; of many, five are examples."""
        iterator = iter(names)
        examples = list(islice(iterator, 5))
        rest = sum(1 for _ in iterator)
        if examples:
            self.append(f"{len(examples) + rest:,} {what}: {', '.join(examples)}{', …' if rest else ''}")

    def add_kinds(self, kinds: Sequence[str], what: str) -> None:
        """Add "axioms are not read: 3 owl:hasKey (x), 1 owl:sameAs (y)" unless there are none."""
        if kinds:
            self.append(f"{what}: {', '.join(kinds)}")
