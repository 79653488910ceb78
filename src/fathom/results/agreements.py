"""Do two runs rank the same facts alike? Pearson's correlation of their ranks, and quadrants of hits and misses.

Section 5.2 and figure 7 of Jinno et al. (DEER): correlation on decimal logarithms of ranks, "since the significance of
a difference diminishes at higher ranks", and the linear one beside it. Its control is the correlation within relations:
two probes that know other facts agree, too, where both find the same relations easy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fathom.errors import BadInput
from fathom.results.estimates import Estimate, correlation, mean, untold
from fathom.results.facts import RunFacts
from fathom.results.pairing import common_facts
from fathom.results.recipes import combined
from fathom.results.rows import Floats

WITHIN = "log10 rank, within relations"


class Agreement(NamedTuple):
    """Two probes on the facts that both ranked.

    :param log_ranks: correlation of log10 ranks; without a value where a search stopped.
    :param within: of log10 ranks less the mean of their relation: what is left where both only find the same relations
        easy.
    :param ranks: of the ranks themselves.
    :param both_hit: share of facts that both rank within *k*; likewise the other quadrants.
    :param left_out: facts that only one of them, or neither, could rank.
    :param stopped: facts that one of them only knows to rank beyond some number: they are in the quadrants, and the
        correlations, which need every rank, are not told: those of the other facts would be of facts chosen by rank.
    :param points: fact id, rank by the first, rank by the second; without those stopped.
    """

    first: str
    second: str
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


def agreement(one: RunFacts, other: RunFacts, k: int) -> Agreement:
    """Of the facts that both ranked, or stopped at no rank below *k*.

    :raises BadInput: there are none, or they were ranked among other candidates.
    """
    first, second = one.name, other.name
    if first == second:
        first, second = (f"{side.name} ({side.path})" for side in (one, other))
    every = common_facts([one, other])
    known = [np.asarray((side.beyond == np.inf) | (side.beyond >= k))[side.at(every)] for side in (one, other)]
    facts = [fact for fact, both in zip(every, known[0] & known[1], strict=True) if both]
    if not facts:
        raise BadInput(f"no fact is ranked as far as {k} by both runs: give a smaller --k, or a greater --max-rank")
    stopped = (one.stopped | other.stopped).intersection(facts)
    ranks = [side.mean_ranks[side.at(facts)] for side in (one, other)]
    logs = [side.mean_log_ranks[side.at(facts)] for side in (one, other)]
    centred = logs if stopped else less_their_means(one.relations_of(facts), logs)
    return Agreement(
        first,
        second,
        k,
        _correlation("correlation of log10 ranks", (one, other), facts, logs, len(stopped)),
        _correlation(f"correlation of {WITHIN}", (one, other), facts, centred, len(stopped)),
        _correlation("correlation of ranks", (one, other), facts, ranks, len(stopped)),
        *_quadrants((one, other), facts, ranks[0] <= k, ranks[1] <= k, k),
        len(set(one.facts).union(other.facts)) - len(facts),
        len(stopped),
        [point for point in zip(facts, *(side.tolist() for side in ranks), strict=True) if point[0] not in stopped],
    )


def _correlation(
    name: str, sides: Sequence[RunFacts], facts: Sequence[str], values: Sequence[Floats], stopped: int
) -> Estimate:
    made = combined(name, [side.recipe("") for side in sides], " and ")
    if stopped:
        return untold("some ranks are only known to lie beyond --max-rank: no correlation", made)
    return correlation(values[0], values[1], sides[0].sample(facts), made)


def less_their_means(relations: Sequence[str], values: Sequence[Floats]) -> list[Floats]:
    """Values less the mean of their relation, [facts] each. :param relations: of the facts."""
    _, relation = np.unique(relations, return_inverse=True)
    count = np.bincount(relation)
    # Rounded, so that what is alike throughout a relation does not differ in its last bits.
    return [np.round(own - (np.bincount(relation, own) / count)[relation], 12) for own in values]


def _quadrants(
    sides: Sequence[RunFacts], facts: Sequence[str], first: npt.NDArray[np.bool_], second: npt.NDArray[np.bool_], k: int
) -> tuple[Estimate, Estimate, Estimate, Estimate]:
    """Both hit, both miss, only the first, only the second. :param first: whether it hits, [facts]."""
    sample, recipes = sides[0].sample(facts), [side.recipe("") for side in sides]

    def share(name: str, values: npt.NDArray[np.bool_]) -> Estimate:
        return mean(values, sample, combined(f"{name}@{k}", recipes, " and "))

    return (
        share("both hit", first & second),
        share("both miss", ~first & ~second),
        share("only first hit", first & ~second),
        share("only second hit", ~first & second),
    )
