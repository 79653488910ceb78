"""Baselines: scores of answerers without knowledge of the subject on the same predictions.

- *random*: any order of the candidates, each equally likely;
- *majority*: always the answers that are most often right in the *other* facts of the relation;
- *frequency*, on graphs in place of majority: the answers most frequent in the training split with this relation;
- *names*: the model's own prior over answer names: each candidate's mean score over the *other* queries of the same
  relation, template and scoring;
- *n-gram*: for sentences of ``fathom build cloze``, a model of the words next to the gap, counted on the corpus's
  other sentences when the data set was built.

Values are expected over ties, filtered as the ranking is, and compared on the facts that have the baseline. A model is
*above chance* if it is significantly more accurate than every one of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from itertools import compress
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from fathom.data.queries import NGRAM, NGRAM_AMONG_ALL
from fathom.results import estimates
from fathom.results.claims import NO_DIFFERENCE, OPPOSITE, OTHER_SIGN, SIGNIFICANT, Claim, Contrast, Decision, decide
from fathom.results.estimates import MINUS, Estimate, against_baseline
from fathom.results.facts import RunFacts
from fathom.results.metrics.ranking import hits_at_k, reciprocal_rank
from fathom.results.metrics.table import Metric
from fathom.results.rows import Floats, Ints, Rows, grouped
from fathom.results.samples import Sample

RANDOM, NGRAM_MODEL, FREQUENCY = "random", "n-gram", "frequency"
NAMES = (RANDOM, "majority", FREQUENCY, "names", NGRAM_MODEL)
_RANK_OF = re.compile(r"(\d+)(?:-(\d+))? of (\d+)")
NEVER = 1e9
"""Rank of an answer that is never given."""
ABOVE = "above"
LEGENDS = {
    "random": "random: guessing",
    "majority": "majority: the relation's most frequent answer",
    FREQUENCY: "frequency: the relation's most frequent answers in the training split",
    "names": "names: the model's prior over answer names",
    NGRAM_MODEL: "n-gram: the words next to the gap alone, counted on the corpus's other sentences",
}
BASELINE_COLUMNS = ("baseline", "Acc@1 baseline", "over baseline")
STRONGEST = "baseline: the strongest on the same facts"
NO_KNOWLEDGE = "above baseline: the model is above every baseline; a change between two that are not shows no knowledge"
NO_FREQUENCY = "the run does not record ranks by training frequency: evaluate it again"


class BaselineComparison(NamedTuple):
    """A metric of a model and of a baseline over the same predictions.

    :param baseline: one of :data:`NAMES`.
    :param difference: model − baseline, paired; it is of the facts that have the baseline.
    """

    baseline: str
    value: float
    difference: Estimate

    def plain(self) -> dict[str, Any]:
        return {"value": self.value, "difference": self.difference.plain()}


def above_chance(name: str, compared: Sequence[BaselineComparison], missing: str = "") -> Claim | None:
    """Return the claim that a number is above every baseline; None without any baseline.

    :param missing: why a baseline that the claim needs was not computed.
    """
    contrasts = [Contrast(comparison.baseline, comparison.difference, 1, optional=True) for comparison in compared]
    if missing:
        contrasts.append(Contrast(FREQUENCY, None, 1, missing))
    return Claim(name, tuple(contrasts)) if contrasts else None


def verdict_text(decision: Decision | None) -> str | None:
    """Return "above", "not above random, names", "below names" or "cannot be determined: why"; None without a claim."""
    if decision is None:
        return None
    if decision.holds:
        return ABOVE
    if decision.word == OPPOSITE and decision.decisive is not None:
        return f"below {decision.decisive.name}"
    if decision.word == NO_DIFFERENCE:
        return f"not above {decision.reason.partition(': ')[2].replace(OTHER_SIGN, '')}"
    return f"{decision.word}: {decision.reason}"


def strongest_columns(best: BaselineComparison | None) -> tuple[str | None, float | None, Estimate | None]:
    """Return the cells of :data:`BASELINE_COLUMNS`: its name, its value, and the model − it."""
    return (best.baseline, best.value, best.difference) if best else (None, None, None)


def which_is_above(decisions: Sequence[Decision | None], names: tuple[str, str]) -> str | None:
    """Return which of two models is above the baselines: "both", "neither" or its name; None where that is unknown."""
    if any(decision is None or decision.word not in (SIGNIFICANT, OPPOSITE, NO_DIFFERENCE) for decision in decisions):
        return None
    holds = [decision is not None and decision.holds for decision in decisions]
    if holds[0] == holds[1]:
        return "both" if holds[0] else "neither"
    return names[0] if holds[0] else names[1]


def why_no_frequency(rows: Rows) -> str:
    """Return why a run of a graph has no ranks by frequency; "" where they are not needed or there."""
    return NO_FREQUENCY if rows.is_of_graph and not rows.records_frequency else ""


class BaselineRanks:
    """Optimistic and pessimistic rank of each prediction's best gold answer, shape (2, n); NaN where it has none."""

    def __init__(self, ranks: Floats) -> None:
        self._ranks = ranks

    def hits(self, k: int) -> Floats:
        ranked = ~np.isnan(self._ranks[0])
        hits = np.full(len(ranked), np.nan)
        hits[ranked] = hits_at_k(self._ranks[0, ranked], self._ranks[1, ranked], k)
        return hits

    def reciprocal(self) -> Floats:
        return reciprocal_rank(*self._ranks)


