"""Orders of a question's options: as in the data, or several, so that no letter has an advantage."""

from __future__ import annotations

import random
from string import ascii_lowercase

from fathom.data.queries import Query
from fathom.prompts.choices import Choices, shown

Order = tuple[int, ...]
"""Places of the options in display order."""


class Orders:
    """The orders of each question.

    With one, options stay as in the data. With several, *seed* and the question's id draw the first, and the others
    rotate it by equal steps: each option gets as many letters as there are orders, up to all.
    """

    def __init__(self, data: Choices, count: int, seed: int) -> None:
        self.data, self.count, self.seed = data, count, seed

    def of(self, query: Query) -> list[Order]:
        size = len(self.data.candidates[query.candidates])
        if self.count == 1 or not size:
            return [tuple(range(size))]
        return [self._rotated(query.id, size, number) for number in range(self.count)]

    def _rotated(self, query: str, size: int, number: int) -> Order:
        again, step = divmod(number, size)
        first = list(range(size))
        random.Random(f"{self.seed} {query} {again}").shuffle(first)
        start = step * size // min(self.count, size)
        return tuple(first[start:] + first[:start])

    def question(self, query: Query, order: Order) -> str:
        """Return the question with its options in that order."""
        return shown(self.data.questions[query.id], self.names(query, order))

    def instructed(self, query: Query, order: Order, instruction: str) -> str:
        """Return :meth:`question` followed by the instruction: a chat model's turn."""
        return f"{self.question(query, order)}\n{instruction}".rstrip()

    def names(self, query: Query, order: Order) -> list[str]:
        names = self.data.candidates[query.candidates].names
        return [names[place] for place in order]

    def gold_letters(self, query: Query) -> list[str]:
        right = self.data.candidates[query.candidates].places(query.gold)[0]
        return [letter_of(right, order) for order in self.of(query)]


def letter_of(place: int, order: Order) -> str:
    return ascii_lowercase[order.index(place)]
