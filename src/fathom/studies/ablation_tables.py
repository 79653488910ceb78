"""Tables of the ablation study."""

from __future__ import annotations

from fathom.results.tables import Table
from fathom.studies.ablation import Ablation


def ablation_tables(found: Ablation) -> list[Table]:
    """Accuracy of every arm, then the paired comparisons."""
    arms = Table(
        ("pll", "scoring", "accuracy", "low", "high", "queries", "unscored"),
        tuple(
            (
                arm.pll,
                arm.scoring,
                arm.accuracy.estimate,
                arm.accuracy.low,
                arm.accuracy.high,
                arm.queries,
                arm.unscored,
            )
            for arm in found.arms
        ),
        title="accuracy, mean over templates",
        formats=dict.fromkeys(("accuracy", "low", "high"), ".1%"),
        notes=_notes([arm.accuracy.note for arm in found.arms]),
    )
    comparisons = Table(
        ("first", "second", "difference", "low", "high", "p (t-test)", "p (bootstrap)", "queries"),
        tuple(
            (
                line.first,
                line.second,
                line.difference.estimate,
                line.difference.low,
                line.difference.high,
                line.t_test_p,
                line.bootstrap_p,
                line.queries,
            )
            for line in found.comparisons
        ),
        title="first minus second, paired by query",
        formats=dict.fromkeys(("difference", "low", "high"), "+.1%"),
        notes=_notes([line.difference.note for line in found.comparisons]),
    )
    return [arms, comparisons]


def _notes(notes: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(note for note in notes if note))