class RandomOrder:
    """Random orders of *others* + *golds* candidates, shape (n) each; without candidates NaN."""

    def __init__(self, others: Floats, golds: Floats) -> None:
        self._pairs, self._pair = np.unique(np.stack([others, golds]), axis=1, return_inverse=True)

    def hits(self, k: int) -> Floats:
        return self._each(lambda beyond: 1 - float(beyond[min(k, len(beyond) - 1)]))

    def reciprocal(self) -> Floats:
        return self._each(lambda beyond: float((-np.diff(beyond) / np.arange(1, len(beyond))).sum()))

    def _each(self, value: Callable[[Floats], float]) -> Floats:
        """:param value: takes the chance that the first r have no gold answer, r = 0 … others + 1."""
        values = np.full(self._pairs.shape[1], np.nan)
        for at, (others, golds) in enumerate(self._pairs.T.astype(int)):
            if others + golds:
                left = np.arange(others, -1, -1, dtype=float)
                values[at] = value(np.concatenate([[1.0], np.cumprod(left / (left + golds))]))
        return values[self._pair.reshape(-1)]


def baselines(rows: Rows) -> dict[str, BaselineRanks | RandomOrder]:
    """Return the baselines by name; those that are undefined are NaN throughout."""
    each: dict[str, BaselineRanks | RandomOrder] = {RANDOM: random_order(rows)}
    by_frequency = not np.isnan(rows.by_frequency).all()
    ranks = rows.by_frequency if by_frequency else _by_majority(rows)
    each[FREQUENCY if by_frequency else "majority"] = BaselineRanks(ranks[:, rows.query])
    if any(NGRAM in groups for groups in rows.groups):
        each[NGRAM_MODEL] = BaselineRanks(_by_ngrams(rows)[:, rows.query])
    return {**each, "names": BaselineRanks(_by_names(rows))}


def random_order(rows: Rows) -> RandomOrder:
    """Return the ranks of random guessing."""
    golds = np.array([len(gold) for gold in rows.gold], dtype=float)[rows.query]
    filtered = np.array(rows.filtered, dtype=float)[rows.query]
    ranked = rows.number_of_candidates > 0
    others = np.where(ranked, np.maximum(rows.number_of_candidates - golds - filtered, 0), 0)
    return RandomOrder(others, np.where(ranked, golds, 0))


def why_no_names(rows: Rows, ranked: Mapping[str, BaselineRanks | RandomOrder]) -> str:
    """Return why the names baseline is missing; "" if it is not, or if answers are written without candidates."""
    if not np.isnan(ranked["names"].hits(1)).all() or not rows.number_of_candidates.any():
        return ""
    if rows.natural:
        return "no baseline by names: each query has a sentence of its own"
    return "no baseline by names: it needs the scores of all candidates (at most 1,000, without --max-rank)"


