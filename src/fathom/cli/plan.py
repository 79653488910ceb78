"""``fathom plan PLAN.yaml --out DIR``"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import ClassVar

import typer
from pydantic import BaseModel, ConfigDict

from fathom.cli.commands import single
from fathom.cli.formats import Overwrite, PrintOptions, notes, say, say_unfinished
from fathom.errors import RunFailed
from fathom.options import ARGUMENT, Group, opt
from fathom.plans.options import WorkerOptions
from fathom.progress import is_quiet, shown, starting


def make(does: str) -> typer.Typer:
    """Make ``fathom plan``."""
    return single(does, plan, "fathom plan plan.yaml --out results --dry-run")


class PlanFiles(BaseModel):
    """Options of ``fathom plan``."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    group: ClassVar = Group.RUN

    plan: Path = opt(..., "YAML file: models, data, runs and studies.", ARGUMENT)
    out: Path = opt(..., "Folder of the runs and tables. The same command resumes.", Group.OUTPUT)
    retry_failed: bool = opt(False, "Retry what failed.")
    overwrite: Overwrite = False
    report_only: bool = opt(False, "Run nothing; make the tables and studies of finished runs.")
    dry_run: bool = opt(False, "Only check the plan, and print state, estimated time and memory of each run.")
    redo: bool = opt(False, "Repeat the runs whose settings the plan has changed since they were made.")


def plan(chosen: PlanFiles, workers: WorkerOptions, printed: PrintOptions) -> None:
    """Make many runs, their studies, tables and one report; nothing that is finished is repeated.

    The file names models, data sets, runs and studies; see docs/howto/plans.md.
    """
    from fathom.plans.file import read_plan

    out = chosen.out
    with starting("checking the plan"):
        plan = read_plan(chosen.plan, out)
    if chosen.dry_run:
        from fathom.plans.forecast import forecast_table

        with shown("estimating runs") as progress:
            table = forecast_table(plan, out, progress)
        printed.show([table])
        return
    with starting("loading libraries"):
        from fathom.plans.execution import REPORT, carry_out, write_report

    with shown("runs") as progress:
        tell = (lambda line: None) if is_quiet() else partial(say, err=printed.is_for_programs)
        result = carry_out(
            plan, out, workers, chosen.retry_failed, chosen.redo, tell, progress, chosen.overwrite, chosen.report_only
        )
    if result.runs is None:
        state = f"{len(result.states) - result.missing:,} of {len(result.states):,} runs"
        say_unfinished(out, state, err=printed.is_for_programs)
        return
    if printed.is_for_programs:
        printed.show(result.tables, result.answer)
    else:
        printed.show([result.runs])
        for made in result.studies:
            say(f"\n— {made.name} —\n")
            printed.show(made.tables, made.answer)
    with starting("writing the report"):
        notes(write_report(result, out, chosen.overwrite))
    page = f", and the report {out / REPORT}" if (out / REPORT).exists() else ""
    say(f"written to {out}: runs, tables of studies{page}", err=printed.is_for_programs)
    if result.failures and not chosen.report_only:
        retry = f"to retry them: fathom plan {chosen.plan} --out {out} --retry-failed"
        runs = sum(bool(state.failed) for state in result.states)
        what = f"{runs} runs failed; {retry}" if runs else f"{len(result.failures)} studies could not be made"
        raise RunFailed("\n".join([what, *(f"  {line}" for line in result.failures)]))
