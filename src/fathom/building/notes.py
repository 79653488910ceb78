"""Notes on what a builder left out, or found odd in its sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from fathom.prompts.ontology import ENOUGH_ITEMS


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


def too_few(answers: Mapping[str, Sequence[str]]) -> list[str]:
    """Return notes on the rules about which less can be concluded. :param answers: of each item, by rule."""
    few = {rule: len(own) for rule, own in answers.items() if len(own) < ENOUGH_ITEMS}
    alike = [rule for rule, own in answers.items() if rule not in few and len(set(own)) == 1]
    notes = []
    if few:
        listed = ", ".join(f"{rule} ({count})" for rule, count in few.items())
        notes.append(f"too few items to conclude anything about a rule ({ENOUGH_ITEMS} are needed): {listed}")
    if alike:
        notes.append(f"whether memory is used cannot be concluded, as all items have one answer: {', '.join(alike)}")
    return notes
