"""The vocabulary probe (LAMA, Petroni et al. 2019): which answer is the likeliest next, or masked, token?

Only names that are one token can be ranked; the others are counted and listed. Causal models complete a few-shot
prompt: the head is applied to the state at its last token, the same vector that the embedding probe compares. Masked
models fill the relation's template or, where it has none, the few-shot line. See docs/methods/vocabulary.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from fathom.data.queries import CandidateSet, Query, QuerySet, unrankable
from fathom.data.templates import ANSWER, Prompt, Span
from fathom.errors import BadInput
from fathom.models.base import Attention, Model
from fathom.probes.base import Progress, Row
from fathom.probes.options import VocabularyOptions
from fathom.prompts.wording import completed
from fathom.scoring.head import same_token_log_probs
from fathom.scoring.memory import Budget
from fathom.scoring.names import name_tokens, single_tokens
from fathom.scoring.ranks import rank_best, top, unfiltered_ranks
from fathom.scoring.tokens import Bos, Role, encode_masked, resolve_bos
from fathom.scoring.vectors import Pooling, states_at, text_vectors
from fathom.store.files import write_text
from fathom.store.predictions import KEEP_SCORES_UP_TO, NO_TEMPLATE, Scoring

SHARD_QUERIES = 1024
TOP = 10


class _Shard(NamedTuple):
    space: str
    template: int
    queries: tuple[Query, ...]


@dataclass(frozen=True)
class _Vocabulary:
    """What can be ranked of a candidate set.

    :param places: the candidates that are one token. :param tokens: these tokens, distinct, shape (t,).
    :param column: for each of *places* the column of its token in *tokens*.
    :param rank_of: for a candidate's place, its number in *places*.
    :param spaced: names count as they stand behind a space.
    """

    places: NDArray[np.int64]
    tokens: NDArray[np.int64]
    column: NDArray[np.int64]
    rank_of: dict[int, int]
    spaced: bool


class _States(NamedTuple):
    """What the head is to see. :param vectors: shape (queries, d). :param faults: why there is none, or None."""

    vectors: torch.Tensor
    faults: list[str | None]


class Probe:
    """See :class:`fathom.probes.base.Probe`.

    :raises BadInput: templates that the relations do not have or that a causal model is not asked by, no graph to draw
        few-shot lines from, BOS asked of a tokenizer without one.
    """

    scorings = (Scoring("token", "nats"),)

    def __init__(self, options: VocabularyOptions, model: Model, queryset: QuerySet) -> None:
        if model.attention is Attention.SEQ2SEQ:
            raise BadInput("the vocabulary probe needs a causal or a masked model; this one is an encoder-decoder")
        if faults := queryset.without_subjects("vocabulary"):
            raise BadInput(faults)
        self.options, self.model, self.queryset = options, model, queryset
        self.causal = model.attention is Attention.CAUSAL
        self.bos = resolve_bos(model.tokenizer, Bos(options.bos)) if self.causal else None
        self.budget = Budget(options.batch_tokens, model.device)
        self._check_templates()
        self._shards = {f"{number:05d}": shard for number, shard in enumerate(self._cut())}
        asks_few_shot = any(shard.template == NO_TEMPLATE for shard in self._shards.values())
        self.few_shot = options.few_shot(queryset) if asks_few_shot else None
        self._vocabularies: dict[tuple[str, bool], _Vocabulary] = {}

    def resolved(self) -> dict[str, Any]:
        bos = None if self.bos is None else self.model.tokenizer.convert_ids_to_tokens(self.bos)
        return {"attention": str(self.model.attention), **({"bos_token": bos} if self.causal else {})}

    def plan(self) -> Sequence[str]:
        return list(self._shards)

    def prepare(self, artifacts: Path, progress: Progress) -> None:
        """List the candidates that cannot be ranked."""
        lines = ["set\tleading_space\tid\tname\ttokens"]
        for name, spaced in self._used():
            space, one_token = self.queryset.candidates[name], self._vocabulary(name, spaced).rank_of
            out = [place for place in range(len(space)) if place not in one_token]
            counts = self._token_counts([space.names[place] for place in out], spaced)
            lines += [
                "\t".join(
                    (name, str(spaced).lower(), space.ids[place], " ".join(space.names[place].split()), str(count))
                )
                for place, count in zip(out, counts, strict=True)
            ]
        write_text(artifacts / "excluded.tsv", "\n".join(lines) + "\n")

    def circumstances(self) -> dict[str, Any]:
        noted: dict[str, Any] = {"halvings": self.budget.halvings}
        for name, spaced in self._used():
            total = len(self.queryset.candidates[name])
            ranked = len(self._vocabulary(name, spaced).places)
            how = "with" if spaced else "without"
            noted[f"excluded {name}"] = f"{total - ranked} of {total} candidates: not one token {how} a leading space"
        return noted

    def ask(self, shard: str) -> list[Row]:
        name, template, queries = self._shards[shard]
        space = self.queryset.candidates[name]
        vocabulary = self._vocabulary(name, self._spaced(self._shards[shard]))
        prompts, reasons = self._prompts(queries, template)
        reasons = [
            reason or self._no_gold(query, space, vocabulary) for query, reason in zip(queries, reasons, strict=True)
        ]
        asked = [number for number, reason in enumerate(reasons) if reason is None]
        with torch.inference_mode():
            states = self._states([prompts[number] for number in asked])
            tokens = torch.from_numpy(vocabulary.tokens).to(self.model.device)
            scores = same_token_log_probs(self.model, states.vectors, tokens).cpu().numpy()
        for number, fault in zip(asked, states.faults, strict=True):
            reasons[number] = fault
        row_of = {number: row for row, number in enumerate(asked)}
        rows: list[Row] = []
        for number, (query, prompt, reason) in enumerate(zip(queries, prompts, reasons, strict=True)):
            about = {
                "query_id": query.id,
                "template": template,
                "scoring": "token",
                "subject": query.subject,
                "prompt": _shown(prompt) if prompt.text else None,
                "num_candidates": len(vocabulary.places),
            }
            answer = {"unscored": reason} if reason else self._answer(query, space, vocabulary, scores[row_of[number]])
            rows.append(about | answer)
        return rows

    def _check_templates(self) -> None:
        if self.causal and self.options.templates:
            raise BadInput("--templates: causal models are asked by few-shot prompts, not by templates; leave it out")
        faults = self.queryset.lacking_templates(self.options.templates)
        if faults:
            raise BadInput(faults)

    def _cut(self) -> Iterator[_Shard]:
        """By candidate set, relation and template where there are any, in pieces of a size to lose."""
        alike: dict[tuple[str, str], list[Query]] = {}
        for query in self.queryset.queries:
            alike.setdefault((query.candidates, "" if self.causal else query.relation), []).append(query)
        for (space, relation), queries in alike.items():
            numbers: Sequence[int] = (NO_TEMPLATE,)
            if not self.causal and self.queryset.relations[relation].templates:
                numbers = self.options.templates or range(len(self.queryset.relations[relation].templates))
            for number in numbers:
                for start in range(0, len(queries), SHARD_QUERIES):
                    yield _Shard(space, number, tuple(queries[start : start + SHARD_QUERIES]))

    def _used(self) -> list[tuple[str, bool]]:
        return list(dict.fromkeys((shard.space, self._spaced(shard)) for shard in self._shards.values()))

    def _spaced(self, shard: _Shard) -> bool:
        """Whether names count as they stand behind a space: the token that is counted is the one that is scored.

        Causal models: as ``--tokens-after-space`` says. Masked models: also where a space stands before the mask.
        """
        if self.options.tokens_after_space or self.causal:
            return self.options.tokens_after_space
        if shard.template == NO_TEMPLATE:
            return True
        text = self.queryset.relations[shard.queries[0].relation].templates[shard.template].text
        return text[: text.index(ANSWER)].endswith(" ")

    def _vocabulary(self, name: str, spaced: bool) -> _Vocabulary:
        if (name, spaced) not in self._vocabularies:
            names = self.queryset.candidates[name].names
            found = single_tokens(self.model.tokenizer, names, leading_space=spaced)
            places = np.flatnonzero(found >= 0)
            tokens, column = np.unique(found[places], return_inverse=True)
            rank_of = {place: number for number, place in enumerate(places.tolist())}
            self._vocabularies[name, spaced] = _Vocabulary(places, tokens, column.reshape(-1), rank_of, spaced)
        return self._vocabularies[name, spaced]

    def _token_counts(self, names: Sequence[str], spaced: bool) -> list[int]:
        return [len(ids) for ids in name_tokens(self.model.tokenizer, names, leading_space=spaced)]

    def _prompts(self, queries: Sequence[Query], template: int) -> tuple[list[Prompt], list[str | None]]:
        """Each query in words, the answer's place (or the mask in it) marked, and why it cannot be asked."""
        mask = "" if self.causal else self.model.tokenizer.mask_token
        if template != NO_TEMPLATE:
            sentence = self.queryset.relations[queries[0].relation].templates[template]
            return (
                [sentence.fill(query.subject, mask, capitalize=self.options.capitalize) for query in queries],
                [query.unscored for query in queries],
            )
        assert self.few_shot is not None
        questions = [self.few_shot.question(query) for query in queries]
        return [_few_shot_prompt(text, mask) for text, _ in questions], [reason for _, reason in questions]

    def _no_gold(self, query: Query, space: CandidateSet, vocabulary: _Vocabulary) -> str | None:
        """Why no answer can be ranked, None where one can."""
        if (reason := unrankable(query, space)) is not None:
            return reason
        if any(space.position[answer] in vocabulary.rank_of for answer in query.gold):
            return "there is one candidate: every answer is right" if len(vocabulary.places) == 1 else None
        counts = self._token_counts([space.names[space.position[answer]] for answer in query.gold], vocabulary.spaced)
        return f"the gold answer is not {'in the vocabulary' if min(counts) == 1 else 'one token'}"

    def _states(self, prompts: Sequence[Prompt]) -> _States:
        if self.causal:
            texts = [prompt.text for prompt in prompts]
            return _States(*text_vectors(self.model, texts, self.bos, Pooling.LAST, self.budget))
        encoded = encode_masked(self.model.tokenizer, prompts)
        mask = self.model.tokenizer.mask_token_id
        places = [int(np.flatnonzero((item.roles == Role.ANSWER) & (item.ids == mask))[0]) for item in encoded]
        window = self.model.max_tokens
        fits = [window is None or len(item.ids) <= window for item in encoded]
        # What is too long is cut: its state is not used.
        ids = [tuple(item.ids[:window].tolist()) for item in encoded]
        found = states_at(
            self.model, ids, [min(at, len(row) - 1) for at, row in zip(places, ids, strict=True)], self.budget
        )
        faults = [
            None if fit else f"a prompt of {len(item.ids)} tokens is longer than the model's window of {window}"
            for item, fit in zip(encoded, fits, strict=True)
        ]
        return _States(found, faults)

    def _answer(
        self, query: Query, space: CandidateSet, vocabulary: _Vocabulary, token_scores: NDArray[np.float32]
    ) -> dict[str, Any]:
        scores = token_scores.astype(np.float64)[vocabulary.column]
        numbers = [vocabulary.rank_of.get(space.position[answer]) for answer in query.gold]
        gold = [number for number in numbers if number is not None]
        names = [space.names[space.position[answer]] for answer in query.gold]
        row: dict[str, Any] = {
            "gold_scores": [float("nan") if number is None else float(scores[number]) for number in numbers],
            "gold_tokens": self._token_counts(names, vocabulary.spaced),
        }
        if not np.isfinite(scores).all():
            wrong = int((~np.isfinite(scores)).sum())
            return row | {
                "unscored": f"the model gave {wrong} of {len(scores)} candidates a score that is not a number"
            }
        known = [vocabulary.rank_of.get(space.position.get(answer, -1)) for answer in query.known]
        ranks = rank_best(scores, gold, [number for number in known if number is not None])
        each = dict(zip(gold, unfiltered_ranks(scores, gold), strict=True))
        ids = [space.ids[place] for place in vocabulary.places.tolist()]
        first = top(scores, ids, TOP)
        if len(space) <= KEEP_SCORES_UP_TO:
            row["scores"] = _in_order(scores, vocabulary, len(space))
        return row | {
            "rank": ranks.realistic,
            "rank_optimistic": ranks.optimistic,
            "rank_pessimistic": ranks.pessimistic,
            "gold_ranks": [float("nan") if number is None else each[number] for number in numbers],
            "top_ids": [ids[number] for number in first],
            "top_scores": scores[first].tolist(),
            "scored_tokens": 1,
        }


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


def _in_order(scores: NDArray[np.float64], vocabulary: _Vocabulary, candidates: int) -> list[float]:
    """Of all candidates; −inf, a probability of 0, for those that no single token says."""
    whole = np.full(candidates, -np.inf)
    whole[vocabulary.places] = scores
    return whole.tolist()
