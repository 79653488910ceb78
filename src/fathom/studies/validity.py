"""Which probe tells facts that a model has read from facts that it has not, and how wrong can it be?

For planted models, whose knowledge is known (``fathom plant``):

- *AUROC*: how often a fact read most often is preferred more clearly than one never read, by the margin of the gold
  answer over the best other candidate, and by its rank. Its control: two random halves of the facts never read.
- *Biases at constant truth*: correlation of the rank with the answer's length, its frequency in the training texts and
  its place among the candidates, within facts of one relation that were read equally often.
- *Corrections*: AUROC by scores less a prior of the answers: that of *other subjects*, each candidate's mean score over
  the other queries of the same relation and template, or of *no subject*, its score in a run with ``--alter
  no-subject`` (the difference is the pointwise mutual information of Holtzman et al. 2021).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property, partial
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from fathom.base.errors import BadInput
from fathom.results.claims import Claim, Contrast, Decision, decide, percent
from fathom.results.discrimination import Mask, above_chance, auroc, auroc_difference
from fathom.results.estimates import Estimate, combined, correlation_within, measure
from fathom.results.facts import RunFacts
from fathom.results.loading import Design, design_of, distinguished, short_names
from fathom.results.metrics.significance import POWER
from fathom.results.metrics.table import metric
from fathom.results.rows import Floats, Ints, Rows, best_gold, grouped
from fathom.results.samples import Sample
from fathom.results.tables import Axes, Plot, Table
from fathom.store.folder import RunFolder
from fathom.studies.options import ValidityOptions

NO_SUBJECT = "no-subject"
CONTROL, VALID = "control", "valid"
"""Kinds of claims on each probe, in addition to its biases."""


class Validity(NamedTuple):
    """:param pairs: correlation of the ranks of two probes of a model within relations and exposures.
    :param decisions: by kind (:data:`CONTROL`, :data:`VALID`, or a bias), model and name of the probe.
    :param practised: facts of a run that were practised, or are not in the design.
    :param left_out: probes that scored too few facts, with the reason.
    """

    probes: list[ProbeValidity]
    pairs: list[Row]
    decisions: Mapping[tuple[str, str, str], Decision]
    practised: int
    left_out: list[str]


def analyse(runs: Sequence[RunFolder], options: ValidityOptions = ValidityOptions()) -> Validity:
    """Compare what probes say with what models have read.

    :param runs: of planted models; one with ``--alter no-subject`` gives the prior of another run of the same probe.
    :raises BadInput: a model without a design, a design of other data, too few facts in one of its classes.
    """
    priors = {_probe_and_model(run): run for run in runs if _alteration(run) == NO_SUBJECT}
    asked = [run for run in runs if _alteration(run) != NO_SUBJECT]
    probes: list[Probe] = []
    for run, model in zip(asked, short_names(asked), strict=True):
        rows, design = Rows(run, cluster=options.cluster), design_of(run, options.design)
        prior = Rows(priors[_probe_and_model(run)]) if _probe_and_model(run) in priors else None
        wanted = [name for name in rows.scorings if not options.scoring or name in options.scoring]
        probes += [Probe(RunFacts(run, rows, name, model), design, prior, options.seed) for name in wanted]
    if not probes:
        none = f"no run has --scoring {','.join(options.scoring)}: leave it out"
        raise BadInput(none if options.scoring else "no run to analyse")
    _distinguish(probes)
    left_out = [probe.too_few() for probe in probes if probe.too_few()]
    probes = [probe for probe in probes if not probe.too_few()]
    if not probes:
        raise BadInput([*left_out, "plant more facts, or evaluate more of them (--limit)"])
    pairs = [
        {"model": first.facts.model, "probe": first.name, "and": second.name, "Pearson r": first.agreement(second)}
        for first, second in combinations(probes, 2)
        if first.facts.content_hash == second.facts.content_hash and first.facts.path != second.facts.path
    ]
    validities = [probe.validity() for probe in probes]
    decisions = decide(
        {(kind, probe.model, probe.name): claim for probe in validities for kind, claim in _claims(probe).items()}
    )
    practised = max(probe.practised for probe in probes)
    return Validity(validities, pairs, decisions, practised, left_out)


def _claims(validity: ProbeValidity) -> dict[str, Claim]:
    """Declare what a scoring may show: its control, that it is valid, and its biases."""
    beyond, lacking = validity.numbers["over frequency"], "answers without a training frequency"
    frequency = Contrast("AUROC − that of training frequency", beyond, 1, lacking)
    claims = {
        CONTROL: Claim(validity.name, (Contrast("AUROC − 0.5 of two halves", validity.numbers["halves"]),)),
        VALID: Claim(
            f"{validity.name} distinguishes facts read from facts never read",
            (Contrast("AUROC − 0.5", validity.above, 1), frequency),
        ),
    }
    for name in BIASES:
        claims[name] = Claim(f"{validity.name} {name}", (Contrast("correlation", validity.biases[name][0]),))
    return claims


def _distinguish(probes: Sequence[Probe]) -> None:
    """Add to equal names of one model's probes the settings that distinguish them."""
    for of_model in grouped((probe.facts.model, probe) for probe in probes).values():
        parts = [{"name": probe.name, **probe.facts.distinguishing} for probe in of_model]
        for probe, name in zip(of_model, distinguished(parts), strict=True):
            probe.name = name


