"""The base of KGT5 and GenKGC: a query goes in as text, the name of the answer comes out token by token.

Training is cross-entropy of the gold name after the query, in both directions of each training triple. Evaluation
scores the names of all entities, and nothing else, by their log-likelihood (see ``decoding``).
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import AutoModelForSeq2SeqLM

from fathom.data.graph.links import Links, training_links
from fathom.data.knowledge import KnowledgeGraph, Places
from fathom.errors import BadInput
from fathom.links.base import shuffled
from fathom.links.decoding import Decoder, Reach, padded, search
from fathom.links.options import Generative
from fathom.links.reading import TextPredictor
from fathom.probes.base import Facts
from fathom.scoring.rows import RankResult
from fathom.scoring.trie import AnswerTrie
from fathom.scoring.walk import SearchResult
from fathom.store.predictions import Scoring
from fathom.training.loop import ADAMW, Optimizer, Stage
from fathom.training.small import NO_TARGET

FULL_UP_TO = 5_000
"""Entities of a graph up to which every rank is searched for, by default."""
DEPTH = 10
"""Ranks up to it are always known: Hits@10 is exact."""
TOGETHER = 64
"""Questions that are encoded and searched together."""
VALIDATING = 4
"""In validation, a search widens to so many times ``--beams`` at most."""
WINDOW = 32
"""Batches whose questions are drawn together and then dealt out by length, so that little of a batch is padding."""


class NameBatch(NamedTuple):
    """Queries and the names that answer them.

    :param ids: tokens of the queries, shape (b, source).
    :param mask: 0 at padding, shape (b, source).
    :param before: tokens of the names, shifted right by one, shape (b, target).
    :param labels: tokens of the names and the end token, shape (b, target), −100 at padding.
    """

    ids: Tensor
    mask: Tensor
    before: Tensor
    labels: Tensor


class GenerativePredictor(TextPredictor):
    """See :class:`fathom.links.base.Predictor`. A kind defines the text of a query."""

    AUTO = AutoModelForSeq2SeqLM
    scoring = Scoring("log-likelihood", "nats")
    options: Generative
    network: Any

    def __init__(self, graph: KnowledgeGraph, options: Generative, source: Path | None, device: torch.device) -> None:
        super().__init__(graph, options, source, device)
        self.network = self.language
        self._check()
        self._proven = self._searched = self._nodes = 0

    @abstractmethod
    def questions(self, given: Places, relation: Places, inverse: Sequence[bool]) -> list[str]:
        """Return texts of the queries (given, relation, ?), or (?, relation, given) if *inverse*."""

    @property
    def answers(self) -> Sequence[str]:
        """What the decoder writes for each entity, by place: its name."""
        return self.texts.names

    # -------------------------------------------------------------------------------------------------- training

    def stages(self) -> Sequence[Stage]:
        """Return a single stage: cross-entropy of the gold names."""
        options, count = self.options, 2 * len(self.graph.training)
        return [
            Stage(
                "names",
                partial(self._batches, count),
                -(-count // options.batch_size),
                self._loss,
                list(self.network.parameters()),
                options.epochs,
                options.learning_rate,
                optimizer=self._optimizer(),
            )
        ]

    def _optimizer(self) -> Optimizer:
        return ADAMW

    def _batches(self, count: int, epoch: int) -> Iterator[NameBatch]:
        size, seed = self.options.batch_size, self.options.seed
        for number, window in enumerate(shuffled(count, WINDOW * size, seed, epoch), start=1):
            read = self._read(training_links(self.graph, window))
            order = np.argsort([len(ids) for ids in read], kind="stable")
            # So that an epoch does not go from short to long again and again.
            for start in np.random.default_rng((seed, epoch, number)).permutation(range(0, len(window), size)):
                some = order[start : start + size]
                yield self._batch(window[some], [read[place] for place in some.tolist()])

    def _batch(self, some: Places, read: Sequence[Sequence[int]]) -> NameBatch:
        """:param some: numbers of training queries. :param read: their tokens."""
        names = [self._names[place] for place in training_links(self.graph, some).gold.tolist()]
        labels = padded(names, NO_TARGET, self.device)
        before = torch.cat([torch.full_like(labels[:, :1], self._start), labels[:, :-1]], dim=1)
        return NameBatch(*self._with_mask(read), before.clamp(min=0), labels)

    def _loss(self, batch: NameBatch) -> Tensor:
        logits = self.network(
            input_ids=batch.ids, attention_mask=batch.mask, decoder_input_ids=batch.before, use_cache=False
        ).logits
        return cross_entropy(
            logits.float().flatten(0, 1),
            batch.labels.flatten(),
            ignore_index=NO_TARGET,
            label_smoothing=self.options.label_smoothing,
        )

    # ---------------------------------------------------------------------------------------------------- asking

    def rank(self, links: Links, top: int, keep_scores: bool = False) -> list[RankResult]:
        """Rank by log-likelihood in nats. Queries of similar length are searched together.

        :raises RunFailed: the network's cache works differently.
        """
        reach = self._reach(top, keep_scores)
        encoded = self._read(links)
        order = np.argsort([len(ids) for ids in encoded], kind="stable")
        searched: list[SearchResult] = []
        decoder = Decoder(self.network, self._start)
        for start in range(0, len(order), TOGETHER):
            some = order[start : start + TOGETHER]
            questions = decoder.encode(*self._with_mask([encoded[number] for number in some.tolist()]))
            searched += search(decoder, questions, self._answers, links.take(some), reach)
        self._searched += len(searched)
        self._proven += sum(one.proven for one in searched)
        self._nodes += sum(one.tokens_run for one in searched)
        return [searched[place].result for place in np.argsort(order).tolist()]

    def _reach(self, top: int, keep_scores: bool) -> Reach:
        """Return the extent of a search.

        In validation ranks beyond the tenth are misses, and unproven searches stop early. The
        answers of a network that has learnt little are all alike, which makes proofs expensive.
        """
        options, depth = self.options, max(top, DEPTH)
        if self.validating:
            return Reach(depth, top, options.beams, min(options.widest, VALIDATING * options.beams))
        if options.full_rank if options.full_rank is not None else len(self.texts.names) <= FULL_UP_TO:
            return Reach(depth, top, None, keep_scores=keep_scores)
        return Reach(depth, top, options.beams, options.widest)

    @cached_property
    def _answers(self) -> AnswerTrie:
        return AnswerTrie(self._names)

    @cached_property
    def _names(self) -> list[list[int]]:
        """Tokens of each entity's answer, ending with the end token."""
        longest, end = self._longest, self._end
        rows = self.tokenizer(list(self.answers), verbose=False)["input_ids"]
        bare = [ids[:-1] if ids and ids[-1] == end else ids for ids in rows]
        return [[*ids[: longest - 1], end] for ids in bare]

    def notes(self) -> list[str]:
        """Add how many entities share their name."""
        shared = sum(count for count in Counter(map(tuple, self._names)).values() if count > 1)
        notes = [f"{shared:,} of {len(self._names):,} entities share their name with another and tie with it"]
        return super().notes() + (notes if shared else [])

    def circumstances(self) -> Facts:
        """Return how many answers are proven, and their cost."""
        return {
            "proven": f"{self._proven:,} of {self._searched:,} answers proven exact",
            "nodes_run": self._nodes,
        }

    # --------------------------------------------------------------------------------------------------- helpers

    def _check(self) -> None:
        """:raises BadInput: a tokenizer that does not fit the network."""
        if self._end is None:
            raise BadInput(f"the tokenizer of '{self.options.weights}' has no end token: set eos_token in its config")
        vocabulary = self.network.get_input_embeddings().num_embeddings
        if len(self.tokenizer) > vocabulary:
            raise BadInput(
                f"the tokenizer of '{self.options.weights}' has {len(self.tokenizer):,} tokens, its network "
                f"{vocabulary:,}: they do not belong together"
            )

    @property
    def _end(self) -> Any:
        tokenizer = self.tokenizer
        return tokenizer.eos_token_id if tokenizer.eos_token_id is not None else tokenizer.sep_token_id

    @property
    def _start(self) -> int:
        """First token of the decoder: of the network's configuration, else padding (T5) or the end token (BART)."""
        own = getattr(self.network.config, "decoder_start_token_id", None)
        return next(int(id_) for id_ in (own, self.tokenizer.pad_token_id, self._end) if id_ is not None)

    @property
    def _longest(self) -> int:
        window = getattr(self.network.config, "max_position_embeddings", None)
        return min(self.options.max_tokens, window or self.options.max_tokens)

    def _read(self, links: Links) -> list[list[int]]:
        """Return the tokens of the queries."""
        texts = self.questions(links.given, links.relation, links.inverse.tolist())
        rows = self.tokenizer(texts, truncation=True, max_length=self._longest, verbose=False)["input_ids"]
        return [ids or [self._end] for ids in rows]  # some text must stand there to be attended to

    def as_read(self, links: Links) -> list[str]:
        """Return the queries as text."""
        return list(self.tokenizer.batch_decode(self._read(links)))

    def _with_mask(self, ids: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        matrix = padded(ids, -1, self.device)
        return matrix.clamp(min=0), (matrix >= 0).long()
