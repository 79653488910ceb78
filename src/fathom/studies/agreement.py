"""Do two probes agree? Pearson's correlation of their ranks, and quadrants of hits and misses.

Section 5.2 and figure 7 of Jinno et al. (DEER): correlation on decimal logarithms of ranks, "since the significance of
a difference diminishes at higher ranks", and the linear one beside it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fathom.errors import BadInput
from fathom.metrics.correlation import Correlation, pearson
from fathom.results.facts import common, facts_of
from fathom.store.folder import RunFolder

NAN = float("nan")
NOT_TOLD = Correlation(NAN, NAN, NAN, NAN, 0)


class Agreement(NamedTuple):
    """:param log_ranks: correlation of log10 ranks. :param both_hit: share of facts that both rank within *k*; likewise
    the other quadrants. :param left_out: facts that only one of them, or neither, could rank.
    :param stopped: facts that one of them only knows to rank beyond some number: they are in the quadrants, and the
        correlations, which need every rank, are NaN: those of the other facts would be of facts chosen by their rank.
    :param points: fact id, rank by the first, rank by the second; without those stopped."""

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
    stopped: int
    points: list[tuple[str, float, float]]


def agreement(
    first: RunFolder, second: RunFolder, k: int = 10, scorings: tuple[str | None, str | None] = (None, None)
) -> Agreement:
    """:param scorings: of each run; None for its only one.
    :raises BadInput: the runs have no fact in common, were asked with different candidates, or are one and the same."""
    if first.path.resolve() == second.path.resolve() and scorings[0] == scorings[1]:
        raise BadInput(f"{first.path} is both runs: give two, or two of its scorings (--scoring A,B)")
    one, other = facts_of(first, scorings[0]), facts_of(second, scorings[1])
    if one.name == other.name:
        one, other = (replace(side, name=f"{side.name} ({run.path})") for side, run in ((one, first), (other, second)))
    facts = [fact for fact in common(one, other) if all(_tells(side.ranked[fact].beyond, k) for side in (one, other))]
    if not facts:
        raise BadInput(f"no fact is ranked as far as {k} by both runs: give a smaller --k, or a greater --max-rank")
    ranks = [np.array([side.ranked[fact].rank for fact in facts]) for side in (one, other)]
    logs = [np.array([side.ranked[fact].log_rank for fact in facts]) for side in (one, other)]
    hit: list[npt.NDArray[np.bool_]] = [values <= k for values in ranks]
    stopped = set(one.stopped) | set(other.stopped)
    whole = not stopped & set(facts)
    everything = one.ranked.keys() | one.left_out.keys() | other.ranked.keys() | other.left_out.keys()
    return Agreement(
        one.name,
        other.name,
        k,
        pearson(*logs) if whole else NOT_TOLD,
        pearson(*ranks) if whole else NOT_TOLD,
        float((hit[0] & hit[1]).mean()),
        float((~hit[0] & ~hit[1]).mean()),
        float((hit[0] & ~hit[1]).mean()),
        float((~hit[0] & hit[1]).mean()),
        len(everything) - len(facts),
        len(stopped & set(facts)),
        [
            (fact, x, y)
            for fact, x, y in zip(facts, ranks[0].tolist(), ranks[1].tolist(), strict=True)
            if fact not in stopped
        ],
    )


def _tells(beyond: int | None, k: int) -> bool:
    """Whether the rank is known to be within *k* or not."""
    return beyond is None or beyond >= k