def _alteration(run: RunFolder) -> str:
    return str(run.manifest["identity"]["options"].get("alter"))


def _probe_and_model(run: RunFolder) -> tuple[str, ...]:
    identity = run.manifest["identity"]
    of_data = str(identity["data"].get("content_hash")), str(identity["options"].get("pll"))
    return str(identity["probe"]), str(identity["model"]["content_hash"]), *of_data


# --- in words


def conclude(findings: Validity) -> list[str]:
    by_model = grouped((probe.model, probe) for probe in findings.probes)
    return [sentence for of_model in by_model.values() for sentence in _of_model(of_model, findings.decisions)]


def _of_model(probes: Sequence[ProbeValidity], decisions: Mapping[tuple[str, str, str], Decision]) -> list[str]:
    """Return three to six sentences on the probes of one model."""
    model = probes[0].model
    failed = [probe for probe in probes if decisions[CONTROL, model, probe.name].holds]
    concluded = []
    if failed:
        names = ", ".join(probe.name for probe in failed)
        concluded.append(
            f"{model}: control failed for {names}, whose AUROC shows nothing: two halves of the facts never read "
            "differ as well."
        )
    valid = {probe.name: decisions[VALID, model, probe.name] for probe in probes}
    sound = [probe for probe in probes if valid[probe.name].holds and probe not in failed]
    if not sound:
        smallest = _largest_smallest(list(valid.values()))
        found = f"; an AUROC of {0.5 + smallest:.2f} would have been found" if smallest else ""
        none = "no probe significantly distinguishes facts that it has read from facts that it has not"
        return concluded or [f"{model}: {none}{found}."]
    best = max(sound, key=lambda probe: probe.numbers["AUROC"].value)
    read, chance, fastest = best.levels[-1]["exposures"], best.numbers["chance"], min(sound, key=_seconds)
    concluded += [
        f"{model}: {best.name} is the best of {len(probes)} scorings: a fact read {read} times ranks better "
        f"than one never read in {best.numbers['AUROC'].shown('.1%')} of pairs.",
        f"How wrong it can be: it has {percent(best.numbers['never read'].value)} of the facts never read right"
        f"{'' if chance is None else f' (chance {percent(chance)})'}, and misses "
        f"{percent(1 - best.numbers['read'].value)} of those read {read} times.",
    ]
    if others := [f"{probe.name} {probe.numbers['AUROC'].value:.2f}" for probe in probes if probe is not best]:
        concluded.append(f"AUROC of the others: {', '.join(others)}.")
    concluded += _of_biases(probes, decisions)
    concluded.append(f"The cheapest of these is {fastest.name}: {_seconds(fastest):.1f} s per 1,000 facts.")
    return concluded


def _largest_smallest(decisions: Sequence[Decision]) -> float | None:
    """Return the effect that each of the tests finds in 80 % of cases; None if unknown of all."""
    return max((decision.smallest for decision in decisions if decision.smallest is not None), default=None)


def _seconds(probe: ProbeValidity) -> float:
    return float(probe.numbers["s per 1,000"])


