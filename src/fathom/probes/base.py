"""What every probe is: a way of asking that turns shards of queries into prediction rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from fathom.data.queries import Query, QuerySet
from fathom.models.base import Attention, Model
from fathom.models.likelihoods import LikelihoodServer
from fathom.probes.options import ProbeOptions
from fathom.progress import Progress
from fathom.scoring.memory import Budget
from fathom.scoring.rows import Asked, Columns
from fathom.scoring.seq2seq import Form
from fathom.store.predictions import Scoring

Facts = dict[str, Any]
"""What goes into the manifest, by name."""


class Probe(Protocol):
    """Made of options, model and query set; refuses in its constructor what it cannot ask."""

    model: Model

    @property
    def scorings(self) -> tuple[Scoring, ...]:
        """The ways in which it scores, each with rows of its own; kept in the manifest."""
        ...

    def resolved(self) -> Facts:
        """Choices that the options left to the model, for the identity of the run."""
        ...

    def idle(self) -> Mapping[str, str]:
        """Options that can change no number of this model and data → why. A run goes on where they differ."""
        ...

    def plan(self) -> Sequence[str]:
        """Names of the shards, in order. The same options and data give the same plan."""
        ...

    def prepare(self, artifacts: Path, progress: Progress) -> None:
        """Make what every shard needs (entity vectors, …), once; most probes need nothing.

        :param artifacts: folder of the run to keep it in. What is there already, whole, is from an earlier session of
            the same run and is not made again.
        """
        ...

    def pieces(self, artifacts: Path) -> Sequence[str]:
        """Names of files of *artifacts* that :meth:`prepare` needs, are not there yet, and may be made in any order, by
        any process that is asked the same."""
        ...

    def make_piece(self, artifacts: Path, name: str) -> None:
        """Make one of :meth:`pieces`, whole or not at all."""
        ...

    def ask(self, shard: str) -> list[Columns]:
        """The prediction rows of one shard (schema in :mod:`fathom.store.predictions`)."""
        ...

    def circumstances(self) -> Facts:
        """What to note of how it went: never anything that a number depends on. ``notes``, a list of texts, is shown
        below the run's numbers."""
        ...


OF_LINES = ("shots", "per_query_shots", "trailing_space", "describe_head")
"""Options of few-shot lines."""
NO_LINES = "every question has a template or a sentence of its own, so that no few-shot lines are shown"


FEW_SHARDS, ENOUGH_QUERIES = 100, 50
"""Of more shards those are written together that have fewer queries than enough for a file."""


class Shard(NamedTuple):
    """Queries that are asked together, all of them alike.

    :param template: which of their relation's templates, sentences or questions asks them, NO_TEMPLATE for none.
    """

    template: int
    queries: tuple[Query, ...]

    @property
    def space(self) -> str:
        """Name of the candidate set of the first query; most probes put queries of one set together."""
        return self.queries[0].candidates


def shards_of(template: int, queries: Sequence[Query], size: int) -> Iterator[Shard]:
    """*queries* in pieces of a *size* to lose in a crash."""
    for start in range(0, len(queries), size):
        yield Shard(template, tuple(queries[start : start + size]))


Answered = Iterable[tuple[Asked, Sequence[Columns] | str]]
"""Queries as they were asked, each with an answer per scoring, or the reason why there is none."""


def told_of(model: Any) -> Facts:
    """What to note of a model that is not all on one device here: how a server is asked and what it has answered, or
    how many modules lie where."""
    if isinstance(model, LikelihoodServer):
        return {"engine": model.engine, **model.kept()}
    placement = getattr(model, "placement", None)  # models of other packages need not have one
    return {} if placement is None else {"placement": placement}


class ShardedProbe:
    """What probes of a model at hand share: their queries are cut into shards, and a budget says what runs together.

    :raises BadInput: in a subclass, everything that it cannot ask.
    """

    scorings: tuple[Scoring, ...]
    bos: int | None = None
    """The token that a causal model is shown first; None for none."""
    form: Form = Form.SPLIT
    """How a text is put to an encoder-decoder; a probe that has it write lets it read what stands before."""

    def __init__(self, options: ProbeOptions, model: Model, queryset: QuerySet) -> None:
        self.model, self.queryset = model, queryset
        self.rough: Model | None = getattr(model, "rough", None)  # models of other packages need not have one
        self.budget = Budget.told(options.batch_tokens, model)
        self.screened: Counter[str] = Counter()
        self._following: dict[int, Shard] = {}
        """By the identity of a shard, which the probe keeps, the one that is asked after it."""

    def _cut(self) -> Iterable[Shard]:
        """The shards, in order."""
        raise NotImplementedError

    @cached_property
    def _shards(self) -> dict[str, Shard]:
        return {f"{number:05d}": shard for number, shard in enumerate(self._cut())}

    def _answered(self, shard: Shard) -> Answered:
        """Its queries, in order."""
        raise NotImplementedError

    @cached_property
    def _parts(self) -> dict[str, list[Shard]]:
        """What is written together: a shard, or several where each question has answers of its own, as every file takes
        longer than a few answers."""
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
        """See :meth:`Probe.plan`."""
        return list(self._parts)

    def expect(self, shards: Sequence[str]) -> None:
        """Told before any is asked in which order they will be, so that work of the host may run ahead of the device.
        What is asked otherwise costs no more than that work twice."""
        order = [part for shard in shards for part in self._parts[shard]]
        self._following = {id(shard): following for shard, following in pairwise(order)}

    def ask(self, shard: str) -> list[Columns]:
        """See :meth:`Probe.ask`."""
        answered = (found for part in self._parts[shard] for found in self._answered(part))
        return [row for asked, answers in answered for row in asked.rows(self.scorings, answers)]

    def pieces(self, artifacts: Path) -> Sequence[str]:
        """See :meth:`Probe.pieces`: none, unless a subclass makes some."""
        return ()

    def make_piece(self, artifacts: Path, name: str) -> None:
        """See :meth:`Probe.make_piece`."""
        raise NotImplementedError

    def prepare(self, artifacts: Path, progress: Progress) -> None:
        """See :meth:`Probe.prepare`: a server gets its journal; subclasses may make more."""
        if isinstance(self.model, LikelihoodServer):
            self.model.keep_answers(artifacts)

    def resolved(self) -> Facts:
        """The kind of the model, what a causal one is shown first, and the form in which an encoder-decoder reads."""
        found: Facts = {"attention": str(self.model.attention)}
        if self.model.attention is Attention.CAUSAL:
            bos = None if self.bos is None else self.model.tokenizer.convert_ids_to_tokens(self.bos)
            found["bos_token"] = bos
        if self.model.attention is Attention.SEQ2SEQ:
            found["form"] = str(self.form)
        if self.rough is not None:
            found["screened_in"] = self.rough.identity.dtype
        return found

    def idle(self) -> Mapping[str, str]:
        """See :meth:`Probe.idle`: none, unless a subclass knows better."""
        return {}

    def circumstances(self) -> Facts:
        """How often memory ran out, what it was found to hold, how much was screened, and what a server has answered;
        subclasses add what they count."""
        return {**self.budget.circumstances(), **self.screened, **told_of(self.model)}
