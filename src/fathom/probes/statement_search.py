"""The statement probe in large answer spaces, by :mod:`fathom.engine.scoring.search`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fathom.data.prompts.wording import Wording
from fathom.data.queries import CandidateSet, Query
from fathom.data.templates import Prompt, Span
from fathom.engine.models.base import Model
from fathom.engine.scoring.memory import Budget
from fathom.engine.scoring.rows import Columns, result_columns, unscored
from fathom.engine.scoring.search import SearchPlan, SearchQuestion, search
from fathom.engine.scoring.statements import Score, StatementScoring
from fathom.engine.scoring.tokens import Continuation, Role, encode_causal, encode_continuations
from fathom.engine.scoring.trie import AnswerTrie
from fathom.engine.scoring.walk import SearchResult
from fathom.probes.options import StatementOptions
from fathom.store.predictions import KEEP_SCORES_UP_TO

CHECKED = 8
"""Candidates per query whose whole statements are tokenised, to check the tokens that the search scores."""


class _SearchPrompt(NamedTuple):
    """:param prompt: token ids of what stands before the answer. :param given: how many of them never count."""

    query: Query
    prompt: list[int]
    given: int


class Space:
    """A candidate set as continuations of a prompt."""

    def __init__(self, candidates: CandidateSet, continuations: list[Continuation]) -> None:
        self.candidates, self.continuations = candidates, continuations

    @cached_property
    def whole(self) -> AnswerTrie:
        return AnswerTrie([continuation.ids for continuation in self.continuations], self.candidates.ids)

    @cached_property
    def bare(self) -> AnswerTrie:
        return AnswerTrie(
            [continuation.ids[: continuation.answer_tokens] for continuation in self.continuations], self.candidates.ids
        )


class Searcher:
    """Exact search for ranks with a causal model.

    :param ways: each needs its own passes, as each has its own bound.
    """

    def __init__(
        self,
        options: StatementOptions,
        model: Model,
        bos: int | None,
        ways: Sequence[StatementScoring],
        budget: Budget,
    ) -> None:
        self.options, self.model, self.bos, self.ways, self.budget = options, model, bos, ways, budget
        self.spaces: dict[tuple[str, str, str], Space | None] = {}

    def rank(
        self, wording: Wording, queries: Sequence[Query], candidates: CandidateSet
    ) -> tuple[dict[str, list[Columns]], list[Query]]:
        """Rank the gold answers of *queries*.

        :returns: columns per query and scoring; and the queries whose statements the search cannot score token by
            token (a token spans prompt and answer, or the subject follows the answer), or that are longer than the
            model's cache is right for.
        """
        prompted_in: dict[int, tuple[Space, list[_SearchPrompt]]] = {}
        refused = []
        for query in queries:
            prepared = self._prepare(wording, query, candidates)
            if prepared is None or self._refuses(*prepared):
                refused.append(query)
            else:
                space, prompted = prepared
                prompted_in.setdefault(id(space), (space, []))[1].append(prompted)
        answers: dict[str, list[Columns]] = {}
        for space, together in prompted_in.values():
            for way in self.ways:
                for query_id, answer in self._search(space, together, way).items():
                    answers.setdefault(query_id, []).append(answer)
        return answers, refused

    def _refuses(self, space: Space, asked: _SearchPrompt) -> bool:
        longest = len(asked.prompt) + int(space.whole.longest.max())
        return self.model.refuses_cache(longest) is not None

    def _prepare(self, wording: Wording, query: Query, candidates: CandidateSet) -> tuple[Space, _SearchPrompt] | None:
        sample = np.random.default_rng(0).integers(len(candidates), size=CHECKED).tolist()
        places = [*(candidates.position[id_] for id_ in query.gold), *sample]
        prompts = wording.statements(query, [candidates.names[place] for place in places])
        before = _before(prompts[0])
        if before is None:
            return None
        space = self._space(prompts[0], before, candidates)
        if space is None:
            return None
        context = Prompt(prompts[0].text[:before], (), (), prompts[0].context)
        [prompt] = encode_causal(self.model.tokenizer, [context], self.bos)
        for place, tokens in zip(places, encode_causal(self.model.tokenizer, prompts, self.bos), strict=True):
            if tokens.ids.tolist() != [*prompt.ids.tolist(), *space.continuations[place].ids]:
                return None
        given = int((prompt.roles == Role.SPECIAL).sum())
        return space, _SearchPrompt(query, prompt.ids.tolist(), max(1, given))

    def _space(self, prompt: Prompt, before: int, candidates: CandidateSet) -> Space | None:
        """Tokenise the candidates after the prompt's last line, once for all similar prompts."""
        [answer] = prompt.answer
        lead, tail = prompt.text[before : answer.start], prompt.text[answer.end :]
        key = candidates.name, lead, tail
        if key not in self.spaces:
            context = prompt.text[:before].rpartition("\n")[2]
            start = len(context) + len(lead)
            prompts = [
                Prompt(context + lead + name + tail, (), (Span(start, start + len(name)),)) for name in candidates.names
            ]
            ends = encode_continuations(self.model.tokenizer, prompts, len(context)) if context else None
            self.spaces[key] = None if ends is None else Space(candidates, ends)
        return self.spaces[key]

    def _search(self, space: Space, asked: Sequence[_SearchPrompt], way: StatementScoring) -> dict[str, Columns]:
        tree = space.bare if way.score is Score.ANSWER else space.whole
        longest, window = int(tree.longest.max()), self.model.max_tokens
        options = self.options
        # If all scores are recorded, all must be computed.
        prunes = options.prune and (len(tree) > KEEP_SCORES_UP_TO or options.max_rank is not None)
        plan = SearchPlan(
            options.top_k, options.max_rank, prunes, reduction=way.reduction, whole=way.score is Score.FULL
        )
        too_long = f"the longest statement has {{}} tokens, more than the model's window of {window}"
        reasons = {
            item.query.id: too_long.format(len(item.prompt) + longest)
            for item in asked
            if window is not None and len(item.prompt) + longest > window
        }
        fit = [item for item in asked if item.query.id not in reasons]
        places = space.candidates.places
        questions = [
            SearchQuestion(item.prompt, places(item.query.gold), places(item.query.known), item.given) for item in fit
        ]
        searched = search(self.model, tree, questions, plan, self.budget)
        answers = {id_: unscored(reason) for id_, reason in reasons.items()}
        for item, question, result in zip(fit, questions, searched, strict=True):
            answers[item.query.id] = _columns(space, tree, plan, question, result)
        return answers


