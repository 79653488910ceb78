"""Carrying out a plan: its runs, then its studies, tables and one report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from fathom.base.errors import BadInput, FathomError, MissingExtra
from fathom.base.progress import Progress, line, unseen
from fathom.plans.claims import NAME, decide_claims
from fathom.plans.file import Plan
from fathom.plans.kinds import KINDS
from fathom.plans.options import WorkerOptions
from fathom.plans.record import RUNS, changed_steps, check_needs, describe_changes, note_plan, read_record
from fathom.plans.runner import run_steps
from fathom.plans.steps import Notice, Opened, PlannedStep, Step, StepState
from fathom.plans.studies import PlannedStudy, StudyResult
from fathom.plans.tables import FOLDER, PlannedTable, make_table
from fathom.results.estimates import Estimate
from fathom.results.loading import read_scorings
from fathom.results.rows import grouped
from fathom.results.tables import Table, Tabular, write_tables
from fathom.store.outputs import remove_written
from fathom.studies.report.page import report

REPORT, STUDIES = "report.html", "studies"


@dataclass(frozen=True, repr=False)
class PlanResult(Tabular):
    """The result of a plan.

    :param runs: a row for each; None while some are to be made.
    :param papers: the tables of a paper.
    """

    plan: Plan
    states: list[StepState]
    studies: Sequence[StudyResult] = ()
    runs: Table | None = None
    papers: Sequence[StudyResult] = ()

    @property
    def failures(self) -> list[str]:
        """A line for each run that failed, each study or table that could not be made, and missing data."""
        runs = [f"{state.step}: {state.failed}" for state in self.states if state.failed]
        studies = [f"{STUDIES}/{study.name}: {study.why}" for study in self.studies if study.why]
        return [
            *runs,
            *studies,
            *(f"{paper.name}: {paper.why}" for paper in self.papers if paper.why),
            *self.plan.missing,
        ]

    @property
    def missing(self) -> int:
        """Number of runs that neither finished nor failed."""
        return sum(state.run is None and not state.failed for state in self.states)

    @property
    def answer(self) -> list[str]:
        """The conclusions of all studies, each after the study's name."""
        return [f"{study.name}: {sentence}" for study in self.studies for sentence in study.answer]

    @property
    def lines(self) -> list[str]:
        """A line for each table, with its file, then the conclusions."""
        made = [StudyResult(RUNS, [self.runs] if self.runs else ()), *self.studies, *self.papers]
        tables = [(result.name, table) for result in made for table in result.tables]
        return [f"{name}: {table.title}, rows: {len(table.rows)}" for name, table in tables] + self.answer

    @property
    def tables(self) -> list[Table]:
        """The runs, the tables of all studies, then those of the paper."""
        tables = [] if self.runs is None else [self.runs]
        tables += [
            replace(table, title=f"{study.name}: {table.title}") for study in self.studies for table in study.tables
        ]
        return tables + [table for paper in self.papers for table in paper.tables]


def carry_out(
    plan: Plan,
    out: Path,
    options: WorkerOptions | None = None,
    retry_failed: bool = False,
    redo: bool = False,
    tell: Callable[[str], None] = lambda line: None,
    progress: Progress = unseen,
    overwrite: bool = False,
) -> PlanResult:
    """Make what is missing of a plan, then its studies and tables.

    :param redo: repeat runs whose options, model or data the plan has changed since.
    :param tell: called with a line at the end of each run.
    :param progress: called with the number of runs that have ended, and of all.
    :param overwrite: replace files in *out* that Fathom did not write.
    :raises BadInput: a model or data set cannot be found; *out* contains something else, or runs that the plan has
        changed; and what :func:`fathom.plans.runner.run_steps` refuses.
    """
    options = options or WorkerOptions()
    if redo and options.part is not None:
        raise BadInput(f"--redo and --part {options.part}: expected one of them")
    record, opened = read_record(plan.steps, out), Opened()
    changed = changed_steps(plan.steps, record, opened)
    if changed and not redo:
        raise BadInput(describe_changes(plan, out, changed))

    def start(steps: Sequence[Step]) -> Notice:
        check_needs(plan, steps, opened)
        for step in changed:  # before the record says what replaces them
            step.remove()
        unfinished = [*steps, *(step for step in plan.steps if step.finished() is None)]  # a part is given no steps
        for kind in KINDS.entries():
            kind.prepare(unfinished)
        return note_plan(plan, out, record)

    states = run_steps(plan.steps, out, options, start, retry_failed, tell, progress, changed.keys())
    if PlanResult(plan, states).missing:
        return PlanResult(plan, states)
    by_step = {id(state.step): state for state in states}
    runs = {run.name: (run, by_step[id(run.step)]) for run in plan.runs}
    table = runs_table([(name, state) for name, (_, state) in runs.items()])
    write_tables(lambda _: [table], out, RUNS, overwrite=overwrite)
    for folder in () if plan.is_part else (STUDIES, FOLDER):  # of studies and tables that the plan no longer has
        remove_written(out / folder)
    studies = [_attempt(planned.name, partial(_study, planned, runs, out, overwrite)) for planned in plan.studies]
    named = [(planned.study.name, result) for planned, result in zip(plan.studies, studies, strict=True)]
    papers = [
        _attempt(f"{FOLDER}/{planned.name}", partial(_table, planned, runs, named, opened, out, overwrite))
        for planned in plan.tables
    ]
    if plan.claims:
        studies.append(_attempt(NAME, partial(decide_claims, plan.claims, runs, out, overwrite)))
    return PlanResult(plan, states, studies, table, papers)


