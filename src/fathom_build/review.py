"""Samples of a data set that people judge in a spreadsheet."""

from __future__ import annotations

import random

from fathom_build.sheets import Row

REVIEW_FILE, AUDIT_FILE = "review.csv", "audit.csv"
SENTENCES = ("id", "type", "sentence", "answer", "reviewer_1", "reviewer_2", "comment")
"""Columns of a sample of sentences, which two people judge, as in Shaier et al., section 3.2.3."""
INSTANCES = (
    "relation", "statement", "subject", "subject_id", "answer", "answer_id", "source", "judgement", "comment",
)  # fmt: skip
"""Columns of a sample of a balanced probe's instances, which somebody compares with their source."""


class Reservoir:
    """A uniform random sample of a stream (reservoir sampling)."""

    def __init__(self, size: int, seed: str) -> None:
        self._size, self._seen, self._random = size, 0, random.Random(seed)
        self._sample: list[tuple[int, Row]] = []

    def add(self, thing: Row) -> None:
        """Offer the next item of the stream."""
        self._seen += 1
        if len(self._sample) < self._size:
            self._sample.append((self._seen, thing))
        elif (place := self._random.randrange(self._seen)) < self._size:
            self._sample[place] = (self._seen, thing)

    def in_order(self) -> list[Row]:
        """Return the sample, in the order of the stream."""
        return [thing for _, thing in sorted(self._sample, key=lambda pair: pair[0])]
