"""``study: compare`` of a plan: the numbers of :mod:`fathom.results.compare` as a study."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fathom.results.compare import compare
from fathom.results.comparison import Comparison
from fathom.results.loading import AnyRun
from fathom.results.tables import Table
from fathom.studies import MODELS, Study
from fathom.studies.options import ComparisonOptions

COMPARISON = Study(
    "compare",
    MODELS,
    "Compare runs: which knows more, by how much, and what else differs between them.",
    "runs",
    __name__,
    "",
    ComparisonOptions,
    analysis=ComparisonOptions,
)


def analyse(runs: Sequence[AnyRun], **options: Any) -> Comparison:
    """Compare all pairs of runs. :param options: of :class:`ComparisonOptions`, differences in points."""
    points = {name: None if options[name] is None else options[name] / 100 for name in ("margin", "detect")}
    return compare(runs, **options | points)


def conclude(findings: Comparison) -> list[str]:
    """State which runs differ."""
    return findings.answer


def tables(findings: Comparison) -> list[Table]:
    """Return every run, then every pair."""
    return findings.tables
