"""The walk of a tree of answers: exact ranks without scoring all of them.

An answer's log-likelihood is the sum over the tokens of its path, and can only fall from token to token. A beginning
below the right answer, and below the best answers asked for, can hold no answer of interest: that whole branch of the
answers' trie is never run. Every answer at or above the bound is met, so the rank is that of the full evaluation;
docs/methods/exact-search.md has the proof.

What every such search shares is here. How a model goes one token on, how many branches run in one pass and in which
order is up to a :class:`Reader`; what a score is besides the log-likelihood, to a :class:`State`. There are two of
each: :mod:`fathom.scoring.search` (causal statements) and :mod:`fathom.links.decoding` (encoder-decoders).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from fathom.scoring.rows import Found, ranks_among, top
from fathom.scoring.trie import Answers, Ints

Floats = NDArray[np.float64]
Memory = TypeVar("Memory")
"""What a reader keeps of the tokens that a stack of branches has run: their keys and values."""
SLACK = 1e-3
"""Nats by which the bound is lowered: more than passes of different shape differ in float32."""


@dataclass(frozen=True)
class Aim:
    """What a search is to find.

    :param top_k: how many of the best answers.
    :param max_rank: stop looking for the rank once so many better answers are met; None for the rank, whatever it is.
    :param prune: without, every answer is scored.
    :param margin: nats that a score may be off, where a rough copy of a model is asked: every answer is met that could
        be of interest were the scores right, and only those count as better that are so all the same.
    """

    top_k: int = 10
    max_rank: int | None = None
    prune: bool = True
    margin: float = field(default=0.0, kw_only=True)

    @property
    def slack(self) -> float:
        """Nats by which the bound is lowered: the answer and the bound may both be off."""
        return SLACK + 2 * self.margin


class Searched(NamedTuple):
    """What came of one question.

    :param found: scores in nats, per statement (sum) or per token (mean).
    :param tokens_run: tokens that the question cost.
    :param proven: whether nothing was left out that could change *found*.
    """

    found: Found
    tokens_run: int
    proven: bool = True


class State:
    """What is known of one question so far. Answers score by log-likelihood, and all may be among the *top_k*.

    :param gold: places of the right answers.
    :param known: places left out of the ranking.
    """

    NOT_A_NUMBER = "the model gave an answer a score that is not a number"

    def __init__(self, answers: Answers, gold: Sequence[int], known: Sequence[int] | Ints, aim: Aim) -> None:
        self.answers, self.gold, self.aim = answers, np.array(gold, dtype=np.int64), aim
        self.is_rival = np.ones(len(answers), dtype=bool)
        self.is_rival[self.gold] = self.is_rival[list(known)] = False
        self.gold_totals = np.full(len(self.gold), np.nan)
        self.best = -np.inf
        self.is_number = True
        self.tokens_run = 0
        self.begin()

    def begin(self) -> None:
        """Forget which answers were met."""
        self.better = 0
        self.highest = np.empty(0)
        self.places: list[Ints] = []
        self.scores: list[Floats] = []

    def score(self, totals: Floats, tokens: Ints) -> Floats:
        """Of answers with log-likelihoods *totals* and so many *tokens*.

        Of a beginning, given the tokens of the longest answer below it, this is the best that can come of it.
        """
        return totals

    def listed(self, places: Ints) -> NDArray[np.bool_]:
        """Which of some answers count among the best that are asked for."""
        return np.ones(len(places), dtype=bool)

    def knows_gold_ranks(self) -> bool:
        """Whether all answers above and level with each right answer were met, known ones among them."""
        return not self.aim.prune

    def set_gold(self, totals: Floats) -> None:
        """:param totals: log-likelihood of the right answers in nats, shape (gold,)."""
        self.gold_totals = totals
        self.best = float(self.gold_scores().max(initial=-np.inf))
        self.is_number &= bool(np.isfinite(totals).all())

    def gold_scores(self) -> Floats:
        """In the order of the right answers, shape (gold,)."""
        return self.score(self.gold_totals, self._tokens(self.answers.terminal[self.gold]))

    def is_beyond(self) -> bool:
        """Whether the rank is known to be greater than what is asked for."""
        return self.aim.max_rank is not None and self.better >= self.aim.max_rank

    def bound(self) -> float:
        """Answers below it are of no interest."""
        if not self.is_number:
            return np.inf
        if not self.aim.prune:
            return -np.inf
        wanted = [] if self.is_beyond() else [self.best]
        if self.aim.top_k:
            wanted.append(float(self.highest[0]) if len(self.highest) == self.aim.top_k else -np.inf)
        return min(wanted, default=np.inf)

    def reaches(self, scores: Floats) -> NDArray[np.bool_]:
        """Which scores are of interest; NaN never."""
        return scores >= self.bound() - self.aim.slack

    def meet(self, nodes: Ints, totals: Floats) -> None:
        """Note the answers that end at *nodes*."""
        for place, total in zip(self.gold.tolist(), self.gold_totals, strict=True):
            totals = np.where(nodes == self.answers.terminal[place], total, totals)  # one leaf, one score
        index, places = self.answers.ending.of(nodes)
        scores = self.score(totals, self._tokens(nodes))[index]
        self.better += int((self.is_rival[places] & (scores > self.best + 2 * self.aim.margin)).sum())
        near = self.reaches(scores)
        places, scores = places[near], scores[near]
        self.places.append(places)
        self.scores.append(scores)
        if self.aim.top_k:
            self.highest = np.sort(np.append(self.highest, scores[self.listed(places)]))[-self.aim.top_k :]

    def searched(self) -> Searched:
        """The outcome, once no branch is left."""
        return Searched(self.found(), self.tokens_run)

    def met(self) -> tuple[Ints, Floats]:
        """Places and scores of the answers that were of interest when they were met."""
        return np.concatenate([*self.places, self.gold[:0]]), np.concatenate([*self.scores, np.empty(0)])

    def found(self) -> Found:
        """Where the right answers stand; unscored where a score was not a number."""
        gold_scores = self.gold_scores().tolist()
        if not self.is_number:
            return Found(None, gold_scores, [], [], unscored=self.NOT_A_NUMBER)
        places, scores = self.met()
        best = top(scores, self.answers.ids[places].tolist(), self.aim.top_k)
        found = Found(None, gold_scores, [], list(zip(places[best].tolist(), scores[best].tolist(), strict=True)))
        if self.is_beyond():
            found.above = self.aim.max_rank
        else:
            found.ranks = ranks_among(scores[self.is_rival[places]], self.best)
        if self.knows_gold_ranks():
            pairs = zip(self.gold.tolist(), gold_scores, strict=True)
            found.gold_ranks = [ranks_among(scores[places != place], score).realistic for place, score in pairs]
        if not self.aim.prune:
            found.scores = scores[np.argsort(places)]
        return found

    def _tokens(self, nodes: Ints) -> Ints:
        return self.answers.trie.depth[nodes] + 1


@dataclass(frozen=True)
class Branches:
    """Beginnings of answers, each for one question. All of shape (branches,).

    :param question: number of the question.
    :param node: of the trie, the last of the beginning.
    :param total: log-likelihood of the tokens up to and with the node, in nats.
    :param promise: the best score that an answer below can have.
    :param row: of the pass that ran the node's parent; the question's number for a first token.
    """

    question: Ints
    node: Ints
    total: Floats
    promise: Floats
    row: Ints

    def take(self, at: Ints | NDArray[np.bool_] | slice) -> Branches:
        """Some of them, in the order of *at*."""
        return Branches(self.question[at], self.node[at], self.total[at], self.promise[at], self.row[at])

    def __len__(self) -> int:
        return len(self.node)


class Reader(Protocol[Memory]):
    """A model that goes from beginnings of answers one token on."""

    def size(self, branches: Branches) -> int:
        """How many of the first branches to run in one pass."""
        ...

    def order(self, branches: Branches) -> Ints:
        """Which branches go on, in the order in which they are to run."""
        ...

    def step(self, memory: Memory, branches: Branches, row: Ints, tokens: Ints) -> tuple[Floats, Memory] | None:
        """Run the branches' last tokens.

        :param row: a branch for each of *tokens*, ascending.
        :returns: log p of each token behind its branch, in nats, and what the branches below see; None where memory
            ran out and fewer branches are to be tried.
        """
        ...


class Walk(Generic[Memory]):
    """The search of some questions together: what is left to run, the deepest on top."""

    def __init__(self, answers: Answers, states: Sequence[State], reader: Reader[Memory]) -> None:
        self.answers, self.states, self.reader = answers, states, reader
        self.stack: list[tuple[Memory, Branches]] = []

    def run(self, memory: Memory, first: Floats) -> None:
        """Meet every answer at or above the bound of its question.

        :param memory: what the answers' first tokens see.
        :param first: log p of them, in nats, shape (questions, roots).
        """
        question, root = (grid.ravel() for grid in np.indices(first.shape))
        self._arrive(memory, question, self.answers.roots[root], first.ravel(), question)
        while self.stack:
            memory, branches = self.stack.pop()
            bounds = np.array([state.bound() for state in self.states])
            branches = branches.take(branches.promise >= bounds[branches.question] - self.states[0].aim.slack)
            if len(branches):
                self._step(memory, branches)

    def _step(self, memory: Memory, branches: Branches) -> None:
        size = self.reader.size(branches)
        now = branches.take(slice(size))
        row, node = self.answers.children.of(now.node)
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
        """Note the answers that end here; queue what goes on and may still hold a better one."""
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


def count_run(states: Sequence[State], question: Ints) -> None:
    """Put the tokens of a pass to their questions' account.

    :param question: of each token, shape (tokens,).
    """
    for number, count in zip(*np.unique(question, return_counts=True), strict=True):
        states[number].tokens_run += int(count)


def _each(question: Ints) -> Iterator[tuple[int, Ints]]:
    """Each question and its rows, ascending."""
    order = np.argsort(question, kind="stable")
    numbers, starts = np.unique(question[order], return_index=True)
    return zip(numbers.tolist(), np.split(order, starts[1:]), strict=True)
