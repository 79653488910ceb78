"""The statement probe (BEAR, Wiland et al. 2024): which answer makes the most likely statement?

Each candidate is put into the relation's template; the statement's log-likelihood (causal models) or
pseudo-log-likelihood (masked models) is its score. Relations without templates are put into words by few-shot lines
from the graph. In large answer spaces the rank is searched for (:mod:`fathom.probes.searching`) instead of scoring all.
See docs/methods/statement.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fathom.data.queries import CandidateSet, Query, QuerySet, unrankable
from fathom.data.templates import Prompt
from fathom.errors import BadInput
from fathom.models.base import Attention, Model
from fathom.probes.base import Progress, Row
from fathom.probes.options import StatementOptions
from fathom.probes.searching import Searcher
from fathom.prompts.fewshot import FewShot
from fathom.prompts.wording import FewShotWording, TemplateWording, Wording
from fathom.scoring.masked import Pll
from fathom.scoring.memory import Budget
from fathom.scoring.rows import Asked, Columns, of_scores, unscored
from fathom.scoring.statements import (
    Likelihood,
    Reduction,
    Score,
    Way,
    counted_tokens,
    encode_statements,
    reduce_scores,
    statement_log_probs,
    text_likelihoods,
)
from fathom.scoring.tokens import Bos, Tokens, resolve_bos
from fathom.store.predictions import KEEP_SCORES_UP_TO, NO_TEMPLATE, Scoring

SHARD_STATEMENTS = 8192
SEARCHED_TOGETHER = 8
"""Queries per shard of the exact search: they share passes, and a crash loses no more than these."""


class _Shard(NamedTuple):
    template: int
    queries: tuple[Query, ...]


class _Scored(NamedTuple):
    """One statement. :param fault: why it has no score, None where it has."""

    tokens: Tokens
    log_probs: NDArray[np.float32]
    fault: str | None


class Probe:
    """See :class:`fathom.probes.base.Probe`.

    :raises BadInput: templates that the relations do not have, BOS asked of a tokenizer without one.
    """

    def __init__(self, options: StatementOptions, model: Model, queryset: QuerySet) -> None:
        if model.attention is Attention.SEQ2SEQ:
            raise BadInput("the statement probe needs a causal or a masked model; this one is an encoder-decoder")
        self.options, self.model, self.queryset = options, model, queryset
        self.bos = resolve_bos(model.tokenizer, Bos(options.bos)) if model.attention is Attention.CAUSAL else None
        self.budget = Budget(options.batch_tokens, model.device)
        self.ways = [Way(Reduction(r), Score(s)) for s in options.score for r in options.reduction]
        self.scorings = tuple(Scoring(way.name, "nats") for way in self.ways)
        self._check_templates()
        self._searcher = Searcher(options, model, self.bos, self.ways, self.budget)
        self._lines = self._few_shot_lines()
        self._shards = {f"{number:05d}": shard for number, shard in enumerate(self._cut())}
        self._noted: Counter[str] = Counter(statements=0)

    def resolved(self) -> dict[str, Any]:
        bos = None if self.bos is None else self.model.tokenizer.convert_ids_to_tokens(self.bos)
        causal = self.model.attention is Attention.CAUSAL
        return {"attention": str(self.model.attention), **({"bos_token": bos} if causal else {})}

    def plan(self) -> Sequence[str]:
        return list(self._shards)

    def prepare(self, artifacts: Path, progress: Progress) -> None:
        pass

    def circumstances(self) -> dict[str, Any]:
        noted: dict[str, Any] = {**self._noted, "halvings": self.budget.halvings}
        if self.model.attention is Attention.CAUSAL:
            refusal = self.model.refuses_tree()
            noted["engine"] = "token trie" if refusal is None else f"plain batches, because {refusal}"
        return noted

    def ask(self, shard: str) -> list[Row]:
        number, queries = self._shards[shard]
        wording = self._wording(number)
        space = self.queryset.candidates[queries[0].candidates]
        reasons = {query.id: _refusal(query, space, wording) for query in queries}
        askable = [query for query in queries if reasons[query.id] is None]
        answers: dict[str, list[Columns]] = {}
        if wording is not None and askable:
            answers = (self._searched if self._searches(number, space) else self._scored)(wording, askable, space)
        likelihoods = self._likelihoods(wording, askable, space) if wording and self.options.perplexity else {}
        rows: list[Row] = []
        for query in queries:
            prompt = wording.question(query) if wording and wording.refusal(query) is None else None
            asked = Asked(query, number, prompt, len(space), likelihoods.get(query.id))
            own = [unscored(reason)] * len(self.ways) if (reason := reasons[query.id]) else answers[query.id]
            rows += [asked.row(way.name, answer) for way, answer in zip(self.ways, own, strict=True)]
        return rows

    def _wording(self, number: int) -> Wording | None:
        """None where nothing would put the queries into words: those have their reason."""
        if number == NO_TEMPLATE:
            return None if self._lines is None else FewShotWording(self._lines, self.options.closing)
        return TemplateWording(self.queryset, number, self.options.capitalize)

    def _likelihoods(self, wording: Wording, queries: Sequence[Query], space: CandidateSet) -> dict[str, Likelihood]:
        """Of each query's statement with its (first) gold answer."""
        texts = [wording.statements(query, [space.name_of(query.gold[0])])[0].text for query in queries]
        found = text_likelihoods(self.model, texts, self.bos, self.budget)
        return {query.id: likelihood for query, likelihood in zip(queries, found, strict=True)}

    def _few_shot_lines(self) -> FewShot | None:
        """What stands before the statements of relations without templates."""
        if all(query.unscored or self.queryset.phrasings(query) for query in self.queryset.queries):
            return None
        return self.options.few_shot(self.queryset)

    def _check_templates(self) -> None:
        faults = self.queryset.lacking_templates(self.options.templates)
        if faults:
            raise BadInput(faults)

    def _cut(self) -> list[_Shard]:
        """By relation, candidate set and template: what shares a trie stays together, up to a size to lose."""
        shards = []
        for queries in self.queryset.by_relation().values():
            for name in dict.fromkeys(query.candidates for query in queries):
                space = self.queryset.candidates[name]
                for number, asked in self.queryset.by_phrasing(queries, self.options.templates).items():
                    alike = [query for query in asked if query.candidates == name]
                    size = max(1, SHARD_STATEMENTS // len(space))
                    if self._searches(number, space):
                        size = SEARCHED_TOGETHER
                    pieces = [tuple(alike[start : start + size]) for start in range(0, len(alike), size)]
                    shards += [_Shard(number, piece) for piece in pieces]
        return shards

    def _searches(self, number: int, space: CandidateSet) -> bool:
        """Whether the exact search is cheaper. Few-shot lines are long: only the search keeps them in a cache."""
        wanted = number == NO_TEMPLATE or len(space) > KEEP_SCORES_UP_TO or self.options.max_rank is not None
        return wanted and self.model.attention is Attention.CAUSAL and self.model.refuses_cache() is None

    def _searched(self, wording: Wording, queries: Sequence[Query], space: CandidateSet) -> dict[str, list[Columns]]:
        """By exact search, or in full where that cannot be had."""
        answers, refused = self._searcher.ask(wording, queries, space)
        for answer in (answer for query in answers.values() for answer in query):
            self._noted.update({name: answer.get(name, 0) for name in ("tokens_run", "tokens_full", "tokens_naive")})
        return answers | (self._scored(wording, refused, space) if refused else {})

    def _scored(self, wording: Wording, queries: Sequence[Query], space: CandidateSet) -> dict[str, list[Columns]]:
        """Every candidate of every query; for each query one answer per scoring."""
        statements = self._run([prompt for query in queries for prompt in wording.statements(query, space.names)])
        answers = {}
        for number, query in enumerate(queries):
            own = statements[number * len(space) : (number + 1) * len(space)]
            answers[query.id] = [self._answer(query, space, own, way) for way in self.ways]
        return answers

    def _run(self, prompts: Sequence[Prompt]) -> list[_Scored]:
        """Token scores of statements; one beyond the model's window is not run."""
        statements = encode_statements(self.model, prompts, self.bos) if prompts else []
        window = self.model.max_tokens
        fits = [window is None or len(tokens.ids) <= window for tokens in statements]
        runnable = [tokens for tokens, fit in zip(statements, fits, strict=True) if fit]
        found = iter(statement_log_probs(self.model, runnable, Pll(self.options.pll), self.budget))
        self._noted["statements"] += len(runnable)
        return [
            _Scored(tokens, next(found), None)
            if fit
            else _Scored(
                tokens,
                np.full(len(tokens.ids), np.nan, dtype=np.float32),
                f"a statement of {len(tokens.ids)} tokens is longer than the model's window of {window}",
            )
            for tokens, fit in zip(statements, fits, strict=True)
        ]

    def _answer(self, query: Query, space: CandidateSet, statements: Sequence[_Scored], way: Way) -> Columns:
        counted = [counted_tokens(item.tokens, way.score, self.model.attention) for item in statements]
        pairs = zip(statements, counted, strict=True)
        return of_scores(
            query,
            space,
            np.array([reduce_scores(item.log_probs, which, way.reduction) for item, which in pairs]),
            [statements[place].tokens.answer_tokens for place in space.places(query.gold)],
            [int(which.sum()) for which in counted],
            [item.tokens.mixed for item in statements],
            top_k=self.options.top_k,
            max_rank=self.options.max_rank,  # one rule for all templates, whichever way each had to take
            fault=_fault(statements, counted),
            what="statements",
        )


def _refusal(query: Query, space: CandidateSet, wording: Wording | None) -> str | None:
    return unrankable(query, space) or (None if wording is None else wording.refusal(query))


def _fault(statements: Sequence[_Scored], counted: Sequence[NDArray[np.bool_]]) -> str | None:
    """Why a statement has no score, where that is known without the model."""
    for item in statements:
        if item.fault is not None:
            return item.fault
    if not all(which.any() for which in counted):
        return "no token of a statement can be scored (a first token needs something before it: --bos)"
    return None
