"""KGT5 and GenKGC: a query goes in as text, the name of the answer comes out token by token.

Training is cross-entropy of the gold name after the query, in both directions of each training triple. Evaluation
scores the names of all entities, exactly, by their log-likelihood (:mod:`fathom.engine.scoring.walk`). A narrow walk
keeps only the best *width* nodes of each query; if it cut off a node above the final bound, it is repeated four times
as wide, starting from the bound it has found.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import AutoModelForSeq2SeqLM, DynamicCache, EncoderDecoderCache, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from fathom.base.errors import BadInput, RunFailed
from fathom.data.graph.links import Links, training_links
from fathom.data.knowledge import KnowledgeGraph, Places
from fathom.engine.scoring.rows import RankResult
from fathom.engine.scoring.trie import AnswerTrie, Ints, padded
from fathom.engine.scoring.walk import Branches, Floats, SearchGoal, SearchResult, SearchState, Walk
from fathom.probes.base import Facts
from fathom.store.predictions import Scoring
from fathom.training.loop import ADAMW, Optimizer, Stage, adafactor
from fathom.training.small import NO_TARGET
from fathom_kgc.links.base import NOT_A_NUMBER, shuffled
from fathom_kgc.links.options import Generative, GenKgc, Kgt5
from fathom_kgc.links.texts import TextPredictor, examples_of_relations, with_mask

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

    def __init__(self, answers: AnswerTrie, gold: int, filtered: Ints, gold_score: float, reach: Reach) -> None:
        max_rank = None if reach.width is None else reach.depth
        super().__init__(answers, [gold], filtered, SearchGoal(reach.depth, max_rank, not reach.keep_scores))
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
        return (logits[at, self._tensor(tokens)] - torch.logsumexp(logits, dim=1)[at]).cpu().numpy().astype(np.float64)

    def _tensor(self, array: Ints) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.decoder.device)


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
    """See :class:`fathom_kgc.links.base.Predictor`. A kind defines the text of a query.

    :raises BadInput: a tokenizer that does not fit the network.
    """

    AUTO = AutoModelForSeq2SeqLM
    scoring = Scoring("log-likelihood", "nats")
    options: Generative
    network: Any

    def __init__(self, graph: KnowledgeGraph, options: Generative, source: Path | None, device: torch.device) -> None:
        super().__init__(graph, options, source, device)
        self.network = self.language
        name = f"the tokenizer of '{options.weights}'"
        if self._end is None:
            raise BadInput(f"{name} has no end token: set eos_token in its config")
        size, vocabulary = len(self.tokenizer), self.network.get_input_embeddings().num_embeddings
        if size > vocabulary:
            raise BadInput(f"{name} has {size:,} tokens, its network {vocabulary:,}: they do not belong together")
        self._proven = self._searched = self._nodes = 0

    @abstractmethod
    def questions(self, subject: Places, relation: Places, inverse: Sequence[bool]) -> list[str]:
        """Return texts of the queries (subject, relation, ?), or (?, relation, subject) if *inverse*."""

    @property
    def answers(self) -> Sequence[str]:
        """Texts that the decoder writes, by place: the names of entities."""
        return self.texts.names

    def optimizer(self) -> Optimizer:
        return ADAMW

    def stages(self) -> Sequence[Stage]:
        count = 2 * len(self.graph.training)
        return [self.stage("names", partial(self._batches, count), count, self._loss, self.optimizer())]

    def _batches(self, count: int, epoch: int) -> Iterator[NameBatch]:
        size, seed = self.options.batch_size, self.options.seed
        for number, window in enumerate(shuffled(count, WINDOW * size, seed, epoch), start=1):
            read = self._read(training_links(self.graph, window))
            order = np.argsort([len(ids) for ids in read], kind="stable")
            # So that an epoch does not go from short to long again and again.
            for start in np.random.default_rng((seed, epoch, number)).permutation(range(0, len(window), size)):
                some = order[start : start + size]
                yield self._batch(window[some], [read[place] for place in some.tolist()])

    def _batch(self, queries: Places, read: Sequence[Sequence[int]]) -> NameBatch:
        """:param queries: numbers of training queries. :param read: their tokens."""
        names = [self._names[place] for place in training_links(self.graph, queries).gold.tolist()]
        labels = torch.from_numpy(padded(names, NO_TARGET)).to(self.device)
        before = torch.cat([torch.full_like(labels[:, :1], self._start), labels[:, :-1]], dim=1)
        return NameBatch(*with_mask(read, 0, self.device), before.clamp(min=0), labels)

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
            questions = decoder.encode(*with_mask([encoded[number] for number in some.tolist()], 0, self.device))
            searched += search(decoder, questions, self._answers, links.take(some), reach)
        self._searched += len(searched)
        self._proven += sum(found.proven for found in searched)
        self._nodes += sum(found.tokens_run for found in searched)
        return [searched[place].result for place in np.argsort(order).tolist()]

    def _reach(self, top: int, keep_scores: bool) -> Reach:
        """Return the extent of a search."""
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
        longest, end = self._longest, self._end
        rows = self.tokenizer(list(self.answers), verbose=False)["input_ids"]
        bare = [ids[:-1] if ids and ids[-1] == end else ids for ids in rows]
        return [[*ids[: longest - 1], end] for ids in bare]

    def notes(self) -> list[str]:
        shared = sum(count for count in Counter(map(tuple, self._names)).values() if count > 1)
        notes = [f"{shared:,} of {len(self._names):,} entities share their name with another and tie with it"]
        return super().notes() + (notes if shared else [])

    def circumstances(self) -> Facts:
        return {"proven": f"{self._proven:,} of {self._searched:,} answers proven exact", "nodes_run": self._nodes}

    @property
    def _end(self) -> Any:
        tokenizer = self.tokenizer
        return tokenizer.eos_token_id if tokenizer.eos_token_id is not None else tokenizer.sep_token_id

    @property
    def _start(self) -> int:
        """First token of the decoder: of the network's configuration, else padding (T5) or the end token (BART)."""
        configured = getattr(self.network.config, "decoder_start_token_id", None)
        return next(int(id_) for id_ in (configured, self.tokenizer.pad_token_id, self._end) if id_ is not None)

    @property
    def _longest(self) -> int:
        window = getattr(self.network.config, "max_position_embeddings", None)
        return min(self.options.max_tokens, window or self.options.max_tokens)

    def _read(self, links: Links) -> list[list[int]]:
        texts = self.questions(links.given, links.relation, links.inverse.tolist())
        rows = self.tokenizer(texts, truncation=True, max_length=self._longest, verbose=False)["input_ids"]
        return [ids or [self._end] for ids in rows]  # some text must stand there to be attended to

    def as_read(self, links: Links) -> list[str]:
        return list(self.tokenizer.batch_decode(self._read(links)))


