"""Statistics of several runs over the facts that all of them scored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from fathom.base.errors import BadInput, refuse
from fathom.base.reading import first_few
from fathom.results import estimates
from fathom.results.estimates import Estimate, Noise, point_estimate
from fathom.results.facts import RunFacts
from fathom.results.metrics.table import SHARE
from fathom.results.recipes import MINUS, combined
from fathom.results.rows import Floats
from fathom.results.samples import Sample


def difference(
    name: str,
    first: RunFacts,
    second: RunFacts,
    values: Sequence[Floats],
    facts: Sequence[str],
    sample: Sample | None = None,
    form: str = "+.1%",
) -> Estimate:
    """Return the mean over facts of first − second, paired by fact; undefined where a fact has no value.

    :param name: of the number, for its recipe.
    :param values: one per fact of each side.
    :param sample: how these were drawn, if already known.
    """
    sides = (first, second)
    terms = [own[side.at(facts)] for side, own in zip(sides, values, strict=True)]
    recipe = combined(name, [side.recipe("") for side in sides])
    if np.isnan(terms).any():
        why = next(side.why_undefined for side, own in zip(sides, terms, strict=True) if np.isnan(own).any())
        return point_estimate(why, recipe, form=form)
    drawn = sample or first.sample(facts)
    return estimates.difference(terms[0], terms[1], drawn, recipe, form=form)


def over_seeds(
    name: str,
    trainings: Sequence[Sequence[tuple[int, RunFacts]]],
    values: Callable[[RunFacts], Floats],
    limits: tuple[float, float] = SHARE,
) -> tuple[Estimate, Noise]:
    """Return the mean over facts of Σ sign · value, paired by fact and by seed, for other facts and other seeds.

    With a p value for several sides; undefined where a fact has no value.

    :param trainings: for each seed +1 or −1 and the side, in the same order.
    :param values: takes a side and returns one per fact, between *limits*.
    :raises BadInput: no fact in common, or other candidates.
    """
    signed = trainings[0]
    sides = [[training[place][1] for training in trainings] for place in range(len(signed))]
    facts = common_facts([side for seeds in sides for side in seeds])
    recipes = [combined("", [side.recipe("") for side in seeds], " or ") for seeds in sides]
    recipe = combined(name, recipes, MINUS if [sign for sign, _ in signed] == [1, -1] else " and ")
    terms = np.array([[sign * values(side)[side.at(facts)] for sign, side in training] for training in trainings])
    if np.isnan(terms).any():
        whys = (side.why_undefined for seeds in sides for side in seeds if np.isnan(values(side)[side.at(facts)]).any())
        return point_estimate(next(whys), recipe), Noise(len(trainings))
    low, high = np.sum([[limits[sign < 0] * sign, limits[sign > 0] * sign] for sign, _ in signed], axis=0)
    sample, ends = signed[0][1].sample(facts), (float(low), float(high))
    return estimates.over_seeds(terms.sum(axis=1), sample, recipe, ends, len(signed) > 1)


def common_facts(outcomes: Sequence[RunFacts], same_candidates: bool = True) -> Sequence[str]:
    """Return the facts that all scored, in the order of the first.

    :param same_candidates: False if other candidates are the question.
    :raises BadInput: none, ranked among other candidates, or with one correct answer here and several there.
    """
    first, *others = outcomes
    refuse(f"{one.path} has no ranked facts at all" for one in outcomes if not one.scored_facts)
    both = first.scored_facts
    refuse(line for other in others for line in _other_answers(first, other))
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
                    f"{other.sizes[theirs]:.0f} others: use the same --pool, --candidates, --single-token and "
                    "selection for both, of names that both can rank"
                )
    return both


def _other_answers(first: RunFacts, second: RunFacts) -> Iterator[str]:
    """Yield a line if facts have several correct answers in one of two runs and a single one in the other.

    In reverse, each answer is asked for by itself.
    """
    if first.options.get("reverse") != second.options.get("reverse"):
        return
    for several, single in ((first, second), (second, first)) if first.facts != second.facts else ():
        heads = {fact.removesuffix("*"): fact for fact in several.facts if fact.endswith("|*")}
        absent = {start for start, fact in heads.items() if fact not in single.place}
        differing = absent.intersection(fact[: fact.rfind("|") + 1] for fact in single.facts) if absent else ()
        if differing:
            yield (
                f"{len(differing):,} facts have several correct answers in {several.path} and one in {single.path}: "
                f"{first_few([heads[start] for start in heads if start in differing])}; "
                "evaluate both models on the same version of the data"
            )
