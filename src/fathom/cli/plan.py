"""``fathom plan PLAN.yaml --out DIR``, and the commands that write such a plan."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar

import typer

from fathom.base.errors import BadInput, RunFailed, refuse
from fathom.base.options import ARGUMENT, CIRCUMSTANCE, DATA, REPEATED, Group, opt
from fathom.base.progress import is_quiet, shown, starting
from fathom.base.reading.objects import Declared
from fathom.base.registry import CommandEntry
from fathom.cli.commands import single
from fathom.cli.formats import Log, Overwrite, PrintOptions, notes, say, say_unfinished
from fathom.data.selection.options import Words
from fathom.plans.options import PlanRights, WorkerOptions

if TYPE_CHECKING:
    from fathom.plans.file import Plan

EXAMPLES = {
    "plan": "fathom plan plan.yaml --out results --dry-run",
    "validate": "fathom validate models/planted --data people --out validity",
    "watch": "fathom watch training --data geography --out watched",
}


def make(entry: CommandEntry) -> typer.Typer:
    return single(entry.does, globals()[entry.name], EXAMPLES[entry.name])


class PlanFolder(Declared):
    """Options of all commands that carry out a plan."""

    group: ClassVar = Group.RUN

    out: Path = opt(..., "Folder of the runs and tables. The same command resumes the plan.", Group.OUTPUT)
    retry_failed: bool = opt(False, "Retry failed runs.")
    overwrite: Overwrite = False
    dry_run: bool = opt(False, "Only check the plan, and print the state, estimated time and memory of each run.")
    redo: bool = opt(False, "Repeat the runs whose settings have changed since they were made.")


class PlanFiles(PlanFolder, PlanRights):
    """Options of ``fathom plan``."""

    plan: Path = opt(..., "YAML file: models, data, runs and studies; or a preset, such as bear or ablation.", ARGUMENT)
    models: Words = opt((), "Models of a preset, names or folders, separated by commas.", Group.MODEL)
    data: Words = opt((), "Data of a preset: NAME=FOLDER, separated by commas.", Group.DATA)
    only: Words = opt((), "Tables to make, such as table-3, with the runs that they need.", Group.SELECTION)
    limit: int | None = opt(None, "Facts of each run of a preset, drawn at random.", Group.SELECTION, ge=1)
    device: str | None = opt(None, "Device of a preset's models: cpu, cuda, cuda:1, …", CIRCUMSTANCE)
    log: Log = None


class WrittenPlanOptions(PlanFolder):
    device: str | None = opt(None, "cpu, cuda, cuda:1, …; by default a GPU where there is one.")

    def carry_out(self, file: Path, workers: WorkerOptions, printed: PrintOptions) -> None:
        """Carry out the plan that was written."""
        shared = {name: getattr(self, name) for name in PlanFolder.model_fields}
        plan(PlanFiles(plan=file, **shared), workers, printed)


class ValidateOptions(WrittenPlanOptions):
    group: ClassVar = Group.SELECTION

    models: tuple[str, ...] = opt(..., "Folders of planted models.", ARGUMENT, REPEATED)
    data: str = opt(..., "The data that the models were planted with.", Group.DATA)
    probes: Words = opt((), "Probes, or runs of the plan, separated by commas; by default all that apply.")
    limit: int = opt(1500, "Facts of each run, drawn at random; all if there are fewer.", ge=1)
    design: Path | None = opt(None, "Design of models that have no planted.jsonl in their folder.", Group.DATA)


class WatchOptions(WrittenPlanOptions):
    group: ClassVar = Group.SELECTION

    checkpoints: tuple[str, ...] = opt(
        ..., "Checkpoints, folders that contain checkpoints, or NAME@revision on the hub.", ARGUMENT, REPEATED
    )
    data: str = opt(..., DATA, Group.DATA)
    probe: str = opt("statement", "Probe by which each checkpoint is evaluated.")
    limit: int = opt(1000, "Facts of each checkpoint, drawn at random; all if there are fewer.", ge=1)
    tokenizer: str | None = opt(None, "Name or folder of the tokenizer, if the checkpoints have none.", Group.MODEL)


def validate(options: ValidateOptions, workers: WorkerOptions, printed: PrintOptions) -> None:
    with starting("loading libraries"):
        from fathom.plans.validate import write_plan

        settings = {name: getattr(options, name) for name in ("probes", "limit", "design", "device")}
        file = write_plan(options.models, options.data, options.out, **settings)
    options.carry_out(file, workers, printed)


def watch(options: WatchOptions, workers: WorkerOptions, printed: PrintOptions) -> None:
    with starting("loading libraries"):
        from fathom.plans.watch import write_plan

        settings = {name: getattr(options, name) for name in ("probe", "tokenizer", "limit", "device")}
        file, lines = write_plan(options.checkpoints, options.data, options.out, **settings)
    notes(lines)
    options.carry_out(file, workers, printed)


def plan(options: PlanFiles, workers: WorkerOptions, printed: PrintOptions) -> None:
    out = options.out
    with starting("checking the plan"):
        plan = _read_plan(options)
        plan = plan.only(options.only) if options.only else plan
    if options.dry_run:
        from fathom.plans.forecast import forecast_table

        with shown("estimating runs") as progress:
            table = forecast_table(plan, out, progress)
        printed.show([table])
        for line in (*plan.missing, *plan.skipped):
            say(line, err=printed.is_for_programs)
        return
    with starting("loading libraries"):
        from fathom.plans.execution import REPORT, carry_out, write_report

        if options.log:
            from fathom.studies.report.tracking import check_tracker, log_run

            check_tracker(options.log)
    with shown("runs") as progress:
        tell = (lambda line: None) if is_quiet() else partial(say, err=printed.is_for_programs)
        asked = {name: getattr(options, name) for name in ("retry_failed", "redo", "overwrite")}
        result = carry_out(plan, out, workers, tell=tell, progress=progress, **asked)
    if result.runs is None:
        state = f"{len(result.states) - result.missing:,} of {len(result.states):,} runs"
        say_unfinished(out, state, err=printed.is_for_programs)
        return
    if printed.is_for_programs:
        printed.show(result.tables, result.answer)
    elif plan.tables:
        say("\n".join(result.lines))
    else:
        printed.show([result.runs])
        for made in (*result.studies, *(table for table in result.papers if table.tables)):
            say(f"\n— {made.name} —\n")
            printed.show(made.tables, made.answer)
    with starting("writing the report"):
        notes(write_report(result, out, options.overwrite))
    if options.log:
        finished = {made.run.path: (made.run, str(made.step)) for made in result.states if made.run is not None}
        for run, name in finished.values():
            log_run(run, options.log, out, name)
    page = f", and the report {out / REPORT}" if (out / REPORT).exists() else ""
    say(f"written to {out}: runs, tables of studies{page}", err=printed.is_for_programs)
    for line in plan.skipped:
        say(line, err=printed.is_for_programs)
    if result.failures:
        retry = f"to retry them: fathom plan {plan.file} --out {out} --retry-failed"
        runs = sum(bool(state.failed) for state in result.states)
        what = (
            f"{runs} runs failed; {retry}"
            if runs
            else f"{len(result.failures)} studies, tables or data sets are missing"
        )
        raise RunFailed("\n".join([what, *(f"  {line}" for line in result.failures)]))


def _read_plan(options: PlanFiles) -> Plan:
    """Read the plan. A preset is filled in and written to its folder first, but for a dry run."""
    from fathom.plans.file import read_plan

    preset_options = {name: getattr(options, name) for name in ("models", "data", "limit", "device")}
    if not any(preset_options.values()) and options.plan.is_file():
        return read_plan(options.plan, options.out, options)
    from fathom.plans.presets import check_folder, find_preset, write_preset

    if not options.models:
        raise BadInput(f"{find_preset(options.plan)}: a preset needs --models")
    refuse(f"--data {place}: expected NAME=FOLDER" for place in options.data if "=" not in place)
    about = options.plan, options.models, dict(place.split("=", 1) for place in options.data)
    settings: dict[str, Any] = {name: getattr(options, name) for name in ("limit", "device", "overwrite")}
    if not options.dry_run:
        return read_plan(write_preset(*about, options.out, **settings), options.out, options)
    with TemporaryDirectory() as folder:
        plan = read_plan(write_preset(*about, Path(folder), **settings), options.out, options)
    if not options.overwrite:
        check_folder(options.out, plan.title)
    return plan
