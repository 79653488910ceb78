"""Screening: approximate scores of all answers by a rough copy of the model, exact ones of those that decide.

The rough copy scores everything. Rescored in full precision are gold answers, those close enough to one or to the top
list for rounding to matter, and a sample. A rough score may be off by :data:`SAFETY` times the largest difference seen
in the shard among answers at most as far below the first one; unlikely answers are further off. Each rescoring adds
known differences, so this repeats until nothing is left that could change a rank. The margin is empirical, not proven.

An exact search has one margin m for all answers. Both the answer's and the bound's rough score may be off by m, so the
rough walk goes 2 m below its bounds. Answers more than 2 m above the gold one are better for certain. Those within 2 m
of it, or of the last of the top list, are rescored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fathom.models.base import Model
from fathom.scoring.causal import causal_log_probs
from fathom.scoring.memory import Budget
from fathom.scoring.rows import RankResult, Ranks, top
from fathom.scoring.search import SearchPlan, SearchQuestion, search, walk_answers
from fathom.scoring.statements import Reduction
from fathom.scoring.trie import AnswerTrie, Ints
from fathom.scoring.walk import Floats, SearchResult, SearchState

Scores = NDArray[np.floating[Any]]
Mask = NDArray[np.bool_]

SAFETY = 3.0
"""Factor from the largest difference seen, among answers at most as far below the first, to the margin."""
SEARCH_SAFETY = 2.0
"""The same for searches, where all differences count."""
SAMPLE = 64
"""Least number of answers of a shard that are rescored regardless of their scores."""
LEAST = np.finfo(np.float32).min


class ScreenedScores(NamedTuple):
    """The outcome of a screening.

    :param scores: shape (scorings, queries, candidates): exact if *rescored*, else rough, and too low to matter.
    :param rescored: shape (queries, candidates).
    :param margin: of the rough scores in nats, shape of *scores*.
    """

    scores: Scores
    rescored: Mask
    margin: Scores


def settle(
    rough: Scores,
    gold: Sequence[Sequence[int]],
    top_k: int,
    in_full: Callable[[Mask], Scores],
    sample: int = SAMPLE,
) -> ScreenedScores:
    """Rescore all candidates that could change the rank of a gold answer, a top list or a first answer.

    :param rough: scores of all candidates in nats, shape (scorings, queries, candidates); NaN if unranked in all
        scorings, or without a rough score in one.
    :param gold: places of each query's gold answers.
    :param top_k: length of the top list.
    :param in_full: scores the chosen candidates, shape (queries, candidates), in full precision; returns the shape of
        *rough*, NaN for candidates without a score, and may score more than were chosen.
    :param sample: number of random candidates to rescore; fewer if rescoring one covers many others anyway.
    """
    scores, rescored = rough.copy(), np.zeros(rough.shape[1:], dtype=bool)
    margin: Scores = np.zeros(rough.shape)
    wanted = _first(rough, gold, sample)
    while wanted.any():
        exact = in_full(wanted)
        done = wanted | np.isfinite(exact).all(axis=0)
        scores[:, done] = exact[:, done]
        rescored |= done
        margin = _margins(rough, scores, rescored)
        wanted = undecided(scores, rescored, margin, gold, top_k) & ~rescored
    return ScreenedScores(scores, rescored, margin)


def _margins(rough: Scores, scores: Scores, rescored: Mask) -> Scores:
    """Return the margin of each rough score in nats. Shapes as in :class:`ScreenedScores`."""
    margins = np.zeros(rough.shape)
    for scoring, values in enumerate(rough):
        finite = np.where(np.isfinite(values), values, -np.inf)
        below_first = finite.max(axis=-1, keepdims=True, initial=LEAST) - finite
        seen = rescored & np.isfinite(values) & np.isfinite(scores[scoring])
        if not seen.any():
            continue
        order = np.argsort(below_first[seen])
        most = np.maximum.accumulate(np.abs(values - scores[scoring])[seen][order])
        until = np.searchsorted(below_first[seen][order], below_first, side="right")
        margins[scoring] = SAFETY * most[np.maximum(until - 1, 0)]
    return margins


def undecided(
    scores: Scores, rescored: Mask, margin: Scores | float, gold: Sequence[Sequence[int]], top_k: int
) -> Mask:
    """Find candidates whose order relative to a gold answer, or place in the top list, depends on the *margin*.

    Shapes as in :class:`ScreenedScores`; the gold answers were rescored.
    """
    off = np.where(rescored, 0.0, margin)
    low, high = scores - off, scores + off
    count = min(max(1, top_k), scores.shape[-1])
    ranked = np.where(np.isnan(low), -np.inf, low)
    least = np.partition(ranked, -count, axis=-1)[..., -count, None]
    near: Mask = high >= least
    for row, places in enumerate(gold):
        for place in places:
            gold_score = scores[:, row, place, None]
            near[:, row] |= (low[:, row] <= gold_score) & (high[:, row] >= gold_score)
    missing = ~np.isfinite(scores).all(axis=0) & np.isfinite(scores).any(axis=0)  # in some scoring, by the rough copy
    return np.asarray(near.any(axis=0) | missing)


def _first(rough: Scores, gold: Sequence[Sequence[int]], sample: int) -> Mask:
    """Choose what to rescore before any difference is known.

    These are gold answers, first answers, those without a rough score, and a sample, the same for the same shard.
    """
    queries, candidates = rough.shape[1:]
    chosen = np.zeros((queries, candidates), dtype=bool)
    for row, places in enumerate(gold):
        chosen[row, list(places)] = True
    finite = np.isfinite(rough)
    best = np.where(finite, rough, -np.inf).argmax(axis=-1)
    chosen[np.arange(queries), best] = True
    chosen |= ~finite.all(axis=0)
    each = min(candidates, -(-sample // max(1, queries)))
    chosen[np.arange(queries)[:, None], np.random.default_rng(0).integers(candidates, size=(queries, each))] = True
    return chosen


class ScreenedSearch(NamedTuple):
    """:param met: number of answers met by the rough copy.
    :param rescored: how many of them were scored in full precision.
    """

    searched: list[SearchResult]
    met: int
    rescored: int


def screened_search(
    model: Model,
    rough: Model,
    answers: AnswerTrie,
    questions: Sequence[SearchQuestion],
    plan: SearchPlan,
    budget: Budget,
) -> ScreenedSearch:
    """Run :func:`fathom.scoring.search.search` with a rough copy; equal up to the empirical margin.

    :param rough: a copy of *model* in lower precision.
    :param plan: with ``prune``.
    """
    each = -(-SAMPLE // max(1, len(questions)))
    drawn = np.random.default_rng(0).integers(len(answers), size=(len(questions), each))
    chosen = [np.union1d(places, question.gold) for places, question in zip(drawn, questions, strict=True)]
    sample = list(zip(questions, chosen, strict=True))
    by_rough, by_model = ([_score(copy, answers, *item, plan, budget) for item in sample] for copy in (rough, model))
    margin = _margin(by_rough, by_model)
    while True:
        states = walk_answers(rough, answers, questions, replace(plan, margin=margin), budget)
        deciding = [_deciding(state, margin) for state in states]
        known = [
            _score(model, answers, question, places, plan, budget)
            for question, (places, _) in zip(questions, deciding, strict=True)
        ]
        wider = _margin([scores for _, scores in deciding], known)
        if wider <= margin:
            break
        margin = wider
    results = [
        _result(state, question, places, scores, plan)
        if state.is_number
        else search(model, answers, [question], plan, budget)[0]
        for state, question, (places, _), scores in zip(states, questions, deciding, known, strict=True)
    ]
    return ScreenedSearch(results, sum(len(state.met()[0]) for state in states), sum(map(len, known)))


def _margin(rough: Sequence[Floats], full: Sequence[Floats]) -> float:
    differences = np.abs(np.concatenate([*rough, np.empty(0)]) - np.concatenate([*full, np.empty(0)]))
    return SEARCH_SAFETY * float(differences[np.isfinite(differences)].max(initial=0.0))


def _score(
    model: Model, answers: AnswerTrie, question: SearchQuestion, places: Ints, plan: SearchPlan, budget: Budget
) -> Floats:
    """Score some answers to a question, in nats, shape (places,)."""
    trie, prompt = answers.trie, list(question.prompt)
    sequences = [[*prompt, *trie.tokens[trie.path(place)].tolist()] for place in places.tolist()]
    first = question.given if plan.whole else len(prompt)
    counted = [log_probs[first:].astype(np.float64) for log_probs in causal_log_probs(model, sequences, budget)]
    return np.array([values.sum() if plan.reduction is Reduction.SUM else values.mean() for values in counted])


def _deciding(state: SearchState, margin: float) -> tuple[Ints, Floats]:
    """Return distinct places and rough scores of all answers that decide.

    These are the gold answers, and those met that could equal one of them or enter the top list.
    """
    places, scores = state.met()
    near = np.zeros(len(places), dtype=bool)
    if not state.is_beyond():
        near |= np.abs(scores - state.best) <= 2 * margin
    if state.aim.top_k and len(state.highest):
        near |= scores >= state.highest[0] - 2 * margin
    all_places, first = np.unique(np.concatenate([state.gold, places[near]]), return_index=True)
    return all_places, np.concatenate([state.gold_scores(), scores[near]])[first]


def _result(
    state: SearchState, question: SearchQuestion, places: Ints, scores: Floats, plan: SearchPlan
) -> SearchResult:
    """:param scores: exact, of *places*, all that decide."""
    gold = scores[np.searchsorted(places, question.gold)]
    depth = state.answers.trie.depth[state.answers.terminal[places]]
    tokens = state.tokens_run + len(question.prompt) + int(depth.sum())
    if not np.isfinite(scores).all():
        return SearchResult(RankResult(None, gold.tolist(), [], [], unscored=SearchState.NOT_A_NUMBER), tokens)
    best = top(scores, state.answers.ids[places].tolist(), plan.top_k)
    result = RankResult(None, gold.tolist(), [], list(zip(places[best].tolist(), scores[best].tolist(), strict=True)))
    rivals = _undecided_rivals(state, places)
    above = state.better + int((scores[rivals] > gold.max()).sum())
    if plan.max_rank is not None and above >= plan.max_rank:
        result.above = plan.max_rank
    else:
        result.ranks = Ranks.below(above, int((scores[rivals] == gold.max()).sum()))
    return SearchResult(result, tokens)


def _undecided_rivals(state: SearchState, places: Ints) -> Ints:
    """Return indices into *places* of rivals that are not better than the gold answers for certain."""
    met, scores = state.met()
    certain = met[scores > state.best + 2 * state.aim.margin]
    return np.flatnonzero(state.is_rival[places] & ~np.isin(places, certain))
