"""The pool of a relation: facts that meet every constraint on a fact alone, the most popular of each answer.

Each filter counts what it excludes. Of the remaining facts only so many of each answer, and of so many answers, are
held as a balanced choice can need: memory does not grow with the dump.
"""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from statistics import median
from typing import NamedTuple

from fathom.base.reading import Json
from fathom_build.bear.entities import UNKNOWN
from fathom_build.bear.facts import EXAMPLES, FactRow, FactStore
from fathom_build.bear.names import revealing, words
from fathom_build.bear.plan import BearPlan, RelationPlan


class Log:
    """What was left out of each relation, with examples."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self._examples: dict[tuple[str, str], list[str]] = {}
        self._said: dict[tuple[str, str], Json] = {}

    def drop(self, relation: str, why: str, example: str = "", count: int = 1) -> None:
        """Record that something of a relation is left out."""
        if not count:
            return
        self.counts[relation, why] += count
        kept = self._examples.setdefault((relation, why), [])
        if example and len(kept) < EXAMPLES:
            kept.append(example)

    def say(self, relation: str, what: str, **more: object) -> None:
        """Record something else for the reader, such as the configuration that was chosen."""
        self._said[relation, what] = more

    def counts_of(self, relation: str) -> dict[str, int]:
        """Count what is left out of a relation, by reason."""
        return {why: count for (where, why), count in self.counts.items() if where == relation}

    def lines(self) -> Iterator[Json]:
        """Yield the lines of the log, one for each relation and reason."""
        for (relation, why), count in self.counts.items():
            examples = self._examples.get((relation, why), [])
            yield {"relation": relation, "left_out": count, "why": why, "examples": examples}
        for (relation, what), more in self._said.items():
            yield {"relation": relation, "said": what, **more}


SPARE = 4
"""How many times the instances and answers are held that a variant can take: names may overlap, answers be reviewed."""
NOT_THERE = "subject or answer is not in the data"
NO_LABEL = "subject or answer has no label in the language"
WRONG_TYPE = "subject or answer is of another type"
SEVERAL = "subject has several right answers"
NOT_CHOSEN = "another right answer of the subject is more popular"
NOT_KNOWN = "answer is an unknown value"
INCOMPLETE = "list of answers is incomplete: another is an unknown value"
REVEALING = "subject's name gives the answer away"
ITSELF = "subject and answer are the same"
REVIEWED = "left out by the review"
UNPOPULAR = "less popular than what is needed"
SAME_NAME = "another subject of the relation has the name"
LEFT_OVER = "less popular than the instances taken"


class Instance(NamedTuple):
    """A fact that can be asked.

    :param also: other right answers of the subject.
    """

    subject: int
    name: str
    popularity: int
    valid_from: str
    valid_until: str
    also: frozenset[int] = frozenset()


class Answer(NamedTuple):
    """:param instances: the most popular first."""

    number: int
    name: str
    popularity: int
    types: tuple[int, ...]
    instances: list[Instance]

    def value(self, instances: int | None = None) -> float:
        """Return the preference for an answer: the median popularity of its instances, or of the first of them."""
        return median(one.popularity for one in self.instances[:instances])


class FactPool(NamedTuple):
    """:param facts: of the relation in the data, before any filter.
    :param answers: the most preferred first.
    """

    relation: RelationPlan
    facts: int
    answers: list[Answer]


def pool_of(store: FactStore, relation: RelationPlan, plan: BearPlan, dropped: frozenset[int], log: Log) -> FactPool:
    """Return the facts of a relation that can be evaluated.

    :param dropped: numbers of subjects and answers that a reviewer has left out.
    """
    filters = _Filters(store, relation, plan, dropped, log)
    most = max(limits.most_per_answer for limits in plan.variants().values()) * SPARE
    widest = max(max(one.most_answers, one.one_to_one) for one in plan.variants().values()) * SPARE
    least = min(limits.least_per_answer for limits in plan.variants().values())
    many, single = _Best(widest), _Best(widest)
    for number, rows in groupby(store.rows(relation.property), key=lambda row: row.object):
        if (answer := filters.answer(number, rows, most)) is not None:
            gone = (many if len(answer.instances) >= least else single).offer(answer)
            log.drop(relation.property, UNPOPULAR, count=len(gone.instances) if gone is not None else 0)
    facts, unknown = store.count(relation.property)
    log.drop(relation.property, NOT_KNOWN, count=unknown)
    return FactPool(relation, facts, _without_same_names(many.kept() + single.kept(), relation, log))


class _Best:
    """The most preferred of a stream of answers."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._heap: list[tuple[float, int, Answer]] = []

    def offer(self, answer: Answer) -> Answer | None:
        """Add the next answer. :returns: the one that is dropped, if any."""
        entry = (answer.value(), -answer.number, answer)
        if len(self._heap) < self._most:
            heapq.heappush(self._heap, entry)
            return None
        return heapq.heappushpop(self._heap, entry)[2]

    def kept(self) -> list[Answer]:
        return [answer for *_, answer in sorted(self._heap, reverse=True)]


