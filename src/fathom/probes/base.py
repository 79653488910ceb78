"""The interface of probes, and the base class of those that score with a local model or a likelihood server."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

from fathom.base.errors import BadInput
from fathom.base.progress import Progress
from fathom.base.reading.replies import excerpt_of
from fathom.data.prompts.wording import FewShot
from fathom.data.queries import Query, QuerySet
from fathom.data.templates import ANSWER
from fathom.engine.models.base import Attention, Model
from fathom.engine.models.chat import ChatTemplate, bos_marks_turns
from fathom.engine.models.model_files import is_trained_here
from fathom.engine.scoring.memory import Budget
from fathom.engine.scoring.rows import Columns, PromptedQuery
from fathom.engine.scoring.seq2seq import Form
from fathom.engine.scoring.statements import GAIN, PROMPTS, SHUFFLED, SPREAD, order_gains
from fathom.probes.options import FewShotOptions, ProbeOptions
from fathom.store.manifest import CHAT_FRAME, CHAT_TOKENS
from fathom.store.predictions import Scoring

OptionsT = TypeVar("OptionsT")
Facts = dict[str, Any]
"""What goes into the manifest, by name."""


class Probe(ABC):
    """A method of querying a model: prepare once, then evaluate shards of queries into predictions.

    :raises BadInput: in the constructor of a subclass, a model or data that it cannot evaluate.
    """

    model: Model
    scorings: tuple[Scoring, ...]
    """The scorings; each query has a row for each. Kept in the manifest."""
    needs_head: ClassVar[bool] = True
    """Whether the model must give log-probabilities, not states alone."""

    @classmethod
    def create(cls, options: Any, model: Any, queryset: QuerySet) -> Probe:
        """Return the probe for this model; a subclass may choose among several classes."""
        return cls(options, model, queryset)  # type: ignore[call-arg]

    @classmethod
    def complete_options(cls, options: OptionsT, data: QuerySet) -> OptionsT:
        """Return the options with defaults that depend on the data. :raises BadInput: they do not fit the data."""
        return options

    @classmethod
    def prepare_queries(cls, options: Any, queryset: QuerySet) -> QuerySet:
        """Return the selected queries as this probe needs them, before it is constructed."""
        return queryset

    def resolved(self) -> Facts:
        """Return choices that the options left to the model, for the identity of the run."""
        return {}

    may_idle: ClassVar[Sequence[str]] = ()
    """The options that :meth:`idle` may return."""

    def idle(self) -> Mapping[str, str]:
        """Return the options that can change no number for this model and data → why. They do not prevent a resume."""
        return {}

    def recipe(self) -> Mapping[str, str]:
        """Return settings to show in the recipe of each number."""
        return {}

    @abstractmethod
    def plan(self) -> Sequence[str]:
        """Return the names of the shards, in order. The same options and data give the same plan."""

    def work(self, shard: str) -> Mapping[str, int]:
        """Return the number of prompts of a shard by relation: one for each query and template. By default one."""
        return {"": 1}

    def count_texts(self, shard: str) -> int:
        """Return the number of texts that a shard scores; by default one per prompt.

        :raises BadInput: the work cannot be known before the run.
        """
        return sum(self.work(shard).values())

    def pieces(self, artifacts: Path) -> Sequence[str]:
        """Return the missing files that :meth:`prepare` needs and that any process can make, in any order."""
        return ()

    def make_piece(self, artifacts: Path, name: str) -> None:
        """Make one of :meth:`pieces`, completely or not at all."""
        raise NotImplementedError

    def prepare(self, artifacts: Path, progress: Progress) -> None:  # noqa: B027
        """Make what all shards need (entity vectors, …), once.

        :param artifacts: folder of the run for it. Complete files there come from an earlier session and are kept.
        """

    @abstractmethod
    def evaluate(self, shard: str) -> list[Columns]:
        """Return the prediction rows of one shard (schema in :mod:`fathom.store.predictions`)."""

    def circumstances(self) -> Facts:
        """Return facts on which no number depends; the texts of ``notes`` are shown below the results."""
        return {}


FEW_SHOT_OPTIONS = ("shots", "per_query_shots", "trailing_space", "describe_head")
NO_LINES = "every question has a template or a sentence of its own, so that no few-shot lines are shown"


def few_shot_lines(options: FewShotOptions, data: QuerySet) -> FewShot:
    """Draw the lines of few-shot prompts. :raises BadInput: the data has no graph, or one with too few triples."""
    if data.graph is None:
        raise BadInput(
            f"{data.name} has no graph of facts, so there are no lines for a few-shot prompt: use a knowledge "
            "graph, a BEAR folder or a folder of facts"
        )
    return FewShot(
        data.graph,
        data.relations,
        data.queries,
        shots=options.shots,
        seed=options.seed,
        per_query=options.per_query_shots,
        trailing_space=options.trailing_space,
        description=options.describe_head,
    )


def too_long(text: str, tokens: int, model: Model) -> str | None:
    """Return why a text has no score if its tokens exceed the model's window, else None."""
    if model.max_tokens is None or tokens <= model.max_tokens:
        return None
    return f"{text} of {tokens} tokens is longer than the model's window of {model.max_tokens}"


