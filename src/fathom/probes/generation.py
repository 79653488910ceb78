"""The generation probe (KAMEL, Kalo and Fichtel 2022): which answers does the model write?

The prompt shows a few answered questions. The model's greedy reply is compared with labels and aliases; several answers
are allowed. Relations without a question use the embedding probe's few-shot lines, "(head, relation,", and the answer
ends at ")". See docs/methods/generation.md.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fathom.base.errors import BadInput, refuse
from fathom.base.reading import first_few
from fathom.data.prompts.questions import CLOSING, Example, Questions, QuestionShots, asked, read_questions
from fathom.data.prompts.reasoning import Cutter
from fathom.data.queries import Query, QuerySet
from fathom.data.templates import ANSWER
from fathom.engine.models.base import Attention, Model, Reply
from fathom.engine.models.generation import encode_prompts, shared_length, until
from fathom.engine.models.server import ChatRequest, ChatServer
from fathom.engine.scoring.answers import Matcher, MentionFinder, split_answers
from fathom.engine.scoring.rows import Columns, PromptedQuery
from fathom.engine.scoring.tokens import Bos, resolve_bos
from fathom.probes.base import Answered, Facts, Shard, ShardedProbe, few_shot_lines, shards_of
from fathom.probes.models import chat_template
from fathom.probes.options import GenerationOptions
from fathom.results.metrics.ranking import set_score
from fathom.store.predictions import NO_TEMPLATE, Scoring

SHARD_QUERIES = 256
STOP_QUESTION = (CLOSING, "\n")
STOP_LINE = (")\n", "\n")
F1, CONTAINS = "f1", "contains"
"""Scorings; by default of chats ``contains``, as they answer in sentences."""
AMONG = "answers_among_other_words"
"""Circumstance: replies that are right by ``contains`` and have no credit by ``f1``."""


class _Question(NamedTuple):
    """A question as it is asked.

    :param prompt: what the model reads, or for a server all turns in lines.
    :param bare: the question without instruction or template; of few-shot lines all.
    :param user: the last turn, for a server; *examples* are those before it.
    """

    prompt: str = ""
    bare: str = ""
    user: str = ""
    examples: tuple[Example, ...] = ()
    unscored: str | None = None


class GenerationProbe(ShardedProbe):
    """See :mod:`fathom.probes.generation`.

    :raises BadInput: a model that does not write; a file of questions with mistakes or for other relations; too few
        facts to draw few-shot examples from; BOS for a tokenizer without one.
    """

    def __init__(self, options: GenerationOptions, model: Model | ChatServer, queryset: QuerySet) -> None:
        refuse(queryset.subject_faults("generation"))
        self.server: ChatServer | None = None
        if isinstance(model, ChatServer):
            self.server = model
            self.model, self.queryset = model, queryset  # type: ignore[assignment] # a server is an AnyModel
        elif model.attention is Attention.BIDIRECTIONAL:
            raise BadInput(f"the generation probe needs a model that writes, {model.attention} found: use statement")
        else:
            super().__init__(options, model, queryset)
        self.options = options
        self.cutter = Cutter(options.cut_reasoning)
        self.chat = chat_template(model, options)
        self._is_plain = self.server is None and self.chat is None
        takes_bos = self._is_plain and self.model.attention is Attention.CAUSAL
        self.bos = resolve_bos(self.model.tokenizer, Bos(options.bos)) if takes_bos else None
        names = options.score or (F1 if self._is_plain else CONTAINS,)
        self.scorings = tuple(Scoring(name, "credit") for name in names)
        self.stops_in_text = self._is_plain and not self.cutter.cuts
        """Return whether a reply can end after the answer: not if reasoning can precede it."""
        by_relation = queryset.by_relation()
        self.user_questions = _user_questions(options.questions, list(by_relation))
        built_in = {relation: queryset.relations[relation].questions for relation in by_relation}
        self.questions: Questions = {
            relation: questions for relation, questions in (built_in | self.user_questions).items() if questions
        }
        refuse(self._heads_in_questions())
        self.shots = QuestionShots(
            queryset.graph,
            list(self.questions),
            shots=options.shots,
            seed=options.seed,
            per_query=options.per_query_shots,
            separator=options.separator,
        )
        self.without_question = [relation for relation in by_relation if relation not in self.questions]
        self.lines = few_shot_lines(options, queryset) if self.without_question else None
        self.matcher = Matcher(queryset.graph, queryset.candidates, queryset.queries, options.normalise)
        self.mentions = MentionFinder(queryset.graph, queryset.candidates, queryset.queries)
        self._prompts = self._written = self._failed = self._among = 0

    def resolved(self) -> Facts:
        texts = json.dumps(
            {relation: [q.text for q in questions] for relation, questions in sorted(self.user_questions.items())}
        )
        digest = hashlib.sha256(texts.encode()).hexdigest()[:16] if self.user_questions else None
        kind = super().resolved() if self.server is None else {"attention": "chat"}
        return {**kind, "questions": digest}

    may_idle = ("instruction",)

    def idle(self) -> Mapping[str, str]:
        return {**super().idle(), **({"instruction": "it concerns chats"} if self._is_plain else {})}

    def circumstances(self) -> Facts:
        counts = {"prompts": self._prompts, "tokens_written": self._written, **self.cutter.counts}
        counts |= {AMONG: self._among} if self._among else {}
        notes = {"notes": said} if (said := self._notes()) else {}
        if self.server is not None:
            return {**counts, "calls_failed": self._failed, **self.server.circumstances(), **notes}
        refusal = self.model.refuses_cache()
        alone = "one prompt at a time" if self.model.refuses_states() else "one prompt at a time, each from its state"
        return {
            **counts,
            **super().circumstances(),
            "engine": "packed branches" if refusal is None else f"{alone}, because {refusal}",
        }

    def _notes(self) -> list[str]:
        notes = [*super()._notes(), *self.cutter.notes()]
        if self._among and CONTAINS not in {scoring.name for scoring in self.scorings}:
            notes.append(f"some replies name a right answer among other words, which --score contains counts ({AMONG})")
        if self.without_question:
            names = first_few(self.without_question)
            notes.append(f'no question for {names}: prompts are lines "(head, relation,"; see --questions FILE')
        return notes

    def _heads_in_questions(self) -> list[str]:
        if "head" not in self.options.directions or not self.questions:
            return []
        return [
            f"--directions head: the questions of {', '.join(list(self.questions)[:5])} ask for tails; few-shot lines "
            "alone can ask for heads: remove --questions or --directions"
        ]

    def _answered(self, shard: Shard) -> Answered:
        number, queries = shard
        questions = [self._question(query, number) for query in queries]
        askable = [question for question in questions if question.unscored is None]
        prompts = [question.prompt for question in askable]
        replies = iter(self._served(askable) if self.server is not None else self._replies(prompts, number))
        for query, question in zip(queries, questions, strict=True):
            prompted = PromptedQuery(query, number, _shown(question))
            yield prompted, question.unscored or self._answer(query, number, question, next(replies))

    def _cut(self) -> Iterator[Shard]:
        """Cut by relation and question, so that prompts of a shard share few-shot examples."""
        for relation, queries in self.queryset.by_relation().items():
            numbers = range(len(self.questions[relation])) if relation in self.questions else [NO_TEMPLATE]
            for number in numbers:
                yield from shards_of(number, queries, SHARD_QUERIES)

    def _asked(self, query: Query, number: int) -> str | None:
        return _shown(self._question(query, number))

    def _question(self, query: Query, number: int) -> _Question:
        if query.unscored is not None:
            return _Question(unscored=query.unscored)
        if nameless := self.matcher.nameless(query):
            return _Question(unscored=f"its answer {nameless[0]} has no name to compare with")
        if number == NO_TEMPLATE:
            assert self.lines is not None
            line, unscored = self.lines.question(query)
            return _Question(unscored=unscored) if unscored is not None else self._in_chat(line)
        if query.direction == "head":
            return _Question(unscored="a question asks for the tail, this query for the head")
        return self._worded(query, number)

    def _worded(self, query: Query, number: int) -> _Question:
        template = self.questions[query.relation][number]
        bare = asked(template, query.subject)
        try:
            if self._is_plain:
                return _Question(self.shots.prompt(query, template), bare)
            return self._in_chat(bare, self.options.instruction, self.shots.examples(query, template))
        except BadInput as error:
            return _Question(unscored=str(error))

    def _in_chat(self, bare: str, instruction: str = "", examples: Sequence[Example] = ()) -> _Question:
        """Return the question as the last turn, after examples. :param instruction: below each question."""

        def instructed(question: str) -> str:
            return f"{question}\n{instruction}".rstrip("\n")

        turns = tuple((instructed(question), answer) for question, answer in examples)
        user = instructed(bare)
        if self.chat is not None:
            return _Question(self.chat.turn(user, turns), bare)
        return _Question("\n".join([*(f"{question} {answer}" for question, answer in turns), user]), bare, user, turns)

    def _served(self, questions: Sequence[_Question]) -> list[Reply]:
        assert self.server is not None
        options = self.options
        requests = [
            ChatRequest(
                question.user,
                examples=question.examples,
                system=options.system,
                temperature=options.sampling_temperature,
                max_tokens=options.max_new_tokens,
                seed=options.seed,
            )
            for question in questions
        ]
        replies = []
        for reply in self.server.ask(requests):
            fault = None if reply.fault is None else f"the call failed: {reply.fault}"
            replies.append(Reply("".join(reply.texts), reply.completion_tokens, fault))
        self._count(replies)
        self._failed += sum(reply.fault is not None for reply in replies)
        return replies

    def _count(self, replies: Sequence[Reply]) -> None:
        self._prompts += len(replies)
        self._written += sum(reply.tokens for reply in replies)

    def _replies(self, prompts: Sequence[str], number: int) -> list[Reply]:
        """Generate in batches of prompts with a shared prefix, as many as the budget allows."""
        tokens = encode_prompts(self.model.tokenizer, prompts, self.bos)
        order = sorted(range(len(prompts)), key=lambda place: (prompts[place].rpartition("\n")[0], len(tokens[place])))
        stop = _stops(number) if self.stops_in_text else ()

        def pack(start: int) -> tuple[list[int], int]:
            after = start + self._fitting([tokens[place] for place in order[start:]])
            return order[start:after], after

        def run(places: Sequence[int]) -> list[Reply]:
            return self.model.generate(
                [prompts[place] for place in places], self.options.max_new_tokens, stop, self.bos
            )

        replies: dict[int, Reply] = {}
        for places, batch in self.budget.batches(len(order), pack, run):
            replies.update(zip(places, batch, strict=True))
        self._count(list(replies.values()))
        return [replies[place] for place in range(len(prompts))]

    def _fitting(self, tokens: Sequence[list[int]]) -> int:
        """Return how many prompts fit the budget: their shared prefix counted once, plus room for each reply."""
        shared, total = len(tokens[0]), 0
        for count, ids in enumerate(tokens):
            shared = min(shared, shared_length([tokens[0], ids]))
            total += len(ids) + self.options.max_new_tokens
            if count and total - count * shared > self.budget.tokens:
                return count
        return len(tokens)

    def _answer(self, query: Query, number: int, question: _Question, reply: Reply) -> list[Columns] | str:
        """Return the columns of each scoring, or why there are none."""
        if reply.fault is not None:
            return reply.fault
        text = reply.text
        if not self.stops_in_text:
            cut = self.cutter.read(text, question.prompt)
            if cut.unfinished:
                return "its reasoning did not end within --max-new-tokens: allow more"
            text = until(cut.text.strip(), _stops(number))
        answers = _answer_on_line(text)
        if number != NO_TEMPLATE:
            answers = split_answers(text, self.options.separator, self.options.normalise)
        matched = self.matcher.match(query, answers)
        score = set_score(matched.right, matched.wrong, matched.gold)
        first = self.mentions.first(query, question.bare.rpartition("\n")[2], text)
        self._among += first.is_right and score.f1 == 0
        by_scoring: dict[str, Columns] = {
            F1: {
                "answers": answers,
                "answer_ids": list(matched.ids),
                "correct": score.f1,
                "precision": score.precision,
                "recall": score.recall,
            },
            CONTAINS: {"answers": [text.strip()], "answer_ids": [first.id_], "correct": float(first.is_right)},
        }
        return [by_scoring[scoring.name] for scoring in self.scorings]


def _user_questions(file: Path | None, relations: Sequence[str]) -> Questions:
    if file is None:
        return {}
    questions = read_questions(file)
    used = {relation: questions[relation] for relation in relations if relation in questions}
    if not used:
        raise BadInput(
            f"--questions {file}: it has {', '.join(list(questions)[:5])}, but no question for the relations: "
            f"{', '.join(relations[:10])}"
        )
    return used


def _shown(question: _Question) -> str | None:
    return f"{question.prompt.rstrip(' ')} {ANSWER}" if question.prompt else None


def _stops(number: int) -> tuple[str, ...]:
    return STOP_LINE if number == NO_TEMPLATE else STOP_QUESTION


def _answer_on_line(text: str) -> list[str]:
    """Return the answer in a line "(head, relation, answer)", up to a bracket that the answer did not open."""
    depth = 0
    for place, letter in enumerate(text):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if depth < 0:
            text = text[:place]
            break
    return [text.strip()] if text.strip() else []
