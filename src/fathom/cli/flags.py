"""Flags that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fathom.cli.formats import Format
from fathom.options import Group

Model = Annotated[str, typer.Option(help="Name or folder of a transformers model.", rich_help_panel=Group.MODEL)]
Data = Annotated[
    str,
    typer.Option(help="Data folder, or the name of an embedded data set (geography).", rich_help_panel=Group.DATA),
]
Graph = Annotated[
    str, typer.Option("--data", help="A knowledge graph: its folder, or a file of triples.", rich_help_panel=Group.DATA)
]
GraphArgument = Annotated[str, typer.Argument(help="A knowledge graph: its folder, or a file of triples.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of every random choice.", rich_help_panel=Group.RUN)]
Device = Annotated[
    str | None,
    typer.Option(help="cpu, cuda, cuda:1, …; by default a GPU where there is one.", rich_help_panel=Group.RUN),
]
Config = Annotated[
    Path | None, typer.Option(help="YAML file with any of these options; flags win.", rich_help_panel=Group.RUN)
]
NewFolder = Annotated[
    Path, typer.Option("--out", help="Folder to write; must not exist yet.", rich_help_panel=Group.OUTPUT)
]
RunFolder = Annotated[
    Path,
    typer.Option(
        "--out", help="Folder of the run. The same command resumes it where it stopped.", rich_help_panel=Group.OUTPUT
    ),
]
Printed = Annotated[Format, typer.Option("--format", help="Format of the tables.", rich_help_panel=Group.OUTPUT)]
