"""What each step kept and excluded, and why, with examples: printed, and kept in a log with the data set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from fathom.reading import Json


class Log:
    """:param most: examples kept of each reason."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.counts: Counter[tuple[str, str]] = Counter()
        self._examples: dict[tuple[str, str], list[str]] = {}
        self._said: dict[tuple[str, str], Json] = {}

    def drop(self, relation: str, why: str, example: str = "", count: int = 1) -> None:
        """Something of a relation is left out."""
        if not count:
            return
        self.counts[relation, why] += count
        kept = self._examples.setdefault((relation, why), [])
        if example and len(kept) < self._most:
            kept.append(example)

    def say(self, relation: str, what: str, **more: object) -> None:
        """Something else that its reader should know, such as the configuration that was chosen."""
        self._said[relation, what] = more

    def of(self, relation: str) -> dict[str, int]:
        """Counts of what is left out of a relation, by reason."""
        return {why: count for (where, why), count in self.counts.items() if where == relation}

    def lines(self) -> Iterator[Json]:
        """As the log has them: one for each relation and reason."""
        for (relation, why), count in self.counts.items():
            examples = self._examples.get((relation, why), [])
            yield {"relation": relation, "left_out": count, "why": why, "examples": examples}
        for (relation, what), more in self._said.items():
            yield {"relation": relation, "said": what, **more}
