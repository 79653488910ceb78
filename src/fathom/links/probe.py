"""The link probe: whom does a trained link predictor put first, as tail of (head, relation) and as head of (relation,
tail)?

Ranks are among all entities of the graph, other right answers of any split left out (the filtered setting). See
docs/methods/link-prediction.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from fathom.data.graph.links import links_of
from fathom.data.queries import Query, QuerySet, unrankable
from fathom.errors import BadInput
from fathom.links.base import Predictor
from fathom.links.options import LinkOptions
from fathom.models.base import Model
from fathom.probes.base import Progress, Row
from fathom.scoring.ranks import Found
from fathom.scoring.rows import Asked, of_found
from fathom.store.predictions import KEEP_SCORES_UP_TO, NO_TEMPLATE

SHARD_QUERIES = 512


class Probe:
    """See :class:`fathom.probes.base.Probe`.

    :param model: a trained link predictor of the graph that *queryset* asks about.
    :raises BadInput: another kind of model, or queries of another kind than ``link_queryset`` makes.
    """

    model: Model

    def __init__(self, options: LinkOptions, model: Predictor, queryset: QuerySet) -> None:
        if not isinstance(model, Predictor):
            raise BadInput("the link probe asks trained link predictors: fathom kgc evaluate MODEL --data KG --out RUN")
        if queryset.graph is None or len(self._only_space(queryset)) != len(queryset.graph.entities):
            raise BadInput(f"the link probe ranks all entities of a graph, and {queryset.name} asks otherwise")
        self.options, self.predictor, self.queryset = options, model, queryset
        self.model = model  # type: ignore[assignment] # the seam's part that a run needs: identity, device, tokenizer
        self.scorings = (model.scoring,)
        self.space = self._only_space(queryset)
        starts = range(0, len(queryset.queries), SHARD_QUERIES)
        self._shards = {f"{number:05d}": slice(at, at + SHARD_QUERIES) for number, at in enumerate(starts)}

    def resolved(self) -> dict[str, Any]:
        asking = self.predictor.options.asking()
        return {"asking": {name: value for name, value in self.predictor.options.identity().items() if name in asking}}

    def plan(self) -> Sequence[str]:
        return list(self._shards)

    def prepare(self, artifacts: Path, progress: Progress) -> None:
        with torch.inference_mode():
            self.predictor.prepare_in(artifacts, progress)

    def ask(self, shard: str) -> list[Row]:
        queries = self.queryset.queries[self._shards[shard]]
        reasons = [unrankable(query, self.space) for query in queries]
        asked = [query for query, reason in zip(queries, reasons, strict=True) if reason is None]
        links = links_of(asked, self.space, self._relations)
        keep = len(self.space) <= KEEP_SCORES_UP_TO
        with torch.inference_mode():
            found = iter(self.predictor.rank(links, self.options.top_k, keep) if asked else [])
        return [
            self._row(query, Found(None, [], [], [], unscored=reason) if reason else next(found))
            for query, reason in zip(queries, reasons, strict=True)
        ]

    def circumstances(self) -> dict[str, Any]:
        return self.predictor.circumstances()

    @cached_property
    def _relations(self) -> list[str]:
        assert self.queryset.graph is not None
        return self.queryset.graph.relations.column("id").to_pylist()  # type: ignore[no-any-return]

    def _row(self, query: Query, found: Found) -> Row:
        relation = self.queryset.relations[query.relation].name or query.relation
        known = query.subject or query.subject_id
        prompt = f"({known}, {relation}, [Y])" if query.direction == "tail" else f"([Y], {relation}, {known})"
        return Asked(query, NO_TEMPLATE, prompt, len(self.space)).row(
            self.predictor.scoring.name, of_found(found, self.space)
        )

    @staticmethod
    def _only_space(queryset: QuerySet) -> Any:
        return next(iter(queryset.candidates.values()))
