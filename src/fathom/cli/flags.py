"""Flags that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fathom.cli.config import said_in
from fathom.cli.formats import TableFormat
from fathom.cli.options import option
from fathom.options import LARGEST_SEED, Group

if TYPE_CHECKING:
    from fathom.data.statistics import CountTokens

Model = Annotated[str, option(Group.MODEL, "Name or folder of a transformers model.")]
Data = Annotated[str, option(Group.DATA, "Data folder, or the name of an embedded data set (geography).")]
Graph = Annotated[str, option(Group.DATA, "A knowledge graph: its folder, or a file of triples.", "--data")]
GraphArgument = Annotated[str, typer.Argument(help="A knowledge graph: its folder, or a file of triples.")]
Seed = Annotated[int, option(Group.RUN, "Seed of every random choice.", min=0, max=LARGEST_SEED)]
Device = Annotated[str | None, option(Group.RUN, "cpu, cuda, cuda:1, …; by default a GPU where there is one.")]
Config = Annotated[
    Path | None,
    option(Group.RUN, "YAML file with any of these options; flags win.", callback=said_in, is_eager=True),
]
NewFolder = Annotated[Path, option(Group.OUTPUT, "Folder to write; must not exist yet.", "--out")]
RunFolder = Annotated[
    Path, option(Group.OUTPUT, "Folder of the run. The same command resumes it where it stopped.", "--out")
]
TablesFolder = Annotated[
    Path | None, option(Group.OUTPUT, "Folder in which the tables are kept as JSON, CSV and Markdown.", "--out")
]
Printed = Annotated[TableFormat, option(Group.OUTPUT, "Format of the tables.", "--format")]


def token_counter_of(tokenizer: str | None) -> CountTokens | None:
    """What counts the tokens of texts, if ``--tokenizer`` names a model."""
    if tokenizer is None:
        return None
    from fathom.models.loading import load_tokenizer
    from fathom.scoring.tokens import token_counter

    return token_counter(load_tokenizer(tokenizer))
