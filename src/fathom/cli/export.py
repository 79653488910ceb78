"""``fathom export``: data sets and runs in the formats of other tools."""

from __future__ import annotations

import typer

from fathom.base.commands import CommandEntry
from fathom.base.options import ARGUMENT, Group, opt
from fathom.cli.commands import add_command, new_group
from fathom.cli.formats import notes, say
from fathom.cli.runs import OneRun
from fathom.data.options import NewFolder
from fathom.data.selection.options import SelectionOptions
from fathom.probes.options import Numbers

TASK = "export lm-eval geography --out tasks"
RUN = "export every-eval-ever runs/gpt2 --out exported"


def make(entry: CommandEntry) -> typer.Typer:
    app = new_group(entry.does, f"fathom {TASK}")
    add_command(app, lm_eval, name="lm-eval", example=f"fathom {TASK}")
    add_command(app, every_eval_ever, name="every-eval-ever", example=f"fathom {RUN}")
    return app


class TaskOptions(SelectionOptions):
    data: str = opt(..., "Data folder, or the name of an embedded data set (geography).", ARGUMENT)
    templates: Numbers = opt((), "Use only these templates, counted from 0, separated by commas.", Group.PROMPTS)
    task: str = opt("fathom", "Name of the task.", Group.OUTPUT, pattern=r"^[\w-]+$")
    out: NewFolder


class RunExportOptions(OneRun):
    organisation: str = opt("unknown", "Organisation that made the evaluation.", Group.OUTPUT)
    out: NewFolder


def lm_eval(options: TaskOptions) -> None:
    """Write a data set as a task of lm-evaluation-harness, whose scores are those of the statement probe."""
    from fathom.data.formats import read
    from fathom.data.formats.lm_eval import write_task
    from fathom.data.selection.filters import select

    data = select(read(options.data, options.columns), options).data
    documents, left_out = write_task(data, options.out, options.task, options.templates)
    notes([f"{left_out:,} queries that cannot be ranked are not in the task"][:left_out])
    say(f"written to {options.out}: {documents:,} documents")
    say(f"next: lm_eval run --tasks {options.task} --include_path {options.out} --model hf --model_args pretrained=…")


def every_eval_ever(options: RunExportOptions) -> None:
    """Write a run in the schema of Every Eval Ever: its numbers with intervals, and every scored prediction."""
    from fathom.probes.run.imported import export_every_eval_ever
    from fathom.store.folder import RunFolder

    say(f"written to {export_every_eval_ever(RunFolder.open(options.run), options.out, options.organisation)}")
