"""GenKGC (Xie et al. 2022): BART reads demonstrations and the query, and writes the answer.

*Relation-guided demonstration*: a query follows a few training triples of its relation, each in both directions. They
never mention the entity of the query, so no query shows its own answer; the authors' code draws them once per
relation, without this check. *Entity-aware hierarchical decoding*: with ``--types`` the answer's type is written
before its name. Without types, and in the authors' scripts (``--use_label_type 0``), the hierarchy is the prefix tree
of all names.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import torch

from fathom.data.knowledge import KnowledgeGraph, Places
from fathom.errors import BadInput
from fathom.links.generative import GenerativePredictor
from fathom.links.options import GenKgc
from fathom.links.reading import examples_of_relations


class Predictor(GenerativePredictor):
    """See :class:`fathom.links.generative.GenerativePredictor`."""

    options: GenKgc

    def __init__(self, graph: KnowledgeGraph, options: GenKgc, source: Path | None, device: torch.device) -> None:
        super().__init__(graph, options, source, device)
        self.types = _types(graph) if options.types else None
        self.tokenizer.truncation_side = "left"  # the question stands last and must stay

    def questions(self, given: Places, relation: Places, inverse: Sequence[bool]) -> list[str]:
        """Return demonstrations, then the given entity with its description, and the relation."""
        triples = zip(given.tolist(), relation.tolist(), inverse, strict=True)
        separator = self.tokenizer.sep_token or self.tokenizer.eos_token
        return [
            "".join(f"{shown} {separator} " for shown in self._shown(entity, link))
            + self._statement(f"{self.texts.names[entity]}{self._descriptions[entity]}", link, asks_head)
            for entity, link, asks_head in triples
        ]

    def notes(self) -> list[str]:
        """Add how many relations have no demonstrations."""
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
        """Return the demonstrations of a query, both directions of each triple."""
        triples = [ends for ends in self._demonstrations[relation] if entity not in ends]
        return [
            f"{self._statement(self.texts.names[known], relation, inverse)} {self.answers[answer]}"
            for head, tail in triples[: self.options.demonstrations]
            for known, answer, inverse in ((head, tail, False), (tail, head, True))
        ]

    @cached_property
    def _demonstrations(self) -> list[list[tuple[int, int]]]:
        return examples_of_relations(self.graph, self.options.demonstrations, self.options.seed)

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
    """Return the type of each entity, "" for none. :raises BadInput: no entity has any."""
    types = graph.entities.column("type").to_pylist() if "type" in graph.entities.column_names else []
    if not any(types):
        raise BadInput(
            "--types: the graph's entities have none: put an entity2type.txt (id<TAB>type a line), CoDEx's "
            "entity2types.json, or an entity2text_withtype.txt (id<TAB>type name) into its folder"
        )
    return types
