"""``fathom study NAME``: one command for each entry of the registry of studies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fathom.base.errors import all_of, refuse
from fathom.base.options import ARGUMENT, DATA, REPEATED, Given, Group, also, opt, parse_options
from fathom.base.progress import line, shown, starting
from fathom.base.registry import CommandEntry
from fathom.cli.commands import add_command, file_options, flags_of, new_group
from fathom.cli.formats import Overwrite, PrintOptions, TableOptions, say
from fathom.data.selection.options import Words
from fathom.studies import STUDIES, Study

if TYPE_CHECKING:
    from fathom.store.folder import RunFolder

WHOLE = ("part",)
"""Options of runs that would leave a study's unfinished."""


def make(entry: CommandEntry) -> typer.Typer:
    """Make ``fathom study``, with a command for each entry of the registry of studies."""
    app = new_group(entry.does, "fathom study agreement runs/bear runs/deer")
    studies = [study for study in STUDIES.entries() if study.example]
    questions = list(dict.fromkeys(study.question for study in studies))
    for study in sorted(studies, key=lambda study: questions.index(study.question)):
        add_command(
            app,
            _command(study),
            name=study.name,
            example=f"fathom study {study.example}",
            does=study.does,
            panel=study.question,
            flags=flags_of(study.options, without := (*study.without, *WHOLE)),
            in_files=file_options(study.options, without),
        )
    return app


class StudyOfRuns(TableOptions):
    """Finished runs, and where the results go."""

    runs: tuple[Path, ...] = opt(..., "Folders of finished runs.", ARGUMENT, REPEATED)
    out: Path | None = opt(None, "Folder for the tables as JSON, CSV and Markdown, and for plots.")


class StudyOfModels(PrintOptions):
    """Models and data of a study that makes its runs, and where they go."""

    models: Words = opt(
        ..., "Names or folders of models, separated by commas.", Group.MODEL, also("--model"), min_length=1
    )
    data: str = opt(..., DATA, Group.DATA)
    out: Path = opt(..., "Folder for the runs and the tables. The same command resumes the study.")
    overwrite: Overwrite = False
    dry_run: bool = opt(False, "Only print the estimated time and memory of each run; no weights are read.", Group.RUN)


def _command(study: Study) -> Callable[..., None]:
    def of_runs(typed: StudyOfRuns, free: Given) -> None:
        from fathom.store.folder import RunFolder, run_path

        opener: Callable[[Path], RunFolder] = RunFolder if study.leaves_out else RunFolder.open
        opened = (partial(opener, run_path(path)) for path in typed.runs)
        options, *folders = all_of(partial(_options, study, free), *opened)
        _show(study, study.analyse(folders, **dict(options)), typed, folders)

    def of_models(typed: StudyOfModels, free: Given) -> None:
        from fathom.probes.models import open_model

        options = _options(study, free)
        with starting(f"{study.name} study: loading libraries"):
            from fathom.plans.forecast import forecast_study

            import_module(study.module)
        if typed.dry_run:
            with shown("estimating runs") as progress:
                typed.show([forecast_study(study, typed.models, typed.data, options, typed.out, progress)])
            return
        loaders = [(name, partial(open_model, name, options=options)) for name in typed.models]
        _show(study, study.analyse(loaders, typed.data, options, typed.out, line), typed)

    return of_models if study.takes == "models" else of_runs


def _options(study: Study, free: Given) -> Any:
    refuse(f"--{name}: a study needs whole runs: remove it" for name in WHOLE if name in free)
    return parse_options(study.options, free)


def _show(study: Study, findings: object, typed: StudyOfRuns | StudyOfModels, runs: Sequence[RunFolder] = ()) -> None:
    """Print the tables; with a folder, save them, further tables and the plots there."""
    drawn = typed.out is None or study.save(findings, typed.out, typed.overwrite, runs)
    typed.show(study.tables(findings, runs), study.conclude(findings))
    if not drawn:
        say("no picture: pip install '.[report]' draws one", err=True)
