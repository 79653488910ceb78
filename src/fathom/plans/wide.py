"""Wide tables of runs, as papers print them: a row for each model, columns for metrics, data sets or relations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any, NamedTuple

import numpy as np

from fathom.base.errors import BadInput
from fathom.engine.models.base import Attention
from fathom.plans.content import ColumnPart, PaperData, TablePart
from fathom.plans.steps import PlannedStep
from fathom.results.baselines import random_order
from fathom.results.estimates import OVER_MODELS, Estimate, against_baseline, combined, measure, point_estimate
from fathom.results.facts import RunFacts
from fathom.results.loading import NOT_COMPARED
from fathom.results.metrics.ranking import places
from fathom.results.metrics.table import metric
from fathom.results.rows import Rows
from fathom.store.folder import RunFolder

TYPES = {Attention.CAUSAL: "CLM", Attention.BIDIRECTIONAL: "MLM", Attention.SEQ2SEQ: "S2S"}
PLACE, SPREAD, RANDOM, AVERAGE, TEMPLATE = "place", "±", "random", "average", "template"
Row = dict[str, Any]
Key = tuple[str, ...]
Values = Mapping[tuple[str, str], float]


class Basis(NamedTuple):
    """The facts of a run and its distinct candidate sets. :param scored: facts with a score, each with its set."""

    facts: int
    candidates: int
    scored: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, facts: RunFacts) -> Basis:
        """Return those of a run."""
        scored = facts.at(facts.scored_facts).tolist()
        sizes = {facts.spaces[place]: float(facts.sizes[place]) for place in scored}
        pairs = frozenset((facts.facts[place], facts.spaces[place]) for place in scored)
        return cls(len(facts.facts), int(np.nansum([*sizes.values()])), pairs)

    def is_of(self, paper: PaperData | None) -> bool:
        """Return whether the data may be those of a paper; they are not if their size is unknown."""
        return paper is not None and (self.facts, self.candidates) == (paper.facts, paper.candidates)


class Wide(NamedTuple):
    """The cells of a wide table.

    :param rows: by their key, which are the first cells of each.
    :param columns: after those of the key.
    :param chance: what random answers score in the cells of the paper's own data; None where that is unknown.
    :param bases: of the columns, by model and data.
    """

    rows: dict[Key, Row]
    columns: list[str]
    chance: dict[tuple[Key, str], float | None]
    bases: dict[tuple[str, str], dict[Basis, list[str]]]

    @property
    def notes(self) -> list[str]:
        """A line for each model and data whose columns rest on different facts or candidates."""
        return [
            f"{' '.join(filter(None, about))}: columns rest on different facts or candidates: "
            + "; ".join(
                f"{' and '.join(dict.fromkeys(titles))} on {len(basis.scored):,} facts, {basis.candidates:,} candidates"
                for basis, titles in bases.items()
            )
            for about, bases in self.bases.items()
            if len(bases) > 1
        ]


def wide_table(
    part: TablePart,
    runs_of: Mapping[str, Sequence[str]],
    runs: Mapping[str, tuple[PlannedStep, RunFolder]],
    sizes: Mapping[str, PaperData],
    values: Values,
) -> Wide:
    """Compute a table of runs.

    :param runs: the finished ones; cells of others stay empty.
    :param sizes: of the paper's data, by name. :param values: the paper's, by row and column, in lower case.
    :raises BadInput: a run has several scorings and the column names none, or lacks a metric or key.
    """
    table = Wide({}, [], {}, {})
    names: dict[str, dict[str, None]] = {title: {} for title in part.columns}
    every = dict.fromkeys((key for run, _ in runs.values() for key in run.keys), "")
    for name in dict.fromkeys(run for title in part.columns for run in runs_of[title] if run in runs):
        run, folder = runs[name]
        keys, options = every | dict(run.keys), run.step.options
        rows = Rows(folder, False, options.cluster, NOT_COMPARED)
        for title, column in part.columns.items():
            if name in runs_of[title]:
                model, data = keys.get("model", ""), keys.get("data", "")
                run_facts = RunFacts(folder, rows, scoring_of(rows, column.scoring, name), model)
                bases, basis = table.bases.setdefault((model, data), {}), Basis.of(run_facts)
                bases.setdefault(basis, []).append(title)
                printed = values if basis.is_of(sizes.get(data)) else {}
                _add(table, names[title], part, title, run_facts, keys, printed)
    for title, column in part.columns.items():
        if PLACE in column.metrics:
            _add_places(table.rows, list(names[title]), column)
        table.columns.extend(name for name in names[title] if name not in table.columns)
    ordered = {
        key: row
        for key, row in sorted(table.rows.items(), key=lambda item: _order(part, *item))
        if not part.complete or all(row.get(name) is not None for name in table.columns)
    }
    averages = {_key(AVERAGE, part): _averages(table)} if part.average else {}
    return table._replace(rows=ordered | averages)


def text_of(key: Sequence[str], column: str) -> tuple[str, str]:
    """Return row and column of a cell as the values of a paper name them."""
    return " ".join(filter(None, key)).casefold(), column.casefold()


def _key(name: str, part: TablePart) -> Key:
    """Return the key of a row about no model."""
    return (name, *[""] * (len(part.rows) - 1))


def _order(part: TablePart, key: Key, row: Row) -> tuple[bool, float]:
    """Return a key that sorts rows by their column of order, the greatest first, and random guessing last."""
    cell = row.get(part.order)
    value = cell.value if isinstance(cell, Estimate) else cell
    return key[0] == RANDOM, -value if isinstance(value, int | float) and np.isfinite(value) else np.inf


def scoring_of(rows: Rows, wanted: str, name: str) -> str:
    """Return the wanted scoring, by default the only one. :raises BadInput: the run lacks it, or has several."""
    scorings = rows.scorings
    if wanted in scorings or (not wanted and len(scorings) == 1):
        return wanted or scorings[0]
    raise BadInput(f"{name} has the scorings {', '.join(scorings)}: give scoring: with one of them")


def _add(
    table: Wide,
    names: dict[str, None],
    part: TablePart,
    title: str,
    facts: RunFacts,
    named: Mapping[str, str],
    printed: Values,
) -> None:
    """Add the cells of one run in one column.

    :param names: of the column's parts, extended. :param printed: by the paper, on the same data.
    """
    column = part.columns[title]
    about = {"type": TYPES.get(facts.attention), "parameters": facts.parameters}  # type: ignore[call-overload]
    if column.only:
        key, _, value = column.only.partition(":")
        parts = facts.parts(key)
        if value not in parts:
            return
        facts = parts[value]
    for keys, part_facts in _parts(facts, (*part.rows, *filter(None, [column.each])), named):
        row_key, random = tuple(keys[key] for key in part.rows), _key(RANDOM, part)
        row = table.rows.setdefault(row_key, {key: about[key] for key in part.about})
        for head, number in _numbers(part_facts, column).items():
            name = " ".join(filter(None, (keys.get(column.each, ""), title, head)))
            names.setdefault(name)
            row[name] = number.shown(part.form) if part.form and isinstance(number, Estimate) else number
            compared = [key for key in (row_key, random) if text_of(key, name) in printed]
            guess = _guess(part_facts, column, head) if compared or part.random else None
            table.chance.update(((key, name), guess) for key in compared)
            if part.random:
                table.rows.setdefault(random, {}).setdefault(name, guess)


def _parts(facts: RunFacts, keys: Sequence[str], named: Mapping[str, str]) -> Iterator[tuple[dict[str, str], RunFacts]]:
    """Split a run by keys. :param named: values of those that are the same in all of it."""
    parts: list[tuple[dict[str, str], RunFacts]] = [({}, facts)]
    for key in keys:
        split = _by_template if key == TEMPLATE else lambda whole, key=key: whole.parts(key)
        parts = [
            (values | {key: value}, piece)
            for values, whole in parts
            for value, piece in ({named[key]: whole} if key in named else split(whole)).items()
        ]
    yield from parts


def _by_template(facts: RunFacts) -> dict[str, RunFacts]:
    templates = facts.rows.template[facts.places]
    return {
        str(template): RunFacts(facts.run, facts.rows, facts.scoring, facts.model, facts.places[templates == template])
        for template in np.unique(templates).tolist()
    }


def _numbers(facts: RunFacts, column: ColumnPart) -> dict[str, Estimate | float | None]:
    """Return the numbers of a column, by what is added to its name."""
    measured = {name: measure(facts.rows, metric(name), facts.places) for name in column.metrics if name != PLACE}
    numbers: dict[str, Estimate | float | None] = {_head(name, column): measured.get(name) for name in column.metrics}
    if column.spread:
        first = metric(column.metrics[0])
        each = [measure(facts.rows, first, piece.places) for piece in _by_template(facts).values()]
        values = [estimate.value for estimate in each if estimate is not None]
        numbers[SPREAD] = stdev(values) if len(values) > 1 else None
    return numbers


def _head(name: str, column: ColumnPart) -> str:
    return name.replace("hits@", "Acc@") if len(column.metrics) > 1 else ""


def _guess(facts: RunFacts, column: ColumnPart, head: str) -> float | None:
    """Return what random guessing scores by one of the column's metrics; None if the metric has no baselines."""
    name = next((name for name in column.metrics if _head(name, column) == head), PLACE)
    if name == PLACE or not metric(name).has_baselines:
        return None
    [others] = metric(name).columns(random_order(facts.rows))
    found = against_baseline(facts.rows, metric(name), facts.places, others, RANDOM, fixed=True)
    return None if found is None else found[0]


def _add_places(rows: Mapping[Key, Row], names: Sequence[str], column: ColumnPart) -> None:
    """Fill each column of places by the columns before it: the first decides, ties go to the next."""
    width = len(column.metrics) + column.spread
    for start in range(0, len(names), width):
        *deciding, place = names[start : start + column.metrics.index(PLACE) + 1]
        complete = [row for row in rows.values() if all(isinstance(row.get(name), Estimate) for name in deciding)]
        if complete:
            scores = [[row[name].value for name in deciding] for row in complete]
            for row, value in zip(complete, places(scores).tolist(), strict=True):
                row[place] = value


def _averages(table: Wide) -> Row:
    """Return the mean of each column of estimates over the rows."""
    averages: Row = {}
    for name in table.columns:
        estimates = [row[name] for row in table.rows.values() if isinstance(row.get(name), Estimate)]
        if estimates:
            recipe = combined(name, [estimate.recipe for estimate in estimates], " and ")
            averages[name] = point_estimate(
                OVER_MODELS, recipe, fmean(estimate.value for estimate in estimates), len(estimates), estimates[0].form
            )
    return averages
