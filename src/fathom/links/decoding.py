"""The best answers of an encoder-decoder among the names of all entities, exactly, without writing every name.

A name's score is its log-likelihood given the question: the sum of log p over its tokens and the end token, each a
softmax over the whole vocabulary. It only falls from token to token, so in the trie of all names a node below the bound
(the k-th best answer so far) can hold no better answer and is dropped with everything under it. Entities of one name
share a leaf, hence a score: they tie.

The trie is walked level by level from the encoded question, several questions at once. A walk may be narrow: only the
best *width* nodes of each question go on. If it cut off a node that was not below the bound in the end, the answer is
not proven; the walk is then repeated four times as wide, with the bound it has found, which leaves it little to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import DynamicCache, EncoderDecoderCache, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from fathom.data.graph.links import Links
from fathom.errors import RunFailed
from fathom.links.ranking import NOT_A_NUMBER
from fathom.scoring.ranks import Found, Ranks
from fathom.scoring.search import Answers
from fathom.scoring.trie import Ints

Floats = NDArray[np.float64]
Layers = Sequence[tuple[Tensor, Tensor]]
"""Keys and values of each layer, each of shape (b, heads, tokens, d)."""

SLACK = 1e-3
"""Nats by which the bound is lowered: more than passes of different shape differ in float32."""
DISAGREEMENT = 0.05
"""Nats that the two ways of scoring a name may never differ by: the cached walk and the plain forward pass."""
CELLS = 16 * 1024 * 1024
"""Logits held at a time: 64 MiB of float32."""
ALONE = 64
"""Nodes of one question that are worth a pass of their own: they see one source, which need not be copied for each."""
WIDER = 4
"""How much wider a walk that proved nothing is repeated."""


@dataclass(frozen=True)
class Encoded:
    """n questions as the decoder sees them.

    :param states: of the encoder, shape (n, source, d). :param mask: 1 at tokens, 0 at padding, shape (n, source).
    :param cross: keys and values of the states in each decoder layer.
    :param past: keys and values of the start token. :param logits: after it, float32, shape (n, vocabulary).
    """

    states: Tensor
    mask: Tensor
    cross: Layers
    past: Layers
    logits: Tensor

    def __len__(self) -> int:
        return len(self.mask)

    def take(self, rows: Tensor) -> Encoded:
        cross, past = _rows(self.cross, rows), _rows(self.past, rows)
        return Encoded(self.states[rows], self.mask[rows], cross, past, self.logits[rows])


class Decoder:
    """One step at a time through an encoder-decoder of `transformers`.

    :param start: the token that decoding begins with.
    """

    def __init__(self, network: PreTrainedModel, start: int) -> None:
        self.network, self.start = network, start
        self.rows = max(16, min(1024, CELLS // network.config.vocab_size))
        """Nodes run in one pass."""

    @property
    def device(self) -> torch.device:
        return self.network.device  # type: ignore[no-any-return]

    def encode(self, ids: Tensor, mask: Tensor) -> Encoded:
        """:param ids: of the questions, shape (n, source). :param mask: 0 at padding, shape (n, source)."""
        states = self.network.get_encoder()(input_ids=ids, attention_mask=mask).last_hidden_state
        begin = torch.full((len(ids), 1), self.start, device=ids.device)
        out = self._run(states, mask, begin, use_cache=True)
        memory = out.past_key_values
        return Encoded(
            states,
            mask,
            _layers(memory.cross_attention_cache),
            _layers(memory.self_attention_cache),
            out.logits[:, -1].float(),
        )

    def step(self, encoded: Encoded, question: Tensor, tokens: Tensor, past: Layers) -> tuple[Tensor, Layers]:
        """Run one more token of each of some beginnings, all of one length.

        :param question: whose beginning each is, shape (rows,). :param tokens: shape (rows,).
        :returns: logits after it, float32, shape (rows, vocabulary), and the grown *past*.
        """
        rows = len(question)
        alone = rows > 1 and bool((question == question[0]).all())
        if alone:  # all see the same source: a view for every row, no copy
            one = question[:1]
            cross: Layers = [
                (k[one].expand(rows, -1, -1, -1), v[one].expand(rows, -1, -1, -1)) for k, v in encoded.cross
            ]
        else:
            cross = _rows(encoded.cross, question)
        states = encoded.states[:1].expand(rows, -1, -1)  # never read: the cross cache stands for them
        memory = EncoderDecoderCache(_cache(past), _cache(cross))
        out = self._run(states, encoded.mask[question], tokens[:, None], past_key_values=memory, use_cache=True)
        return out.logits[:, -1].float(), _layers(out.past_key_values.self_attention_cache)

    def log_probs(self, encoded: Encoded, sequences: Sequence[Sequence[int]]) -> Tensor:
        """log p of one answer of each question by a plain forward pass, in nats, float32, shape (n,)."""
        width = max(len(ids) for ids in sequences)
        padded = torch.zeros((len(sequences), width), dtype=torch.long)
        real = torch.zeros((len(sequences), width), dtype=torch.bool)
        for row, ids in enumerate(sequences):
            padded[row, : len(ids)] = torch.tensor(ids)
            real[row, : len(ids)] = True
        padded, real = padded.to(self.device), real.to(self.device)
        begin = torch.full((len(padded), 1), self.start, device=self.device)
        logits = self._run(encoded.states, encoded.mask, torch.cat([begin, padded[:, :-1]], dim=1)).logits.float()
        found = logits.gather(2, padded[:, :, None])[:, :, 0] - torch.logsumexp(logits, dim=2)
        return torch.where(real, found, 0.0).sum(dim=1)

    def _run(self, states: Tensor, mask: Tensor, tokens: Tensor, **options: Any) -> Any:
        outputs = BaseModelOutput(last_hidden_state=states)
        return self.network(encoder_outputs=outputs, attention_mask=mask, decoder_input_ids=tokens, **options)


def _rows(layers: Layers, rows: Tensor) -> Layers:
    return [(keys[rows], values[rows]) for keys, values in layers]


def _layers(cache: DynamicCache) -> Layers:
    return [(layer.keys, layer.values) for layer in cache.layers]


def _cache(layers: Layers) -> DynamicCache:
    """A cache with just these tensors in it. ``update`` would copy them, views and all."""
    cache = DynamicCache()
    for number, (keys, values) in enumerate(layers):
        cache.update(keys[:1, :, :1], values[:1, :, :1], number)
        cache.layers[number].keys, cache.layers[number].values = keys, values
    return cache


@dataclass(frozen=True)
class Plan:
    """How far to search.

    :param depth: find the best so many answers, known ones not counted; the right answer's rank is exact up to it.
    :param top: how many of the best to list, known ones among them; at most *depth*.
    :param width: nodes of each question that go on from level to level at first; None for all, whence every answer at
        or above the right one is met and every rank is exact.
    :param widest: the same at last. :param keep_scores: score every answer; only where *width* is None.
    """

    depth: int
    top: int
    width: int | None
    widest: int = 0
    keep_scores: bool = False


class Searched(NamedTuple):
    """:param proven: whether nothing that could change the answer was cut off. :param nodes: nodes run for it."""

    found: Found
    proven: bool
    nodes: int


def search(decoder: Decoder, encoded: Encoded, answers: Answers, links: Links, plan: Plan) -> list[Searched]:
    """The best answers and the right answer's filtered place, for each question.

    :param answers: what follows the start token: tokens of each entity's name and the end token, by place.
    :raises RunFailed: the two ways of scoring disagree: this network's cache is not what it is taken for.
    """
    if not len(links):
        return []
    gold = decoder.log_probs(encoded, [_tokens(answers, place) for place in links.gold.tolist()]).tolist()
    states = [
        _State(answers, place, known, score, plan)
        for place, known, score in zip(links.gold.tolist(), links.known, gold, strict=True)
    ]
    waiting, width = list(range(len(states))), plan.width
    while waiting:
        for some in _groups(waiting, decoder, width):
            for number in some:
                states[number].begin()
            everybody = len(some) == len(states)
            part = encoded if everybody else encoded.take(torch.tensor(some, device=decoder.device))
            _Walk(decoder, part, answers, [states[number] for number in some], width).run()
        waiting = [number for number in waiting if not states[number].is_proven()]
        if width is None or width >= plan.widest:
            break
        width = min(WIDER * width, plan.widest)
    return [Searched(state.found(), state.is_proven(), state.nodes) for state in states]


def _groups(waiting: list[int], decoder: Decoder, width: int | None) -> list[list[int]]:
    """Questions that are walked together: with a width, so many that a level is one pass."""
    size = len(waiting) if width is None else max(1, decoder.rows // width)
    return [waiting[start : start + size] for start in range(0, len(waiting), size)]


def _tokens(answers: Answers, place: int) -> list[int]:
    path = answers.trie.paths[place]
    return answers.trie.tokens[path[path >= 0]].tolist()  # type: ignore[no-any-return]


class _State:
    """What is known of one question in the middle of its search."""

    def __init__(self, answers: Answers, gold: int, known: Ints, gold_score: float, plan: Plan) -> None:
        self.answers, self.gold, self.gold_score, self.plan = answers, gold, gold_score, plan
        self.not_rivals = np.append(known, gold)
        self.is_number = bool(np.isfinite(gold_score))
        self.floor = -np.inf
        """A bound that an earlier, narrower walk has found."""
        self.nodes = 0
        self.highest = np.empty(0)
        self.begin()

    def begin(self) -> None:
        """Forget the walk before, but not its bound."""
        self.floor = self.bound()
        self.highest = np.empty(0)
        self.places: list[Ints] = []
        self.scores: list[Floats] = []
        self.cut = -np.inf
        """The best node that was cut off."""

    def bound(self) -> float:
        """Answers below it are of no interest."""
        if not self.is_number:
            return np.inf
        if self.plan.keep_scores:
            return -np.inf
        best = self.highest[0] if len(self.highest) == self.plan.depth else -np.inf
        best = max(best, self.floor)
        return float(best if self.plan.width is not None else min(best, self.gold_score))

    def is_proven(self) -> bool:
        return self.cut == -np.inf or self.cut < self.bound() - SLACK

    def meet(self, nodes: Ints, totals: Floats) -> None:
        """Note the answers that end at *nodes*."""
        right = nodes == self.answers.terminal[self.gold]
        if right.any():
            self._compare(float(totals[right][0]))
            totals = np.where(right, self.gold_score, totals)  # one leaf, one score
        index, places = self.answers.places(nodes)
        scores = totals[index]
        near = scores >= self.bound() - SLACK
        places, scores = places[near], scores[near]
        self.places.append(places)
        self.scores.append(scores)
        rivals = scores[~np.isin(places, self.not_rivals)]
        self.highest = np.sort(np.append(self.highest, rivals))[-self.plan.depth :]

    def _compare(self, walked: float) -> None:
        if not abs(walked - self.gold_score) <= DISAGREEMENT:
            raise RunFailed(
                f"two ways of scoring the same name disagree ({walked:.4f} step by step, {self.gold_score:.4f} at "
                "once): this encoder-decoder does not keep its cache as T5 and BART do, and cannot be searched"
            )

    def found(self) -> Found:
        if not self.is_number:
            return Found(None, [self.gold_score], [], [], unscored=NOT_A_NUMBER)
        places = np.concatenate([*self.places, np.empty(0, dtype=np.int64)])
        scores = np.concatenate([*self.scores, np.empty(0)])
        order = np.lexsort((places, -scores))[: self.plan.top]
        found = Found(
            None, [self.gold_score], [], list(zip(places[order].tolist(), scores[order].tolist(), strict=True))
        )
        rivals = scores[~np.isin(places, self.not_rivals)]
        above, level = int((rivals > self.gold_score).sum()), int((rivals == self.gold_score).sum())
        if self.plan.width is not None and above >= self.plan.depth:
            found.above = self.plan.depth
        else:
            others = scores[places != self.gold]
            found.ranks = Ranks(above + 1, above + 1 + level)
            better, same = int((others > self.gold_score).sum()), int((others == self.gold_score).sum())
            found.gold_ranks = [better + 1 + same / 2]
        if self.plan.keep_scores:
            found.scores = np.full(len(self.answers), np.nan, dtype=np.float32)
            found.scores[places] = scores
        return found


@dataclass(frozen=True)
class _Open:
    """Nodes still to be run, all of one depth; sorted by question.

    :param question, node, total: each of shape (n,); *total* is log p of the beginning, the node's token included.
    :param past: keys and values of their parents. :param parent: the row in *past* of each, shape (n,).
    """

    question: Ints
    node: Ints
    total: Floats
    past: Layers
    parent: Ints

    def take(self, which: NDArray[Any]) -> _Open:
        return _Open(self.question[which], self.node[which], self.total[which], self.past, self.parent[which])

    def __len__(self) -> int:
        return len(self.node)


class _Walk:
    """One walk of some questions together."""

    def __init__(
        self, decoder: Decoder, encoded: Encoded, answers: Answers, states: Sequence[_State], width: int | None
    ) -> None:
        self.decoder, self.encoded, self.answers, self.states, self.width = decoder, encoded, answers, states, width
        self.stack: list[_Open] = []

    def run(self) -> None:
        count, roots = len(self.states), self.answers.roots
        parent = np.repeat(np.arange(count), len(roots))
        children = np.tile(roots, count)
        totals = self._log_probs(self.encoded.logits, parent, self.answers.trie.tokens[children])
        self._arrive(_Open(parent, children, totals, self.encoded.past, parent))
        while self.stack:
            level = self.stack.pop()
            level = level.take(self._is_open(level))
            if not len(level):
                continue
            size = self._portion(level)
            if size < len(level):
                self.stack.append(level.take(np.arange(size, len(level))))
            self._step(level.take(np.arange(size)))

    def _portion(self, level: _Open) -> int:
        """How many of the first nodes to run in one pass: those of one question, where it has many, or of several."""
        crowded = np.bincount(level.question)[level.question] >= ALONE
        if crowded[0]:
            size = int((level.question == level.question[0]).sum())
        else:
            size = int(crowded.argmax()) if crowded.any() else len(level)
        return size if self.width is not None else min(size, self.decoder.rows)

    def _step(self, level: _Open) -> None:
        question = self._tensor(level.question)
        tokens = self._tensor(self.answers.trie.tokens[level.node])
        logits, past = self.decoder.step(self.encoded, question, tokens, _rows(level.past, self._tensor(level.parent)))
        parent, node = self.answers.children.of(level.node)
        totals = level.total[parent] + self._log_probs(logits, parent, self.answers.trie.tokens[node])
        for number, run in zip(*np.unique(level.question, return_counts=True), strict=True):
            self.states[number].nodes += int(run)
        self._arrive(_Open(level.question[parent], node, totals, past, parent))

    def _arrive(self, reached: _Open) -> None:
        """Note the answers that end here; queue what goes on and may still hold a better one."""
        onward = []
        starts = np.searchsorted(reached.question, np.arange(len(self.states) + 1))
        for number in np.unique(reached.question).tolist():
            state, mine = self.states[number], np.arange(starts[number], starts[number + 1])
            state.is_number &= not np.isnan(reached.total[mine]).any()
            near = mine[reached.total[mine] >= state.bound() - SLACK]
            state.meet(reached.node[near], reached.total[near])
            onward.append(self._widest(state, reached, near[self.answers.is_inner[reached.node[near]]]))
        going = np.concatenate(onward)
        if len(going):
            self.stack.append(reached.take(going))

    def _widest(self, state: _State, reached: _Open, rows: Ints) -> Ints:
        """Those of one question's *rows* that go on."""
        totals = reached.total[rows]
        rows, totals = rows[totals >= state.bound() - SLACK], totals[totals >= state.bound() - SLACK]
        rows = rows[np.argsort(-totals, kind="stable")]
        if self.width is not None and len(rows) > self.width:
            state.cut = max(state.cut, float(reached.total[rows[self.width]]))
            rows = rows[: self.width]
        return rows

    def _is_open(self, level: _Open) -> NDArray[np.bool_]:
        bounds = np.array([state.bound() for state in self.states])
        return np.asarray(level.total >= bounds[level.question] - SLACK)

    def _log_probs(self, logits: Tensor, rows: Ints, tokens: Ints) -> Floats:
        """In nats. :param rows: of *logits*, one for each token."""
        at = self._tensor(rows)
        found = logits[at, self._tensor(tokens)] - torch.logsumexp(logits, dim=1)[at]
        return found.cpu().numpy().astype(np.float64)

    def _tensor(self, array: Ints) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.decoder.device)
