"""The choice probe (multiple choice; Wu et al. 2023, section 5): which of a few options does the model choose?

A chat model behind a server is shown the question and its options and writes a letter; what it writes is read strictly.
A causal model at hand is shown the same, and the likelihood of each letter, or of each option's text, is its score. A
masked model fills each option into the statement that the question asks for, as in the cloze probe. All three choose
among identical options. See docs/howto/choice.md.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from string import ascii_lowercase
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fathom.data.queries import CandidateSet, Query, unrankable
from fathom.data.templates import ANSWER, Prompt
from fathom.errors import BadInput
from fathom.models.base import Attention, Model
from fathom.models.server import ChatReply, ChatRequest, ChatServer
from fathom.probes.base import Answered, Facts, Progress, Shard, ShardedProbe, shards_of
from fathom.probes.choice_options import ChoiceOptions
from fathom.prompts.choices import CUT_OFF, UNPARSED, Choices, shown
from fathom.prompts.wording import completed
from fathom.scoring.answers import answer_key
from fathom.scoring.masked import Pll
from fathom.scoring.memory import Budget
from fathom.scoring.names import only_unknown, said_unknown, tokens_in_place, what_counts
from fathom.scoring.rows import Asked, Columns, of_scores, unscored
from fathom.scoring.slots import Masks, Names, Pooling, Slot, Way, encode_slots, slot_scores, subjects_unknown
from fathom.scoring.statements import (
    Reduction,
    Score,
    Scored,
    counted_tokens,
    score_statements,
)
from fathom.scoring.tokens import Bos, resolve_bos
from fathom.store.predictions import NO_TEMPLATE, Scoring

SHARD_QUERIES = 256
ASK = "Answer:"
"""What a causal model's answer stands behind."""
SEVERAL = Way(Masks.SEVERAL, Pooling.MEAN)
"""As in the paper (section 4.2): as many masks as the option has tokens, mean of their log-probabilities."""
WAYS = {
    "letter": ("letter", Reduction.SUM),
    "text-sum": ("text", Reduction.SUM),
    "text-mean": ("text", Reduction.MEAN),
}
"""Of each scoring of a causal model what stands behind the question, and how its tokens' scores become one."""

_LEAD = re.compile(r"(?:the )?(?:correct |right |best )?(?:answer|option|choice)\b(?: is\b)?\s*:?\s*", re.IGNORECASE)
_EMPHASIS = re.compile(r"\*\*(.+?)\*\*")
_LETTER = re.compile(r"\(?([a-zA-Z])\)?(?:[.:)]\s*|\s+|$)(.*)", re.DOTALL)


class Asker(Protocol):
    """One kind of model."""

    @property
    def scorings(self) -> tuple[Scoring, ...]:
        """Those of its answers, in their order."""
        ...

    def numbers(self, query: Query) -> Sequence[int]:
        """Which templates ask the query; :data:`NO_TEMPLATE` for the question itself."""
        ...

    def prompt(self, query: Query, number: int) -> str:
        """The text asked, ``[Y]`` at the answer's place."""
        ...

    def answers(self, queries: Sequence[Query], number: int) -> list[list[Columns]]:
        """Of each query one answer per scoring."""
        ...

    def circumstances(self) -> Facts:
        """See :meth:`fathom.probes.base.Probe.circumstances`."""
        ...


class Probe(ShardedProbe):
    """See :class:`fathom.probes.base.Probe`.

    :raises BadInput: an encoder-decoder, questions without statements for a masked model, BOS asked of a tokenizer
        without one.
    """

    def __init__(self, options: ChoiceOptions, model: Model | ChatServer, queryset: Choices) -> None:
        self.model, self.queryset = model, queryset  # type: ignore[assignment] # a server has what a run needs of it
        self.server = model if isinstance(model, ChatServer) else None
        self.asker = _asker(options, model, queryset)
        self.scorings = self.asker.scorings

    def resolved(self) -> Facts:
        """The kind of the model."""
        return {"attention": "chat" if self.server is not None else str(self.model.attention)}

    def prepare(self, artifacts: Path, progress: Progress) -> None:
        """Give a server its journal: what it has answered is kept."""
        if self.server is not None:
            self.server.keep_answers(artifacts)

    def circumstances(self) -> Facts:
        """What the asker counts."""
        return self.asker.circumstances()

    def _answered(self, shard: Shard) -> Answered:
        number, queries = shard
        reasons = {query.id: unrankable(query, self.queryset.candidates[query.candidates]) for query in queries}
        askable = [query for query in queries if reasons[query.id] is None]
        answers = dict(zip((query.id for query in askable), self.asker.answers(askable, number), strict=True))
        for query in queries:
            reason, count = reasons[query.id], len(self.queryset.candidates[query.candidates])
            one = Asked(query, number, None if reason else self.asker.prompt(query, number), count)
            yield one, reason or answers[query.id]

    def _cut(self) -> Iterator[Shard]:
        of_number: dict[int, list[Query]] = {}
        for query in self.queryset.queries:
            for number in self.asker.numbers(query):
                of_number.setdefault(number, []).append(query)
        for number, queries in sorted(of_number.items()):
            yield from shards_of(number, queries, SHARD_QUERIES)


