"""The embedding probe (DEER, Jinno et al.): which candidate's vector is nearest to the query's?

Each query becomes a few-shot prompt and each candidate a text that asks for one word. Their last hidden vectors, the
input of the language-model head, are compared by cosine. Queries and candidates run once each, so time grows with their
sum; descriptions distinguish candidates of the same name. See docs/methods/embedding.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from pathlib import Path

import numpy as np
from torch import Tensor

from fathom.base.errors import BadInput, all_of, refuse
from fathom.base.progress import Progress
from fathom.data.prompts.wording import FewShot
from fathom.data.queries import CandidateSet, Query, QuerySet, unrankable
from fathom.engine.models.base import Attention, Model
from fathom.engine.scoring.rows import Columns, PromptedQuery, RankResult, digest, result_columns
from fathom.engine.scoring.tokens import Bos, resolve_bos
from fathom.engine.scoring.vectors import (
    Pooling,
    VectorSpace,
    encode_texts,
    rank_by_cosine,
    resolve_pooling,
    text_vectors,
)
from fathom.probes.base import Answered, Facts, Shard, ShardedProbe, few_shot_lines, shards_of, too_long
from fathom.probes.options import EmbeddingOptions
from fathom.store.files import write_json
from fathom.store.predictions import KEEP_SCORES_UP_TO, NO_TEMPLATE, Scoring
from fathom.store.vectors import VectorStore

SHARD_QUERIES = 1024
TOP = 10
AROUND = 8
"""Most special tokens around a text."""

TAIL_TEMPLATES = {
    "deer": '{name} - {description}\nThis sentence: "{word}" means in one word: "{one word}"\n'
    'This sentence: "{name}" means in one word: "',
    "A": 'entity: "{name}", description: "{description}"\nSummarize the entity: "{name}" in one word: "',
    "B": '<"{name}": "{description}">\nIn one word, "{name}" means: "',
    "C": '["{name}", "{description}"]\nSummarize the meaning of {{name}} in one word {',
}
"""Figures 2 and 12 to 14 of the paper. ``{word}``, ``{one word}`` and the braces of C are literal text. Quotes are
straight, as in the authors' code; the figures show typographic ones."""
_SLOT = re.compile(r"\{(name|description)\}")
NO_DESCRIPTION, NO_DESCRIPTIONS = "-", "_"
"""For an entity without one, and if no entity has any (section 5.2.2)."""


def tail_template(template: str) -> str:
    """Return the template by its name, or a text. :raises BadInput: no such template, or a text without ``{name}``."""
    if template in TAIL_TEMPLATES:
        return TAIL_TEMPLATES[template]
    if "{name}" not in template:
        names = ", ".join(TAIL_TEMPLATES)
        raise BadInput(f"--tail-template {template}: expected {names}, or a text with {{name}}; found neither")
    return template.replace("\\n", "\n")


def tail_prompt(template: str, name: str, description: str | None) -> str:
    """Return a candidate's text. :param description: "" for none, None if no candidate has any."""
    text = NO_DESCRIPTIONS if description is None else description or NO_DESCRIPTION
    return _SLOT.sub(lambda slot: name if slot[1] == "name" else text, template)


