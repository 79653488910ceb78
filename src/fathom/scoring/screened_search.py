"""Exact search by a rough copy of the model, and full scores of the answers that decide: see
:mod:`fathom.scoring.screening`. A walk has one margin for all answers.

With a margin m both the answer's and the bound's rough score may be off by m, so the rough walk goes 2 m below its
bounds. Answers that are more than 2 m above the right one are better for certain; those within 2 m of it, or of the
last of the best, are scored in full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fathom.models.base import Model
from fathom.scoring.causal import causal_log_probs
from fathom.scoring.memory import Budget
from fathom.scoring.rows import Found, Ranks, top
from fathom.scoring.screening import SAMPLE
from fathom.scoring.search import Plan, Question, search, walked
from fathom.scoring.statements import Reduction
from fathom.scoring.trie import Answers, Ints
from fathom.scoring.walk import Floats, Searched, State

SAFETY = 2.0
"""A rough score is taken to be off by so many times what was seen at most."""


class Screened(NamedTuple):
    """:param met: answers that the rough copy came to. :param again: how many of them were scored in full."""

    searched: list[Searched]
    met: int
    again: int


def screened_search(
    model: Model, rough: Model, answers: Answers, questions: Sequence[Question], plan: Plan, budget: Budget
) -> Screened:
    """As :func:`fathom.scoring.search.search`, which it equals but for the margin being empirical.

    :param rough: a copy of *model* of less precision.
    :param plan: with ``prune``.
    """
    each = -(-SAMPLE // max(1, len(questions)))
    drawn = np.random.default_rng(0).integers(len(answers), size=(len(questions), each))
    chosen = [np.union1d(places, question.gold) for places, question in zip(drawn, questions, strict=True)]
    sample = list(zip(questions, chosen, strict=True))
    by_rough, by_model = ([_scored(one, answers, *item, plan, budget) for item in sample] for one in (rough, model))
    margin = _margin(by_rough, by_model)
    while True:
        states = walked(rough, answers, questions, replace(plan, margin=margin), budget)
        deciding = [_deciding(state, margin) for state in states]
        known = [
            _scored(model, answers, question, places, plan, budget)
            for question, (places, _) in zip(questions, deciding, strict=True)
        ]
        wider = _margin([scores for _, scores in deciding], known)
        if wider <= margin:
            break
        margin = wider
    found = [
        _searched(state, question, places, scores, plan)
        if state.is_number
        else search(model, answers, [question], plan, budget)[0]
        for state, question, (places, _), scores in zip(states, questions, deciding, known, strict=True)
    ]
    return Screened(found, sum(len(state.met()[0]) for state in states), sum(map(len, known)))


def _margin(rough: Sequence[Floats], full: Sequence[Floats]) -> float:
    differences = np.abs(np.concatenate([*rough, np.empty(0)]) - np.concatenate([*full, np.empty(0)]))
    return SAFETY * float(differences[np.isfinite(differences)].max(initial=0.0))


def _scored(model: Model, answers: Answers, question: Question, places: Ints, plan: Plan, budget: Budget) -> Floats:
    """Scores of some answers to a question, in nats, shape (places,)."""
    trie, prompt = answers.trie, list(question.prompt)
    sequences = [[*prompt, *trie.tokens[trie.path(place)].tolist()] for place in places.tolist()]
    first = question.given if plan.whole else len(prompt)
    counted = [found[first:].astype(np.float64) for found in causal_log_probs(model, sequences, budget)]
    return np.array([one.sum() if plan.reduction is Reduction.SUM else one.mean() for one in counted])


def _deciding(state: State, margin: float) -> tuple[Ints, Floats]:
    """The right answers, and those that were met and could be level with one of them or among the best.

    :returns: their places, each once, and rough scores.
    """
    places, scores = state.met()
    near = np.zeros(len(places), dtype=bool)
    if not state.is_beyond():
        near |= np.abs(scores - state.best) <= 2 * margin
    if state.aim.top_k and len(state.highest):
        near |= scores >= state.highest[0] - 2 * margin
    all_places, first = np.unique(np.concatenate([state.gold, places[near]]), return_index=True)
    return all_places, np.concatenate([state.gold_scores(), scores[near]])[first]


def _searched(state: State, question: Question, places: Ints, scores: Floats, plan: Plan) -> Searched:
    """:param scores: in full, of *places*, all that decide."""
    gold = scores[np.searchsorted(places, question.gold)]
    depth = state.answers.trie.depth[state.answers.terminal[places]]
    tokens = state.tokens_run + len(question.prompt) + int(depth.sum())
    if not np.isfinite(scores).all():
        return Searched(Found(None, gold.tolist(), [], [], unscored=State.NOT_A_NUMBER), tokens)
    best = top(scores, state.answers.ids[places].tolist(), plan.top_k)
    found = Found(None, gold.tolist(), [], list(zip(places[best].tolist(), scores[best].tolist(), strict=True)))
    rivals = _open(state, places)
    above = state.better + int((scores[rivals] > gold.max()).sum())
    if plan.max_rank is not None and above >= plan.max_rank:
        found.above = plan.max_rank
    else:
        found.ranks = Ranks.below(above, int((scores[rivals] == gold.max()).sum()))
    return Searched(found, tokens)


def _open(state: State, places: Ints) -> Ints:
    """Of *places*, rivals of the right answers that do not count as better for certain; as places among *places*."""
    met, scores = state.met()
    certain = met[scores > state.best + 2 * state.aim.margin]
    return np.flatnonzero(state.is_rival[places] & ~np.isin(places, certain))
