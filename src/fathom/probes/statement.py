"""The statement probe (BEAR, Wiland et al. 2024): which answer makes the most likely statement?

Each candidate is put into the relation's template; the statement's log-likelihood (causal models) or
pseudo-log-likelihood (masked models) is its score. Relations without templates are put into words by few-shot lines
from the graph. In large answer spaces the rank is searched for (:mod:`fathom.probes.searching`) instead of scoring all.
See docs/methods/statement.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fathom.data.queries import CandidateSet, Query, QuerySet, unrankable
from fathom.data.templates import Prompt
from fathom.errors import BadInput, refuse
from fathom.models.base import Attention, Model
from fathom.models.encoder_decoder import EncoderDecoder
from fathom.models.likelihoods import LikelihoodServer
from fathom.probes.base import NO_LINES, OF_LINES, Answered, Facts, Shard, ShardedProbe, few_shot_lines, shards_of
from fathom.probes.models import chat_template
from fathom.probes.options import StatementOptions
from fathom.probes.searching import Searcher
from fathom.prompts.wording import FewShot, FewShotWording, SpokenWording, TemplateWording, Wording
from fathom.scoring.ahead import Ahead
from fathom.scoring.masked import Pll
from fathom.scoring.rows import Asked, Columns, of_scores
from fathom.scoring.screening import settle
from fathom.scoring.seq2seq import form_for
from fathom.scoring.statements import (
    Likelihood,
    Reduced,
    Reduction,
    Score,
    Scored,
    Way,
    encode_statements,
    reduce_all,
    score_encoded,
    score_statements,
    text_likelihoods,
)
from fathom.scoring.tokens import Bos, Tokens, resolve_bos
from fathom.store.predictions import KEEP_SCORES_UP_TO, NO_TEMPLATE, Scoring

SHARD_STATEMENTS = 8192
SEARCHED_TOGETHER = 8
"""Queries per shard of the exact search: they share passes, and a crash loses no more than these."""


class _Stated(NamedTuple):
    """Every candidate of some queries in a statement.

    :param tokens: of the statements; None where whoever scores them makes their tokens.
    """

    prompts: list[Prompt]
    tokens: list[Tokens] | None

    def only(self, places: Sequence[int]) -> _Stated:
        tokens = None if self.tokens is None else [self.tokens[place] for place in places]
        return _Stated([self.prompts[place] for place in places], tokens)


class _Worded(NamedTuple):
    """A shard before a model sees it.

    :param reasons: of each of its queries, by id, why it cannot be asked; None where it can.
    :param queries: those that can.
    :param stated: None where answers are searched for, or nothing can be asked.
    """

    wording: Wording | None
    reasons: dict[str, str | None]
    queries: list[Query]
    stated: _Stated | None


class StatementProbe(ShardedProbe):
    """See :class:`fathom.probes.base.Probe`.

    :raises BadInput: templates that the relations do not have, BOS asked of a tokenizer without one.
    """

    def __init__(self, options: StatementOptions, model: Model, queryset: QuerySet) -> None:
        super().__init__(options, model, queryset)
        self.options = options
        self.template = chat_template(model, options)
        self.before = "" if self.template is None else self.template.before_reply(options.chat_user)
        takes_bos = model.attention is Attention.CAUSAL and self.template is None
        self.bos = resolve_bos(model.tokenizer, Bos(options.bos)) if takes_bos else None
        self.form = form_for(model, options.form)
        if model.attention is Attention.SEQ2SEQ and options.perplexity:
            raise BadInput("--perplexity: an encoder-decoder says answers, it has no likelihood of a whole text")
        self.ways = [Way(Reduction(r), Score(s)) for s in options.score for r in options.reduction]
        self.scorings = tuple(Scoring(way.name, "nats") for way in self.ways)
        self._check_templates()
        self._lines = self._few_shot_lines()
        self._noted: Counter[str] = Counter(statements=0)
        self._ahead: Ahead[Shard, _Worded] = Ahead()

    @cached_property
    def _searcher(self) -> Searcher:
        return Searcher(self.options, self.model, self.rough, self.bos, self.ways, self.budget, self.screened)

    def resolved(self) -> Facts:
        """With a digest of the chat template."""
        return super().resolved() | ({} if self.template is None else {"chat_template": self.template.digest})

    def idle(self) -> Mapping[str, str]:
        """Those of few-shot lines where none are shown, and those of the other kind of model."""
        causal = self.model.attention is Attention.CAUSAL
        found = {"pll": "it concerns masked models"} if causal else {"bos": "it concerns causal models"}
        return found | (dict.fromkeys((*OF_LINES, "closing"), NO_LINES) if self._lines is None else {})

    def circumstances(self) -> Facts:
        """Also what was run, and how."""
        noted: Facts = {**self._noted, **super().circumstances()}
        if self.model.attention is Attention.CAUSAL:
            noted["engine"] = self._engine
        return noted

    @cached_property
    def _engine(self) -> str:
        if isinstance(self.model, LikelihoodServer):
            return self.model.engine
        refusal = self.model.refuses_tree()
        if refusal is None:
            return "token trie"
        return f"{'states by level' if self.model.refuses_states() is None else 'plain batches'}, because {refusal}"

    def _answered(self, shard: Shard) -> Answered:
        worded = self._ahead.take(self._worded, shard)
        if following := self._following.get(id(shard)):
            self._ahead.begin(self._worded, following)
        wording, reasons, queries, stated = worded
        space, answers = self.queryset.candidates[shard.space], {}
        if wording is not None and queries:
            answers = self._scored(stated, queries, space) if stated else self._searched(wording, queries, space)
        likelihoods = self._likelihoods(wording, queries, space) if wording and self.options.perplexity else {}
        for query in shard.queries:
            prompt = wording.question(query) if wording and wording.refusal(query) is None else None
            asked = Asked(query, shard.template, prompt, len(space), likelihoods.get(query.id))
            yield asked, reasons[query.id] or answers[query.id]

    def _worded(self, shard: Shard) -> _Worded:
        """What is done with a shard before a model sees it, beside the model's work on another one."""
        wording, space = self._wording(shard.template), self.queryset.candidates[shard.space]
        reasons = {query.id: _refusal(query, space, wording) for query in shard.queries}
        askable = [query for query in shard.queries if reasons[query.id] is None]
        is_scored = wording is not None and askable and not self._searches(shard.template, space)
        stated = self._stated(wording, askable, space) if wording and is_scored else None
        return _Worded(wording, reasons, askable, stated)

    def _stated(self, wording: Wording, queries: Sequence[Query], space: CandidateSet) -> _Stated:
        prompts = [prompt for query in queries for prompt in wording.statements(query, space.names)]
        if isinstance(self.model, EncoderDecoder | LikelihoodServer):
            return _Stated(prompts, None)
        return _Stated(prompts, encode_statements(self.model, prompts, self.bos))

    def _wording(self, number: int) -> Wording | None:
        """None where nothing would put the queries into words: those have their reason."""
        wording: Wording | None = None
        if number != NO_TEMPLATE:
            wording = TemplateWording(self.queryset, number, self.options.capitalize)
        elif self._lines is not None:
            wording = FewShotWording(self._lines, self.options.closing)
        return wording if wording is None or not self.before else SpokenWording(wording, self.before)

    def _likelihoods(self, wording: Wording, queries: Sequence[Query], space: CandidateSet) -> dict[str, Likelihood]:
        """Of each query's statement with its (first) gold answer."""
        texts = [wording.statements(query, [space.name_of(query.gold[0])])[0].text for query in queries]
        found = text_likelihoods(self.model, texts, self.bos, self.budget, len(self.before))
        return {query.id: likelihood for query, likelihood in zip(queries, found, strict=True)}

    def _few_shot_lines(self) -> FewShot | None:
        """What stands before the statements of relations without templates."""
        if all(query.unscored or self.queryset.phrasings(query) for query in self.queryset.queries):
            return None
        return few_shot_lines(self.options, self.queryset)

    def _check_templates(self) -> None:
        refuse(self.queryset.lacking_templates(self.options.templates) + self.queryset.heads_in_templates())

    def _cut(self) -> Iterator[Shard]:
        """By relation, candidate set and template: what shares a trie stays together, up to a size to lose."""
        for queries in self.queryset.by_relation().values():
            for name in dict.fromkeys(query.candidates for query in queries):
                space = self.queryset.candidates[name]
                for number, asked in self.queryset.by_phrasing(queries, self.options.templates).items():
                    alike = [query for query in asked if query.candidates == name]
                    size = max(1, SHARD_STATEMENTS // len(space))
                    if self._searches(number, space):
                        size = SEARCHED_TOGETHER
                    yield from shards_of(number, alike, size)

    def _searches(self, number: int, space: CandidateSet) -> bool:
        """Whether the exact search is cheaper. Few-shot lines are long: only the search keeps them in a cache."""
        wanted = len(space) > KEEP_SCORES_UP_TO or self.options.max_rank is not None
        if self.rough is None:
            wanted |= number == NO_TEMPLATE
        elif not self.options.prune or self.rough.refuses_cache() is not None:
            return False
        return wanted and self.model.attention is Attention.CAUSAL and self.model.refuses_cache() is None

    def _searched(self, wording: Wording, queries: Sequence[Query], space: CandidateSet) -> dict[str, list[Columns]]:
        """By exact search, or in full where that cannot be had."""
        answers, refused = self._searcher.ask(wording, queries, space)
        return answers | (self._scored(self._stated(wording, refused, space), refused, space) if refused else {})

    def _scored(self, stated: _Stated, queries: Sequence[Query], space: CandidateSet) -> dict[str, list[Columns]]:
        """Every candidate of every query; for each query one answer per scoring."""
        statements = self._screened(stated, queries, space) if self.rough else self._run(self.model, stated)
        self._noted["statements"] += sum(item.log_probs is not None for item in statements)
        reduced = [reduce_all(statements, way, self.model.attention) for way in self.ways]
        answers = {}
        for number, query in enumerate(queries):
            own = slice(number * len(space), (number + 1) * len(space))
            answers[query.id] = [
                self._answer(query, space, statements[own], Reduced(scores[own], counts[own]))
                for scores, counts in reduced
            ]
        return answers

    def _run(self, model: Model, stated: _Stated) -> list[Scored]:
        pll = Pll(self.options.pll)
        if stated.tokens is None:
            return score_statements(model, stated.prompts, self.bos, pll, self.budget, self.form)
        return score_encoded(model, stated.tokens, pll, self.budget)

    def _screened(self, stated: _Stated, queries: Sequence[Query], space: CandidateSet) -> list[Scored]:
        """By the rough copy of the model, and those that could change a place by the model itself."""
        assert self.rough is not None
        found, shape = self._run(self.rough, stated), (len(self.ways), len(queries), len(space))

        def values(places: Sequence[int]) -> NDArray[np.float64]:
            scores = np.full((shape[0], shape[1] * shape[2]), np.nan)
            for number, way in enumerate(self.ways):
                scores[number, places] = reduce_all(
                    [found[place] for place in places], way, self.model.attention
                ).scores
            return scores.reshape(shape)

        def in_full(chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
            places = np.flatnonzero(chosen).tolist()
            for place, one in zip(places, self._run(self.model, stated.only(places)), strict=True):
                found[place] = one
            return values(places)

        gold = [space.places(query.gold) for query in queries]
        again = settle(values(range(len(found))), gold, self.options.top_k, in_full).again
        self.screened.update(screened=len(found), scored_again=int(again.sum()))
        return found

    def _answer(self, query: Query, space: CandidateSet, statements: Sequence[Scored], reduced: Reduced) -> Columns:
        return of_scores(
            query,
            space,
            reduced.scores,
            [statements[place].tokens.answer_tokens for place in space.places(query.gold)],
            reduced.counts.tolist(),
            [item.tokens.mixed for item in statements],
            top_k=self.options.top_k,
            max_rank=self.options.max_rank,  # one rule for all templates, whichever way each had to take
            fault=self._fault(statements, reduced),
            what="statements",
        )

    def _fault(self, statements: Sequence[Scored], reduced: Reduced) -> str | None:
        """Why a statement has no score, where that is known without the model."""
        for item, score, count in zip(statements, reduced.scores, reduced.counts, strict=True):
            if item.fault is not None:
                return item.fault
            if item.log_probs is None:
                length, window = len(item.tokens.ids), self.model.max_tokens
                return f"a statement of {length} tokens is longer than the model's window of {window}"
            if self.model.lacks_first and count and np.isnan(score):
                return "the server tells no log-probability of a statement's first token, which counts here"
        if not reduced.counts.all():
            return "no token of a statement can be scored (a first token needs something before it: --bos)"
        return None


def _refusal(query: Query, space: CandidateSet, wording: Wording | None) -> str | None:
    return unrankable(query, space) or (None if wording is None else wording.refusal(query))
