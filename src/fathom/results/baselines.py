"""What answering without knowledge would score on the same predictions, and whether a model scores more.

- *random*: any order of the candidates, each as likely;
- *majority*: always the answers that are right most often in the *other* facts of the relation;
- *names*: what the model itself says of the names without the subject: each candidate's mean score over the *other*
  queries of the same relation, template and scoring. A model that is not above it does not use the subject;
- *n-gram*: of sentences that ``fathom build cloze`` found, a model of the words beside the gap, counted on the corpus's
  other sentences when the data set was built (:mod:`fathom.building.cloze.ngrams`).

All in expectation over ties. A model is *above* a baseline where the 95 % interval of the paired difference is above 0.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import digamma

from fathom.data.queries import NGRAM, NGRAM_AMONG_ALL
from fathom.metrics.ranking import hits_at_k
from fathom.metrics.table import Metric
from fathom.results.numbers import Number, against
from fathom.results.rows import Floats, Ints, Rows, grouped

NGRAM_MODEL = "n-gram"
NAMES = ("random", "majority", "names", NGRAM_MODEL)
_RANK_OF = re.compile(r"(\d+)(?:-(\d+))? of (\d+)")
NEVER = 1e9
"""Rank of what is not answered at all."""
LEGEND = (
    "random, majority, names: what answering by lot, with what is right most often in the relation's other facts, and "
    "by the model's own scores of the names over other subjects would score (–: not known of every prediction); above: "
    "the 95 % interval of the paired difference is above 0"
)
NGRAM_LEGEND = "n-gram: what the words beside the gap alone would score, counted on the corpus's other sentences"


class Beside(NamedTuple):
    """A number of a model beside that of a baseline, over the same predictions.

    :param baseline: one of :data:`NAMES`.
    :param value: of the baseline.
    :param difference: model − baseline, paired by query.
    """

    baseline: str
    value: float
    difference: Number

    @property
    def above(self) -> bool | None:
        """Whether the model is; None where there is no interval."""
        return None if self.difference.low is None else self.difference.low > 0

    def plain(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {"value": self.value, "difference": self.difference.plain(), "above": self.above}


def verdict_of(beside: Sequence[Beside]) -> str | None:
    """In words: which of these baselines a number is above; None where there are none."""
    if not beside:
        return None
    below = ", ".join(one.baseline for one in beside if one.above is False)
    unknown = ", ".join(one.baseline for one in beside if one.above is None)
    said = (f"not above {below}" if below else "", f"cannot be told of {unknown}" if unknown else "")
    return "; ".join(filter(None, said)) or "above"


class Ranked:
    """Optimistic and pessimistic rank of each prediction's best gold answer, [n]; NaN where it has none."""

    def __init__(self, optimistic: Floats, pessimistic: Floats) -> None:
        self._ranks = optimistic, pessimistic

    def hits(self, k: int) -> Floats:
        """Expected Hits@k."""
        told = ~np.isnan(self._ranks[0])
        found = np.full(len(told), np.nan)
        found[told] = hits_at_k(self._ranks[0][told], self._ranks[1][told], k)
        return found

    def reciprocal(self) -> Floats:
        """Expected 1 / rank: the mean of 1 / r over the places that it may have."""
        first, last = self._ranks
        return np.asarray((digamma(last + 1) - digamma(first)) / (last - first + 1))


class ByLot:
    """Random orders of *others* + *golds* candidates, [n] each; without candidates NaN."""

    def __init__(self, others: Floats, golds: Floats) -> None:
        self._pairs, self._pair = np.unique(np.stack([others, golds]), axis=1, return_inverse=True)

    def hits(self, k: int) -> Floats:
        """Chance that a gold answer is among the first *k*."""
        return self._each(lambda beyond: 1 - float(beyond[min(k, len(beyond) - 1)]))

    def reciprocal(self) -> Floats:
        """Expectation of 1 / rank of the best gold answer."""
        return self._each(lambda beyond: float((-np.diff(beyond) / np.arange(1, len(beyond))).sum()))

    def _each(self, told: Callable[[Floats], float]) -> Floats:
        found = [told(_beyond(int(m), int(g))) if m + g > 0 else np.nan for m, g in self._pairs.T]
        return np.array(found)[self._pair.reshape(-1)]


