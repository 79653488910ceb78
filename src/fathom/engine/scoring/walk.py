"""Search in a trie of answers: exact ranks without scoring all of them.

A log-likelihood only falls from token to token, so a prefix below the gold answer and the top list holds no answer of
interest. The rank is that of the full evaluation; docs/methods/exact-search.md has the proof.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from fathom.engine.models.checks import PRECISION
from fathom.engine.scoring.rows import RankResult, ranks_among, top
from fathom.engine.scoring.trie import AnswerTrie, Ints

Floats = NDArray[np.float64]
Memory = TypeVar("Memory")
"""A reader's keys and values of the tokens that branches have run."""


@dataclass(frozen=True)
class SearchGoal:
    """The goal of a search.

    :param top_k: length of the top list.
    :param max_rank: stop looking for the rank after that many better answers; None for no limit.
    :param prune: false to score all answers.
    :param every_gold: find the unfiltered rank of each gold answer, too: the lowest one is the bound.
    """

    top_k: int = 10
    max_rank: int | None = None
    prune: bool = True
    every_gold: bool = False


class SearchResult(NamedTuple):
    """The result of one question.

    :param result: scores in nats, per statement (sum) or per token (mean).
    :param tokens_run: tokens run for the question.
    :param proven: whether no pruned branch could change *result*.
    """

    result: RankResult
    tokens_run: int
    proven: bool = True


class SearchState:
    """The state of one question. The score is the log-likelihood, and the top list admits all answers.

    ``best``: score of the best gold answer; ``lowest``: of the worst one if each has a rank, else the same.

    :param gold: places of the gold answers.
    :param filtered: places excluded from the ranking.
    """

    NOT_A_NUMBER = "the model gave an answer a score that is not a number"

    def __init__(
        self, answers: AnswerTrie, gold: Sequence[int], filtered: Sequence[int] | Ints, aim: SearchGoal
    ) -> None:
        self.answers, self.gold, self.aim = answers, np.array(gold, dtype=np.int64), aim
        self.slack = 2 * PRECISION * int(answers.longest.max(initial=0))
        """Nats by which the bound is lowered: the answer and the bound may both be off, by the precision per token."""
        self.is_rival = np.ones(len(answers), dtype=bool)
        self.is_rival[self.gold] = self.is_rival[list(filtered)] = False
        self.gold_totals = np.full(len(self.gold), np.nan)
        self.best = self.lowest = -np.inf
        self.is_number = True
        self.tokens_run = 0
        self.begin()

    def begin(self) -> None:
        """Forget the answers met so far."""
        self.better = 0
        self.highest = np.empty(0)
        self.places: list[Ints] = []
        self.scores: list[Floats] = []

    def score(self, totals: Floats, tokens: Ints) -> Floats:
        """Score answers with log-likelihoods *totals* and numbers of *tokens*.

        For a prefix, given the length of the longest answer below it, this is the best possible score.
        """
        return totals

    def listed(self, places: Ints) -> NDArray[np.bool_]:
        """Return which answers may be in the top list."""
        return np.ones(len(places), dtype=bool)

    def knows_gold_ranks(self) -> bool:
        """Return whether all answers above and equal to each gold answer were met, including known ones."""
        return not self.aim.prune or (self.aim.every_gold and not self.is_beyond())

    def set_gold(self, totals: Floats) -> None:
        """:param totals: log-likelihoods of the gold answers in nats, shape (gold,)."""
        self.gold_totals = totals
        scores = self.gold_scores()
        self.best = float(scores.max(initial=-np.inf))
        self.lowest = float(scores.min(initial=self.best)) if self.aim.every_gold else self.best
        self.is_number &= bool(np.isfinite(totals).all())

    def gold_scores(self) -> Floats:
        """Return scores of the gold answers, shape (gold,)."""
        return self.score(self.gold_totals, self._tokens(self.answers.terminal[self.gold]))

    def is_beyond(self) -> bool:
        """Return whether the rank is known to exceed ``max_rank``."""
        return self.aim.max_rank is not None and self.better >= self.aim.max_rank

    def bound(self) -> float:
        """Return the score below which answers do not matter."""
        if not self.is_number:
            return np.inf
        if not self.aim.prune:
            return -np.inf
        wanted = [] if self.is_beyond() else [self.lowest]
        if self.aim.top_k:
            wanted.append(float(self.highest[0]) if len(self.highest) == self.aim.top_k else -np.inf)
        return min(wanted, default=np.inf)

    def reaches(self, scores: Floats) -> NDArray[np.bool_]:
        """Return which scores matter; NaN never does."""
        return scores >= self.bound() - self.slack

    def meet(self, nodes: Ints, totals: Floats) -> None:
        """Record the answers that end at *nodes*."""
        for place, total in zip(self.gold.tolist(), self.gold_totals, strict=True):
            totals = np.where(nodes == self.answers.terminal[place], total, totals)  # one leaf, one score
        index, places = self.answers.ending.find(nodes)
        scores = self.score(totals, self._tokens(nodes))[index]
        self.better += int((self.is_rival[places] & (scores > self.best)).sum())
        near = self.reaches(scores)
        places, scores = places[near], scores[near]
        self.places.append(places)
        self.scores.append(scores)
        if self.aim.top_k:
            self.highest = np.sort(np.append(self.highest, scores[self.listed(places)]))[-self.aim.top_k :]

    def searched(self) -> SearchResult:
        return SearchResult(self.result(), self.tokens_run)

    def met(self) -> tuple[Ints, Floats]:
        """Return places and scores of the answers that mattered when they were met."""
        return np.concatenate([*self.places, self.gold[:0]]), np.concatenate([*self.scores, np.empty(0)])

    def result(self) -> RankResult:
        """Return ranks and scores; unscored if a score was not a number."""
        gold_scores = self.gold_scores().tolist()
        if not self.is_number:
            return RankResult(None, gold_scores, [], [], unscored=self.NOT_A_NUMBER)
        places, scores = self.met()
        best = top(scores, self.answers.ids[places].tolist(), self.aim.top_k)
        result = RankResult(None, gold_scores, [], list(zip(places[best].tolist(), scores[best].tolist(), strict=True)))
        if self.is_beyond():
            result.above = self.aim.max_rank
        else:
            result.ranks = ranks_among(scores[self.is_rival[places]], self.best)
        if self.knows_gold_ranks():
            pairs = zip(self.gold.tolist(), gold_scores, strict=True)
            result.gold_ranks = [ranks_among(scores[places != place], score).realistic for place, score in pairs]
        if not self.aim.prune:
            result.scores = scores[np.argsort(places)]
        return result

    def _tokens(self, nodes: Ints) -> Ints:
        return self.answers.trie.depth[nodes] + 1


