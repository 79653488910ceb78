"""The claims of a paper, decided for the models of a plan.

A claim is one difference: the runs of its first side minus those of its second. Runs are paired if they have the same
data, model and other keys, as far as both sides have them, and each pair is compared on its common facts. All claims of
a plan are one family.

Every claim has a control: it cannot be determined if none of its runs is significantly above its baselines, since
differences between models that know nothing show no knowledge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np

from fathom.base.errors import BadInput, refuse
from fathom.plans.content import FACT, ClaimPart, PlanContent, PlanFaults, SidePart
from fathom.plans.steps import PlannedStep, StepState
from fathom.plans.studies import StudyResult, matching
from fathom.plans.wide import scoring_of
from fathom.results.baselines import RunBaselines
from fathom.results.claims import SIGNIFICANT, UNDETERMINED, Claim, Contrast, Decision, decide, difference_in_words
from fathom.results.compare import paired_metric
from fathom.results.estimates import Estimate, combined, correlation_within, difference
from fathom.results.facts import RunFacts, common_facts
from fathom.results.rows import NONE, Floats, Rows, grouped
from fathom.results.samples import Sample, drawn
from fathom.results.tables import Table, write_tables
from fathom.studies.length_bias import gold_tokens
from fathom.studies.repeated import overlaps

NAME, TITLE = "claims", "the paper's claims, for your models"
OUTCOMES = {SIGNIFICANT: "holds"}
AGREEMENT, LENGTH_BIAS, REPETITION = "agreement", "length bias", "repetition"
CORRELATIONS = (AGREEMENT, LENGTH_BIAS)
QUANTITIES = (*CORRELATIONS, REPETITION)
"""Quantities other than metrics. *agreement*: the correlation of both sides' log ranks within relations. *length bias*:
that of the difference of log ranks with the answer's number of tokens. *repetition*: the share of the best answers to
two facts that are the same."""
CUT = 10
"""The k of best answers, and of the control, for these quantities."""
NO_KNOWLEDGE = "none of its runs is significantly above its baselines"
Runs = Mapping[str, tuple[PlannedStep, StepState]]
Pair = tuple[RunFacts, RunFacts]


class PlannedClaim(NamedTuple):
    """A claim of a plan. :param sides: names of the runs of both sides."""

    name: str
    part: ClaimPart
    sides: Sequence[Sequence[str]]


def plan_claims(content: PlanContent, runs: Sequence[PlannedStep], faults: PlanFaults) -> list[PlannedClaim]:
    """Return all claims; a fault for each that is wrong."""
    planned = []
    for name, part in content.claims.items():
        add = partial(faults.add_at, NAME, name)
        if part.metric not in QUANTITIES:
            try:
                paired_metric(part.metric)
            except BadInput as error:
                add("metric", f"{error}; or {', '.join(QUANTITIES)}")
        elif part.by != FACT:
            add("by", f"'{part.metric}' is paired by fact: remove by:")
        sides = [
            [run.name for run in matching(side.runs, runs, partial(add, f"{key}.runs"), content.is_partial)]
            for key, side in (("first", part.first), ("second", part.second))
        ]
        planned.append(PlannedClaim(name, part, sides))
    return planned


def decide_claims(planned: Sequence[PlannedClaim], runs: Runs, out: Path, overwrite: bool = False) -> StudyResult:
    """Decide all claims as one family, and write their table. What cannot be compared is a reason, not an error."""
    claims: dict[str, Claim | None] = {}
    for entry in planned:
        number, why = None, NO_KNOWLEDGE
        try:
            pairs = _pairs(entry, runs)
            if any(_is_above(side, entry.part.metric) for pair in pairs for side in pair):
                measured = _correlation if entry.part.metric in CORRELATIONS else _difference
                number = measured(entry.part, pairs)
        except BadInput as error:
            why = "; ".join(error.faults)
        sign = 1 if entry.part.direction == "higher" else -1
        claims[entry.name] = Claim(entry.part.sentence, (Contrast(entry.part.metric, number, sign, why),))
    decisions = decide(claims)
    answer = [
        "{} ({}): {} ({})".format(entry.part.sentence, entry.part.where, *_in_words(entry, decisions[entry.name]))
        for entry in planned
    ]
    result = StudyResult(NAME, [_table(planned, decisions)], answer)
    write_tables(lambda _: list(result.tables), out, NAME, result.answer, overwrite)
    return result


def _is_above(side: RunFacts, metric: str) -> bool:
    """Return whether Hits@k is significantly above every baseline, with the k of the metric."""
    k = CUT if metric in QUANTITIES else int(metric.partition("@")[2] or 1)
    claim = RunBaselines(side, side.rows).claim(k, side.scored_facts)
    return claim is not None and decide({NAME: claim})[NAME].holds


# --- runs


def _pairs(entry: PlannedClaim, runs: Runs) -> list[Pair]:
    """Return the runs of both sides that are compared with each other.

    :raises BadInput: runs are missing or failed, or the models are not those that the claim needs.
    """
    first, second = map(partial(_read, runs=runs), (entry.part.first, entry.part.second), entry.sides)
    pairs = [(facts, partner) for keys, facts in first for partner in _partners(keys, second)]
    ratio = entry.part.ratio
    alike = [pair for pair in pairs if ratio is None or _ratio(*pair) <= ratio]
    if not alike:
        raise BadInput(f"needs models whose sizes differ at most {ratio:g} times")
    return alike


def _partners(keys: Mapping[str, str], runs: Sequence[tuple[Mapping[str, str], RunFacts]]) -> list[RunFacts]:
    """Return the runs that agree in these keys, data and model first, as far as any of them does."""
    for key in dict.fromkeys(("data", "model", *keys)):
        runs = [run for run in runs if run[0].get(key) == keys.get(key)] or runs
    return [facts for _, facts in runs]


def _ratio(first: RunFacts, second: RunFacts) -> float:
    sizes = first.parameters or 0, second.parameters or 0
    return max(sizes) / min(sizes) if all(sizes) else np.inf


def _read(side: SidePart, names: Sequence[str], runs: Runs) -> list[tuple[Mapping[str, str], RunFacts]]:
    """Read the runs of a side, each with its keys in the plan."""
    refuse([] if names else [f"no run '{', '.join(side.runs)}': its data or models are missing"])
    refuse(f"needs a run that failed or is missing: {name}" for name in names if runs[name][1].run is None)
    read = [(runs[name][0].keys, _facts(side, *runs[name])) for name in names]
    sizes = {facts.parameters for _, facts in read if facts.parameters}
    ends = {min(sizes): "smallest", max(sizes): "largest"} if len(sizes) > 1 else {}
    kept = [
        (keys, facts)
        for keys, facts in read
        if side.models in ("", facts.attention.replace("bidirectional", "masked"), ends.get(facts.parameters or 0))
    ]
    refuse(
        [] if kept else [f"needs a {side.models} model, found {', '.join(sorted({facts.model for _, facts in read}))}"]
    )
    return kept


def _facts(side: SidePart, run: PlannedStep, state: StepState) -> RunFacts:
    """:raises BadInput: the run lacks the scoring, or the part of the facts."""
    assert state.run is not None
    rows = Rows(state.run, False, run.step.options.cluster)
    facts = RunFacts(state.run, rows, scoring_of(rows, side.scoring, run.name), run.keys.get("model", run.name))
    key, _, value = side.only.partition(":")
    part = facts.parts(key).get(value) if key else facts
    if part is None:
        raise BadInput(f"{run.name} has no facts of {side.only}")
    return part


# --- differences


def _difference(part: ClaimPart, pairs: Sequence[Pair]) -> Estimate:
    """Return the mean of first − second over facts, or values of ``by``, each the mean of all its pairs."""
    each = grouped(item for pair in pairs for item in _paired(part, *pair).items())
    values = np.array([fmean(numbers) for numbers in each.values()])
    sides = [side for pair in pairs for side in pair]
    if np.isnan(values).any():
        raise BadInput(f"{part.metric} is undefined: {sides[0].why_undefined}")
    sample = _sample(list(each), sides) if part.by == FACT else Sample(part.by)
    recipe = combined(part.metric, [side.recipe("") for side in sides])
    return difference(values, np.zeros(len(values)), sample, recipe)


def _correlation(part: ClaimPart, pairs: Sequence[Pair]) -> Estimate:
    """Return Pearson's r within the relations of each pair. :raises BadInput: a rank is unknown."""
    points = [point for number, pair in enumerate(pairs) for point in _points(part.metric, number, *pair)]
    facts, groups, x, y = map(list, zip(*points, strict=True))
    if not np.isfinite(x + y).all():
        raise BadInput("the correlation needs every rank: run without --max-rank")
    sides = [side for pair in pairs for side in pair]
    recipe = combined(part.metric, [side.recipe("") for side in sides])
    return correlation_within(x, y, groups, _sample(facts, sides), recipe)


