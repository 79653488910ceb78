"""``fathom report RUN…``"""

from __future__ import annotations

from pathlib import Path

import typer

from fathom.cli.formats import notes, say
from fathom.cli.options import alone, option
from fathom.options import CLUSTER, Group


def make(does: str) -> typer.Typer:
    """``fathom report``"""
    return alone(does, "fathom report runs/gpt2 runs/gpt2-medium runs/bert -o report.html", report)


def report(
    runs: list[Path] = typer.Argument(..., help="Folders of finished runs."),
    out: Path = option(Group.OUTPUT, "File to write.", "--out", "-o", default=Path("report.html")),
    title: str = option(Group.OUTPUT, "What stands at its head.", default=""),
    groups: Path | None = option(
        Group.OUTPUT, "JSON Lines with query_id and further groups to choose by, such as planted.jsonl.", default=None
    ),
    cluster: str = option(Group.OUTPUT, CLUSTER, default=""),
) -> None:
    """Make one HTML file of runs that needs no network: numbers, charts that filter each other, and every answer."""
    from fathom.report.page import report as write

    made = write(runs, out, cluster, title, groups)
    notes(made.notes)
    say(f"{made.path}: {made.runs} of {len(runs)} runs, {made.path.stat().st_size / 1e6:.1f} MB; open it in a browser")
