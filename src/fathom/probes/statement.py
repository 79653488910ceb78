"""The statement probe (BEAR, Wiland et al. 2024): which answer makes the most likely statement?

Each candidate is put into the relation's template; the statement's log-likelihood (causal models) or
pseudo-log-likelihood (masked models) is its score. See docs/methods/statement.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fathom.data.queries import CandidateSet, Query, QuerySet
from fathom.data.templates import Template
from fathom.errors import BadInput
from fathom.models.base import Attention, Model
from fathom.probes.base import Progress, Row
from fathom.probes.options import StatementOptions
from fathom.scoring.masked import Pll
from fathom.scoring.memory import Budget
from fathom.scoring.ranks import rank_best, top, unfiltered_ranks
from fathom.scoring.statements import (
    Reduction,
    Score,
    counted_tokens,
    encode_statements,
    reduce_scores,
    statement_log_probs,
)
from fathom.scoring.tokens import Bos, Tokens, resolve_bos
from fathom.store.predictions import KEEP_SCORES_UP_TO

SHARD_STATEMENTS = 8192
TOP = 10


class _Shard(NamedTuple):
    relation: str
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
        self.scorings = [(Reduction(r), Score(s)) for s in options.score for r in options.reduction]
        self._check_templates()
        self._shards = {f"{number:05d}": shard for number, shard in enumerate(self._cut())}
        self._statements = 0

    def resolved(self) -> dict[str, Any]:
        bos = None if self.bos is None else self.model.tokenizer.convert_ids_to_tokens(self.bos)
        causal = self.model.attention is Attention.CAUSAL
        return {"attention": str(self.model.attention), **({"bos_token": bos} if causal else {})}

    def plan(self) -> Sequence[str]:
        return list(self._shards)

    def prepare(self, artifacts: Path, progress: Progress) -> None:
        pass

    def circumstances(self) -> dict[str, Any]:
        noted: dict[str, Any] = {"statements": self._statements, "halvings": self.budget.halvings}
        if self.model.attention is Attention.CAUSAL:
            refusal = self.model.refuses_tree()
            noted["engine"] = "token trie" if refusal is None else f"plain batches, because {refusal}"
        return noted

    def ask(self, shard: str) -> list[Row]:
        relation, number, queries = self._shards[shard]
        template = self.queryset.relations[relation].templates[number]
        space = self.queryset.candidates[queries[0].candidates]
        askable = [query for query in queries if query.unscored is None]
        scored = self._score(template, askable, space)
        rows: list[Row] = []
        for query in queries:
            about = self._about(query, number, template, len(space))
            if query.unscored is not None:
                rows += [{**about, "scoring": name, "unscored": query.unscored} for name in self._names()]
                continue
            statements = scored[: len(space)]
            scored = scored[len(space) :]
            rows += [{**about, **self._answer(query, space, statements, *scoring)} for scoring in self.scorings]
        return rows

    def _check_templates(self) -> None:
        faults = [
            f"relation {relation.id} has no template {number}: it has 0 to {len(relation.templates) - 1}"
            for relation in (self.queryset.relations[id_] for id_ in self.queryset.by_relation())
            for number in self.options.templates
            if number >= len(relation.templates)
        ]
        if faults:
            raise BadInput(faults)

    def _cut(self) -> list[_Shard]:
        """By relation, candidate set and template: what shares a trie stays together, up to a size to lose."""
        shards = []
        for relation, queries in self.queryset.by_relation().items():
            numbers = self.options.templates or range(len(self.queryset.relations[relation].templates))
            for space in dict.fromkeys(query.candidates for query in queries):
                alike = [query for query in queries if query.candidates == space]
                size = max(1, SHARD_STATEMENTS // len(self.queryset.candidates[space]))
                pieces = [tuple(alike[start : start + size]) for start in range(0, len(alike), size)]
                shards += [_Shard(relation, number, piece) for number in numbers for piece in pieces]
        return shards

    def _names(self) -> list[str]:
        return [f"{reduction}/{score}" for reduction, score in self.scorings]

    def _score(self, template: Template, queries: Sequence[Query], space: CandidateSet) -> list[_Scored]:
        """Every candidate of every query, query by query; a statement beyond the model's window is not run."""
        capitalize = self.options.capitalize
        prompts = [
            template.fill(query.subject, name, capitalize=capitalize) for query in queries for name in space.names
        ]
        statements = encode_statements(self.model, prompts, self.bos) if prompts else []
        window = self.model.max_tokens
        fits = [window is None or len(tokens.ids) <= window for tokens in statements]
        runnable = [tokens for tokens, fit in zip(statements, fits, strict=True) if fit]
        found = iter(statement_log_probs(self.model, runnable, Pll(self.options.pll), self.budget))
        self._statements += len(runnable)
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

    def _about(self, query: Query, number: int, template: Template, candidates: int) -> dict[str, Any]:
        return {
            "query_id": query.id,
            "template": number,
            "subject": query.subject,
            "prompt": template.question(query.subject, capitalize=self.options.capitalize),
            "num_candidates": candidates,
        }

    def _answer(
        self, query: Query, space: CandidateSet, statements: Sequence[_Scored], reduction: Reduction, score: Score
    ) -> dict[str, Any]:
        counted = [counted_tokens(item.tokens, score, self.model.attention) for item in statements]
        scores = np.array(
            [reduce_scores(item.log_probs, which, reduction) for item, which in zip(statements, counted, strict=True)]
        )
        gold = [space.position[answer] for answer in query.gold]
        row: dict[str, Any] = {"scoring": f"{reduction}/{score}"}
        if len(space) <= KEEP_SCORES_UP_TO:
            row["scores"] = scores.tolist()
        row["gold_scores"] = scores[gold].tolist()
        row["gold_tokens"] = [statements[place].tokens.answer_tokens for place in gold]
        if not np.isfinite(scores).all():
            return row | {"unscored": _why(statements, counted, scores)}
        ranks = rank_best(scores, gold, [space.position[answer] for answer in query.known])
        best = max(gold, key=lambda place: scores[place])
        first = top(scores, space.ids, TOP)
        return row | {
            "rank": ranks.realistic,
            "rank_optimistic": ranks.optimistic,
            "rank_pessimistic": ranks.pessimistic,
            "gold_ranks": unfiltered_ranks(scores, gold),
            "top_ids": [space.ids[place] for place in first],
            "top_scores": scores[first].tolist(),
            "scored_tokens": int(counted[best].sum()),
            "mixed_tokens": statements[best].tokens.mixed,
        }


def _why(statements: Sequence[_Scored], counted: Sequence[NDArray[np.bool_]], scores: NDArray[np.float64]) -> str:
    for item in statements:
        if item.fault is not None:
            return item.fault
    if not all(which.any() for which in counted):
        return "no token of a statement can be scored (a first token needs something before it: --bos)"
    return (
        f"the model gave {int((~np.isfinite(scores)).sum())} of {len(scores)} statements a score that is not a number"
    )