class EmbeddingProbe(ShardedProbe):
    """See :mod:`fathom.probes.embedding`.

    :raises BadInput: data without a graph or with too few triples, a tail template without a name, BOS for a tokenizer
        without one, a pooling that the model does not have.
    """

    scorings = (Scoring("cosine", "cosine"),)
    needs_head = False

    def __init__(self, options: EmbeddingOptions, model: Model, queryset: QuerySet) -> None:
        if model.attention is Attention.SEQ2SEQ:
            raise BadInput("the embedding probe needs a causal model or an encoder, not an encoder-decoder")
        refuse(queryset.subject_faults("embedding"))
        super().__init__(options, model, queryset)
        self.template: str
        self.pooling: Pooling
        self.bos: int | None
        self.few_shot: FewShot
        self.template, self.pooling, self.bos, self.few_shot = all_of(
            lambda: tail_template(options.tail_template),
            lambda: resolve_pooling(model, options.pooling),
            lambda: resolve_bos(model.tokenizer, Bos(options.bos)) if model.attention is Attention.CAUSAL else None,
            lambda: few_shot_lines(options, queryset),
        )
        self.shortens = options.shorten
        self._texts = cache(self._texts_of)
        self._spaces: dict[str, VectorSpace] = {}
        self._encoded = 0
        self._without: dict[str, list[str]] = {}
        self._shortened: dict[str, list[str]] = {}

    def resolved(self) -> Facts:
        return {**super().resolved(), "tail_template": self.template, "pooling": str(self.pooling)}

    @cached_property
    def _used(self) -> list[CandidateSet]:
        return [
            self.queryset.candidates[name] for name in dict.fromkeys(shard.space for shard in self._shards.values())
        ]

    @cached_property
    def _distinct(self) -> list[str]:
        return sorted({text for space in self._used for text in self._texts(space.name)})

    def pieces(self, artifacts: Path) -> list[str]:
        store = VectorStore(artifacts, len(self._distinct))
        return [store.file(piece).name for piece in range(store.pieces) if not store.has(piece)]

    def make_piece(self, artifacts: Path, name: str) -> None:
        store = VectorStore(artifacts, len(self._distinct))
        rows = store.rows_of(store.piece_of(name))
        store.write(store.piece_of(name), self._vectors(self._distinct[rows.start : rows.stop]).float().cpu().numpy())
        self._encoded += len(rows)

    def prepare(self, artifacts: Path, progress: Progress) -> None:
        """Encode the candidate texts that have no vector yet, and open all vectors."""
        missing = self.pieces(artifacts)
        for number, piece in enumerate(missing):
            progress(number, len(missing))
            self.make_piece(artifacts, piece)
        texts = self._distinct
        store = VectorStore(artifacts, len(texts))
        if self._encoded < len(texts):  # some were on disk
            store.refuse_width(int(self._vectors(texts[:1]).shape[1]))
        row = {text: number for number, text in enumerate(texts)}
        lost = set(store.not_a_number())
        for space in self._used:
            rows_of_space = np.array([row[text] for text in self._texts(space.name)], dtype=np.int64)
            self._spaces[space.name] = VectorSpace(rows_of_space, store.take)
            without = [id_ for id_, number in zip(space.ids, rows_of_space.tolist(), strict=True) if number in lost]
            if without:
                self._without[space.name] = without
        for file, listed in (("not_encoded.json", self._without), ("shortened.json", self._shortened)):
            if listed:
                write_json(artifacts / file, listed)

    def _vectors(self, texts: Sequence[str]) -> Tensor:
        return text_vectors(self.model, texts, self.bos, self.pooling, self.budget).vectors

    def circumstances(self) -> Facts:
        described = [text for space in self._used for text in space.descriptions or ()]
        texts = f"{sum(map(bool, described))} of {sum(map(len, self._used))} candidates"
        return {"encoded_candidate_texts": self._encoded, "descriptions": texts, **super().circumstances()}

    def _notes(self) -> list[str]:
        kinds = (("not encoded", self._without, "no vector"), ("shortened", self._shortened, "descriptions cut to fit"))
        notes = super()._notes()
        notes += [
            f"{kind} {name}: {len(listed)} of {len(self.queryset.candidates[name])} candidates: {why}"
            for kind, of_space, why in kinds
            for name, listed in of_space.items()
        ]
        if self.model.pooling is not None:
            notes.append(f"pooling {self.pooling}; the model was trained with {self.model.pooling}")
        return notes

    def _answered(self, shard: Shard) -> Answered:
        queries, candidates = shard.queries, self.queryset.candidates[shard.space]
        questions = [self.few_shot.question(query) for query in queries]
        reasons = [
            question.unscored or unrankable(query, candidates)
            for query, question in zip(queries, questions, strict=True)
        ]
        rankable = [number for number, reason in enumerate(reasons) if reason is None]
        encoded = text_vectors(
            self.model, [questions[number].prompt for number in rankable], self.bos, self.pooling, self.budget
        )
        for number, fault in zip(rankable, encoded.faults, strict=True):
            reasons[number] = fault
        good = [row for row, fault in enumerate(encoded.faults) if fault is None]
        ranked = [queries[rankable[row]] for row in good]
        ranks = iter(self._rank(encoded.vectors[good], ranked, candidates) if good else [])
        count = len(candidates) - len(self._without.get(shard.space, ()))
        without = digest(self._without.get(shard.space, ()))
        for query, question, reason in zip(queries, questions, reasons, strict=True):
            prompt = question.prompt + "[Y]" if question.prompt else None
            asked = PromptedQuery(query, NO_TEMPLATE, prompt, count, not_ranked=without)
            yield asked, reason or [self._answer(query, candidates, next(ranks))]

    def _cut(self) -> Iterator[Shard]:
        by_space: dict[str, list[Query]] = {}
        for query in self.queryset.queries:
            by_space.setdefault(query.candidates, []).append(query)
        for alike in by_space.values():
            yield from shards_of(NO_TEMPLATE, alike, SHARD_QUERIES)

    def _texts_of(self, space: str) -> list[str]:
        """Return the text of each candidate, its description shortened to fit the model's window."""
        candidates = self.queryset.candidates[space]
        descriptions = candidates.descriptions or (None,) * len(candidates)
        pairs = list(zip(candidates.names, descriptions, strict=True))
        texts = [tail_prompt(self.template, name, description) for name, description in pairs]
        window = self.model.max_tokens
        if not self.shortens or window is None:
            return texts
        for place, ((name, description), text) in enumerate(zip(pairs, texts, strict=True)):
            # A text never has more tokens than bytes, apart from special tokens.
            if description and len(text.encode()) > window - AROUND and self._length(text) > window:
                texts[place] = self._shorter(name, description, window)
                self._shortened.setdefault(space, []).append(candidates.ids[place])
        return texts

    def _shorter(self, name: str, description: str, window: int) -> str:
        """Keep as many of the description's first tokens as fit; none if the name alone does not."""
        ends = self.model.tokenizer(description, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        offsets = ends["offset_mapping"]
        count, text = len(offsets), tail_prompt(self.template, name, description)
        while count > 0 and (over := self._length(text) - window) > 0:
            count = max(0, count - over)
            text = tail_prompt(self.template, name, description[: offsets[count - 1][1]].rstrip() if count else "")
        return text

    def _length(self, text: str) -> int:
        return len(encode_texts(self.model, [text], self.bos)[0])

    def _rank(self, vectors: Tensor, queries: Sequence[Query], space: CandidateSet) -> list[RankResult]:
        return rank_by_cosine(
            vectors,
            self._spaces[space.name],
            [space.places(query.gold) for query in queries],
            [space.places(query.known) for query in queries],
            top=TOP,
            keep_scores=len(space) <= KEEP_SCORES_UP_TO and space.name not in self._without,
        )

    def _answer(self, query: Query, space: CandidateSet, found: RankResult) -> Columns:
        found.top = sorted(found.top, key=lambda pair: (-pair[1], space.ids[pair[0]]))[:TOP]
        if found.ranks is None:
            found.gold_ranks, found.unscored = [], self._why_no_vector(query, space)
        names = [space.name_of(answer) for answer in query.gold]
        tokens = self.model.tokenizer(names, add_special_tokens=False, verbose=False)["input_ids"]
        return result_columns(found, space) | {"gold_tokens": [len(ids) for ids in tokens]}

    def _why_no_vector(self, query: Query, space: CandidateSet) -> str:
        length = self._length(self._texts(space.name)[space.position[query.gold[0]]])
        fault = too_long("the gold answer's prompt", length, self.model)
        return fault or "the model gave the gold answer a vector that is not a number"
