"""From the pool of a relation to its instances in each variant."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from fathom.building.bear.balance import AnswerGraph, Configuration, best, choose, configurations, nearest, reasons
from fathom.building.bear.names import overlapping, words
from fathom.building.bear.plan import BearPlan, Limits
from fathom.building.bear.pools import Answer, FactPool, Instance

ONE_TO_ONE, ONE_TO_MANY = "1:1", "1:N"
Chooser = Callable[[list["Answer"]], "ChosenRelation"]


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
    """The instances of a relation in a variant, those of popular entities first.

    :param name: of the variant: in the small one the instances of 1:1 relations are drawn, as in the paper.
    """
    relation = pool.relation.property
    able = _popular(pool.answers, limits.least_popularity)
    tried: list[ChosenRelation] = []
    if pool.relation.cardinality != ONE_TO_ONE:
        tried.append(_settled(able, lambda answers: _one_to_many(relation, answers, limits, plan)))
    if pool.relation.cardinality != ONE_TO_MANY and not (tried and tried[0].answers):
        draw = random.Random(f"{plan.seed} {relation}") if name == "small" else None
        tried.append(_settled(able, lambda answers: _one_to_one(relation, answers, limits, plan, draw)))
    if tried[-1].answers or len(tried) == 1:
        return tried[-1]
    return tried[0]._replace(why=f"{tried[0].why}; as 1:1: {tried[1].why}")


def _popular(answers: Iterable[Answer], least: int) -> list[Answer]:
    """Those popular enough, with those of their instances that are."""
    kept = (
        answer._replace(instances=[one for one in answer.instances if one.popularity >= least])
        for answer in answers
        if answer.popularity >= least
    )
    return [answer for answer in kept if answer.instances]


def _settled(answers: list[Answer], choose_from: Chooser) -> ChosenRelation:
    """A choice in which no subject has another right answer: subjects that have one are taken out, and it is made anew.

    Each round takes subjects out, so that it ends.
    """
    while True:
        chosen = choose_from(answers)
        space = {answer.number for answer in chosen.answers}
        wrong = {one.subject for answer in chosen.answers for one in answer.instances if one.also & space}
        if not wrong:
            return chosen
        answers = [_without(answer, wrong) for answer in answers]
        answers = [answer for answer in answers if answer.instances]


def _without(answer: Answer, subjects: set[int]) -> Answer:
    return answer._replace(instances=[one for one in answer.instances if one.subject not in subjects])


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
    """One instance of each answer, the most popular or, with *draw*, any."""
    values = [draw.random() if draw else answer.instances[0].popularity for answer in answers]
    space = _space(answers, plan)._replace(values=values)
    places = choose(range(len(answers)), space, limits.one_to_one)
    least = limits.one_to_one * (1 - limits.tolerance)
    if len(places) < least:
        why = f"{len(places)} answers that do not overlap, {least:.0f} to {limits.one_to_one} wanted"
        return ChosenRelation(relation, ONE_TO_ONE, (), why)
    kept = (answers[place]._replace(instances=[_one(answers[place].instances, draw)]) for place in places)
    return ChosenRelation(relation, ONE_TO_ONE, tuple(kept))


def _one(instances: list[Instance], draw: random.Random | None) -> Instance:
    return draw.choice(instances) if draw else instances[0]


def _space(answers: list[Answer], plan: BearPlan) -> AnswerGraph:
    said = [words(answer.name) for answer in answers]
    pairs = overlapping([answer.name for answer in answers])
    conflicts = [(one, other) for one, other in pairs if not plan.overlapping or said[one] == said[other]]
    counts = [len(answer.instances) for answer in answers]
    return AnswerGraph(counts, [answer.value() for answer in answers], conflicts)
