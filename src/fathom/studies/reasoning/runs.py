"""The runs of the entailment study: of each model a plan, all in one folder, each of which goes on where it stopped.

``memory-…``    the ontology probe's own tasks (of causal models by the statement probe): how well is P1 remembered?
``premises-…``  the same tasks asked about pseudowords: would the model say P2 anyway?
``words``, ``learnt-conjunction``, ``learnt-templates``, ``learnt``
                the hypothesis, with the premises said and not said, in each wording
``controls-…``  the hypothesis behind premises from which it does not follow

*Implicit* is the half of the premises that is remembered better, *absent* the other half, by the reciprocal rank of the
best right answer; with an odd count the one in the middle is left out and named. P2's halves are those of each pair of
pseudowords. Premises equally well remembered stand in the order of the data.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field

from fathom.data.queries import QuerySet
from fathom.data.selection.filters import select
from fathom.data.selection.folds import all_with_folds, folds_of_queries
from fathom.data.selection.options import Selection
from fathom.data.templates import SUBJECT
from fathom.errors import BadInput
from fathom.models.base import Attention, Model
from fathom.models.server import ChatServer
from fathom.options import CIRCUMSTANCE, FOLDS
from fathom.probes import ENTAILMENT
from fathom.probes.ontology_options import OntologyOptions
from fathom.probes.options import ProbeOptions, StatementOptions
from fathom.prompts.entailment import (
    ABSENT,
    IMPLICIT,
    SUBSETS,
    Halves,
    RuleWording,
    controls,
    entailment,
    second_premises,
)
from fathom.prompts.ontology import RULES, TEMPLATES
from fathom.results.estimates import Estimate, untold
from fathom.results.recipes import recipe
from fathom.results.rows import Rows, grouped
from fathom.run import run
from fathom.store.folder import RunFolder
from fathom.studies import Announce
from fathom.studies.reasoning.chat import ChatQuestions
from fathom.studies.reasoning.plan import (
    LEAST,
    STATEMENTS,
    EntailmentPlan,
    Memories,
    MemorisingRun,
    is_chat,
    learns,
    of_task,
    tasks_of,
)

PARTICULAR = TEMPLATES["type"][-1].removeprefix(SUBJECT)
"""How the hypothesis asks for a class. Of several templates that asked for P1, its rank is that of this one."""
OF_CHAT = (
    "of chat models MRR is the share of right choices among the options, and a premise is remembered that was chosen "
    "more often than not; a server's model has no untrained twin"
)
HALVED = "no interval: the items were put into this half by the values themselves"


class Remembered(NamedTuple):
    """A premise's halves.

    :param premise: P1 or P2.
    :param better: mean 1 / rank (chat models: share of right choices) of the better half, and so *worse*.
    :param middle: left out, by name; of P2 with its pair.
    """

    model: str
    wording: str
    rule: str
    premise: str
    items: int
    better: Estimate
    worse: Estimate
    middle: tuple[str, ...]


class Split(NamedTuple):
    """Two halves.

    :param of: each premise's half.
    :param better: mean of the better half, and so *worse*.
    :param middle: left out, "" where the count is even.
    """

    of: Mapping[str, str]
    better: float
    worse: float
    middle: str


def right_and_wrong(values: Mapping[str, float]) -> Split:
    """Of a chat model, whose answers have no rank: premises that it chose more often than not, and the others.

    :param values: how often each was chosen, from 0 to 1.
    """
    of = {premise: IMPLICIT if value > 0.5 else ABSENT for premise, value in values.items()}
    better, worse = (
        float(np.mean(own)) if (own := [values[premise] for premise, half in of.items() if half == wanted]) else np.nan
        for wanted in (IMPLICIT, ABSENT)
    )
    return Split(of, better, worse, "")


def halves(values: Mapping[str, float]) -> Split:
    """:param values: how well each premise is remembered, in the order of the data."""
    order = sorted(values, key=lambda premise: -values[premise])
    half = len(order) // 2
    best, worst = order[:half], order[len(order) - half :]
    better, worse = (float(np.mean([values[one] for one in own])) if own else np.nan for own in (best, worst))
    of = dict.fromkeys(best, IMPLICIT) | dict.fromkeys(worst, ABSENT)
    return Split(of, better, worse, order[half] if len(order) % 2 else "")


class _Drawn(ProbeOptions):
    """Of queries that are drawn already. A run's identity has a digest of what was asked."""

    ids: frozenset[str] = Field(json_schema_extra=CIRCUMSTANCE)


def _held_out(learnt: bool) -> dict[str, Any]:
    """Options of a run in which nothing is learnt: it has no folds."""
    return {} if learnt else {"cross_validate": False, "folds": None}


class _Memorising(_Drawn, OntologyOptions):
    """How masked models are asked for P1."""


class _Stating(_Drawn, StatementOptions):
    """How causal models are."""


