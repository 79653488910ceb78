"""``fathom merge RUN… --out RUN``"""

from __future__ import annotations

from pathlib import Path

import typer

from fathom.cli.flags import NewFolder
from fathom.cli.formats import say
from fathom.cli.options import alone


def make(does: str) -> typer.Typer:
    """``fathom merge``"""
    return alone(does, "fathom merge runs/gpt2-1 runs/gpt2-2 --out runs/gpt2", merge)


def merge(
    out: NewFolder,
    runs: list[Path] = typer.Argument(..., help="Folders of one run, each made with another --part."),
) -> None:
    """Put the parts of one run, each asked into a folder of its own, together into one folder.

    The folders stay as they are. Where shards are left, the command that made the parts, without --part, asks them.
    """
    from fathom.api import merge_runs

    result = merge_runs(list(runs), out)
    done, plan = result.folder.finished(), result.folder.manifest["plan"]
    left = "" if result.is_complete() else f"; {len(plan) - len(done):,} are left: fathom probe … --out {out} asks them"
    say(f"kept in {out}: {len(done):,} of {len(plan):,} shards{left}")
