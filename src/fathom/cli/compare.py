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
        Group.SELECTION,
        "Metrics, separated by commas: accuracy, mrr, hits@K. The first decides, the others are secondary.",
        default="accuracy,hits@10,mrr",
    ),
    scoring: str = option(Group.SELECTION, f"{SCORING} Several of one run are compared with each other.", default=""),
    to_first: bool = option(
        Group.SELECTION, "Compare each run with the first alone, not all pairs.", "--to-first", default=False
    ),
    margin: float | None = option(
        Group.SELECTION,
        "Points of the primary metric that do not matter: say which runs are equivalent, or not worse, within them.",
        default=None,
        min=0,
    ),
    detect: float | None = option(
        Group.SELECTION,
        "Also say how many facts, relations and seeds would detect this difference, in points, in 80 % of cases.",
        default=None,
        min=0,
    ),
    seeds: int = option(
        Group.SELECTION,
        "The runs are of two models, each trained with so many seeds: all runs of one, then all of the other.",
        default=1,
        min=1,
    ),
    cluster: str = option(Group.OUTPUT, TWO_WAYS, default=""),
    out: TablesFolder = None,
    format: Printed = TableFormat.TEXT,
) -> None:
    """Compare runs: which knows more, by how much, and what else differs between them.

    Facts are joined by fact_id, so models, templates, readings, answer pools, probes and worlds can be compared.
    """
    from fathom.errors import all_of
    from fathom.results.compare import compare as compared
    from fathom.store.folder import RunFolder

    folders = all_of(*(partial(RunFolder.open, run) for run in runs))
    shares = [None if points is None else points / 100 for points in (margin, detect)]
    found = compared(folders, separated(scoring), separated(metrics), cluster, to_first, shares[0], shares[1], seeds)
    tell_in_forms(found, format, out, "compare")
