"""Carrying out a plan: its runs, then its studies, tables and one report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from fathom.errors import BadInput, FathomError, MissingExtra
from fathom.plans.file import Plan, PlannedStudy
from fathom.plans.options import WorkerOptions
from fathom.plans.record import RUNS, changed_steps, describe_changes, noted_steps, start
from fathom.plans.runner import run_steps
from fathom.plans.steps import StepState
from fathom.progress import Progress, unseen
from fathom.report.page import report
from fathom.results.estimates import Estimate
from fathom.results.loading import read_scorings
from fathom.results.tables import Table, Tabular, write_tables
from fathom.store.folder import RunFolder

REPORT, STUDIES = "report.html", "studies"


class StudyResult(NamedTuple):
    """The result of a study.

    :param findings: None if it could not be made.
    :param why: why not.
    """

    planned: PlannedStudy
    findings: Any
    why: str = ""


@dataclass(frozen=True, repr=False)
class PlanResult(Tabular):
    """The result of a plan.

    :param states: of its distinct steps.
    :param runs: a row for each; None while some are to be made.
    """

    plan: Plan
    states: list[StepState]
    studies: Sequence[StudyResult] = ()
    runs: Table | None = None

    @property
    def failures(self) -> list[str]:
        """A line for each run that failed and each study that could not be made."""
        runs = [f"{state.step}: {state.failed}" for state in self.states if state.failed]
        return runs + [f"{STUDIES}/{study.planned.name}: {study.why}" for study in self.studies if study.why]

    @property
    def missing(self) -> int:
        """Number of runs that neither finished nor failed."""
        return sum(state.run is None and not state.failed for state in self.states)

    @property
    def answer(self) -> list[str]:
        """The conclusions of all studies, each after the study's name."""
        made = [study for study in self.studies if not study.why]
        return [
            f"{study.planned.name}: {sentence}"
            for study in made
            for sentence in study.planned.study.conclude(study.findings)
        ]

    @property
    def tables(self) -> list[Table]:
        """The runs, then the tables of all studies."""
        tables = [] if self.runs is None else [self.runs]
        for study in self.studies:
            if not study.why:
                name, own = study.planned.name, study.planned.study.tables(study.findings)
                tables += [replace(table, title=f"{name}: {table.title}") for table in own]
        return tables


def carry_out(
    plan: Plan,
    out: Path,
    options: WorkerOptions | None = None,
    retry_failed: bool = False,
    redo: bool = False,
    tell: Callable[[str], None] = lambda line: None,
    progress: Progress = unseen,
) -> PlanResult:
    """Make what is missing of a plan, then its studies and tables.

    :param retry_failed: repeat runs that failed.
    :param redo: repeat runs whose options, model or data the plan has changed since.
    :param tell: called with a line at the end of each run.
    :param progress: called with the number of runs that have ended, and of all.
    :raises BadInput: a model or data set cannot be found; *out* contains something else, or runs that the plan has
        changed; and what :func:`fathom.plans.runner.run_steps` refuses.
    """
    options = options or WorkerOptions()
    if redo and options.part is not None:
        raise BadInput(f"--redo and --part {options.part}: expected one of them")
    changed = changed_steps(plan.steps, noted_steps(out))
    if changed and not redo:
        raise BadInput(describe_changes(plan, out, changed))
    prepare = partial(start, plan, out)
    states = run_steps(plan.steps, out, options, prepare, retry_failed, tell, progress, changed.keys())
    if PlanResult(plan, states).missing:
        return PlanResult(plan, states)
    finished = {id(state.step): state.run for state in states}
    runs = {run.name: finished[id(run.step)] for run in plan.runs}
    studies = [_study(planned, runs, out) for planned in plan.studies]
    table = runs_table(states)
    write_tables(lambda _: [table], out, RUNS)
    return PlanResult(plan, states, studies, table)


def _study(planned: PlannedStudy, runs: dict[str, RunFolder | None], out: Path) -> StudyResult:
    """Make a study and save its tables and plots; without a run that failed it is not made."""
    failed = [name for name in planned.runs if runs[name] is None]
    if failed:
        return StudyResult(planned, None, f"needs runs that failed: {', '.join(failed)}")
    folders = list({id(run): run for run in map(runs.__getitem__, planned.runs)}.values())
    try:
        findings = planned.study.analyse(folders, **dict(planned.options))
        planned.study.save(findings, out / STUDIES / planned.name)
    except FathomError as error:
        return StudyResult(planned, None, str(error).replace("\n", "; "))
    return StudyResult(planned, findings)


def runs_table(states: Sequence[StepState]) -> Table:
    """Return a row for each run: accuracy by scoring, or why it failed."""
    rows = [row for state in states for row in _rows(state)]
    return Table.of(rows, "runs", columns=("run", "scoring", "accuracy", "facts", "unscored", "state"), inline=True)


def _rows(state: StepState) -> Iterator[dict[str, Any]]:
    about = {"run": str(state.step), "state": f"failed: {state.failed}"}
    if state.run is None:
        yield about | ({} if state.failed else {"state": "to be made"})
        return
    try:
        for facts in read_scorings(state.run, about["run"], state.step.options.cluster):
            accuracy: Estimate = facts.mean("accuracy", facts.hits(1))
            counts = {"facts": len(facts.facts), "unscored": len(facts.left_out)}
            yield about | {"scoring": facts.scoring, "accuracy": accuracy, "state": "finished"} | counts
    except BadInput as error:
        yield about | {"state": f"finished: {'; '.join(error.faults)}"}


def write_report(result: PlanResult, out: Path) -> list[str]:
    """Write the report of all finished runs and studies. :returns: what it lacks."""
    runs = [state.run for state in result.states if state.run is not None]
    made = [study for study in result.studies if not study.why]
    tables = [(study.planned.name, study.planned.study.tables(study.findings)) for study in made]
    try:
        return list(report(runs, out / REPORT, title=result.plan.title, studies=tables).notes) if runs else []
    except (BadInput, MissingExtra) as error:
        return [f"no report: {error}"]
