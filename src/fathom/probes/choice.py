"""The choice probe (multiple choice; Wu et al. 2023, section 5): which of a few options does the model choose?

A served chat model reads the question with its options and writes a letter (:mod:`.choice_replies`). A local causal
model reads the same; the likelihood of each letter or option text is its score. A masked model fills each option into
the question's statement, as in the cloze probe. All see the same options. See docs/howto/choice.md.
"""

from __future__ import annotations

import random
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from string import ascii_lowercase

import numpy as np
from numpy.typing import NDArray

from fathom.base.errors import BadInput
from fathom.data.prompts.choices import AMBIGUOUS, CUT_OFF, OPTIONS, UNPARSED, Choices, check_options, choices, shown
from fathom.data.prompts.reasoning import Cutter
from fathom.data.prompts.wording import completed
from fathom.data.queries import CandidateSet, Query, QuerySet, unrankable
from fathom.data.templates import ANSWER, Prompt, Span
from fathom.engine.models.base import Attention, Model
from fathom.engine.models.server import ChatReply, ChatRequest, ChatServer
from fathom.engine.scoring.masked import Pll
from fathom.engine.scoring.rows import Columns, PromptedQuery, score_columns, unscored
from fathom.engine.scoring.slots import (
    CandidateTokens,
    MaskCount,
    Slot,
    SlotPooling,
    SlotScoring,
    encode_slots,
    slot_scores,
    subjects_unknown,
)
from fathom.engine.scoring.statements import (
    Reduction,
    Score,
    ScoredStatement,
    StatementScoring,
    align_scored,
    reduce_all,
    score_statements,
)
from fathom.engine.scoring.tokens import (
    SCORED_TEXT,
    Bos,
    context_of,
    only_unknown,
    resolve_bos,
    tokens_in_place,
    unknown_reason,
)
from fathom.probes.base import Answered, Facts, Shard, ShardedProbe, shards_of, too_long
from fathom.probes.choice_replies import FORMS, Reading, read_reply
from fathom.probes.models import chat_template
from fathom.probes.options import ChoiceOptions
from fathom.store.predictions import NO_TEMPLATE, Scoring

SHARD_QUERIES = 256
CUE = "Answer:"
"""Text before a causal model's answer."""
SEVERAL = SlotScoring(MaskCount.SEVERAL, SlotPooling.MEAN)
"""As many masks as the option has tokens, mean of their log-probabilities (section 4.2 of the paper)."""
SUM_OF_ANSWER = StatementScoring(Reduction.SUM, Score.ANSWER)

Order = tuple[int, ...]
"""Places of the options in display order."""


class Orders:
    """The orders of each question.

    With one, options stay as in the data. With several, *seed* and the question's id draw the first, and the others
    rotate it by equal steps: each option gets as many letters as there are orders, up to all.
    """

    def __init__(self, data: Choices, count: int, seed: int) -> None:
        self.data, self.count, self.seed = data, count, seed

    def of(self, query: Query) -> list[Order]:
        size = len(self.data.candidates[query.candidates])
        if self.count == 1 or not size:
            return [tuple(range(size))]
        return [self._rotated(query.id, size, number) for number in range(self.count)]

    def _rotated(self, query: str, size: int, number: int) -> Order:
        again, step = divmod(number, size)
        first = list(range(size))
        random.Random(f"{self.seed} {query} {again}").shuffle(first)
        start = step * size // min(self.count, size)
        return tuple(first[start:] + first[:start])

    def question(self, query: Query, order: Order) -> str:
        """Return the question with its options in that order."""
        return shown(self.data.questions[query.id], self.names(query, order))

    def instructed(self, query: Query, order: Order, instruction: str) -> str:
        """Return :meth:`question` followed by the instruction: a chat model's turn."""
        return f"{self.question(query, order)}\n{instruction}".rstrip()

    def names(self, query: Query, order: Order) -> list[str]:
        names = self.data.candidates[query.candidates].names
        return [names[place] for place in order]

    def gold_letters(self, query: Query) -> list[str]:
        right = self.data.candidates[query.candidates].places(query.gold)[0]
        return [letter_of(right, order) for order in self.of(query)]


