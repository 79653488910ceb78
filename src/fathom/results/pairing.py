"""Joint statistics of several runs over the facts that all of them scored."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fathom.errors import BadInput, refuse
from fathom.metrics.table import SHARE
from fathom.results import estimates
from fathom.results.estimates import Estimate, Noise, untold
from fathom.results.facts import RunFacts
from fathom.results.recipes import MINUS, combined
from fathom.results.rows import Floats
from fathom.results.samples import Sample


def difference(
    name: str,
    signed: Sequence[tuple[int, RunFacts]],
    values: Sequence[Floats],
    facts: Sequence[str],
    sample: Sample | None = None,
    form: str = "+.1%",
) -> Estimate:
    """Σ sign · value over facts that all have, paired by fact, with interval and p value; without a value where that of
    one is undefined.

    :param name: of the number, for its recipe.
    :param signed: +1 or −1 and the side.
    :param values: of each side's facts.
    :param facts: in common.
    :param sample: how these were drawn, where it is known already.
    :param form: how readers see it.
    """
    terms = [sign * own[outcome.at(facts)] for (sign, outcome), own in zip(signed, values, strict=True)]
    plus = sum(sign > 0 for sign, _ in signed)
    made = combined(name, [outcome.recipe("") for _, outcome in signed], _between(signed))
    if np.isnan(terms).any():
        why = next(o.why_untold for (_, o), own in zip(signed, terms, strict=True) if np.isnan(own).any())
        return untold(why, made, form=form)
    limits = (float(plus - len(signed)), float(plus))
    how = sample or signed[0][1].sample(facts)
    return estimates.difference(np.sum(terms, axis=0), np.zeros(len(facts)), how, made, limits, form)


def over_seeds(
    name: str,
    trainings: Sequence[Sequence[tuple[int, RunFacts]]],
    values: Callable[[RunFacts], Floats],
    limits: tuple[float, float] = SHARE,
) -> tuple[Estimate, Noise]:
    """Σ sign · value over the facts that all have, paired by fact and by seed, with interval, for other facts and other
    seeds, and with a p value for several sides. Undefined where the value of one fact is.

    :param trainings: for each seed +1 or −1 and the side, in the same order.
    :param values: of a side's facts. :param limits: of one of them.
    :raises BadInput: no fact in common, or other candidates.
    """
    signed = trainings[0]
    every = [[sides[place][1] for sides in trainings] for place in range(len(signed))]
    facts = common_facts([side for sides in every for side in sides])
    recipes = [combined("", [side.recipe("") for side in sides], " or ") for sides in every]
    made = combined(name, recipes, _between(signed))
    told = np.array([[sign * values(side)[side.at(facts)] for sign, side in sides] for sides in trainings])
    if np.isnan(told).any():
        whys = (side.why_untold for sides in every for side in sides if np.isnan(values(side)[side.at(facts)]).any())
        return untold(next(whys), made), Noise(len(trainings))
    ends = ([limits[sign < 0] * sign, limits[sign > 0] * sign] for sign, _ in signed)
    low, high = np.sum(list(ends), axis=0)
    tested = len(signed) > 1
    return estimates.over_seeds(told.sum(axis=1), signed[0][1].sample(facts), made, (float(low), float(high)), tested)


def _between(signed: Sequence[tuple[int, RunFacts]]) -> str:
    """What stands between recipes: the sign of a plain difference."""
    return MINUS if [sign for sign, _ in signed] in ([1, -1], [-1, 1]) else " and "


def common_facts(outcomes: Sequence[RunFacts], same_candidates: bool = True) -> Sequence[str]:
    """Facts that all scored, in the order of the first.

    :param same_candidates: False where other candidates are the question.
    :raises BadInput: none, or ranked among other candidates.
    """
    first, *others = outcomes
    refuse(f"{one.path} has no ranked facts at all" for one in outcomes if not one.scored_facts)
    both = first.scored_facts
    for other in others:
        if other.scored_facts != first.scored_facts:
            both = [fact for fact in both if fact in other.place and fact not in other.left_out]
    if not both:
        raise BadInput(
            f"{', '.join(outcome.path for outcome in outcomes)} have no ranked fact in common: "
            "they need the same data, or data with the same fact_id"
        )
    for other in others if same_candidates else ():
        if (first.facts, first.spaces) == (other.facts, other.spaces):
            continue
        spaces = [list(map(side.spaces.__getitem__, side.at(both).tolist())) for side in (first, other)]
        for fact, own, its in zip(both, *spaces, strict=True) if spaces[0] != spaces[1] else ():
            if own != its:
                mine, theirs = first.place[fact], other.place[fact]
                raise BadInput(
                    f"{first.path} ranked {fact} among {first.sizes[mine]:.0f} candidates, {other.path} among "
                    f"{other.sizes[theirs]:.0f} others: ask both with the same --pool, --candidates, --single-token "
                    "and selection, of names that both can rank"
                )
    return both