def _asker(options: ChoiceOptions, model: Model | ChatServer, data: Choices) -> Asker:
    if isinstance(model, ChatServer):
        return _Chat(options, model, data)
    if model.attention is Attention.CAUSAL:
        return _Likelihoods(options, model, data)
    if model.attention is Attention.BIDIRECTIONAL:
        return _Masks(options, model, data)
    raise BadInput(f"the choice probe needs a causal, masked or chat model; this one is {model.attention}")


class _Chat:
    """Writes which option it chooses."""

    scorings = (Scoring("chat", "credit"),)

    def __init__(self, options: ChoiceOptions, server: ChatServer, data: Choices) -> None:
        self.options, self.server, self.data = options, server, data
        self.counts: Counter[str] = Counter(replies=0, unparsed=0, calls_failed=0)

    def numbers(self, query: Query) -> Sequence[int]:
        return (NO_TEMPLATE,)

    def prompt(self, query: Query, number: int) -> str:
        return f"{self._asked(query)}\n{ANSWER}"

    def answers(self, queries: Sequence[Query], number: int) -> list[list[Columns]]:
        options = self.options
        requests = [
            ChatRequest(
                self._asked(query),
                temperature=options.sampling_temperature,
                max_tokens=options.reply_tokens,
                seed=options.seed,
            )
            for query in queries
        ]
        replies = self.server.ask(requests)
        return [[self._answer(query, reply)] for query, reply in zip(queries, replies, strict=True)]

    def circumstances(self) -> Facts:
        return {**self.counts, **self.server.kept()}

    def _asked(self, query: Query) -> str:
        question = shown(self.data.questions[query.id], self.data.candidates[query.candidates].names)
        return f"{question}\n{self.options.instruction}".rstrip()

    def _answer(self, query: Query, reply: ChatReply) -> Columns:
        if reply.fault is not None:
            self.counts["calls_failed"] += 1
            return unscored(f"the call failed: {reply.fault}")
        self.counts["replies"] += 1
        [text], [ended] = reply.texts, reply.finish_reasons
        space = self.data.candidates[query.candidates]
        place = chosen(text, space.names)
        if place is None:
            self.counts["unparsed"] += 1
            return {"answers": [text], "answer_ids": [None], "unscored": CUT_OFF if ended == "length" else UNPARSED}
        right = space.ids[place] in query.gold
        return {"answers": [text], "answer_ids": [space.ids[place]], "correct": float(right)}


def chosen(reply: str, names: Sequence[str]) -> int | None:
    """The place of the option that a reply names; None where it names none, or not one alone.

    Understood are a letter ("b", "(B)", "b."), an option's whole text ("sports league", as :func:`answer_key` evens it
    out), and both together where they agree, each also behind "The answer is", "Option" and the like, and between
    quotation marks or asterisks; letter case does not matter. A reply that says anything besides is not understood:
    nobody guesses what it means.
    """
    said = _bare(_EMPHASIS.sub(r"\1", reply))
    lead = _LEAD.match(said)
    keys = [answer_key(name) for name in names]
    found = {place for text in {said, _bare(said[lead.end() :]) if lead else said} for place in _named(text, keys)}
    return found.pop() if len(found) == 1 else None