def _of_biases(probes: Sequence[ProbeValidity], decisions: Mapping[tuple[str, str, str], Decision]) -> list[str]:
    """Return a sentence on the probes whose ranks of facts never read depend on a property of the answer."""
    favours = {"length": ("short", "long"), "frequency": ("rare", "frequent"), "position": ("early", "late")}
    tested = [(name, probe, decisions[name, probe.model, probe.name]) for name in BIASES for probe in probes]
    by_kind = grouped(
        (
            f"{favours[name][0 if decision.sign > 0 else 1]} answers",
            f"{probe.name} ({probe.biases[name][0].value:+.2f})",
        )
        for name, probe, decision in tested
        if decision.holds
    )
    if not by_kind:
        smallest = _largest_smallest([decision for _, _, decision in tested])
        text = "No scoring significantly favours answers by length, frequency or position"
        found = f"; one of {smallest:.2f} would have been found in {100 * POWER:.0f} % of cases" if smallest else ""
        return [f"{text}{found}."]
    listed = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in by_kind.items())
    return [f"Among facts never read, these favour {listed}."]


# --- tables and plots


def tables(findings: Validity) -> list[Table]:
    notes = [
        "AUROC: how often a fact read most often is preferred to one never read; 0.5 is chance",
        "halves: AUROC − 0.5 of two random halves of the facts never read, the control",
        "over frequency: AUROC − that of the answers' training frequency alone, to which a fact's own statements add",
    ]
    if findings.practised:
        notes.append(f"{findings.practised} facts that were practised, or are not in the design, are excluded")
    notes += findings.left_out
    biases = [(probe.model, probe.name, name, *probe.biases[name]) for probe in findings.probes for name in BIASES]
    corrections = [
        (probe.model, probe.name, name, number)
        for probe in findings.probes
        for name, number in probe.corrections.items()
    ]
    made = [
        Table.of(
            [{"model": probe.model, "probe": probe.name} | probe.numbers for probe in findings.probes],
            "validity of probes",
            notes,
            main="AUROC",
            hidden=["by score p", "halves p", "over frequency p"],
            formats={"chance": ".1%", "s per 1,000": ".1f"},
        ),
        Table.of(
            [
                {"model": probe.model, "probe": probe.name} | level
                for probe in findings.probes
                for level in probe.levels
            ],
            "by exposures",
            main="accuracy",
            inline=True,
        ),
        Table.of(
            biases,
            "correlation of rank and a property of the answer, within relations",
            ("positive: the probe favours short, rare or early answers",),
            columns=("model", "probe", "property", "never read", "read"),
            main="never read",
            inline=True,
        ),
    ]
    if corrections:
        title = "change of AUROC when a prior of the answers is subtracted"
        made.append(Table.of(corrections, title, columns=("model", "probe", "prior of", "change"), main="change"))
    if findings.pairs:
        title = "agreement of probes among facts read equally often: correlation of log10 ranks"
        made.append(Table.of(findings.pairs, title, main="Pearson r"))
    return made


def plots(findings: Validity) -> list[Plot]:
    by_model = grouped((probe.model, probe) for probe in findings.probes)
    return [
        Plot(f"validity-{number}", partial(_draw, probes), "exposures", "Acc@1", model)
        for number, (model, probes) in enumerate(by_model.items())
    ]


def _draw(probes: Sequence[ProbeValidity], axes: Axes) -> None:
    for probe in probes:
        xs = [level["exposures"] for level in probe.levels]
        axes.plot(xs, [level["accuracy"].value for level in probe.levels], marker="o", markersize=3, label=probe.name)
    axes.set_xscale("symlog", linthresh=1)
    axes.set_xticks(sorted({level["exposures"] for probe in probes for level in probe.levels}))
    axes.legend(fontsize=6)


