"""The link probe, and on demand the best answers to one query: ranks of tails of (head, relation), and of heads.

Ranks are among all entities of the graph, without other known answers of any split (the filtered setting). See
docs/methods/link-prediction.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch

from fathom.base.errors import BadInput, all_of
from fathom.base.progress import Progress
from fathom.data.graph.links import Links, links_of
from fathom.data.graph.queries import graph_of
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.queries import Query, QuerySet, unrankable
from fathom.engine.scoring.rows import PromptedQuery, RankResult, result_columns
from fathom.probes.base import Answered, Facts, Shard, ShardedProbe, shards_of
from fathom.results.tables import Table
from fathom.store.predictions import KEEP_SCORES_UP_TO, NO_TEMPLATE
from fathom_kgc.links.base import Predictor, open_links
from fathom_kgc.links.options import LinkOptions

SHARD_QUERIES = 512


class LinkProbe(ShardedProbe):
    """See :class:`fathom.probes.base.Probe`.

    :param model: a trained link predictor of the graph that *queryset* asks about.
    :raises BadInput: another kind of model, or queries of another kind than ``link_queryset`` makes.
    """

    def __init__(self, options: LinkOptions, model: Predictor, queryset: QuerySet) -> None:
        if not isinstance(model, Predictor):
            raise BadInput("the link probe asks trained link predictors: fathom kgc evaluate MODEL --data KG --out RUN")
        self.space = next(iter(queryset.candidates.values()))
        if queryset.graph is None or len(self.space) != len(queryset.graph.entities):
            raise BadInput(f"the link probe ranks all entities of a graph, and {queryset.name} asks otherwise")
        self.options, self.predictor, self.queryset = options, model, queryset
        self.model = model  # type: ignore[assignment] # the seam's part that a run needs: identity, device, tokenizer
        self.scorings = (model.scoring,)
        self.relations: list[str] = queryset.graph.relations.column("id").to_pylist()

    def _cut(self) -> Iterator[Shard]:
        return shards_of(NO_TEMPLATE, self.queryset.queries, SHARD_QUERIES)

    def resolved(self) -> Facts:
        """Return the options that may differ from those of the training."""
        options = self.predictor.options
        return {"asking": {name: value for name, value in options.identity().items() if name in options.asking()}}

    def prepare(self, artifacts: Path, progress: Progress) -> None:
        with torch.inference_mode():
            self.predictor.prepare_in(artifacts, progress)

    def _answered(self, shard: Shard) -> Answered:
        queries = shard.queries
        reasons = [unrankable(query, self.space) for query in queries]
        rankable = [query for query, reason in zip(queries, reasons, strict=True) if reason is None]
        links = links_of(rankable, self.space, self.relations)
        keep = len(self.space) <= KEEP_SCORES_UP_TO
        with torch.inference_mode():
            results = iter(self.predictor.rank(links, self.options.top_k, keep) if rankable else [])
            prompts = iter(self.predictor.as_read(links) or map(self._in_short, rankable)) if rankable else iter(())
        for query, reason in zip(queries, reasons, strict=True):
            prompt = self._in_short(query) if reason else next(prompts)
            prompted = PromptedQuery(query, NO_TEMPLATE, prompt, len(self.space))
            answer = RankResult(None, [], [], [], unscored=reason) if reason else next(results)
            yield prompted, [result_columns(answer, self.space)]

    def circumstances(self) -> Facts:
        return self.predictor.circumstances()

    def _in_short(self, query: Query) -> str:
        """Return a query for predictors that read no text."""
        relation = self.queryset.relations[query.relation].name or query.relation
        entity = query.subject or query.subject_id
        return f"({entity}, {relation}, [Y])" if query.direction == "tail" else f"([Y], {relation}, {entity})"


FEW = 20
"""So many names fit into a message."""


def predict_links(
    folder: str | Path,
    data: QuerySet,
    relation: str,
    *,
    head: str | None = None,
    tail: str | None = None,
    top: int = 10,
    device: str | None = None,
) -> Table:
    """Predict the best answers to (head, relation, ?), or (?, relation, tail), with the predictor in *folder*.

    :param relation, head, tail: name or id; exactly one of head and tail.
    :returns: place, name, id, score, and the split with the triple, "" if the graph does not have it.
    :raises BadInput: an unknown or ambiguous name, both or neither of head and tail.
    """
    if (head is None) == (tail is None):
        raise BadInput("give --head to ask for tails, or --tail to ask for heads")
    subject = str(tail if head is None else head)
    graph = graph_of(data)
    entity, place = all_of(
        lambda: _place(graph.entities, subject, "entity"), lambda: _place(graph.relations, relation, "relation")
    )
    predictor = open_links(folder, data, device)
    query = np.array([entity]), np.array([place]), np.array([head is None])
    links = Links(*query, gold=np.array([entity]), known=[np.array([], dtype=np.int64)])
    with torch.inference_mode():
        predictor.prepare(lambda done, total: None)
        [result] = predictor.rank(links, top)
    splits = _splits(graph, entity, place, head is None)
    ids, names = graph.entities.column("id"), graph.entities.column("name")
    rows = tuple(
        (number, names[answer].as_py(), ids[answer].as_py(), score, splits.get(answer, ""))
        for number, (answer, score) in enumerate(result.top[:top], start=1)
    )
    name, link = names[entity].as_py() or subject, graph.relations.column("name")[place].as_py() or relation
    question = f"({name}, {link}, ?)" if head is not None else f"(?, {link}, {name})"
    return Table(("", "answer", "id", predictor.scoring.name, "in the graph"), rows, question)


def _place(table: pa.Table, text: str, what: str) -> int:
    """Find an entity or relation by id or name. :raises BadInput: none or several match."""
    ids: list[str] = table.column("id").to_pylist()
    names: list[str] = table.column("name").to_pylist()
    if text in set(ids):
        return ids.index(text)
    places = [place for place, name in enumerate(names) if name == text]
    if len(places) == 1:
        return places[0]
    if places:
        several = ", ".join(ids[place] for place in places[:10])
        raise BadInput(f"{len(places)} have the name '{text}': give an id, one of {several}")
    alike = [name for name in names if text.lower() in name.lower()][:FEW] or (names if len(names) <= FEW else [])
    hint = f"; there is {', '.join(alike)}" if alike else ""
    raise BadInput(f"the graph has no {what} with the id or name '{text}'{hint}")


def _splits(graph: KnowledgeGraph, subject: int, relation: int, inverse: bool) -> dict[int, str]:
    subjects, answers = (graph.tail, graph.head) if inverse else (graph.head, graph.tail)
    rows = np.flatnonzero((subjects == subject) & (graph.relation == relation))
    return {
        int(answers[row]): next((name for name, span in graph.splits.items() if row in span), "graph") for row in rows
    }
