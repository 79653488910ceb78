"""Does a model's confidence say whether it is right? By the softmax of its scores, and by agreement across templates.

Confidence is calibrated if answers given with a confidence of 0.7 are right in 70 % of cases, and informative if right
answers have more of it than wrong ones (AUROC). Temperature scaling divides the scores by one number (Guo et al. 2017),
which was fitted on the other half of the sampling units.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fathom.base.errors import BadInput
from fathom.results import estimates
from fathom.results.answers import confident
from fathom.results.claims import Claim, Contrast, Decision, decide_by_name, sentences
from fathom.results.discrimination import above_chance, auroc, midranks
from fathom.results.estimates import Estimate, as_estimate, between, between_folds
from fathom.results.facts import RunFacts
from fathom.results.loading import distinguished, read_runs
from fathom.results.metrics.confidence import (
    calibration_gaps,
    cautious_sum,
    debiased_sum,
    fit_temperature,
    scaled_confidence,
)
from fathom.results.metrics.uncertainty import Labels
from fathom.results.rows import Floats, Ints, Rows, grouped
from fathom.results.samples import Sample
from fathom.results.tables import Cell, Table
from fathom.store.folder import RunFolder
from fathom.studies.options import CalibrationOptions

SOFTMAX, AGREEMENT = "softmax", "agreement"
RIGHT = 0.5
"""An answer is right if its expected share of right answers, over ties, is above this."""


class Judged(NamedTuple):
    """Answers with their confidence, shape (n) each.

    :param right: whether each is right; a share if tied.
    :param queries: index of each answer's query. :param templates: number of its template; −1 for all of them.
    """

    confidence: Floats
    right: Floats
    queries: Ints
    templates: Ints


class Confidence(NamedTuple):
    """One kind of confidence in one run.

    :param run: name of the run. :param kind: :data:`SOFTMAX` or :data:`AGREEMENT`.
    :param rows: what it is worth, then the same after temperature scaling; this is lacking where there are no scores,
        or one sampling unit. "Brier": mean squared distance from being right.
    :param left_out: number of predictions, or queries, without a confidence.
    :param answers: fact, template, confidence, scaled confidence, right.
    """

    run: str
    kind: str
    rows: list[dict[str, Any]]
    temperatures: tuple[float, float] | None
    claims: list[Claim]
    left_out: int
    answers: list[tuple[Cell, ...]]

    def called(self, run: str) -> Confidence:
        """Return it under another name of the run."""
        claims = [claim._replace(name=f"{run}, {claim.name}") for claim in self.claims]
        return self._replace(run=run, claims=claims)


class Calibration(NamedTuple):
    """The confidences of all runs, and the decisions on their claims."""

    confidences: list[Confidence]
    decisions: list[Decision]


def analyse(runs: Sequence[RunFolder], options: CalibrationOptions = CalibrationOptions()) -> Calibration:
    """Measure the confidence of each run.

    :raises BadInput: a run has neither the scores of all candidates nor several templates.
    """

    def measured(outcome: RunFacts) -> tuple[Mapping[str, str], list[Confidence]]:
        with_scores = RunFacts(outcome.run, Rows(outcome.run, cluster=outcome.cluster), outcome.scoring, outcome.model)
        return outcome.distinguishing, list(_of_run(with_scores, options.seed))

    found = read_runs(runs, options.scoring, options.cluster, measured, fewest=1)
    names = distinguished([settings for settings, _ in found])
    confidences = [line.called(name) for name, (_, of_run) in zip(names, found, strict=True) for line in of_run]
    claims = [claim for line in confidences for claim in line.claims]
    return Calibration(confidences, list(decide_by_name(claims).values()))


def _of_run(outcome: RunFacts, seed: int) -> Iterator[Confidence]:
    rows = outcome.rows
    places = confident(rows, outcome.scoring)
    agreeing = _agreement(rows, outcome.scoring)
    if not len(places) and not len(agreeing.right):
        raise BadInput(
            f"{outcome.path} has neither the log-likelihoods of all candidates (at most 1,000, without --max-rank) nor "
            "several templates with ranked answers: no confidence"
        )
    if len(places):
        judged = Judged(
            rows.confidence.top_probability[places], rows.hits(1)[places], rows.query[places], rows.template[places]
        )
        scores = [rows.scores(at) for at in places.tolist()]
        scaled = scale_temperature(scores, judged.right, _units(rows, judged.queries), seed)
        yield _measured(outcome, SOFTMAX, judged, len(outcome.places), scaled)
    if len(agreeing.right):
        yield _measured(outcome, AGREEMENT, agreeing, len(set(rows.query[outcome.places].tolist())))


def _agreement(rows: Rows, scoring: str) -> Judged:
    """Return, for each query with several templates, the share of these whose first answer is the most frequent one.

    It is right if it is a gold or another known answer. Tied first answers share their template's vote.
    """
    found = []
    for query, places in grouped((int(rows.query[place]), place) for place in rows.of(scoring).tolist()).items():
        tops = [rows.top_answers(place) for place in places if rows.scored[place]]
        if len(places) > 1 and len(tops) == len(places) and all(tops):
            votes = Counter[str]()
            for top in tops:
                votes.update(dict.fromkeys(top, 1 / len(top)))
            most = max(votes.values())
            first = [answer for answer, count in votes.items() if count > most - 1e-9]
            right = rows.right_ids(query)
            found.append((most / len(tops), sum(answer in right for answer in first) / len(first), query))
    columns = np.array(found, dtype=float).reshape(-1, 3).T
    return Judged(columns[0], columns[1], columns[2].astype(np.int64), np.full(len(found), -1))


def _sample(rows: Rows, queries: Ints) -> Sample:
    """Return how answers were drawn; those of one fact were drawn together."""
    sample = rows.sample(queries.tolist())
    facts = rows.unit[queries]
    if sample.clusters is not None or len(np.unique(facts)) == len(facts):
        return sample
    return sample._replace(clusters=facts)


def _units(rows: Rows, queries: Ints) -> Labels:
    """Return the sampling unit of each answer, of which no part is fitted on another."""
    sample = rows.sample(queries.tolist())
    labels = sample.also if sample.clusters is None else sample.clusters
    return rows.unit[queries] if labels is None else labels


def _measured(outcome: RunFacts, kind: str, judged: Judged, total: int, scaled: Scaled | None = None) -> Confidence:
    """:param total: number of answers, with those that have no confidence."""
    rows, sure, right = outcome.rows, judged.confidence, judged.right
    sample, is_right = _sample(rows, judged.queries), judged.right > RIGHT

    def recipe(name: str) -> str:
        return f"{name} of {kind}{outcome.recipe('')}"

    about = {"accuracy": estimates.mean(right, sample, recipe("accuracy"))}
    about["mean confidence"] = estimates.mean(sure, sample, recipe("mean confidence"))

    def row(temperature: str | None, confidence: Floats, name: str = "") -> dict[str, Any]:
        return {"confidence": kind, "temperature": temperature, "answers": about["accuracy"].n, **about} | {
            "error": calibration_error(confidence, right, sample, recipe(f"calibration error{name}")),
            "Brier": estimates.mean((confidence - right) ** 2, sample, recipe(f"Brier score{name}"), form=".3f"),
            "AUROC": auroc(confidence, is_right, sample, recipe(f"AUROC of being right{name}")),
        }

    table = [row(None, sure)]
    if scaled is not None:
        shown = "–".join(f"{value:.2f}" for value in sorted(scaled.temperatures))
        table.append(row(shown, scaled.confidence, " after scaling"))
    temperatures = None if scaled is None else scaled.temperatures
    after = [None] * len(sure) if scaled is None else scaled.confidence.tolist()
    facts = [rows.fact_ids[query] or rows.query_ids[query] for query in judged.queries.tolist()]
    answers: list[tuple[Cell, ...]] = list(
        zip(facts, judged.templates.tolist(), sure.tolist(), after, right.tolist(), strict=True)
    )
    claims = _claims(outcome, kind, judged, sample, scaled)
    return Confidence("", kind, table, temperatures, claims, total - len(right), answers)


def _claims(outcome: RunFacts, kind: str, judged: Judged, sample: Sample, scaled: Scaled | None) -> list[Claim]:
    """Return that confidence is informative, within relations too, and that scaling lowers the calibration error."""
    rows, is_right = outcome.rows, judged.right > RIGHT
    within = midranks(judged.confidence, [rows.relations[query] for query in judged.queries.tolist()])
    contrasts = [
        Contrast(name, above_chance(scores, is_right, sample, f"AUROC − 0.5{part} of {kind}{outcome.recipe('')}"), 1)
        for name, part, scores in (("AUROC", "", judged.confidence), ("within relations", " within relations", within))
    ]
    claims = [Claim(f"AUROC of confidence by {kind} − 0.5", tuple(contrasts))]
    if scaled is not None:
        name = "calibration error without − with temperature scaling"
        sides, line = (judged.confidence, scaled.confidence), f"{name}{outcome.recipe('')}"
        lower = calibration_difference(*sides, judged.right, sample, line)
        claims.append(Claim(name, (Contrast("difference", lower, 1),)))
    return claims


def conclude(findings: Calibration) -> list[str]:
    return sentences(findings.decisions, is_share=False)


def tables(findings: Calibration) -> list[Table]:
    confidences = findings.confidences
    rows = [{"run": line.run} | row for line in confidences for row in line.rows]
    left_out = [(f"{line.run} {line.kind}", line.left_out) for line in confidences]
    notes = [
        "calibration error: debiased, in ten bins of equal size",
        "Brier: mean of (confidence − right)² (the metric brier is over all answers)",
        "AUROC: chance that a right answer is more confident than a wrong one",
        "agreement: share of templates whose first answer is the most frequent one, over queries",
    ]
    if any(line.temperatures for line in confidences):
        notes.append("temperature: of the two halves, each fitted on the other; – : unscaled")
    notes += [f"{name}: {count} answers without a confidence are excluded" for name, count in left_out if count]
    one_run = ("run",) if len({line.run for line in confidences}) == 1 else ()
    hidden = ("mean confidence", "mean confidence low", "mean confidence high", "AUROC p", *one_run)
    claims = [
        (decision.claim.name, decision.estimate, decision.word, decision.reason or None)
        for decision in findings.decisions
    ]
    return [
        Table.of(rows, "confidence", notes, inline=True, hidden=hidden),
        Table.of(claims, "claims", columns=("claim", "difference", "verdict", "reason"), hidden=("reason",)),
    ]


def files(findings: Calibration) -> dict[str, Table]:
    columns = ("run", "by", "fact", "template", "confidence", "scaled", "right")
    rows = [(line.run, line.kind, *answer) for line in findings.confidences for answer in line.answers]
    return {"calibration-answers": Table(columns, tuple(rows), "answers")}


# --- estimates


_UNLIMITED = (-np.inf, np.inf)
_SIGNED = (-1.0, 1.0)


def calibration_error(confidence: npt.ArrayLike, right: npt.ArrayLike, sample: Sample, recipe: str) -> Estimate:
    """Return the expected calibration error, debiased, in bins of equal size, as ``fathom metrics`` does.

    :param confidence: probability of the answer given, shape (n). :param right: whether it is right, 0 to 1.
    """
    gaps = list(calibration_gaps(confidence, right))
    result = between_folds(gaps, sample, (debiased_sum, cautious_sum))
    return as_estimate(result, np.size(right), recipe, sample, ".3f", tested=False)


def calibration_difference(
    first: npt.ArrayLike, second: npt.ArrayLike, right: npt.ArrayLike, sample: Sample, recipe: str
) -> Estimate:
    """Return the calibration error of the first confidences − that of the second, paired, tested against 0."""
    gaps = [gap for confidence in (first, second) for gap in calibration_gaps(confidence, right)]
    errors = np.nan_to_num([between(gap, sample, _UNLIMITED).error for gap in gaps])
    half = len(gaps) // 2

    def fold(*means: Floats) -> Floats:
        return debiased_sum(*means[:half], errors=errors[:half]) - debiased_sum(*means[half:], errors=errors[half:])

    return as_estimate(between(gaps, sample, _SIGNED, fold=fold), np.size(right), recipe, sample, "+.3f")


class Scaled(NamedTuple):
    """Confidences after temperature scaling. :param temperatures: of either half, fitted on the other."""

    confidence: Floats
    temperatures: tuple[float, float]


def scale_temperature(scores: Sequence[Floats], right: Floats, units: Labels, seed: int) -> Scaled | None:
    """Return softmax confidences scaled by a temperature that other sampling units chose; None with fewer than two.

    :param scores: log-likelihoods of each query's options. :param right: whether the best one is right, 0 to 1.
    :param units: label of each query's sampling unit, which is in one half as a whole.
    """
    names, unit = np.unique(np.asarray(units), return_inverse=True)
    if len(names) < 2:
        return None
    half = (np.random.default_rng(seed).permutation(len(names)) % 2)[unit]
    confidence, temperatures = np.empty(len(scores)), []
    for side in (0, 1):
        fitted, applied = (np.flatnonzero(part).tolist() for part in (half != side, half == side))
        temperatures.append(fit_temperature([scores[at] for at in fitted], right[fitted]))
        confidence[applied] = scaled_confidence([scores[at] for at in applied], temperatures[-1])
    return Scaled(confidence, (temperatures[0], temperatures[1]))
