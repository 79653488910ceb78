"""The vocabulary probe (LAMA, Petroni et al. 2019): which answer is the likeliest next, or masked, token?

Only names of one token can be ranked; the others are counted and listed. Causal models complete a few-shot prompt, with
the head on the last token's state, the vector of the embedding probe. Masked models fill the relation's template, or
the few-shot line if it has none. See docs/methods/vocabulary.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from fathom.base.errors import BadInput, refuse
from fathom.base.progress import Progress
from fathom.data.prompts.wording import completed
from fathom.data.queries import CandidateSet, Query, QuerySet, unrankable
from fathom.data.templates import ANSWER, Prompt, Span
from fathom.engine.models.base import Attention, Model
from fathom.engine.models.encoder_decoder import EncoderDecoder
from fathom.engine.models.likelihoods import LikelihoodServer, Text
from fathom.engine.scoring.memory import same_token_log_probs
from fathom.engine.scoring.rows import Columns, PromptedQuery, score_columns, unranked_digest
from fathom.engine.scoring.seq2seq import Form, as_pair, form_for, stand_in, tokens_at_answer
from fathom.engine.scoring.slots import spelled_mask
from fathom.engine.scoring.tokens import (
    Bos,
    Role,
    Tokens,
    encode_causal,
    encode_masked,
    name_tokens,
    resolve_bos,
    single_tokens,
)
from fathom.engine.scoring.vectors import Pooling, states_at, text_vectors
from fathom.probes.base import (
    FEW_SHOT_OPTIONS,
    NO_LINES,
    Answered,
    Facts,
    Shard,
    ShardedProbe,
    few_shot_lines,
    shards_of,
    too_long,
)
from fathom.probes.options import VocabularyOptions
from fathom.store.files import write_text
from fathom.store.predictions import NO_TEMPLATE, Scoring

SHARD_QUERIES = 1024
TOP = 10


@dataclass(frozen=True)
class _Vocabulary:
    """The rankable part of a candidate set.

    :param ranked: whether each candidate is one token, shape (candidates,).
    :param tokens: these tokens, distinct, shape (t,).
    :param column: for each ranked candidate, the column of its token in *tokens*.
    :param lengths: tokens of each name in its place, shape (candidates,).
    """

    ranked: NDArray[np.bool_]
    tokens: NDArray[np.int64]
    column: NDArray[np.int64]
    lengths: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.column)


class _TokenScores(NamedTuple):
    """Scores of tokens in the answer's place of each prompt.

    :param scores: log-probabilities in nats, float32, shape (prompts, tokens).
    :param faults: why a prompt has none, or None.
    """

    scores: torch.Tensor
    faults: list[str | None]


class VocabularyProbe(ShardedProbe):
    """See :mod:`fathom.probes.vocabulary`.

    :raises BadInput: unknown templates, or templates for a causal model; no graph to draw few-shot lines from; BOS for
        a tokenizer without one.
    """

    scorings = (Scoring("token", "nats"),)

    def __init__(self, options: VocabularyOptions, model: Model, queryset: QuerySet) -> None:
        refuse(queryset.subject_faults("vocabulary"))
        super().__init__(options, model, queryset)
        self.options = options
        self.causal = model.attention is Attention.CAUSAL
        self.form = form_for(model, options.form)
        self.bos = resolve_bos(model.tokenizer, Bos(options.bos)) if self.causal else None
        if self.causal and options.templates:
            raise BadInput("--templates: causal models use few-shot prompts, not templates; remove it")
        heads = [] if self.causal else queryset.head_faults()
        refuse(queryset.template_faults(options.templates) + heads)
        needs_lines = any(shard.template == NO_TEMPLATE for shard in self._shards.values())
        self.few_shot = few_shot_lines(options, queryset) if needs_lines else None
        self._vocabularies: dict[tuple[str, bool], _Vocabulary] = {}

    may_idle = (*FEW_SHOT_OPTIONS, "bos")

    def idle(self) -> Mapping[str, str]:
        idle = {} if self.causal else {"bos": "it concerns causal models"}
        return idle | (dict.fromkeys(FEW_SHOT_OPTIONS, NO_LINES) if self.few_shot is None else {})

    def prepare(self, artifacts: Path, progress: Progress) -> None:
        super().prepare(artifacts, progress)
        lines = ["set\tleading_space\tid\tname\ttokens"]
        for name, spaced in self._used():
            space, vocabulary = self.queryset.candidates[name], self._vocabulary(name, spaced)
            for place in np.flatnonzero(~vocabulary.ranked).tolist():
                text = " ".join(space.names[place].split())
                fields = (name, str(spaced).lower(), space.ids[place], text, str(vocabulary.lengths[place]))
                lines.append("\t".join(fields))
        write_text(artifacts / "excluded.tsv", "\n".join(lines) + "\n")

    def circumstances(self) -> Facts:
        noted = super().circumstances()
        for name, spaced in self._used():
            total = len(self.queryset.candidates[name])
            ranked = len(self._vocabulary(name, spaced))
            how = "" if self.causal else f" {'with' if spaced else 'without'} a leading space"
            noted[f"excluded {name}"] = f"{total - ranked} of {total} candidates: not one token{how}"
        return noted

    def _answered(self, shard: Shard) -> Answered:
        template, queries = shard
        space = self.queryset.candidates[shard.space]
        vocabulary = self._vocabulary(space.name, self._spaced(shard))
        prompts, reasons = self._prompts(queries, template)
        mark = self._mark()
        reasons = [
            reason or (spelled_mask(prompt, mark) if mark else None) or self._no_gold(query, space, vocabulary)
            for query, prompt, reason in zip(queries, prompts, reasons, strict=True)
        ]
        rankable = [number for number, reason in enumerate(reasons) if reason is None]
        with torch.inference_mode():
            tokens = torch.from_numpy(vocabulary.tokens).to(self.model.device)
            scored = self._scored([prompts[number] for number in rankable], tokens)
        scores = scored.scores.cpu().numpy()
        for number, fault in zip(rankable, scored.faults, strict=True):
            reasons[number] = fault
        row_of = {number: row for row, number in enumerate(rankable)}
        others = unranked_digest(space, vocabulary.ranked)
        for number, (query, prompt, reason) in enumerate(zip(queries, prompts, reasons, strict=True)):
            shown = _shown(prompt) if prompt.text else None
            asked = PromptedQuery(query, template, shown, len(vocabulary), not_ranked=others)
            yield asked, reason or [self._answer(query, space, vocabulary, scores[row_of[number]])]

    def _cut(self) -> Iterator[Shard]:
        """Cut by candidate set and, for masked models, by relation and template."""
        alike: dict[tuple[str, str], list[Query]] = {}
        for query in self.queryset.queries:
            alike.setdefault((query.candidates, "" if self.causal else query.relation), []).append(query)
        for (_, relation), queries in alike.items():
            numbers: Sequence[int] = (NO_TEMPLATE,)
            if not self.causal and self.queryset.relations[relation].templates:
                numbers = self.options.templates or range(len(self.queryset.relations[relation].templates))
            for number in numbers:
                yield from shards_of(number, queries, SHARD_QUERIES)

    def _used(self) -> list[tuple[str, bool]]:
        return list(dict.fromkeys((shard.space, self._spaced(shard)) for shard in self._shards.values()))

    def _spaced(self, shard: Shard) -> bool:
        """Return whether a name's token is scored after a space."""
        if shard.template == NO_TEMPLATE:
            return not (self.causal and self.options.trailing_space)
        text = self.queryset.relations[shard.queries[0].relation].templates[shard.template].text
        return text[: text.index(ANSWER)].endswith(" ")

    def _vocabulary(self, name: str, spaced: bool) -> _Vocabulary:
        if (name, spaced) not in self._vocabularies:
            names, tokenizer = self.queryset.candidates[name].names, self.model.tokenizer
            in_place = name_tokens(tokenizer, names, leading_space=spaced)
            lengths = np.array(list(map(len, in_place)), dtype=np.int64)
            ids = single_tokens(tokenizer, in_place)
            tokens, column = np.unique(ids[ids >= 0], return_inverse=True)
            self._vocabularies[name, spaced] = _Vocabulary(ids >= 0, tokens, column.reshape(-1), lengths)
        return self._vocabularies[name, spaced]

    def _prompts(self, queries: Sequence[Query], template: int) -> tuple[list[Prompt], list[str | None]]:
        """Return each query's prompt with the answer's place marked, and the reason if it is unscored."""
        mask = self._mark()
        if template != NO_TEMPLATE:
            sentence = self.queryset.relations[queries[0].relation].templates[template]
            return (
                [sentence.fill(query.subject, mask, capitalize=self.options.capitalize) for query in queries],
                [query.unscored for query in queries],
            )
        assert self.few_shot is not None
        questions = [self.few_shot.question(query) for query in queries]
        return [_few_shot_prompt(text, mask) for text, _ in questions], [reason for _, reason in questions]

    def _mark(self) -> str:
        """Return the text in the answer's place, "" if the prompt ends before it."""
        if self.model.attention is Attention.SEQ2SEQ:
            return stand_in(self.model.tokenizer, self.form)
        return "" if self.causal else str(self.model.tokenizer.mask_token)

    def _no_gold(self, query: Query, space: CandidateSet, vocabulary: _Vocabulary) -> str | None:
        if (reason := unrankable(query, space)) is not None:
            return reason
        if vocabulary.ranked[space.places(query.gold)].any():
            return "there is one candidate: every answer is right" if len(vocabulary) == 1 else None
        shortest = vocabulary.lengths[space.places(query.gold)].min()
        return f"the gold answer is not {'in the vocabulary' if shortest == 1 else 'one token'}"

    def _scored(self, prompts: Sequence[Prompt], tokens: torch.Tensor) -> _TokenScores:
        if isinstance(self.model, LikelihoodServer):
            return self._scored_by_server(self.model, prompts, tokens)
        if self.causal:
            texts = [prompt.text for prompt in prompts]
            vectors, faults = text_vectors(self.model, texts, self.bos, Pooling.LAST, self.budget)
            return _TokenScores(same_token_log_probs(self.model, vectors, tokens), faults)
        if self.form is not Form.SPLIT or not isinstance(self.model, EncoderDecoder):
            prompts = [prompt.without_space() for prompt in prompts]
        encoded = encode_masked(self.model.tokenizer, prompts)
        if isinstance(self.model, EncoderDecoder):
            return self._scored_pairs(self.model, encoded, tokens)
        mask = self.model.tokenizer.mask_token_id
        places = [int(np.flatnonzero((item.roles == Role.ANSWER) & (item.ids == mask))[0]) for item in encoded]
        # Texts that are too long are cut: their states are not used.
        ids = [tuple(item.ids[: self.model.max_tokens].tolist()) for item in encoded]
        states = states_at(
            self.model, ids, [min(at, len(row) - 1) for at, row in zip(places, ids, strict=True)], self.budget
        )
        faults = [too_long("a prompt", len(item.ids), self.model) for item in encoded]
        return _TokenScores(same_token_log_probs(self.model, states, tokens), faults)

    def _scored_by_server(
        self, model: LikelihoodServer, prompts: Sequence[Prompt], tokens: torch.Tensor
    ) -> _TokenScores:
        encoded = encode_causal(model.tokenizer, prompts, self.bos)
        faults = [too_long("a prompt", len(item.ids) + 1, model) for item in encoded]
        fits = [number for number, fault in enumerate(faults) if fault is None]
        texts = [Text(tuple(encoded[number].ids.tolist()), prompts[number].text) for number in fits]
        scores = torch.full((len(prompts), len(tokens)), torch.nan)
        for number, reply in zip(fits, model.next_log_probs(texts, tokens.tolist()), strict=True):
            faults[number] = reply.fault
            if reply.log_probs is not None:
                scores[number] = torch.from_numpy(reply.log_probs)
        return _TokenScores(scores, faults)

    def _scored_pairs(self, model: EncoderDecoder, encoded: Sequence[Tokens], tokens: torch.Tensor) -> _TokenScores:
        pairs = [as_pair(model.tokenizer, item, self.form) for item in encoded]
        faults = [too_long("a prompt", pair.longest, model) for pair in pairs]
        fits = [number for number, fault in enumerate(faults) if fault is None]
        scores = torch.full((len(pairs), len(tokens)), torch.nan, device=model.device)
        scores[fits] = tokens_at_answer(model, [pairs[number] for number in fits], tokens, self.budget)
        return _TokenScores(scores, faults)

    def _answer(
        self, query: Query, space: CandidateSet, vocabulary: _Vocabulary, token_scores: NDArray[np.float32]
    ) -> Columns:
        scores = np.full(len(space), np.nan)
        scores[vocabulary.ranked] = token_scores[vocabulary.column]
        gold_tokens = vocabulary.lengths[space.places(query.gold)].tolist()
        one_each = vocabulary.ranked.astype(np.int64)
        return score_columns(query, space, scores, gold_tokens, one_each, top_k=TOP, ranked=vocabulary.ranked)


def _few_shot_prompt(text: str, mask: str) -> Prompt:
    """:param mask: the mask token, "" for causal models, which predict the next token."""
    if not text or not mask:
        return Prompt(text, (), (Span(len(text), len(text)),) if text else ())
    return completed(text, mask, closing=True)


def _shown(prompt: Prompt) -> str:
    """Return the text with ``[Y]`` in all places of the answer."""
    text = prompt.text
    for span in sorted(prompt.answer, reverse=True):
        text = text[: span.start] + ANSWER + text[span.end :]
    return text
