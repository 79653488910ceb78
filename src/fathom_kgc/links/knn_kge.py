"""kNN-KGE (Zhang et al. 2022): a masked language model whose vocabulary is the entities.

First the entities' rows alone are learnt, from "the description of [MASK] is d"; then the whole model, from triples
with one end masked. Predictions at [MASK] are mixed with the answers of the nearest training queries, and optionally
of the nearest descriptions. See docs/methods/link-prediction.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import AutoModelForMaskedLM, PreTrainedModel, PreTrainedTokenizerBase

from fathom.base.errors import BadInput
from fathom.base.progress import Progress, unseen
from fathom.data.graph.links import Links, training_links
from fathom.data.knowledge import KnowledgeGraph, Places
from fathom.engine.models.weights import linear, use_fast_kernels
from fathom.engine.scoring.rows import RankResult
from fathom.probes.base import Facts
from fathom.store.predictions import Scoring
from fathom.training.loop import Stage
from fathom_kgc.links.base import blocks, rank_links, shuffled
from fathom_kgc.links.options import KnnKge
from fathom_kgc.links.texts import TextPredictor, distinct, length_groups, with_mask

CELLS = 16 * 1024 * 1024
"""Scores, or distances, held at a time: 64 MiB of float32."""
AT_ONCE = 8192
"""Questions whose prompts are held at a time."""
NO_TOKEN = -1
"""Place of the known entity's token in a prompt without one."""

Ids = NDArray[np.int64]


