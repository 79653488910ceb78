"""``fathom study NAME``: one command for each entry of the table of studies."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from fathom.cli.formats import Format
from fathom.cli.options import add_command, merge, new_group, with_flags
from fathom.cli.tables import tell
from fathom.options import Group
from fathom.studies import STUDIES, Study

_MODEL = typer.Option(..., help="Name or folder of a transformers model.", rich_help_panel=Group.MODEL)
_MODELS = typer.Option(
    ...,
    "--models",
    "--model",
    help="Names or folders of models, separated by commas.",
    rich_help_panel=Group.MODEL,
)
_DATA = typer.Option(..., help="Data folder, or the name of an embedded data set.", rich_help_panel=Group.DATA)
_RUNS = typer.Argument(help="Folders of finished runs.")
_OUT_OF_PLAN = typer.Option(
    ...,
    help="Folder for the runs and the tables. The same command goes on where it stopped.",
    rich_help_panel=Group.RUN,
)
_CONFIG = typer.Option(None, help="YAML file with any of these options; flags win.", rich_help_panel=Group.RUN)
_OUT = typer.Option(None, help="Folder for tables and pictures.", rich_help_panel=Group.OUTPUT)
_FORMAT = typer.Option(Format.TEXT, help="How to print.", rich_help_panel=Group.OUTPUT)


def make() -> typer.Typer:
    """The group of commands, with what was added to the table so far."""
    app = new_group("Run planned comparisons, or analyse finished runs.", "fathom study agreement runs/bear runs/deer")
    for study in sorted(STUDIES.entries(), key=lambda study: _questions().index(study.question)):
        command = _command(study)
        command.__doc__ = study.does
        add_command(app, study.name, command, f"fathom study {study.example}", panel=study.question)
    return app


def _questions() -> list[str]:
    """In the order of the table."""
    return list(dict.fromkeys(study.question for study in STUDIES.entries()))


def _command(study: Study) -> Callable[..., None]:
    makers = {"runs": _of_runs, "model": _of_a_model, "models": _of_models}
    return with_flags(makers[study.takes](study), study.options, study.without)


def _of_runs(study: Study) -> Callable[..., None]:
    def command(
        runs: list[Path] = _RUNS,
        out: Path | None = _OUT,
        format: Format = _FORMAT,  # noqa: A002 - the name of the flag
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
        model: str = _MODEL,
        data: str = _DATA,
        out: Path = _OUT_OF_PLAN,
        config: Path | None = _CONFIG,
        format: Format = _FORMAT,  # noqa: A002
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
        models: str = _MODELS,
        data: str = _DATA,
        out: Path = _OUT_OF_PLAN,
        config: Path | None = _CONFIG,
        format: Format = _FORMAT,  # noqa: A002
        **given: Any,
    ) -> None:
        from fathom.models.loading import load
        from fathom.options import parse_options, separated

        options: Any = parse_options(study.options, merge(config, given))
        loaders = [(name, partial(load, name, **options.loading())) for name in separated(models)]
        _tell(study, study.ask(loaders, data, options, out, announced), format, out)

    return command


def _tell(study: Study, found: Any, format: Format, out: Path | None) -> None:  # noqa: A002
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
