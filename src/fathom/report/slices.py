"""Where two runs differ: the paired difference in accuracy of each part of the facts that both ranked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from fathom.errors import BadInput
from fathom.results.claims import Claim, Contrast, decide
from fathom.results.comparison import Comparison
from fathom.results.estimates import Estimate
from fathom.results.facts import RunFacts
from fathom.results.pairing import common_facts, difference
from fathom.results.rows import grouped

PAIRS = 66
"""Of more pairs than those of twelve runs only the pairs with the first run are cut into slices."""


class Slice(NamedTuple):
    """A part of the facts that both of two runs ranked.

    :param key: of the queries, such as "relation". :param value: of that key.
    :param of_first: share that the first run has right; *of_second* likewise.
    :param number: first − second, in accuracy, with its interval.
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


def slices(found: Comparison, keys: Sequence[str]) -> list[Slice]:
    """Of each pair, the greatest difference first.

    :param keys: of the queries; those that a run does not have, or that do not differ in it, make no slice.
    """
    sides = [(run.name, run.outcome) for run in found.runs]
    pairs = list(combinations(sides, 2))
    if len(pairs) > PAIRS:
        pairs = [(sides[0], other) for other in sides[1:]]
    return [own for one, other in pairs for own in _of_pair(one, other, keys)]


def _of_pair(one: tuple[str, RunFacts], other: tuple[str, RunFacts], keys: Sequence[str]) -> list[Slice]:
    (name, first), (second_name, second) = one, other
    try:
        facts = common_facts([first, second])
    except BadInput:  # the comparison's own table says why
        return []
    cut, hits = [], [first.hits(1), second.hits(1)]
    for key in keys:
        parts = grouped(_labelled(first, facts, key))
        for value, own in parts.items() if len(parts) > 1 else ():
            sample = first.sample(own)  # as the comparison has it
            made = difference(f"accuracy|{key}:{value}", [(1, first), (-1, second)], hits, own, sample)
            if not np.isnan(made.value):
                first_mean, second_mean = (
                    float(np.mean(values[side.at(own)])) for side, values in zip((first, second), hits, strict=True)
                )
                cut.append(Slice(name, second_name, key, value, len(own), first_mean, second_mean, made, None))
    decisions = decide([Claim(own.value, (Contrast("accuracy", own.number),)) for own in cut])
    told = [own._replace(adjusted=one.p_value) for own, one in zip(cut, decisions, strict=True)]
    return sorted(told, key=lambda own: -abs(own.number.value))


def _labelled(side: RunFacts, facts: Sequence[str], key: str) -> Iterable[tuple[str, str]]:
    if key in side.groups:
        of_fact = side.groups[key]
        for fact, place in zip(facts, side.at(facts).tolist(), strict=True):
            for value in of_fact[place]:
                yield value, fact