class _Filters:
    """Conditions that each fact must meet on its own."""

    def __init__(
        self, store: FactStore, relation: RelationPlan, plan: BearPlan, dropped: frozenset[int], log: Log
    ) -> None:
        self._store, self._relation, self._plan, self._dropped, self._log = store, relation, plan, dropped, log
        self._several = relation.several or plan.several
        self._subject_types = store.below(int(id_[1:]) for id_ in relation.subject_types)
        self._object_types = store.below(int(id_[1:]) for id_ in relation.object_types)

    def answer(self, number: int, rows: Iterator[FactRow], most: int) -> Answer | None:
        """Return an answer with its most popular instances; None if none is left."""
        kept: list[Instance] = []
        first: FactRow | None = None
        for row in rows:
            if why := self._why_not(row):
                example = f"{row.subject_label or f'Q{row.subject}'} → {row.object_label or f'Q{row.object}'}"
                self._log.drop(self._relation.property, why, example)
            elif len(kept) < most:
                first = row
                kept.append(self._instance(row))
            else:
                self._log.drop(self._relation.property, UNPOPULAR)
        if first is None:
            return None
        types = tuple(map(int, (first.object_types or "").split()))
        return Answer(number, first.object_label or "", first.object_popularity, types, kept)

    def _instance(self, row: FactRow) -> Instance:
        also = self._store.objects(self._relation.property, row.subject) - {row.object} if row.answers > 1 else ()
        return Instance(
            row.subject, row.subject_label or "", row.subject_popularity, row.valid_from, row.valid_until,
            frozenset(also) if self._several == "chosen" else frozenset(),
        )  # fmt: skip

    def _why_not(self, row: FactRow) -> str:
        if row.subject_label is None or row.object_label is None:
            return NOT_THERE
        if not words(row.subject_label) or not words(row.object_label):
            return NO_LABEL
        if not (_is_of(row.subject_types, self._subject_types) and _is_of(row.object_types, self._object_types)):
            return WRONG_TYPE
        aliases = json.loads(row.object_aliases) if row.object_aliases else ()
        reasons = {
            INCOMPLETE: row.least == UNKNOWN,
            SEVERAL: row.answers > 1 and self._several == "filtered",
            NOT_CHOSEN: row.place > 1 and self._several == "chosen",
            ITSELF: row.subject == row.object,
            REVIEWED: not self._dropped.isdisjoint((row.subject, row.object)),
        }
        why = next((reason for reason, applies in reasons.items() if applies), "")
        return why or (REVEALING if revealing(row.subject_label, row.object_label, aliases) else "")


def _is_of(types: str | None, allowed: frozenset[int]) -> bool:
    return not allowed or any(int(type_) in allowed for type_ in (types or "").split())


def _without_same_names(answers: list[Answer], relation: RelationPlan, log: Log) -> list[Answer]:
    """Keep the most popular subject of each name. The answers of one subject are not two subjects."""
    first: dict[tuple[str, ...], tuple[int, int]] = {}
    for answer in answers:
        for one in answer.instances:
            mine = (-one.popularity, one.subject)
            first[words(one.name)] = min(mine, first.get(words(one.name), mine))
    distinct = []
    for answer in answers:
        kept = [one for one in answer.instances if first[words(one.name)][1] == one.subject]
        for one in answer.instances:
            if first[words(one.name)][1] != one.subject:
                log.drop(relation.property, SAME_NAME, f"{one.name} (Q{one.subject})")
        if kept:
            distinct.append(answer._replace(instances=kept))
    return distinct
