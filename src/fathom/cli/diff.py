"""``fathom diff BEFORE AFTER``"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import typer

from fathom.cli.flags import Printed, TablesFolder
from fathom.cli.formats import TableFormat, tell_in_forms
from fathom.cli.options import alone, option
from fathom.options import SCORING, TWO_WAYS, Group, separated


def make(does: str) -> typer.Typer:
    """``fathom diff``"""
    return alone(does, "fathom diff runs/before runs/after --by relation --list 10", diff)


def diff(
    before: Path = typer.Argument(..., help="Folder of the run before."),
    after: Path = typer.Argument(..., help="Folder of the run after."),
    by: str = option(
        Group.SELECTION, "Also each group for itself: relation, direction, or any key of the data's groups.", default=""
    ),
    k: int = option(Group.SELECTION, "A fact is known where its answer is among the first k.", "--k", default=1, min=1),
    list_: int = option(
        Group.SELECTION,
        "Show this many facts learnt, and forgotten; JSON and CSV have all.",
        "--list",
        default=0,
        min=0,
    ),
    scoring: str = option(Group.SELECTION, SCORING, default=""),
    cluster: str = option(Group.OUTPUT, TWO_WAYS, default=""),
    out: TablesFolder = None,
    format: Printed = TableFormat.TEXT,
) -> None:
    """Compare one model before and after training, editing or unlearning.

    Facts learnt, forgotten, kept and never known, each a share with its interval, next to the baselines.
    """
    from fathom.errors import all_of
    from fathom.results.diff import diff as changed
    from fathom.store.folder import RunFolder

    first, second = all_of(*(partial(RunFolder.open, run) for run in (before, after)))
    found = changed(first, second, separated(scoring), by, k, list_, cluster)
    tell_in_forms(found, format, out, "diff")
