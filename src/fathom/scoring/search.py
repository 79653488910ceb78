"""Exact ranks in large answer spaces without scoring all of them.

A question is a prompt and an answer space; an answer's score is the log-likelihood of its tokens after the prompt. It
can only fall from token to token, so a beginning that is already below the right answer's score can hold no better
answer: that whole branch of the answers' token trie is never run. What remains is walked from the prompt's cached keys
and values, best branches first, many branches of several questions in one packed pass. Every answer at or above the
bound is met, so the rank is that of the full evaluation; docs/methods/exact-search.md has the proof.

For the mean reduction a partial sum is divided by the longest answer below it, which is the best it can come to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fathom.models.base import Cache, Model
from fathom.models.generation import shared_length
from fathom.scoring.head import target_log_probs
from fathom.scoring.memory import Budget
from fathom.scoring.ranks import Ranks
from fathom.scoring.statements import Reduction
from fathom.scoring.trie import Children, Ints, build_trie, spans

Floats = NDArray[np.float64]
ALL = -1
"""Instead of a question: what every question sees (the beginning that all prompts share)."""
SLACK = 1e-3
"""Nats by which the bound is lowered: more than passes of different shape differ in float32."""
PASS_SHARE = 8
"""A pass runs one part in so many of the token budget: each token also sees some hundreds of cached ones."""


class Answers:
    """An answer space as a trie of what follows a prompt.

    :param continuations: token ids of each candidate, as they follow the prompt; none empty.
    """

    def __init__(self, continuations: Sequence[Sequence[int]]) -> None:
        self.trie = build_trie(continuations)
        self.children = Children(self.trie)
        self.roots = np.flatnonzero(self.trie.parent < 0)
        self.is_inner = np.zeros(len(self.trie.tokens), dtype=bool)
        self.is_inner[self.trie.inner] = True
        lengths = (self.trie.paths >= 0).sum(axis=1)
        self.terminal: Ints = self.trie.paths[np.arange(len(lengths)), lengths - 1]
        self.tokens = int(lengths.sum())
        self.by_terminal = np.argsort(self.terminal, kind="stable")
        self.sorted_terminals = self.terminal[self.by_terminal]
        self.longest = self._longest()

    def __len__(self) -> int:
        return len(self.terminal)

    def places(self, nodes: Ints) -> tuple[Ints, Ints]:
        """The candidates that end at *nodes*. :returns: (index into *nodes*, place of the candidate) pairs."""
        return spans(self.sorted_terminals, self.by_terminal, nodes)

    def _longest(self) -> Ints:
        """Tokens of the longest answer through each node."""
        trie = self.trie
        longest = trie.depth + 1
        for node in range(len(longest) - 1, -1, -1):  # preorder: children stand behind their parent
            above = trie.parent[node]
            if above >= 0 and longest[node] > longest[above]:
                longest[above] = longest[node]
        return longest


class Question(NamedTuple):
    """:param prompt: token ids, BOS included. :param gold: places of the right answers. :param known: places left out
    of the ranking."""

    prompt: Sequence[int]
    gold: Sequence[int]
    known: Sequence[int] = ()


class Plan(NamedTuple):
    """What is asked of a search.

    :param whole: the prompt's own tokens count in the score. :param top_k: how many of the best answers to find.
    :param max_rank: stop once the rank is known to be greater. :param prune: without, every answer is scored.
    """

    reduction: Reduction = Reduction.SUM
    whole: bool = False
    top_k: int = 10
    max_rank: int | None = None
    prune: bool = True


class Found(NamedTuple):
    """Scores in nats, per statement (sum) or per token (mean).

    :param ranks: None where the search stopped beyond ``max_rank``. :param places: every answer met, at least those at
        or above the bound. :param scores: theirs, shape (places,).
    :param tokens_run: tokens this question cost. :param is_number: false where a score was NaN; nothing else counts.
    """

    gold_scores: Floats
    ranks: Ranks | None
    places: Ints
    scores: Floats
    tokens_run: int
    is_number: bool


def search(model: Model, answers: Answers, questions: Sequence[Question], plan: Plan, budget: Budget) -> list[Found]:
    """Rank the right answers of *questions*, which go through the model together.

    :param model: causal, with :meth:`~fathom.models.base.Model.refuses_cache` None.
    :param questions: prompts and longest answers within the model's window.
    """
    with torch.inference_mode():
        walk = _Walk(model, answers, questions, plan, budget)
        if budget.attempt(walk.start) is None:
            middle = (len(questions) + 1) // 2
            parts = [part for part in (questions[:middle], questions[middle:]) if part]
            return [found for part in parts for found in search(model, answers, part, plan, budget)]
        walk.finish()
    return [state.found() for state in walk.states]


class _Branches(NamedTuple):
    """Beginnings of answers, each for one question. All of shape (branches,).

    :param total: log-likelihood of the tokens up to and with the node.
    """

    question: Ints
    node: Ints
    total: Floats

    def take(self, which: Ints | NDArray[np.bool_]) -> _Branches:
        return _Branches(self.question[which], self.node[which], self.total[which])

    def __len__(self) -> int:
        return len(self.node)


class _Memory(NamedTuple):
    """A cache and what its tokens are: a question's prompt (node −1) or a node; seen by the nodes before *end*."""

    cache: Cache | None
    question: Ints
    node: Ints
    end: Ints

    def keep(self, rows: NDArray[np.bool_], device: torch.device) -> _Memory:
        if self.cache is None or rows.all():
            return self
        kept = torch.from_numpy(np.flatnonzero(rows)).to(device)
        return _Memory(self.cache.keep(kept), self.question[rows], self.node[rows], self.end[rows])

    def seen_by(self, question: Ints, node: Ints) -> NDArray[np.bool_]:
        """Shape (len(node), tokens)."""
        mine = (self.question == ALL) | (self.question == question[:, None])
        seen: NDArray[np.bool_] = mine & (self.node <= node[:, None]) & (node[:, None] < self.end)
        return seen

    def and_nodes(self, cache: Cache, question: Ints, node: Ints, end: Ints) -> _Memory:
        return _Memory(cache, np.append(self.question, question), np.append(self.node, node), np.append(self.end, end))