FEW_SHARDS, ENOUGH_QUERIES = 100, 50
"""If a run has more shards than this, those with fewer queries than this share files."""


class Shard(NamedTuple):
    """Queries that are evaluated together.

    :param template: number of their template, sentence or question; NO_TEMPLATE for none.
    """

    template: int
    queries: tuple[Query, ...]

    @property
    def space(self) -> str:
        """Name of the first query's candidate set, which most probes let all queries of a shard share."""
        return self.queries[0].candidates


def shards_of(template: int, queries: Sequence[Query], size: int) -> Iterator[Shard]:
    """Cut queries into shards of at most *size*, which a crash may lose."""
    for start in range(0, len(queries), size):
        yield Shard(template, tuple(queries[start : start + size]))


Answered = Iterable[tuple[PromptedQuery, Sequence[Columns] | str]]
"""Evaluated queries, each with its columns per scoring, or the reason why it is unscored."""


class ShardedProbe(Probe):
    """A probe that cuts its queries into shards and runs a model within a memory budget."""

    bos: int | None = None
    """Token in front of a causal model's text; None for none."""
    form: Form = Form.SPLIT
    """How an encoder-decoder reads a text; if it writes, it reads what is before the answer."""
    chat: ChatTemplate | None = None
    """Chat template of a local model; None for plain prompts and for a server."""
    reads_text = True
    """Whether prompts are text alone, without learnt tokens or pseudowords."""
    _is_checked = False
    _gains: tuple[float, ...] = ()
    """Of the first prompts, see :func:`~fathom.engine.scoring.statements.order_gains`."""

    def __init__(self, options: ProbeOptions, model: Model, queryset: QuerySet) -> None:
        self.model, self.queryset = model, queryset
        self.budget = Budget.from_option(options.batch_tokens, model)
        trained_here = bool(model.made_of) and is_trained_here(model.made_of[0])
        self._is_checked = self.needs_head and not (model.is_served or trained_here)

    def _cut(self) -> Iterable[Shard]:
        """Return the shards, in order."""
        raise NotImplementedError

    @cached_property
    def _shards(self) -> dict[str, Shard]:
        return {f"{number:05d}": shard for number, shard in enumerate(self._cut())}

    def _answered(self, shard: Shard) -> Answered:
        """Evaluate a shard's queries, in order."""
        raise NotImplementedError

    def _asked(self, query: Query, number: int) -> str | None:
        """Return the prompt of a query in a template, as the column ``prompt`` shows it; None if it has none."""
        raise NotImplementedError

    @cached_property
    def _parts(self) -> dict[str, list[Shard]]:
        """The shards of each file; small ones share files, as writing a file takes longer than a few answers."""
        if len(self._shards) <= FEW_SHARDS:
            return {name: [shard] for name, shard in self._shards.items()}
        parts: list[list[str]] = []
        room = 0
        for name, shard in self._shards.items():
            if room < 1:
                parts.append([])
                room = ENOUGH_QUERIES
            parts[-1].append(name)
            room -= len(shard.queries)
        return {
            part[0] if len(part) == 1 else f"{part[0]}-{part[-1]}": [self._shards[name] for name in part]
            for part in parts
        }

    def plan(self) -> list[str]:
        return list(self._parts)

    def work(self, shard: str) -> Counter[str]:
        return Counter(query.relation for part in self._parts[shard] for query in part.queries)

    def evaluate(self, shard: str) -> list[Columns]:
        answered = [pair for part in self._parts[shard] for pair in self._answered(part)]
        if self._is_checked and self.reads_text and len(self._gains) < PROMPTS:
            self._compare_with_shuffled(asked for asked, answers in answered if not isinstance(answers, str))
        return [row for asked, answers in answered for row in asked.rows(self.scorings, answers)]

    def _compare_with_shuffled(self, scored: Iterable[PromptedQuery]) -> None:
        """Add the first right prompts of a shard to :attr:`_gains`, as many as are its share."""
        texts = [text for text in dict.fromkeys(map(self._right_text, scored)) if text]
        share = PROMPTS // min(SPREAD, len(self._parts))  # prompts of one template are alike
        texts = texts[: min(share, PROMPTS - len(self._gains))]
        self._gains += tuple(order_gains(self.model, texts, self.bos, self.form, self.budget))

    def _right_text(self, asked: PromptedQuery) -> str:
        """Return the prompt with the first gold answer in it, "" without either."""
        gold = self.queryset.candidates[asked.query.candidates].name_of(asked.query.gold[0])
        return (asked.prompt or "").replace(ANSWER, gold) if gold else ""

    def prepare(self, artifacts: Path, progress: Progress) -> None:
        self.model.keep_answers(artifacts)

    def resolved(self) -> Facts:
        facts: Facts = {"attention": str(self.model.attention)}
        if self.model.attention is Attention.CAUSAL:
            bos = None if self.bos is None else self.model.tokenizer.convert_ids_to_tokens(self.bos)
            facts["bos_token"] = bos
            if self.bos is not None and self.model.tokenizer.bos_token_id is None:
                facts["bos_is_eos"] = True
        if self.model.attention is Attention.SEQ2SEQ:
            facts["form"] = str(self.form)
        return facts | self._chat()

    def _chat(self) -> Facts:
        """Identify the chat: its template, what that writes, and the tokens of each wording's first prompt."""
        if self.chat is None:
            return {}
        first: dict[int, Query] = {}
        for shard in self._shards.values():
            first.setdefault(shard.template, shard.queries[0])
        prompts = [self._asked(query, number) or "" for number, query in first.items()]
        ids = [self.model.tokenizer(prompt, add_special_tokens=False)["input_ids"] for prompt in prompts]
        tokens = hashlib.sha256(json.dumps(ids).encode()).hexdigest()[:16]
        return {"chat_template": self.chat.digest, CHAT_FRAME: self.chat.frame(), CHAT_TOKENS: tokens}

    def _notes(self) -> list[str]:
        """Return notes for readers of the results."""
        unread = bool(self._gains) and sum(self._gains) < GAIN * len(self._gains)
        return [*self._chat_notes, *[SHUFFLED] * unread]

    @cached_property
    def _chat_notes(self) -> list[str]:
        system = "" if self.chat is None else self.chat.built_in_system()
        notes = [f"the chat template itself begins with {excerpt_of(system)!r}"] if system else []
        if self.bos is not None and bos_marks_turns(self.model.tokenizer):
            bos = self.model.tokenizer.convert_ids_to_tokens(self.bos)
            notes.append(f"texts begin with the BOS token {bos}, which marks turns in chats: --bos none leaves it out")
        return notes

    def circumstances(self) -> Facts:
        facts = {**self.budget.circumstances(), **self.model.circumstances()}
        notes = self._notes()
        return facts | ({"notes": notes} if notes else {})
