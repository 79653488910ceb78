"""The bar that a run must be above to show knowledge: the strongest baseline, on any of its facts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fathom.results import numbers
from fathom.results.baselines import Beside, baselines
from fathom.results.numbers import MINUS, Number
from fathom.results.outcomes import Outcome
from fathom.results.rows import Rows

BAR = (
    "baseline: the strongest, on the same facts, of answering by lot, with what is right most often in the relation's "
    "other facts, by the model's own scores of the names over other subjects, and by the words beside the gap alone"
)
BASELINE_COLUMNS = ("baseline", "Acc@1 baseline", "over baseline")
NO_KNOWLEDGE = (
    "above baseline: of which model the 95 % interval of what it is over its baseline, paired by fact, is above 0; a "
    "rise or a drop between two of which neither is tells nothing of knowledge"
)
BOTH, NEITHER = "both", "neither"


class Bars:
    """The baselines of one run. Reads the scores of all candidates, which outcomes leave on the disk, for the names."""

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome
        self._ranked = baselines(Rows(outcome.run, cluster=outcome.cluster))

    def strongest(self, k: int, facts: Sequence[str]) -> Beside | None:
        """Hits@k of these facts beside the baseline that has most of them; None where no baseline, or the run's own
        Hits@k, is known of all."""
        outcome, found = self._outcome, []
        at, sample = outcome.at(facts), outcome.sample(facts)
        own = outcome.hits(k)[at]
        for name, ranked in self._ranked.items():
            others = outcome.per_fact(ranked.hits(k))[at]
            if len(own) and not np.isnan([own, others]).any():
                made = outcome.recipe(f"hits@{k}{MINUS}{name}")
                found.append(Beside(name, *numbers.beyond(own, others, sample, made)))
        return max(found, key=lambda one: one.value, default=None)

    def known(self, facts: Sequence[str]) -> list[str]:
        """Those of which the run is right more often than each baseline that is known of them."""
        at = self._outcome.at(facts)
        each = [self._outcome.per_fact(ranked.hits(1))[at] for ranked in self._ranked.values()]
        bar = np.fmax.reduce([np.zeros(len(at)), *each])
        return [fact for fact, above in zip(facts, self._outcome.hits(1)[at] > bar, strict=True) if above]


def which_above(first: Beside | None, second: Beside | None, names: tuple[str, str]) -> str | None:
    """Which of two models is above its bar: both, neither, or the name of the one; None where that cannot be told.

    :param names: what to call them.
    """
    above = [one.above if one else None for one in (first, second)]
    if None in above:
        return None
    if above[0] == above[1]:
        return BOTH if above[0] else NEITHER
    return names[0] if above[0] else names[1]


def told_baseline(found: Beside | None) -> tuple[str | None, float | None, Number | None]:
    """For the columns of :data:`BASELINE_COLUMNS`: its name, its value, and the model − it."""
    return (found.baseline, found.value, found.difference) if found else (None, None, None)
