"""How often claims are wrong, intervals miss the truth, and planned samples find a difference: one table by simulation.

    python benchmarks/claims.py [--replicates 2000] [--studies 300] [--only relations contrast] [--workers 2]

Worlds are drawn of which the truth is known, at the edges too: accuracies of 0, 0.5, 97 and 99 %, one to sixty
relations, one relation with most facts, subjects by Zipf's law, ties everywhere. *rate* is the share of worlds in which
a claim is supported that is not true (claimed: at most 5 %), in which an interval contains the truth (95 %), or in
which a planned sample finds the difference (80 %). *rough* is the share of verdicts, or intervals, with that note.
*width* is the median width of intervals; 1: that of an interval by the deviation of the estimates over the worlds. The
last lines name the cells whose rate of wrong claims is significantly above 6 %, by Holm over all cells, and whose
verdicts are not called rough, and those of contrasts whose intervals miss the truth in more than 6 % or are too wide.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache
from io import StringIO
from itertools import groupby, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import harness  # noqa: F401 # so that tests can be imported
import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri
from scipy.stats import binomtest, norm, rankdata
from tests.answerers import EVEN, Answerer, answered, at_random, at_rank, by_frequency_in, short_names_first, world
from tests.results.test_frequency import skewed
from tests.studies.test_study_calibration import drawn as drawn_answers

from fathom.data.queries import CandidateSet, Query, QuerySet
from fathom.results import estimates
from fathom.results.baselines import BaselineComparison, above_chance
from fathom.results.checking import detectable
from fathom.results.claims import Claim, Contrast, Decision, decide
from fathom.results.compare import compare
from fathom.results.diff import diff
from fathom.results.estimates import Estimate
from fathom.results.facts import BY_TEMPLATE, FREE
from fathom.results.metrics.confidence import calibration_gaps, cautious_sum, debiased_sum
from fathom.results.metrics.significance import holm
from fathom.results.metrics.uncertainty import Interval, crossed
from fathom.results.samples import Sample, drawn
from fathom.results.summary import summarise
from fathom.store.files import write_json
from fathom.studies import (
    agreement,
    calibration,
    items,
    learning,
    length_bias,
    ontology,
    profile,
    repeated,
    validity,
)
from fathom.studies import relations as relations_study
from fathom.studies.options import RepeatedOptions, ValidityOptions
from fathom.studies.validity import BIASES
from fathom_kgc.links.base import MANIFEST
from fathom_kgc.studies import memory

Random = np.random.Generator
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
PILOTS = 60
"""Pilots whose median plan is taken."""
GRID = np.linspace(-6, 6, 4001)
MASS = norm.pdf(GRID) / norm.pdf(GRID).sum()


class Outcome(NamedTuple):
    """One world.

    :param event: whether what is counted happened.
    :param rough: whether the verdict, or the interval, is called rough.
    :param miss: of an interval: estimate − truth. :param width: of the interval.
    """

    event: bool
    rough: bool = False
    miss: float = float("nan")
    width: float = float("nan")


# --- facts of relations and subjects


def decided(*contrasts: Estimate, sign: int = 0, margin: float | None = None) -> Decision:
    """Decide a claim of these contrasts."""
    named = tuple(Contrast(str(place), estimate, sign) for place, estimate in enumerate(contrasts))
    return decide({"it": Claim("it", named, margin)})["it"]


def holds(*contrasts: Estimate, sign: int = 0) -> Outcome:
    decision = decided(*contrasts, sign=sign)
    return Outcome(decision.holds, decision.is_rough)


def sample_of(relation: Ints, subject: Ints) -> Sample:
    labels = [f"s{number}" for number in subject]
    return drawn("", [f"r{number}" for number in relation], [None] * len(relation), subjects=labels).numbered()


def facts_of(random: Random, subjects: int, relations: int, ragged: bool = False) -> tuple[Ints, Ints]:
    """Return subject and relation of each fact.

    :param ragged: a subject has two thirds of the relations, at random.
    """
    subject, relation = np.repeat(np.arange(subjects), relations), np.tile(np.arange(relations), subjects)
    kept = random.random(len(subject)) < 2 / 3 if ragged else np.ones(len(subject), bool)
    return subject[kept], relation[kept]


def relation_sizes(relations: int, facts: int, kind: str) -> Ints:
    """Return the number of facts of each relation. :param kind: "equal", "zipf", or "large": one has 85 %."""
    if kind == "large":
        rest = max(2, round(0.15 * facts / max(1, relations - 1)))
        return np.array([facts - rest * (relations - 1), *[rest] * (relations - 1)])
    weights = np.ones(relations) if kind == "equal" else 1 / np.arange(1, relations + 1)
    return np.maximum(2, np.round(facts * weights / weights.sum())).astype(np.int64)


def mixed(random: Random, labels: Ints, likeness: float) -> Floats:
    """Return normal values with this correlation within labels."""
    shared = random.standard_normal(labels.max() + 1)[labels]
    return np.sqrt(likeness) * shared + np.sqrt(1 - likeness) * random.standard_normal(len(labels))


def difference(first: Floats, second: Floats, relation: Ints, subject: Ints) -> Estimate:
    return estimates.difference(first.astype(float), second.astype(float), sample_of(relation, subject), "")


# --- differences of two sides that know as much


def equal_shares(random: Random, facts: int, accuracy: float) -> Outcome:
    first, second = (random.random((2, facts)) < accuracy).astype(float)
    return holds(estimates.difference(first, second, Sample("fact"), ""))


def subjects(random: Random, count: int, relations: int, likeness: float, ragged: bool = False) -> Outcome:
    """Two equal models on facts of fewer than ten relations. :param likeness: correlation of a subject's facts."""
    subject, relation = facts_of(random, count, relations, ragged)
    first, second = (mixed(random, subject, likeness) < 0 for _ in range(2))
    return holds(difference(first, second, relation, subject))


def ragged_subjects(random: Random, count: int, relations: int, likeness: float) -> Outcome:
    """The same if subjects have unequal relations."""
    return subjects(random, count, relations, likeness, ragged=True)