class _State:
    """What is known of one question so far."""

    def __init__(self, question: Question, answers: Answers, plan: Plan) -> None:
        self.question, self.answers, self.plan = question, answers, plan
        self.offset, self.counted = 0.0, 0  # the prompt's own log-likelihood and tokens, where they count
        self.is_rival = np.ones(len(answers), dtype=bool)
        self.is_rival[list(question.gold)] = self.is_rival[list(question.known)] = False
        self.gold_totals = np.full(len(question.gold), np.nan)
        self.best = -np.inf
        self.better = 0
        self.highest = np.empty(0)
        self.places: list[Ints] = []
        self.scores: list[Floats] = []
        self.tokens_run = 0
        self.is_number = True

    def score(self, totals: Floats, tokens: Ints) -> Floats:
        if self.plan.reduction is Reduction.SUM:
            return self.offset + totals
        return (self.offset + totals) / (self.counted + tokens)

    def set_gold(self, totals: Floats) -> None:
        self.gold_totals = totals
        self.best = float(self.gold_scores().max(initial=-np.inf))
        self.is_number &= bool(np.isfinite(totals).all())

    def gold_scores(self) -> Floats:
        nodes = self.answers.terminal[list(self.question.gold)]
        return self.score(self.gold_totals, self.answers.trie.depth[nodes] + 1)

    def is_beyond(self) -> bool:
        return self.plan.max_rank is not None and self.better >= self.plan.max_rank

    def bound(self) -> float:
        """Answers below it are of no interest."""
        if not self.is_number:
            return np.inf
        if not self.plan.prune:
            return -np.inf
        wanted = [] if self.is_beyond() else [self.best]
        if self.plan.top_k:
            wanted.append(float(self.highest[0]) if len(self.highest) == self.plan.top_k else -np.inf)
        return min(wanted, default=np.inf)

    def meet(self, nodes: Ints, totals: Floats) -> None:
        """Note the answers that end at *nodes*."""
        for place, total in zip(self.question.gold, self.gold_totals, strict=True):
            totals = np.where(nodes == self.answers.terminal[place], total, totals)  # one leaf, one score
        scores = self.score(totals, self.answers.trie.depth[nodes] + 1)
        index, places = self.answers.places(nodes)
        scores = scores[index]
        self.better += int((self.is_rival[places] & (scores > self.best)).sum())
        near = scores >= self.bound() - SLACK
        self.places.append(places[near])
        self.scores.append(scores[near])
        if self.plan.top_k:
            together = np.append(self.highest, scores[near])
            self.highest = np.sort(together)[-self.plan.top_k :]

    def found(self) -> Found:
        places = np.concatenate(self.places) if self.places else np.empty(0, dtype=np.int64)
        scores = np.concatenate(self.scores) if self.scores else np.empty(0)
        rivals = scores[self.is_rival[places]]
        above = int((rivals > self.best).sum())
        ranks = None if self.is_beyond() else Ranks(above + 1, above + 1 + int((rivals == self.best).sum()))
        return Found(self.gold_scores(), ranks, places, scores, self.tokens_run, self.is_number)


