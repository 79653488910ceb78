"""The vocabulary probe (LAMA, Petroni et al. 2019): which answer is the likeliest next, or masked, token?

Only names that are one token can be ranked; the others are counted and listed. Causal models complete a few-shot
prompt: the head is applied to the state at its last token, the same vector that the embedding probe compares. Masked
models fill the relation's template or, where it has none, the few-shot line. See docs/methods/vocabulary.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from fathom.data.queries import CandidateSet, Query, QuerySet, unrankable
from fathom.data.templates import ANSWER, Prompt, Span
from fathom.errors import BadInput, refuse
from fathom.models.base import Attention, Model
from fathom.models.completions import Text
from fathom.models.encoder_decoder import EncoderDecoder
from fathom.models.likelihoods import LikelihoodServer
from fathom.probes.base import NO_LINES, OF_LINES, Answered, Facts, Shard, ShardedProbe, few_shot_lines, shards_of
from fathom.probes.options import VocabularyOptions
from fathom.progress import Progress
from fathom.prompts.wording import completed
from fathom.scoring.head import same_token_log_probs
from fathom.scoring.names import name_tokens, single_tokens
from fathom.scoring.rows import Asked, Columns, digest_of_others, of_scores
from fathom.scoring.seq2seq import as_pair, form_for, stand_in, tokens_at_answer
from fathom.scoring.slots import spelled_mask
from fathom.scoring.tokens import Bos, Role, Tokens, encode_causal, encode_masked, resolve_bos
from fathom.scoring.vectors import Pooling, states_at, text_vectors
from fathom.store.files import write_text
from fathom.store.predictions import NO_TEMPLATE, Scoring

SHARD_QUERIES = 1024
TOP = 10


@dataclass(frozen=True)
class _Vocabulary:
    """What can be ranked of a candidate set.

    :param ranked: whether each candidate is one token, shape (candidates,).
    :param tokens: these tokens, distinct, shape (t,).
    :param column: for each ranked candidate the column of its token in *tokens*.
    :param lengths: tokens of each candidate's name, shape (candidates,): as it stands where it is scored, or as it is
        counted, whichever is more. Few-shot prompts of causal models count names alone, as the paper does, or after a
        space, as ``--tokens-after-space`` says; a name that is one token so and several where it stands cannot be
        scored.
    """

    ranked: NDArray[np.bool_]
    tokens: NDArray[np.int64]
    column: NDArray[np.int64]
    lengths: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.column)


class _Said(NamedTuple):
    """What the model says in the answer's place of each prompt.

    :param scores: log-probabilities of some tokens in nats, float32, shape (prompts, tokens).
    :param faults: why there is none, or None.
    """

    scores: torch.Tensor
    faults: list[str | None]


class VocabularyProbe(ShardedProbe):
    """See :class:`fathom.probes.base.Probe`.

    :raises BadInput: templates that the relations do not have or that a causal model is not asked by, no graph to draw
        few-shot lines from, BOS asked of a tokenizer without one.
    """

    scorings = (Scoring("token", "nats"),)

    def __init__(self, options: VocabularyOptions, model: Model, queryset: QuerySet) -> None:
        refuse(queryset.without_subjects("vocabulary"))
        super().__init__(options, model, queryset)
        self.options = options
        self.causal = model.attention is Attention.CAUSAL
        self.form = form_for(model, options.form)
        self.bos = resolve_bos(model.tokenizer, Bos(options.bos)) if self.causal else None
        self._check_templates()
        asks_few_shot = any(shard.template == NO_TEMPLATE for shard in self._shards.values())
        self.few_shot = few_shot_lines(options, queryset) if asks_few_shot else None
        self._vocabularies: dict[tuple[str, bool], _Vocabulary] = {}

    def idle(self) -> Mapping[str, str]:
        """Those of few-shot lines where none are shown."""
        found = {} if self.causal else {"bos": "it concerns causal models"}
        return found | (dict.fromkeys(OF_LINES, NO_LINES) if self.few_shot is None else {})

    def prepare(self, artifacts: Path, progress: Progress) -> None:
        """List the candidates that cannot be ranked."""
        super().prepare(artifacts, progress)
        lines = ["set\tleading_space\tid\tname\ttokens"]
        for name, spaced in self._used():
            space = self.queryset.candidates[name]
            vocabulary = self._vocabulary(name, spaced)
            lines += [
                "\t".join(
                    (
                        name,
                        str(spaced).lower(),
                        space.ids[place],
                        " ".join(space.names[place].split()),
                        str(vocabulary.lengths[place]),
                    )
                )
                for place in np.flatnonzero(~vocabulary.ranked).tolist()
            ]
        write_text(artifacts / "excluded.tsv", "\n".join(lines) + "\n")

    def circumstances(self) -> Facts:
        """Also how many candidates cannot be ranked."""
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
        reasons = [
            reason or self._spelled_mask(prompt) or self._no_gold(query, space, vocabulary)
            for query, prompt, reason in zip(queries, prompts, reasons, strict=True)
        ]
        asked = [number for number, reason in enumerate(reasons) if reason is None]
        with torch.inference_mode():
            tokens = torch.from_numpy(vocabulary.tokens).to(self.model.device)
            said = self._said([prompts[number] for number in asked], tokens)
        scores = said.scores.cpu().numpy()
        for number, fault in zip(asked, said.faults, strict=True):
            reasons[number] = fault
        row_of = {number: row for row, number in enumerate(asked)}
        others = digest_of_others(space, vocabulary.ranked)
        for number, (query, prompt, reason) in enumerate(zip(queries, prompts, reasons, strict=True)):
            shown = _shown(prompt) if prompt.text else None
            one = Asked(query, template, shown, len(vocabulary), not_ranked=others)
            yield one, reason or [self._answer(query, space, vocabulary, scores[row_of[number]])]

    def _check_templates(self) -> None:
        if self.causal and self.options.templates:
            raise BadInput("--templates: causal models are asked by few-shot prompts, not by templates; leave it out")
        heads = [] if self.causal else self.queryset.heads_in_templates()
        refuse(self.queryset.lacking_templates(self.options.templates) + heads)

    def _cut(self) -> Iterator[Shard]:
        """By candidate set, relation and template where there are any, in pieces of a size to lose."""
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
        """Whether a name stands behind a space where its token is scored."""
        if shard.template == NO_TEMPLATE:
            return not (self.causal and self.options.trailing_space)
        text = self.queryset.relations[shard.queries[0].relation].templates[shard.template].text
        return text[: text.index(ANSWER)].endswith(" ")

    def _vocabulary(self, name: str, spaced: bool) -> _Vocabulary:
        if (name, spaced) not in self._vocabularies:
            names, tokenizer = self.queryset.candidates[name].names, self.model.tokenizer
            ways = {spaced} | ({self.options.tokens_after_space} if self.causal else set())
            tokens_of = {way: name_tokens(tokenizer, names, leading_space=way) for way in ways}
            lengths = np.array([max(map(len, same)) for same in zip(*tokens_of.values(), strict=True)], dtype=np.int64)
            found = single_tokens(tokenizer, tokens_of[spaced])
            found[lengths != 1] = -1
            tokens, column = np.unique(found[found >= 0], return_inverse=True)
            self._vocabularies[name, spaced] = _Vocabulary(found >= 0, tokens, column.reshape(-1), lengths)
        return self._vocabularies[name, spaced]

    def _prompts(self, queries: Sequence[Query], template: int) -> tuple[list[Prompt], list[str | None]]:
        """Each query in words, the answer's place (or the mask in it) marked, and why it cannot be asked."""
        mask = self._sign()
        if template != NO_TEMPLATE:
            sentence = self.queryset.relations[queries[0].relation].templates[template]
            return (
                [sentence.fill(query.subject, mask, capitalize=self.options.capitalize) for query in queries],
                [query.unscored for query in queries],
            )
        assert self.few_shot is not None
        questions = [self.few_shot.question(query) for query in queries]
        return [_few_shot_prompt(text, mask) for text, _ in questions], [reason for _, reason in questions]

    def _spelled_mask(self, prompt: Prompt) -> str | None:
        return spelled_mask(prompt, self._sign()) if self._sign() else None

    def _sign(self) -> str:
        """What stands in the answer's place; nothing where the prompt ends before it."""
        if self.model.attention is Attention.SEQ2SEQ:
            return stand_in(self.model.tokenizer, self.form)
        return "" if self.causal else str(self.model.tokenizer.mask_token)

    def _no_gold(self, query: Query, space: CandidateSet, vocabulary: _Vocabulary) -> str | None:
        """Why no answer can be ranked, None where one can."""
        if (reason := unrankable(query, space)) is not None:
            return reason
        if vocabulary.ranked[space.places(query.gold)].any():
            return "there is one candidate: every answer is right" if len(vocabulary) == 1 else None
        shortest = vocabulary.lengths[space.places(query.gold)].min()
        return f"the gold answer is not {'in the vocabulary' if shortest == 1 else 'one token'}"

    def _said(self, prompts: Sequence[Prompt], tokens: torch.Tensor) -> _Said:
        if isinstance(self.model, LikelihoodServer):
            return self._said_by_server(self.model, prompts, tokens)
        if self.causal:
            texts = [prompt.text for prompt in prompts]
            vectors, faults = text_vectors(self.model, texts, self.bos, Pooling.LAST, self.budget)
            return _Said(same_token_log_probs(self.model, vectors, tokens), faults)
        encoded = encode_masked(self.model.tokenizer, prompts)
        if isinstance(self.model, EncoderDecoder):
            return self._said_of_pairs(self.model, encoded, tokens)
        mask = self.model.tokenizer.mask_token_id
        places = [int(np.flatnonzero((item.roles == Role.ANSWER) & (item.ids == mask))[0]) for item in encoded]
        # What is too long is cut: its state is not used.
        ids = [tuple(item.ids[: self.model.max_tokens].tolist()) for item in encoded]
        states = states_at(
            self.model, ids, [min(at, len(row) - 1) for at, row in zip(places, ids, strict=True)], self.budget
        )
        faults = [self._too_long(len(item.ids)) for item in encoded]
        return _Said(same_token_log_probs(self.model, states, tokens), faults)

    def _said_by_server(self, model: LikelihoodServer, prompts: Sequence[Prompt], tokens: torch.Tensor) -> _Said:
        encoded = encode_causal(model.tokenizer, prompts, self.bos)
        faults = [self._too_long(len(item.ids) + 1) for item in encoded]
        fits = [number for number, fault in enumerate(faults) if fault is None]
        texts = [Text(tuple(encoded[number].ids.tolist()), prompts[number].text) for number in fits]
        scores = torch.full((len(prompts), len(tokens)), torch.nan)
        for number, found in zip(fits, model.next_log_probs(texts, tokens.tolist()), strict=True):
            faults[number] = found.fault
            if found.log_probs is not None:
                scores[number] = torch.from_numpy(found.log_probs)
        return _Said(scores, faults)

    def _said_of_pairs(self, model: EncoderDecoder, encoded: Sequence[Tokens], tokens: torch.Tensor) -> _Said:
        pairs = [as_pair(model.tokenizer, item, self.form) for item in encoded]
        faults = [self._too_long(pair.longest) for pair in pairs]
        fits = [number for number, fault in enumerate(faults) if fault is None]
        scores = torch.full((len(pairs), len(tokens)), torch.nan, device=model.device)
        scores[fits] = tokens_at_answer(model, [pairs[number] for number in fits], tokens, self.budget)
        return _Said(scores, faults)

    def _too_long(self, length: int) -> str | None:
        window = self.model.max_tokens
        fits = window is None or length <= window
        return None if fits else f"a prompt of {length} tokens is longer than the model's window of {window}"

    def _answer(
        self, query: Query, space: CandidateSet, vocabulary: _Vocabulary, token_scores: NDArray[np.float32]
    ) -> Columns:
        scores = np.full(len(space), np.nan)
        scores[vocabulary.ranked] = token_scores[vocabulary.column]
        gold_tokens = vocabulary.lengths[space.places(query.gold)].tolist()
        one_each = vocabulary.ranked.astype(np.int64)
        return of_scores(query, space, scores, gold_tokens, one_each, top_k=TOP, ranked=vocabulary.ranked)


def _few_shot_prompt(text: str, mask: str) -> Prompt:
    """:param mask: the mask token, "" for causal models, which are asked what comes next."""
    if not text or not mask:
        return Prompt(text, (), (Span(len(text), len(text)),) if text else ())
    return completed(text, mask, closing=True)


def _shown(prompt: Prompt) -> str:
    """The text with ``[Y]`` for the answer's place (all of them)."""
    text = prompt.text
    for span in sorted(prompt.answer, reverse=True):
        text = text[: span.start] + ANSWER + text[span.end :]
    return text