def zipf_subjects(random: Random, facts: int, relations: int, likeness: float) -> Outcome:
    """The same if subjects occur by Zipf's law."""
    subject, relation = _by_zipf(random, facts, relations)
    first, second = (mixed(random, subject, likeness) < 0.3 for _ in range(2))
    return holds(difference(first, second, relation, subject))


def _by_zipf(random: Random, facts: int, relations: int) -> tuple[Ints, Ints]:
    """Return subject and relation of each fact; a quarter as many subjects occur by Zipf's law."""
    weights = 1 / np.arange(1, facts // 4 + 1)
    subject = random.choice(len(weights), facts, p=weights / weights.sum())
    return np.unique(subject, return_inverse=True)[1], random.integers(relations, size=facts)


def relations(random: Random, count: int, facts: int, likeness: float, kind: str) -> Outcome:
    """Two equal models; one knows more of some relations, the other of others.

    If the claim is of these relations, since one is too large, both know as much of each.
    """
    relation = np.repeat(np.arange(count), relation_sizes(count, facts, kind))
    sample = sample_of(relation, np.arange(len(relation)))
    return holds(estimates.difference(*_alike(random, relation, likeness, sample), sample, ""))


def _alike(random: Random, relation: Ints, likeness: float, sample: Sample) -> tuple[Floats, Floats]:
    """Return two sides that know as much: over all relations if these are clusters, else of each relation."""
    effects = random.standard_normal((2, relation.max() + 1))
    if sample.clusters is None:
        effects[1] = effects[0]
    rest = random.standard_normal((2, len(relation)))
    latent = np.sqrt(likeness) * effects[:, relation] + np.sqrt(1 - likeness) * rest
    first, second = (latent < -0.3).astype(float)
    return first, second


def few_relations_differ(random: Random, count: int, facts: int) -> Outcome:
    """A tenth of the relations differ by 72 points, the others by 8 in the other direction."""
    far = random.random(count) < 0.1
    rates = np.where(far, 0.86, 0.4), np.where(far, 0.14, 0.48)
    hits = [(random.random((facts // count, count)) < rate).ravel() for rate in rates]
    relation = np.tile(np.arange(count), facts // count)
    return holds(difference(hits[0], hits[1], relation, np.arange(len(relation))))


def crossed_relations(random: Random, count: int, number: int, likeness: float) -> Outcome:
    """Facts of all relations about the same subjects; both have something in common."""
    subject, relation = facts_of(random, number, count)
    first, second = (mixed(random, relation, likeness) + mixed(random, subject, likeness) < 0 for _ in range(2))
    return holds(difference(first, second, relation, subject))


def seeds(random: Random, count: int, trainings: int, noise: float) -> Outcome:
    """Two equal models of several trainings. :param noise: how much trainings differ."""
    relation = np.repeat(np.arange(count), 260 // count)
    fact = 0.7 * random.standard_normal(count)[relation] + random.standard_normal(len(relation)) - 0.4
    model = 0.3 * random.standard_normal((2, 1, len(relation)))
    training = noise * random.standard_normal((2, trainings, 1))
    training = training + 0.5 * random.standard_normal((2, trainings, len(fact)))
    first, second = (fact + model + training > 0).astype(float)
    sample = sample_of(relation, np.arange(len(relation)))
    return holds(estimates.over_seeds(first - second, sample, "", (-1.0, 1.0), tested=True)[0])


def collapsing_trainings(random: Random, trainings: int) -> Outcome:
    """Each training of two equal models collapses with a chance of one half, and then knows nothing."""
    collapsed = random.random((2, trainings, 1)) < 0.5
    is_right = random.random((2, trainings, 200)) < np.where(collapsed, 0.0, 0.9)
    differences = is_right[0].astype(float) - is_right[1]
    return holds(estimates.over_seeds(differences, Sample("fact"), "", (-1.0, 1.0), tested=True)[0])


def family(random: Random, facts: int, claims: int, likeness: float) -> Outcome:
    """Several comparisons with one common model in one call; any supported one counts."""
    values = [random.random(facts) < 0.5 for _ in range(claims + 1)]
    values = [np.where(random.random(facts) < likeness, values[0], row) for row in values]
    made = [estimates.difference(values[0].astype(float), row.astype(float), Sample("fact"), "") for row in values[1:]]
    decisions = decide({place: Claim(str(place), (Contrast("it", number),)) for place, number in enumerate(made)})
    return Outcome(any(decision.holds for decision in decisions.values()))


# --- margins, bounds and baselines


def margin(random: Random, facts: int, accuracy: float, points: float, paired: bool) -> Outcome:
    """The second model is worse by just the margin, and is called not worse, or equivalent."""
    first = (random.random(facts) < accuracy).astype(float)
    second = (random.random(facts) < accuracy - points / 100).astype(float)
    if paired:
        second = np.where(random.random(facts) < points / 100 / accuracy, 0.0, first)
    decision = decided(estimates.difference(first, second, Sample("fact"), ""), margin=points / 100)
    return Outcome(decision.by_margin is not None and decision.by_margin.is_not_worse)


def margin_of_subjects(random: Random, count: int, relations: int, points: float) -> Outcome:
    """The same of facts that share subjects."""
    subject, relation = facts_of(random, count, relations)
    first = (mixed(random, subject, 0.3) < 0).astype(float)
    second = np.where(random.random(len(subject)) < 2 * points / 100, 0.0, first)  # of the half that is known
    decision = decided(difference(first, second, relation, subject), margin=points / 100)
    return Outcome(decision.by_margin is not None and decision.by_margin.is_not_worse)


def bound(random: Random, facts: int, limit: float) -> Outcome:
    """A share exactly at a bound is called below it."""
    share = estimates.mean((random.random(facts) < limit).astype(float), Sample("fact"), "")
    return holds(estimates.against_value(share, limit), sign=-1)


def baseline(random: Random, facts: int, accuracy: float, fixed: bool) -> Outcome:
    """A model that is as often right as a baseline knows more. :param fixed: whether that is random guessing."""
    hits = (random.random(facts) < accuracy).astype(float)
    others = np.full(facts, accuracy) if fixed else (random.random(facts) < accuracy).astype(float)
    compared = estimates.over_baseline(hits, others, Sample("fact"), "", fixed=fixed)
    claim = above_chance("it", [BaselineComparison("it", *compared)])
    assert claim is not None
    return Outcome(decide({"it": claim})["it"].holds)


def baseline_of_relations(random: Random, count: int, facts: int, likeness: float) -> Outcome:
    """The same of facts whose relations have something in common."""
    relation = np.repeat(np.arange(count), relation_sizes(count, facts, "equal"))
    sample = sample_of(relation, np.arange(len(relation)))
    first, second = _alike(random, relation, likeness, sample)
    return holds(estimates.over_baseline(first, second, sample, "", fixed=False)[1], sign=1)


# --- groups, trends and correlations


def contrast(random: Random, facts: int, share: float, accuracy: float) -> Outcome:
    """Two groups of facts that are known alike differ. :param share: of the facts in the first."""
    hits = (random.random(facts) < accuracy).astype(float)
    first = np.arange(facts) < max(2, round(share * facts))
    return holds(estimates.contrast(hits, first, Sample("fact"), ""))


def groups(random: Random, count: int, relations: int, share: float, accuracy: float) -> Outcome:
    """The highest and the lowest group of subjects. :param share: of the subjects, in the highest group."""
    return holds(_contrast_of_subjects(random, *facts_of(random, count, relations), share, accuracy))


def ragged_groups(random: Random, count: int, relations: int, share: float, accuracy: float) -> Outcome:
    """The same if subjects have unequal relations."""
    return holds(_contrast_of_subjects(random, *facts_of(random, count, relations, ragged=True), share, accuracy))


def zipf_groups(random: Random, facts: int, relations: int, share: float, accuracy: float) -> Outcome:
    """The same if subjects occur by Zipf's law."""
    return holds(_contrast_of_subjects(random, *_by_zipf(random, facts, relations), share, accuracy))


def _contrast_of_subjects(
    random: Random, subject: Ints, relation: Ints, share: float, accuracy: float, effect: float = 0
) -> Estimate:
    """Compare subjects of two groups within relations of unequal difficulty.

    :param share: of the subjects that are in the first group, drawn at random.
    :param effect: shift of the first group in standard deviations of a latent value.
    """
    count = int(subject.max()) + 1
    first = np.isin(subject, random.choice(count, max(2, round(share * count)), replace=False))
    easier = np.linspace(-0.5, 0.5, relation.max() + 1)[relation] if relation.any() else 0.0
    hits = (mixed(random, subject, 0.6) < ndtri(accuracy) + easier + effect * first).astype(float)
    names, units = [f"r{number}" for number in relation], [f"s{number}" for number in subject]
    return estimates.contrast(hits, first, sample_of(relation, subject), "", names, units=units)


def trend(random: Random, count: int, relations: int, likeness: float) -> Outcome:
    """Knowledge by a property of subjects, such as popularity, that has no effect."""
    subject, relation = facts_of(random, count, relations)
    property_ = random.standard_exponential(count)[subject]
    hits = (mixed(random, subject, likeness) < 0).astype(float)
    ranks = (np.asarray(rankdata(side), float) for side in (property_, hits))  # as Spearman's
    return holds(estimates.correlation(*ranks, sample_of(relation, subject), ""))


def within(random: Random, count: int, facts: int, kind: str) -> Outcome:
    """Ranks and tokens, ranks of two probes, or rare hits and popularity, correlated within relations."""
    relation = np.repeat(np.arange(count), relation_sizes(count, facts, "zipf"))
    n = len(relation)
    shift = random.standard_normal(count)[relation]
    ranks = [1 + np.floor(np.exp(random.normal(0, 1.5, n) + 2 + shift)) for _ in range(2)]
    tokens = 1.0 + random.geometric(0.5, n)
    hits = (random.random(n) < 0.05).astype(float)
    pairs = {"tokens": (tokens, ranks[0]), "ranks": (ranks[0], ranks[1]), "hits": (tokens, hits)}
    first, second = pairs[kind]
    sample = sample_of(relation, np.arange(n))
    return holds(estimates.correlation_within(first, second, relation.tolist(), sample, ""))


def lengths(random: Random, count: int, relations: int, likeness: float) -> Outcome:
    """Log ranks by the number of tokens of the answer, which is skewed; answers recur."""
    subject, relation = facts_of(random, count, relations)
    tokens = 1.0 + random.geometric(0.5, count)[random.integers(count, size=len(subject))]
    ranks = np.log10(1 + np.floor(np.exp(mixed(random, subject, likeness) * 1.2 + 2)))
    sample = sample_of(relation, subject)
    return holds(estimates.correlation_within(tokens, ranks, relation.tolist(), sample, ""))


# --- whole runs and studies


def model_of(random: Random, accuracy: float, ties: bool = False) -> Answerer:
    """Return an answerer that has a random share of the facts right. :param ties: scores are whole numbers."""
    seed = int(random.integers(1 << 30))

    def answer(query: Query, space: CandidateSet, template: int) -> list[float]:
        draw = np.random.default_rng([seed, int(query.id[1:])])
        scores = draw.standard_normal(len(space))
        scores = np.floor(2 * scores) if ties else scores
        if draw.random() < accuracy:
            scores[list(space.ids).index(query.gold[0])] += 2 if ties else 9
        return scores.tolist()

    return answer


def skewed_world(random: Random, facts: int, relations: int) -> QuerySet:
    return world([[int(min(random.standard_exponential() * 5, 19))] for _ in range(facts)], relations=relations)


def compared_runs(random: Random, facts: int, relations: int, accuracy: float, ties: bool) -> Outcome:
    """``fathom compare`` of two models that know as much."""
    data = skewed_world(random, facts, relations)
    with TemporaryDirectory() as folder:
        runs = [
            answered(Path(folder) / name, model_of(random, accuracy, ties), data, model=name) for name in ("a", "b")
        ]
        [pair] = compare(runs, metrics=["accuracy"]).pairs
    return Outcome(pair.decision.holds, pair.decision.is_rough)


def agreeing_probes(random: Random, facts: int, relations: int) -> Outcome:
    """``fathom study agreement`` of two probes of different facts, in relations that both find as easy."""
    data = skewed_world(random, facts, relations)
    with TemporaryDirectory() as folder:
        runs = [answered(Path(folder) / name, model_of(random, 0.3), data, model="m") for name in ("a", "b")]
        [pair] = agreement.analyse(runs).pairs
    return holds(pair.ranks.within)


def favoured_lengths(random: Random, facts: int, relations: int) -> Outcome:
    """``fathom study length-bias`` of a model whose ranks do not depend on the answer's length."""
    with TemporaryDirectory() as folder:
        run = answered(Path(folder) / "run", model_of(random, 0.3), skewed_world(random, facts, relations))
        [bias] = length_bias.analyse([run], count_tokens=lambda texts: [len(text.split()) for text in texts])
    return holds(bias.within)


def errors_of_their_own(random: Random, facts: int, models: int) -> Outcome:
    """``fathom study items`` of models that err independently, each with favourite wrong answers."""
    data = skewed_world(random, facts, 2)
    with TemporaryDirectory() as folder:
        runs = []
        for number in range(models):
            prior, knows = random.standard_normal(20), model_of(random, 0.5)

            def answer(
                query: Query, space: CandidateSet, template: int, prior: Floats = prior, knows: Answerer = knows
            ) -> list[float]:
                return (np.array(knows(query, space, template)) + prior).tolist()

            runs.append(answered(Path(folder) / f"m{number}", answer, data, model=f"m{number}"))
        shared = items.analyse(runs).shared_errors
    p_value = shared[0]["same"].p_value if shared else None
    return Outcome(p_value is not None and p_value < 0.05)


def model_by_relation(random: Random, relations: int) -> Answerer:
    """Return an answerer that has another share of each relation right."""
    models = [model_of(random, float(share)) for share in random.beta(2, 2, relations)]
    return lambda query, space, template: models[int(query.relation[1:])](query, space, template)


def changed_model(random: Random, facts: int, relations: int, accuracy: float) -> Outcome:
    """``fathom diff`` of two models that know as much, of other facts."""
    data = skewed_world(random, facts, relations)
    with TemporaryDirectory() as folder:
        runs = [answered(Path(folder) / name, model_of(random, accuracy), data, model=name) for name in ("a", "b")]
        whole = diff(*runs).parts[0]
    assert whole.changed is not None
    return Outcome(whole.changed.holds, whole.changed.is_rough)


def ways_to_know(random: Random, facts: int, relations: int) -> Outcome:
    """``fathom study profile`` of two probes that find as many facts, not the same."""
    data = skewed_world(random, facts, relations)
    with TemporaryDirectory() as folder:
        runs = [
            answered(Path(folder) / kind, model_of(random, 0.5), data, probe=kind) for kind in ("statement", "cloze")
        ]
        [pair] = profile.analyse(runs).pairs
    assert pair.decision is not None
    return Outcome(pair.decision.holds, pair.decision.is_rough)


def uninformative_confidence(random: Random, facts: int, relations: int) -> Outcome:
    """``fathom study calibration`` of a model whose confidence says nothing of its being right.

    Its scores are spread by another factor in each query, and the right answer is exchanged with the first in half of
    them.
    """
    seed = int(random.integers(1 << 30))

    def answer(query: Query, space: CandidateSet, template: int) -> list[float]:
        draw = np.random.default_rng([seed, int(query.id[1:])])
        scores = draw.standard_normal(len(space)) * draw.uniform(0.5, 3)
        first, gold = int(np.argmax(scores)), space.places(query.gold)[0]
        if draw.random() < 0.5:
            scores[[first, gold]] = scores[[gold, first]]
        return scores.tolist()

    return Outcome(
        any(
            decision.holds
            for decision in _calibrated(random, answer, facts, relations)
            if "AUROC" in decision.claim.name
        )
    )


def calibrated_confidence(random: Random, facts: int, relations: int) -> Outcome:
    """``fathom study calibration`` of a calibrated model, whose error no temperature lowers."""
    calibrated = drawn_answers(1.0, int(random.integers(1 << 30)))
    decisions = _calibrated(random, calibrated, facts, relations)
    return Outcome(any(decision.holds for decision in decisions if "scaling" in decision.claim.name))


def _calibrated(random: Random, answer: Answerer, facts: int, relations: int) -> list[Decision]:
    data = skewed_world(random, facts, relations)
    with TemporaryDirectory() as folder:
        return calibration.analyse([answered(Path(folder) / "run", answer, data, probe="statement")]).decisions


def repeated_answers(random: Random, facts: int, relations: int) -> Outcome:
    """``fathom study repeated``: a model repeats its answers more by sentence, as its untrained twin does."""
    data = skewed_world(random, facts, relations)
    priors = dict(zip((BY_TEMPLATE, FREE), random.standard_normal((2, 20)) * [[1.0], [2.0]], strict=True))

    def led_by(prior: Floats) -> Answerer:
        seed = int(random.integers(1 << 30))

        def answer(query: Query, space: CandidateSet, template: int) -> list[float]:
            return (prior + np.random.default_rng([seed, int(query.id[1:])]).standard_normal(len(space))).tolist()

        return answer

    with TemporaryDirectory() as folder:
        runs = [
            answered(Path(folder) / f"{model}{number}", led_by(prior), data, model=model, reading=reading)
            for model in ("trained", "untrained")
            for number, (reading, prior) in enumerate(priors.items())
        ]
        [decision] = repeated.analyse(runs, RepeatedOptions(untrained="untrained")).decisions
    return Outcome(decision.holds, decision.is_rough)


def shared_relations(random: Random, facts: int, count: int) -> Outcome:
    """``fathom study relations`` of data sets as hard, whose relations are not."""
    with TemporaryDirectory() as folder:
        runs = []
        for name in ("A", "B"):
            data = replace(skewed_world(random, facts, count), name=name)
            runs.append(answered(Path(folder) / name, model_by_relation(random, count), data))
        [row] = relations_study.analyse(runs).models
    return holds(row["difference"])


def checkpoints(random: Random, facts: int, relations: int) -> Outcome:
    """``fathom study learning`` of three checkpoints that know as much; any change counts."""
    data = skewed_world(random, facts, relations)
    with TemporaryDirectory() as folder:
        names = [f"t/checkpoint-{step}" for step in (0, 10, 20)]
        runs = [
            answered(Path(folder) / name.replace("/", "-"), model_of(random, 0.4), data, model=name) for name in names
        ]
        [course] = learning.analyse(runs).courses
    assert len(course.changes) == 3
    return Outcome(any(change.decision is not None and change.decision.holds for change in course.changes))


def memory_of_names(random: Random, facts: int) -> Outcome:
    """The study memory of a plan: link predictors of which neither names nor weights help; any effect counts."""
    data = skewed_world(random, facts, 5)
    states = []
    with TemporaryDirectory() as folder:
        for place, init in product(("base", "anonymised-er"), ("pretrained", "random")):
            out = Path(folder) / place / init
            identity = {"kind": "m", "options": {}, "weights": None, "data": {"name": "d", "places": ""}}
            write_json(out / "model" / MANIFEST, {"identity": identity, "ended": {"why": "epochs"}})
            run = answered(out / "run", model_of(random, 0.4), data, probe="link")
            states.append(memory.CellState(memory.Cell("m", init, place), out / "model", Path(folder) / place, run))
        found = memory.analyse(states)
    effects = [*found.terms, *found.gaps]
    return Outcome(any(effect.adjusted is not None and effect.adjusted < 0.05 for effect in effects))


def read_facts_of(random: Random, facts: int, relations: int, kind: str) -> Outcome:
    """``fathom study validity`` of a probe that says nothing of what a model has read, half of the facts.

    :param kind: "random", where any claim counts, or "prior": biased, where the bias is true and does not.
    """
    data = skewed_world(random, facts, relations)
    prior, seed = random.standard_normal(20) * (kind == "prior"), int(random.integers(1 << 30))
    read = random.random(facts) < 0.5
    lines = [
        {"query_id": query.id, "fact_id": query.fact_id, "exposures": 10 * int(is_read)}
        for query, is_read in zip(data.queries, read.tolist(), strict=True)
    ]

    def answer(query: Query, space: CandidateSet, template: int) -> list[float]:
        return (prior + np.random.default_rng([seed, int(query.id[1:])]).standard_normal(len(space))).tolist()

    with TemporaryDirectory() as folder:
        design = Path(folder) / "design.jsonl"
        design.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
        run = answered(Path(folder) / "run", answer, data)
        decisions = validity.analyse([run], ValidityOptions(design=design)).decisions
    counted = [decision for (claim, *_), decision in decisions.items() if kind == "random" or claim not in BIASES]
    return Outcome(any(decision.holds for decision in counted))


def ontology_by_frequency(random: Random, facts: int) -> Outcome:
    """``fathom study ontology`` of an answerer by frequency in other training items of two tasks; any task counts."""
    data = skewed_world(random, facts, 2)
    names = data.candidates["all"].ids

    def frequent() -> dict[str, list[list[str]]]:
        places = np.minimum(random.standard_exponential((2, 60)) * 5, 19).astype(int)
        return {f"r{task}": [[names[place]] for place in of_task] for task, of_task in enumerate(places.tolist())}

    counts = {task: Counter(name for [name] in answers) for task, answers in frequent().items()}

    def answer(query: Query, space: CandidateSet, template: int) -> list[float]:
        return [float(counts[query.relation][id_]) for id_ in space.ids]

    with TemporaryDirectory() as folder:
        run = answered(Path(folder) / "run", random_ties(answer, int(random.integers(1 << 30))), data, probe="ontology")
        write_json(run.path / "artifacts" / "training.json", frequent())
        decisions = ontology.analyse([run]).decisions
    return Outcome(any(decision.holds for decision in decisions.values()))


def is_above(answer: Answerer, data: QuerySet) -> Outcome:
    with TemporaryDirectory() as folder:
        [line] = summarise(answered(Path(folder) / "run", answer, data)).headlines
    return Outcome(line.verdict("accuracy") == "above", line.decision is not None and line.decision.is_rough)


def random_ties(answer: Answerer, seed: int) -> Answerer:
    """Break the ties of an answerer at random, so that it is no better than its baseline in expectation alone."""
    shuffled = at_random(seed)

    def broken(query: Query, space: CandidateSet, template: int) -> list[float]:
        pairs = zip(answer(query, space, template), shuffled(query, space, template), strict=True)
        return [score + 1e-6 * tie for score, tie in pairs]

    return broken


def filtered_graph(random: Random) -> Outcome:
    """An answerer by training frequency on a graph with four relations, ranked among all entities, filtered."""
    with TemporaryDirectory() as folder:
        seed = int(random.integers(1 << 30))
        data = skewed(Path(folder) / "graph", seed)
        graph = data.graph
        assert graph is not None
        part = slice(graph.splits["train"].start, graph.splits["train"].stop)
        names, kinds = (table.column("id").to_pylist() for table in (graph.entities, graph.relations))
        counts: dict[tuple[str, str], int] = {}
        for relation, tail in zip(graph.relation[part].tolist(), graph.tail[part].tolist(), strict=True):
            counts[kinds[relation], names[tail]] = counts.get((kinds[relation], names[tail]), 0) + 1

        def by_frequency(query: Query, space: CandidateSet, template: int) -> list[float]:
            return [float(counts.get((query.relation, id_), 0)) for id_ in space.ids]

        return is_above(random_ties(by_frequency, seed), data)


def answer_space(random: Random, relations: int, facts: int, kind: str) -> Outcome:
    """Answerers without knowledge of the subject in a closed answer space."""
    seed = int(random.integers(1 << 30))
    data = world(EVEN[:facts], relations=relations) if kind == "random" else skewed_world(random, facts, relations)
    prior = random.standard_normal(20)

    def by_prior(query: Query, space: CandidateSet, template: int) -> list[float]:
        noise = np.random.default_rng([seed, int(query.id[1:])]).standard_normal(len(space))
        return (prior + 0.3 * noise).tolist()

    answerers: dict[str, Answerer] = {
        "random": at_random(seed),
        "majority": random_ties(by_frequency_in(data), seed),
        "short names": random_ties(short_names_first, seed),
        "prior": by_prior,
        "constant": lambda query, space, template: [0.0] * len(space),
    }
    return is_above(answerers[kind], data)


def perfect(random: Random, relations: int, facts: int) -> Outcome:
    """An answerer that knows everything, in a closed answer space with skewed answers."""
    return is_above(at_rank(1), skewed_world(random, facts, relations))


# --- planned samples


def planned(random: Random, relations: int, subjects: int, likeness: float, nested: bool, effect: float) -> Outcome:
    """Detect a difference with as many relations and subjects as ``compare --detect`` asks for.

    :param subjects: of a relation. :param nested: each subject occurs in one relation.
    """
    design = (relations, subjects, likeness, nested, effect)
    needed = _needed(design)
    return Outcome(holds(_of_design(random, needed[0], needed[1], *design[2:])).event)


def _of_design(random: Random, relations: int, subjects: int, likeness: float, nested: bool, effect: float) -> Estimate:
    subject, relation = facts_of(random, subjects, relations)
    subject = np.arange(len(relation)) if nested else subject
    shared = 0.7 * random.standard_normal(len(relation))
    spread = np.sqrt(0.51)  # so that a latent value has unit variance

    def known(direction: int) -> Floats:
        by_relation = np.sqrt(likeness) * random.standard_normal(relations)[relation]
        by_subject = np.sqrt(likeness) * random.standard_normal(subject.max() + 1)[subject]
        rest = np.sqrt(max(0.0, 1 - 2 * likeness)) * random.standard_normal(len(relation))
        return (shared + spread * (by_relation + by_subject + rest) < direction * effect).astype(float)

    return difference(known(1), known(-1), relation, subject)


@cache
def _needed(design: tuple[int, int, float, bool, float]) -> tuple[int, int]:
    """Return relations and subjects by the median of several pilots, as a single one is unsure of the variance."""
    relations, subjects, _, nested, effect = design
    random, true = np.random.default_rng(0), 2 * float(ndtr(effect)) - 1
    plans = [detectable("a", "b", _of_design(random, *design), true) for _ in range(PILOTS)]
    units = int(np.median([plan["units needed"] for plan in plans if plan["units needed"] is not None]))
    key = plans[0]["units"]
    if key == "relation and subject":
        return units, int(np.ceil(subjects * units / relations))
    if key == "relation":
        return units, subjects
    return relations, max(2, round(units / relations) if nested else units)


# --- intervals


def reciprocal(latent: Floats) -> Floats:
    """Return 1 / rank of ranks from 1 to 60, some three in ten of them 1 to 2."""
    return np.asarray(1 / np.clip(np.ceil(np.exp(1.2 * latent + 1)), 1, 60))


def interval_of_share(random: Random, count: int, facts: int, accuracy: float, likeness: float, kind: str) -> Outcome:
    """The interval of a share: of all relations if these are clusters, else of the facts of these."""
    relation = np.repeat(np.arange(count), relation_sizes(count, facts, kind))
    rates = np.full(count, accuracy)
    if likeness:
        more = (1 - likeness) / likeness
        rates = random.beta(accuracy * more, (1 - accuracy) * more, count)
    sample = sample_of(relation, np.arange(len(relation)))
    truth = accuracy if sample.clusters is not None else float(rates[relation].mean())
    return covers(estimates.mean((random.random(len(relation)) < rates[relation]).astype(float), sample, ""), truth)


def interval_of_mrr(random: Random, count: int, facts: int, likeness: float) -> Outcome:
    relation = np.repeat(np.arange(count), relation_sizes(count, facts, "zipf"))
    effect = random.standard_normal(count)
    sample = sample_of(relation, np.arange(len(relation)))
    truth = float((MASS * reciprocal(GRID)).sum())
    if sample.clusters is None:
        of_relation = [
            float((MASS * reciprocal(np.sqrt(likeness) * shift + np.sqrt(1 - likeness) * GRID)).sum())
            for shift in effect
        ]
        truth = float(np.array(of_relation)[relation].mean())
    latent = np.sqrt(likeness) * effect[relation] + np.sqrt(1 - likeness) * random.standard_normal(len(relation))
    return covers(estimates.mean(reciprocal(latent), sample, ""), truth)


def interval_of_contrast(random: Random, facts: int, share: float, accuracy: float, effect: float) -> Outcome:
    """:param share: of the facts, in the first group. :param effect: its accuracy − that of the others."""
    first = np.arange(facts) < share * facts
    values = (random.random(facts) < np.where(first, accuracy + effect, accuracy)).astype(float)
    return covers(estimates.contrast(values, first, Sample("fact"), ""), effect)


def interval_of_groups(random: Random, count: int, relations: int, share: float, effect: float) -> Outcome:
    """The same of groups of subjects. :param effect: see :func:`_contrast_of_subjects`."""
    made = _contrast_of_subjects(random, *facts_of(random, count, relations), share, 0.3, effect)
    easier = np.linspace(-0.5, 0.5, relations) if relations > 1 else np.zeros(1)
    return covers(made, float(np.mean(ndtr(ndtri(0.3) + easier + effect) - ndtr(ndtri(0.3) + easier))))


def interval_over_seeds(random: Random, trainings: int, spread: float) -> Outcome:
    rates = random.beta(2, 2, 200) + random.normal(0, spread, (trainings, 1))
    found = crossed((random.random(rates.shape) < rates).astype(float), limits=(0.0, 1.0))
    return covers(found, 0.5)


def interval_of_calibration(random: Random, answers: int, alike: int, error: float) -> Outcome:
    """The interval of the expected calibration error. :param alike: answers that err together."""
    unit = np.arange(answers) // alike
    sure = np.clip(random.beta(2, 2, answers), 0.2, 0.8)[unit * alike]
    together = random.random(answers) < 0.5 * (alike > 1)
    tossed = np.where(together, random.random(answers)[unit * alike], random.random(answers))
    gaps = list(calibration_gaps(sure, (tossed < sure - error).astype(float)))
    sample = Sample("unit", [f"{number}" for number in unit] if alike > 1 else None)
    return covers(estimates.between_folds(gaps, sample, (debiased_sum, cautious_sum)), error)


def covers(found: Estimate | Interval, truth: float) -> Outcome:
    value = found.value if isinstance(found, Estimate) else found.estimate
    if found.low is None or found.high is None:
        return Outcome(False)
    is_covered = found.low - 1e-9 <= truth <= found.high + 1e-9
    return Outcome(is_covered, "rough" in found.note, value - truth, found.high - found.low)


# --- the table


class Cells(NamedTuple):
    """:param claimed: the rate in %: of wrong claims at most, of others about. :param is_study: of whole runs."""

    draw: Callable[..., Outcome]
    settings: Sequence[tuple[object, ...]]
    claimed: float = 5
    is_study: bool = False


EDGES = (0.01, 0.5, 0.97, 0.99)
SUBJECTS = list(product((20, 196), (4, 8), (0.0, 0.5, 0.9)))
GROUPS = [
    *((*size, 0.3) for size in ((20, 1, 0.2), (40, 4, 0.1), (40, 4, 0.5), (100, 4, 0.05), (12, 8, 0.5))),
    *product((40,), (1, 4), (0.1, 0.5), (0.03, 0.97)),
    *((200, 1, 0.1, 0.03), (200, 1, 0.5, 0.97), (200, 4, 0.5, 0.3)),
]
DESIGNS = [
    *product((12, 40), (20, 40), (0.05, 0.2), (False,), (0.1,)),
    *product((30, 60), (20,), (0.05, 0.2), (True,), (0.1,)),
]
CELLS = {
    "equal shares": Cells(equal_shares, list(product((20, 60, 300), EDGES))),
    "subjects": Cells(subjects, SUBJECTS),
    "ragged subjects": Cells(ragged_subjects, SUBJECTS),
    "zipf subjects": Cells(zipf_subjects, list(product((200, 800), (1, 6), (0.0, 0.6)))),
    "relations": Cells(relations, list(product((12, 30, 60), (600,), (0.0, 0.1, 0.5), ("equal", "zipf", "large")))),
    "few relations differ": Cells(few_relations_differ, [(12, 240), (12, 600), (20, 400), (30, 600), (60, 1200)]),
    "crossed relations": Cells(crossed_relations, list(product((12, 40), (20, 40), (0.1, 0.5)))),
    "seeds": Cells(seeds, list(product((5, 13), (2, 3, 5), (0.0, 0.1, 0.3)))),
    "collapsing trainings": Cells(collapsing_trainings, [(2,), (3,), (5,)]),
    "family": Cells(family, list(product((100, 500), (3, 10), (0.0, 0.5)))),
    "margin": Cells(margin, list(product((100, 300, 1000), (0.5, 0.95, 0.99), (2.0,), (False, True)))),
    "margin of subjects": Cells(margin_of_subjects, list(product((50, 300), (4,), (2.0, 5.0)))),
    "bound": Cells(bound, list(product((20, 50, 100, 1000), (0.02, 0.1, 0.5)))),
    "baseline": Cells(baseline, list(product((20, 60, 400), (0.0, 0.005, 0.05, 0.5, 0.97, 1.0), (True, False)))),
    "baseline of relations": Cells(baseline_of_relations, list(product((4, 12, 60), (400,), (0.1, 0.5)))),
    "contrast": Cells(contrast, list(product((60, 400), (0.1, 0.5), (0.03, 0.3, 0.97)))),
    "groups": Cells(groups, GROUPS),
    "ragged groups": Cells(ragged_groups, GROUPS),
    "zipf groups": Cells(zipf_groups, [*product((200,), (1, 6), (0.1, 0.5), (0.3, 0.97)), (800, 6, 0.5, 0.3)]),
    "trend": Cells(trend, list(product((40, 200), (1, 4), (0.0, 0.5)))),
    "within": Cells(within, list(product((1, 4, 13, 60), (60, 400), ("tokens", "ranks", "hits")))),
    "lengths": Cells(lengths, list(product((40, 200), (1, 4), (0.0, 0.5)))),
    "compare": Cells(
        compared_runs, [*product((120, 300), (1, 12), (0.3, 0.97), (False,)), (100, 5, 0.3, True)], 5, True
    ),
    "agreement": Cells(agreeing_probes, [(100, 1), (100, 5), (240, 12)], 5, True),
    "length-bias": Cells(favoured_lengths, [(100, 1), (100, 5), (240, 12)], 5, True),
    "items": Cells(errors_of_their_own, [(60, 2), (60, 4)], 5, True),
    "diff": Cells(changed_model, [(100, 1, 0.3), (300, 12, 0.3), (300, 5, 0.97)], 5, True),
    "profile": Cells(ways_to_know, [(100, 1), (240, 12)], 5, True),
    "calibration, uninformative": Cells(uninformative_confidence, [(100, 5)], 5, True),
    "calibration, calibrated": Cells(calibrated_confidence, [(100, 5)], 5, True),
    "repeated": Cells(repeated_answers, [(60, 5)], 5, True),
    "relations of data sets": Cells(shared_relations, [(120, 6), (300, 30)], 5, True),
    "learning": Cells(checkpoints, [(100, 5)], 5, True),
    "memory": Cells(memory_of_names, [(100,)], 5, True),
    "validity": Cells(read_facts_of, [(100, 5, "random"), (100, 5, "prior")], 5, True),
    "ontology": Cells(ontology_by_frequency, [(60,)], 5, True),
    "filtered graph": Cells(filtered_graph, [()], 5, True),
    "answer space": Cells(
        answer_space, [(5, 100, kind) for kind in ("random", "majority", "short names", "prior", "constant")], 5, True
    ),
    "perfect": Cells(perfect, [(5, 100)], 95, True),
    "planned": Cells(planned, DESIGNS, 80),
    "interval of share": Cells(
        interval_of_share,
        list(product((1, 5, 12, 60), (400,), EDGES, (0.0, 0.1), ("equal", "zipf"))),
        95,
    ),
    "interval of MRR": Cells(interval_of_mrr, list(product((1, 5, 30, 60), (400,), (0.0, 0.3))), 95),
    "interval of contrast": Cells(
        interval_of_contrast,
        [
            *product((60, 100), (0.2, 0.5), (0.3,), (0.0, 0.3)),
            *((100, 0.5, 0.97, -0.2), (100, 0.5, 0.97, 0.0)),
            *((400, 0.2, 0.3, 0.0), (400, 0.5, 0.3, 0.3), (400, 0.5, 0.97, 0.0)),
        ],
        95,
    ),
    "interval of groups": Cells(
        interval_of_groups,
        [*product((60,), (1, 4), (0.2, 0.5), (0.0, 0.5)), (200, 1, 0.5, 0.0), (200, 4, 0.2, 0.5)],
        95,
    ),
    "interval over seeds": Cells(interval_over_seeds, list(product((2, 3, 5, 10), (0.0, 0.02, 0.1))), 95),
    "interval of calibration": Cells(interval_of_calibration, list(product((100, 1000), (1, 5), (0.0, 0.05, 0.2))), 95),
}


class Counts(NamedTuple):
    """Outcomes of a cell.

    :param events: worlds in which what is counted happened. :param rough: verdicts, or intervals, with that note.
    :param width: median width of the intervals in that of one by the estimates' own deviation; NaN of other cells.
    :param widest: width of the widest interval.
    """

    events: int
    rough: int
    width: float
    widest: float


def count(name: str, setting: tuple[object, ...], replicates: int) -> Counts:
    """Draw so many worlds of a cell."""
    random = np.random.default_rng(list(f"{name} {setting}".encode()))
    outcomes = [CELLS[name].draw(random, *setting) for _ in range(replicates)]
    events, rough, misses, widths = zip(*outcomes, strict=True)
    return Counts(sum(events), sum(rough), relative_width(misses, widths), max(widths))


def relative_width(misses: Sequence[float], widths: Sequence[float]) -> float:
    """Return the median width, the usual being 2 · 1.96 deviations of the estimates; NaN without intervals."""
    usual = 2 * norm.ppf(0.975) * float(np.std(misses))
    return float(np.median(widths)) / usual if usual > 0 else float("nan")


def conspicuous(events: Sequence[int], rough: Sequence[int], replicates: Sequence[int]) -> list[bool]:
    """Return which cells have a rate significantly above 6 %, by Holm, and are not called rough."""
    p_values = [
        binomtest(number, n, 0.06, alternative="greater").pvalue for number, n in zip(events, replicates, strict=True)
    ]
    is_rough = [2 * number > n for number, n in zip(rough, replicates, strict=True)]
    return [p < 0.05 and not called_rough for p, called_rough in zip(holm(p_values).tolist(), is_rough, strict=True)]


CONTRASTS = ("interval of contrast", "interval of groups")


def is_poor(counts: Counts, replicates: int) -> bool:
    """Whether intervals of contrasts cover less than 94 %, are too wide, or one of them is the whole range."""
    return counts.events < 0.94 * replicates or counts.width > 1.25 or counts.widest > 2 - 1e-6


COLUMNS = ("world", "setting", "worlds", "claimed", "rate", "rough", "width")


def summary(cells: str) -> str:
    """Return a table with a line for each world: its settings, and the range of their rates. :param cells: as CSV."""
    lines = ["| world | settings | worlds | claimed, % | rates, % | rough settings | width |", "|---|" + "---:|" * 6]
    for name, rows in groupby(csv.DictReader(StringIO(cells)), key=lambda row: row["world"]):
        found = list(rows)
        rates = sorted(float(row["rate"]) for row in found)
        widths = sorted(float(row["width"]) for row in found if row["width"])
        rough = sum(float(row["rough"]) > 50 for row in found)
        about = [name, len(found), found[0]["worlds"], found[0]["claimed"], _ends(rates, 1), rough, _ends(widths, 2)]
        lines.append(f"| {' | '.join(map(str, about))} |")
    return "\n".join(lines)


def _ends(values: list[float], digits: int) -> str:
    """Return the least and the greatest of sorted numbers; "" of none."""
    return " to ".join(dict.fromkeys(f"{end:.{digits}f}" for end in (values[:1] + values[-1:])))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicates", type=int, default=2000, help="worlds of a cell")
    parser.add_argument("--studies", type=int, default=300, help="of a cell of whole runs")
    parser.add_argument("--only", choices=CELLS, nargs="*")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument(
        "--summary", type=Path, help="only print a table of this file of cells, as the command prints it"
    )
    arguments = parser.parse_args()
    if arguments.summary:
        print(summary(arguments.summary.read_text(encoding="utf-8")))
        return
    cells = [(name, setting) for name in arguments.only or CELLS for setting in CELLS[name].settings]
    replicates = [arguments.studies if CELLS[name].is_study else arguments.replicates for name, _ in cells]
    printed = csv.writer(sys.stdout, lineterminator="\n")
    printed.writerow(COLUMNS)
    counted = []
    with ProcessPoolExecutor(arguments.workers) as pool:
        counts = pool.map(count, *zip(*cells, strict=True), replicates)
        for (name, setting), n, of_cell in zip(cells, replicates, counts, strict=True):
            counted.append(of_cell)
            width = "" if np.isnan(of_cell.width) else f"{of_cell.width:.2f}"
            rates = f"{100 * of_cell.events / n:.1f}", f"{100 * of_cell.rough / n:.0f}"
            printed.writerow([name, ", ".join(map(str, setting)), n, f"{CELLS[name].claimed:g}", *rates, width])
            sys.stdout.flush()
    named = [f"{name} ({', '.join(map(str, setting))})" for name, setting in cells]
    errors = [place for place, (name, _) in enumerate(cells) if CELLS[name].claimed == 5]
    columns = ([of_cell.events for of_cell in counted], [of_cell.rough for of_cell in counted], replicates)
    marked = conspicuous(*([values[place] for place in errors] for values in columns))
    names = [named[place] for place, is_marked in zip(errors, marked, strict=True) if is_marked]
    print(f"significantly above 6 %, and not called rough: {'; '.join(names) or 'no cell'}", file=sys.stderr)
    of_contrasts = [place for place, (name, _) in enumerate(cells) if name in CONTRASTS]
    bad = [named[place] for place in of_contrasts if is_poor(counted[place], replicates[place])]
    wide = "; ".join(bad) or "no cell"
    print(f"intervals of contrasts below 94 %, wider than 1.25 or the whole range: {wide}", file=sys.stderr)


if __name__ == "__main__":
    main()