class Kgt5Predictor(GenerativePredictor):
    """KGT5 (Saxena et al. 2022): "predict tail: head | relation |", and the tail's name comes out.

    As in the paper, one T5 serves both directions. As in KGT5-context (Kochsiek et al. 2023) and in LambdaKG, the given
    entity's description may be read; it comes last, so that a long query loses its end. The paper samples 500 names and
    ranks those that are entities; here decoding is restricted to entities and searched exactly.
    """

    options: Kgt5

    def optimizer(self) -> Optimizer:
        return adafactor if self.options.optimizer == "adafactor" else ADAMW

    def questions(self, subject: Places, relation: Places, inverse: Sequence[bool]) -> list[str]:
        """Return "predict tail: head | relation | description of the head", and likewise for heads."""
        texts = self.texts
        return [
            f"predict {'head' if asks_head else 'tail'}: {texts.names[entity]} | {texts.relations[link]} | "
            f"{texts.descriptions[entity]}".rstrip()
            for entity, link, asks_head in zip(subject.tolist(), relation.tolist(), inverse, strict=True)
        ]


class GenKgcPredictor(GenerativePredictor):
    """GenKGC (Xie et al. 2022): BART reads demonstrations and the query, and writes the answer.

    *Relation-guided demonstration*: a query follows a few training triples of its relation, each in both directions.
    They never mention the entity of the query, so no query shows its own answer; the authors' code draws them once per
    relation, without this check. *Entity-aware hierarchical decoding*: with ``--types`` the answer's type is written
    before its name. Without types, and in the authors' scripts (``--use_label_type 0``), the hierarchy is the prefix
    tree of all names.
    """

    options: GenKgc

    def __init__(self, graph: KnowledgeGraph, options: GenKgc, source: Path | None, device: torch.device) -> None:
        super().__init__(graph, options, source, device)
        self.types = _types(graph) if options.types else None
        self._demonstrations = examples_of_relations(graph, options.demonstrations, options.seed)
        self.tokenizer.truncation_side = "left"  # the question stands last and must stay

    def questions(self, subject: Places, relation: Places, inverse: Sequence[bool]) -> list[str]:
        """Return demonstrations, then the subject with its description, and the relation."""
        triples = zip(subject.tolist(), relation.tolist(), inverse, strict=True)
        separator = self.tokenizer.sep_token or self.tokenizer.eos_token
        return [
            "".join(f"{shown} {separator} " for shown in self._shown(entity, link))
            + self._statement(f"{self.texts.names[entity]}{self._descriptions[entity]}", link, asks_head)
            for entity, link, asks_head in triples
        ]

    def notes(self) -> list[str]:
        alone = sum(not pool for pool in self._demonstrations) if self.options.demonstrations else 0
        counts = {"relations have no training triple to be shown": alone}
        if self.types is not None:
            counts["entities have no type: their names alone are written"] = self.types.count("")
        return super().notes() + [f"{count:,} {what}" for what, count in counts.items() if count]

    @cached_property
    def answers(self) -> Sequence[str]:
        """ "TYPE: NAME" with ``--types`` for entities that have one; else the name."""
        if self.types is None:
            return self.texts.names
        return [f"{type_}: {name}" if type_ else name for type_, name in zip(self.types, self.texts.names, strict=True)]

    def _statement(self, name: str, relation: int, inverse: bool) -> str:
        return f"{name} {self.texts.relations[relation]}{' (reverse)' if inverse else ''}"

    def _shown(self, entity: int, relation: int) -> list[str]:
        triples = [ends for ends in self._demonstrations[relation] if entity not in ends]
        return [
            f"{self._statement(self.texts.names[subject], relation, inverse)} {self.answers[answer]}"
            for head, tail in triples[: self.options.demonstrations]
            for subject, answer, inverse in ((head, tail, False), (tail, head, True))
        ]

    @cached_property
    def _descriptions(self) -> list[str]:
        """Descriptions with a comma before, cut to at most half of a query."""
        texts, most = list(self.texts.descriptions), self._longest // 2
        side, self.tokenizer.truncation_side = self.tokenizer.truncation_side, "right"
        offset_mapping = self.tokenizer(
            texts, add_special_tokens=False, truncation=True, max_length=most, return_offsets_mapping=True
        )["offset_mapping"]
        self.tokenizer.truncation_side = side
        return [
            f", {text[: offsets[-1][1]]}" if offsets else ""
            for text, offsets in zip(texts, offset_mapping, strict=True)
        ]


def _types(graph: KnowledgeGraph) -> list[str]:
    types = graph.entities.column("type").to_pylist() if "type" in graph.entities.column_names else []
    if not any(types):
        raise BadInput(
            "--types: the graph's entities have none: put an entity2type.txt (id<TAB>type a line) or CoDEx's "
            "entity2types.json into its folder"
        )
    return types
