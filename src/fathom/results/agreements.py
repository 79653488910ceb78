"""Agreement of two runs on the ranks of the same facts: Pearson's correlations, and quadrants of hits and misses.

Section 5.2 and figure 7 of Jinno et al. (DEER) correlate decimal logarithms of ranks, "since the significance of a
difference diminishes at higher ranks". The control is the correlation within relations: probes that know other facts
agree, too, if both find the same relations easy.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from fathom.base.errors import BadInput
from fathom.results.estimates import Estimate, correlation, correlation_within, mean, point_estimate
from fathom.results.facts import RunFacts
from fathom.results.pairing import common_facts
from fathom.results.recipes import combined
from fathom.results.rows import Floats

WITHIN = "log10 rank, within relations"


class Agreement(NamedTuple):
    """Two probes on the facts that both ranked. Correlations are undefined where a search stopped.

    :param within: of log10 ranks less the mean of their relation.
    :param both_hit: share of facts that both rank within *k*; likewise the other quadrants.
    :param left_out: number of facts that only one of them, or neither, could rank.
    :param stopped: number of facts whose rank is only known to be greater than some number. They are in the quadrants;
        a correlation of the others would be of facts selected by rank.
    :param points: fact id, rank by the first, rank by the second; without those stopped.
    """

    k: int
    log_ranks: Estimate
    within: Estimate
    ranks: Estimate
    both_hit: Estimate
    both_miss: Estimate
    only_first: Estimate
    only_second: Estimate
    left_out: int
    stopped: int
    points: list[tuple[str, float, float]]

    @property
    def correlations(self) -> dict[str, Estimate]:
        return {"r": self.log_ranks, "r within": self.within, "r of ranks": self.ranks}

    @property
    def quadrants(self) -> dict[str, Estimate]:
        shares = (self.both_hit, self.only_first, self.only_second, self.both_miss)
        return dict(zip(("both hit", "only first", "only second", "both miss"), shares, strict=True))


def agreement(one: RunFacts, other: RunFacts, k: int) -> Agreement:
    """Compare the ranks of the facts that both ranked, or stopped at no rank below *k*.

    :raises BadInput: there are none, or they were ranked among other candidates.
    """
    sides = (one, other)
    common = common_facts(sides)
    known = [np.asarray((side.beyond == np.inf) | (side.beyond >= k))[side.at(common)] for side in sides]
    facts = [fact for fact, both in zip(common, known[0] & known[1], strict=True) if both]
    if not facts:
        raise BadInput(f"no fact is ranked as far as {k} by both runs: give a smaller --k, or a greater --max-rank")
    stopped = (one.stopped | other.stopped).intersection(facts)
    ranks = [side.mean_ranks[side.at(facts)] for side in sides]
    logs = [side.mean_log_ranks[side.at(facts)] for side in sides]
    sample, recipe = one.sample(facts), partial(combined, recipes=[side.recipe("") for side in sides], sign=" and ")

    def correlated(name: str, values: Sequence[Floats], groups: Sequence[str] | None = None) -> Estimate:
        line = recipe(f"correlation of {name}")
        if stopped:
            return point_estimate("some ranks are only known to lie beyond --max-rank: no correlation", line)
        if groups is None:
            return correlation(values[0], values[1], sample, line)
        return correlation_within(values[0], values[1], groups, sample, line)

    first, second = ranks[0] <= k, ranks[1] <= k
    return Agreement(
        k,
        correlated("log10 ranks", logs),
        correlated(WITHIN, logs, one.relations_of(facts)),
        correlated("ranks", ranks),
        mean(first & second, sample, recipe(f"both hit@{k}")),
        mean(~first & ~second, sample, recipe(f"both miss@{k}")),
        mean(first & ~second, sample, recipe(f"only first hit@{k}")),
        mean(~first & second, sample, recipe(f"only second hit@{k}")),
        len(set(one.facts).union(other.facts)) - len(facts),
        len(stopped),
        [point for point in zip(facts, *(side.tolist() for side in ranks), strict=True) if point[0] not in stopped],
    )
