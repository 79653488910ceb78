"""Estimates of one probe's validity on a planted model, whose knowledge is known (``fathom plant``).

- *AUROC*: how often a fact read most often is preferred more clearly than one never read, by the margin of the gold
  answer over the best other candidate, and by its rank. Its control: two random halves of the facts never read.
- *Biases at constant truth*: correlation of the rank with the answer's length, its frequency in the training texts and
  its place among the candidates, within facts of one relation that were read equally often.
- *Corrections*: AUROC by scores less a prior of the answers, see :mod:`fathom.results.corrections`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fathom.base.errors import BadInput
from fathom.results.corrections import Preference, preference, without_prior
from fathom.results.design import Design
from fathom.results.discrimination import above_chance, auroc, auroc_difference
from fathom.results.estimates import Estimate, correlation_within
from fathom.results.facts import RunFacts
from fathom.results.measures import measure
from fathom.results.metrics.discrimination import Mask
from fathom.results.metrics.table import metric
from fathom.results.recipes import combined
from fathom.results.rows import Floats, Ints, Rows
from fathom.results.samples import Sample

BIASES = ("length", "frequency", "position")
FEWEST = 10
"""Facts of a class without which nothing is estimated."""


Row = dict[str, Any]


class ProbeValidity(NamedTuple):
    """One scoring of one run.

    :param name: probe and scoring, with what distinguishes it from others.
    :param numbers: "AUROC": of the facts read most often against those never read, by rank; "by score": by the margin;
        "over frequency": less that of the answer's training frequency alone, the second control; "halves": AUROC − 0.5
        of one half of the facts never read against the other, the control; "chance": expected accuracy of guessing,
        None for written answers; "ECE": of softmax confidence, None without it.
    :param above: AUROC by rank − 0.5, for the claim.
    :param levels: of facts that were read equally often, "exposures", "accuracy" and "AUROC" against those never read,
        by rank; these first.
    :param biases: correlation of log10 rank with each property, of facts never read and of those read most often.
    :param corrections: AUROC by rank with a prior subtracted − AUROC without, by the name of the prior.
    """

    model: str
    name: str
    numbers: Row
    above: Estimate
    levels: list[Row]
    biases: Mapping[str, tuple[Estimate, Estimate]]
    corrections: Mapping[str, Estimate]


class Probe:
    """One scoring of a run with the exposures of its facts."""

    def __init__(self, facts: RunFacts, design: Design, prior: Rows | None, seed: int) -> None:
        self.facts, self.prior, self.seed = facts, prior, seed
        self.name = f"{facts.probe} {facts.scoring}"
        """Its name in tables; the study adds what distinguishes it from others."""
        self.used = [fact for fact in facts.scored_facts if fact in design and not design[fact].taught]
        self.practised = len(facts.scored_facts) - len(self.used)
        if not self.used:
            raise BadInput(
                f"{facts.path}: none of its {len(facts.facts)} facts is in the design of its model, such as "
                f"{facts.facts[0]}: give runs on the data that the model was planted with"
            )
        self.exposures = np.array([design[fact].exposures for fact in self.used])
        self.frequency = _training_frequency(design, set(facts.rows.relations))
        self.most = int(self.exposures.max())

    def too_few(self) -> str:
        """Return why nothing can be estimated; "" if there are enough facts."""
        for wanted, what in ((0, "never read"), (self.most, f"read {self.most} times")):
            if (count := int((self.exposures == wanted).sum())) < FEWEST or self.most == 0:
                return f"{self.name}: {count} of the facts that it scored were {what}, at least {FEWEST} are needed"
        return ""

    def validity(self) -> ProbeValidity:
        facts, rows = self.facts, self.facts.rows
        margins, places = self.preferences
        corrections = {}
        for name, prior in (("other subjects", None), ("no subject", self.prior)):
            own = None if name == "no subject" and prior is None else without_prior(rows, facts.scoring, prior)
            if own is not None:
                what = f"AUROC less the prior of {name} − AUROC"
                corrections[name] = self._auroc_difference(what, self._per_fact(own.place), places)
        frequency = self._frequencies()
        beyond = self._auroc_difference("AUROC by rank − AUROC by training frequency", places, frequency)
        seconds = float(facts.run.manifest["circumstances"].get("seconds", np.nan))
        levels = [self._level(places, level) for level in sorted({*self.exposures.tolist()})]
        sizes, asked = facts.sizes[facts.at(self.used)], np.isin(facts.fact_of, facts.at(self.used))
        numbers = {
            "AUROC": self._auroc("rank", places, self.most),
            "by score": self._auroc("margin", margins, self.most),
            "over frequency": None if np.isnan(places + frequency).all() else beyond,
            "halves": self._halves(places),
            "read": levels[-1]["accuracy"],
            "never read": levels[0]["accuracy"],
            "chance": float(np.mean(1 / sizes)) if sizes.all() else None,
            "ECE": measure(rows, metric("ece"), facts.places[asked]),
            "s per 1,000": 1000 * seconds / len(rows.query_ids),
        }
        above = self._auroc("rank", places, self.most, above_chance)
        return ProbeValidity(facts.model, self.name, numbers, above, levels, self._biases(places), corrections)

    @cached_property
    def preferences(self) -> Preference:
        """Margin and rank of each used fact, see :class:`fathom.results.corrections.Preference`."""
        return Preference(*map(self._per_fact, preference(self.facts.rows, self.facts.scoring)))

    @cached_property
    def place_of(self) -> dict[str, float]:
        """Preference by rank of each used fact that has one."""
        values = self.preferences.place.tolist()
        return {fact: value for fact, value in zip(self.used, values, strict=True) if not np.isnan(value)}

    def agreement(self, other: Probe) -> Estimate:
        """Correlate the ranks that two probes give the same facts, within relations and exposures."""
        common = [fact for fact in self.place_of if fact in other.place_of]
        first, second = (np.array([side.place_of[fact] for fact in common]) for side in (self, other))
        level = dict(zip(self.used, self.exposures.tolist(), strict=True))
        relations = self.facts.relations_of(common)
        cells = [f"{relation}|{level[fact]}" for relation, fact in zip(relations, common, strict=True)]
        recipes = [side.facts.recipe("") for side in (self, other)]
        recipe = combined("agreement at constant truth", recipes, " and ")
        return correlation_within(first, second, cells, self.facts.sample(common), recipe)

    def _per_fact(self, values: Floats) -> Floats:
        return self.facts.per_fact(values)[self.facts.at(self.used)]

    def _classes(self, level: int, *values: Floats) -> tuple[Ints, Sample, Mask]:
        """Return the facts never read, or read so often, that have all values: places, sample, and which were read."""
        known = np.isin(self.exposures, (0, level)) & ~np.isnan(values).any(axis=0)
        chosen = np.flatnonzero(known)
        sample = self.facts.sample([self.used[at] for at in chosen.tolist()])
        return chosen, sample, self.exposures[chosen] == level

    def _auroc(self, name: str, values: Floats, level: int, estimate: Callable[..., Estimate] = auroc) -> Estimate:
        """Return the AUROC of facts read so often against those never read, by some values."""
        chosen, sample, is_read = self._classes(level, values)
        return estimate(values[chosen], is_read, sample, self.facts.recipe(f"AUROC by {name}"), designed=True)

    def _auroc_difference(self, name: str, first: Floats, second: Floats) -> Estimate:
        chosen, sample, is_read = self._classes(self.most, first, second)
        recipe = self.facts.recipe(name)
        return auroc_difference(first[chosen], second[chosen], is_read, sample, recipe, designed=True)

    def _halves(self, values: Floats) -> Estimate:
        """Return AUROC − 0.5 of one random half of the facts never read against the other."""
        unread = np.flatnonzero((self.exposures == 0) & ~np.isnan(values))
        is_first = np.random.default_rng(self.seed).permutation(len(unread)) < len(unread) / 2
        sample = self.facts.sample([self.used[at] for at in unread.tolist()])
        recipe = self.facts.recipe("AUROC − 0.5 of halves")
        return above_chance(values[unread], is_first, sample, recipe, designed=True)

    def _level(self, places: Floats, level: int) -> Row:
        facts = [fact for fact, own in zip(self.used, self.exposures.tolist(), strict=True) if own == level]
        accuracy = self.facts.mean("accuracy", self.facts.hits(1), facts)
        of_rank = self._auroc("rank", places, level) if level else None
        return {"exposures": level, "facts": accuracy.n, "accuracy": accuracy, "AUROC": of_rank}

    def _biases(self, places: Floats) -> dict[str, tuple[Estimate, Estimate]]:
        properties = self._properties()
        return {
            name: (self._bias(name, places, properties[name], 0), self._bias(name, places, properties[name], self.most))
            for name in BIASES
        }

    def _properties(self) -> dict[str, Floats]:
        """Return length, training frequency and candidate position of each used fact's gold answer."""
        rows, facts = self.facts.rows, self.facts
        names = {space: dict(zip(*pair, strict=True)) for space, pair in rows.candidates.items()}
        lengths: list[int] = []
        positions: list[float] = []
        for place in facts.places[facts._first[facts.at(self.used)]].tolist():
            query = int(rows.query[place])
            lengths.append(len(names.get(rows.spaces[query] or "", {}).get(rows.gold[query][0], rows.gold[query][0])))
            positions.append(next(iter(rows.gold_places(place)), np.nan))
        frequency = np.log1p(np.fmax(self._frequencies() - self.exposures, 0))
        columns = np.array(lengths, float), frequency, np.array(positions, float)
        return dict(zip(BIASES, columns, strict=True))

    def _frequencies(self) -> Floats:
        """Return how many statements with the gold answer of each used fact were read; NaN if it is a head."""
        golds = (gold[0] for gold in self.facts.gold_ids_of(self.used))
        keys = zip(self.facts.relations_of(self.used), golds, strict=True)
        return np.array([self.frequency.get(key, np.nan) for key in keys], dtype=np.float64)

    def _bias(self, name: str, places: Floats, values: Floats, level: int) -> Estimate:
        """Correlate rank and a property within relations, among facts read equally often."""
        chosen = np.flatnonzero((self.exposures == level) & ~np.isnan(places) & ~np.isnan(values))
        facts = [self.used[at] for at in chosen.tolist()]
        relations, sample = self.facts.relations_of(facts), self.facts.sample(facts)
        recipe = self.facts.recipe(f"correlation of log10 rank and {name} within relations")
        return correlation_within(values[chosen], -places[chosen], relations, sample, recipe)


def _training_frequency(design: Design, relations: Collection[str]) -> dict[tuple[str, str], int]:
    """Return how many statements with each answer of each relation were read."""
    counts: dict[tuple[str, str], int] = {}
    for fact, own in design.items():
        parts = fact.split("|")  # a name may have this sign, too
        at = next((place for place, part in enumerate(parts) if place and part in relations), None)
        if at is not None:
            key = parts[at], "|".join(parts[at + 1 :])
            counts[key] = counts.get(key, 0) + own.exposures
    return counts
