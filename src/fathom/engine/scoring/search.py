"""Exact ranks in large answer spaces for causal models: answers are searched after a prompt's cached keys and values.

:mod:`fathom.engine.scoring.walk` says what is pruned, and why nothing is missed. The open branches of several questions
run best first, many in one packed pass, in which each sees its prompt and its ancestors alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fathom.engine.models.base import KeyValues, Model
from fathom.engine.models.checks import plain_log_probs
from fathom.engine.models.generation import shared_length
from fathom.engine.scoring.memory import Budget, on_device, target_log_probs
from fathom.engine.scoring.rows import Columns
from fathom.engine.scoring.statements import Reduction
from fathom.engine.scoring.trie import AnswerTrie, Ints
from fathom.engine.scoring.walk import Branches, Floats, SearchGoal, SearchResult, SearchState, Walk, count_run

SEARCHED_TOGETHER = 8
"""Questions that share passes: each pass has a mask of all their tokens."""
ALL = -1
"""The owner of the prefix that all prompts share, instead of a question."""


class SearchQuestion(NamedTuple):
    """One question of a search.

    :param prompt: token ids, BOS included.
    :param gold: places of the gold answers.
    :param known: places excluded from the ranking.
    :param context: leading tokens of the prompt that never count, at least the first.
    """

    prompt: Sequence[int]
    gold: Sequence[int]
    known: Sequence[int] = ()
    context: int = 1


@dataclass(frozen=True)
class SearchPlan(SearchGoal):
    """The settings of a search.

    :param reduction: of the tokens' log-probabilities.
    :param whole: the prompt's own tokens count, too.
    """

    reduction: Reduction = Reduction.SUM
    whole: bool = False


def search(
    model: Model,
    answers: AnswerTrie,
    questions: Sequence[SearchQuestion],
    plan: SearchPlan,
    budget: Budget,
    vectors: Tensor | None = None,
) -> list[SearchResult]:
    """Rank the gold answers of *questions*, of which :data:`SEARCHED_TOGETHER` run together.

    :param model: causal, with :meth:`~fathom.engine.models.base.Model.refuses_cache` None.
    :param questions: prompts and longest answers within the model's window.
    :param vectors: of inputs in prompts that are no tokens, shape (rows, d).
    :raises RunFailed: out of memory with the smallest pass.
    """
    if not questions:
        return []
    if len(questions) > SEARCHED_TOGETHER:
        first, others = questions[:SEARCHED_TOGETHER], questions[SEARCHED_TOGETHER:]
        return [result for part in (first, others) for result in search(model, answers, part, plan, budget, vectors)]
    with torch.inference_mode():
        states = [_State(question, answers, plan) for question in questions]
        reader = _Reader(model, answers, states, budget, vectors)
        start = budget.attempt(reader.begin)
        if start is None:
            middle = (len(questions) + 1) // 2
            parts = questions[:middle], questions[middle:]
            return [result for part in parts for result in search(model, answers, part, plan, budget, vectors)]
        Walk(answers, states, reader).run(*start)
        if vectors is None and budget.evidence.begins(model, "an exact search"):
            states[0].compare(model, budget)
        return [state.searched() for state in states]


def token_counts(answers: AnswerTrie, question: SearchQuestion, result: SearchResult) -> Columns:
    """Return how many tokens ran, would run without pruning, and with each statement alone."""
    prompt = len(question.prompt)
    return {
        "tokens_run": result.tokens_run,
        "tokens_full": len(answers.trie.inner) + prompt,
        "tokens_naive": answers.tokens + prompt * len(answers),
    }


class _State(SearchState):
    """``offset`` and ``counted``: log-likelihood and number of the prompt's tokens that count."""

    def __init__(self, question: SearchQuestion, answers: AnswerTrie, plan: SearchPlan) -> None:
        self.prompt, self.context, self.plan = list(question.prompt), question.context, plan
        self.offset, self.counted = 0.0, 0
        super().__init__(answers, question.gold, question.known, plan)

    def compare(self, model: Model, budget: Budget) -> None:
        """Compare the score of the first gold answer with its sequence alone."""
        answer = self.answers.trie.tokens[self.answers.trie.path(int(self.gold[0]))].tolist()
        ids, start = [*self.prompt, *answer], self.context if self.plan.whole else len(self.prompt)
        alone = budget.attempt(lambda: plain_log_probs(model, [ids], start))
        if alone is not None:
            scores = np.array([self.offset + self.gold_totals[0]]) / (len(ids) - start)
            budget.evidence.add(model, "an exact search", scores, alone[:, start:].double().mean(dim=1).cpu().numpy())

    def score(self, totals: Floats, tokens: Ints) -> Floats:
        totals = self.offset + totals
        return totals if self.plan.reduction is Reduction.SUM else totals / (self.counted + tokens)


