"""The embedding probe (DEER, Jinno et al.): whose vector is nearest to the question's?

Each query becomes a few-shot prompt and each candidate a text that asks for one word; their last hidden vectors, the
ones that the language-model head sees, are compared by cosine. Queries and candidates are run once each, so time grows
with their sum, and candidates of one name are told apart by their descriptions. See docs/methods/embedding.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fathom.data.queries import CandidateSet, Query, QuerySet, unrankable
from fathom.errors import BadInput, all_of, refuse
from fathom.models.base import Attention, Model
from fathom.probes.base import Answered, Facts, Shard, ShardedProbe, few_shot_lines, shards_of
from fathom.probes.options import EmbeddingOptions
from fathom.progress import Progress
from fathom.prompts.wording import FewShot
from fathom.reading import Unreadable, read_text, stands
from fathom.scoring.rows import Asked, Columns, Found, digest, of_found
from fathom.scoring.similarity import Space, rank_by_cosine
from fathom.scoring.tokens import Bos, resolve_bos
from fathom.scoring.vectors import Pooling, encode_texts, resolve_pooling, text_vectors
from fathom.store.files import write_json
from fathom.store.predictions import KEEP_SCORES_UP_TO, NO_TEMPLATE, Scoring
from fathom.store.vectors import VectorStore

SHARD_QUERIES = 1024
TOP = 10
AROUND = 8
"""At most so many special tokens stand around a text."""

TAIL_TEMPLATES = {
    "deer": '{name} - {description}\nThis sentence: "{word}" means in one word: "{one word}"\n'
    'This sentence: "{name}" means in one word: "',
    "A": 'entity: "{name}", description: "{description}"\nSummarize the entity: "{name}" in one word: "',
    "B": '<"{name}": "{description}">\nIn one word, "{name}" means: "',
    "C": '["{name}", "{description}"]\nSummarize the meaning of {{name}} in one word {',
}
"""Figures 2 and 12 to 14 of the paper. ``{word}``, ``{one word}`` and the braces of C are literal text. The figures are
typeset with typographic quotes; the authors' published code has straight ones, and so have these."""
_SLOT = re.compile(r"\{(name|description)\}")
NO_DESCRIPTION, NO_DESCRIPTIONS = "-", "_"
"""For an entity without one, and where no entity has any (section 5.2.2)."""


def tail_template(asked: str) -> str:
    """The text that ``--tail-template`` means.

    :raises BadInput: no name, text or file, or one without ``{name}``.
    """
    if asked in TAIL_TEMPLATES:
        return TAIL_TEMPLATES[asked]
    text, file = asked.replace("\\n", "\n"), Path(asked)
    if "{name}" not in asked:
        if not stands(file):
            raise BadInput(
                f"--tail-template {asked}: expected {', '.join(TAIL_TEMPLATES)}, a text with {{name}}, or a file; "
                "found neither"
            )
        try:
            text = read_text(file).removesuffix("\n")
        except Unreadable as error:
            raise BadInput(f"--tail-template {error}") from error
        if "{name}" not in text:
            raise BadInput(f"--tail-template {file}: write {{name}} where the candidate's name stands, found {text!r}")
    return text


def tail_prompt(template: str, name: str, description: str | None) -> str:
    """:param description: "" for none, None where no candidate has any."""
    said = NO_DESCRIPTIONS if description is None else description or NO_DESCRIPTION
    return _SLOT.sub(lambda slot: name if slot[1] == "name" else said, template)


