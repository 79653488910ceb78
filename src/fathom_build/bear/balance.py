"""A balanced choice: equally many instances of each answer, about as many of each relation (sections 4.2 and 4.3).

An integer programme finds the largest set of answers, for each number of instances, whose names do not overlap.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from fathom_build.bear.facts import Answer, FactPool, overlapping, words
from fathom_build.bear.plan import BearPlan, Limits


class Configuration(NamedTuple):
    """A number of answers, and of instances of each.

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
    """Return a configuration for each number of instances per answer."""
    options = []
    for per_answer in range(limits.least_per_answer, limits.most_per_answer + 1):
        able = [place for place, count in enumerate(space.counts) if count >= per_answer]
        taken = len(choose(able, space, most_answers(per_answer, limits)))
        options.append(Configuration(per_answer, taken, _why_not(per_answer, taken, limits)))
    return options


def most_answers(per_answer: int, limits: Limits) -> int:
    """Return how many answers the limits allow; their minimum if even that makes too many instances."""
    within = int(limits.instances * (1 + limits.tolerance)) // per_answer
    return min(limits.most_answers, max(within, limits.least_answers))


def _why_not(per_answer: int, answers: int, limits: Limits) -> str:
    low, high = (limits.instances * (1 + sign * limits.tolerance) for sign in (-1, 1))
    if answers < limits.least_answers:
        return f"{answers} answers with {per_answer} instances each, {limits.least_answers} needed"
    if not low <= per_answer * answers <= high:
        return f"{answers} × {per_answer} = {per_answer * answers} instances, {low:.0f} to {high:.0f} wanted"
    return ""


def best(options: Iterable[Configuration], limits: Limits) -> Configuration | None:
    """Return the feasible configuration with the most answers, then the nearest to the wanted number, if any."""
    feasible = [configuration for configuration in options if not configuration.why_not]
    return max(
        feasible,
        key=lambda configuration: (configuration.answers, -abs(configuration.total - limits.instances)),
        default=None,
    )


def nearest(options: Sequence[Configuration], limits: Limits) -> Configuration | None:
    """Return the configuration nearest to feasible: with enough answers if possible, then by instances."""
    return min(
        (configuration for configuration in options if configuration.answers),
        key=lambda configuration: (
            max(limits.least_answers - configuration.answers, 0),
            abs(configuration.total - limits.instances),
        ),
        default=None,
    )


def choose(able: Sequence[int], space: AnswerGraph, most: int) -> list[int]:
    """Choose at most *most* places of *able*, no two in conflict: the most preferred, or as many as possible.

    :returns: places, the most preferred first.
    """
    ordered = sorted(able, key=lambda place: (-space.values[place], place))
    here, others = set(ordered), defaultdict[int, set[int]](set)
    for first, second in space.conflicts:
        if first in here and second in here:
            others[first].add(second)
            others[second].add(first)
    taken: list[int] = []
    for place in ordered:
        if len(taken) < most and not others.get(place, set()) & set(taken):
            taken.append(place)
    if len(taken) == most or not others:
        return taken
    kept = _independent(sorted(others), [(a, b) for a in others for b in others[a] if a < b], space.values)
    return [place for place in ordered if place not in others or place in kept][:most]


def _independent(places: Sequence[int], pairs: Sequence[tuple[int, int]], values: Sequence[float]) -> set[int]:
    """Return the largest set of *places* without a pair; among equally large ones the most preferred."""
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


def reasons(options: Sequence[Configuration], taken: Configuration | None) -> dict[str, str]:
    """Explain why each other configuration was not taken."""
    reason_of = {}
    for option in options:
        why = option.why_not
        if not why and taken is not None:
            better = "has more answers" if taken.answers > option.answers else "is nearer to the instances wanted"
            why = f"feasible, but {taken.answers} × {taken.per_answer} {better}"
        if taken is None or option.per_answer != taken.per_answer:
            reason_of[f"{option.answers} × {option.per_answer}"] = why
    return reason_of


ONE_TO_ONE, ONE_TO_MANY = "1:1", "1:N"


class ChosenRelation(NamedTuple):
    """A relation in a variant.

    :param answers: each with as many instances as every other; none where the relation is infeasible.
    :param why: why it is infeasible, and the nearest that can be; "" where it is not.
    :param others: other configurations, and why they were not taken.
    """

    relation: str
    cardinality: str
    answers: tuple[Answer, ...]
    why: str = ""
    others: Mapping[str, str] = {}

    @property
    def total(self) -> int:
        """Instances."""
        return sum(len(answer.instances) for answer in self.answers)

    @property
    def configuration(self) -> str:
        """ "25 × 6"."""
        return f"{len(self.answers)} × {len(self.answers[0].instances)}" if self.answers else "–"


