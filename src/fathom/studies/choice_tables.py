"""Tables of :mod:`fathom.studies.choice`."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.results.tables import Cell, Table
from fathom.studies.choice import Found, Line

_SHARES = ("accuracy", "low", "high", "all wrong")
_NOTES = (
    "accuracy: of the questions with an answer, with its 95 % interval; all: over tasks or rules, which are resampled",
    "unparsed: replies that name no option; all wrong: accuracy where they, and the unscored, count as wrong",
)


def choice_tables(found: Found) -> list[Table]:
    """Memorising and reasoning (tables 5 and 6 of Wu et al. 2023); one without questions is left out."""
    premise = "P1 memorised: the model chose the right answer of the question that asks for P1; P2 is always given"
    tables = []
    if found.memorizing:
        tables.append(_table(found.memorizing, "memorising", ("task",), _NOTES))
    if found.reasoning:
        tables.append(_table(found.reasoning, "reasoning", ("rule", "P1"), (premise, *_NOTES)))
    return tables


def _table(lines: Sequence[Line], title: str, about: tuple[str, ...], notes: tuple[str, ...]) -> Table:
    columns = ("model", "scoring", *about, "questions", *_SHARES[:3], "unparsed", "unscored", "all wrong", "note")
    body: list[tuple[Cell, ...]] = []
    for line in lines:
        share = line.accuracy
        numbers: tuple[Cell, ...] = (None, None, None) if share is None else share[:3]
        what = (line.task, line.premise)[: len(about)]
        ending = (line.unparsed, line.unscored, line.all_wrong, "" if share is None else share.note)
        body.append((line.model, line.scoring, *what, line.questions, *numbers, *ending))
    formats = dict.fromkeys(_SHARES, ".1%")
    return Table(columns, tuple(body), title, formats=formats, hidden=frozenset({"note"}), notes=notes)
