"""The link probe: ranks of a trained link predictor for tails of (head, relation) and heads of (relation, tail).

Ranks are among all entities of the graph, without other known answers of any split (the filtered setting). See
docs/methods/link-prediction.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch

from fathom.base.errors import BadInput
from fathom.base.progress import Progress
from fathom.data.graph.links import links_of
from fathom.data.queries import Query, QuerySet, unrankable
from fathom.engine.scoring.rows import PromptedQuery, RankResult, result_columns
from fathom.probes.base import Answered, Facts, Shard, ShardedProbe, shards_of
from fathom.store.predictions import KEEP_SCORES_UP_TO, NO_TEMPLATE
from fathom_kgc.links.base import Predictor
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
            one = PromptedQuery(query, NO_TEMPLATE, prompt, len(self.space))
            answer = RankResult(None, [], [], [], unscored=reason) if reason else next(results)
            yield one, [result_columns(answer, self.space)]

    def circumstances(self) -> Facts:
        return self.predictor.circumstances()

    def _in_short(self, query: Query) -> str:
        """Return a query for predictors that read no text."""
        relation = self.queryset.relations[query.relation].name or query.relation
        known = query.subject or query.subject_id
        return f"({known}, {relation}, [Y])" if query.direction == "tail" else f"([Y], {relation}, {known})"
