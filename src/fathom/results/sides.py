"""What a run says of each fact, without what it said of each query: all that joint statistics of runs need.

Templates or sentences of a fact are averaged; a fact one of whose predictions was not scored is left out, and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from fathom.errors import BadInput, refuse
from fathom.metrics.table import SHARE
from fathom.results import numbers
from fathom.results.numbers import MINUS, NOTHING, Noise, Number, combined, untold
from fathom.results.rows import Floats, Ints
from fathom.results.samples import Sample, and_by_subject, drawn

Known = TypeVar("Known", bound="Side")


class Side:
    """One run in one scoring; its arrays and sequences have an entry per fact.

    :param path: of the run. :param model: what tables call its model. :param part: "key:value" where these are a part
        of the run, for its recipes.
    :param cluster: key by which queries were drawn together; "" for the default.
    :param facts: ``fact_id``, else ``query_id`` of a sentence without a known subject; in order of appearance.
    :param place: of each fact its number.
    :param scored: whether all predictions of the fact are.
    :param left_out: facts with an unscored prediction, and why.
    """

    path: str
    model: str
    probe: str
    scoring: str
    data: str
    part: str
    cluster: str
    facts: Sequence[str]
    place: Mapping[str, int]
    scored: npt.NDArray[np.bool_]
    left_out: Mapping[str, str]
    _at: tuple[Iterable[str], Ints] | None = None

    # What follows is told by those that have it, when it is asked for.

    @cached_property
    def reading(self) -> str:
        """Template-based, template-free, both (relations differ) or without templates."""
        raise NotImplementedError

    @cached_property
    def wording(self) -> str:
        """Plain, through a chat template, or behind its shuffled tokens."""
        raise NotImplementedError

    @cached_property
    def why_untold(self) -> str:
        """Of facts that are scored and whose value cannot be told: why."""
        raise NotImplementedError

    @cached_property
    def recipe_without_name(self) -> str:
        """How its numbers were made; see :func:`fathom.results.numbers.recipe`."""
        raise NotImplementedError

    @cached_property
    def relations(self) -> Sequence[str]:
        """Of each fact, "" where it has none."""
        raise NotImplementedError

    @cached_property
    def subjects(self) -> Sequence[str | None]:
        """Id of each fact's subject; None where it has none."""
        raise NotImplementedError

    @cached_property
    def labels(self) -> Sequence[str | None]:
        """Of each fact by the key of clusters; None where it has none."""
        raise NotImplementedError

    @cached_property
    def spaces(self) -> Sequence[str]:
        """Digest of the candidates of each fact that were ranked, whatever their order."""
        raise NotImplementedError

    @cached_property
    def sizes(self) -> Floats:
        """Number of candidates of each fact."""
        raise NotImplementedError

    @cached_property
    def beyond(self) -> Floats:
        """Of each fact the least rank at which a search for it stopped; infinite where none did."""
        raise NotImplementedError

    @cached_property
    def mean_ranks(self) -> Floats:
        """Of each fact's predictions, infinite where a search stopped; NaN where it is left out."""
        raise NotImplementedError

    @cached_property
    def mean_log_ranks(self) -> Floats:
        """Mean decimal logarithms of ranks; likewise."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """Probe, scoring and model."""
        return f"{self.probe} {self.scoring} {self.model}"

    @property
    def told_by(self) -> tuple[str, str, str, str, str, str, str]:
        """What may tell it apart from other sides, the model first, the folder last."""
        return self.model, self.probe, self.scoring, self.data, self.reading, self.wording, self.path

    @cached_property
    def stopped(self) -> set[str]:
        """Facts whose rank is only known to be greater than some number."""
        return {
            fact for fact, known in zip(self.facts, (self.beyond == np.inf) | ~self.scored, strict=True) if not known
        }

    def at(self, facts: Iterable[str]) -> Ints:
        """Where these facts stand in the arrays of facts."""
        if self._at is None or self._at[0] is not facts:  # the same list is asked for again and again
            self._at = facts, np.array([self.place[fact] for fact in facts], dtype=np.int64)
        return self._at[1]

    def relations_of(self, facts: Iterable[str]) -> list[str]:
        """Of these facts."""
        return [self.relations[place] for place in self.at(facts).tolist()]

    def subjects_of(self, facts: Iterable[str]) -> list[str | None]:
        """Ids; None where a fact has none."""
        return [self.subjects[place] for place in self.at(facts).tolist()]

    def cluster_label(self, fact: str) -> str | None:
        """Of one fact by the key of clusters; None where it has none."""
        return self.labels[self.place[fact]]

    def sample(self, facts: Iterable[str]) -> Sample:
        """How these facts were drawn."""
        places = self.at(facts).tolist()
        return drawn(self.cluster, [self.relations[at] for at in places], (self.labels[at] for at in places))

    def two_way_sample(self, facts: Sequence[str]) -> Sample:
        """How these facts were drawn; by default by subject as well as by relation, see :func:`and_by_subject`."""
        own = self.sample(facts)
        return own if self.cluster else and_by_subject(own, self.subjects_of(facts))

    def told(self) -> Sequence[str]:
        """The facts that are not left out."""
        return self._told

    @cached_property
    def _told(self) -> Sequence[str]:
        return self.facts if self.scored.all() else [fact for fact in self.facts if fact not in self.left_out]

    def recipe(self, name: str) -> str:
        """Of a number of this run's facts: templates or sentences are averaged within each, and facts count alike."""
        return f"{name}{self.recipe_without_name}|mean:facts{f'|{self.part}' if self.part else ''}"

    def mean(
        self, name: str, values: Floats, facts: Sequence[str] | None = None, sample: Sample | None = None
    ) -> Number:
        """Mean of shares over facts, by default those that are not left out, with its interval; without a value where
        there are no facts, or the share of one cannot be told.

        :param name: of the number, for its recipe.
        :param values: of each fact, such as shares of hits.
        :param sample: how the facts were drawn, where it is known already.
        """
        chosen = self.told() if facts is None else facts
        told, made = values[self.at(chosen)], self.recipe(name)
        if not len(told) or np.isnan(told).any():
            return untold(self.why_untold if len(told) else NOTHING, made)
        return numbers.mean(told, sample or self.sample(chosen), made)


