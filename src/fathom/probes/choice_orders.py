"""In which orders a question's options are shown: as the data have them, or in several, so that no letter gains."""

from __future__ import annotations

import random
from string import ascii_lowercase

from fathom.data.queries import Query
from fathom.prompts.choices import Choices, shown

Order = tuple[int, ...]
"""Places of the options, in the order in which they are shown."""


class Orders:
    """The orders of each question.

    With one, options stay as the data have them. With several, the first is drawn by *seed* and the question's id, and
    the others turn it by equal steps: each option stands at as many letters as there are orders, up to all of them.
    """

    def __init__(self, data: Choices, count: int, seed: int) -> None:
        self.data, self.count, self.seed = data, count, seed

    def of(self, query: Query) -> list[Order]:
        """As many as there are; each names every option once."""
        size = len(self.data.candidates[query.candidates])
        if self.count == 1 or not size:
            return [tuple(range(size))]
        return [self._turned(query.id, size, number) for number in range(self.count)]

    def _turned(self, query: str, size: int, number: int) -> Order:
        again, step = divmod(number, size)
        first = list(range(size))
        random.Random(f"{self.seed} {query} {again}").shuffle(first)
        start = step * size // min(self.count, size)
        return tuple(first[start:] + first[:start])

    def question(self, query: Query, order: Order) -> str:
        """The question with its options in that order."""
        return shown(self.data.questions[query.id], self.names(query, order))

    def instructed(self, query: Query, order: Order, instruction: str) -> str:
        """:meth:`question`, and below it what to do: a chat model's turn."""
        return f"{self.question(query, order)}\n{instruction}".rstrip()

    def names(self, query: Query, order: Order) -> list[str]:
        """Of its options, as they are shown."""
        names = self.data.candidates[query.candidates].names
        return [names[place] for place in order]

    def gold_letters(self, query: Query) -> list[str]:
        """Of the right option, in each order."""
        right = self.data.candidates[query.candidates].places(query.gold)[0]
        return [letter_of(right, order) for order in self.of(query)]


def letter_of(place: int, order: Order) -> str:
    """Under which letter an option stands."""
    return ascii_lowercase[order.index(place)]
