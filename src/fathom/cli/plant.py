"""``fathom plant``: small models that know chosen facts."""

from __future__ import annotations

from typing import ClassVar

import typer

from fathom.base.options import DATA, Group, opt
from fathom.base.progress import starting
from fathom.base.reading.objects import Declared
from fathom.base.registry import CommandEntry
from fathom.cli.commands import single
from fathom.cli.formats import say
from fathom.data.options import NewFolder
from fathom.data.selection.options import Columns
from fathom.training.options import PlantOptions


def make(entry: CommandEntry) -> typer.Typer:
    return single(entry.does, plant, "fathom plant --kind causal --data geography --out planted")


class PlantFiles(Declared):
    """Input and output of ``fathom plant``."""

    group: ClassVar = Group.DATA

    data: str = opt("geography", DATA)
    columns: Columns = None
    out: NewFolder


def plant(files: PlantFiles, options: PlantOptions) -> None:
    from fathom.data.formats import read

    with starting("loading libraries"):
        from fathom.training.planting import plant as plant_facts

    out = files.out
    plant_facts(read(files.data, files.columns), options, out)
    free = options.reading == "template-free"
    probe = "cloze --reading template-free" if free else "statement"
    say(
        f"planted in {out}; query it: fathom probe {probe} --model {out} --data {files.data} --out runs/planted\n"
        f"then: fathom metrics runs/planted --groups {out / 'planted.jsonl'} --by planted{'' if free else ',template'}"
    )