class _Walk:
    """The search of some questions together."""

    def __init__(
        self, model: Model, answers: Answers, questions: Sequence[Question], plan: Plan, budget: Budget
    ) -> None:
        self.model, self.answers, self.plan, self.budget = model, answers, plan, budget
        self.states = [_State(question, answers, plan) for question in questions]
        self.prompt_length = np.array([len(question.prompt) for question in questions])
        self.stack: list[tuple[_Memory, _Branches]] = []

    def start(self) -> bool:
        """Read the prompts and the right answers, so that the bound is known; queue the first tokens of all answers."""
        for state in self.states:
            state.tokens_run = 0
        memory, root_totals = self._read_prompts()
        self._read_gold(memory, root_totals)
        count, roots = len(self.states), self.answers.roots
        question = np.repeat(np.arange(count), len(roots))
        self._arrive(memory, _Branches(question, np.tile(roots, count), root_totals.ravel()))
        return True

    def finish(self) -> None:
        while self.stack:
            memory, branches = self.stack.pop()
            branches = branches.take(self._is_open(branches))
            if not len(branches):
                continue
            size = max(16, self.budget.tokens // PASS_SHARE)
            now, later = branches.take(np.arange(len(branches)) < size), branches.take(np.arange(len(branches)) >= size)
            reached = self.budget.attempt(lambda: self._step(memory, now))  # noqa: B023 - called at once
            if reached is None:
                self.stack.append((memory, branches))
                continue
            if len(later):
                self.stack.append((memory, later))
            self._arrive(*reached)

    def _arrive(self, memory: _Memory, branches: _Branches) -> None:
        """Note the answers that end here; queue what goes on and may still hold a better one, best first."""
        for number, state in enumerate(self.states):
            mine = branches.take(branches.question == number)
            if not len(mine):
                continue
            state.is_number &= not np.isnan(mine.total).any()
            state.meet(mine.node, mine.total)
        onward = branches.take(self.answers.is_inner[branches.node])
        onward = onward.take(self._is_open(onward))
        if len(onward):
            best = np.array([state.best for state in self.states])
            order = np.argsort(best[onward.question] - self._promise(onward), kind="stable")
            self.stack.append((memory, onward.take(order)))

    def _promise(self, branches: _Branches) -> Floats:
        """The best score that an answer below each branch can have."""
        offset = np.array([state.offset for state in self.states])[branches.question]
        if self.plan.reduction is Reduction.SUM:
            return offset + branches.total
        counted = np.array([state.counted for state in self.states])[branches.question]
        return (offset + branches.total) / (counted + self.answers.longest[branches.node])

    def _is_open(self, branches: _Branches) -> NDArray[np.bool_]:
        bounds = np.array([state.bound() for state in self.states])
        return self._promise(branches) >= bounds[branches.question] - SLACK

    def _step(self, memory: _Memory, branches: _Branches) -> tuple[_Memory, _Branches]:
        """Run the branches' last tokens and go one token on."""
        seen = memory.seen_by(branches.question, branches.node)
        needed: NDArray[np.bool_] = np.asarray(seen.any(axis=0))
        memory = memory.keep(needed, self.model.device)
        hidden, grown = self._run(memory, branches.question, branches.node, seen[:, needed])
        parent, node = self.answers.children.of(branches.node)
        found = self._log_probs(hidden, parent, self.answers.trie.tokens[node])
        return grown, _Branches(branches.question[parent], node, branches.total[parent] + found)

    def _run(self, memory: _Memory, question: Ints, node: Ints, seen: NDArray[np.bool_]) -> tuple[Tensor, _Memory]:
        """Run nodes that see *seen* of the cache, and of each other their ancestors and themselves."""
        trie, model = self.answers.trie, self.model
        among = (question == question[:, None]) & (node <= node[:, None]) & (node[:, None] < trie.end[node])
        hidden, cache = model.grow(
            memory.cache,
            model.embed(self._tensor(trie.tokens[node])[None]),
            self._tensor(self.prompt_length[question] + trie.depth[node])[None],
            self._tensor(np.concatenate([seen, among], axis=1))[None],
        )
        for number, count in zip(*np.unique(question, return_counts=True), strict=True):
            self.states[number].tokens_run += int(count)
        return hidden[0], memory.and_nodes(cache, question, node, trie.end[node])

    def _read_prompts(self) -> tuple[_Memory, Floats]:
        """:returns: the prompts' cache, and log p of each first token of an answer, shape (questions, roots)."""
        prompts = [list(state.question.prompt) for state in self.states]
        shared = shared_length(prompts)
        own = [prompt[shared:] for prompt in prompts]
        question = np.repeat(np.arange(len(own)), [len(ids) for ids in own])
        place = np.concatenate([np.arange(len(ids)) for ids in own])
        nothing = np.empty(0, dtype=np.int64)
        memory = _Memory(None, nothing, nothing, nothing)
        states = []
        forever = len(self.answers.trie.tokens) + 1
        if shared:
            hidden, cache = self.model.grow(
                None,
                self.model.embed(self._tensor(np.array(prompts[0][:shared]))[None]),
                self._tensor(np.arange(shared))[None],
            )
            states.append(hidden[0])
            memory = memory.and_nodes(cache, *(np.full(shared, value) for value in (ALL, -1, forever)))
        among = (question == question[:, None]) & (place <= place[:, None])
        hidden, cache = self.model.grow(
            memory.cache,
            self.model.embed(self._tensor(np.concatenate(own))[None]),
            self._tensor(shared + place)[None],
            self._tensor(np.concatenate([np.ones((len(place), shared), dtype=bool), among], axis=1))[None],
        )
        states.append(hidden[0])
        size = len(place)
        memory = memory.and_nodes(cache, question, np.full(size, -1), np.full(size, forever))
        everything, last = torch.cat(states), shared + np.cumsum([len(ids) for ids in own]) - 1
        if self.plan.whole:
            self._score_prompts(everything, own, prompts[0][:shared], last)
        for number, (state, ids) in enumerate(zip(self.states, own, strict=True)):
            share = shared // len(own) + (number < shared % len(own))  # what all share is shared out
            state.tokens_run += len(ids) + share
        roots = self.answers.trie.tokens[self.answers.roots]
        count = len(own)
        found = self._log_probs(
            everything[self._tensor(last)], np.repeat(np.arange(count), len(roots)), np.tile(roots, count)
        )
        return memory, found.reshape(count, len(roots))

    def _score_prompts(self, hidden: Tensor, own: list[list[int]], shared: list[int], last: Ints) -> None:
        """Log-likelihood of each prompt's own tokens, but for the first, which nothing stands before."""
        common = 0.0
        if len(shared) > 1:
            rows = np.arange(len(shared) - 1)
            common = float(self._log_probs(hidden, rows, np.array(shared[1:])).sum())
        for state, ids, end in zip(self.states, own, last, strict=True):
            rows = np.arange(end - len(ids) + 1, end)
            tokens = np.array(ids[1:], dtype=np.int64)
            if shared:
                rows, tokens = np.append(len(shared) - 1, rows), np.append(ids[0], tokens)
            state.offset = common + float(self._log_probs(hidden, rows, tokens).sum())
            state.counted = len(shared) + len(ids) - 1

    def _read_gold(self, memory: _Memory, root_totals: Floats) -> None:
        """Score the right answers: the inner nodes of their paths run packed, whole paths together."""
        trie, answers = self.answers.trie, self.answers
        pairs = [(number, place) for number, state in enumerate(self.states) for place in state.question.gold]
        log_prob: dict[tuple[int, int], float] = {}
        wanted: dict[tuple[int, int], None] = {}
        for number, place in pairs:
            path = trie.paths[place][trie.paths[place] >= 0]
            log_prob[number, int(path[0])] = float(root_totals[number, np.searchsorted(answers.roots, path[0])])
            wanted |= {(number, int(node)): None for node in path[1:]}
        children = np.array(list(wanted), dtype=np.int64).reshape(-1, 2)
        parents, row = np.unique(
            np.column_stack([children[:, 0], trie.parent[children[:, 1]]]), axis=0, return_inverse=True
        )
        if len(parents):
            question, node = parents[:, 0], parents[:, 1]
            hidden, _ = self._run(memory, question, node, memory.seen_by(question, node))
            order = np.argsort(row.ravel(), kind="stable")
            found = self._log_probs(hidden, row.ravel()[order], trie.tokens[children[order, 1]])
            log_prob |= {
                (int(number), int(child)): float(value)
                for (number, child), value in zip(children[order], found, strict=True)
            }
        for number, state in enumerate(self.states):
            paths = [trie.paths[place][trie.paths[place] >= 0].tolist() for place in state.question.gold]
            state.set_gold(np.array([sum(log_prob[number, node] for node in path) for path in paths]))

    def _log_probs(self, hidden: Tensor, rows: Ints, tokens: Ints) -> Floats:
        """In nats, float64. :param rows: ascending."""
        found = target_log_probs(self.model, hidden, self._tensor(rows), self._tensor(tokens))
        return found.cpu().numpy().astype(np.float64)

    def _tensor(self, array: Ints | NDArray[np.bool_]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.model.device)
