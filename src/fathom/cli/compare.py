"""``fathom compare RUN…``"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import typer

from fathom.cli.flags import Printed, TablesFolder
from fathom.cli.formats import TableFormat, tell_in_forms
from fathom.cli.options import alone, option
from fathom.options import SCORING, TWO_WAYS, Group, separated


def make(does: str) -> typer.Typer:
    """``fathom compare``"""
    return alone(does, "fathom compare runs/gpt2 runs/gpt2-medium runs/gpt2-large --metrics accuracy,hits@5", compare)


def compare(
    runs: list[Path] = typer.Argument(..., help="Folders of finished runs."),
    metrics: str = option(
        Group.SELECTION, "What is compared: accuracy, mrr, hits@K, separated by commas.", default="accuracy,hits@10,mrr"
    ),
    scoring: str = option(Group.SELECTION, f"{SCORING} Several of one run are compared with each other.", default=""),
    to_first: bool = option(
        Group.SELECTION, "Compare each run with the first alone, not all pairs.", "--to-first", default=False
    ),
    cluster: str = option(Group.OUTPUT, TWO_WAYS, default=""),
    out: TablesFolder = None,
    format: Printed = TableFormat.TEXT,
) -> None:
    """Lay runs side by side: numbers, and the difference of every pair on the facts that both ranked.

    Facts are joined by their fact_id, whatever the model, template, probe or world.
    """
    from fathom.errors import all_of
    from fathom.results.compared import compare as compared
    from fathom.store.folder import RunFolder

    folders = all_of(*(partial(RunFolder.open, run) for run in runs))
    found = compared(folders, separated(scoring), separated(metrics), cluster, to_first)
    tell_in_forms(found.tables_in, format, out, "compare")
