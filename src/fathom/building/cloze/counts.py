"""What became of records and sentences on their way, counted by reason."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from fathom.building.cloze.boilerplate import BOILERPLATE
from fathom.building.cloze.leaks import LEAKS
from fathom.building.cloze.sentences import BLOCKED, HYPHENATED, KEPT, LENGTH, NO_NAME, PLACES, SEVERAL, SHARED

BROKEN, WITHDRAWN, REPLACED = "cannot be read", "withdrawn by a later file", "replaced by a later record"
LANGUAGE, UNDATED, EARLY, EMPTY = "in another language", "without a date", "not after", "without text"
SILENT = "name no entity"
_DOCUMENT_STEPS = (BROKEN, WITHDRAWN, REPLACED, LANGUAGE, UNDATED, EARLY, EMPTY, SILENT)
DUPLICATE, MERGED = "say the same as one above", "ask the same as one above, of another answer"
NEAR = "in documents that nearly repeat one above"
WITHOUT_MODEL = "can be answered by neighbouring words alone"
_SENTENCE_STEPS = (NO_NAME, SEVERAL, SHARED)
QUALITY_STEPS = (*BOILERPLATE.values(), *LEAKS.values())
_TYPED_STEPS = (HYPHENATED, LENGTH, PLACES, BLOCKED, *QUALITY_STEPS, NEAR, DUPLICATE, MERGED, WITHOUT_MODEL)

_SHOWN = 3
"""Examples of each reason."""


class Step(NamedTuple):
    """One reason to leave something out.

    :param left: how many are left after it.
    :param by_type: the same by type of the entity, where that is known.
    """

    what: str
    dropped: int
    left: int
    by_type: dict[str, int] | None = None


class Example(NamedTuple):
    """A sentence that was left out.

    :param answer: the words that were masked.
    """

    document: str
    sentence: str
    answer: str


class Frequencies(NamedTuple):
    """How often an entity of a type occurs, over those that do.

    :param sd: standard deviation of all of them, not of a sample.
    """

    type: str
    sentences: int
    entities: int
    mean: float
    sd: float
    most: int
    least: int


@dataclass
class Counts:
    """How many records and sentences had which outcome.

    :param documents: by outcome.
    :param sentences: those of no single entity, by outcome.
    :param typed: those of one entity, by its type and the outcome.
    :param examples: the first that were left out, by outcome; of those merged, the first queries with all answers.
    """

    documents: Counter[str] = field(default_factory=Counter)
    sentences: Counter[str] = field(default_factory=Counter)
    typed: Counter[tuple[str, str]] = field(default_factory=Counter)
    examples: dict[str, list[Example]] = field(default_factory=dict)

    def take(self, reason: str, lost: Mapping[str, int]) -> None:
        """Sentences that had been kept, by type, are left out for *reason*."""
        for type_, count in lost.items():
            self.typed[type_, KEPT] -= count
            self.typed[type_, reason] += count

    def show(self, outcome: str, example: Example) -> None:
        """Keep it, if it is one of the first of its outcome."""
        shown = self.examples.setdefault(outcome, [])
        if len(shown) < _SHOWN:
            shown.append(example)

    def notes(self) -> list[str]:
        """What sentences of little quality were found, each kind with its first example."""
        lost: Counter[str] = Counter()
        for (_, outcome), count in self.typed.items():
            lost[outcome] += count
        return [
            f"{outcome}: {lost[outcome]:,}, such as {shown[0].sentence!r} ({shown[0].answer})"
            for outcome in (*QUALITY_STEPS, NEAR, MERGED, WITHOUT_MODEL)
            if (shown := self.examples.get(outcome)) and lost[outcome]
        ]

    def steps(self, types: Sequence[str], after: str | None) -> list[Step]:
        """From all records to the sentences that are left.

        :param types: of entities, in their order.
        :param after: the day that :data:`EARLY` speaks of.
        """
        left = sum(self.documents.values())
        steps = [Step("records", 0, left)]
        for reason in _DOCUMENT_STEPS:
            dropped = self.documents[reason]
            left -= dropped
            if dropped or reason == SILENT:
                steps.append(Step(f"{reason} {after}" if reason == EARLY else reason, dropped, left))
        left = sum(self.sentences.values()) + sum(self.typed.values())
        steps.append(Step("sentences of paragraphs that name an entity", 0, left))
        by_type = dict.fromkeys(types, 0)
        for (type_, _), count in self.typed.items():
            by_type[type_] += count
        for reason in _SENTENCE_STEPS:
            left -= self.sentences[reason]
            steps.append(Step(reason, self.sentences[reason], left, dict(by_type) if reason == SHARED else None))
        for reason in _TYPED_STEPS:
            lost = {type_: self.typed[type_, reason] for type_ in by_type}
            by_type = {type_: count - lost[type_] for type_, count in by_type.items()}
            if any(lost.values()) or reason in (BLOCKED, DUPLICATE):
                steps.append(Step(reason, sum(lost.values()), sum(by_type.values()), by_type))
        return steps


def emptied(steps: list[Step], troubles: list[str]) -> list[str]:
    """Which step left nothing, and what the others left."""
    empty = next(number for number, step in enumerate(steps) if not step.left)
    at = steps[empty].what if empty else "there is no record in the input"
    said = f"nothing was left after {at!r} ({steps[empty].dropped:,} of {steps[empty - 1].left:,})" if empty else at
    counted = [f"  {step.left:>9,}  after: {step.what}" for step in steps[: empty + 1]]
    return [f"no sentence is left: {said}; nothing is written", *counted, *(f"  {line}" for line in troubles)]


def frequencies_of(type_: str, counts: list[int]) -> Frequencies:
    """:param counts: sentences of each entity that occurs."""
    mean = sum(counts) / len(counts)
    sd = math.sqrt(sum((count - mean) ** 2 for count in counts) / len(counts))
    return Frequencies(type_, sum(counts), len(counts), mean, sd, max(counts), min(counts))
