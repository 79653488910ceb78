"""What was left out of an ontology or is odd in it."""

from __future__ import annotations

from collections.abc import Sequence

_MANY = 5
"""How many names a note gives as examples."""


class Notes(list[str]):
    """What was left out or is odd, and why; lines that say the same of many are one."""

    def add_all(self, names: Sequence[str], what: str) -> None:
        """ "3 classes have no label: a, b, c"; nothing where there are none."""
        if names:
            more = ", …" if len(names) > _MANY else ""
            self.append(f"{len(names):,} {what}: {', '.join(names[:_MANY])}{more}")

    def add_kinds(self, kinds: Sequence[str], what: str) -> None:
        """What is counted by kind: "axioms are not read: 3 owl:hasKey (x), 1 owl:sameAs (y)"; nothing without kinds."""
        if kinds:
            self.append(f"{what}: {', '.join(kinds)}")
