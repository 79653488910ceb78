"""``fathom plant --kind causal --data D --out MODEL``"""

from __future__ import annotations

from typing import Any

import typer

from fathom.cli.config import merge
from fathom.cli.flags import Config, Data, NewFolder
from fathom.cli.formats import say
from fathom.cli.options import alone, with_flags
from fathom.progress import starting
from fathom.training.options import PlantOptions


def make(does: str) -> typer.Typer:
    """``fathom plant``"""
    return alone(does, "fathom plant --kind causal --data geography --out planted", with_flags(plant, PlantOptions))


def plant(out: NewFolder, data: Data = "geography", config: Config = None, **given: Any) -> None:
    """Train a small model on some of the facts and record which."""
    from fathom.formats import read
    from fathom.options import parse_options

    with starting("loading libraries"):
        from fathom.training.planting import plant as planted

    options = parse_options(PlantOptions, merge(config, given))
    planted(read(data), options, out)
    free = options.reading == "template-free"
    probe = "cloze --reading template-free" if free else "statement"
    say(
        f"planted in {out}; ask it: fathom probe {probe} --model {out} --data {data} --out runs/planted\n"
        f"then: fathom metrics runs/planted --groups {out / 'planted.jsonl'} --by planted{'' if free else ',template'}"
    )
