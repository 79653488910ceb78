"""Do two probes agree? Pearson's correlation of their ranks, and quadrants of hits and misses.

Section 5.2 and figure 7 of Jinno et al. (DEER): correlation on decimal logarithms of ranks, "since the significance of
a difference diminishes at higher ranks", and the linear one beside it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fathom.metrics.correlation import Correlation, pearson
from fathom.store.folder import RunFolder
from fathom.studies.facts import common, facts_of


class Agreement(NamedTuple):
    """:param log_ranks: correlation of log10 ranks. :param both_hit: share of facts that both rank within *k*; likewise
    the other quadrants. :param left_out: facts that only one of them, or neither, could rank.
    :param points: fact id, rank by the first, rank by the second."""

    first: str
    second: str
    k: int
    log_ranks: Correlation
    ranks: Correlation
    both_hit: float
    both_miss: float
    only_first: float
    only_second: float
    left_out: int
    points: list[tuple[str, float, float]]


def agreement(
    first: RunFolder, second: RunFolder, k: int = 10, scorings: tuple[str | None, str | None] = (None, None)
) -> Agreement:
    """:param scorings: of each run; None for its only one.
    :raises BadInput: the runs have no fact in common, or were asked with different candidates."""
    one, other = facts_of(first, scorings[0]), facts_of(second, scorings[1])
    facts = common(one, other)
    ranks = [np.array([side.ranked[fact].rank for fact in facts]) for side in (one, other)]
    logs = [np.array([side.ranked[fact].log_rank for fact in facts]) for side in (one, other)]
    hit: list[npt.NDArray[np.bool_]] = [values <= k for values in ranks]
    everything = one.ranked.keys() | one.left_out.keys() | other.ranked.keys() | other.left_out.keys()
    return Agreement(
        one.name,
        other.name,
        k,
        pearson(*logs),
        pearson(*ranks),
        float((hit[0] & hit[1]).mean()),
        float((~hit[0] & ~hit[1]).mean()),
        float((hit[0] & ~hit[1]).mean()),
        float((~hit[0] & hit[1]).mean()),
        len(everything) - len(facts),
        list(zip(facts, ranks[0].tolist(), ranks[1].tolist(), strict=True)),
    )