def compare_baselines(
    rows: Rows, metric: Metric, asked: Ints, ranked: Mapping[str, BaselineRanks | RandomOrder]
) -> tuple[BaselineComparison, ...]:
    """Compare a metric with each of the :func:`baselines`. :param asked: places of predictions of one scoring."""
    if not metric.has_baselines:
        return ()
    each = (
        (name, against_baseline(rows, metric, asked, metric.columns(ranks)[0], name, fixed=name == RANDOM))
        for name, ranks in ranked.items()
    )
    return tuple(BaselineComparison(name, *values) for name, values in each if values is not None)


class RunBaselines:
    """The baselines of one run by fact. Reads the scores of all candidates, which :class:`RunFacts` does not.

    ``missing``: why a baseline that a claim needs was not computed.
    """

    def __init__(self, facts: RunFacts, rows: Rows | None = None) -> None:
        """:param rows: the run without the scores of all candidates; the names baseline is then unknown."""
        self._facts = facts
        rows = rows or Rows(facts.run, cluster=facts.cluster)
        self._ranked, self.missing = baselines(rows), why_no_frequency(rows)

    def hits(self, k: int, part: RunFacts | None = None) -> dict[str, Floats]:
        return {name: (part or self._facts).per_fact(ranked.hits(k)) for name, ranked in self._ranked.items()}

    def compare(
        self, k: int, facts: Sequence[str], part: RunFacts | None = None, sample: Sample | None = None
    ) -> list[BaselineComparison]:
        """Compare Hits@k of these facts, of a part or all of the run, with each baseline on those that have both.

        :param sample: how the facts were drawn, if already known.
        """
        side, results = part or self._facts, []
        hits, cut = side.hits(k)[side.at(facts)], "accuracy" if k == 1 else f"hits@{k}"
        for name, values in self.hits(k, side).items():
            others = values[side.at(facts)]
            both = ~np.isnan(hits + others)
            if both.any():
                drawn = sample.only(both) if sample else side.sample(list(compress(facts, both)))
                line = side.recipe(f"{cut}{MINUS}{name}")
                fixed = name == RANDOM
                compared = estimates.over_baseline(hits[both], others[both], drawn, line, fixed=fixed)
                results.append(BaselineComparison(name, *compared))
        return results

    def strongest(self, k: int, facts: Sequence[str]) -> BaselineComparison | None:
        """Return the baseline with most hits; None where none is known."""
        return max(self.compare(k, facts), key=lambda comparison: comparison.value, default=None)

    def claim(self, k: int, facts: Sequence[str]) -> Claim | None:
        """Return the claim that Hits@k of these facts is above every baseline."""
        return above_chance(f"{self._facts.model} knows more than the baselines", self.compare(k, facts), self.missing)

    def known(self, facts: Sequence[str]) -> list[str]:
        """Return the facts on which the run is right more often than each baseline that they have."""
        at = self._facts.at(facts)
        each = [values[at] for values in self.hits(1).values()]
        bar = np.fmax.reduce([np.zeros(len(at)), *each])
        return list(compress(facts, self._facts.hits(1)[at] > bar))


def _by_majority(rows: Rows) -> Floats:
    """Rank each query's best gold answer by how often answers are right in the other facts of its relation.

    Filtered as the ranking is, over candidates that the probe could rank; NaN if the run does not record these.
    """
    ranks = np.full((2, len(rows.gold)), np.nan)
    first = dict(zip(rows.query[::-1].tolist(), range(len(rows.query) - 1, -1, -1), strict=True))
    keys = zip(rows.relations, rows.directions, strict=True)
    for queries in grouped((key, query) for query, key in enumerate(keys)).values():
        counts = Counter(answer for query in queries for answer in rows.gold[query])
        of_fact = grouped((int(rows.unit[query]), answer) for query in queries for answer in rows.gold[query])
        spaces = {space: _TimesRight(counts, rows, space) for space in {rows.spaces[query] for query in queries}}
        for query in queries if len(of_fact) > 1 else ():
            golds, filtered = rows.gold[query], _filtered(rows, query)
            ranked = _ranked(rows, first.get(query))
            if ranked is not None and filtered is not None:
                others = spaces[rows.spaces[query]].without(of_fact.get(int(rows.unit[query]), ()))
                ranks[:, query] = others.ranks(golds, {*golds, *filtered}, ranked)
    return ranks


