"""The generation probe (KAMEL, Kalo and Fichtel 2022): what does the model say when it is asked?

A few answered questions show the form; the model goes on greedily from the question alone, and what it writes is
compared with labels and aliases. Several answers are allowed. Relations without a question are asked by the few-shot
lines of the embedding probe, "(head, relation,", and the answer is what stands up to ")".
See docs/methods/generation.md.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from fathom.data.queries import Query, QuerySet
from fathom.data.templates import ANSWER
from fathom.errors import BadInput, refuse
from fathom.metrics.descriptive import set_score
from fathom.models.base import Attention, Model, Reply
from fathom.models.generation import encode_prompts, shared_length, until
from fathom.models.server import ChatRequest, ChatServer
from fathom.probes.base import Answered, Facts, Shard, ShardedProbe, few_shot_lines, shards_of
from fathom.probes.models import chat_template
from fathom.probes.options import GenerationOptions
from fathom.progress import Progress
from fathom.prompts.questions import CLOSING, Questions, QuestionShots, read_questions
from fathom.prompts.reasoning import Cutter
from fathom.prompts.wording import FewShotQuestion
from fathom.scoring.answers import Matcher, split_answers
from fathom.scoring.rows import Asked, Columns, unscored
from fathom.scoring.tokens import Bos, resolve_bos
from fathom.store.predictions import NO_TEMPLATE, Scoring

SHARD_QUERIES = 256
STOP_QUESTION = (CLOSING, "\n")
STOP_LINE = (")\n", "\n")


class GenerationProbe(ShardedProbe):
    """See :class:`fathom.probes.base.Probe`.

    :raises BadInput: a model that does not write, a file of questions with mistakes or for other relations, too few
        facts to draw the few-shot examples from, BOS asked of a tokenizer without one.
    """

    scorings = (Scoring("f1", "credit"),)

    def __init__(self, options: GenerationOptions, model: Model | ChatServer, queryset: QuerySet) -> None:
        self.server = model if isinstance(model, ChatServer) else None
        if not isinstance(model, ChatServer) and model.attention is Attention.BIDIRECTIONAL:
            raise BadInput(
                f"the generation probe needs a model that writes; this one is {model.attention}: use statement "
                "or vocabulary"
            )
        refuse(queryset.without_subjects("generation"))
        if isinstance(model, ChatServer):
            self.model, self.queryset = model, queryset  # type: ignore[assignment] # it has what a run needs of it
        else:
            super().__init__(options, model, queryset)
        self.options = options
        self.cutter = Cutter(options.cut_reasoning)
        self.template = chat_template(model, options)
        plain = self.server is None and self.template is None
        takes_bos = plain and self.model.attention is Attention.CAUSAL
        self.bos = resolve_bos(self.model.tokenizer, Bos(options.bos)) if takes_bos else None
        self.stops_in_text = plain and not self.cutter.cuts
        """Whether a reply may end where an answer ends: not if reasoning may stand before it."""
        by_relation = queryset.by_relation()
        self.own = _own_questions(options.questions, list(by_relation))
        built_in = {relation: queryset.relations[relation].questions for relation in by_relation}
        self.questions: Questions = {
            relation: questions for relation, questions in (built_in | self.own).items() if questions
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
        self.lines = few_shot_lines(options, queryset) if by_relation.keys() - self.questions.keys() else None
        self.matcher = Matcher(queryset.graph, queryset.candidates, queryset.queries, options.normalise)
        self._asked = self._written = self._failed = 0

    def prepare(self, artifacts: Path, progress: Progress) -> None:
        """Give a server its journal: what it has answered is kept."""
        if self.server is not None:
            self.server.keep_answers(artifacts)

    def resolved(self) -> Facts:
        """With digests of the user's own questions and of the chat template."""
        own = json.dumps({relation: [q.text for q in questions] for relation, questions in sorted(self.own.items())})
        digest = hashlib.sha256(own.encode()).hexdigest()[:16] if self.own else None
        template = {} if self.template is None else {"chat_template": self.template.digest}
        kind = super().resolved() if self.server is None else {"attention": "chat"}
        return {**kind, "questions": digest, **template}

    def circumstances(self) -> Facts:
        """Also what was written, and how."""
        noted = {"prompts": self._asked, "tokens_written": self._written, **self.cutter.circumstances()}
        if self.server is not None:
            return {**noted, "calls_failed": self._failed, **self.server.circumstances()}
        refusal = self.model.refuses_cache()
        alone = "one prompt at a time" if self.model.refuses_states() else "one prompt at a time, each from its state"
        return {
            **noted,
            **super().circumstances(),
            "engine": "packed branches" if refusal is None else f"{alone}, because {refusal}",
        }

    def _heads_in_questions(self) -> list[str]:
        """One line where heads are to be asked of relations with questions, which ask for tails."""
        if "head" not in self.options.directions or not self.questions:
            return []
        return [
            f"--directions head: the questions of {', '.join(list(self.questions)[:5])} ask for tails, only few-shot "
            "lines ask for heads: leave --questions or --directions out"
        ]

    def _answered(self, shard: Shard) -> Answered:
        number, queries = shard
        asked = [self._spoken(self._question(query, number)) for query in queries]
        prompts = [question.prompt for question in asked if question.unscored is None]
        replies = iter(self._served(prompts) if self.server is not None else self._replies(prompts, number))
        for query, question in zip(queries, asked, strict=True):
            one = Asked(query, number, f"{question.prompt.rstrip(' ')} {ANSWER}" if question.prompt else None)
            yield one, question.unscored or [self._answer(query, number, question.prompt, next(replies))]

    def _cut(self) -> Iterator[Shard]:
        """By relation and question: what shares its few-shot examples stays together, up to a size to lose."""
        for relation, queries in self.queryset.by_relation().items():
            numbers = range(len(self.questions[relation])) if relation in self.questions else [NO_TEMPLATE]
            for number in numbers:
                yield from shards_of(number, queries, SHARD_QUERIES)

    def _question(self, query: Query, number: int) -> FewShotQuestion:
        if query.unscored is not None:
            return FewShotQuestion("", query.unscored)
        if nameless := self.matcher.nameless(query):
            return FewShotQuestion("", f"its answer {nameless[0]} has no name to compare with")
        if number == NO_TEMPLATE:
            assert self.lines is not None
            return self.lines.question(query)
        if query.direction == "head":
            return FewShotQuestion("", "a question asks for the tail, this query for the head")
        try:
            return FewShotQuestion(self.shots.prompt(query, self.questions[query.relation][number]), None)
        except BadInput as error:
            return FewShotQuestion("", str(error))

    def _spoken(self, question: FewShotQuestion) -> FewShotQuestion:
        """As the user's turn, where the model is asked so."""
        if self.template is None or question.unscored is not None:
            return question
        return FewShotQuestion(self.template.turn(question.prompt), None)

    def _served(self, prompts: Sequence[str]) -> list[Reply]:
        """What a chat model behind a server writes."""
        assert self.server is not None
        options = self.options
        requests = [
            ChatRequest(
                prompt,
                system=options.system,
                temperature=options.sampling_temperature,
                max_tokens=options.max_new_tokens,
                seed=options.seed,
            )
            for prompt in prompts
        ]
        replies = []
        for reply in self.server.ask(requests):
            fault = None if reply.fault is None else f"the call failed: {reply.fault}"
            replies.append(Reply("".join(reply.texts), reply.completion_tokens, fault))
        self._count(replies)
        self._failed += sum(reply.fault is not None for reply in replies)
        return replies

    def _count(self, replies: Sequence[Reply]) -> None:
        self._asked += len(replies)
        self._written += sum(reply.tokens for reply in replies)

    def _replies(self, prompts: Sequence[str], number: int) -> list[Reply]:
        """In batches of prompts that begin alike, as many as the budget holds."""
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
        for places, found in self.budget.batches(len(order), pack, run):
            replies.update(zip(places, found, strict=True))
        self._count(list(replies.values()))
        return [replies[place] for place in range(len(prompts))]

    def _fitting(self, tokens: Sequence[list[int]]) -> int:
        """How many of the first prompts run at once: what they share counted once, room for their answers each."""
        shared, own = len(tokens[0]), 0
        for count, ids in enumerate(tokens):
            shared = min(shared, shared_length([tokens[0], ids]))
            own += len(ids) + self.options.max_new_tokens
            if count and own - count * shared > self.budget.tokens:
                return count
        return len(tokens)

    def _answer(self, query: Query, number: int, prompt: str, reply: Reply) -> Columns:
        """:param prompt: the text that the model went on from."""
        if reply.fault is not None:
            return unscored(reply.fault)
        text = reply.text
        if not self.stops_in_text:
            cut = self.cutter.read(text, prompt)
            if cut.unfinished:
                return unscored("its reasoning did not end within --max-new-tokens: allow more")
            text = until(cut.text.strip(), _stops(number))
        said = _said_on_line(text)
        if number != NO_TEMPLATE:
            said = split_answers(text, self.options.separator, self.options.normalise)
        matched = self.matcher.match(query, said)
        score = set_score(matched.right, matched.wrong, matched.gold)
        return {
            "answers": said,
            "answer_ids": list(matched.ids),
            "correct": score.f1,
            "precision": score.precision,
            "recall": score.recall,
        }


def _own_questions(file: Path | None, relations: Sequence[str]) -> Questions:
    """Those of the user's file that are of relations asked."""
    if file is None:
        return {}
    questions = read_questions(file)
    used = {relation: questions[relation] for relation in relations if relation in questions}
    if not used:
        raise BadInput(
            f"--questions {file}: it has {', '.join(list(questions)[:5])}, but no question for a relation asked: "
            f"{', '.join(relations[:10])}"
        )
    return used


def _stops(number: int) -> tuple[str, ...]:
    """Texts that an answer ends before."""
    return STOP_LINE if number == NO_TEMPLATE else STOP_QUESTION


def _said_on_line(text: str) -> list[str]:
    """The one answer of a line "(head, relation, answer)": up to a bracket that closes what the answer did not open."""
    depth = 0
    for place, letter in enumerate(text):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if depth < 0:
            text = text[:place]
            break
    return [text.strip()] if text.strip() else []