def _beyond(others: int, golds: int) -> Floats:
    """Chance that the first r hold no gold answer, r = 0 … others + 1: ∏ (others − j) / (others + golds − j)."""
    left = np.arange(others, -1, -1, dtype=float)
    return np.concatenate([[1.0], np.cumprod(left / (left + golds))])


def baselines(rows: Rows) -> dict[str, Ranked | ByLot]:
    """By name; those of which nothing can be told are NaN throughout."""
    return {**without_scores(rows), "names": Ranked(*_by_names(rows))}


def without_scores(rows: Rows) -> dict[str, Ranked | ByLot]:
    """Those that need no model's scores: random, majority, and n-gram where the queries say it."""
    golds = np.array([len(gold) for gold in rows.gold], dtype=float)[rows.query]
    filtered = np.array(rows.filtered, dtype=float)[rows.query]
    asked = rows.number_of_candidates > 0
    others = np.where(asked, np.maximum(rows.number_of_candidates - golds - filtered, 0), 0)
    found: dict[str, Ranked | ByLot] = {
        "random": ByLot(others, np.where(asked, golds, 0)),
        "majority": Ranked(*(ranks[rows.query] for ranks in _by_majority(rows))),
    }
    if any(NGRAM in groups for groups in rows.groups):
        found[NGRAM_MODEL] = Ranked(*(ranks[rows.query] for ranks in _by_ngrams(rows)))
    return found


def beside(rows: Rows, metric: Metric, asked: Ints, found: Mapping[str, Ranked | ByLot]) -> tuple[Beside, ...]:
    """A metric of a model beside each baseline that can tell it of all predictions.

    :param asked: places of predictions of one scoring.
    :param found: of :func:`baselines`.
    """
    if not metric.beside_baselines:
        return ()
    each = ((name, against(rows, metric, asked, metric.columns(one)[0], name)) for name, one in found.items())
    return tuple(Beside(name, *told) for name, told in each if told is not None)


def _by_majority(rows: Rows) -> tuple[Floats, Floats]:
    """Ranks of each query's best gold answer by how often answers are right in the other facts of its relation and
    direction; NaN where there is none. Other right answers of the same subject are filtered, as far as the run asks for
    them, and what the probe could not rank is not ranked here."""
    ranks = np.full((2, len(rows.gold)), np.nan)
    first = dict(zip(rows.query[::-1].tolist(), range(len(rows.query) - 1, -1, -1), strict=True))
    keys = zip(rows.relations, rows.directions, strict=True)
    for queries in grouped((key, query) for query, key in enumerate(keys)).values():
        counts = Counter(answer for query in queries for answer in rows.gold[query])
        of_fact = grouped((int(rows.unit[query]), answer) for query in queries for answer in rows.gold[query])
        of_subject = grouped((rows.subjects[query], answer) for query in queries for answer in rows.gold[query])
        spaces = {
            space: _TimesRight(counts, rows, space) for space in dict.fromkeys(rows.spaces[query] for query in queries)
        }
        for query in queries if len(of_fact) > 1 else ():
            subject, golds = rows.subjects[query], rows.gold[query]
            filtered = {*golds, *(of_subject.get(subject, ()) if subject else ())}
            ranked = _ranked(rows, first.get(query))
            if ranked is not None:
                others = spaces[rows.spaces[query]].without(of_fact.get(int(rows.unit[query]), ()))
                ranks[:, query] = others.ranks(golds, filtered, ranked)
    return ranks[0], ranks[1]


def _ranked(rows: Rows, place: int | None) -> npt.NDArray[np.bool_] | None:
    """Which candidates the probe ranked, those of all where the array is empty; None where nobody knows."""
    if place is None or rows.not_ranked[place] is None:
        return np.zeros(0, dtype=bool)
    scores = rows.scores(place)
    return np.isfinite(scores) if len(scores) else None


