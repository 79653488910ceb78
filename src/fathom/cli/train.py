"""Commands that train small models: ``fathom demo`` and ``fathom plant``."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import typer
from pydantic import BaseModel, ConfigDict

from fathom.building.options import NewFolder
from fathom.cli.commands import single
from fathom.cli.formats import say
from fathom.data.selection.options import Columns
from fathom.options import Group, opt
from fathom.progress import starting
from fathom.training.options import PlantOptions

EXAMPLES = {"demo": "fathom demo --out demo", "plant": "fathom plant --kind causal --data geography --out planted"}


def make(name: str, does: str) -> typer.Typer:
    return single(does, globals()[name], EXAMPLES[name])


class DemoOptions(BaseModel):
    out: Path = opt(Path("demo"), "Folder for the two models and their runs.", Group.OUTPUT)


class PlantFiles(BaseModel):
    """Input and output of ``fathom plant``."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    group: ClassVar = Group.DATA

    data: str = opt("geography", "Data folder, or the name of an embedded data set (geography).")
    columns: Columns = None
    out: NewFolder


def demo(options: DemoOptions) -> None:
    from fathom.errors import MissingExtra
    from fathom.formats import read
    from fathom.plans.demo import LIMITS, run_demo
    from fathom.report.page import report
    from fathom.studies.demo import text

    out = options.out
    say(text(run_demo(read("geography"), out, lambda line: say(line, err=True)), out))
    try:
        page = report(
            [out / f"run-{kind}" for kind in LIMITS],
            out / "report.html",
            title="Two small models that learnt half of a geography book",
            groups=out / "planted-causal" / "planted.jsonl",  # one seed: both models learnt the same half
        )
        say(f"\nEvery prompt and answer, with charts that filter each other: open {page.path} in a browser")
    except MissingExtra as error:
        say(f"\nno report: {error}")


def plant(files: PlantFiles, options: PlantOptions) -> None:
    from fathom.formats import read

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