def difference(
    name: str,
    signed: Sequence[tuple[int, Side]],
    values: Sequence[Floats],
    facts: Sequence[str],
    sample: Sample | None = None,
) -> Number:
    """Σ sign · value over facts that all have, paired by fact, with interval and p value; without a value where that of
    one cannot be told.

    :param name: of the number, for its recipe.
    :param signed: +1 or −1 and the side.
    :param values: of each side's facts.
    :param facts: in common.
    :param sample: how these were drawn, where it is known already.
    """
    terms = [sign * own[outcome.at(facts)] for (sign, outcome), own in zip(signed, values, strict=True)]
    plus = sum(sign > 0 for sign, _ in signed)
    made = combined(name, [outcome.recipe("") for _, outcome in signed], _between(signed))
    if np.isnan(terms).any():
        return untold(
            next(o.why_untold for (_, o), own in zip(signed, terms, strict=True) if np.isnan(own).any()), made
        )
    limits = (float(plus - len(signed)), float(plus))
    how = sample or signed[0][1].sample(facts)
    return numbers.difference(np.sum(terms, axis=0), np.zeros(len(facts)), how, made, limits)


def over_seeds(
    name: str,
    trainings: Sequence[Sequence[tuple[int, Known]]],
    values: Callable[[Known], Floats],
    limits: tuple[float, float] = SHARE,
) -> tuple[Number, Noise]:
    """Σ sign · value over the facts that all have, paired by fact and by seed, with interval, for other facts and other
    seeds; of several sides the p value, too. Without a value where that of one fact cannot be told.

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
    return numbers.over_seeds(told.sum(axis=1), signed[0][1].sample(facts), made, (float(low), float(high)), tested)


def _between(signed: Sequence[tuple[int, Side]]) -> str:
    """What stands between recipes: the sign of a plain difference."""
    return MINUS if [sign for sign, _ in signed] in ([1, -1], [-1, 1]) else " and "


def common_facts(outcomes: Sequence[Side], same_candidates: bool = True) -> Sequence[str]:
    """Facts that all scored, in the order of the first.

    :param same_candidates: False where other candidates are the question.
    :raises BadInput: none, or ranked among other candidates.
    """
    first, *others = outcomes
    refuse(f"{one.path} has no ranked facts at all" for one in outcomes if not one.told())
    both = first.told()
    for other in others:
        if other.told() != first.told():
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
                    "and selection, of names that both can rank (fathom study pools compares answer pools)"
                )
    return both
