"""The tables of a plan, numbered as in a paper, with the paper's own values next to those of the plan's models.

A value of the paper is found by the table, the first cells of the row and the name of the column.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

from fathom.base.errors import BadInput
from fathom.base.options import nearest
from fathom.base.reading import read_text
from fathom.data.graph.queries import graph_of
from fathom.engine.models.parts import load_tokenizer
from fathom.engine.scoring.tokens import token_counter
from fathom.plans.content import PaperData, PlanContent, PlanFaults, TablePart, path_from
from fathom.plans.kinds import values_of_preset
from fathom.plans.steps import Opened, PlannedStep, StepState
from fathom.plans.studies import StudyResult, matching
from fathom.plans.wide import SPREAD, Basis, Key, Row, Values, text_of, wide_table
from fathom.results.answers import error_table
from fathom.results.datasets import data_tables, leakage_tables
from fathom.results.facts import RunFacts
from fathom.results.loading import NOT_COMPARED
from fathom.results.rows import Rows
from fathom.results.tables import Table

FOLDER = "papers"
VALUES = ("table", "where", "row", "column", "value")
"""Header of a file of values. *where* is for readers: the table, or the section with the value in its text."""
SMALL = 0.05
"""Value of a paper below which the tolerance is less in proportion."""
PAPER, AGREES = "paper", "against paper"


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
    sizes: Mapping[str, PaperData]
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
    sizes = {name: part.paper for name, part in content.data.items() if part.paper is not None}
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
            planned.append(PlannedTable(name, part, runs_of, data, models, sizes, values.get(name, {})))
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
    results: list[StudyResult] = []
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
    members = [runs[name] for _, result in studies if result in results for name in result.runs]
    return [with_paper(planned, table, part.rows, _of_papers_data(planned, table, members)) for table in named]


def _of_papers_data(
    planned: PlannedTable, table: Table, members: Sequence[tuple[PlannedStep, StepState]]
) -> dict[tuple[Key, str], float | None]:
    """Return what random answers score in the cells of a study whose runs are of the paper's own data."""
    is_own = [(run.keys, _is_of_paper(planned, run, state)) for run, state in members if planned.values]
    chance: dict[tuple[Key, str], float | None] = {}
    for key, row in zip(_keys_of(table, planned.part.rows), table.objects(), strict=True):
        about = {name: row[name] for name in ("model", "data") if name in row}
        of_row = [is_match for keys, is_match in is_own if about.items() <= keys.items()]
        if of_row and all(of_row):
            chance |= dict.fromkeys(((key, name) for name in table.columns), planned.part.chance)
    return chance


def _is_of_paper(planned: PlannedTable, run: PlannedStep, state: StepState) -> bool:
    size = planned.sizes.get(run.keys.get("data", ""))
    if size is None or state.run is None:
        return False
    rows = Rows(state.run, False, run.step.options.cluster, NOT_COMPARED)
    return Basis.of(RunFacts(state.run, rows, rows.scorings[0], "")).is_of(size)


def _keys_of(table: Table, keys: Sequence[str]) -> list[Key]:
    """Return the names of each row. :param keys: columns that have them."""
    return [tuple(str(row[name] or "") for name in keys if name in row) for row in table.objects()]


def _wrong(run: PlannedStep, state: StepState, part: TablePart) -> Table:
    assert state.run is not None
    table = error_table(state.run, part.wrong)
    rows = tuple(row for row in table.rows if row[0] == part.scoring or not part.scoring)
    hidden = table.hidden - {"relation", "gold_probability", "uncertainty"}
    return replace(table, rows=rows, title=f"{table.title}, {run.keys.get('model', run.name)}", hidden=hidden)


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
    table = Table.of(rows.values(), planned.title, notes, formats=formats)
    return with_paper(planned, table, (key,), dict.fromkeys(product(_keys_of(table, (key,)), table.columns)))


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
    part, wide = planned.part, wide_table(planned.part, planned.runs, finished, planned.sizes, planned.values)
    notes = [*([f"without runs that failed or are missing: {lacking}"] if lacking else []), *wide.notes]
    spreads = [name for name in wide.columns if f"{name} {SPREAD}" in wide.columns]
    if spreads:
        notes.append(f"{SPREAD}: standard deviation over the templates")
    rows = [dict(zip(part.rows, key, strict=True)) | row for key, row in wide.rows.items()]
    table = Table.of(rows, planned.title, notes, columns=[*part.rows, *part.about, *wide.columns])
    forms = {f"{name} {SPREAD}": table.formats[name] for name in spreads if name in table.formats}
    return with_paper(planned, replace(table, formats={**table.formats, **forms}), part.rows, wide.chance)


def with_paper(
    planned: PlannedTable, table: Table, keys: Sequence[str], chance: Mapping[tuple[Key, str], float | None]
) -> Table:
    """Add the paper's values after the columns that have any, and whether the row's numbers agree with them.

    :param keys: columns that name a row.
    :param chance: what random answers score in the cells of the paper's own data; None where that is unknown.
    """
    part, names = planned.part, table.columns
    keyed = _keys_of(table, keys)
    values = [{name: planned.values.get(text_of(key, name)) for name in names} for key in keyed]
    printed = [name for name in names if any(of_paper[name] is not None for of_paper in values)]
    if not printed:
        return replace(table, notes=(*table.notes, *part.notes))
    last = {[name, *table.numbers.get(name, ())][-1]: name for name in printed}
    columns = [column for name in names for column in (name, *([f"{last[name]} {PAPER}"] if name in last else []))]
    cells = []
    for key, row_cells, of_paper in zip(keyed, table.rows, values, strict=True):
        row: Row = dict(zip(names, row_cells, strict=True))
        comparable = {
            name: value
            for name in printed
            if (value := of_paper[name]) is not None and row[name] is not None and SPREAD not in name
        }
        compared = {name: value for name, value in comparable.items() if (key, name) in chance}
        verdicts = {
            "differs": [name for name, value in compared.items() if not _is_near(part, row[name], value)],
            "no better than chance": [name for name in compared if _has(table, row, name, chance[key, name])],
        }
        texts = [f"{verdict}: {', '.join(of)}" for verdict, of in verdicts.items() if of]
        verdict = "; ".join(texts) or "agrees" if compared else "other data" if comparable else None
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


def _is_near(part: TablePart, found: float, value: float) -> bool:
    """Return whether a number is within the tolerance of the paper's value."""
    share = 1.0 if part.statistics else min(1.0, abs(value) / SMALL)
    return abs(found - value) <= max(part.tolerance * share, part.relative * abs(value)) + 1e-12


def _has(table: Table, row: Row, name: str, chance: float | None) -> bool:
    """Return whether the interval of a number contains what random answers score."""
    ends = [row[end] for end in table.numbers.get(name, ())[:2]]
    return chance is not None and len(ends) == 2 and None not in ends and ends[0] <= chance <= ends[1]


def _tolerance(part: TablePart) -> str:
    ways = [f"{part.tolerance:g}"] * (part.tolerance > 0) + [f"{100 * part.relative:.0f} %"] * (part.relative > 0)
    below = f", below {100 * SMALL:.0f} % in proportion" if part.tolerance and not part.statistics else ""
    within = f"agrees: within {' or '.join(ways) or 'rounding'} of the paper's value{below}"
    other_data = "other data: a sample, or another or an unknown number of facts or candidates"
    return within if part.statistics else f"{within}; {other_data}; no better than chance: the interval contains it"
