"""SimKGC (Wang et al. 2022): two language models encode a query and its answer; the score is the cosine between them.

Sakai et al. 2024, equations 7 to 9; the loss, the negatives and the defaults are those of Wang et al. and of their code
(github.com/intfloat/SimKGC). See docs/notes/link-prediction.md for the differences.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from functools import cache, cached_property, partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize
from transformers import AutoModel, PreTrainedModel

from fathom.base.progress import Progress
from fathom.data.graph.links import Links
from fathom.data.knowledge import KnowledgeGraph, Places
from fathom.data.prompts.wording import inverse
from fathom.engine.scoring.rows import RankResult
from fathom.engine.scoring.trie import Lookup
from fathom.engine.scoring.vectors import CELLS, VectorSpace, rank_by_cosine, unit
from fathom.store.predictions import Scoring
from fathom.store.vectors import PIECE, VectorStore
from fathom.training.loop import Stage
from fathom.training.saving import State
from fathom_kgc.links.base import NOT_A_NUMBER, blocks, rank_links, shuffled
from fathom_kgc.links.options import SimKgc
from fathom_kgc.links.texts import FramedText, Framing, GraphTexts, Ids, TextPredictor, distinct, encode

SHORT = 20
"""Descriptions of fewer words are followed by the names of neighbours (the authors' code, ``doc.py``)."""
NO_ENTITY = -1
REACHED = 100_000
"""More entities than this are no neighbourhood (as in the code of Wang et al. 2022)."""


class Encoders(nn.Module):
    """All learnt weights: an encoder of queries, one of answers, and the temperature."""

    def __init__(self, question: PreTrainedModel, temperature: float) -> None:
        super().__init__()
        self.question = question
        self.answer = deepcopy(question)
        self.log_scale = nn.Parameter(torch.tensor(-math.log(temperature)))
        """Logarithm of the inverse temperature."""


def info_nce(cosines: Tensor, is_right: Tensor, scale: Tensor, margin: float, further: Sequence[Tensor] = ()) -> Tensor:
    """Compute InfoNCE with an additive margin, from queries to answers and from answers to queries.

    −log exp((c_ii − γ)/τ) / (exp((c_ii − γ)/τ) + Σ exp(c_ij/τ) + …), mean over the queries i; plus the same with
    queries and answers exchanged, within the batch alone (Wang et al. 2022, equation 4).

    :param cosines: of query i and answer j, shape (n, n); the gold answers are on the diagonal.
    :param is_right: whether j is a right answer to i, hence no negative. :param scale: 1/τ.
    :param further: logits of further negatives of the queries, −inf for none, each of shape (n, any).
    """
    gold = torch.arange(len(cosines), device=cosines.device)
    diagonal = torch.eye(len(cosines), dtype=torch.bool, device=cosines.device)
    logits = (cosines - margin * diagonal) * scale
    logits = logits.masked_fill(is_right & ~diagonal, -torch.inf)
    return cross_entropy(torch.cat([logits, *further], dim=1), gold) + cross_entropy(logits.T, gold)


class ValuesByKey:
    """The distinct values of each key, ascending. :param keys, values: pairs, shape (n,)."""

    def __init__(self, keys: NDArray[np.int64], values: Places) -> None:
        order = np.lexsort((values, keys))
        keys, values = keys[order], values[order]
        new = np.ones(len(keys), dtype=bool)
        new[1:] = (keys[1:] != keys[:-1]) | (values[1:] != values[:-1])
        self.values, self._places = values[new], Lookup(keys[new])

    def of(self, keys: NDArray[np.int64]) -> tuple[Places, Places]:
        """Return the place of the key of each value among *keys*, and the values."""
        owner, place = self._places.find(keys)
        return owner, self.values[place]


class TrainingTriples:
    """The training triples in both directions; all of the graph's if it has no splits.

    Relations are numbered from 0, then their inverses.

    :param head, relation, tail: (h, r, t) of each triple, then (t, inverse r, h) of each; shape (2 × triples,).
    """

    def __init__(self, graph: KnowledgeGraph) -> None:
        subject, relation, answer = graph.columns(graph.training)
        self.relations = 2 * len(graph.relations)
        self.head, self.tail = np.concatenate([subject, answer]), np.concatenate([answer, subject])
        self.relation = np.concatenate([relation, relation + len(graph.relations)])
        self._answers = ValuesByKey(self._key(self.head, self.relation), self.tail)
        self._linked = ValuesByKey(self.head, self.tail)

    def __len__(self) -> int:
        return len(self.head)

    def _key(self, head: Places, relation: Places) -> NDArray[np.int64]:
        return head * self.relations + relation

    def known(self, head: Places, relation: Places, answers: Places) -> NDArray[np.bool_]:
        """Return which of m entities answer which of n queries (head, relation, ?); shape (n, m)."""
        owner, right = self._answers.of(self._key(head, relation))
        index, column = Lookup(answers).find(right)
        is_right = np.zeros((len(head), len(answers)), dtype=bool)
        is_right[owner[index], column] = True
        return is_right

    def neighbours(self, entity: int, most: int) -> list[int]:
        """Return the first other entities that are linked to an entity."""
        linked = self._linked.of(np.array([entity]))[1]
        return linked[linked != entity][:most].tolist()  # type: ignore[no-any-return]

    def within(self, entity: int, hops: int) -> Places:
        """Return the entities at most *hops* links away, itself included; none if they exceed :data:`REACHED`."""
        seen = frontier = np.array([entity], dtype=np.int64)
        for _ in range(hops):
            frontier = np.setdiff1d(self._linked.of(frontier)[1], seen)
            if not len(frontier):
                break
            seen = np.union1d(seen, frontier)
            if len(seen) > REACHED:
                return np.zeros(0, dtype=np.int64)
        return seen


class EntityTexts:
    """The tokens of an entity: name, description, and if that is short the names of neighbours.

    :param neighbours: how many at most; 0 for none.
    """

    def __init__(self, texts: GraphTexts, triples: TrainingTriples, framing: Framing, neighbours: int) -> None:
        self.texts, self.framing, self.most = texts, framing, neighbours
        self._kept: dict[tuple[int, int], Ids] = {}
        self._linked = cache(triples.neighbours)

    def text(self, entity: int, without: int = NO_ENTITY) -> str:
        """Return an entity's text. :param without: a neighbour not to name, lest training reads the answer."""
        name, description = self.texts.names[entity], self.texts.descriptions[entity]
        description = description.removeprefix(f"{name} ").strip()
        others = [self.texts.names[neighbour] for neighbour in self._neighbours(entity) if neighbour != without]
        description = " ".join([description, *others] if description else others)
        return f"{name}: {description}" if description else name

    def ids(self, entities: Places, without: Places) -> list[Ids]:
        keys = [
            (entity, neighbour if neighbour in self._neighbours(entity) else NO_ENTITY)
            for entity, neighbour in zip(entities.tolist(), without.tolist(), strict=True)
        ]
        new = [key for key in dict.fromkeys(keys) if key not in self._kept]
        self._kept.update(zip(new, self.framing.ids([self.text(*key) for key in new]), strict=True))
        return [self._kept[key] for key in keys]

    def _neighbours(self, entity: int) -> Sequence[int]:
        if not self.most or len(self.texts.descriptions[entity].split()) >= SHORT:
            return ()
        return self._linked(entity, self.most)


class Predictor(TextPredictor):
    """See :class:`fathom_kgc.links.base.Predictor`."""

    AUTO = AutoModel
    scoring = Scoring("cosine", "cosine")
    network: Encoders
    options: SimKgc

    def __init__(self, graph: KnowledgeGraph, options: SimKgc, source: Path | None, device: torch.device) -> None:
        super().__init__(graph, options, source, device)
        self.check_encoder("simkgc", options.max_tokens)
        if options.rerank_weight:
            self.scoring = Scoring("cosine", "score")  # neighbours have the weight added
        if hasattr(self.language, "pooler"):
            self.language.pooler = None  # never used
        self.network = Encoders(self.language, options.temperature).to(device).train()
        self.triples = TrainingTriples(graph)
        self.framing = Framing(self.tokenizer, options.max_tokens)
        self.entities = EntityTexts(self.texts, self.triples, self.framing, options.neighbour_names)
        names = self.texts.relations
        self.relation_ids = self.framing.ids([*names, *(inverse(name) for name in names)])
        self._queue: deque[tuple[Tensor, Tensor]] = deque(maxlen=options.pre_batches)
        """Answers of earlier batches: their vectors of length 1, shape (n, d), and the entities' places, shape (n,)."""

    def stages(self) -> Sequence[Stage]:
        options, count = self.options, len(self.triples)
        return [self.stage("contrast", partial(shuffled, count, options.batch_size, options.seed), count, self.loss)]

    def loss(self, rows: Places) -> Tensor:
        """:param rows: which training triples, shape (n,)."""
        head, relation, tail = self.triples.head[rows], self.triples.relation[rows], self.triples.tail[rows]
        about = self.entities.ids(head, without=tail)
        answers = self.entities.ids(tail, without=head)
        questions = self._encode(self.network.question, self._questions(about, relation))
        alone = about if self.options.self_negatives else []
        entities = self._encode(self.network.answer, [self.framing.one(ids) for ids in [*answers, *alone]])
        with torch.autocast(self.device.type, enabled=False):
            return self._contrast(questions, entities[: len(rows)], entities[len(rows) :], (head, relation, tail))

    def _contrast(
        self, questions: Tensor, answers: Tensor, heads: Tensor, places: tuple[Places, Places, Places]
    ) -> Tensor:
        """Compute the loss. :param heads: vectors of the queries' own heads as negatives, or none."""
        head, relation, tail = places
        scale = self.network.log_scale.exp()
        further = [
            (questions @ vectors.T * scale * self.options.pre_batch_weight).masked_fill(
                self._known(head, relation, earlier.cpu().numpy()), -torch.inf
            )
            for vectors, earlier in self._queue
        ]
        if len(heads):
            itself = self._known(head, relation, head).diagonal()[:, None]
            further.append(((questions * heads).sum(dim=1, keepdim=True) * scale).masked_fill(itself, -torch.inf))
        loss = info_nce(questions @ answers.T, self._known(head, relation, tail), scale, self.options.margin, further)
        self._queue.append((answers.detach(), torch.from_numpy(tail)))
        return loss

    def _known(self, head: Places, relation: Places, answers: Places) -> Tensor:
        return torch.from_numpy(self.triples.known(head, relation, answers)).to(self.device)

    def _questions(self, about: Sequence[Ids], relation: Places) -> list[FramedText]:
        pairs = zip(about, relation.tolist(), strict=True)
        return [self.framing.pair(ids, self.relation_ids[number]) for ids, number in pairs]

    def _encode(self, network: PreTrainedModel, sequences: Sequence[FramedText]) -> Tensor:
        """Return unit vectors, float32, shape (sequences, d)."""
        return normalize(encode(network, sequences, self.options.pooling).float(), dim=1)

    def state(self) -> State:
        return {"queue": list(self._queue)}

    def set_state(self, state: State) -> None:
        self._queue.clear()
        self._queue.extend(state["queue"])

    @cached_property
    def _distinct(self) -> tuple[Places, Places]:
        """The row of each entity's vector, and an entity of each row: equal texts share one."""
        return distinct(self.entities.text(entity) for entity in range(len(self.graph.entities)))

    def _pieces(self, has: Callable[[int], bool], progress: Progress) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Yield number and vectors of each piece that *has* says is missing."""
        entities = self._distinct[1].tolist()
        for piece, start in enumerate(range(0, len(entities), PIECE)):
            some = entities[start : start + PIECE]
            if not has(piece):
                texts = self.framing.ids([self.entities.text(entity) for entity in some])
                framed = [self.framing.one(ids) for ids in texts]
                yield piece, self._encode(self.network.answer, framed).cpu().numpy()
            progress(start + len(some), len(entities))

    def prepare(self, progress: Progress) -> None:
        vectors = np.concatenate([made for _, made in self._pieces(lambda piece: False, progress)])
        self.space = VectorSpace(self._distinct[0], lambda rows: vectors[rows])

    def prepare_in(self, artifacts: Path, progress: Progress) -> None:
        """Encode all entities into files: they survive a kill, and memory never holds all."""
        store = VectorStore(artifacts, len(self._distinct[1]))
        for piece, made in self._pieces(store.has, progress):
            store.write(piece, made)
        self.space = VectorSpace(self._distinct[0], store.take)

    def rank(self, links: Links, top: int, keep_scores: bool = False) -> list[RankResult]:
        """Rank by the cosine, plus ``rerank_weight`` for entities near the given one."""
        questions = self._encode(self.network.question, self._asked(links))
        good = torch.isfinite(questions).all(dim=1).cpu().numpy()
        scored = links.take(np.flatnonzero(good))
        vectors = questions[torch.from_numpy(good).to(self.device)]
        rank = self._rank_among_neighbours if self.options.rerank_weight else self._rank_all
        results = iter(rank(vectors, scored, top, keep_scores) if len(scored) else [])
        return [next(results) if fine else RankResult(None, [], [], [], unscored=NOT_A_NUMBER) for fine in good]

    def as_read(self, links: Links) -> list[str]:
        return list(self.tokenizer.batch_decode([question.ids for question in self._asked(links)]))

    def _asked(self, links: Links) -> list[FramedText]:
        relation = links.relation + len(self.graph.relations) * links.inverse
        about = self.framing.ids([self.entities.text(entity) for entity in links.given.tolist()])
        return self._questions(about, relation)

    def _rank_all(self, questions: Tensor, links: Links, top: int, keep_scores: bool) -> list[RankResult]:
        gold, filtered = [[place] for place in links.gold.tolist()], [places.tolist() for places in links.known]
        results = rank_by_cosine(questions, self.space, gold, filtered, top=top, keep_scores=keep_scores)
        for result in results:
            result.top = result.top[:top]  # entities that share a vector come together
        return results

    def _rank_among_neighbours(self, questions: Tensor, links: Links, top: int, keep_scores: bool) -> list[RankResult]:
        """Rank with ``rerank_weight`` more for entities a few links away (Wang et al. 2022, section 3.5)."""
        results = []
        step = max(1, CELLS // len(self.space))
        for some, vectors in zip(blocks(links, step), torch.split(questions, step), strict=True):
            scores = self._cosines(vectors)
            for row, entity in enumerate(some.given.tolist()):
                near = torch.from_numpy(self.triples.within(entity, self.options.rerank_hops)).to(self.device)
                scores[row, near] += self.options.rerank_weight
            results += rank_links(scores, some, top, keep_scores)
        return results

    def _cosines(self, questions: Tensor) -> Tensor:
        width = len(self.space.distinct)
        pieces = [np.arange(start, min(start + PIECE, width)) for start in range(0, width, PIECE)]
        cosines = [unit(questions) @ self.space.vectors(columns, self.device).T for columns in pieces]
        return torch.cat(cosines, dim=1)[:, torch.from_numpy(self.space.column).to(self.device)]
