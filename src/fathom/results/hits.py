"""Hits@1, 10 and 100 of runs that a study has made, one line per run and scoring."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fathom.results.numbers import Number
from fathom.results.outcomes import every_scoring
from fathom.results.tables import Table
from fathom.store.folder import RunFolder

CUTS = (1, 10, 100)


class Line(NamedTuple):
    """One run in one scoring.

    :param probe: with the scoring.
    :param parameters: of the model, None where they do not matter.
    :param hits: Hits@k for each of :data:`CUTS`; without a value where the search stopped before k.
    :param queries: how many were asked; of a fact that several ask, one.
    :param unscored: queries without a rank, counted and left out.
    """

    probe: str
    name: str
    parameters: int | None
    hits: tuple[Number, ...]
    queries: int
    unscored: int


def hits_lines(run: RunFolder, name: str, parameters: int | None = None) -> list[Line]:
    """One line per scoring."""
    return [
        Line(
            f"{outcome.probe} {outcome.scoring}",
            name,
            parameters,
            tuple(outcome.mean(f"hits@{k}", outcome.hits(k)) for k in CUTS),
            len(outcome.facts),
            len(outcome.left_out),
        )
        for outcome in every_scoring(run, name)
    ]


def hits_table(title: str, lines: Sequence[Line], notes: Iterable[str] = ()) -> Table:
    """With intervals."""
    columns = [f"hits@{k}" for k in CUTS]
    return Table.of_numbers(
        ("probe", "model or prompt", "parameters", *columns, "queries", "unscored"),
        [(*line[:3], *line.hits, line.queries, line.unscored) for line in lines],
        title,
        {f"hits@{k}": (f"low@{k}", f"high@{k}") for k in CUTS},
        dict.fromkeys(columns, ".1%"),
        notes,
    )
