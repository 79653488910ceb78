"""How much of a run is finished, in queries and by relation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from fathom.reading.files import first_few


class Work(NamedTuple):
    """The work of a run.

    :param queries: their number.
    :param prompts: number of prompts of each shard by relation: one for each query and template.
    """

    queries: int
    prompts: Mapping[str, Mapping[str, int]]

    def done(self, shards: Collection[str]) -> tuple[int, int]:
        """Return how many queries finished *shards* amount to, and how many there are.

        A query in two templates of which one is finished counts half.
        """
        total = _by_relation(self.prompts.values()).total()
        finished = _by_relation(self.prompts.get(shard, {}) for shard in shards).total()
        return self.queries * finished // max(1, total), self.queries

    def lacking(self, shards: Collection[str]) -> str:
        """Return which relations are missing or incomplete without the others; "" if none."""
        totals = _by_relation(self.prompts.values())
        finished = _by_relation(self.prompts.get(shard, {}) for shard in shards)
        missing = [relation for relation in totals if not finished[relation]]
        begun = [
            f"{relation} ({finished[relation] / count:.0%} done)"
            for relation, count in totals.items()
            if 0 < finished[relation] < count
        ]
        parts = (("relations missing", missing), ("incomplete", begun))
        return "; ".join(f"{what}: {first_few(names)}" for what, names in parts if names)


def _by_relation(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return total