def _points(metric: str, number: int, first: RunFacts, second: RunFacts) -> Iterator[tuple[str, str, float, float]]:
    """Return fact, group and both values of each common fact; the pair's relations are the groups."""
    facts = common_facts([first, second])
    x, y = (side.mean_log_ranks[side.at(facts)] for side in (first, second))
    if metric == LENGTH_BIAS:
        x, y = x - y, np.array(gold_tokens(first, facts), dtype=float)
    groups = [f"{number} {relation}" for relation in first.relations_of(facts)]
    return zip(facts, groups, x.tolist(), y.tolist(), strict=True)


def _sample(facts: Sequence[str], sides: Sequence[RunFacts]) -> Sample:
    """Return how facts of several runs were drawn. A fact may occur several times, for several models."""
    columns = ((side.facts, zip(side.relations, side.labels, side.subjects, strict=True)) for side in sides)
    about = {fact: row for names, rows in columns for fact, row in zip(names, rows, strict=True)}
    relations, labels, subjects = zip(*map(about.__getitem__, facts), strict=True)
    found = drawn(sides[0].cluster, relations, labels, subjects=subjects)
    return (found if found.clusters is not None else found._replace(clusters=facts)).numbered()


def _paired(part: ClaimPart, first: RunFacts, second: RunFacts) -> dict[str, float]:
    """Return first − second by fact, or by another key, of what both have.

    :raises BadInput: no fact in common, or other candidates.
    """
    facts = common_facts([first, second]) if part.by == FACT else []
    values, subtracted = (_by_key(part, side, facts or side.scored_facts) for side in (first, second))
    return {key: value - subtracted[key] for key, value in values.items() if key in subtracted}