def _filtered(rows: Rows, query: int) -> list[str] | None:
    """Return the ids that a ranking excluded in addition to gold answers; None if not recorded."""
    return rows.known[query] if rows.known[query] is not None or rows.filtered[query] else []


def _ranked(rows: Rows, place: int | None) -> npt.NDArray[np.bool_] | None:
    """Return which candidates the probe ranked, an empty array for all; None if unknown."""
    if place is None or rows.not_ranked[place] is None:
        return np.zeros(0, dtype=bool)
    scores = rows.scores(place)
    return np.isfinite(scores) if len(scores) else None


class _TimesRight:
    """Number of times each candidate of a space is right. :param space: None without candidates."""

    def __init__(self, counts: Mapping[str, int], rows: Rows, space: str | None) -> None:
        ids = rows.candidates[space][0] if space in rows.candidates else list(counts)
        self.open = space not in rows.candidates
        self.place = {id_: at for at, id_ in enumerate(ids)}
        self.count = np.array([counts.get(id_, 0) for id_ in ids])

    def without(self, answers: Iterable[str]) -> _TimesRight:
        """Count each of the answers once less."""
        fewer = copy(self)
        fewer.count = self.count.copy()
        np.subtract.at(fewer.count, self._at(answers), 1)
        return fewer

    def ranks(
        self, golds: Iterable[str], filtered: Iterable[str], ranked: npt.NDArray[np.bool_]
    ) -> tuple[float, float]:
        """Rank the most frequent gold answer, before and after all as frequent, give or take its own fact.

        In balanced data, an answer without its own fact would be rarer than all others, and never first.
        """
        right = self._at(golds)
        if not right:
            return np.nan, np.nan
        best = self.count[right].max()
        if self.open and best <= 0:
            return NEVER, NEVER
        others = ranked.copy() if len(ranked) else np.ones(len(self.count), dtype=bool)
        others[self._at(filtered)] = False
        ahead, upto = ((self.count >= least)[others].sum() for least in (best + 3, best))
        return 1 + ahead, 1 + upto

    def _at(self, answers: Iterable[str]) -> list[int]:
        return [self.place[answer] for answer in answers if answer in self.place]


def _by_names(rows: Rows) -> Floats:
    """Rank by each candidate's mean score over the other queries; NaN without these or without scores."""
    ranks = np.full((2, len(rows.query)), np.nan)
    scored = [] if rows.natural else np.flatnonzero(rows.scored).tolist()
    for places in grouped((_asked_alike(rows, place), place) for place in scored if len(rows.scores(place))).values():
        scores = np.stack([rows.scores(place) for place in places])
        if len(places) > 1:
            answers = [_filtered(rows, query) for query in rows.query[places].tolist()]
            filtered = [rows.candidate_places(place, ids or ()) for place, ids in zip(places, answers, strict=True)]
            ranks[:, places] = _ranks_of_means(scores, [rows.gold_places(place) for place in places], filtered)
            ranks[:, [place for place, ids in zip(places, answers, strict=True) if ids is None]] = np.nan
    return ranks


def _by_ngrams(rows: Rows) -> Floats:
    """Return the ranks of gold answers that the data set records; NaN where its candidates were others.

    A rank is at most the number of candidates that the probe ranked, if it ranked any.
    """
    ranks = np.full((2, len(rows.gold)), np.nan)
    most = np.full(len(rows.gold), np.inf)
    most[rows.query] = np.where(rows.number_of_candidates > 0, rows.number_of_candidates, np.inf)
    for query, (space, groups) in enumerate(zip(rows.spaces, rows.groups, strict=True)):
        size = len(rows.candidates[space][0]) if space in rows.candidates else 0
        for text in (groups.get(NGRAM), groups.get(NGRAM_AMONG_ALL)):
            match = _RANK_OF.fullmatch(text or "")
            if match and int(match[3]) == size:
                places = int(match[1]), int(match[2] or match[1])
                ranks[:, query] = np.minimum(places, most[query])
    return ranks