def letter_of(place: int, order: Order) -> str:
    return ascii_lowercase[order.index(place)]


class ChoiceProbe(ShardedProbe):
    """See :mod:`fathom.probes.choice`. There is a subclass for each kind of model.

    :raises BadInput: an encoder-decoder, questions without statements for a masked model, BOS for a tokenizer without
        one.
    """

    queryset: Choices

    def __init__(self, options: ChoiceOptions, model: Model, queryset: Choices) -> None:
        super().__init__(options, model, queryset)
        self.options, self.chat = options, chat_template(model, options)

    @classmethod
    def create(cls, options: ChoiceOptions, model: Model | ChatServer, queryset: Choices) -> ChoiceProbe:  # type: ignore[override]
        if isinstance(model, ChatServer):
            return _WrittenChoice(options, model, queryset)
        if model.attention is Attention.CAUSAL:
            return _LikelihoodChoice(options, model, queryset)
        if model.attention is Attention.BIDIRECTIONAL:
            return _MaskChoice(options, model, queryset)
        raise BadInput(f"the choice probe needs a causal, masked or chat model; this one is {model.attention}")

    @classmethod
    def prepare_queries(cls, options: ChoiceOptions, queryset: QuerySet) -> Choices:
        """Return each query with its own options. :raises BadInput: ``--options`` for data that has options."""
        check_options(queryset, options.options)
        return choices(queryset, options.options or OPTIONS, options.seed)

    def resolved(self) -> Facts:
        return {"attention": str(self.model.attention), **self._chat(), **SCORED_TEXT}

    def count_texts(self, shard: str) -> int:
        return sum(self._texts_of(query) for part in self._parts[shard] for query in part.queries)

    def _answered(self, shard: Shard) -> Answered:
        number, queries = shard
        reasons = {query.id: unrankable(query, self._options_of(query)) for query in queries}
        askable = [query for query in queries if reasons[query.id] is None]
        answers = dict(zip((query.id for query in askable), self._answers(askable, number), strict=True))
        for query in queries:
            prompt = self._asked(query, number)
            asked = PromptedQuery(query, number, prompt, len(self._options_of(query)))
            yield asked, reasons[query.id] or answers[query.id]

    def _cut(self) -> Iterator[Shard]:
        by_number: dict[int, list[Query]] = {}
        for query in self.queryset.queries:
            for number in self._numbers(query):
                by_number.setdefault(number, []).append(query)
        for number, queries in sorted(by_number.items()):
            yield from shards_of(number, queries, SHARD_QUERIES)

    def _asked(self, query: Query, number: int) -> str | None:
        return None if unrankable(query, self._options_of(query)) else self._prompt(query, number)

    def _options_of(self, query: Query) -> CandidateSet:
        return self.queryset.candidates[query.candidates]

    def _numbers(self, query: Query) -> Sequence[int]:
        """Return the numbers of the query's templates; :data:`NO_TEMPLATE` for the question itself."""
        return (NO_TEMPLATE,)

    def _texts_of(self, query: Query) -> int:
        """Return how many texts one prompt of the query is scored with."""
        return 1

    @abstractmethod
    def _prompt(self, query: Query, number: int) -> str:
        """Return the text of the prompt, ``[Y]`` in the answer's place."""

    @abstractmethod
    def _answers(self, queries: Sequence[Query], number: int) -> list[list[Columns]]:
        """Return the columns of each query, one per scoring."""


