"""What follows from premises about pseudowords, asked of causal models: which statement is most likely behind them?

A candidate's score is the log-likelihood of the answer and of what follows it in the hypothesis, given the premises and
the hypothesis up to there (:mod:`fathom.scoring.marked`): of all candidates, this ranks as the log-likelihood of the
whole text, as the statement probe's does. Texts that begin alike share their passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from fathom.data.queries import Query, QuerySet, unrankable
from fathom.data.templates import capitalized
from fathom.errors import BadInput
from fathom.models.base import Attention, Model
from fathom.probes.base import Answered, Facts, Shard, ShardedProbe
from fathom.probes.entailment_pairs import PSEUDOWORDS, drawn_pairs, pairs_as_rows
from fathom.probes.ontology_options import EntailmentOptions
from fathom.progress import Progress
from fathom.scoring.marked import Marked, MarkedTexts, counted_tokens_of, marked_scores
from fathom.scoring.pseudowords import refuse_ids_alone
from fathom.scoring.rows import Asked, Columns, of_scores
from fathom.scoring.statements import Reduction, Score, Way
from fathom.scoring.tokens import Bos, resolve_bos
from fathom.store.predictions import Scoring

SHARD_STATEMENTS = 8192
SHARD_QUERIES = 256
TOP = 10


class CausalEntailmentProbe(ShardedProbe):
    """See :class:`fathom.probes.base.Probe`.

    :raises BadInput: an encoder-decoder, a model that takes no vectors, and learnt tokens.
    """

    scorings = (Scoring(Way(Reduction.SUM, Score.CONDITIONAL).name, "nats"),)

    def __init__(self, options: EntailmentOptions, model: Model, queryset: QuerySet) -> None:
        if model.attention is not Attention.CAUSAL:
            raise BadInput(f"the entailment probe needs a masked or a causal model, this one is {model.attention}")
        if options.soft or options.soft_conjunction:
            raise BadInput(f"learnt tokens need a masked model; '{model.identity.name}' is causal: ask it by words")
        refuse_ids_alone(model)
        super().__init__(options, model, queryset)
        self.options = options
        self.bos = resolve_bos(model.tokenizer, Bos.AUTO)
        self._texts = MarkedTexts(model.tokenizer, self.bos, model.vocabulary_size)
        self._rules = list(queryset.by_relation())
        self._statements = 0

    def prepare(self, artifacts: Path, progress: Progress) -> None:
        """Draw the pseudowords."""
        pairs = drawn_pairs(artifacts / PSEUDOWORDS, self.model, self._rules, self.options)
        self._vectors = torch.cat(list(pairs.values())).to(self.model.device)

    def circumstances(self) -> Facts:
        """Also what was run, and how."""
        refusal = self.model.refuses_tree()
        engine = "token trie" if refusal is None else f"plain batches, because {refusal}"
        return {**super().circumstances(), "statements": self._statements, "engine": engine}

    def _cut(self) -> Iterator[Shard]:
        """Texts that begin alike, and queries of one text, stand together."""
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
        """With its pseudowords numbered as rows of the matrix."""
        count = self.options.pairs
        first = 1 + 2 * count * self._rules.index(query.relation)
        text = pairs_as_rows(query.sentences[0].text, int(query.groups["pair"]), count, first)
        return capitalized(text) if self.options.capitalize else text

    def _answered(self, shard: Shard) -> Answered:
        space = self.queryset.candidates[shard.space]
        reasons = {query.id: unrankable(query, space) for query in shard.queries}
        askable = dict.fromkeys(self._text(query) for query in shard.queries if reasons[query.id] is None)
        texts = {text: self._texts.of(text, space.names) for text in askable}
        window = self.model.max_tokens
        fitting = {text: one for text, one in texts.items() if window is None or one.longest <= window}
        self._statements += len(fitting) * len(space)
        found = marked_scores(self.model, list(fitting.values()), self.budget, self._vectors)
        scores = dict(zip(fitting, found, strict=True))
        for query in shard.queries:
            text = self._text(query)
            asked = Asked(query, 0, query.sentences[0].text, len(space))
            if (reason := reasons[query.id]) is not None:
                yield asked, reason
            elif text not in scores:
                longest = texts[text].longest
                yield asked, f"a statement of {longest} tokens is longer than the model's window of {window}"
            else:
                yield asked, [self._answer(query, texts[text], scores[text])]

    def _answer(self, query: Query, text: Marked, scores: NDArray[np.float64]) -> Columns:
        """Without the scores of all candidates, as of masked models."""
        space = self.queryset.candidates[query.candidates]
        gold_tokens = [text.answers[place] for place in space.places(query.gold)]
        counted = counted_tokens_of(self.model, text)
        row = of_scores(query, space, scores, gold_tokens, counted, top_k=TOP, what="statements")
        return {name: value for name, value in row.items() if name != "scores"}