def sample(pool: FactPool, name: str, limits: Limits, plan: BearPlan) -> ChosenRelation:
    """Choose the instances of a relation in a variant, those of popular entities first.

    :param name: of the variant: in the small one the instances of 1:1 relations are drawn, as in the paper.
    """
    relation = pool.relation.property
    able, least = [], limits.least_popularity
    for answer in pool.answers:
        instances = [instance for instance in answer.instances if min(instance.popularity, answer.popularity) >= least]
        able += [answer._replace(instances=instances)] if instances else []
    tried: list[ChosenRelation] = []
    if pool.relation.cardinality != ONE_TO_ONE:
        tried.append(_settled(able, lambda answers: _one_to_many(relation, answers, limits, plan)))
    if pool.relation.cardinality != ONE_TO_MANY and not (tried and tried[0].answers):
        draw = random.Random(f"{plan.seed} {relation}") if name == "small" else None
        tried.append(_settled(able, lambda answers: _one_to_one(relation, answers, limits, plan, draw)))
    if tried[-1].answers or len(tried) == 1:
        return tried[-1]
    return tried[0]._replace(why=f"{tried[0].why}; as 1:1: {tried[1].why}")


def _settled(answers: list[Answer], choose_from: Callable[[list[Answer]], ChosenRelation]) -> ChosenRelation:
    """Repeat the choice without subjects that have another right answer in it, until there are none."""
    while True:
        relation = choose_from(answers)
        space = {answer.number for answer in relation.answers}
        wrong = {
            instance.subject for answer in relation.answers for instance in answer.instances if instance.also & space
        }
        if not wrong:
            return relation
        rest = (
            ([instance for instance in answer.instances if instance.subject not in wrong], answer) for answer in answers
        )
        answers = [answer._replace(instances=instances) for instances, answer in rest if instances]


def _one_to_many(relation: str, answers: list[Answer], limits: Limits, plan: BearPlan) -> ChosenRelation:
    space = _space(answers, plan)
    options = configurations(space, limits)
    taken = best(options, limits)
    if taken is None:
        return ChosenRelation(relation, ONE_TO_MANY, (), _infeasible(nearest(options, limits)), reasons(options, None))
    able = [place for place, answer in enumerate(answers) if len(answer.instances) >= taken.per_answer]
    values = [answer.value(taken.per_answer) for answer in answers]
    places = choose(able, space._replace(values=values), taken.answers)
    kept = (answers[place]._replace(instances=answers[place].instances[: taken.per_answer]) for place in places)
    return ChosenRelation(relation, ONE_TO_MANY, tuple(kept), "", reasons(options, taken))


def _infeasible(near: Configuration | None) -> str:
    if near is None:
        return "no answer has enough instances"
    return f"the nearest that can be is {near.answers} answers × {near.per_answer} instances: {near.why_not}"


def _one_to_one(
    relation: str, answers: list[Answer], limits: Limits, plan: BearPlan, draw: random.Random | None
) -> ChosenRelation:
    """Choose one instance of each answer, the most popular or, with *draw*, any."""
    values = [draw.random() if draw else answer.instances[0].popularity for answer in answers]
    places = choose(range(len(answers)), _space(answers, plan)._replace(values=values), limits.one_to_one)
    least = limits.one_to_one * (1 - limits.tolerance)
    if len(places) < least:
        why = f"{len(places)} answers that do not overlap, {least:.0f} to {limits.one_to_one} wanted"
        return ChosenRelation(relation, ONE_TO_ONE, (), why)
    take = draw.choice if draw else lambda instances: instances[0]
    kept = (answers[place]._replace(instances=[take(answers[place].instances)]) for place in places)
    return ChosenRelation(relation, ONE_TO_ONE, tuple(kept))


def _space(answers: list[Answer], plan: BearPlan) -> AnswerGraph:
    split = [words(answer.name) for answer in answers]
    pairs = overlapping([answer.name for answer in answers])
    conflicts = [(first, second) for first, second in pairs if not plan.overlapping or split[first] == split[second]]
    counts = [len(answer.instances) for answer in answers]
    return AnswerGraph(counts, [answer.value() for answer in answers], conflicts)