class _TimesRight:
    """How often each candidate of a space is right. :param space: None where there are no candidates."""

    def __init__(self, counts: Mapping[str, int], rows: Rows, space: str | None) -> None:
        ids = rows.candidates[space][0] if space in rows.candidates else list(counts)
        self.open = space not in rows.candidates
        self.place = {id_: at for at, id_ in enumerate(ids)}
        self.count = np.array([counts.get(id_, 0) for id_ in ids])

    def without(self, answers: Iterable[str]) -> _TimesRight:
        """Each of the answers counted once less."""
        fewer = copy(self)
        fewer.count = self.count.copy()
        np.subtract.at(fewer.count, self._at(answers), 1)
        return fewer

    def ranks(
        self, golds: Iterable[str], filtered: Iterable[str], ranked: npt.NDArray[np.bool_]
    ) -> tuple[float, float]:
        """Of the most frequent gold answer, before and after all that are as frequent, give or take its own fact: else
        what is asked would be rarer than all others in balanced data, and never first."""
        right = self._at(golds)
        if not right:
            return np.nan, np.nan
        best = self.count[right].max()
        if self.open and best <= 0:  # nobody would write it
            return NEVER, NEVER
        others = ranked.copy() if len(ranked) else np.ones(len(self.count), dtype=bool)
        others[self._at(filtered)] = False
        ahead, upto = ((self.count >= least)[others].sum() for least in (best + 3, best))
        return 1 + ahead, 1 + upto

    def _at(self, answers: Iterable[str]) -> list[int]:
        return [self.place[answer] for answer in answers if answer in self.place]


def _by_names(rows: Rows) -> tuple[Floats, Floats]:
    """Ranks by each candidate's mean score over the other queries; NaN where a query is alone, its scores were not
    kept, or it was asked by a sentence of its own."""
    ranks = np.full((2, len(rows.query)), np.nan)
    if rows.natural:
        return ranks[0], ranks[1]
    scored = np.flatnonzero(rows.scored).tolist()
    for places in grouped((_asked_alike(rows, place), place) for place in scored if len(rows.scores(place))).values():
        scores = np.stack([rows.scores(place) for place in places])
        if len(places) > 1:
            ranks[:, places] = _ranks_of_means(scores, [rows.gold_places(place) for place in places])
    return ranks[0], ranks[1]


def _by_ngrams(rows: Rows) -> tuple[Floats, Floats]:
    """Ranks of each query's best gold answer among its candidates as the data set has them; NaN where these are others
    than the data set was built with. Candidates that the probe could not rank stay in its way here."""
    ranks = np.full((2, len(rows.gold)), np.nan)
    ranked = np.zeros(len(rows.gold))
    ranked[rows.query] = rows.number_of_candidates
    for query, (space, groups) in enumerate(zip(rows.spaces, rows.groups, strict=True)):
        size = len(rows.candidates[space][0]) if space in rows.candidates else 0
        for said in (groups.get(NGRAM), groups.get(NGRAM_AMONG_ALL)):
            told = _RANK_OF.fullmatch(said or "")
            if told and int(told[3]) == size:
                places = int(told[1]), int(told[2] or told[1])
                ranks[:, query] = np.minimum(places, max(ranked[query], 1))
    return ranks[0], ranks[1]


def _asked_alike(rows: Rows, place: int) -> tuple[Any, ...]:
    query = int(rows.query[place])
    about = rows.relations[query], rows.directions[query], rows.spaces[query]
    return (*about, int(rows.template[place]), rows.scoring[place])


def _ranks_of_means(scores: Floats, golds: Sequence[Sequence[int]]) -> Floats:
    """[2, n]. :param scores: [n, candidates]; what is not finite is not ranked. :param golds: of each."""
    told = np.isfinite(scores)
    filled = np.where(told, scores, 0.0)
    count = told.sum(axis=0) - told
    told &= count > 0
    means = np.divide(filled.sum(axis=0) - filled, count, out=np.full(scores.shape, -np.inf), where=told)
    right = np.zeros(scores.shape, dtype=bool)
    for own, gold in zip(right, golds, strict=True):
        own[gold] = True
    best = np.where(right, means, -np.inf).max(axis=1, keepdims=True)
    unknown = np.isneginf(best)
    best[unknown] = 0.0
    # Sums in another order differ in their last bits, and would break a tie.
    near = 1e-9 * np.maximum(1.0, np.abs(best))
    others = np.where(right, -np.inf, means)
    ranks = np.stack([1 + (others > best + near).sum(axis=1), 1 + (others >= best - near).sum(axis=1)]).astype(float)
    ranks[:, unknown[:, 0]] = np.nan
    return ranks