# --- estimates


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
            corrected = None if name == "no subject" and prior is None else without_prior(rows, facts.scoring, prior)
            if corrected is not None:
                what = f"AUROC less the prior of {name} − AUROC"
                corrections[name] = self._auroc_difference(what, self._per_fact(corrected.place), places)
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
        biases = {
            name: (self._bias(name, places, values, 0), self._bias(name, places, values, self.most))
            for name, values in self._properties().items()
        }
        return ProbeValidity(facts.model, self.name, numbers, above, levels, biases, corrections)

    @cached_property
    def preferences(self) -> Preference:
        """Margin and rank of each used fact, see :class:`Preference`."""
        return Preference(*map(self._per_fact, preference(self.facts.rows, self.facts.scoring)))

    @cached_property
    def place_of(self) -> dict[str, float]:
        """Preference by rank of each used fact that has one."""
        values = self.preferences.place.tolist()
        return {fact: value for fact, value in zip(self.used, values, strict=True) if not np.isnan(value)}

    def agreement(self, probe: Probe) -> Estimate:
        """Correlate the ranks that two probes give the same facts, within relations and exposures."""
        common = [fact for fact in self.place_of if fact in probe.place_of]
        first, second = (np.array([side.place_of[fact] for fact in common]) for side in (self, probe))
        level = dict(zip(self.used, self.exposures.tolist(), strict=True))
        relations = self.facts.relations_of(common)
        cells = [f"{relation}|{level[fact]}" for relation, fact in zip(relations, common, strict=True)]
        recipes = [side.facts.recipe("") for side in (self, probe)]
        recipe = combined("agreement at constant truth", recipes, " and ")
        return correlation_within(first, second, cells, self.facts.sample(common), recipe)

    def _per_fact(self, values: Floats) -> Floats:
        return self.facts.per_fact(values)[self.facts.at(self.used)]

    def _classes(self, level: int, *values: Floats) -> tuple[Ints, Sample, Mask]:
        """Return the facts never read, or read so often, that have all values: places, sample, and which were read."""
        is_used = np.isin(self.exposures, (0, level)) & ~np.isnan(values).any(axis=0)
        places = np.flatnonzero(is_used)
        sample = self.facts.sample([self.used[at] for at in places.tolist()])
        return places, sample, self.exposures[places] == level

    def _auroc(self, name: str, values: Floats, level: int, estimate: Callable[..., Estimate] = auroc) -> Estimate:
        """Return the AUROC of facts read so often against those never read, by some values."""
        places, sample, is_read = self._classes(level, values)
        return estimate(values[places], is_read, sample, self.facts.recipe(f"AUROC by {name}"), designed=True)

    def _auroc_difference(self, name: str, first: Floats, second: Floats) -> Estimate:
        places, sample, is_read = self._classes(self.most, first, second)
        recipe = self.facts.recipe(name)
        return auroc_difference(first[places], second[places], is_read, sample, recipe)

    def _halves(self, values: Floats) -> Estimate:
        """Return AUROC − 0.5 of one random half of the facts never read against the other."""
        unread = np.flatnonzero((self.exposures == 0) & ~np.isnan(values))
        is_first = np.random.default_rng(self.seed).permutation(len(unread)) < len(unread) / 2
        sample = self.facts.sample([self.used[at] for at in unread.tolist()])
        recipe = self.facts.recipe("AUROC − 0.5 of halves")
        return above_chance(values[unread], is_first, sample, recipe, designed=True)

    def _level(self, places: Floats, level: int) -> Row:
        facts = [fact for fact, exposures in zip(self.used, self.exposures.tolist(), strict=True) if exposures == level]
        accuracy = self.facts.mean("accuracy", self.facts.hits(1), facts)
        of_rank = self._auroc("rank", places, level) if level else None
        return {"exposures": level, "facts": accuracy.n, "accuracy": accuracy, "AUROC": of_rank}

    def _properties(self) -> dict[str, Floats]:
        """Return length, training frequency and candidate position of each used fact's gold answer."""
        rows, facts = self.facts.rows, self.facts
        lengths: list[int] = []
        positions: list[float] = []
        for place in facts.places[facts._first[facts.at(self.used)]].tolist():
            query = int(rows.query[place])
            lengths.append(
                len(rows.names.get(rows.spaces[query] or "", {}).get(rows.gold[query][0], rows.gold[query][0]))
            )
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
        index = np.flatnonzero((self.exposures == level) & ~np.isnan(places) & ~np.isnan(values))
        facts = [self.used[at] for at in index.tolist()]
        relations, sample = self.facts.relations_of(facts), self.facts.sample(facts)
        recipe = self.facts.recipe(f"correlation of log10 rank and {name} within relations")
        return correlation_within(values[index], -places[index], relations, sample, recipe)


def _training_frequency(design: Design, relations: Collection[str]) -> dict[tuple[str, str], int]:
    """Return how many statements with each answer of each relation were read."""
    counts: dict[tuple[str, str], int] = {}
    for fact, entry in design.items():
        parts = fact.split("|")  # a name may have this sign, too
        at = next((place for place, part in enumerate(parts) if place and part in relations), None)
        if at is not None:
            key = parts[at], "|".join(parts[at + 1 :])
            counts[key] = counts.get(key, 0) + entry.exposures
    return counts