def _by_key(part: ClaimPart, side: RunFacts, facts: Sequence[str]) -> dict[str, float]:
    """Return the mean value of each fact, or of the facts of each value of ``by``."""
    if part.by not in (FACT, *side.groups):
        raise BadInput(f"{side.path} has no '{part.by}': it has {', '.join(side.groups)}")
    keys = facts if part.by == FACT else [side.groups[part.by][place][0] for place in side.at(facts).tolist()]
    values = _values(part.metric, side, facts).tolist()
    return {key: fmean(group) for key, group in grouped(zip(keys, values, strict=True)).items() if key != NONE}


def _values(metric: str, side: RunFacts, facts: Sequence[str]) -> Floats:
    """Return a value per fact, shape (n)."""
    at = side.at(facts)
    if metric == REPETITION:
        return overlaps(side, facts, CUT)[at]
    return side.values(paired_metric(metric))[at]


# --- in words


def _in_words(entry: PlannedClaim, decision: Decision) -> tuple[str, str]:
    """Return the outcome of a claim, and its difference or why it is undetermined."""
    is_share = entry.part.metric not in CORRELATIONS
    why = decision.reason if decision.word == UNDETERMINED else difference_in_words(decision, is_share)
    return OUTCOMES.get(decision.word, decision.word), why


def _table(planned: Sequence[PlannedClaim], decisions: Mapping[str, Decision]) -> Table:
    rows = [
        {
            "claim": entry.part.sentence,
            "where": entry.part.where,
            **dict(zip(("outcome", "difference"), _in_words(entry, decisions[entry.name]), strict=True)),
            "metric": entry.part.metric,
            "value": decisions[entry.name].estimate,
        }
        for entry in planned
    ]
    notes = (
        f"difference: mean over your models; p by Holm, and simultaneous 95 % intervals, for {len(rows)} claims",
        "holds, opposite: significant in the direction of the claim, or in the other",
    )
    return Table.of(rows, TITLE, notes, hidden=["metric", "value", "low", "high", "p"])
