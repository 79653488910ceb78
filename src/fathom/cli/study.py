"""``fathom study NAME``: one command for each entry of the table of studies."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from fathom.cli.flags import Config, Data, Model, Printed
from fathom.cli.formats import Format
from fathom.cli.options import add_command, merge, new_group, with_flags
from fathom.cli.tables import tell
from fathom.options import Group
from fathom.studies import STUDIES, Study

Models = Annotated[
    str,
    typer.Option(
        "--models", "--model", help="Names or folders of models, separated by commas.", rich_help_panel=Group.MODEL
    ),
]
Runs = Annotated[list[Path], typer.Argument(help="Folders of finished runs.")]
PlanFolder = Annotated[
    Path,
    typer.Option(
        "--out",
        help="Folder for the runs and the tables. The same command resumes it where it stopped.",
        rich_help_panel=Group.OUTPUT,
    ),
]
TablesFolder = Annotated[
    Path | None, typer.Option("--out", help="Folder for tables and pictures.", rich_help_panel=Group.OUTPUT)
]


def make(does: str) -> typer.Typer:
    """``fathom study``, with what was added to the table so far."""
    app = new_group(does, "fathom study agreement runs/bear runs/deer")
    for study in sorted(STUDIES.entries(), key=lambda study: _questions().index(study.question)):
        command = _command(study)
        add_command(app, study.name, command, f"fathom study {study.example}", does=study.does, panel=study.question)
    return app


def _questions() -> list[str]:
    """In the order of the table."""
    return list(dict.fromkeys(study.question for study in STUDIES.entries()))


def _command(study: Study) -> Callable[..., None]:
    makers = {"runs": _of_runs, "model": _of_a_model, "models": _of_models}
    return with_flags(makers[study.takes](study), study.options, study.without)


def _of_runs(study: Study) -> Callable[..., None]:
    def command(
        runs: Runs,
        out: TablesFolder = None,
        format: Printed = Format.TEXT,
        **given: Any,
    ) -> None:
        from fathom.errors import all_of
        from fathom.options import parse_options
        from fathom.store.folder import RunFolder

        options, *opened = all_of(
            lambda: parse_options(study.options, merge(None, given)), *(partial(RunFolder.open, path) for path in runs)
        )
        _tell(study, study.ask(opened, **dict(options)), format, out)

    return command


def _of_a_model(study: Study) -> Callable[..., None]:
    def command(
        model: Model,
        data: Data,
        out: PlanFolder,
        config: Config = None,
        format: Printed = Format.TEXT,
        **given: Any,
    ) -> None:
        from fathom.formats import read
        from fathom.models.loading import load
        from fathom.options import parse_options

        options: Any = parse_options(study.options, merge(config, given))
        asked = load(model, **options.loading()), read(data), options, out, announced
        _tell(study, study.ask(*asked), format, out)

    return command


def _of_models(study: Study) -> Callable[..., None]:
    def command(
        models: Models,
        data: Data,
        out: PlanFolder,
        config: Config = None,
        format: Printed = Format.TEXT,
        **given: Any,
    ) -> None:
        from fathom.models.loading import load
        from fathom.options import parse_options, separated

        options: Any = parse_options(study.options, merge(config, given))
        loaders = [(name, partial(load, name, **options.loading())) for name in separated(models)]
        _tell(study, study.ask(loaders, data, options, out, announced), format, out)

    return command


def _tell(study: Study, found: Any, format: Format, out: Path | None) -> None:
    """Print the tables; keep them, further ones and the pictures where a folder is named."""
    from fathom.results.plots import save
    from fathom.results.tables import render
    from fathom.store.files import write_text

    tell(study.tables(found), format, out, study.name)
    if out is None:
        return
    for name, table in study.files(found).items():
        write_text(out / f"{name}.csv", render([table], "csv") + "\n")
    plots = study.plots(found)
    if any(save(plot, out) is None for plot in plots):
        typer.echo("no picture: pip install 'fathom-lm[report]' draws one", err=True)


def announced(name: str) -> Callable[[int, int], None]:
    """Progress of one run of a study, on a terminal alone."""
    console = Console(stderr=True)

    def tell(done: int, total: int) -> None:
        if console.is_terminal:
            console.print(f"{name}: {done}/{total} shards", end="\r")

    return tell
