"""Differences of two runs: the paired difference in accuracy of each part of the facts that both ranked."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from fathom.base.errors import BadInput
from fathom.results.claims import Claim, Contrast, decide
from fathom.results.comparison import Comparison
from fathom.results.estimates import Estimate
from fathom.results.facts import RunFacts
from fathom.results.pairing import common_facts, difference
from fathom.results.rows import grouped

PAIRS = 66
"""With more pairs than twelve runs have, only the pairs with the first run have slices."""


class Slice(NamedTuple):
    """A part of the facts that both of two runs ranked.

    :param key: of the queries, such as "relation".
    :param number: first − second, with its interval.
    :param adjusted: its p value by Holm among all slices of the pair.
    """

    first: str
    second: str
    key: str
    value: str
    facts: int
    of_first: float
    of_second: float
    number: Estimate
    adjusted: float | None


def slices(comparison: Comparison, keys: Sequence[str]) -> list[Slice]:
    """Return the slices of all pairs as one family of claims, the greatest difference first.

    :param keys: of the queries; a key that a run lacks, or that has one value, makes no slice.
    """
    sides = [(run.name, run.outcome) for run in comparison.runs]
    pairs = list(combinations(sides, 2))
    if len(pairs) > PAIRS:
        pairs = [(sides[0], other) for other in sides[1:]]
    cut = [own for one, other in pairs for own in _of_pair(one, other, keys)]
    claims = {number: Claim(own.value, (Contrast("accuracy", own.number),)) for number, own in enumerate(cut)}
    decisions = decide(claims)
    adjusted = [own._replace(adjusted=decisions[number].p_value) for number, own in enumerate(cut)]
    return sorted(adjusted, key=lambda own: -abs(own.number.value))


def _of_pair(one: tuple[str, RunFacts], other: tuple[str, RunFacts], keys: Sequence[str]) -> list[Slice]:
    (name, first), (second_name, second) = one, other
    try:
        facts = common_facts([first, second])
    except BadInput:  # the comparison's own table says why
        return []
    cut, hits = [], [first.hits(1), second.hits(1)]
    for key in keys:
        values_of = first.groups.get(key, ())
        parts = grouped(
            (value, fact)
            for fact, place in zip(facts, first.at(facts).tolist(), strict=True)
            for value in (values_of[place] if values_of else ())
        )
        for value, own in parts.items() if len(parts) > 1 else ():
            sample = first.sample(own)  # as the comparison has it
            number = difference(f"accuracy|{key}:{value}", first, second, hits, own, sample)
            if not np.isnan(number.value):
                one_mean, other_mean = (
                    float(np.mean(h[s.at(own)])) for s, h in zip((first, second), hits, strict=True)
                )
                cut.append(Slice(name, second_name, key, value, len(own), one_mean, other_mean, number, None))
    return cut