class _Memory(NamedTuple):
    """A cache, and for its tokens the question, the node, and the first node that does not see it, shape (tokens,).

    Nodes of prompts have numbers below 0, in their order; all nodes of the answers see them.
    """

    cache: KeyValues | None
    question: Ints
    node: Ints
    end: Ints

    def seen_by(self, question: Ints, node: Ints) -> NDArray[np.bool_]:
        """Return which tokens each node sees, shape (len(node), tokens)."""
        same = (self.question == ALL) | (self.question == question[:, None])
        seen: NDArray[np.bool_] = same & (self.node <= node[:, None]) & (node[:, None] < self.end)
        return seen


class _Reader:
    def __init__(
        self, model: Model, answers: AnswerTrie, states: Sequence[_State], budget: Budget, vectors: Tensor | None
    ) -> None:
        self.model, self.answers, self.states, self.budget, self.vectors = model, answers, states, budget, vectors
        self.lengths = np.array([len(state.prompt) for state in states])

    def size(self, branches: Branches) -> int:
        return self.budget.tokens_over_cache()

    def order(self, branches: Branches) -> Ints:
        """Order by the promise relative to the question's gold answer, best first."""
        best = np.array([state.best for state in self.states])
        return np.argsort(best[branches.question] - branches.promise, kind="stable")

    def step(self, memory: _Memory, branches: Branches, row: Ints, tokens: Ints) -> tuple[Floats, _Memory] | None:
        def run() -> tuple[Floats, _Memory]:
            hidden, grown = self._run_nodes(memory, branches.question, branches.node)
            return self._log_probs(hidden, row, tokens), grown

        return self.budget.attempt(run)

    def begin(self) -> tuple[_Memory, Floats]:
        """Run the prompts and the gold answers, so that the bound is known."""
        prompts = [state.prompt for state in self.states]
        shared, count = shared_length(prompts), len(prompts)
        parts = [prompts[0][:shared], *(prompt[shared:] for prompt in prompts)]
        tokens = np.array(list(chain(*parts)), dtype=np.int64)
        question = np.repeat(np.arange(ALL, count), [len(part) for part in parts])
        place = np.concatenate([np.arange(shared), *(np.arange(shared, length) for length in self.lengths)])
        memory = _Memory(None, *np.empty((3, 0), dtype=np.int64))
        states = []
        for part in (slice(shared), slice(shared, None)):
            if len(tokens[part]):
                node = place[part] - self.lengths.max()
                hidden, memory = self._run(memory, question[part], node, tokens[part], place[part])
                states.append(hidden)
        hidden = torch.cat(states)
        for number, state in enumerate(self.states):  # the shared prefix is divided
            state.tokens_run = len(parts[number + 1]) + shared // count + (number < shared % count)
        if self.states[0].plan.whole:
            before = np.where(place == shared, shared, np.arange(len(place))) - 1
            self._score_prompts(hidden, question, np.where(place < self.states[0].context, -1, before), tokens)
        roots = self.answers.trie.tokens[self.answers.roots]
        last = np.searchsorted(question, np.arange(count), side="right") - 1
        first = self._log_probs(hidden, np.repeat(last, len(roots)), np.tile(roots, count)).reshape(count, len(roots))
        self._read_gold(memory, first)
        return memory, first

    def _score_prompts(self, hidden: Tensor, question: Ints, before: Ints, tokens: Ints) -> None:
        """Sum the log-probabilities of each prompt's own tokens that count."""
        scored = before >= 0
        log_probs = self._log_probs(hidden, before[scored], tokens[scored])
        common, *sums = np.bincount(question[scored] - ALL, log_probs, len(self.states) + 1).tolist()
        for state, log_prob in zip(self.states, sums, strict=True):
            state.offset, state.counted = common + log_prob, len(state.prompt) - state.context

    def _read_gold(self, memory: _Memory, first: Floats) -> None:
        """Score the gold answers: the inner nodes of their paths run packed, whole paths together."""
        trie = self.answers.trie
        paths = [[trie.path(place).tolist() for place in state.gold] for state in self.states]
        wanted = sorted({(at, node) for at, gold in enumerate(paths) for path in gold for node in path[1:]})
        log_prob = {}
        if wanted:
            question, node = np.array(wanted).T
            above = np.column_stack([question, trie.parent[node]])
            (question, parent), row = np.unique(above.T, axis=1, return_inverse=True)
            hidden, _ = self._run_nodes(memory, question, parent)
            log_prob = dict(zip(wanted, self._log_probs(hidden, row.ravel(), trie.tokens[node]), strict=True))
            count_run(self.states, question)
        for at, (state, gold) in enumerate(zip(self.states, paths, strict=True)):
            starts = first[at, np.searchsorted(self.answers.roots, [path[0] for path in gold])]
            sums = [
                sum((log_prob[at, node] for node in path[1:]), start) for path, start in zip(gold, starts, strict=True)
            ]
            state.set_gold(np.array(sums))

    def _run_nodes(self, memory: _Memory, question: Ints, node: Ints) -> tuple[Tensor, _Memory]:
        trie = self.answers.trie
        return self._run(memory, question, node, trie.tokens[node], self.lengths[question] + trie.depth[node])

    def _run(
        self, memory: _Memory, question: Ints, node: Ints, tokens: Ints, positions: Ints
    ) -> tuple[Tensor, _Memory]:
        """Run tokens that see their question's ancestors in *memory* and among each other, and themselves."""
        trie, cache = self.answers.trie, memory.cache
        seen = memory.seen_by(question, node)
        needed = np.flatnonzero(seen.any(axis=0))
        if cache is not None and len(needed) < len(cache):
            cache = cache.keep(self._tensor(needed))
        new = _Memory(None, question, node, np.where(node < 0, len(trie.end), trie.end[np.maximum(node, 0)]))
        visible = np.concatenate([seen[:, needed], new.seen_by(question, node)], axis=1)
        hidden, cache = self.model.grow(
            cache,
            self.model.embed_with(self._tensor(tokens)[None], self.vectors),
            self._tensor(positions)[None],
            None if question[0] == ALL else self._tensor(visible)[None],  # the shared prefix is a plain sequence
        )
        columns = (np.append(old[needed], added) for old, added in zip(memory[1:], new[1:], strict=True))
        return hidden[0], _Memory(cache, *columns)

    def _log_probs(self, hidden: Tensor, rows: Ints, tokens: Ints) -> Floats:
        """Return log p of *tokens* in nats. :param rows: of *hidden*, one for each token."""
        order = np.argsort(rows, kind="stable")
        log_probs = np.empty(len(rows))
        log_probs[order] = target_log_probs(self.model, hidden, rows[order], tokens[order]).cpu()
        return log_probs

    def _tensor(self, array: Ints | NDArray[np.bool_]) -> Tensor:
        return on_device(array, self.model.device)
