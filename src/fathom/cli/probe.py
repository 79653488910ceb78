"""``fathom probe PROBE --model M --data D --out RUN``"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from fathom.base.options import DATA, Given, Group, opt
from fathom.base.progress import starting
from fathom.base.reading.objects import Declared
from fathom.base.registry import CommandEntry
from fathom.cli.commands import add_command, file_options, flags_of, new_group
from fathom.cli.formats import Log, breakdown_command, say, say_unfinished
from fathom.probes import PROBES, Entry

RunFolder = Annotated[Path, opt(..., "Folder of the run. The same command resumes it.", Group.OUTPUT)]


class ProbeFiles(Declared):
    """Model, data and run of ``fathom probe``."""

    model: str = opt(..., "Name, folder or GGUF file of a transformers model, or its name at --server.", Group.MODEL)
    data: str = opt(..., DATA, Group.DATA)
    out: RunFolder
    dry_run: bool = opt(
        False,
        "Only print how many queries, texts and tokens there are, and the estimated time and memory; no weights are "
        "read, no server is called.",
        Group.RUN,
    )
    log: Log = None


def make(entry: CommandEntry) -> typer.Typer:
    """Make ``fathom probe``, with a command for each entry of the registry of probes."""
    app = new_group(entry.does, next(iter(PROBES.values())).example)
    for probe in PROBES.entries():
        if probe.needs == "language model":  # link predictors: fathom kgc evaluate
            add_command(
                app,
                _command(probe),
                ProbeFiles,
                name=probe.name,
                example=probe.example,
                does=probe.does,
                flags=flags_of(probe.options),
                in_files=file_options(probe.options),
            )
    return app


def _command(entry: Entry) -> Callable[..., None]:
    def command(files: ProbeFiles, options: Given) -> None:
        with starting(f"{entry.name} probe: loading libraries"):
            from fathom.api import forecast, probe

            if files.log:
                from fathom.studies.report.tracking import check_tracker, log_run

                check_tracker(files.log)
        if files.dry_run:
            say("\n".join(forecast(entry.name, files.model, files.data, **options).lines()))
            return
        result = probe(entry.name, files.model, files.data, files.out, **options)
        if not result.is_complete():
            say_unfinished(files.out, result.folder.describe())
            return
        say(result.summary().to_text())
        if files.log:
            log_run(result.folder, files.log, files.out.parent)
        say(f"\nwritten to {files.out}; more: {breakdown_command(files.out, result.keys)}")

    return command
