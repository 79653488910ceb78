"""The choice probe (multiple choice; Wu et al. 2023, section 5): which of a few options does the model choose?

A chat model behind a server is shown the question and its options and writes a letter (:mod:`.choice_replies`).
A causal model at hand is shown the same, and the likelihood of each letter, or of each option's text, is its score. A
masked model fills each option into the statement that the question asks for, as in the cloze probe. All three choose
among identical options. See docs/howto/choice.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from string import ascii_lowercase
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fathom.data.queries import CandidateSet, Query, QuerySet, unrankable
from fathom.data.templates import ANSWER, Prompt, Span
from fathom.errors import BadInput
from fathom.models.base import Attention, Model
from fathom.models.chat import ChatTemplate
from fathom.models.server import ChatReply, ChatRequest, ChatServer
from fathom.probes.base import Answered, Facts, Shard, ShardedProbe, shards_of
from fathom.probes.choice_options import ChoiceOptions
from fathom.probes.choice_orders import Order, Orders, letter_of
from fathom.probes.choice_replies import FORMS, Reading, read_reply
from fathom.probes.models import chat_template
from fathom.progress import Progress
from fathom.prompts.choices import AMBIGUOUS, CUT_OFF, OPTIONS, UNPARSED, Choices, check_options, choices
from fathom.prompts.reasoning import Cutter
from fathom.prompts.wording import completed
from fathom.scoring.masked import Pll
from fathom.scoring.memory import Budget
from fathom.scoring.names import only_unknown, said_unknown, tokens_in_place, what_counts
from fathom.scoring.rows import Asked, Columns, of_scores, unscored
from fathom.scoring.slots import Masks, Names, Pooling, Slot, Way, encode_slots, slot_scores, subjects_unknown
from fathom.scoring.statements import (
    Reduction,
    Score,
    Scored,
    reduce_all,
    score_statements,
)
from fathom.scoring.statements import Way as StatementWay
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


class Asker(Protocol):
    """One kind of model."""

    template: ChatTemplate | None
    """What a model at hand is asked through; None for plain wording, and for a server, which has its own."""

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


class ChoiceProbe(ShardedProbe):
    """See :class:`fathom.probes.base.Probe`.

    :raises BadInput: an encoder-decoder, questions without statements for a masked model, BOS asked of a tokenizer
        without one.
    """

    def __init__(self, options: ChoiceOptions, model: Model | ChatServer, queryset: Choices) -> None:
        self.model, self.queryset = model, queryset  # type: ignore[assignment] # a server has what a run needs of it
        self.options = options
        self.server = model if isinstance(model, ChatServer) else None
        self.asker = _asker(options, model, queryset)
        self.scorings = self.asker.scorings

    @classmethod
    def prepare_queries(cls, options: ChoiceOptions, queryset: QuerySet) -> Choices:
        """Return each query with its own options. :raises BadInput: ``--options`` for data that has options."""
        check_options(queryset, options.options)
        return choices(queryset, options.options or OPTIONS, options.seed)

    def recipe(self) -> dict[str, str]:
        """Return the forms in which a reply can name an option."""
        if self.server is None:
            return {}
        return {"replies": ",".join(FORMS[:1] if self.options.replies == "strict" else FORMS)}

    def resolved(self) -> Facts:
        """The kind of the model, and a digest of the chat template."""
        template = self.asker.template
        found = {} if template is None else {"chat_template": template.digest}
        return {"attention": "chat" if self.server is not None else str(self.model.attention), **found}

    def prepare(self, artifacts: Path, progress: Progress) -> None:
        """Give a server its journal: what it has answered is kept."""
        super().prepare(artifacts, progress)
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
    """Writes which option it chooses, in each order of the options."""

    scorings = (Scoring("chat", "credit"),)

    def __init__(self, options: ChoiceOptions, server: ChatServer, data: Choices) -> None:
        self.options, self.server, self.data = options, server, data
        self.template = chat_template(server, options)
        self.cutter = Cutter(options.cut_reasoning)
        self.orders = Orders(data, options.orders, options.seed)
        self.counts: Counter[str] = Counter(replies=0, unparsed=0, calls_failed=0)

    def numbers(self, query: Query) -> Sequence[int]:
        return (NO_TEMPLATE,)

    def prompt(self, query: Query, number: int) -> str:
        return f"{self._asked(query, self.orders.of(query)[0])}\n{ANSWER}"

    def answers(self, queries: Sequence[Query], number: int) -> list[list[Columns]]:
        replies = iter(self.server.ask([self._request(query, order) for query in queries for order in self._of(query)]))
        return [[self._answer(query, [next(replies) for _ in self._of(query)])] for query in queries]

    def circumstances(self) -> Facts:
        return {**self.counts, **self.cutter.circumstances(), **self.server.circumstances()}

    def _of(self, query: Query) -> list[Order]:
        return self.orders.of(query)

    def _request(self, query: Query, order: Order) -> ChatRequest:
        options = self.options
        return ChatRequest(
            self._asked(query, order),
            system=options.system,
            temperature=options.sampling_temperature,
            max_tokens=options.reply_tokens,
            seed=options.seed,
        )

    def _asked(self, query: Query, order: Order) -> str:
        return self.orders.instructed(query, order, self.options.instruction)

    def _answer(self, query: Query, whole: Sequence[ChatReply]) -> Columns:
        """The mean credit of the orders in which it named an option."""
        space, orders = self.data.candidates[query.candidates], self._of(query)
        replies = [reply._replace(texts=tuple(self.cutter.read(text).text for text in reply.texts)) for reply in whole]
        read = [self._read(query, order, reply) for order, reply in zip(orders, replies, strict=True)]
        places = [
            None if found.place is None else order[found.place] for order, found in zip(orders, read, strict=True)
        ]
        named = [None if place is None else space.ids[place] for place in places]
        told = [id_ for id_ in named if id_ is not None]
        answered = any(reply.fault is None for reply in replies)
        answer: Columns = (
            {"answers": [" ".join(reply.texts) for reply in replies], "answer_ids": named} if answered else {}
        )
        if not told:
            return answer | unscored(next(found.reason for found in read))
        letters = [
            None if place is None else letter_of(place, order) for place, order in zip(places, orders, strict=True)
        ]
        right = sum(id_ in query.gold for id_ in told) / len(told)
        return answer | {"correct": right, "letters": letters, "gold_letters": self.orders.gold_letters(query)}

    def _read(self, query: Query, order: Order, reply: ChatReply) -> Reading:
        if reply.fault is not None:
            self.counts["calls_failed"] += 1
            return Reading(None, reason=f"the call failed: {reply.fault}")
        self.counts["replies"] += 1
        [text], [ended] = reply.texts, reply.finish_reasons
        found = read_reply(text, self.orders.names(query, order), self.options.replies == "strict")
        if found.place is None:
            self.counts["unparsed"] += 1
            self.counts["ambiguous"] += found.reason == AMBIGUOUS
        else:
            self.counts[f"read_{found.form}"] += 1
        return found._replace(reason=CUT_OFF) if found.reason == UNPARSED and ended == "length" else found


class _Likelihoods:
    """Reads question and options; the likelihood of what it would write next is each option's score, the mean over the
    orders in which the options were shown."""

    def __init__(self, options: ChoiceOptions, model: Model, data: Choices) -> None:
        self.model, self.data, self.options = model, data, options
        self.orders = Orders(data, options.orders, options.seed)
        self.scorings = tuple(Scoring(name, "nats") for name in options.score)
        self.template = chat_template(model, options)
        self.bos = resolve_bos(model.tokenizer, Bos(options.bos)) if self.template is None else None
        self.budget = Budget.told(options.batch_tokens, model)
        self.statements = 0

    def numbers(self, query: Query) -> Sequence[int]:
        return (NO_TEMPLATE,)

    def prompt(self, query: Query, number: int) -> str:
        return self._said(query, self.orders.of(query)[0], [ANSWER])[0].text

    def answers(self, queries: Sequence[Query], number: int) -> list[list[Columns]]:
        ways = [WAYS[name] for name in self.options.score]
        found = {said: self._scored(queries, said) for said in dict.fromkeys(said for said, _ in ways)}
        return [[found[said][place][reduction] for said, reduction in ways] for place in range(len(queries))]

    def circumstances(self) -> Facts:
        return {"statements": self.statements, **self.budget.circumstances(), **self.model.circumstances()}

    def _said(self, query: Query, order: Order, answers: Sequence[str]) -> list[Prompt]:
        """Each answer behind the question: in plain wording, or as the assistant's turn."""
        if self.template is None:
            asked = f"{self.orders.question(query, order)}\n{ASK}"
            return [completed(asked, answer, closing=False) for answer in answers]
        before = self.template.before_reply(self.orders.instructed(query, order, self.options.instruction))
        return [Prompt(answer, (), (Span(0, len(answer)),)).behind(before) for answer in answers]

    def _scored(self, queries: Sequence[Query], kind: str) -> list[dict[Reduction, Columns]]:
        """Of each query the answer by the sum of an option's token scores, and by their mean.

        :param kind: what stands behind the question: "letter", or "text".
        """
        prompts: list[Prompt] = []
        for query in queries:
            for order in self.orders.of(query):
                names = self.orders.names(query, order)
                said = names if kind == "text" else [f"({ascii_lowercase[at]})" for at in range(len(names))]
                prompts += self._said(query, order, said)
        scored = score_statements(self.model, prompts, self.bos, Pll.ORIGINAL, self.budget)
        self.statements += sum(one.log_probs is not None for one in scored)
        own = iter(scored)
        return [self._both(query, [[next(own) for _ in order] for order in self.orders.of(query)]) for query in queries]

    def _both(self, query: Query, scored: Sequence[Sequence[Scored]]) -> dict[Reduction, Columns]:
        """:param scored: of each order each option, as it was shown, behind the question."""
        every = [one for own in scored for one in own]
        if any(one.log_probs is None for one in every):
            longest, window = max(len(one.tokens.ids) for one in every), self.model.max_tokens
            why = next(
                (one.fault for one in every if one.fault is not None),
                f"question and answer of {longest} tokens are longer than the model's window of {window}",
            )
            return {reduction: unscored(why) for reduction in Reduction}
        return {reduction: self._ranked(query, scored, reduction) for reduction in Reduction}

    def _ranked(self, query: Query, scored: Sequence[Sequence[Scored]], reduction: Reduction) -> Columns:
        space, orders = self.data.candidates[query.candidates], self.orders.of(query)
        values, lengths = np.zeros((len(orders), len(space))), [0] * len(space)
        letters: list[str | None] = []
        for row, order, own in zip(values, orders, scored, strict=True):
            row[list(order)] = reduce_all(own, StatementWay(reduction, Score.ANSWER), Attention.CAUSAL).scores
            for place, one in zip(order, own, strict=True):
                lengths[place] = one.tokens.answer_tokens
            best = np.flatnonzero(row == row.max())
            letters.append(letter_of(int(best[0]), order) if len(best) == 1 else None)
        found = _ranked(query, space, values.mean(axis=0), lengths)
        return found | {"letters": letters, "gold_letters": self.orders.gold_letters(query)}


class _Masks:
    """Fills each option into the statement that the question asks for."""

    scorings = (Scoring(SEVERAL.name, "nats"),)

    def __init__(self, options: ChoiceOptions, model: Model, data: Choices) -> None:
        self.options, self.model, self.data = options, model, data
        self.template = chat_template(model, options)
        if options.orders > 1:
            raise BadInput(f"--orders {options.orders}: a masked model is shown no options, leave --orders out")
        self.budget = Budget.told(options.batch_tokens, model)
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
        return self.budget.circumstances()

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
