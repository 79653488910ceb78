"""KG-BERT (Yao et al. 2019): a language model classifies a triple, read as a whole, as right or wrong.

The score of a triple is its log-odds (Sakai et al. 2024, equations 2 and 3). Triples share nothing, so a query costs a
forward pass per entity. See docs/methods/link-prediction.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import AutoModelForSequenceClassification

from fathom.base.errors import BadInput
from fathom.data.graph.links import Links
from fathom.data.knowledge import KnowledgeGraph, Places
from fathom.probes.base import Facts
from fathom.store.predictions import Scoring
from fathom.training.loop import Stage
from fathom_kgc.links.base import shuffled
from fathom_kgc.links.options import KgBert
from fathom_kgc.links.texts import Framing, TextPredictor, distinct, length_groups, with_mask

TRIES = 100
"""How often an entity is drawn anew where it makes a right triple."""


class EncodedTriple(NamedTuple):
    """A triple as it is read.

    :param ids: tokens, shape (length,). :param types: 1 for the relation's, 0 for the others', shape (length,).
    """

    ids: NDArray[np.int64]
    types: NDArray[np.int64]


class Examples(NamedTuple):
    """Triples to learn from.

    :param head, relation, tail: places, shape (examples,). :param right: 1 for right ones, shape (examples,).
    """

    head: Places
    relation: Places
    tail: Places
    right: NDArray[np.int64]


class Predictor(TextPredictor):
    """See :class:`fathom_kgc.links.base.Predictor`.

    :raises BadInput: a language model that is no encoder, that has other classes, or that reads too little.
    """

    AUTO = AutoModelForSequenceClassification
    NEW = ("pooler", "classifier", "pre_classifier", "head", "score")
    scoring = Scoring("log-odds", "score")
    options: KgBert
    network: Any

    def __init__(self, graph: KnowledgeGraph, options: KgBert, source: Path | None, device: torch.device) -> None:
        super().__init__(graph, options, source, device)
        self.check_encoder("kg-bert", options.max_tokens)
        if (count := self.language.config.num_labels) != 2:
            raise BadInput(f"--weights {options.weights}: a classifier of {count} classes; kg-bert has two")
        self.network = self.language
        self.framing = Framing(self.tokenizer, options.max_tokens)
        self.entity_ids, self.relation_ids = (
            self.framing.ids(texts) for texts in (self.texts.described, self.texts.relations)
        )
        self._known = np.unique(self._packed(*graph.columns(graph.training)))
        self.triples_read = 0

    def notes(self) -> list[str]:
        count = len(self._distinct[1])
        return [*super().notes(), f"a question costs {count:,} forward passes, one for each entity: ask few (--limit)"]

    def circumstances(self) -> Facts:
        return {"triples_read": self.triples_read}

    def stages(self) -> Sequence[Stage]:
        count = len(self.graph.training) * (1 + self.options.negatives)
        return [self.stage("triples", self._batches, count, self._loss)]

    def _batches(self, epoch: int) -> Iterator[Examples]:
        examples = self.examples(epoch)
        for some in shuffled(len(examples.right), self.options.batch_size, self.options.seed, epoch):
            yield Examples(*(column[some] for column in examples))

    def examples(self, epoch: int) -> Examples:
        """Return each training triple, followed by its wrong ones.

        All wrong ones of a triple have another head, or another tail, drawn anew in each epoch. A draw that makes a
        training triple is repeated, up to :data:`TRIES` times; after that the triple is labelled as right.
        """
        random = np.random.default_rng((self.options.seed, epoch, 1))
        times = 1 + self.options.negatives
        columns = self.graph.columns(self.graph.training)
        head, relation, tail = (np.repeat(column, times) for column in columns)
        ends = np.where(np.repeat(random.random(len(columns[0])) < 0.5, times), 0, 1)
        due = np.flatnonzero(np.arange(len(head)) % times)
        for _ in range(TRIES):
            drawn = random.integers(len(self.graph.entities), size=len(due))
            head[due] = np.where(ends[due] == 0, drawn, head[due])
            tail[due] = np.where(ends[due] == 1, drawn, tail[due])
            due = due[self._is_known(head[due], relation[due], tail[due])]
            if not len(due):
                break
        return Examples(head, relation, tail, self._is_known(head, relation, tail).astype(np.int64))

    def _is_known(self, head: Places, relation: Places, tail: Places) -> NDArray[np.bool_]:
        return np.isin(self._packed(head, relation, tail), self._known)

    def _packed(self, head: Places, relation: Places, tail: Places) -> NDArray[np.int64]:
        return (head * len(self.graph.relations) + relation) * len(self.graph.entities) + tail

    def _loss(self, batch: Examples) -> Tensor:
        columns = zip(batch.head.tolist(), batch.relation.tolist(), batch.tail.tolist(), strict=True)
        logits = self._logits([self.read(*triple) for triple in columns])
        return cross_entropy(logits, torch.from_numpy(batch.right).to(self.device))

    def read(self, head: int, relation: int, tail: int) -> EncodedTriple:
        """Return [CLS] head [SEP] relation [SEP] tail [SEP], cut to fit: the longest text first."""
        texts = [self.entity_ids[head], self.relation_ids[relation], self.entity_ids[tail]]
        framing = self.framing
        special = len(framing.before) + 2 * len(framing.between) + len(framing.after)
        kept = _kept([len(ids) for ids in texts], max(0, framing.longest - special))
        endings = (framing.between, framing.between, framing.after)
        parts = [np.concatenate([ids[:size], end]) for ids, size, end in zip(texts, kept, endings, strict=True)]
        sizes = len(framing.before) + len(parts[0]), len(parts[1]), len(parts[2])
        ids = np.concatenate([framing.before, *parts]).astype(np.int64)
        return EncodedTriple(ids, np.repeat(np.array([0, 1, 0]), sizes))

    def _logits(self, triples: Sequence[EncodedTriple]) -> Tensor:
        """Return logits of both classes, float32, shape (triples, 2)."""
        parts, back = length_groups([len(triple.ids) for triple in triples], self.device)
        return torch.cat([self._run([triples[place] for place in some.tolist()]) for some in parts])[back].float()

    def _run(self, triples: Sequence[EncodedTriple]) -> Tensor:
        ids, types = zip(*triples, strict=True)
        tokens, mask = with_mask(ids, self.tokenizer.pad_token_id or 0, self.device)
        typed = getattr(self.network.config, "type_vocab_size", 0) > 1
        more = {"token_type_ids": with_mask(types, 0, self.device)[0]} if typed else {}
        logits: Tensor = self.network(input_ids=tokens, attention_mask=mask, **more).logits
        return logits

    def scores(self, links: Links) -> Tensor:
        """Return log-odds of each entity as the answer of a single query, float32, shape (1, entities).

        Entities with equal texts are read once and tie.
        """
        [subject], [relation], [inverse] = (c.tolist() for c in (links.given, links.relation, links.inverse))
        rows, entities = self._distinct
        triples = [
            self.read(entity, relation, subject) if inverse else self.read(subject, relation, entity)
            for entity in entities.tolist()
        ]
        self.triples_read += len(triples)
        logits = self._logits(triples)
        return (logits[:, 1] - logits[:, 0])[torch.from_numpy(rows).to(self.device)][None]

    @cached_property
    def _distinct(self) -> tuple[Places, Places]:
        return distinct(ids.tobytes() for ids in self.entity_ids)

    def as_read(self, links: Links) -> list[str]:
        """Return the queries as read, with "[Y]" for the candidate."""
        queries = zip(links.given.tolist(), links.relation.tolist(), links.inverse.tolist(), strict=True)
        frame = [self.framing.before, self.framing.between, self.framing.after]
        before, between, after = self.tokenizer.batch_decode(frame)
        prompts = []
        for subject, relation, inverse in queries:
            texts = self.tokenizer.batch_decode([self.entity_ids[subject], self.relation_ids[relation]])
            parts = ["[Y]", *reversed(texts)] if inverse else [*texts, "[Y]"]
            prompts.append(f"{before} {f' {between} '.join(parts)} {after}")
        return prompts


def _kept(lengths: Sequence[int], room: int) -> list[int]:
    kept = list(lengths)
    while sum(kept) > room:
        kept[max(range(len(kept)), key=lambda text: (kept[text], text))] -= 1
    return kept
