"""A balanced choice: as many instances of every answer, and about as many of every relation (sections 4.2 and 4.3).

For each number of instances per answer there is a greatest number of answers that have so many and whose names are no
part of each other: a largest independent set, found as an integer programme. Of the configurations that come within the
tolerance of the wanted number of instances the one with the most answers is taken, then the nearest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fathom.building.bear.plan import Limits


class Configuration(NamedTuple):
    """So many instances of each of so many answers.

    :param answers: that have so many and do not overlap, as many as the limits let in.
    :param why_not: "" where it can be.
    """

    per_answer: int
    answers: int
    why_not: str

    @property
    def total(self) -> int:
        """Instances."""
        return self.per_answer * self.answers


class AnswerGraph(NamedTuple):
    """Answers to choose from.

    :param counts: instances of each.
    :param values: how much each is preferred.
    :param conflicts: pairs that cannot both be chosen.
    """

    counts: Sequence[int]
    values: Sequence[float]
    conflicts: Sequence[tuple[int, int]]


def configurations(space: AnswerGraph, limits: Limits) -> list[Configuration]:
    """One for each number of instances per answer."""
    options = []
    for per_answer in range(limits.least_per_answer, limits.most_per_answer + 1):
        able = [place for place, count in enumerate(space.counts) if count >= per_answer]
        taken = len(choose(able, space, most_answers(per_answer, limits)))
        options.append(Configuration(per_answer, taken, _why_not(per_answer, taken, limits)))
    return options


def most_answers(per_answer: int, limits: Limits) -> int:
    """Answers that the limits let in; the least number of them where even that makes too many instances."""
    within = int(limits.instances * (1 + limits.tolerance)) // per_answer
    return min(limits.most_answers, max(within, limits.least_answers))


def _why_not(per_answer: int, answers: int, limits: Limits) -> str:
    low, high = (limits.instances * (1 + sign * limits.tolerance) for sign in (-1, 1))
    if answers < limits.least_answers:
        return f"{answers} answers with {per_answer} instances each, {limits.least_answers} needed"
    if not low <= per_answer * answers <= high:
        return f"{answers} × {per_answer} = {per_answer * answers} instances, {low:.0f} to {high:.0f} wanted"
    return ""


def best(found: Iterable[Configuration], limits: Limits) -> Configuration | None:
    """The feasible one with the most answers, of those the nearest to the wanted number; None where none is."""
    feasible = [one for one in found if not one.why_not]
    return max(feasible, key=lambda one: (one.answers, -abs(one.total - limits.instances)), default=None)


def nearest(found: Sequence[Configuration], limits: Limits) -> Configuration | None:
    """What comes nearest where none is feasible: with enough answers if there are, then in instances."""
    some = [one for one in found if one.answers]
    return min(
        some,
        key=lambda one: (max(limits.least_answers - one.answers, 0), abs(one.total - limits.instances)),
        default=None,
    )


def choose(able: Sequence[int], space: AnswerGraph, most: int) -> list[int]:
    """At most *most* places of *able*, no two in conflict: the most preferred where there are enough, else as many as
    can be.

    :returns: places, the most preferred first.
    """
    ordered = sorted(able, key=lambda place: (-space.values[place], place))
    others = _others(ordered, space.conflicts)
    taken: list[int] = []
    for place in ordered:
        if len(taken) < most and not others.get(place, set()) & set(taken):
            taken.append(place)
    if len(taken) == most or not others:
        return taken
    kept = _independent(sorted(others), [(a, b) for a in others for b in others[a] if a < b], space.values)
    return [place for place in ordered if place not in others or place in kept][:most]


def _others(among: Sequence[int], conflicts: Sequence[tuple[int, int]]) -> dict[int, set[int]]:
    """With what each place of *among* is in conflict, of those that are in any."""
    here, others = set(among), defaultdict[int, set[int]](set)
    for one, other in conflicts:
        if one in here and other in here:
            others[one].add(other)
            others[other].add(one)
    return others


def _independent(places: Sequence[int], pairs: Sequence[tuple[int, int]], values: Sequence[float]) -> set[int]:
    """The largest set of *places* without a pair; of the largest the most preferred."""
    import numpy as np
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    at = {place: number for number, place in enumerate(places)}
    rank = {place: number for number, place in enumerate(sorted(places, key=lambda place: values[place]))}
    # One more place is worth more than any preference among as many.
    gain = np.array([1 + rank[place] / (len(places) + 1) ** 2 for place in places])
    columns = np.array([at[place] for pair in pairs for place in pair])
    rows = np.repeat(np.arange(len(pairs)), 2)
    matrix = csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(pairs), len(places)))
    either = LinearConstraint(matrix, ub=1)
    solved = milp(-gain, integrality=np.ones(len(places)), bounds=Bounds(0, 1), constraints=either)
    return {place for place, value in zip(places, solved.x, strict=True) if value > 0.5}


def reasons(found: Sequence[Configuration], chosen: Configuration | None) -> dict[str, str]:
    """Why each other configuration was not taken."""
    said = {}
    for one in found:
        why = one.why_not
        if not why and chosen is not None:
            better = "has more answers" if chosen.answers > one.answers else "is nearer to the instances wanted"
            why = f"feasible, but {chosen.answers} × {chosen.per_answer} {better}"
        if chosen is None or one.per_answer != chosen.per_answer:
            said[f"{one.answers} × {one.per_answer}"] = why
    return said
