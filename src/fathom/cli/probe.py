"""``fathom probe PROBE --model M --data D --out RUN``"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import typer

from fathom.cli.options import merge, with_flags
from fathom.cli.progress import progress_bar
from fathom.probes import PROBES, Entry


def commands() -> typer.Typer:
    """One command for each probe of a language model; link predictors are asked by ``fathom kgc evaluate``."""
    made = typer.Typer(help="Ask a model what it knows of a data set.", no_args_is_help=True)
    for name, entry in PROBES.items():
        if entry.asks == "language model":
            text = f"\b\n{entry.example}\n\n{entry.does}"
            made.command(name, hidden=name == entry.alias, help=text, short_help=entry.does)(_command(entry))
    return made


def _command(entry: Entry) -> Callable[..., None]:
    def command(
        model: str = typer.Option(..., help=_model_help(entry)),
        data: str = typer.Option(..., help="Data folder, or the name of an embedded data set (geography)."),
        out: Path = typer.Option(..., help="Folder of the run. The same command goes on where it stopped."),
        config: Path | None = typer.Option(None, help="YAML file with any of these options; flags win."),
        **given: Any,
    ) -> None:
        from fathom.api import probe

        with progress_bar(f"{entry.name} {Path(model).name}") as progress:
            result = probe(entry.name, model, data, out, progress, **merge(config, given))
        typer.echo(result.summary().to_text())
        typer.echo(_searched(result.folder.manifest["circumstances"]), nl=False)
        typer.echo(f"\nkept in {out}; more: fathom metrics {out} --by relation,cardinality,domain,template")

    return with_flags(command, entry.options)


def _model_help(entry: Entry) -> str:
    served = ", or what --server calls it" if "server" in entry.options.model_fields else ""
    return f"Name or folder of a transformers model{served}."


def _searched(noted: Mapping[str, Any]) -> str:
    """What the exact search cost, where it was used: each token is a node of the answers' trie."""
    run, full, naive = (noted.get(f"tokens_{way}", 0) for way in ("run", "full", "naive"))
    if not run:
        return ""
    return (
        f"exact search: {run:,} tokens run, {full:,} without pruning, {naive:,} one statement at a time "
        f"({naive / run:,.0f} times as many)\n"
    )


app = commands()