class _WrittenChoice(ChoiceProbe):
    """Writes which option it chooses, for each order of the options."""

    scorings = (Scoring("chat", "credit"),)

    def __init__(self, options: ChoiceOptions, server: ChatServer, queryset: Choices) -> None:
        self.model, self.queryset = server, queryset  # type: ignore[assignment] # a server is an AnyModel
        self.options, self.server = options, server
        chat_template(server, options)  # it refuses options of local models
        self.cutter = Cutter(options.cut_reasoning)
        self.orders = Orders(queryset, options.orders, options.seed)
        self.counts: Counter[str] = Counter(replies=0, unparsed=0, calls_failed=0)

    def recipe(self) -> dict[str, str]:
        """Return the forms in which a reply can name an option."""
        return {"replies": ",".join(FORMS[:1] if self.options.replies == "strict" else FORMS)}

    def resolved(self) -> Facts:
        return {"attention": "chat"}

    def _texts_of(self, query: Query) -> int:
        return len(self.orders.of(query))

    def _prompt(self, query: Query, number: int) -> str:
        return f"{self._instructed(query, self.orders.of(query)[0])}\n{ANSWER}"

    def _answers(self, queries: Sequence[Query], number: int) -> list[list[Columns]]:
        orders = [(query, order) for query in queries for order in self.orders.of(query)]
        replies = iter(self.server.ask([self._request(query, order) for query, order in orders]))
        return [[self._answer(query, [next(replies) for _ in self.orders.of(query)])] for query in queries]

    def circumstances(self) -> Facts:
        notes = {"notes": said} if (said := self.cutter.notes()) else {}
        return {**self.counts, **self.cutter.counts, **self.server.circumstances(), **notes}

    def _request(self, query: Query, order: Order) -> ChatRequest:
        options = self.options
        return ChatRequest(
            self._instructed(query, order),
            system=options.system,
            temperature=options.sampling_temperature,
            max_tokens=options.reply_tokens,
            seed=options.seed,
        )

    def _instructed(self, query: Query, order: Order) -> str:
        return self.orders.instructed(query, order, self.options.instruction)

    def _answer(self, query: Query, whole: Sequence[ChatReply]) -> Columns:
        """Return the mean credit over the orders for which the reply names an option."""
        space, orders = self._options_of(query), self.orders.of(query)
        replies = [reply._replace(texts=tuple(self.cutter.read(text).text for text in reply.texts)) for reply in whole]
        readings = [self._read(query, order, reply) for order, reply in zip(orders, replies, strict=True)]
        places = [
            None if reading.place is None else order[reading.place]
            for order, reading in zip(orders, readings, strict=True)
        ]
        named = [None if place is None else space.ids[place] for place in places]
        answers = [id_ for id_ in named if id_ is not None]
        answered = any(reply.fault is None for reply in replies)
        answer: Columns = (
            {"answers": [" ".join(reply.texts) for reply in replies], "answer_ids": named} if answered else {}
        )
        if not answers:
            return answer | unscored(next(reading.reason for reading in readings))
        letters = [
            None if place is None else letter_of(place, order) for place, order in zip(places, orders, strict=True)
        ]
        credit = sum(id_ in query.gold for id_ in answers) / len(answers)
        return answer | {"correct": credit, "letters": letters, "gold_letters": self.orders.gold_letters(query)}

    def _read(self, query: Query, order: Order, reply: ChatReply) -> Reading:
        if reply.fault is not None:
            self.counts["calls_failed"] += 1
            return Reading(None, reason=f"the call failed: {reply.fault}")
        self.counts["replies"] += 1
        [text], [ended] = reply.texts, reply.finish_reasons
        reading = read_reply(text, self.orders.names(query, order), self.options.replies == "strict")
        if reading.place is None:
            self.counts["unparsed"] += 1
            self.counts["ambiguous"] += reading.reason == AMBIGUOUS
        else:
            self.counts[f"read_{reading.form}"] += 1
        return reading._replace(reason=CUT_OFF) if reading.reason == UNPARSED and ended == "length" else reading