def _asked_alike(rows: Rows, place: int) -> tuple[Any, ...]:
    query = int(rows.query[place])
    about = rows.relations[query], rows.directions[query], rows.spaces[query]
    return (*about, int(rows.template[place]), rows.scoring[place])


def _ranks_of_means(scores: Floats, golds: Sequence[Sequence[int]], filtered: Sequence[Sequence[int]]) -> Floats:
    """:param scores: shape (n, candidates), infinite if not ranked.
    :param golds: places of each query's gold answers; *filtered* of other answers to exclude.
    :returns: ranks before and after ties, shape (2, n)."""
    ranked = np.isfinite(scores)
    filled = np.where(ranked, scores, 0.0)
    count = ranked.sum(axis=0) - ranked
    ranked &= count > 0
    means = np.divide(filled.sum(axis=0) - filled, count, out=np.full(scores.shape, -np.inf), where=ranked)
    right = np.zeros(scores.shape, dtype=bool)
    for row, gold in zip(right, golds, strict=True):
        row[gold] = True
    best = np.where(right, means, -np.inf).max(axis=1, keepdims=True)
    unknown = np.isneginf(best)
    best[unknown] = 0.0
    # Sums in another order differ in their last bits, and would break a tie.
    near = 1e-9 * np.maximum(1.0, np.abs(best))
    others = np.where(right, -np.inf, means)
    for row, places in zip(others, filtered, strict=True):
        row[places] = -np.inf
    ranks = np.stack([1 + (others > best + near).sum(axis=1), 1 + (others >= best - near).sum(axis=1)]).astype(float)
    ranks[:, unknown[:, 0]] = np.nan
    return ranks


# --- changes of accuracy from one model to the next


Key = TypeVar("Key")
Model = TypeVar("Model")


class AccuracyChange(NamedTuple):
    """A paired difference between a model and the next one.

    :param about: cells that identify the change, by column.
    :param difference: after − before; without a value if their candidates or facts differ.
    :param decision: None for secondary changes.
    :param above: which of the two is above the baselines on these facts, see :func:`which_is_above`.
    """

    about: Mapping[str, str]
    before: str
    after: str
    difference: Estimate
    decision: Decision | None = None
    above: str | None = None

    @property
    def verdict(self) -> str | None:
        """Whether accuracy rises or drops significantly; else why not."""
        return None if self.decision is None else {1: "rise", -1: "drop"}.get(self.decision.sign, self.decision.word)

    @property
    def row(self) -> dict[str, Any]:
        """Cells of a table."""
        numbers = {"difference": self.difference, "verdict": self.verdict, "above baseline": self.above}
        return {**self.about, "from": self.before, "to": self.after, **numbers}


def decide_changes(
    changes: Mapping[Key, AccuracyChange],
    claims: Mapping[Model, Claim | None],
    model_of: Callable[[AccuracyChange, str], Model],
) -> tuple[dict[Key, AccuracyChange], dict[Model, Decision]]:
    """Decide as one family which changes are significant and which models are above the baselines.

    :param claims: that a model is above its baselines; None without any.
    :param model_of: takes a change and the name of one of its models; returns its key in *claims*.
    :returns: the decided changes, and a decision for each claim, by their keys.
    """
    family: dict[tuple[str, object], Claim | None] = {("above", model): claim for model, claim in claims.items()}
    for key, change in changes.items():
        contrast = Contrast("difference", change.difference)
        family["change", key] = Claim(f"{change.after} − {change.before}", (contrast,))
    decisions = decide(family)
    above = {model: decisions["above", model] for model in claims if ("above", model) in decisions}
    decided = {}
    for key, change in changes.items():
        both = change.before, change.after
        is_above = which_is_above([above.get(model_of(change, model)) for model in both], both)
        decided[key] = change._replace(decision=decisions["change", key], above=is_above)
    return decided, above
