"""The entailment probe for causal models, and the pseudowords that both entailment probes share.

A candidate's score is the log-likelihood of the hypothesis from the answer on, given the text before it
(:mod:`fathom.scoring.pseudowords`). It ranks candidates like the likelihood of the whole text. Texts with a shared
prefix share their passes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch import Tensor

from fathom.data.queries import Query, QuerySet, unrankable
from fathom.data.templates import capitalized
from fathom.errors import BadInput
from fathom.models.base import Attention, Model
from fathom.probes.base import Answered, Facts, Shard, ShardedProbe, too_long
from fathom.probes.options import EntailmentOptions
from fathom.progress import Progress
from fathom.prompts.entailment import W, X, Y, Z
from fathom.reading import stands, tensors_file
from fathom.scoring.pseudowords import PseudowordEncoder, PseudowordText, count_scored, pseudoword_scores, pseudowords
from fathom.scoring.rows import Columns, PromptedQuery, score_columns
from fathom.scoring.statements import Reduction, Score, StatementScoring
from fathom.scoring.tokens import Bos, resolve_bos
from fathom.store.files import whole_file
from fathom.store.predictions import Scoring
from fathom.training.soft import AGAIN

SHARD_STATEMENTS = 8192
SHARD_QUERIES = 256
TOP = 10
PSEUDOWORDS = "pseudowords.safetensors"
"""Artifact: the pairs of each rule, ``<x>`` and ``<y>`` of the first, of the second, …"""


class CausalEntailmentProbe(ShardedProbe):
    """See :mod:`fathom.probes.entailment_causal`.

    :raises BadInput: an encoder-decoder, a model that takes no vectors, or learnt tokens.
    """

    scorings = (Scoring(StatementScoring(Reduction.SUM, Score.CONDITIONAL).name, "nats"),)

    def __init__(self, options: EntailmentOptions, model: Model, queryset: QuerySet) -> None:
        if model.attention is not Attention.CAUSAL:
            raise BadInput(f"the entailment probe needs a masked or a causal model, this one is {model.attention}")
        if options.soft or options.soft_conjunction:
            raise BadInput(f"learnt tokens need a masked model; '{model.identity.name}' is causal: use words")
        model.require_vectors()
        super().__init__(options, model, queryset)
        self.options = options
        self.bos = resolve_bos(model.tokenizer, Bos.AUTO)
        self._texts = PseudowordEncoder(model.tokenizer, self.bos, model.vocabulary_size)
        self._rules = list(queryset.by_relation())
        self._statements = 0

    def prepare(self, artifacts: Path, progress: Progress) -> None:
        pairs = drawn_pairs(artifacts / PSEUDOWORDS, self.model, self._rules, self.options)
        self._vectors = torch.cat(list(pairs.values())).to(self.model.device)

    def circumstances(self) -> Facts:
        refusal = self.model.refuses_tree()
        engine = "token trie" if refusal is None else f"plain batches, because {refusal}"
        return {**super().circumstances(), "statements": self._statements, "engine": engine}

    def _cut(self) -> Iterator[Shard]:
        """Sort by text, so that a shard's texts share prefixes and queries share texts."""
        for name in dict.fromkeys(query.candidates for query in self.queryset.queries):
            most = max(1, SHARD_STATEMENTS // max(1, len(self.queryset.candidates[name])))
            alike = [query for query in self.queryset.queries if query.candidates == name]
            own: list[Query] = []
            for query in sorted(alike, key=self._text):
                if own and (len(own) >= SHARD_QUERIES or len({*map(self._text, own), self._text(query)}) > most):
                    yield Shard(0, tuple(own))
                    own = []
                own.append(query)
            if own:
                yield Shard(0, tuple(own))

    def _text(self, query: Query) -> str:
        """Return the query's text with pseudowords numbered as rows of the matrix."""
        count = self.options.pairs
        first = 1 + 2 * count * self._rules.index(query.relation)
        text = pairs_as_rows(query.sentences[0].text, int(query.groups["pair"]), count, first)
        return capitalized(text) if self.options.capitalize else text

    def _answered(self, shard: Shard) -> Answered:
        space = self.queryset.candidates[shard.space]
        reasons = {query.id: unrankable(query, space) for query in shard.queries}
        askable = dict.fromkeys(self._text(query) for query in shard.queries if reasons[query.id] is None)
        texts = {text: self._texts.encode(text, space.names) for text in askable}
        fitting = {text: one for text, one in texts.items() if too_long("", one.longest, self.model) is None}
        self._statements += len(fitting) * len(space)
        rows = pseudoword_scores(self.model, list(fitting.values()), self.budget, self._vectors)
        scores = dict(zip(fitting, rows, strict=True))
        for query in shard.queries:
            text = self._text(query)
            asked = PromptedQuery(query, 0, query.sentences[0].text, len(space))
            reason = reasons[query.id] or too_long("a statement", texts[text].longest, self.model)
            yield asked, reason or [self._answer(query, texts[text], scores[text])]

    def _answer(self, query: Query, text: PseudowordText, scores: NDArray[np.float64]) -> Columns:
        """Drop the scores of all candidates, as for masked models."""
        space = self.queryset.candidates[query.candidates]
        gold_tokens = [text.answers[place] for place in space.places(query.gold)]
        counted = count_scored(self.model, text)
        row = score_columns(query, space, scores, gold_tokens, counted, top_k=TOP, what="statements")
        return {name: value for name, value in row.items() if name != "scores"}


def drawn_pairs(file: Path, model: Model, rules: Sequence[str], options: EntailmentOptions) -> dict[str, Tensor]:
    """Return the pairs of each rule, shape (2 · pairs, d), from the *file* if it exists.

    :raises BadInput: the file lacks a rule, or the model has no room for so many pseudowords.
    """
    if not stands(file):
        drawn = {rule: pseudowords(model, 2 * options.pairs, options.alpha, options.seed, rule) for rule in rules}
        with whole_file(file) as temporary:
            save_file(drawn, temporary)
    pairs = tensors_file(file, AGAIN)
    if missing := [rule for rule in rules if rule not in pairs or pairs[rule].ndim != 2]:
        raise BadInput(f"{file} has no vectors of {missing[0]}: {AGAIN}")
    return {rule: pairs[rule] for rule in rules}


def pairs_as_rows(text: str, pair: int, count: int, first: int) -> str:
    """Number the pseudowords of a text as rows of a matrix, from 1: ``<x>`` becomes ``<s7>``.

    :param count: number of pairs; ``<z>`` and ``<w>`` are the next pair.
    :param first: row of the rule's first ``<x>``.
    """
    own, others = first + 2 * pair, first + 2 * ((pair + 1) % count)
    places = {X: own, Y: own + 1, Z: others, W: others + 1}
    return re.sub("|".join(places), lambda mark: f"<s{places[mark[0]]}>", text)
