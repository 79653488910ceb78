"""Outcomes of records and sentences, counted by reason, and the tables of a build."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, pstdev
from typing import NamedTuple

from fathom.results.tables import Table
from fathom_build.cloze.leaks import LEAKS
from fathom_build.cloze.sentences import (
    ADDRESS,
    BLOCKED,
    FRAGMENT,
    HYPHENATED,
    MARKED,
    NO_NAME,
    PART,
    SEVERAL,
    SHARED,
    SHORT,
)

BROKEN, WITHDRAWN, REPLACED = "cannot be read", "withdrawn by a later file", "replaced by a later record"
LANGUAGE, UNDATED, EARLY, EMPTY = "in another language", "without a date", "not after", "without text"
SILENT = "name no entity"
_DOCUMENT_STEPS = (BROKEN, WITHDRAWN, REPLACED, LANGUAGE, UNDATED, EARLY, EMPTY, SILENT)
ORDINARY = "the name is mostly an ordinary word here"
DUPLICATE = "say the same as one above"
WITHOUT_MODEL = "can be answered by neighbouring words alone"
_SENTENCE_STEPS = (NO_NAME, SEVERAL, SHARED)
QUALITY_STEPS = (HYPHENATED, PART, FRAGMENT, ADDRESS, *LEAKS.values(), ORDINARY)
_TYPED_STEPS = (MARKED, SHORT, BLOCKED, *QUALITY_STEPS, DUPLICATE, WITHOUT_MODEL)

_SHOWN = 3
"""Examples of each reason."""


class CountedStep(NamedTuple):
    """One reason to drop records or sentences, and how many are left after it, if known also by type."""

    what: str
    dropped: int
    left: int
    by_type: dict[str, int] | None = None


class Example(NamedTuple):
    """A sentence that was dropped, with the masked words."""

    document: str
    sentence: str
    answer: str


class Frequencies(NamedTuple):
    """Frequencies of the entities of a type that occur; ``sd`` is the population standard deviation."""

    type: str
    sentences: int
    entities: int
    mean: float
    sd: float
    most: int
    least: int


@dataclass
class Counts:
    """Numbers of records and sentences by outcome.

    :param documents: by outcome.
    :param sentences: those that do not name exactly one entity, by outcome.
    :param typed: those that name one entity, by its type and the outcome.
    :param examples: the first that were dropped, by outcome.
    """

    documents: Counter[str] = field(default_factory=Counter)
    sentences: Counter[str] = field(default_factory=Counter)
    typed: Counter[tuple[str, str]] = field(default_factory=Counter)
    examples: dict[str, list[Example]] = field(default_factory=dict)

    def show(self, outcome: str, example: Example) -> None:
        """Keep an example, if it is one of the first of its outcome."""
        shown = self.examples.setdefault(outcome, [])
        if len(shown) < _SHOWN:
            shown.append(example)

    def notes(self) -> list[str]:
        """Report dropped sentences of poor quality, each kind with its first example."""
        lost: Counter[str] = Counter()
        for (_, outcome), count in self.typed.items():
            lost[outcome] += count
        return [
            f"{outcome}: {lost[outcome]:,}, such as {shown[0].sentence!r} ({shown[0].answer})"
            for outcome in QUALITY_STEPS
            if (shown := self.examples.get(outcome)) and lost[outcome]
        ]

    def steps(self, types: Sequence[str], after: str | None) -> list[CountedStep]:
        """List the steps from all records to the remaining sentences. :param after: the day of :data:`EARLY`."""
        left = sum(self.documents.values())
        steps = [CountedStep("records", 0, left)]
        for reason in _DOCUMENT_STEPS:
            dropped = self.documents[reason]
            left -= dropped
            if dropped or reason == SILENT:
                steps.append(CountedStep(f"{reason} {after}" if reason == EARLY else reason, dropped, left))
        left = sum(self.sentences.values()) + sum(self.typed.values())
        steps.append(CountedStep("sentences of paragraphs that name an entity", 0, left))
        by_type = dict.fromkeys(types, 0)
        for (type_, _), count in self.typed.items():
            by_type[type_] += count
        for reason in _SENTENCE_STEPS:
            left -= self.sentences[reason]
            steps.append(CountedStep(reason, self.sentences[reason], left, dict(by_type) if reason == SHARED else None))
        for reason in _TYPED_STEPS:
            lost = {type_: self.typed[type_, reason] for type_ in by_type}
            by_type = {type_: count - lost[type_] for type_, count in by_type.items()}
            if any(lost.values()) or reason in (BLOCKED, DUPLICATE):
                steps.append(CountedStep(reason, sum(lost.values()), sum(by_type.values()), by_type))
        return steps


def explain_empty(steps: list[CountedStep], troubles: list[str]) -> list[str]:
    """Report which step left nothing, and how many the others left."""
    empty = next(number for number, step in enumerate(steps) if not step.left)
    at = steps[empty].what if empty else "there is no record in the input"
    reason = f"nothing was left after {at!r} ({steps[empty].dropped:,} of {steps[empty - 1].left:,})" if empty else at
    counted = [f"  {step.left:>9,}  after: {step.what}" for step in steps[: empty + 1]]
    return [f"no sentence is left: {reason}; nothing is written", *counted, *(f"  {line}" for line in troubles)]


def count_frequencies(type_: str, counts: list[int]) -> Frequencies:
    """Summarise the numbers of sentences of each entity that occurs."""
    return Frequencies(type_, sum(counts), len(counts), fmean(counts), pstdev(counts), max(counts), min(counts))


class BuiltCloze(NamedTuple):
    """A finished data set, what each step left, and notes on skipped and odd input."""

    out: Path
    steps: list[CountedStep]
    frequencies: list[Frequencies]
    notes: list[str]

    def tables(self) -> list[Table]:
        """Show how many were left after each step, and how often entities occur."""
        types = list(self.steps[-1].by_type or {})
        several = types if len(types) > 1 else []
        rows = tuple(
            (step.what, step.dropped or None, step.left, *((step.by_type or {}).get(type_) for type_ in several))
            for step in self.steps
        )
        columns = ("type", "sentences", "entities", "mean", "sd", "max", "min")
        formats = dict.fromkeys(("mean", "sd"), ".2f")
        return [
            Table(("step", "left out", "left", *several), rows, "from records to sentences"),
            Table(columns, tuple(self.frequencies), "sentences per entity", formats=formats),
        ]
