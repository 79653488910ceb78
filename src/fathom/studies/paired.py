"""The same facts of the same model, asked in two ways: two readings, or two answer pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fathom.errors import BadInput
from fathom.metrics.bootstrap import Difference, paired_difference
from fathom.results.outcomes import (
    BY_TEMPLATE,
    CUTS,
    FREE,
    Outcome,
    by_column,
    common_facts,
    hits_of,
    outcomes_of,
    relations_of,
)
from fathom.store.folder import RunFolder


class Paired(NamedTuple):
    """:param first: Acc@1, Acc@5, Acc@10 one way, and :param second: the other, over the *facts* that both ranked.
    :param differences: first − second. :param only_first: facts that the second way has no rank of.
    :param sizes: mean number of candidates, each way."""

    model: str
    data: str
    reading: str
    facts: int
    only_first: int
    only_second: int
    first: tuple[float, ...]
    second: tuple[float, ...]
    differences: tuple[Difference, ...]
    sizes: tuple[float, float]


def readings(runs: Sequence[RunFolder], scorings: Sequence[str] = ()) -> list[Paired]:
    """Template-free minus template-based, of each model and data set with a run of both (section 4 of the paper).

    :raises BadInput: no model has both, no fact in common, or other candidates.
    """
    columns = by_column(outcomes_of(runs, scorings))
    found = [
        _paired(free, based, common_facts([free, based]))
        for (data, reading), models in columns.items()
        if reading == FREE
        for model, free in models.items()
        if (based := columns.get((data, BY_TEMPLATE), {}).get(model)) is not None
    ]
    if not found:
        there = "; ".join(f"{data} {reading}: {', '.join(models)}" for (data, reading), models in columns.items())
        raise BadInput(
            "no model has runs of one data set in both readings: ask it with --reading template-based and with "
            f"--reading template-free (there is {there})"
        )
    return found


def pools(runs: Sequence[RunFolder], scorings: Sequence[str] = ()) -> list[Paired]:
    """Each larger answer pool minus the smallest, of each model, data set and reading (table 6).

    :raises BadInput: nothing was asked with two pools.
    """
    alike: dict[tuple[str, str, str], list[Outcome]] = {}
    for outcome in outcomes_of(runs, scorings):
        alike.setdefault((outcome.model, outcome.data, outcome.reading), []).append(outcome)
    found, faults = [], []
    for outcomes in alike.values():
        smallest, *larger = sorted(outcomes, key=_pool_size)
        if not larger:
            faults.append(
                f"{smallest.path} is the only run of {smallest.model} on {smallest.data}, {smallest.reading}: "
                "ask again with --add-candidates FILE or another --pool"
            )
        for other in larger:
            facts = _asked_in_both(other, smallest)
            if _same_candidates(other, smallest, facts):
                faults.append(
                    f"{smallest.path} and {other.path} were asked with the same candidates: nothing to compare"
                )
            else:
                found.append(_paired(other, smallest, facts))
    if faults:
        raise BadInput(faults)
    return found


def _paired(first: Outcome, second: Outcome, facts: Sequence[str]) -> Paired:
    one, other, relations = hits_of(first, facts), hits_of(second, facts), relations_of(first, facts)
    return Paired(
        first.model,
        first.data,
        first.reading,
        len(facts),
        len(first.ranked.place.keys() - facts),
        len(second.ranked.place.keys() - facts),
        tuple(one.mean(axis=0).tolist()),
        tuple(other.mean(axis=0).tolist()),
        tuple(paired_difference(one[:, k], other[:, k], relations, limits=(-1.0, 1.0)) for k in range(len(CUTS))),
        (_pool_size(first), _pool_size(second)),
    )


def _pool_size(outcome: Outcome) -> float:
    return float(np.mean(outcome.ranked.candidates))


def _asked_in_both(first: Outcome, second: Outcome) -> list[str]:
    both = sorted(first.ranked.place.keys() & second.ranked.place.keys())
    if not both:
        raise BadInput(f"{first.path} and {second.path} have no ranked fact in common")
    return both


def _same_candidates(first: Outcome, second: Outcome, facts: Sequence[str]) -> bool:
    return all(
        first.ranked.spaces[first.ranked.place[fact]] == second.ranked.spaces[second.ranked.place[fact]]
        for fact in facts
    )