def _named(said: str, keys: Sequence[str]) -> list[int]:
    """Places of the options that *said* names, by their text or their letter.

    :param keys: of the options.
    """
    found = [place for place, key in enumerate(keys) if key == answer_key(said)]
    letter = _LETTER.fullmatch(said)
    place = ascii_lowercase.index(letter[1].lower()) if letter else len(keys)
    if letter and place < len(keys) and (not letter[2] or answer_key(_bare(letter[2])) == keys[place]):
        found.append(place)
    return found


def _bare(text: str) -> str:
    return text.strip().strip("*\"'“”‘’„«»`").strip()


class _Likelihoods:
    """Reads question and options; the likelihood of what it would write next is each option's score."""

    def __init__(self, options: ChoiceOptions, model: Model, data: Choices) -> None:
        self.model, self.data, self.options = model, data, options
        self.scorings = tuple(Scoring(name, "nats") for name in options.score)
        self.bos = resolve_bos(model.tokenizer, Bos(options.bos))
        self.budget = Budget(options.batch_tokens, model.device)
        self.statements = 0

    def numbers(self, query: Query) -> Sequence[int]:
        return (NO_TEMPLATE,)

    def prompt(self, query: Query, number: int) -> str:
        return f"{self._asked(query)} {ANSWER}"

    def answers(self, queries: Sequence[Query], number: int) -> list[list[Columns]]:
        ways = [WAYS[name] for name in self.options.score]
        found = {said: self._scored(queries, said) for said in dict.fromkeys(said for said, _ in ways)}
        return [[found[said][place][reduction] for said, reduction in ways] for place in range(len(queries))]

    def circumstances(self) -> Facts:
        return {"statements": self.statements, "halvings": self.budget.halvings}

    def _asked(self, query: Query) -> str:
        names = self.data.candidates[query.candidates].names
        return f"{shown(self.data.questions[query.id], names)}\n{ASK}"

    def _scored(self, queries: Sequence[Query], kind: str) -> list[dict[Reduction, Columns]]:
        """Of each query the answer by the sum of an option's token scores, and by their mean.

        :param kind: what stands behind the question: "letter", or "text".
        """
        spaces = [self.data.candidates[query.candidates] for query in queries]
        prompts: list[Prompt] = []
        for query, space in zip(queries, spaces, strict=True):
            letters = [f"({letter})" for letter, _ in zip(ascii_lowercase, space.ids, strict=False)]
            said = letters if kind == "letter" else space.names
            prompts += [completed(self._asked(query), one, closing=False) for one in said]
        scored = score_statements(self.model, prompts, self.bos, Pll.ORIGINAL, self.budget)
        self.statements += sum(one.log_probs is not None for one in scored)
        own = iter(scored)
        return [
            self._both(query, space, [next(own) for _ in space.ids])
            for query, space in zip(queries, spaces, strict=True)
        ]

    def _both(self, query: Query, space: CandidateSet, scored: Sequence[Scored]) -> dict[Reduction, Columns]:
        """:param scored: of each option question and answer."""
        if any(one.log_probs is None for one in scored):
            longest, window = max(len(one.tokens.ids) for one in scored), self.model.max_tokens
            why = f"question and answer of {longest} tokens are longer than the model's window of {window}"
            return {reduction: unscored(why) for reduction in Reduction}
        lengths = [one.tokens.answer_tokens for one in scored]
        both = {}
        for reduction in Reduction:
            values = [
                one.reduced(counted_tokens(one.tokens, Score.ANSWER, Attention.CAUSAL), reduction) for one in scored
            ]
            both[reduction] = _ranked(query, space, np.array(values), lengths)
        return both