def _before(prompt: Prompt) -> int | None:
    """Return the number of characters before the answer and its leading space; None if the subject follows it."""
    if len(prompt.answer) != 1 or any(span.start > prompt.answer[0].start for span in prompt.subject):
        return None
    return len(prompt.text[: prompt.answer[0].start].rstrip()) or None


def _columns(
    space: Space, tree: AnswerTrie, plan: SearchPlan, question: SearchQuestion, searched: SearchResult
) -> Columns:
    found, prompt = searched.result, len(question.prompt)
    row: Columns = {
        "gold_scores": found.gold_scores,
        "gold_tokens": [space.continuations[place].answer_tokens for place in question.gold],
        "tokens_run": searched.tokens_run,
        "tokens_full": len(tree.trie.inner) + prompt,
        "tokens_naive": tree.tokens + prompt * len(tree),
    }
    if found.unscored is not None:
        return row | unscored(found.unscored)
    if len(tree) > KEEP_SCORES_UP_TO or plan.max_rank is not None:
        found.scores = None
    best = question.gold[int(np.argmax(found.gold_scores))]
    depth = int(tree.trie.depth[tree.terminal[best]]) + 1 + (prompt - question.given if plan.whole else 0)
    tokens: Columns = {"scored_tokens": depth, "mixed_tokens": space.continuations[best].mixed}
    return row | result_columns(found, space.candidates) | tokens