class Predictor(TextPredictor):
    """See :class:`fathom_kgc.links.base.Predictor`. Scores are log-probabilities of a mixture, see :meth:`mixture`."""

    AUTO = AutoModelForMaskedLM
    scoring = Scoring("log-probability", "nats")
    options: KnnKge
    network: EntityModel

    def __init__(self, graph: KnowledgeGraph, options: KnnKge, source: Path | None, device: torch.device) -> None:
        super().__init__(graph, options, source, device)
        # Tokens that its position embeddings surely hold; RoBERTa's begin two later.
        longest = int(getattr(self.language.config, "max_position_embeddings", None) or 512) - 2
        self.prompts = MaskedPrompts(self.tokenizer, min(options.max_tokens, longest))
        self.relation_ids, self._entity_ids = map(self.prompts.ids, (self.texts.relations, self.texts.described))
        self.network = EntityModel(self.language, len(graph.entities), options.seed)
        self.store: Store | None = None
        self.stored: dict[str, int] = {}
        """Keys of the store, by what they come from."""

    def circumstances(self) -> Facts:
        return {} if self.store is None else dict(self.stored)

    def stages(self) -> Sequence[Stage]:
        """Return two stages: the rows of the entities, from descriptions; then all weights, from triples."""
        options = self.options
        steps = math.ceil(len(self.graph.entities) * (1 + options.entity_parts) / options.batch_size)
        rows, first = [self.network.entities], (options.entity_epochs, options.entity_learning_rate)
        return [
            Stage("entities", self._descriptions, steps, self._loss, rows, *first, watched=False),
            self.stage("triples", self._triples, 2 * len(self.graph.training), self._loss),
        ]

    def _descriptions(self, epoch: int) -> Iterator[PromptBatch]:
        """Yield each entity with its whole text, and with random parts of it (equation 5)."""
        times = 1 + self.options.entity_parts
        count, seed = len(self.graph.entities) * times, self.options.seed
        begins = np.random.default_rng((seed, 0, epoch, 1)).random(count)
        begins[::times] = 0
        for some in shuffled(count, self.options.batch_size, seed, 0, epoch):
            texts = [self._entity_ids[place] for place in some // times]
            parts = [ids[int(begin * len(ids)) :] for ids, begin in zip(texts, begins[some], strict=True)]
            yield PromptBatch([self.prompts.description(part) for part in parts], some // times, some // times)

    def _triples(self, epoch: int) -> Iterator[PromptBatch]:
        """Yield both queries of each training triple (equations 4 and 6)."""
        queries = 2 * len(self.graph.training)
        for some in shuffled(queries, self.options.batch_size, self.options.seed, 1, epoch):
            links = training_links(self.graph, some)
            yield PromptBatch(self._questions(links), links.given, links.gold)

    def _loss(self, batch: PromptBatch) -> Tensor:
        _, vectors = self._read(batch.prompts, batch.subject)
        gold = torch.from_numpy(batch.gold).to(self.device)
        return smoothed_cross_entropy(
            vectors, self.network.entities, self.network.bias, gold, self.options.label_smoothing
        )

    def _questions(self, links: Links) -> list[MaskedPrompt]:
        queries = zip(links.given.tolist(), links.relation.tolist(), links.inverse.tolist(), strict=True)
        entities, relations, with_token = self._entity_ids, self.relation_ids, self.options.entity_token
        return [self.prompts.question(entities[e], relations[r], ask_head, with_token) for e, r, ask_head in queries]

    def _read(self, prompts: Sequence[MaskedPrompt], subject: Places) -> tuple[Tensor, Tensor]:
        """Return state and vector at [MASK] of each prompt, shape (n, d) and (n, width)."""
        parts, back = length_groups([len(prompt.ids) for prompt in prompts], self.device)
        read = [self.network(*self._padded([prompts[place] for place in some], subject[some])) for some in parts]
        states, vectors = (torch.cat(column)[back] for column in zip(*read, strict=True))
        return states, vectors

    def _padded(self, prompts: Sequence[MaskedPrompt], subject: Places) -> list[Tensor]:
        tokens, masked, slots = zip(*prompts, strict=True)
        places = (torch.from_numpy(np.array(column)).to(self.device) for column in (masked, slots, subject))
        return [*with_mask(tokens, self.tokenizer.pad_token_id or 0, self.device), *places]

    def as_read(self, links: Links) -> list[str]:
        """Return the prompts; a first mask is in the place of the entity's own token."""
        return list(self.tokenizer.batch_decode([prompt.ids for prompt in self._questions(links)]))

    @property
    def weight(self) -> float:
        """Weight of the neighbours; 0 in validation as in the authors' code, which saves storing them in each epoch."""
        return 0.0 if self.validating else self.options.knn_weight

    def prepare(self, progress: Progress) -> None:
        self.store, self.stored = None, {}
        if not self.weight or not len(self.graph.training):
            return
        states, key, entity = self._stored_questions(progress)
        self.stored["stored_questions"] = len(states)
        if self.options.knn_descriptions:
            described, of_described = self._stored_descriptions(progress)
            self.stored["stored_descriptions"] = len(described)
            key = np.concatenate([key, len(states) + of_described])
            entity = np.concatenate([entity, np.arange(len(of_described))])
            states = torch.cat([states, described])
        self.store = Store(states, key, entity)

    def _stored_questions(self, progress: Progress) -> tuple[Tensor, Places, Places]:
        """Return the state of each distinct training query; and query and answer of each, see :class:`Store`."""
        count = 2 * len(self.graph.training)
        links = training_links(self.graph, np.concatenate([np.arange(0, count, 2), np.arange(1, count, 2)]))
        packed = (links.given * len(self.graph.relations) + links.relation) * 2 + links.inverse
        _, first, key = np.unique(packed, return_index=True, return_inverse=True)
        states, _ = self._ask(links.take(first), progress)
        return states.cpu(), key.reshape(-1), links.gold

    def _stored_descriptions(self, progress: Progress) -> tuple[Tensor, Places]:
        """Return the state at [MASK] of each distinct description (equation 5), and that of each entity."""
        prompts = [self.prompts.description(ids) for ids in self._entity_ids]
        key, first = distinct(prompt.ids.tobytes() for prompt in prompts)
        states = []
        for start in range(0, len(first), AT_ONCE):
            some = first[start : start + AT_ONCE]
            states.append(self._read([prompts[place] for place in some.tolist()], some)[0].float().cpu())
            progress(start + len(some), len(first))
        return torch.cat(states), key

    def rank(self, links: Links, top: int, keep_scores: bool = False) -> list[RankResult]:
        states, vectors = self._ask(links)
        step = max(1, CELLS // len(self.graph.entities))
        parts = zip(blocks(links, step), torch.split(states, step), torch.split(vectors, step), strict=True)
        return [
            result
            for some, state, vector in parts
            for result in rank_links(self.mixture(state, vector, some.known), some, top, keep_scores)
        ]

    def mixture(self, states: Tensor, vectors: Tensor, filtered: Sequence[Places]) -> Tensor:
        """Compute log((1 − λ) p(entity at [MASK]) + λ p(entity | nearest training queries)).

        Both distributions are normalised over the answers that are not known yet, as in the authors' code. A known
        answer's score is on the same scale, but may exceed 0.

        :param states, vectors: of the queries, shape (n, d) and (n, width). :returns: shape (n, entities).
        """
        logits = linear(vectors, self.network.entities, self.network.bias)
        row, column = _pairs(filtered, self.device)
        predicted = logits - _log_sum_without(logits, row, column)
        if self.store is None:
            return predicted
        options = self.options
        near = self.store.closeness(states, logits.shape[1], options.knn_neighbours, options.knn_temperature)
        near -= _log_sum_without(near, row, column)
        near.nan_to_num_(nan=-torch.inf, posinf=-torch.inf)  # all neighbours are known: there is nothing to add
        return torch.logaddexp(predicted + math.log1p(-self.weight), near + math.log(self.weight))

    def _ask(self, links: Links, progress: Progress = unseen) -> tuple[Tensor, Tensor]:
        """Return state and vector at [MASK] of each query, float32, shape (n, d) and (n, width)."""
        read = []
        for number, some in enumerate(blocks(links, AT_ONCE)):
            read.append(self._read(self._questions(some), some.given))
            progress(number * AT_ONCE + len(some), len(links))
        states, vectors = (torch.cat(column).float() for column in zip(*read, strict=True))
        return states, vectors


class MaskedPrompt(NamedTuple):
    """:param masked: place of [MASK]. :param slot: place of the known entity's token, or :data:`NO_TOKEN`."""

    ids: Ids
    masked: int
    slot: int


class PromptBatch(NamedTuple):
    """:param subject: the known entity of each prompt. :param gold: the gold answer of each."""

    prompts: list[MaskedPrompt]
    subject: Places
    gold: Places


class MaskedPrompts:
    """:param longest: tokens of a prompt; an entity's text is cut at its end to fit.

    :raises BadInput: a tokenizer without mask token, or with neither separator nor end.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, longest: int) -> None:
        self.tokenizer, self.longest = tokenizer, longest
        first = tokenizer.cls_token_id if tokenizer.cls_token_id is not None else tokenizer.bos_token_id
        last = tokenizer.sep_token_id if tokenizer.sep_token_id is not None else tokenizer.eos_token_id
        if tokenizer.mask_token_id is None or last is None:
            raise BadInput("knn-kge needs a masked model whose tokenizer has a mask token and a separator, like BERT's")
        self.start = [] if first is None else [first]
        self.mask, self.sep = [tokenizer.mask_token_id], [last]
        self.before, self.after = (ids.tolist() for ids in self.ids(["The description of", " is"]))

    def ids(self, texts: Sequence[str]) -> list[Ids]:
        rows = self.tokenizer(list(texts), add_special_tokens=False, truncation=True, max_length=512)["input_ids"]
        return [np.array(ids, dtype=np.int64) for ids in rows]

    def description(self, text: Ids) -> MaskedPrompt:
        """Return [CLS] The description of [MASK] is … [SEP]."""
        before = [*self.start, *self.before]
        return self._put([*before, *self.mask, *self.after], text, self.sep, masked=len(before))

    def question(self, text: Ids, relation: Ids, ask_head: bool, with_token: bool) -> MaskedPrompt:
        """Return [CLS] text [SEP] relation [SEP] [MASK] [SEP], or for a head the reverse order.

        :param with_token: reserve a place before the text for the known entity's own token.
        """
        link = relation[: self.longest // 3].tolist()
        if ask_head:
            before = [*self.start, *self.mask, *self.sep, *link, *self.sep]
            return self._put(before, text, self.sep, len(self.start), with_token)
        after = [*self.sep, *link, *self.sep, *self.mask, *self.sep]
        return self._put(self.start, text, after, masked=-2, with_token=with_token)

    def _put(
        self, before: list[int], text: Ids, after: list[int], masked: int, with_token: bool = False
    ) -> MaskedPrompt:
        place = self.mask if with_token else []
        room = max(0, self.longest - len(before) - len(place) - len(after))
        ids = np.array([*before, *place, *text[:room].tolist(), *after], dtype=np.int64)
        return MaskedPrompt(ids, masked % len(ids), len(before) if with_token else NO_TOKEN)


class EntityModel(nn.Module):
    """A masked language model that predicts entities instead of words.

    :param language: with its head, whose product with the vocabulary is removed.
    :param count: of entities. Their rows start random, their biases at zero.
    :raises BadInput: a model without such a head.
    """

    def __init__(self, language: PreTrainedModel, count: int, seed: int) -> None:
        super().__init__()
        last = language.get_output_embeddings()
        if not isinstance(last, nn.Linear):
            raise BadInput(f"knn-kge needs a masked model with a vocabulary; a {type(language).__name__} has none")
        language.set_output_embeddings(_NoVocabulary())
        use_fast_kernels(language)
        self.language = language
        torch.manual_seed(seed)
        rows = torch.randn(count, last.in_features) * getattr(language.config, "initializer_range", 0.02)
        self.entities = nn.Parameter(rows.to(language.device))
        self.bias = nn.Parameter(torch.zeros(count, device=language.device))

    def forward(
        self, ids: Tensor, real: Tensor, masked: Tensor, slot: Tensor, subject: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the state of the body at [MASK], shape (n, d), and the output of the head for it.

        :param ids, real: tokens of n prompts, and 1 where not padded, shape (n, length).
        :param masked, slot: see :class:`MaskedPrompt`, shape (n,). :param subject: the known entity, shape (n,).
        """
        vectors = self.language.get_input_embeddings()(ids)
        shown = torch.nonzero(slot != NO_TOKEN)[:, 0]
        if len(shown):
            vectors = vectors.index_put((shown, slot[shown]), self.entities[subject[shown]])
        rows = torch.arange(len(ids), device=ids.device)
        with _watching(self.language.base_model) as seen:
            outputs = self.language(inputs_embeds=vectors, attention_mask=real).logits
        return seen[0][rows, masked], outputs[rows, masked]


class _NoVocabulary(nn.Identity):
    bias = None
    """BERT asks for it."""


@contextmanager
def _watching(module: nn.Module) -> Iterator[list[Tensor]]:
    """Collect the first output of each call of *module* while inside."""
    seen: list[Tensor] = []
    hook = module.register_forward_hook(lambda _, __, output: seen.append(output[0]))
    try:
        yield seen
    finally:
        hook.remove()


class Store:
    """States at [MASK] of training queries or descriptions. Equal texts share a key with several answers.

    :param keys: state of each distinct text, float32, shape (keys, d).
    :param key: the key of each answer, shape (answers,). :param entity: the answer, shape (answers,).
    """

    def __init__(self, keys: Tensor, key: Places, entity: Places) -> None:
        self.keys = keys
        self.lengths = (keys * keys).sum(dim=1)
        self.count = torch.from_numpy(np.bincount(key, minlength=len(keys)))
        self.end = self.count.cumsum(0)
        self.entity = torch.from_numpy(entity[np.argsort(key, kind="stable")].astype(np.int64))

    def closeness(self, states: Tensor, entities: int, neighbours: int, temperature: float) -> Tensor:
        """Return −d²/T of each entity's nearest occurrence in the *neighbours* nearest answers; −inf for others.

        d is the Euclidean distance. Answers as near as the last neighbour are included, so no order decides.

        :param states: of the queries, shape (n, d). :returns: shape (n, entities).
        """
        distance, nearest = self.nearest(states, neighbours)
        nearest = nearest.cpu()
        counts = self.count[nearest]
        taken = counts.cumsum(dim=1) - counts < neighbours  # there was room left when its turn came
        row, rank = torch.nonzero(taken, as_tuple=True)
        key = nearest[row, rank]
        times = self.count[key]
        within = torch.arange(int(times.sum())) - (times.cumsum(0) - times).repeat_interleave(times)
        entity = self.entity[(self.end[key] - times).repeat_interleave(times) + within]
        cell = (row * entities).repeat_interleave(times) + entity
        value = (-distance[taken.to(distance.device)] / temperature).repeat_interleave(times.to(distance.device))
        closeness = torch.full((len(states) * entities,), -torch.inf, device=states.device)
        return closeness.scatter_reduce_(0, cell.to(states.device), value, "amax").view(len(states), entities)

    def nearest(self, states: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Return squared distance and place of the nearest keys, nearest first; exact, computed in blocks.

        :returns: shape (n, count), narrower if there are fewer keys.
        """
        squares = (states * states).sum(dim=1, keepdim=True)
        best = torch.empty((len(states), 0), device=states.device)
        places = torch.empty((len(states), 0), dtype=torch.long, device=states.device)
        step = max(count, CELLS // len(states))
        for start in range(0, len(self.keys), step):
            keys, lengths = (part[start : start + step].to(states.device) for part in (self.keys, self.lengths))
            block = linear(-2 * states, keys, lengths).add_(squares).clamp_(min=0)  # |a|² + |b|² − 2ab
            some, at = torch.topk(block, min(count, len(keys)), dim=1, largest=False)
            best, places = torch.cat([best, some], dim=1), torch.cat([places, at + start], dim=1)
            best, order = torch.topk(best, min(count, best.shape[1]), dim=1, largest=False)
            places = places.gather(1, order)
        return best, places


def smoothed_cross_entropy(vectors: Tensor, rows: Tensor, bias: Tensor, gold: Tensor, smoothing: float) -> Tensor:
    """Compute the mean cross-entropy of logits = vectors @ rows.T + bias, with label smoothing over all entities.

    Computed in blocks of entities; the blocks' logits are recomputed for the gradient instead of kept.

    :param vectors: shape (n, width). :param rows: shape (entities, width). :param gold: shape (n,).
    """
    step = max(1, CELLS // len(vectors))
    starts = range(0, len(rows), step)
    again: Callable[..., Any] = _log_sum if len(starts) == 1 else partial(checkpoint, _log_sum, use_reentrant=False)
    sums = [again(vectors, rows[start : start + step], bias[start : start + step]) for start in starts]
    vectors = vectors.float()
    right = (vectors * rows[gold]).sum(dim=1) + bias[gold]
    even = vectors @ rows.mean(dim=0) + bias.mean()
    return (torch.stack(sums).logsumexp(dim=0) - (1 - smoothing) * right - smoothing * even).mean()


def _log_sum(vectors: Tensor, rows: Tensor, bias: Tensor) -> Tensor:
    return (vectors @ rows.T + bias).float().logsumexp(dim=1)


def _log_sum_without(scores: Tensor, row: Tensor, column: Tensor) -> Tensor:
    """Return log Σ exp of each row without some of its cells, shape (n, 1)."""
    rest = scores.clone()
    rest[row, column] = -torch.inf
    return rest.logsumexp(dim=1, keepdim=True)


def _pairs(places: Sequence[Places], device: torch.device) -> tuple[Tensor, Tensor]:
    row = np.repeat(np.arange(len(places)), [len(some) for some in places])
    column = np.concatenate([np.empty(0, dtype=np.int64), *places])
    return torch.from_numpy(row).to(device), torch.from_numpy(column.astype(np.int64)).to(device)
