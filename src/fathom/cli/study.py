"""``fathom study NAME``: one command for each entry of the table of studies."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from fathom.cli.config import merge
from fathom.cli.flags import Config, Data, Model, Printed
from fathom.cli.formats import TableFormat, say, tell
from fathom.cli.options import add_command, new_group, option, with_flags
from fathom.errors import all_of, refuse
from fathom.options import Group, parse_options, separated
from fathom.progress import line, starting
from fathom.studies import STUDIES, Study

WHOLE = ("part",)
"""Options of runs that would leave a study's unfinished."""
Models = Annotated[str, option(Group.MODEL, "Names or folders of models, separated by commas.", "--models", "--model")]
Runs = Annotated[list[Path], typer.Argument(help="Folders of finished runs.")]
PlanFolder = Annotated[
    Path,
    option(Group.OUTPUT, "Folder for the runs and the tables. The same command resumes it where it stopped.", "--out"),
]
PicturesFolder = Annotated[Path | None, option(Group.OUTPUT, "Folder for tables and pictures.", "--out")]


def make(does: str) -> typer.Typer:
    """``fathom study``, with what was added to the table so far."""
    app = new_group(does, "fathom study agreement runs/bear runs/deer")
    questions = list(dict.fromkeys(study.question for study in STUDIES.entries()))
    for study in sorted(STUDIES.entries(), key=lambda study: questions.index(study.question)):
        command, example = _command(study), f"fathom study {study.example}"
        add_command(app, study.name, command, example, does=study.does, panel=study.question)
    return app


def _command(study: Study) -> Callable[..., None]:
    """With the parameters of what the study takes, and its own options."""

    def of_runs(runs: Runs, out: PicturesFolder = None, format: Printed = TableFormat.TEXT, **given: Any) -> None:
        from fathom.store.folder import RunFolder

        opened = (partial(RunFolder.open, path) for path in runs)
        options, *folders = all_of(partial(_options, study, None, given), *opened)
        _show(study, study.analyse(folders, **dict(options)), format, out)

    def of_a_model(
        model: Model,
        data: Data,
        out: PlanFolder,
        config: Config = None,
        format: Printed = TableFormat.TEXT,
        **given: Any,
    ) -> None:
        from fathom.formats import read
        from fathom.probes.models import open_model

        options = _options(study, config, given)
        with starting(f"{study.name} study: opening data and model"):
            opened = open_model(model, options), read(data)
        _show(study, study.analyse(*opened, options, out, announced), format, out)

    def of_models(
        models: Models,
        data: Data,
        out: PlanFolder,
        config: Config = None,
        format: Printed = TableFormat.TEXT,
        **given: Any,
    ) -> None:
        from fathom.probes.models import open_model

        options = _options(study, config, given)
        with starting(f"{study.name} study: loading libraries"):
            import_module(study.module)
        loaders = [(name, partial(open_model, name, options=options)) for name in separated(models)]
        _show(study, study.analyse(loaders, data, options, out, announced), format, out)

    takes: dict[str, Callable[..., None]] = {"runs": of_runs, "model": of_a_model, "models": of_models}
    return with_flags(takes[study.takes], study.options, (*study.without, *WHOLE))


def _options(study: Study, config: Path | None, given: dict[str, Any]) -> Any:
    said = merge(config, given)
    refuse(f"--{name}: a study needs its runs whole: leave it out" for name in WHOLE if said.get(name) is not None)
    return parse_options(study.options, said)


def _show(study: Study, findings: Any, format: TableFormat, out: Path | None) -> None:
    """Print the tables; with a folder, save them, further tables and the plots there."""
    from fathom.results.plots import save
    from fathom.results.tables import render
    from fathom.store.files import write_text

    tell(study.tables(findings), format, out, study.name, study.conclude(findings))
    if out is None:
        return
    for name, table in study.files(findings).items():
        write_text(out / f"{name}.csv", render([table], "csv") + "\n")
    if any(save(plot, out) is None for plot in study.plots(findings)):
        say("no picture: pip install 'fathom-lm[report]' draws one", err=True)


def announced(name: str) -> Callable[[int, int], None]:
    """Progress of one run of a study: a line that is written over on a terminal, log lines elsewhere."""
    return line(name)
