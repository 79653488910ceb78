"""What was left out of a data set that is built, or is odd in its sources."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_MANY = 5
"""How many names a note gives as examples."""


class Notes(list[str]):
    """What was left out or is odd, and why; lines that say the same of many are one."""

    def add_all(self, names: Iterable[str], what: str) -> None:
        """ "3 classes have no label: a, b, c"; nothing where there are none. Of many only the examples are kept."""
        examples: list[str] = []
        number = 0
        for number, name in enumerate(names, start=1):
            if number <= _MANY:
                examples.append(name)
        if number:
            more = ", …" if number > _MANY else ""
            self.append(f"{number:,} {what}: {', '.join(examples)}{more}")

    def add_kinds(self, kinds: Sequence[str], what: str) -> None:
        """What is counted by kind: "axioms are not read: 3 owl:hasKey (x), 1 owl:sameAs (y)"; nothing without kinds."""
        if kinds:
            self.append(f"{what}: {', '.join(kinds)}")