# --- corrections


class Preference(NamedTuple):
    """Values per prediction of a run, shape (n); NaN where unknown.

    :param margin: score of the best gold answer less that of the best other candidate, in the unit of the scoring.
    :param place: minus the decimal logarithm of the gold answer's rank, so that more is better.
    """

    margin: Floats
    place: Floats


def preference(rows: Rows, scoring: str) -> Preference:
    """Return the preference as scored. Written and chosen answers, which have no rank, have their credit for both."""
    margin, credit = np.full(len(rows.rank), np.nan), rows.correct
    tops = rows.table.select(["top_ids", "top_scores", "gold_scores"])
    for place in rows.of(scoring).tolist():
        if len(rows.scores(place)):
            margin[place], _ = _margin_and_rank(rows, place, rows.scores(place))
        elif (golds := tops["gold_scores"][place].as_py()) and (ids := tops["top_ids"][place].as_py()):
            right = rows.right_ids(int(rows.query[place]))
            others = zip(ids, tops["top_scores"][place].as_py(), strict=True)
            best = next((score for id_, score in others if id_ not in right), np.nan)
            gold = golds[best_gold(golds)]
            margin[place] = np.nan if gold is None else gold - best
    has_rank = ~np.isnan(rows.rank)
    return Preference(
        np.where(has_rank, margin, credit), np.where(has_rank, -np.log10(np.fmax(rows.rank, 1)), credit)
    )  # fmt: skip


def without_prior(rows: Rows, scoring: str, no_subject: Rows | None = None) -> Preference | None:
    """Return the preference by scores less the prior; None if the run does not store the scores of all candidates.

    :param no_subject: run from whose scores the prior is taken; by default that of other subjects.
    """
    margin, place = (np.full(len(rows.rank), np.nan) for _ in range(2))
    priors: dict[_Key, Floats] | None = None
    if no_subject is not None:
        of_run = _groups(no_subject, scoring)
        priors = {key: np.nanmean(_finite(no_subject, places), axis=0) for key, places in of_run.items()}
    for key, places in _groups(rows, scoring).items():
        matrix = _finite(rows, places)
        prior = _mean_of_others(matrix) if priors is None else priors.get(key)
        if prior is None or prior.shape[-1] != matrix.shape[-1]:
            continue
        for at, scores in zip(places, matrix - prior, strict=True):
            margin[at], rank = _margin_and_rank(rows, at, scores)
            place[at] = -np.log10(rank)
    return None if np.isnan(margin).all() else Preference(margin, place)


_Key = tuple[str, int, str | None]


def _groups(rows: Rows, scoring: str) -> Mapping[_Key, list[int]]:
    """Return predictions with the scores of all candidates by relation, template and candidates."""
    places = (place for place in rows.of(scoring).tolist() if rows.scored[place] and len(rows.scores(place)))
    queries = ((place, int(rows.query[place])) for place in places)
    return grouped(
        ((rows.relations[query], int(rows.template[place]), rows.spaces[query]), place) for place, query in queries
    )


def _finite(rows: Rows, places: list[int]) -> Floats:
    """Return the scores of all candidates, shape (places, candidates); NaN for those that could not be ranked."""
    matrix = np.stack([rows.scores(place) for place in places])
    return np.where(np.isfinite(matrix), matrix, np.nan)


def _mean_of_others(matrix: Floats) -> Floats | None:
    """Return the mean of the other rows for each row, shape (n, candidates); None for a single row."""
    if len(matrix) == 1:
        return None
    is_finite = np.isfinite(matrix)
    return np.asarray(
        (np.nansum(matrix, axis=0) - np.nan_to_num(matrix)) / np.fmax(is_finite.sum(axis=0) - is_finite, 1)
    )


def _margin_and_rank(rows: Rows, place: int, scores: Floats) -> tuple[float, float]:
    """Return the best gold answer's score less that of the best wrong candidate, and its realistic rank among these."""
    gold = rows.gold_places(place)
    if not gold:
        return np.nan, np.nan
    right = [*gold, *rows.candidate_places(place, rows.known[int(rows.query[place])] or ())]
    best, wrong = np.nanmax(scores[gold]), np.delete(scores, right)
    margin = float(best - np.nanmax(wrong)) if len(wrong) else np.nan
    return margin, float(1 + np.count_nonzero(wrong > best) + np.count_nonzero(wrong == best) / 2)