@dataclass(frozen=True)
class Branches:
    """Prefixes of answers, each for one question. All of shape (branches,).

    :param question: number of the question.
    :param node: last node of the prefix.
    :param total: log-likelihood of the tokens up to and with the node, in nats.
    :param promise: the best score that an answer below can have.
    :param row: in the pass that ran the node's parent; the question's number for a first token.
    """

    question: Ints
    node: Ints
    total: Floats
    promise: Floats
    row: Ints

    def take(self, at: Ints | NDArray[np.bool_] | slice) -> Branches:
        return Branches(self.question[at], self.node[at], self.total[at], self.promise[at], self.row[at])

    def __len__(self) -> int:
        return len(self.node)


class BranchReader(Protocol[Memory]):
    """A model that extends prefixes of answers by one token."""

    def size(self, branches: Branches) -> int:
        """Return how many of the first branches to run in one pass."""
        ...

    def order(self, branches: Branches) -> Ints:
        """Return which branches continue, in the order in which they run."""
        ...

    def step(self, memory: Memory, branches: Branches, row: Ints, tokens: Ints) -> tuple[Floats, Memory] | None:
        """Run the branches' last tokens.

        :param row: the branch of each of *tokens*, ascending.
        :returns: log p of each token after its branch, in nats, and the extended memory; None if memory ran out and
            fewer branches should be tried.
        """
        ...


class Walk(Generic[Memory]):
    """The joint search of some questions; the stack has the deepest branches on top."""

    def __init__(self, answers: AnswerTrie, states: Sequence[SearchState], reader: BranchReader[Memory]) -> None:
        self.answers, self.states, self.reader = answers, states, reader
        self.stack: list[tuple[Memory, Branches]] = []

    def run(self, memory: Memory, first: Floats) -> None:
        """Meet each answer at or above the bound of its question.

        :param memory: of the prompts.
        :param first: log p of the answers' first tokens, in nats, shape (questions, roots).
        """
        question, root = (grid.ravel() for grid in np.indices(first.shape))
        self._arrive(memory, question, self.answers.roots[root], first.ravel(), question)
        while self.stack:
            memory, branches = self.stack.pop()
            bounds = np.array([state.bound() - state.slack for state in self.states])
            branches = branches.take(branches.promise >= bounds[branches.question])
            if len(branches):
                self._step(memory, branches)

    def _step(self, memory: Memory, branches: Branches) -> None:
        size = self.reader.size(branches)
        now = branches.take(slice(size))
        row, node = self.answers.children.find(now.node)
        reached = self.reader.step(memory, now, row, self.answers.trie.tokens[node])
        if reached is None:
            self.stack.append((memory, branches))
            return
        if size < len(branches):
            self.stack.append((memory, branches.take(slice(size, None))))
        count_run(self.states, now.question)
        log_probs, grown = reached
        self._arrive(grown, now.question[row], node, now.total[row] + log_probs, row)

    def _arrive(self, memory: Memory, question: Ints, node: Ints, total: Floats, row: Ints) -> None:
        """Record the answers that end here; queue branches that may still hold a better one."""
        reached = Branches(question, node, total, np.empty(len(node)), row)
        goes_on = self.answers.is_inner[node]
        for number, mine in _each(question):
            state = self.states[number]
            promise = state.score(total[mine], self.answers.longest[node[mine]])
            state.is_number &= not np.isnan(promise).any()
            near = mine[state.reaches(promise)]
            state.meet(node[near], total[near])
            reached.promise[mine] = promise
            goes_on[mine] &= state.reaches(promise)
        onward = reached.take(goes_on)
        if len(onward):
            self.stack.append((memory, onward.take(self.reader.order(onward))))


def count_run(states: Sequence[SearchState], question: Ints) -> None:
    """Count the tokens of a pass for their questions, shape (tokens,)."""
    for number, count in zip(*np.unique(question, return_counts=True), strict=True):
        states[number].tokens_run += int(count)


def _each(question: Ints) -> Iterator[tuple[int, Ints]]:
    order = np.argsort(question, kind="stable")
    numbers, starts = np.unique(question[order], return_index=True)
    return zip(numbers.tolist(), np.split(order, starts[1:]), strict=True)
