"""A model's memory of a hierarchy by distance: which steps it knows, and what it answers instead of the right class."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fathom.data.hierarchy import KINDS, RIGHT, Above, kind_of_answer
from fathom.results.estimates import mean
from fathom.results.metrics.ranking import by_frequency_of_others, finest_rank, hits_at_k
from fathom.results.recipes import combined
from fathom.results.rows import Floats, Rows, grouped
from fathom.results.samples import Sample
from fathom.results.tables import Table
from fathom.results.tasks import TaskLine, hierarchy_of, sample_items

BY_DISTANCE = (
    "of each model's best setting; distance: steps to the right answer, by the longest way; accuracy: it ranks before "
    "all wrong answers; frequency: the same for the most frequent right answer of the other items at this distance"
)
FIRST_ANSWERS = (
    "of each model's best setting; too general: right, but not the finest; too specific: below the finest; "
    "sibling, cousin: a class directly, or two steps, above the finest right answer is above it"
)


class _Item(NamedTuple):
    """One item as a model's best setting answered it. :param ranks: of the right answers, unfiltered."""

    line: TaskLine
    query: int
    place: int
    ranks: list[float]

    @property
    def rows(self) -> Rows:
        return self.line.rows

    @property
    def gold(self) -> list[str]:
        """Ids of the right answers."""
        return self.rows.gold[self.query]

    @property
    def steps(self) -> list[int]:
        """Distances of the right answers."""
        return self.rows.distances[self.query] or []


def depth_tables(best: Iterable[TaskLine]) -> list[Table]:
    """Return accuracy by distance, and the first answers by kind; none without a hierarchy of several steps."""
    items = [item for line in best for item in _items(line)]
    if max((step for item in items for step in item.steps), default=1) < 2:
        return []
    by_line = grouped(
        ((item.line.setting.task, item.line.setting.model, item.line.setting.soft), item) for item in items
    )
    above = _above(items)
    rows = [row for about, own in by_line.items() for row in _by_distance(about[:2], own)]
    kinds = [_first_answers(about[:2], own, above) for about, own in by_line.items()]
    return [
        Table.of(rows, "accuracy by distance in the hierarchy", (BY_DISTANCE,), main="accuracy"),
        Table.of(kinds, "first answers", (FIRST_ANSWERS,), without_interval=KINDS[1:], main=RIGHT),
    ]


def unknown_axioms(best: Iterable[TaskLine]) -> Table:
    """Return a row for each item whose finest right answer is not before all wrong ones."""
    items = [item for line in best for item in _items(line)]
    above = _above(items)
    columns = ("task", "model", "subject", "right", "rank", "answered", "kind")
    rows = [
        (
            *(item.line.setting.task, item.line.setting.model, item.rows.subjects[item.query]),
            "; ".join(item.gold[at] for at in item.rows.at_distance(item.query)),
            rank,
            "; ".join(sorted(answers)),
            "; ".join(dict.fromkeys(_kind(item, answer, above) for answer in sorted(answers))),
        )
        for item in items
        if (rank := float(item.rows.finest_rank[item.place])) > 1
        for answers in [item.rows.top_answers(item.place)]
    ]
    return Table(columns, tuple(rows), "axioms that the model does not know")


def _items(line: TaskLine) -> Iterator[_Item]:
    ranks = line.rows.table.column("gold_ranks").to_pylist()
    for place in line.scored_places.tolist():
        yield _Item(line, int(line.rows.query[place]), place, ranks[place] or [])


def _above(items: Iterable[_Item]) -> dict[str, Above]:
    """Return all superordinates by candidate set, as the runs of the ontology probe record them."""
    found: dict[str, Above] = {}
    for run in {str(item.line.run.path): item.line.run for item in items}.values():
        found = hierarchy_of(run) | found
    return found


def _by_distance(about: tuple[str, str], items: list[_Item]) -> Iterator[dict[str, object]]:
    for distance in sorted({step for item in items for step in item.steps}):
        own = [item for item in items if distance in item.steps]
        places = [item.rows.at_distance(item.query, distance) for item in own]
        known = [
            float(np.mean([finest_rank(item.ranks, [at]) <= 1 for at in at_distance]))
            for item, at_distance in zip(own, places, strict=True)
        ]
        right = [{item.gold[at] for at in at_distance} for item, at_distance in zip(own, places, strict=True)]
        sample, made = _sample(own), f"distance:{distance}"
        yield {
            **dict(zip(("task", "model"), about, strict=True)),
            "distance": distance,
            "accuracy": mean(known, sample, _recipe("accuracy", own, made)),
            "frequency": mean(_by_frequency(own, right), sample, _recipe("accuracy of the most frequent", own, made)),
            "items": len(own),
        }


def _by_frequency(items: Sequence[_Item], right: Sequence[Collection[str]]) -> Floats:
    """Return for each item the chance that the most frequent answer of the others is right."""
    number = {answer: at for at, answer in enumerate(sorted({answer for own in right for answer in own}))}
    pairs = [
        (item.rows.subjects[item.query] or item.rows.query_ids[item.query], [number[answer] for answer in own])
        for item, own in zip(items, right, strict=True)
    ]
    ranks = by_frequency_of_others(pairs, pairs, len(number))
    return hits_at_k(ranks.optimistic, ranks.pessimistic, 1)


def _first_answers(about: tuple[str, str], items: list[_Item], above: Mapping[str, Above]) -> dict[str, object]:
    """Return the share of each kind of answer; tied first answers share an item."""
    shares = {kind: np.zeros(len(items)) for kind in KINDS}
    for at, item in enumerate(items):
        answers = item.rows.top_answers(item.place)
        for answer in answers:
            shares[_kind(item, answer, above)][at] += 1 / len(answers)
    sample = _sample(items)
    made = {kind: mean(own, sample, _recipe("share", items, f"answer:{kind}")) for kind, own in shares.items()}
    return {**dict(zip(("task", "model"), about, strict=True)), "items": len(items), **made}


def _kind(item: _Item, answer: str, above: Mapping[str, Above]) -> str:
    """Return the kind of an answer, "" without a hierarchy."""
    space = item.rows.spaces[item.query] or ""
    return kind_of_answer(answer, item.gold, item.steps, above.get(space, {})) if item.steps else ""


def _recipe(name: str, items: Sequence[_Item], part: str) -> str:
    return f"{combined(name, [items[0].line.numbers['MRR'].recipe])}|{part}"


def _sample(items: Iterable[_Item]) -> Sample:
    return sample_items([(item.rows, item.query) for item in items])