class _LikelihoodChoice(ChoiceProbe):
    """Scores each option by its likelihood after the question, the mean over the orders of the options."""

    def __init__(self, options: ChoiceOptions, model: Model, queryset: Choices) -> None:
        super().__init__(options, model, queryset)
        self.orders = Orders(queryset, options.orders, options.seed)
        self.scorings = tuple(Scoring(name, "nats") for name in options.score)
        self.bos = resolve_bos(model.tokenizer, Bos(options.bos)) if self.chat is None else None
        self.statements = 0

    def _prompt(self, query: Query, number: int) -> str:
        return self._prompts(query, self.orders.of(query)[0], [ANSWER])[0].text

    def _texts_of(self, query: Query) -> int:
        return len(self.options.score) * len(self.orders.of(query)) * len(self._options_of(query))

    def _answers(self, queries: Sequence[Query], number: int) -> list[list[Columns]]:
        columns = [self._scored(queries, way) for way in self.options.score]
        return [list(of_query) for of_query in zip(*columns, strict=True)]

    def circumstances(self) -> Facts:
        return {"statements": self.statements, **super().circumstances()}

    def _prompts(self, query: Query, order: Order, answers: Sequence[str]) -> list[Prompt]:
        """Append each answer to the question, as plain text or as the assistant's turn."""
        if self.chat is None:
            question = f"{self.orders.question(query, order)}\n{CUE}"
            return [completed(question, answer, closing=False) for answer in answers]
        before = self.chat.before_reply(self.orders.instructed(query, order, self.options.instruction))
        return [Prompt(answer, (), (Span(0, len(answer)),)).with_context(before) for answer in answers]

    def _scored(self, queries: Sequence[Query], way: str) -> list[Columns]:
        """Return each query's columns."""
        prompts: list[Prompt] = []
        for query in queries:
            for order in self.orders.of(query):
                names = self.orders.names(query, order)
                texts = names if way == "text-sum" else [f"({ascii_lowercase[at]})" for at in range(len(names))]
                prompts += self._prompts(query, order, texts)
        scored = score_statements(self.model, prompts, self.bos, Pll.ORIGINAL, self.budget)
        self.statements += sum(item.log_probs is not None for item in scored)
        items = iter(scored)
        return [
            self._reduced(query, [[next(items) for _ in order] for order in self.orders.of(query)]) for query in queries
        ]

    def _reduced(self, query: Query, scored: Sequence[Sequence[ScoredStatement]]) -> Columns:
        """:param scored: for each order, the options as shown."""
        items = [item for row in scored for item in row]
        if any(item.log_probs is None for item in items):
            longest = max(len(item.tokens.ids) for item in items)
            faults = (item.fault for item in items if item.fault is not None)
            reason = next(faults, too_long("a question with its answer", longest, self.model) or "")
            return unscored(reason)
        return self._ranked(query, scored)

    def _ranked(self, query: Query, scored: Sequence[Sequence[ScoredStatement]]) -> Columns:
        space, orders = self._options_of(query), self.orders.of(query)
        values, lengths = np.zeros((len(orders), len(space))), [0] * len(space)
        letters: list[str | None] = []
        for row, order, tokenised in zip(values, orders, scored, strict=True):
            items = align_scored(tokenised, len(tokenised))
            row[list(order)] = reduce_all(items, SUM_OF_ANSWER, Attention.CAUSAL).scores
            for place, item in zip(order, items, strict=True):
                lengths[place] = item.tokens.answer_tokens
            best = np.flatnonzero(row == row.max())
            letters.append(letter_of(int(best[0]), order) if len(best) == 1 else None)
        columns = _ranked(query, space, values.mean(axis=0), lengths)
        return columns | {"letters": letters, "gold_letters": self.orders.gold_letters(query)}