class EmbeddingProbe(ShardedProbe):
    """See :class:`fathom.probes.base.Probe`.

    :raises BadInput: data without a graph or with too few triples, a tail template without a name, BOS asked of a
        tokenizer without one, a pooling that the model has not.
    """

    scorings = (Scoring("cosine", "cosine"),)

    def __init__(self, options: EmbeddingOptions, model: Model, queryset: QuerySet) -> None:
        if model.attention is Attention.SEQ2SEQ:
            raise BadInput("the embedding probe needs a causal model or an encoder; this one is an encoder-decoder")
        refuse(queryset.without_subjects("embedding"))
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
        self._spaces: dict[str, Space] = {}
        self._encoded = 0
        self._without: dict[str, list[str]] = {}
        self._shortened: dict[str, list[str]] = {}

    def resolved(self) -> Facts:
        """With the candidates' wording and the pooling."""
        return {**super().resolved(), "tail_template": self.template, "pooling": str(self.pooling)}

    @cached_property
    def _used(self) -> list[CandidateSet]:
        return [self.queryset.candidates[name] for name in dict.fromkeys(one.space for one in self._shards.values())]

    @cached_property
    def _distinct(self) -> list[str]:
        """Every distinct candidate text, of all answer spaces together."""
        return sorted({text for space in self._used for text in self._texts(space.name)})

    def pieces(self, artifacts: Path) -> list[str]:
        """See :meth:`fathom.probes.base.Probe.pieces`: vectors of candidates, so many at a time."""
        store = VectorStore(artifacts, len(self._distinct))
        return [store.file(piece).name for piece in range(store.pieces) if not store.has(piece)]

    def make_piece(self, artifacts: Path, name: str) -> None:
        """See :meth:`fathom.probes.base.Probe.make_piece`."""
        store = VectorStore(artifacts, len(self._distinct))
        rows = store.rows_of(store.piece_of(name))
        store.write(store.piece_of(name), self._vectors(self._distinct[rows.start : rows.stop]).float().cpu().numpy())
        self._encoded += len(rows)

    def prepare(self, artifacts: Path, progress: Progress) -> None:
        """Encode every candidate text that is not encoded yet, and read them all."""
        missing = self.pieces(artifacts)
        for number, piece in enumerate(missing):
            progress(number, len(missing))
            self.make_piece(artifacts, piece)
        texts = self._distinct
        store = VectorStore(artifacts, len(texts))
        if self._encoded < len(texts):  # the disk had some
            store.refuse_width(int(self._vectors(texts[:1]).shape[1]))
        row = {text: number for number, text in enumerate(texts)}
        lost = set(store.not_a_number())
        for space in self._used:
            rows_of_space = np.array([row[text] for text in self._texts(space.name)], dtype=np.int64)
            self._spaces[space.name] = Space(rows_of_space, store.take)
            without = [id_ for id_, number in zip(space.ids, rows_of_space.tolist(), strict=True) if number in lost]
            if without:
                self._without[space.name] = without
        for file, listed in (("not_encoded.json", self._without), ("shortened.json", self._shortened)):
            if listed:
                write_json(artifacts / file, listed)

    def _vectors(self, texts: Sequence[str]) -> Any:
        """Shape (texts, width)."""
        return text_vectors(self.model, texts, self.bos, self.pooling, self.budget).vectors

    def circumstances(self) -> Facts:
        """Also what was encoded, and notes on candidates that have no vector, or one of a shorter text."""
        noted: Facts = {"encoded_candidate_texts": self._encoded, **super().circumstances()}
        kinds = (("not encoded", self._without, "no vector"), ("shortened", self._shortened, "descriptions cut to fit"))
        notes = [
            f"{kind} {name}: {len(listed)} of {len(self.queryset.candidates[name])} candidates: {why}"
            for kind, of_space, why in kinds
            for name, listed in of_space.items()
        ]
        return noted | ({"notes": notes} if notes else {})

    def _answered(self, shard: Shard) -> Answered:
        queries, candidates = shard.queries, self.queryset.candidates[shard.space]
        questions = [self.few_shot.question(query) for query in queries]
        reasons = [
            question.unscored or unrankable(query, candidates)
            for query, question in zip(queries, questions, strict=True)
        ]
        asked = [number for number, reason in enumerate(reasons) if reason is None]
        encoded = text_vectors(
            self.model, [questions[number].prompt for number in asked], self.bos, self.pooling, self.budget
        )
        for number, fault in zip(asked, encoded.faults, strict=True):
            reasons[number] = fault
        good = [row for row, fault in enumerate(encoded.faults) if fault is None]
        ranked = [queries[asked[row]] for row in good]
        found = iter(self._rank(encoded.vectors[good], ranked, candidates) if good else [])
        count = len(candidates) - len(self._without.get(shard.space, ()))
        without = digest(self._without.get(shard.space, ()))
        for query, question, reason in zip(queries, questions, reasons, strict=True):
            prompt = question.prompt + "[Y]" if question.prompt else None
            one = Asked(query, NO_TEMPLATE, prompt, count, not_ranked=without)
            yield one, reason or [self._answer(query, candidates, next(found))]

    def _cut(self) -> Iterator[Shard]:
        """By candidate set, in pieces of a size to lose."""
        by_space: dict[str, list[Query]] = {}
        for query in self.queryset.queries:
            by_space.setdefault(query.candidates, []).append(query)
        for alike in by_space.values():
            yield from shards_of(NO_TEMPLATE, alike, SHARD_QUERIES)

    def _texts_of(self, space: str) -> list[str]:
        """The text of each candidate; what does not fit the model's window with a shorter description."""
        candidates = self.queryset.candidates[space]
        descriptions = candidates.descriptions or (None,) * len(candidates)
        pairs = list(zip(candidates.names, descriptions, strict=True))
        texts = [tail_prompt(self.template, name, description) for name, description in pairs]
        window = self.model.max_tokens
        if not self.shortens or window is None:
            return texts
        for place, ((name, description), text) in enumerate(zip(pairs, texts, strict=True)):
            # No tokenizer makes more tokens of a text than it has bytes, but for those it puts around it.
            if description and len(text.encode()) > window - AROUND and self._length(text) > window:
                texts[place] = self._shorter(name, description, window)
                self._shortened.setdefault(space, []).append(candidates.ids[place])
        return texts

    def _shorter(self, name: str, description: str, window: int) -> str:
        """With as many of the description's first tokens as fit; none where its name alone does not."""
        ends = self.model.tokenizer(description, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        offsets = ends["offset_mapping"]
        kept, text = len(offsets), tail_prompt(self.template, name, description)
        while kept > 0 and (over := self._length(text) - window) > 0:
            kept = max(0, kept - over)
            text = tail_prompt(self.template, name, description[: offsets[kept - 1][1]].rstrip() if kept else "")
        return text

    def _length(self, text: str) -> int:
        return len(encode_texts(self.model, [text], self.bos)[0])

    def _rank(self, vectors: Any, queries: Sequence[Query], space: CandidateSet) -> list[Found]:
        return rank_by_cosine(
            vectors,
            self._spaces[space.name],
            [space.places(query.gold) for query in queries],
            [space.places(query.known) for query in queries],
            top=TOP,
            keep_scores=len(space) <= KEEP_SCORES_UP_TO and space.name not in self._without,
        )

    def _answer(self, query: Query, space: CandidateSet, found: Found) -> Columns:
        found.top = sorted(found.top, key=lambda pair: (-pair[1], space.ids[pair[0]]))[:TOP]
        if found.ranks is None:
            found.gold_ranks, found.unscored = [], self._why_no_vector(query, space)
        names = [space.name_of(answer) for answer in query.gold]
        tokens = self.model.tokenizer(names, add_special_tokens=False, verbose=False)["input_ids"]
        return of_found(found, space) | {"gold_tokens": [len(ids) for ids in tokens]}

    def _why_no_vector(self, query: Query, space: CandidateSet) -> str:
        length, window = self._length(self._texts(space.name)[space.position[query.gold[0]]]), self.model.max_tokens
        if window is not None and length > window:
            return f"the gold answer's prompt of {length} tokens is longer than the model's window of {window}"
        return "the model gave the gold answer a vector that is not a number"
