"""The tables of a plan, numbered as in a paper, with the paper's own values next to those of the plan's models.

A value of the paper is found by the table, the first cells of the row and the name of the column.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from fathom.base.errors import BadInput
from fathom.base.options import nearest
from fathom.base.reading import read_text
from fathom.data.graph.queries import graph_of
from fathom.engine.models.parts import load_tokenizer
from fathom.engine.scoring.tokens import token_counter
from fathom.plans.content import PlanContent, PlanFaults, TablePart, path_from
from fathom.plans.kinds import values_of_preset
from fathom.plans.steps import Opened, PlannedStep, StepState
from fathom.plans.studies import StudyResult, matching
from fathom.plans.wide import SPREAD, Key, Row, wide_table
from fathom.results.answers import error_table
from fathom.results.datasets import data_tables, leakage_tables
from fathom.results.tables import Table

FOLDER = "papers"
VALUES = ("table", "where", "row", "column", "value")
"""Header of a file of values. *where* is for readers: the table, or the section with the value in its text."""
FACTS = "facts"
PAPER, AGREES = "paper", "against paper"
Values = Mapping[tuple[str, str], float]


class PlannedTable(NamedTuple):
    """A table of a plan.

    :param runs: names of the runs of each column; under "" those of a table of wrong answers.
    :param data: names and places of its data sets. :param models: likewise, of all models.
    :param values: the paper's, by row and column, in lower case.
    """

    name: str
    part: TablePart
    runs: Mapping[str, Sequence[str]]
    data: Mapping[str, str]
    models: Mapping[str, str]
    facts: Mapping[str, int]
    values: Values

    @property
    def title(self) -> str:
        """Its number in the paper, and what it shows."""
        return f"{self.name.replace('-', ' ').capitalize()}: {self.part.caption}"


def plan_tables(
    content: PlanContent, runs: Sequence[PlannedStep], studies: Collection[str], base: Path, faults: PlanFaults
) -> list[PlannedTable]:
    """Return the tables; a fault for each that is wrong. Those of a partial plan that have nothing are left out.

    :param studies: names of the studies that are made. :param base: folder to which paths are relative.
    """
    values: dict[str, dict[tuple[str, str], float]] = {}
    if content.values:
        file = values_of_preset(content.values) or Path(path_from(content.values, base))
        try:
            values = read_values(file)
        except BadInput as error:
            faults.add(("values",), "; ".join(error.faults))
    for unknown in values.keys() - content.tables.keys():
        faults.add(
            ("values",), f"{content.values}: no table '{unknown}' under tables; {nearest(unknown, content.tables)}"
        )
    models = {name: path_from(part.model, base) for name, part in content.models.items()}
    facts = {name: part.facts for name, part in content.data.items() if part.facts is not None}
    planned = []
    for name, part in content.tables.items():
        add = partial(faults.add_at, "tables", name)
        labels = {label for key, study in content.studies.items() for label in (key, study.study or key)}
        if sum(map(bool, (part.columns, part.study, part.statistics, part.wrong))) != 1:
            add("", "expected one of columns:, study:, statistics: and wrong:")
        if part.study and part.study not in labels and not content.is_partial:
            add("study", f"no study '{part.study}' in this plan; {nearest(part.study, labels)}")
        for missing in (source for source in part.data if source not in content.data and not content.is_partial):
            add("data", f"no '{missing}' under data; {nearest(missing, content.data)}")
        patterns_of = {"": part.runs} if part.wrong else {title: column.runs for title, column in part.columns.items()}
        runs_of = {
            title: [run.name for run in matching(patterns, runs, partial(add, f"columns.{title}"), content.is_partial)]
            for title, patterns in patterns_of.items()
        }
        data = {source: path_from(content.data[source].data, base) for source in part.data if source in content.data}
        empty = [title for title, names in runs_of.items() if not names]
        nothing = (runs_of and len(empty) == len(runs_of)) or (part.complete and empty) or (part.data and not data)
        nothing = nothing or (part.study and part.study not in studies) or not content.data.keys() >= set(part.needs)
        if not (nothing and content.is_partial):
            planned.append(PlannedTable(name, part, runs_of, data, models, facts, values.get(name, {})))
    return planned


def read_values(file: Path) -> dict[str, dict[tuple[str, str], float]]:
    """Read the values that a paper prints, by table, then row and column in lower case.

    :raises BadInput: another header, or a value that is no number.
    """
    header, *lines = list(csv.reader(read_text(file).splitlines())) or [[]]
    if tuple(header) != VALUES:
        raise BadInput(f"{file}:1: expected the header {','.join(VALUES)}, found {','.join(header)}")
    values: dict[str, dict[tuple[str, str], float]] = {}
    for number, line in enumerate(lines, start=2):
        try:
            table, _, row, column, value = line
            values.setdefault(table, {})[row.casefold(), column.casefold()] = float(value)
        except ValueError as error:
            raise BadInput(f"{file}:{number}: expected {','.join(VALUES)}, found {','.join(line)}") from error
    return values


def make_table(
    planned: PlannedTable,
    runs: Mapping[str, tuple[PlannedStep, StepState]],
    studies: Sequence[tuple[str, StudyResult]],
    opened: Opened,
) -> list[Table]:
    """Make a table from finished runs and studies. :raises BadInput: nothing of it can be made, with the reason."""
    part = planned.part
    if part.columns:
        return [_of_runs(planned, runs)]
    if part.statistics:
        return [_joined(planned, opened)]
    if part.study:
        of_name = [result for _, result in studies if result.name.partition("/")[0] == part.study]
        results = of_name or [result for name, result in studies if name == part.study]
        if whys := [f"{result.name}: {result.why}" for result in results if result.why]:
            raise BadInput(whys)
        names = [result.name.partition("/")[2] or result.name * (len(results) > 1) for result in results]
        tables = [(of, table) for of, result in zip(names, results, strict=True) for table in result.tables]
    else:
        tables = [("", _wrong(*runs[name], part)) for name in planned.runs[""] if runs[name][1].run is not None]
    taken = [(of, _kept(table, part.keep)) for of, table in tables if table.title.startswith(part.title)]
    if not taken:
        raise BadInput(f"no table '{part.title}' among {', '.join(table.title for _, table in tables) or 'none'}")
    named = [
        replace(table, title=", ".join(filter(None, (planned.title, of, table.title if len(taken) > 1 else ""))))
        for of, table in taken
    ]
    return [with_paper(planned, table, part.rows) for table in named]


def _wrong(run: PlannedStep, state: StepState, part: TablePart) -> Table:
    assert state.run is not None
    table = error_table(state.run, part.wrong)
    rows = tuple(row for row in table.rows if row[0] == part.scoring or not part.scoring)
    return replace(table, rows=rows, title=f"{table.title}, {run.keys.get('model', run.name)}")


def _kept(table: Table, keep: Sequence[str]) -> Table:
    """Return some columns of a table, with their intervals."""
    if not keep:
        return table
    names = [column for name in keep for column in (name, *table.numbers.get(name, ())) if column in table.columns]
    places = [table.columns.index(name) for name in names]
    rows = tuple(tuple(row[place] for place in places) for row in table.rows)
    numbers = {name: ends for name, ends in table.numbers.items() if name in names}
    return replace(table, columns=tuple(names), rows=rows, numbers=numbers)


def _joined(planned: PlannedTable, opened: Opened) -> Table:
    """Return a table of several data sets or tokenizers, joined by their first column."""
    keep, rows, key = planned.part.keep, dict[str, Row](), ""
    formats: dict[str, str] = {}
    notes: dict[str, None] = {}
    for name, table in _statistics(planned, opened):
        notes, key = notes | dict.fromkeys(table.notes), table.columns[0]
        for row in table.objects():
            cells = {f"{name} {head}": cell for head, cell in row.items() if head != key and head in (keep or row)}
            rows.setdefault(str(row[key]), {key: str(row[key])}).update(cells)
        formats |= {f"{name} {head}": form for head, form in table.formats.items()}
    return with_paper(planned, Table.of(rows.values(), planned.title, notes, formats=formats), (key,))


def _statistics(planned: PlannedTable, opened: Opened) -> Iterator[tuple[str, Table]]:
    for name, place in planned.data.items():
        data, kind = opened.data(place), planned.part.statistics
        if kind == "tokens":
            for model, folder in planned.models.items():
                yield model, data_tables(data, token_counter(load_tokenizer(folder)))[-1]
        elif kind == "leakage":
            tables = leakage_tables(graph_of(data))
            yield from ((name, table) for table in tables if table.title.startswith(planned.part.title))
        else:
            yield name, data_tables(data)[0 if kind == "totals" else -1]


def _of_runs(planned: PlannedTable, runs: Mapping[str, tuple[PlannedStep, StepState]]) -> Table:
    wanted = dict.fromkeys(name for group in planned.runs.values() for name in group)
    finished = {name: (runs[name][0], run) for name in wanted if (run := runs[name][1].run) is not None}
    lacking = ", ".join(name for name in wanted if name not in finished)
    if not finished:
        raise BadInput(f"needs runs that failed or are missing: {lacking}")
    part, wide = planned.part, wide_table(planned.part, planned.runs, finished, planned.facts)
    notes = [f"without runs that failed or are missing: {lacking}"] if lacking else []
    spreads = [name for name in wide.columns if f"{name} {SPREAD}" in wide.columns]
    if spreads:
        notes.append(f"{SPREAD}: standard deviation over the templates")
    rows = [dict(zip(part.rows, key, strict=True)) | row for key, row in wide.rows.items()]
    table = Table.of(rows, planned.title, notes, columns=[*part.rows, *part.about, *wide.columns])
    forms = {f"{name} {SPREAD}": table.formats[name] for name in spreads if name in table.formats}
    return with_paper(planned, replace(table, formats={**table.formats, **forms}), part.rows, wide.other)


def with_paper(
    planned: PlannedTable, table: Table, keys: Sequence[str], other: Collection[tuple[Key, str]] = ()
) -> Table:
    """Add the paper's values after the columns that have any, and whether the row's numbers agree with them.

    :param keys: columns that name a row. :param other: rows and columns of samples and of other data than the paper's;
        a column of numbers of *facts* says so as well.
    """
    part, names = planned.part, table.columns
    rows = [dict(zip(names, row, strict=True)) for row in table.rows]
    keyed = [tuple(str(row[name] or "") for name in keys if name in row) for row in rows]
    texts = [" ".join(filter(None, key)).casefold() for key in keyed]
    values = [{name: planned.values.get((text, name.casefold())) for name in names} for text in texts]
    counts = FACTS if FACTS not in table.numbers else ""
    printed = [name for name in names if name != counts and any(of_paper[name] is not None for of_paper in values)]
    if not printed:
        return replace(table, notes=(*table.notes, *part.notes))
    last = {[name, *table.numbers.get(name, ())][-1]: name for name in printed}
    columns = [column for name in names for column in (name, *([f"{last[name]} {PAPER}"] if name in last else []))]
    cells = []
    for key, row, of_paper in zip(keyed, rows, values, strict=True):
        comparable = {
            name: value for name in printed if (value := of_paper[name]) is not None and row[name] is not None
        }
        comparable = {name: value for name, value in comparable.items() if SPREAD not in name}
        is_other = of_paper.get(counts) not in (None, row.get(counts))
        compared = {name: value for name, value in comparable.items() if not is_other and (key, name) not in other}
        verdict = _verdict(part, row, compared) if compared else "other data" if comparable else None
        row |= {f"{name} {PAPER}": _like(row[name], of_paper[name]) for name in printed}
        cells.append((*(row[name] for name in columns), verdict))
    formats = {f"{name} {PAPER}": table.formats[name] for name in printed if name in table.formats}
    return replace(
        table,
        columns=(*columns, AGREES),
        rows=tuple(cells),
        formats={**table.formats, **formats},
        hidden=table.hidden.union(name for name in columns if name.endswith(f"{SPREAD} {PAPER}")),
        notes=(*table.notes, *part.notes, _tolerance(part)),
    )


def _like(cell: object, value: float | None) -> float | None:
    """Return the paper's value, as a whole number next to one."""
    return int(value) if isinstance(cell, int) and value is not None and value.is_integer() else value


def _verdict(part: TablePart, row: Row, values: Mapping[str, float]) -> str:
    """Return whether a row agrees with the paper, or in which columns it differs. :param values: the paper's."""
    differing = [
        name
        for name, value in values.items()
        if not abs(row[name] - value) <= max(part.tolerance, part.relative * abs(value)) + 1e-12
    ]
    return f"differs: {', '.join(differing)}" if differing else "agrees"


def _tolerance(part: TablePart) -> str:
    ways = [f"{part.tolerance:g}"] * (part.tolerance > 0) + [f"{100 * part.relative:.0f} %"] * (part.relative > 0)
    within = f"agrees: within {' or '.join(ways) or 'rounding'} of the paper's value"
    return f"{within}; other data: of a sample, or of another number of facts than the paper's"
