"""``fathom plant --kind causal --data D --out MODEL``"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from fathom.cli.options import merge, with_flags
from fathom.cli.progress import progress_bar
from fathom.training.options import PlantOptions


def _plant(
    data: str = typer.Option("geography", help="Data folder, or the name of an embedded data set."),
    out: Path = typer.Option(..., help="Folder of the model; must not exist yet."),
    config: Path | None = typer.Option(None, help="YAML file with any of these options; flags win."),
    **given: Any,
) -> None:
    """Train a small model from scratch on half of the facts and record which: a model whose knowledge is known."""
    from fathom.formats import read
    from fathom.options import parse_options
    from fathom.training.planting import plant

    options = parse_options(PlantOptions, merge(config, given))
    with progress_bar(f"planting a {options.kind} model") as progress:
        plant(read(data), options, out, lambda _, share: progress(round(100 * share), 100))
    typer.echo(
        f"planted in {out}; ask it: fathom probe statement --model {out} --data {data} --out runs/planted\n"
        f"then: fathom metrics runs/planted --groups {out / 'planted.jsonl'} --by planted,template"
    )


plant = with_flags(_plant, PlantOptions)