class ModelRuns:
    """One model: its runs, and how it remembers the premises."""

    def __init__(
        self,
        name: str,
        model: Model,
        plan: EntailmentPlan,
        tested: QuerySet,
        given: Memories,
        out: Path,
        announce: Announce,
    ) -> None:
        """:param tested: what asks for P1.
        :param given: memorising runs that need not be made."""
        self.name, self.model, self.plan, self.tested, self.given = name, model, plan, tested, given
        self.out, self.announce = out / name, announce
        self.way = plan.way_of(model)
        self.chat = ChatQuestions(model, plan) if is_chat(model) else None
        self.measure = "MRR" if self.chat is None else "accuracy"
        """What stands for how right an answer is."""
        self.runs: list[RunFolder] = []
        self.notes = [] if self.chat is None else [OF_CHAT]
        self.remembered: list[Remembered] = []
        self.of_wording: dict[str, Rows] = {}
        """What came of the hypothesis in each wording."""
        self.controls: dict[str, Rows] = {}
        """And of the texts from which it does not follow, in wordings without learnt conjunctions, which are trained
        to answer."""
        self.first_ranks: dict[tuple[str, str], dict[str, float]] = {}
        """Of each wording and rule, how well P1 of each item is remembered."""
        for learnt in dict.fromkeys(wording.templates for wording in plan.wordings):
            self._ask(learnt, [wording for wording in plan.wordings if wording.templates == learnt])

    def _ask(self, learnt: bool, wordings: Sequence[RuleWording]) -> None:
        """:param wordings: all that share the memorising runs."""
        memory = self._memory(learnt, wordings)
        self.runs.append(memory.run)
        vectors = memory.run.path / "artifacts" / "soft" if learnt else None
        plan, templates = self.plan, RuleWording(templates=learnt)
        premises = second_premises(self._items(templates), plan.patterns, plan.rules, templates, plan.options.pairs)
        second = self._run(f"premises-{templates.name}", premises, soft=learnt, learnt=vectors)
        first_ranks = self._first_ranks(memory)
        remembered = self._halves(templates, memory, first_ranks, second)
        for wording in wordings:
            about = self._items(wording), plan.patterns, plan.rules
            queries = entailment(*about, wording, plan.options.pairs, remembered)
            self.notes += queries.notes[len(plan.data.notes) :]
            self.of_wording[wording.name] = self._run(
                wording.name, queries, soft=learnt, soft_conjunction=wording.conjunction, learnt=vectors
            )
            self.first_ranks |= {(wording.name, rule): own for rule, own in first_ranks.items()}
            if plan.controlled and not wording.conjunction:
                made = controls(*about, wording, plan.options.pairs, remembered)
                where = f"controls-{wording.name}"
                self.controls[wording.name] = self._run(where, made, soft=learnt, learnt=vectors)

    def _items(self, wording: RuleWording) -> QuerySet:
        """What asks for P1, each with its fold where what is learnt is cross-validated."""
        options = self.plan.options
        if not (options.cross_validate and learns(wording)):
            return self.tested
        return all_with_folds(self.tested, options.folds or FOLDS, options.seed)

    def _memory(self, learnt: bool, wordings: Sequence[RuleWording]) -> MemorisingRun:
        """The run that was given, or one of our own. A task that only lends its learnt template is asked one item: it
        is learnt from training items, but learnt only where it is asked."""
        if (self.name, learnt) in self.given:
            return self.given[self.name, learnt]
        tasks = tasks_of(self.plan.rules, wordings)
        asks_first = {query.relation for query in self.tested.queries}
        lent = {self._lender(task) for task in tasks if task not in asks_first}
        own = {"relations": tuple(tasks), "ids": lent.union(query.id for query in self.tested.queries)}
        where = self._where(f"memory-{RuleWording(templates=learnt).name}")
        made = run(*self._asking_memory(own | {"soft": learnt} | _held_out(learnt)), *where)
        return MemorisingRun(made, Rows(made, with_scores=False), learnt)

    def _lender(self, task: str) -> str:
        """Id of the item: the first, or the first of the first fold."""
        options = self.plan.options
        fold_of = folds_of_queries(self.plan.data.by_relation()[task], options.folds or FOLDS, options.seed)
        return min(of_task(self.plan, task), key=lambda id_: fold_of[id_] if options.cross_validate else 0)

    def _asking_memory(self, own: dict[str, Any]) -> tuple[str, Model | ChatServer, QuerySet, ProbeOptions]:
        """What asks for P1: the ontology probe; the statement probe, which gives causal models the same candidates; or
        multiple choice.

        :param own: options that are not the plan's.
        """
        options, data = self.plan.options, self.plan.data
        if self.chat is not None:
            return self.chat.memory(own["ids"])
        if self.model.attention is not Attention.CAUSAL:
            said = options.model_dump(include=set(OntologyOptions.model_fields))
            return "ontology", self.model, data, _Memorising(**said | own)
        own = {name: value for name, value in own.items() if name in _Stating.model_fields}
        said = options.model_dump(include=set(StatementOptions.model_fields) - {"reduction"})
        counted = {"reduction": (STATEMENTS.reduction.value,), "score": (STATEMENTS.score.value,)}
        return "statement", self.model, data, _Stating(**said | counted | own)

    def _run(self, name: str, queries: QuerySet, **more: Any) -> Rows:
        """Which items are asked is decided by the memorising run."""
        options = self.plan.options.model_copy(
            update={"relations": (), "subset": SUBSETS[-1], "limit": None, "templates": (), **more}
            | _held_out(bool(more.get("soft") or more.get("soft_conjunction")))
        )
        where = self._where(name)
        if self.chat is None:
            made = run(ENTAILMENT, self.model, queries, options, *where)
        else:
            made = run(*self.chat.about(select(queries, Selection(subset=SUBSETS[-1])).data), *where)
        if not made.is_complete():
            raise BadInput(f"{made.path} is unfinished: type its command again, it goes on where it stopped")
        self.runs.append(made)
        return Rows(made, with_scores=False, cluster=self.plan.cluster)

    def _where(self, name: str) -> tuple[Path, Callable[[int, int], None]]:
        return self.out / name, self.announce(f"{self.name} {name}")

    def _first_ranks(self, memory: MemorisingRun) -> dict[str, dict[str, float]]:
        """Of each rule how well P1 of each item is remembered. :raises BadInput: of too few items."""
        every = _memory_ranks(memory.rows, self.way, {query.id for query in self.tested.queries})
        found = {}
        for rule in self.plan.rules:
            own = {id_: value for id_, value in every.items() if id_.rpartition("/")[0] == RULES[rule]}
            if len(own) < LEAST:
                raise BadInput(
                    f"{rule}: {self.name} {'ranks' if self.chat is None else 'gives an answer that can be read to'} "
                    f"{len(own) or 'no'} item of the task {RULES[rule]} (fathom metrics {memory.run.path} says why): "
                    "leave the rule out of --rules"
                )
            found[rule] = own
        return found

    def _halves(
        self, templates: RuleWording, memory: MemorisingRun, first_ranks: Mapping[str, dict[str, float]], second: Rows
    ) -> Halves:
        second_ranks, divided = _second_ranks(second), halves if self.chat is None else right_and_wrong
        first: dict[str, str] = {}
        of_second: dict[tuple[str, int, str], str] = {}
        for rule, own in first_ranks.items():
            split = divided(own)
            first |= split.of
            self._remember(templates, rule, "P1", memory.rows, own, [split], [self._called(split.middle)])
            of_pairs = [dict(second_ranks.get((rule, pair), [])) for pair in range(self.plan.options.pairs)]
            splits = list(map(divided, of_pairs))
            of_second |= {(rule, pair, item): half for pair, one in enumerate(splits) for item, half in one.of.items()}
            self._remember(templates, rule, "P2", second, set().union(*of_pairs), splits, self._by_pair(splits))
        return Halves(first, of_second)

    def _called(self, id_: str) -> str:
        return next((query.subject for query in self.plan.data.queries if query.id == id_), "")

    def _by_pair(self, splits: Sequence[Split]) -> list[str]:
        """What is left out of each pair, pairs that leave out the same together."""
        pairs = grouped((self._called(split.middle), str(pair)) for pair, split in enumerate(splits))
        return [f"{name} (pair {', '.join(own)})" for name, own in pairs.items() if name]

    def _remember(
        self,
        templates: RuleWording,
        rule: str,
        premise: str,
        rows: Rows,
        asked: Collection[str],
        splits: Sequence[Split],
        middle: Iterable[str],
    ) -> None:
        """:param asked: ids of the items. :param splits: of P2 one for each pair, whose means are averaged."""
        made = recipe(rows, self.measure.lower(), self.way)
        means = np.mean([(split.better, split.worse) for split in splits], axis=0).tolist()
        better, worse = (
            untold(HALVED, f"{made}|rule:{rule}|{premise}:{half} half", mean, len(asked) // 2)
            for half, mean in zip(("better", "worse"), means, strict=True)
        )
        about = (self.name, templates.name, rule, premise, len(asked))
        self.remembered.append(Remembered(*about, better, worse, tuple(filter(None, middle))))


def _memory_ranks(rows: Rows, way: str, ids: Collection[str]) -> dict[str, float]:
    """Of each of these queries 1 / rank of its best right answer, scored in this way; of several templates
    :data:`PARTICULAR` counts, else their mean."""
    found: dict[str, dict[str, float]] = {}
    values = rows.reciprocal_or_credit()
    for place in rows.of(way).tolist():
        query = rows.query_ids[rows.query[place]]
        if rows.scored[place] and query in ids:
            found.setdefault(query, {})[rows.asked(place)[0]] = float(values[place])
    ranks = {}
    for query, by_prompt in found.items():
        particular = [value for prompt, value in by_prompt.items() if prompt.endswith(PARTICULAR)]
        ranks[query] = float(np.mean(particular or list(by_prompt.values())))
    return ranks


def _second_ranks(rows: Rows) -> dict[tuple[str, int], list[tuple[str, float]]]:
    """Of each rule and pair of pseudowords the items with 1 / rank."""
    about = (rows.groups[query] for query in rows.query.tolist())
    return grouped(
        ((groups["rule"], int(groups["pair"])), (groups["item"], value))
        for groups, value, scored in zip(about, rows.reciprocal_or_credit().tolist(), rows.scored.tolist(), strict=True)
        if scored
    )
