"""The base class of probes that fill the slot of a sentence: cloze, ontology and entailment.

A candidate's score is the mean, maximum or first of its tokens' log-probabilities at the masks of the slot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fathom.base.errors import BadInput, refuse
from fathom.base.progress import Progress
from fathom.data.queries import CandidateSet, Query, QuerySet, unrankable
from fathom.data.templates import ANSWER, Prompt, capitalized
from fathom.engine.models.base import Attention, Model
from fathom.engine.models.encoder_decoder import EncoderDecoder
from fathom.engine.scoring.rows import Columns, PromptedQuery, score_columns, unranked_digest
from fathom.engine.scoring.seq2seq import Form, form_for, stand_in
from fathom.engine.scoring.slots import (
    CandidateTokens,
    MaskCount,
    Slot,
    SlotPooling,
    SlotScoring,
    encode_slots,
    pair_scores,
    slot_scores,
    spelled_mask,
    subjects_unknown,
)
from fathom.engine.scoring.statements import Likelihood, text_likelihoods
from fathom.engine.scoring.tokens import context_of, only_unknown, tokens_in_place, unknown_reason
from fathom.probes.base import Answered, Facts, Shard, ShardedProbe, shards_of, too_long
from fathom.probes.options import SlotOptions
from fathom.store.files import write_text
from fathom.store.predictions import NO_TEMPLATE, Scoring

SHARD_QUERIES = 256
SHARD_SCORES = 4_000_000
"""Scores held at a time: candidates × queries of a shard."""
TOP = 10
START = "start"
"""In place of the text before a slot, for one that begins the prompt: names in lower case get a capital."""


NO_ESTIMATE = "the time of training templates cannot be estimated"
"""Why a dry run of learnt templates has no numbers."""


class SlotQuery(NamedTuple):
    """:param before: text before the slot, as far as names' tokens depend on it, or :data:`START`.
    :param number: of the phrasing."""

    query: Query
    slot: Slot
    before: str
    number: int = 0


class SlotProbe(ShardedProbe):
    """Base class of probes that fill slots.

    :raises BadInput: a model without masks, relations without a sentence, templates that they do not have.
    """

    name = "cloze"

    def __init__(self, options: SlotOptions, model: Model, queryset: QuerySet) -> None:
        if not self._fills_slots(model):
            raise BadInput(
                f"the {self.name} probe needs a masked model; '{model.identity.name}' is {model.attention}: "
                + self._alternative(options, model)
            )
        super().__init__(options, model, queryset)
        self.options = options
        self.form = form_for(model, options.form)
        self.sign = stand_in(model.tokenizer, self.form) if self._is_seq2seq else str(model.tokenizer.mask_token)
        if self._is_seq2seq and self.form is Form.SPLIT:
            raise BadInput("the cloze probe needs a mask token or <extra_id_0>: use the statement probe")
        if self._is_seq2seq and "one" in options.masks:
            raise BadInput("--masks one: an encoder-decoder writes candidates of any length; use --masks several")
        self.ways = [
            SlotScoring(MaskCount(masks), SlotPooling(pooling))
            for masks in options.masks
            for pooling in options.reduction
        ]
        self.scorings = tuple(
            Scoring(way.name, "nats", (("masks", way.masks), ("pooling", way.pooling))) for way in self.ways
        )
        self._check_sentences()
        self._passes = 0
        self._names = cache(self._tokenised)

    @classmethod
    def _fills_slots(cls, model: Model) -> bool:
        return model.attention is Attention.BIDIRECTIONAL and model.tokenizer.mask_token_id is not None

    @property
    def _is_seq2seq(self) -> bool:
        return self.model.attention is Attention.SEQ2SEQ

    @staticmethod
    def _alternative(options: SlotOptions, model: Model) -> str:
        """Return what to do with a model without masks."""
        return f"use the statement probe, --pool {options.pool or 'relation'} gives it the same candidates"

    def prepare(self, artifacts: Path, progress: Progress) -> None:
        lines = [
            f"{name}\t{space.ids[place]}\t{' '.join(space.names[place].split())}\t{reason}"
            for name, space in self._spaces().items()
            for reason, places in self._excluded(name).items()
            for place in places
        ]
        if lines:
            write_text(artifacts / "excluded.tsv", "\n".join(["set\tid\tname\treason", *lines]) + "\n")

    def circumstances(self) -> Facts:
        return {**super().circumstances(), "sequences": self._passes}

    def _notes(self) -> list[str]:
        notes = super()._notes()
        for name in self._spaces():
            names = self._names(name, " ")
            if excluded := self._excluded(name):
                count = int((names.lengths == 0).sum())
                reasons = ", ".join(f"{len(places)} × {reason}" for reason, places in excluded.items())
                notes.append(f"excluded {name}: {count} of {len(names)} candidates: {reasons}")
            if names.twins:
                tied = f"{names.twins} of {len(names)} candidates: each has the same tokens as another"
                notes.append(f"tied {name}: {tied}")
        return notes

    def _answered(self, shard: Shard) -> Answered:
        number, space = shard.template, self.queryset.candidates[shard.space]
        slots, reasons = self._sentences(shard.queries, number, space)
        columns = self._columns(slots, space)
        likelihoods = self._likelihoods(slots, number, space)
        ranked = self._names(space.name, " ").lengths > 0
        count, others = int(ranked.sum()), unranked_digest(space, ranked)
        for query in shard.queries:
            prompt = None if number == NO_TEMPLATE else self._prompt(query, number, ANSWER)
            asked = PromptedQuery(query, number, prompt, count, likelihoods.get(query.id), others)
            yield asked, reasons.get(query.id) or columns[query.id]

    def _check_sentences(self) -> None:
        faults = self.queryset.template_faults(self.options.templates)
        bare = {
            query.relation
            for query in self.queryset.queries
            if not query.unscored and not self.queryset.phrasings(query)
        }
        faults += [
            f"relation {relation} has no sentence to put a mask in: write one (docs/data-format.md), or use the "
            "vocabulary, embedding or statement probe"
            for relation in self.queryset.relations
            if relation in bare
        ]
        refuse(faults)

    def _cut(self) -> Iterator[Shard]:
        for name, space in self._spaces().items():
            alike = [query for query in self.queryset.queries if query.candidates == name]
            size = max(1, min(SHARD_QUERIES, SHARD_SCORES // max(1, len(space))))
            for number, asked in self.queryset.by_phrasing(alike, self.options.templates).items():
                yield from shards_of(number, asked, size)

    def _spaces(self) -> dict[str, CandidateSet]:
        used = dict.fromkeys(query.candidates for query in self.queryset.queries)
        return {name: self.queryset.candidates[name] for name in used}

    def _tokenised(self, space: str, before: str) -> CandidateTokens:
        """:param before: from :func:`context_of`, or :data:`START`."""
        names = self.queryset.candidates[space].names
        if before == START and self.options.capitalize:
            names = tuple(capitalized(name) if name.islower() else name for name in names)
        tokens = tokens_in_place(self.model.tokenizer, names, "" if before == START else before)
        return CandidateTokens(tokens, only_unknown(self.model.tokenizer, tokens))

    def _excluded(self, space: str) -> dict[str, list[int]]:
        names = self._names(space, " ")
        excluded = {
            "no tokens": np.flatnonzero((names.lengths == 0) & ~names.unknown).tolist(),
            unknown_reason(self.model.tokenizer): np.flatnonzero(names.unknown).tolist(),
        }
        return {reason: places for reason, places in excluded.items() if places}

    def _prompt(self, query: Query, number: int, answer: str) -> str:
        template = self.queryset.phrasings(query)[number]
        return template.fill(query.subject, answer, capitalize=self.options.capitalize).text

    def _sentences(
        self, queries: Sequence[Query], number: int, space: CandidateSet
    ) -> tuple[list[SlotQuery], dict[str, str]]:
        """Encode the sentences; return their slots, and the reasons for unscored queries."""
        reasons = {query.id: reason for query in queries if (reason := unrankable(query, space)) is not None}
        askable = [query for query in queries if query.id not in reasons]
        mask = self.sign
        prompts = [
            self.queryset.phrasings(query)[number].fill(query.subject, mask, capitalize=self.options.capitalize)
            for query in askable
        ]
        encoded = []
        slots = self._encoded(askable, prompts)
        unknown = subjects_unknown(self.model.tokenizer, prompts, slots)
        for query, prompt, slot, strange in zip(askable, prompts, slots, unknown, strict=True):
            if slot is None:
                reasons[query.id] = f"the sentence has {len(prompt.answer)} slots for the answer, a cloze has one"
                continue
            at = prompt.answer[0].start
            before = context_of(prompt.text[:at]) if at else START
            names = self._names(space.name, before)
            if fault := spelled_mask(prompt, mask) or self._fault(query, slot, names, space):
                reasons[query.id] = fault
            elif strange:
                reasons[query.id] = f"the subject {unknown_reason(self.model.tokenizer)}"
            else:
                encoded.append(SlotQuery(query, slot, before, number))
        return encoded, reasons

    def _encoded(self, queries: Sequence[Query], prompts: Sequence[Prompt]) -> list[Slot | None]:
        return encode_slots(self.model.tokenizer, prompts, sign=self.sign)

    def _fault(self, query: Query, slot: Slot, names: CandidateTokens, space: CandidateSet) -> str | None:
        gold = space.places(query.gold)
        if not names.lengths[gold].any():
            why = unknown_reason(self.model.tokenizer) if names.unknown[gold].any() else "has no tokens"
            return f"the gold answer {why}"
        return too_long("a prompt", slot.tokens(max(names.masks(self.ways))), self.model)

    def _columns(self, items: Sequence[SlotQuery], space: CandidateSet) -> dict[str, list[Columns]]:
        columns: dict[str, list[Columns]] = {}
        for before in dict.fromkeys(item.before for item in items):
            alike = [item for item in items if item.before == before]
            names = self._names(space.name, before)
            scores = self._scored(alike, names)
            for row, item in enumerate(alike):
                columns[item.query.id] = [self._answer(item.query, space, names, line) for line in scores[:, row]]
        return columns

    def _scored(self, items: Sequence[SlotQuery], names: CandidateTokens) -> NDArray[np.float32]:
        """Score all candidates, shape (ways, items, candidates)."""
        return self._slot_scores([item.slot for item in items], names)

    def _slot_scores(self, slots: Sequence[Slot], names: CandidateTokens) -> NDArray[np.float32]:
        """Score all candidates, shape (ways, slots, candidates)."""
        self._passes += len(set(slots)) * len(names.masks(self.ways))
        if isinstance(self.model, EncoderDecoder):
            return pair_scores(self.model, slots, names, self.ways, self.budget, self.form)
        return slot_scores(self.model, slots, names, self.ways, self.budget)

    def _likelihoods(self, items: Sequence[SlotQuery], number: int, space: CandidateSet) -> dict[str, Likelihood]:
        """Score each sentence with its first gold answer, for ``--perplexity``."""
        if not self.options.perplexity:
            return {}
        texts = [self._prompt(item.query, number, space.name_of(item.query.gold[0])) for item in items]
        likelihoods = text_likelihoods(self.model, texts, None, self.budget)
        return {item.query.id: likelihood for item, likelihood in zip(items, likelihoods, strict=True)}

    def _answer(
        self, query: Query, space: CandidateSet, names: CandidateTokens, scores: NDArray[np.float32]
    ) -> Columns:
        gold_tokens = names.lengths[space.places(query.gold)].tolist()
        return score_columns(query, space, scores, gold_tokens, names.lengths, top_k=TOP, ranked=names.lengths > 0)