class _MaskChoice(ChoiceProbe):
    """Fills each option into the question's statement."""

    scorings = (Scoring(SEVERAL.name, "nats"),)

    def __init__(self, options: ChoiceOptions, model: Model, queryset: Choices) -> None:
        super().__init__(options, model, queryset)
        if options.orders > 1:
            raise BadInput(f"--orders {options.orders}: a masked model reads no options; remove --orders")
        faults = queryset.template_faults(options.templates)
        bare = {query.relation for query in queryset.queries if not query.unscored and not queryset.phrasings(query)}
        faults += [f"relation {name} has no statement to put a mask in: use a causal or a chat model" for name in bare]
        if faults:
            raise BadInput(sorted(faults))

    def _numbers(self, query: Query) -> Sequence[int]:
        return list(self.queryset.by_phrasing([query], self.options.templates))

    def _prompt(self, query: Query, number: int) -> str:
        return self._filled(query, number, ANSWER).text

    def _answers(self, queries: Sequence[Query], number: int) -> list[list[Columns]]:
        if not queries:
            return []
        mask = str(self.model.tokenizer.mask_token)
        prompts = [self._filled(query, number, mask) for query in queries]
        slots = encode_slots(self.model.tokenizer, prompts)
        unknown = subjects_unknown(self.model.tokenizer, prompts, slots)
        columns: dict[str, Columns] = {}
        alike: dict[str, list[tuple[Query, Slot]]] = {}
        for query, prompt, slot, strange in zip(queries, prompts, slots, unknown, strict=True):
            if slot is None:
                columns[query.id] = unscored(f"the statement has {len(prompt.answer)} places for the answer, not one")
            elif strange:
                columns[query.id] = unscored(f"the subject {unknown_reason(self.model.tokenizer)}")
            else:
                alike.setdefault(context_of(prompt.text[: prompt.answer[0].start]), []).append((query, slot))
        for before, together in alike.items():
            columns |= self._together(together, before)
        return [[columns[query.id]] for query in queries]

    def _filled(self, query: Query, number: int, answer: str) -> Prompt:
        template = self.queryset.phrasings(query)[number]
        return template.fill(query.subject, answer, capitalize=self.options.capitalize)

    def _together(self, asked: Sequence[tuple[Query, Slot]], before: str) -> dict[str, Columns]:
        """Run each slot once for each length of its options, together with all slots of that length."""
        spaces = [self._options_of(query) for query, _ in asked]
        all_names = list(dict.fromkeys(name for space in spaces for name in space.names))
        tokens = dict(zip(all_names, tokens_in_place(self.model.tokenizer, all_names, before), strict=True))
        options = [[tokens[name] for name in space.names] for space in spaces]
        lengths = [np.array([len(ids) for ids in rows]) for rows in options]
        faults = [
            self._fault(slot, token_ids, space.places(query.gold))
            for (query, slot), space, token_ids in zip(asked, spaces, options, strict=True)
        ]
        scores = [np.full(len(space), np.nan) for space in spaces]
        for length in np.unique(np.concatenate(lengths)).tolist():
            rows = [row for row, sizes in enumerate(lengths) if faults[row] is None and length in sizes]
            if not rows:
                continue
            alike = [name for name in all_names if len(tokens[name]) == length]
            at = {name: place for place, name in enumerate(alike)}
            names, slots = CandidateTokens([tokens[name] for name in alike]), [asked[row][1] for row in rows]
            for row, line in zip(rows, slot_scores(self.model, slots, names, [SEVERAL], self.budget)[0], strict=True):
                places = np.flatnonzero(lengths[row] == length)
                scores[row][places] = line[[at[spaces[row].names[place]] for place in places.tolist()]]
        return {
            query.id: _ranked(query, spaces[row], scores[row], lengths[row].tolist())
            if (reason := faults[row]) is None
            else unscored(reason)
            for row, (query, _) in enumerate(asked)
        }

    def _fault(self, slot: Slot, options: Sequence[Sequence[int]], gold: Sequence[int]) -> str | None:
        """:param options: token ids of each option. :param gold: places of the gold answers."""
        if not all(options):
            return "an option has no tokens"
        if only_unknown(self.model.tokenizer, options).any():
            return f"an option {unknown_reason(self.model.tokenizer)}"
        if any(options.count(options[place]) > 1 for place in gold):
            return "another option has the same tokens as the gold answer"
        return too_long("a statement", slot.tokens(max(map(len, options))), self.model)


def _ranked(query: Query, space: CandidateSet, scores: NDArray[np.float64], lengths: Sequence[int]) -> Columns:
    """:param scores: shape (options,). :param lengths: number of scored tokens of each option."""
    gold_tokens = [lengths[place] for place in space.places(query.gold)]
    return score_columns(query, space, scores, gold_tokens, lengths, top_k=len(space), what="options")