class _Masks:
    """Fills each option into the statement that the question asks for."""

    scorings = (Scoring(SEVERAL.name, "nats"),)

    def __init__(self, options: ChoiceOptions, model: Model, data: Choices) -> None:
        self.options, self.model, self.data = options, model, data
        self.budget = Budget(options.batch_tokens, model.device)
        faults = data.lacking_templates(options.templates)
        bare = {query.relation for query in data.queries if not query.unscored and not data.phrasings(query)}
        faults += [f"relation {name} has no statement to put a mask in: ask a causal or a chat model" for name in bare]
        if faults:
            raise BadInput(sorted(faults))

    def numbers(self, query: Query) -> Sequence[int]:
        return list(self.data.by_phrasing([query], self.options.templates))

    def prompt(self, query: Query, number: int) -> str:
        return self._filled(query, number, ANSWER).text

    def answers(self, queries: Sequence[Query], number: int) -> list[list[Columns]]:
        """Queries whose options tokenise alike share their passes."""
        if not queries:
            return []
        mask = str(self.model.tokenizer.mask_token)
        prompts = [self._filled(query, number, mask) for query in queries]
        slots = encode_slots(self.model.tokenizer, prompts)
        unknown = subjects_unknown(self.model.tokenizer, prompts, slots)
        found: dict[str, Columns] = {}
        alike: dict[str, list[tuple[Query, Slot]]] = {}
        for query, prompt, slot, strange in zip(queries, prompts, slots, unknown, strict=True):
            if slot is None:
                found[query.id] = unscored(f"the statement has {len(prompt.answer)} places for the answer, not one")
            elif strange:
                found[query.id] = unscored(f"the subject {said_unknown(self.model.tokenizer)}")
            else:
                alike.setdefault(what_counts(prompt.text[: prompt.answer[0].start]), []).append((query, slot))
        for before, together in alike.items():
            found |= self._together(together, before)
        return [[found[query.id]] for query in queries]

    def circumstances(self) -> Facts:
        return {"halvings": self.budget.halvings}

    def _filled(self, query: Query, number: int, answer: str) -> Prompt:
        template = self.data.phrasings(query)[number]
        return template.fill(query.subject, answer, capitalize=self.options.capitalize)

    def _together(self, asked: Sequence[tuple[Query, Slot]], before: str) -> dict[str, Columns]:
        """A slot runs once for each number of tokens among its own options, together with all that share it.

        :param before: what stands before the slots, as far as options' tokens depend on it.
        """
        spaces = [self.data.candidates[query.candidates] for query, _ in asked]
        everybody = list(dict.fromkeys(name for space in spaces for name in space.names))
        tokens = dict(zip(everybody, tokens_in_place(self.model.tokenizer, everybody, before), strict=True))
        options = [[tokens[name] for name in space.names] for space in spaces]
        lengths = [np.array([len(ids) for ids in own]) for own in options]
        faults = [
            self._fault(slot, own, space.places(query.gold))
            for (query, slot), space, own in zip(asked, spaces, options, strict=True)
        ]
        scores = [np.full(len(space), np.nan) for space in spaces]
        for length in np.unique(np.concatenate(lengths)).tolist():
            rows = [row for row, own in enumerate(lengths) if faults[row] is None and length in own]
            if not rows:
                continue
            alike = [name for name in everybody if len(tokens[name]) == length]
            at = {name: place for place, name in enumerate(alike)}
            names, slots = Names([tokens[name] for name in alike]), [asked[row][1] for row in rows]
            found = slot_scores(self.model, slots, names, [SEVERAL], self.budget)[0]
            for row, line in zip(rows, found, strict=True):
                places = np.flatnonzero(lengths[row] == length)
                scores[row][places] = line[[at[spaces[row].names[place]] for place in places.tolist()]]
        return {
            query.id: _ranked(query, spaces[row], scores[row], lengths[row].tolist())
            if (why := faults[row]) is None
            else unscored(why)
            for row, (query, _) in enumerate(asked)
        }

    def _fault(self, slot: Slot, options: Sequence[Sequence[int]], gold: Sequence[int]) -> str | None:
        """:param options: the tokens of each.
        :param gold: places of the right ones.
        """
        if not all(options):
            return "an option has no tokens"
        if only_unknown(self.model.tokenizer, options).any():
            return f"an option {said_unknown(self.model.tokenizer)}"
        if any(options.count(options[place]) > 1 for place in gold):
            return "another option has the very tokens of the right one"
        longest, window = slot.tokens(max(map(len, options))), self.model.max_tokens
        if window is not None and longest > window:
            return f"a statement of up to {longest} tokens is longer than the model's window of {window}"
        return None


def _ranked(query: Query, space: CandidateSet, scores: NDArray[np.float64], lengths: Sequence[int]) -> Columns:
    """:param scores: of the options, shape (options,).
    :param lengths: tokens of each that made its score.
    """
    gold_tokens = [lengths[place] for place in space.places(query.gold)]
    return of_scores(query, space, scores, gold_tokens, lengths, top_k=len(space), what="options")
