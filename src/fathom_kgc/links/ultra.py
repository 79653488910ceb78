"""ULTRA: a graph network with one set of weights for all graphs (Galkin et al. 2024). It reads no names or texts.

A query (given, relation, ?) is answered by two passes of messages (Zhu et al. 2021, NBFNet): in the graph of relations,
then from the given entity to all others. docs/notes/link-prediction.md has the equations, and two conventions of the
published weights: messages run against the edges, and queries for heads read the relations as queries for tails do.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse
import torch
from torch import Tensor, nn

from fathom.base.errors import BadInput
from fathom.base.progress import Progress
from fathom.base.reading import opened
from fathom.data.graph.links import Links
from fathom.data.knowledge import KnowledgeGraph, Places
from fathom.engine.models.base import Identity
from fathom.probes.base import Facts
from fathom.store.predictions import Scoring
from fathom.training.saving import TrainingFolder, published_tensors
from fathom_kgc.links import base
from fathom_kgc.links.options import Ultra

WIDTH, LAYERS = 64, 6
"""Of the published models."""
WAYS = 4
"""How two relations can meet: they share heads, tails, heads of the one and tails of the other, or the reverse."""
CELLS = {"cpu": 2**22, "cuda": 2**27}
"""Numbers of the states of all nodes that are held at a time."""


class Predictor(base.Predictor):
    """See :class:`fathom_kgc.links.base.Predictor`. Nothing is trained: the edges are the graph's training triples.

    :raises BadInput: the file does not hold the weights of ULTRA.
    """

    scoring = Scoring("plausibility", "score")
    options: Ultra
    network: _Network

    def __init__(self, graph: KnowledgeGraph, options: Ultra, source: Path | None, device: torch.device) -> None:
        super().__init__(graph, options, source, device)
        torch.manual_seed(options.seed)
        self.network = _Network()
        if source is None:
            self.identity = Identity(options.weights, None, "float32", _digest(Path(options.weights)))
            if options.init == "pretrained":
                self.network.load_state_dict(_published(Path(options.weights), self.network.state_dict()))
        self.network.to(device).eval()
        self.relations = len(graph.relations)
        """Relations of the graph. Their inverses follow, in the same order."""

    @classmethod
    def check(cls, options: Ultra) -> None:
        """:raises BadInput: no such file, or another one."""
        _published(Path(options.weights), _Network().state_dict())

    def train(self, folder: Path, progress: Progress) -> Facts:
        TrainingFolder(folder).keep_weights(self.network)
        return {"why": "nothing to train"}

    def prepare(self, progress: Progress) -> None:
        """Compute the vectors of all relations, for each relation of a query."""
        head, relation, tail = self.graph.columns(self.graph.training)
        starts, ends = np.concatenate([head, tail]), np.concatenate([tail, head])
        kinds = np.concatenate([relation, relation + self.relations])
        nodes = len(self.graph.entities)
        self.edges = Edges.of(starts, kinds, ends, (2 * self.relations, nodes), self.device)
        between = Edges.between(starts, kinds, ends, (2 * self.relations, nodes), self.device)
        batches = torch.split(torch.arange(self.relations, device=self.device), self._block(2 * self.relations))
        self.vectors = torch.cat([self.network.relation_model(between, relations) for relations in batches])

    def block_size(self) -> int:
        """Return for how many queries the states of all nodes fit into memory."""
        return self._block(len(self.graph.entities))

    def scores(self, links: Links) -> Tensor:
        """Score all entities for each query, shape (n, entities). Scores of different queries are not comparable."""
        subject, relation = (torch.from_numpy(column).to(self.device) for column in (links.given, links.relation))
        relations = relation + self.relations * torch.from_numpy(links.inverse).to(self.device)
        vectors = self.vectors[relation].transpose(0, 1)
        scores: Tensor = self.network.entity_model(self.edges, subject, relations, vectors)
        return scores

    def _block(self, nodes: int) -> int:
        return max(1, CELLS.get(self.device.type, CELLS["cuda"]) // (nodes * WIDTH))

    def notes(self) -> list[str]:
        return ["reads edges alone: neither names nor descriptions, and no vector of an entity"]


class Edges(NamedTuple):
    """Typed edges, for messages from their ends to their starts.

    :param nodes: how many there are.
    :param of_kind: for each kind of edge, the nodes that such edges start at, and a matrix that sums over the ends,
        shape (those nodes, all nodes); None for a kind without edges.
    """

    nodes: int
    of_kind: Sequence[tuple[Tensor, Tensor] | None]

    @classmethod
    def of(cls, starts: Places, kinds: Places, ends: Places, shape: tuple[int, int], device: torch.device) -> Edges:
        """:param shape: number of kinds and of nodes."""
        order = np.argsort(kinds, kind="stable")
        bounds = np.searchsorted(kinds[order], np.arange(shape[0] + 1))
        rows = (order[first:last] for first, last in pairwise(bounds))
        of_kind = [_summing(starts[some], ends[some], shape[1], device) if len(some) else None for some in rows]
        return cls(shape[1], of_kind)

    @classmethod
    def between(
        cls, starts: Places, kinds: Places, ends: Places, shape: tuple[int, int], device: torch.device
    ) -> Edges:
        """Make the graph of relations: two kinds of edges are linked by a common node, in each of four ways."""

        ones = np.ones(len(kinds), np.float32)
        heads, tails = (scipy.sparse.csr_matrix((ones, (kinds, nodes)), shape) for nodes in (starts, ends))
        pairs = (heads, heads), (tails, tails), (heads, tails), (tails, heads)
        met = [(rows @ columns.T).nonzero() for rows, columns in pairs]
        ways = np.repeat(np.arange(WAYS), [len(rows) for rows, _ in met])
        first, second = (np.concatenate(side).astype(np.int64) for side in zip(*met, strict=True))
        return cls.of(first, ways, second, (WAYS, shape[0]), device)

    def heard(self, states: Tensor, relations: Tensor) -> Tensor:
        """Sum, over each node's edges, the state at the end times the vector of the edge's kind.

        :param states: shape (nodes, n, d). :param relations: shape (kinds, n or 1, d).
        :returns: shape (nodes, n, d).
        """
        flat, sums = states.flatten(1), torch.zeros_like(states)
        for kind, at in zip(relations, self.of_kind, strict=True):
            if at is not None:
                nodes, summing = at
                sums.index_add_(0, nodes, (summing @ flat).view(-1, *states.shape[1:]) * kind)
        return sums


def _summing(starts: Places, ends: Places, nodes: int, device: torch.device) -> tuple[Tensor, Tensor]:
    places, row = np.unique(starts, return_inverse=True)
    sums = scipy.sparse.csr_matrix((np.ones(len(row), np.float32), (row, ends)), (len(places), nodes))
    with warnings.catch_warnings():  # torch says that its sparse matrices are new
        warnings.simplefilter("ignore", UserWarning)
        bounds, columns, values = (torch.from_numpy(part) for part in (sums.indptr, sums.indices, sums.data))
        matrix = torch.sparse_csr_tensor(bounds, columns, values, list(sums.shape), device=device)
    return torch.from_numpy(places).to(device), matrix


class _Layer(nn.Module):
    """One step of the iteration. :param ways: rows of the embedding of relations; None to project given vectors."""

    def __init__(self, ways: int | None) -> None:
        super().__init__()
        self.layer_norm = nn.LayerNorm(WIDTH)
        self.linear = nn.Linear(2 * WIDTH, WIDTH)
        if ways is not None:
            self.relation = nn.Embedding(ways, WIDTH)
        else:
            self.relation_projection = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))

    def forward(self, edges: Edges, states: Tensor, first: Tensor, relations: Tensor) -> Tensor:
        """:param states: of all nodes, shape (nodes, n, d). :param first: those at the start."""
        heard = edges.heard(states, relations) + first
        return states + torch.relu(self.layer_norm(self.linear(torch.cat([states, heard], dim=-1))))


class _Iteration(nn.Module):
    """Layers that start with the state of one node, all others zero."""

    def __init__(self, ways: int | None) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_Layer(ways) for _ in range(LAYERS))

    def run(self, edges: Edges, first: Tensor, relations: Callable[[_Layer], Tensor]) -> Tensor:
        """:param first: states at the beginning. :param relations: of a layer, shape (kinds, n or 1, d)."""
        states = first
        for layer in self.layers:
            assert isinstance(layer, _Layer)
            states = layer(edges, states, first, relations(layer))
        return states


class _RelationModel(_Iteration):
    def __init__(self) -> None:
        super().__init__(WAYS)

    def forward(self, edges: Edges, asked: Tensor) -> Tensor:
        """:param asked: relations, shape (n,). :returns: the vector of each for each asked, (n, 2 × relations, d)."""
        first = torch.zeros(edges.nodes, len(asked), WIDTH, device=asked.device)
        first[asked, torch.arange(len(asked), device=asked.device)] = 1
        return self.run(edges, first, lambda layer: layer.relation.weight[:, None]).transpose(0, 1)


class _EntityModel(_Iteration):
    def __init__(self) -> None:
        super().__init__(None)
        self.mlp = nn.Sequential(nn.Linear(2 * WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, 1))

    def forward(self, edges: Edges, subject: Tensor, asked: Tensor, vectors: Tensor) -> Tensor:
        """:param subject, asked: entity and relation of each question, shape (n,).
        :param vectors: of all relations for each question, shape (2 × relations, n, d).
        :returns: shape (n, entities)."""
        rows = torch.arange(len(subject), device=subject.device)
        query_vectors = vectors[asked, rows]
        first = torch.zeros(edges.nodes, len(subject), WIDTH, device=subject.device)
        first[subject, rows] = query_vectors
        states = self.run(edges, first, lambda layer: layer.relation_projection(vectors))
        return self.mlp(torch.cat([states, query_vectors.expand_as(states)], dim=-1))[..., 0].T  # type: ignore[no-any-return]


class _Network(nn.Module):
    """Both models; weights are named as in the published files."""

    def __init__(self) -> None:
        super().__init__()
        self.relation_model, self.entity_model = _RelationModel(), _EntityModel()


def _published(file: Path, wanted: dict[str, Tensor]) -> dict[str, Tensor]:
    """:raises BadInput: the file holds something else."""
    tensors = published_tensors(file, "weights of ULTRA, such as ultra_3g.pth")
    shapes = {name: tuple(tensor.shape) for name, tensor in wanted.items()}
    if {name: tuple(tensor.shape) for name, tensor in tensors.items()} != shapes:
        raise BadInput(
            f"{file}: expected the {len(wanted)} weights of ULTRA ({LAYERS} layers, {WIDTH} wide), found "
            f"{len(tensors)} others, such as {next(iter(tensors.keys() - shapes.keys()), 'one of another shape')}"
        )
    if broken := [name for name, tensor in tensors.items() if not torch.isfinite(tensor).all()]:
        raise BadInput(
            f"{file}: some weights are no numbers, such as {broken[0]}: the training that wrote it came apart"
        )
    return tensors


def _digest(file: Path) -> str:
    with opened(file) as content:
        return hashlib.file_digest(content, "sha256").hexdigest()[:16]
