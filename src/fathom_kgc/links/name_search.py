"""The best answers of an encoder-decoder among all entity names, exactly, without scoring each name.

A name's score is its log-likelihood given the query: the sum of log p over its tokens and the end token, each a
softmax over the whole vocabulary. Entities of one name share a leaf of the trie of names, so they tie.
:mod:`fathom.engine.scoring.walk` explains which nodes are skipped and why no answer is missed.

The trie is walked level by level for several queries at once. A narrow walk keeps only the best *width* nodes of each
query. If it cut off a node above the final bound, the answer is not proven. The walk is then repeated four times as
wide, starting from the bound it has found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import DynamicCache, EncoderDecoderCache, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from fathom.base.errors import RunFailed
from fathom.data.graph.links import Links
from fathom.engine.scoring.trie import AnswerTrie, Ints, padded
from fathom.engine.scoring.walk import Branches, Floats, SearchGoal, SearchResult, SearchState, Walk
from fathom_kgc.links.base import NOT_A_NUMBER

Layers = Sequence[tuple[Tensor, Tensor]]
"""Keys and values of each layer, each of shape (b, heads, tokens, d)."""

DISAGREEMENT = 0.05
"""Nats that the two ways of scoring a name may never differ by: the cached walk and the plain forward pass."""
CELLS = 16 * 1024 * 1024
"""Logits held at a time: 64 MiB of float32."""
ALONE = 64
"""Nodes of one question that are worth a pass of their own: they see one source, which need not be copied for each."""
WIDER = 4
"""How much wider a walk that proved nothing is repeated."""


@dataclass(frozen=True)
class EncodedQuestions:
    """n queries as the decoder sees them.

    :param states: of the encoder, shape (n, source, d).
    :param mask: 1 at tokens, 0 at padding, shape (n, source).
    :param cross: keys and values of the states in each decoder layer.
    :param past: keys and values of the start token.
    :param logits: after it, float32, shape (n, vocabulary).
    """

    states: Tensor
    mask: Tensor
    cross: Layers
    past: Layers
    logits: Tensor

    def __len__(self) -> int:
        return len(self.mask)

    def take(self, rows: Tensor) -> EncodedQuestions:
        layers = _rows(self.cross, rows), _rows(self.past, rows)
        return EncodedQuestions(self.states[rows], self.mask[rows], *layers, self.logits[rows])


class Decoder:
    """An encoder-decoder of `transformers`, run one step at a time. :param start: first token of the decoder."""

    def __init__(self, network: PreTrainedModel, start: int) -> None:
        self.network, self.start, self.device = network, start, network.device
        self.rows = max(16, min(1024, CELLS // network.config.vocab_size))
        """Nodes run in one pass."""

    def encode(self, ids: Tensor, mask: Tensor) -> EncodedQuestions:
        """Read queries and the start token.

        :param ids: of the queries, shape (n, source).
        :param mask: 0 at padding, shape (n, source).
        """
        states = self.network.get_encoder()(input_ids=ids, attention_mask=mask).last_hidden_state
        begin = torch.full((len(ids), 1), self.start, device=ids.device)
        out = self._run(states, mask, begin, use_cache=True)
        memory = out.past_key_values
        layers = _layers(memory.cross_attention_cache), _layers(memory.self_attention_cache)
        return EncodedQuestions(states, mask, *layers, out.logits[:, -1].float())

    def step(self, encoded: EncodedQuestions, question: Tensor, tokens: Tensor, past: Layers) -> tuple[Tensor, Layers]:
        """Run one more token of some prefixes of equal length.

        :param question: the query of each prefix, shape (rows,).
        :param tokens: the tokens to run, shape (rows,).
        :param past: keys and values of the tokens before.
        :returns: logits after it, float32, shape (rows, vocabulary), and the extended *past*.
        """
        rows, alone = len(question), bool((question == question[0]).all())
        cross = _rows(encoded.cross, question[:1] if alone else question)
        if alone:  # all see the same source: a view for every row, no copy
            cross = [(keys.expand(rows, -1, -1, -1), values.expand(rows, -1, -1, -1)) for keys, values in cross]
        states = encoded.states[:1].expand(rows, -1, -1)  # never read: the cross cache stands for them
        memory = EncoderDecoderCache(_cache(past), _cache(cross))
        out = self._run(states, encoded.mask[question], tokens[:, None], past_key_values=memory, use_cache=True)
        return out.logits[:, -1].float(), _layers(out.past_key_values.self_attention_cache)

    def log_probs(self, encoded: EncodedQuestions, sequences: Sequence[Sequence[int]]) -> Tensor:
        """Return log p of one answer per question by a plain forward pass, in nats, float32, shape (n,)."""
        tokens = torch.from_numpy(padded(sequences, -1)).to(self.device)
        real, tokens = tokens >= 0, tokens.clamp(min=0)
        begin = torch.full_like(tokens[:, :1], self.start)
        logits = self._run(encoded.states, encoded.mask, torch.cat([begin, tokens[:, :-1]], dim=1)).logits.float()
        log_probs = logits.gather(2, tokens[:, :, None])[:, :, 0] - torch.logsumexp(logits, dim=2)
        return torch.where(real, log_probs, 0.0).sum(dim=1)

    def _run(self, states: Tensor, mask: Tensor, tokens: Tensor, **options: Any) -> Any:
        return self.network(
            encoder_outputs=BaseModelOutput(last_hidden_state=states),
            attention_mask=mask,
            decoder_input_ids=tokens,
            **options,
        )


def _rows(layers: Layers, rows: Tensor) -> Layers:
    return [(keys[rows], values[rows]) for keys, values in layers]


def _layers(cache: DynamicCache) -> Layers:
    return [(layer.keys, layer.values) for layer in cache.layers]


def _cache(layers: Layers) -> DynamicCache:
    """Return a cache of exactly these tensors. ``update`` would copy them, views included."""
    cache = DynamicCache()
    for number, (keys, values) in enumerate(layers):
        cache.update(keys[:1, :, :1], values[:1, :, :1], number)
        cache.layers[number].keys, cache.layers[number].values = keys, values
    return cache


@dataclass(frozen=True)
class Reach:
    """The extent of a search.

    :param depth: how many of the best answers to find, known ones excluded; ranks are exact up to it.
    :param top: how many of the best to list, known ones included; at most *depth*.
    :param width: nodes of each query kept at a level, at first; None for all, which makes every rank exact.
    :param widest: the same, at most.
    :param keep_scores: score every answer; requires *width* None.
    """

    depth: int
    top: int
    width: int | None
    widest: int = 0
    keep_scores: bool = False


def search(
    decoder: Decoder, encoded: EncodedQuestions, answers: AnswerTrie, links: Links, reach: Reach
) -> list[SearchResult]:
    """Find the best answers and the gold answer's filtered rank, for each query.

    :param answers: tokens of each entity's name and the end token, by place; they follow the start token.
    :raises RunFailed: the two ways of scoring disagree: the network's cache works differently.
    """
    if not len(links):
        return []
    trie, places = answers.trie, links.gold.tolist()
    gold = decoder.log_probs(encoded, [trie.tokens[trie.path(place)].tolist() for place in places]).tolist()
    states = [NameState(answers, *question, reach) for question in zip(places, links.known, gold, strict=True)]
    waiting, width = list(range(len(states))), reach.width
    while waiting:
        size = len(waiting) if width is None else max(1, decoder.rows // width)  # with a width, a level is one pass
        for start in range(0, len(waiting), size):
            some = waiting[start : start + size]
            part = encoded if len(some) == len(states) else encoded.take(torch.tensor(some, device=decoder.device))
            active = [states[number] for number in some]
            for state in active:
                state.restart()
            reader = NameReader(decoder, part, answers, active, width)
            Walk(answers, active, reader).run(part.past, reader.first())
        waiting = [number for number in waiting if not states[number].is_proven()]
        if width is None or width >= reach.widest:
            break
        width = min(WIDER * width, reach.widest)
    return [state.searched() for state in states]


class NameState(SearchState):
    """The state of one query over several walks. Only rivals of the gold answer are searched for."""

    NOT_A_NUMBER = NOT_A_NUMBER

    def __init__(self, answers: AnswerTrie, gold: int, known: Ints, gold_score: float, reach: Reach) -> None:
        max_rank = None if reach.width is None else reach.depth
        super().__init__(answers, [gold], known, SearchGoal(reach.depth, max_rank, not reach.keep_scores))
        self.set_gold(np.array([gold_score]))
        self.reach = reach
        self.floor = -np.inf
        """A bound that an earlier, narrower walk has found."""
        self.cut = -np.inf
        """The best node that was cut off."""

    def restart(self) -> None:
        """Forget the previous walk, except its bound."""
        self.floor, self.cut = self.bound(), -np.inf
        self.begin()

    def bound(self) -> float:
        return max(super().bound(), self.floor)

    def listed(self, places: Ints) -> NDArray[np.bool_]:
        return self.is_rival[places]

    def knows_gold_ranks(self) -> bool:
        return not self.is_beyond()

    def is_proven(self) -> bool:
        return self.cut == -np.inf or self.cut < self.bound() - self.slack

    def meet(self, nodes: Ints, totals: Floats) -> None:
        for walked in totals[nodes == self.answers.terminal[self.gold]].tolist():
            if not abs(walked - self.best) <= DISAGREEMENT:
                raise RunFailed(
                    f"two ways of scoring the same name disagree ({walked:.4f} step by step, {self.best:.4f} at once): "
                    "this encoder-decoder does not keep its cache as T5 and BART do, and cannot be searched"
                )
        super().meet(nodes, totals)

    def searched(self) -> SearchResult:
        result = self.result()
        result.top = result.top[: self.reach.top]
        if result.scores is not None:
            result.scores = result.scores.astype(np.float32)
        return SearchResult(result, self.tokens_run, self.is_proven())


class NameReader:
    """Reads level by level from the keys and values of the parents, see :class:`fathom.engine.scoring.walk.Reader`."""

    def __init__(
        self,
        decoder: Decoder,
        encoded: EncodedQuestions,
        answers: AnswerTrie,
        states: Sequence[NameState],
        width: int | None,
    ) -> None:
        self.decoder, self.encoded, self.answers, self.states, self.width = decoder, encoded, answers, states, width

    def first(self) -> Floats:
        """Return log p of the first tokens of all names, shape (queries, roots)."""
        question, root = (grid.ravel() for grid in np.indices((len(self.states), len(self.answers.roots))))
        tokens = self.answers.trie.tokens[self.answers.roots[root]]
        return self._log_probs(self.encoded.logits, question, tokens).reshape(len(self.states), -1)

    def size(self, branches: Branches) -> int:
        """Return how many branches to run: those of one query with many, or of several queries."""
        question = branches.question
        crowded = np.bincount(question)[question] >= ALONE
        if crowded[0]:
            size = int((question == question[0]).sum())
        else:
            size = int(crowded.argmax()) if crowded.any() else len(question)
        return size if self.width is not None else min(size, self.decoder.rows)

    def order(self, branches: Branches) -> Ints:
        """Return the best branches of each query, as many as the width allows."""
        order = np.lexsort((-branches.promise, branches.question))
        if self.width is None:
            return order
        question = branches.question[order]
        place = np.arange(len(order)) - np.searchsorted(question, question)
        for cut in order[place == self.width]:
            state = self.states[branches.question[cut]]
            state.cut = max(state.cut, float(branches.promise[cut]))
        return order[place < self.width]

    def step(self, memory: Layers, branches: Branches, row: Ints, tokens: Ints) -> tuple[Floats, Layers]:
        question, last, parent = map(
            self._tensor, (branches.question, self.answers.trie.tokens[branches.node], branches.row)
        )
        logits, past = self.decoder.step(self.encoded, question, last, _rows(memory, parent))
        return self._log_probs(logits, row, tokens), past

    def _log_probs(self, logits: Tensor, rows: Ints, tokens: Ints) -> Floats:
        """Return log p in nats. :param rows: of *logits*, one per token."""
        at = self._tensor(rows)
        log_probs = logits[at, self._tensor(tokens)] - torch.logsumexp(logits, dim=1)[at]
        return log_probs.cpu().numpy().astype(np.float64)

    def _tensor(self, array: Ints) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.decoder.device)
