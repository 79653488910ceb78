"""``study: compare`` of a plan: the numbers of :mod:`fathom.results.compare` as a study."""

from __future__ import annotations

from collections.abc import Sequence

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
)


def analyse(runs: Sequence[AnyRun], options: ComparisonOptions) -> Comparison:
    """Compare all pairs of runs."""
    return compare(runs, **{name: getattr(options, name) for name in ComparisonOptions.model_fields})


def conclude(findings: Comparison) -> list[str]:
    """State which runs differ."""
    return findings.answer


def tables(findings: Comparison) -> list[Table]:
    """Return every run, then every pair."""
    return findings.tables