def _attempt(name: str, make: Callable[[], StudyResult]) -> StudyResult:
    """Make a study or table. :returns: its result, or why it could not be made."""
    try:
        return make()
    except FathomError as error:
        return StudyResult(name, why=str(error).replace("\n", "; "))
    except Exception as error:  # a study must never end the plan
        return StudyResult(name, why=f"unexpected {type(error).__name__}: {error}")


def _study(
    planned: PlannedStudy, runs: Mapping[str, tuple[PlannedStep, StepState]], out: Path, overwrite: bool
) -> StudyResult:
    """Make a study and save its tables and plots. If a run failed, only a study that leaves out runs is made."""
    study, name = planned.study, planned.name
    members = [runs[run] for run in planned.runs]
    failed = [run.name for run, state in members if state.run is None]
    if failed and study.takes != "cells" and not (study.leaves_out and len(failed) < len(members)):
        return StudyResult(name, why=f"needs runs that failed or are missing: {', '.join(failed)}")
    folders = list({id(state.run): state.run for _, state in members if state.run is not None}.values())
    if study.takes == "cells":
        findings = study.analyse([study.state_of_cell(run, state) for run, state in members], **dict(planned.options))
    elif planned.models:
        place = out / RUNS / "of-studies" / name
        findings = study.analyse(planned.models, planned.data, planned.options, place, line)
    else:
        findings = study.analyse(folders, **dict(planned.options))
    study.save(findings, out / STUDIES / name, overwrite, folders)
    tables = [_by_names_of_plan(table, members) for table in study.tables(findings, folders)]
    return StudyResult(name, tables, study.conclude(findings), runs=planned.runs)


def _by_names_of_plan(table: Table, members: Sequence[tuple[PlannedStep, StepState]]) -> Table:
    """Call data as the plan does, which a paper's values know, instead of by their folder."""
    named = grouped(
        (str(state.run.manifest["identity"]["data"]["name"]), run.keys["data"])
        for run, state in members
        if state.run is not None and "data" in run.keys
    )
    names = {folder: of_folder[0] for folder, of_folder in named.items() if len(set(of_folder)) == 1}
    rows = [
        tuple(
            names.get(str(cell), cell) if name == "data" else cell
            for name, cell in zip(table.columns, row, strict=True)
        )
        for row in table.rows
    ]
    return replace(table, rows=tuple(rows))


def _table(
    planned: PlannedTable,
    runs: Mapping[str, tuple[PlannedStep, StepState]],
    studies: Sequence[tuple[str, StudyResult]],
    opened: Opened,
    out: Path,
    overwrite: bool,
) -> StudyResult:
    """Make a table of a paper and save it."""
    tables = make_table(planned, runs, studies, opened)
    write_tables(lambda _: tables, out / FOLDER, planned.name, overwrite=overwrite)
    return StudyResult(f"{FOLDER}/{planned.name}", tables)


def runs_table(runs: Sequence[tuple[str, StepState]]) -> Table:
    """Return a row for each run: accuracy by scoring, or why it failed. :param runs: names and states."""
    rows = [row for name, state in runs for row in _rows(name, state)]
    return Table.of(rows, "runs", columns=("run", "scoring", "accuracy", "facts", "unscored", "state"), inline=True)


def _rows(name: str, state: StepState) -> Iterator[dict[str, Any]]:
    about = {"run": name, "state": f"failed: {state.failed}" if state.failed else "not yet"}
    if state.run is None:
        yield about
        return
    try:
        for facts in read_scorings(state.run, name, state.step.options.cluster):
            accuracy: Estimate = facts.mean("accuracy", facts.hits(1))
            counts = {"facts": len(facts.facts), "unscored": len(facts.left_out)}
            yield about | {"scoring": facts.scoring, "accuracy": accuracy, "state": "finished"} | counts
    except BadInput as error:
        yield about | {"state": f"finished: {'; '.join(error.faults)}"}


def write_report(result: PlanResult, out: Path, overwrite: bool = False) -> list[str]:
    """Write the report of all finished runs and studies. :returns: what it lacks."""
    runs = [state.run for state in result.states if state.run is not None]
    tables = [(made.name, list(made.tables)) for made in (*result.studies, *result.papers) if not made.why]
    pictures = {name: sorted((out / STUDIES / name).glob("*.png")) for name, _ in tables}
    try:
        if not runs:
            return []
        shown: dict[str, Any] = {"title": result.plan.title, "studies": tables, "pictures": pictures}
        return list(report(runs, out / REPORT, overwrite=overwrite, **shown).notes)
    except (BadInput, MissingExtra) as error:
        return [f"no report: {error}"]
