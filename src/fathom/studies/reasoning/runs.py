"""Runs of the entailment study: one folder per model, each run of which resumes where it stopped.

``memory-…``    the ontology probe's tasks (for causal models, by the statement probe): how well is P1 remembered?
``premises-…``  the same tasks about pseudowords: would the model say P2 anyway?
``words``, ``learnt-conjunction``, ``learnt-templates``, ``learnt``
                the hypothesis in each wording, with the premises stated and not stated
``arguments``   arguments and their altered texts (:mod:`fathom.data.prompts.alterations`)

*Implicit* is the half of the premises that is remembered better, *absent* the other half, by the reciprocal rank of the
best gold answer, ties in the order of the data. With an odd count the middle one is in neither half. P2 is halved for
each pair of pseudowords.

Chat models take only text, as do local models with --chat: pseudowords become nonce words, and each text a
multiple-choice question. Its options and their order are its own, so that no preference for a letter or an option
looks like memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field

from fathom.base.errors import BadInput
from fathom.base.options import CIRCUMSTANCE, EVERYTHING, FOLDS
from fathom.data.folds import all_with_folds, folds_of_queries
from fathom.data.prompts.choices import OPTIONS, Choices, choices
from fathom.data.prompts.entailment import ABSENT, IMPLICIT, SUBSETS, Halves, RuleWording, rule_texts, second_premises
from fathom.data.prompts.nonce import NonceWords, excerpt_of
from fathom.data.prompts.ontology import RULES, TEMPLATES
from fathom.data.queries import QuerySet
from fathom.data.selection.filters import select
from fathom.data.selection.options import Selection
from fathom.data.templates import SUBJECT
from fathom.engine.models.base import Attention, Model
from fathom.engine.models.server import ChatServer
from fathom.engine.scoring.statements import Reduction, Score
from fathom.probes import ENTAILMENT
from fathom.probes.options import EntailmentOptions, OntologyOptions, StatementOptions
from fathom.probes.run import RunRequest, run
from fathom.results.estimates import point_estimate, recipe
from fathom.results.rows import Floats, Rows, grouped
from fathom.store.folder import RunFolder
from fathom.studies import MODEL, Announce, PlannedRun
from fathom.studies.reasoning.conclusions import is_remembered
from fathom.studies.reasoning.plan import LEAST, EntailmentPlan, learns, of_task, tasks_of

PARTICULAR = TEMPLATES["type"][-1].removeprefix(SUBJECT)
"""The hypothesis's way to ask for a class: of several templates for P1, the rank by this one counts."""
OF_CHAT = (
    "of chat models MRR is over a question's options (of a server's, the share of right choices), and a premise is "
    "remembered that was chosen more often than not"
)
NO_TWIN = "a server's model has no untrained twin"
HALVED = "no interval: the items were put into this half by the values themselves"


class Split(NamedTuple):
    """Premises in two halves.

    :param of: each premise's half.
    :param better: mean of the better half, *worse* of the other.
    :param middle: the premise in neither half, "" if the count is even.
    """

    of: Mapping[str, str]
    better: float
    worse: float
    middle: str


def right_and_wrong(values: Mapping[str, float]) -> Split:
    """Split a chat model's premises into those chosen more often than not and the others.

    :param values: how often each was chosen, from 0 to 1.
    """
    right = [premise for premise, value in values.items() if is_remembered(value)]
    return _split(values, right, [premise for premise in values if premise not in right], "")


def halves(values: Mapping[str, float]) -> Split:
    """Split premises at the median. :param values: how well each is remembered, in the order of the data."""
    order = sorted(values, key=lambda premise: -values[premise])
    half = len(order) // 2
    return _split(values, order[:half], order[len(order) - half :], order[half] if len(order) % 2 else "")


def _split(values: Mapping[str, float], best: Sequence[str], worst: Sequence[str], middle: str) -> Split:
    better, worse = (float(np.mean([values[item] for item in half])) if half else np.nan for half in (best, worst))
    return Split(dict.fromkeys(best, IMPLICIT) | dict.fromkeys(worst, ABSENT), better, worse, middle)


def has_twins(model: Model) -> bool:
    """Return whether a model has untrained twins; one on a server has none."""
    from fathom.engine.models.local import LocalModel

    return isinstance(model, LocalModel)


def untrained_twins(model: Any, count: int) -> Iterator[Model]:
    """Yield models of the same shape and tokenizer with random weights; none for a model server."""
    from fathom.engine.models.loading import untrained

    return (untrained(model, seed) for seed in range(count if has_twins(model) else 0))


class ChatQuestions:
    """Multiple-choice questions for chat models."""

    def __init__(self, plan: EntailmentPlan) -> None:
        self.plan = plan
        words = excerpt_of(plan.data, plan.patterns)
        self.nonce = NonceWords(words, plan.rules, plan.options.pairs, plan.options.seed)

    def planned(self, name: str, queries: QuerySet) -> PlannedRun:
        """Return a run on queries without pseudowords."""
        chat = self.plan.chat
        data: Choices = choices(queries, chat.options or OPTIONS, chat.seed, self.plan.hierarchy.right_too, True)
        return PlannedRun(name, "choice", chat.model_copy(update={"options": None}), data=data)


def plan_texts(name: str, chat: ChatQuestions | None, queries: QuerySet, options: EntailmentOptions) -> PlannedRun:
    """Return a run on texts with pseudowords."""
    if chat is None:
        return PlannedRun(name, ENTAILMENT, options, data=queries)
    return chat.planned(name, chat.nonce.put_in(queries))


def plan_arguments(model: Model, plan: EntailmentPlan, queries: QuerySet, untrained: int) -> list[PlannedRun]:
    """Return the runs of a model and its untrained twins on arguments. :param untrained: number of twins."""
    chat = ChatQuestions(plan) if plan.is_chat(model) else None
    options = plan.options.model_copy(
        update={"relations": (), "subset": EVERYTHING, "limit": None, "templates": ()} | _without_folds(False)
    )
    twins = range(untrained if has_twins(model) else 0)
    names = [MODEL, *(f"{MODEL}-untrained-{number}" for number in twins)]
    return [plan_texts(f"{name}/arguments", chat, queries, options) for name in names]


def make(planned: PlannedRun, name: str, model: Model, out: Path, announce: Announce) -> RunFolder:
    """Make a run of a model. :param out: the folder of all models. :raises BadInput: the run is unfinished."""
    assert planned.data is not None
    path = planned.name.replace(MODEL, name)
    progress = announce(path.replace("/", " "))
    folder = run(RunRequest(planned.probe, model, planned.data, planned.options), out / path, progress)
    folder.refuse_unfinished()
    return folder


def run_arguments(
    name: str, model: Model, plan: EntailmentPlan, queries: QuerySet, untrained: int, out: Path, announce: Announce
) -> list[tuple[RunFolder, Rows]]:
    """Evaluate a model, then its untrained twins, on arguments.

    :param untrained: number of twins. :param out: the folder of all models.
    :raises BadInput: a run is unfinished.
    """
    planned, models = plan_arguments(model, plan, queries, untrained), chain([model], untrained_twins(model, untrained))
    folders = [make(run, name, opened, out, announce) for run, opened in zip(planned, models, strict=True)]
    return [(folder, Rows(folder, with_scores=False, cluster=plan.cluster)) for folder in folders]


class _Memorising(OntologyOptions):
    """Options of masked models' memorising runs. A run's identity has a digest of the queries."""

    ids: frozenset[str] = Field(json_schema_extra=CIRCUMSTANCE)


class _MemorisingOptions(StatementOptions):
    ids: frozenset[str] = Field(json_schema_extra=CIRCUMSTANCE)


class PlannedTexts:
    """The runs of one model: what each evaluates, and how.

    :ivar tested: queries for P1.
    :ivar chat: makes questions for a chat model, None for another.
    """

    def __init__(self, model: Model, plan: EntailmentPlan, tested: QuerySet) -> None:
        self.model, self.plan, self.tested = model, plan, tested
        self.tested_ids = [query.id for query in tested.queries]
        self.chat = ChatQuestions(plan) if plan.is_chat(model) else None

    def at_most(self) -> Iterator[PlannedRun]:
        """Yield all runs, as if no premise was in neither half, which the memorising runs decide."""
        ids, pairs = self.tested_ids, range(self.plan.options.pairs)
        second = dict.fromkeys(product(self.plan.rules, pairs, ids), IMPLICIT)
        for learnt, wordings in by_templates(self.plan.wordings).items():
            yield self.memorising(learnt, wordings)
            yield self.premises(learnt, None)
            for wording in wordings:
                yield self.conclusions(wording, Halves(dict.fromkeys(ids, IMPLICIT), second), None)

    def memorising(self, learnt: bool, wordings: Sequence[RuleWording]) -> PlannedRun:
        """Return the run on P1: of the ontology probe; for causal models the statement probe, with the same
        candidates; or the choice probe.

        A task that only lends its learnt template has one item: templates are learnt from training items, but only for
        tasks with a query.
        """
        tasks = tasks_of(self.plan.rules, wordings)
        tested = {query.relation for query in self.tested.queries}
        ids = frozenset(self.tested_ids) | {self._lender(task) for task in tasks if task not in tested}
        data, name = self.plan.data, f"{MODEL}/memory-{RuleWording(templates=learnt).name}"
        if self.chat is not None:
            return self.chat.planned(name, select(data, Selection(ids=ids)).data)
        overrides: dict[str, Any] = {"relations": tuple(tasks), "ids": ids}
        if self.model.attention is not Attention.CAUSAL:
            overrides |= {"soft": learnt} | _without_folds(learnt)
            options = self.plan.options.model_dump(include=set(OntologyOptions.model_fields))
            return PlannedRun(name, "ontology", _Memorising(**options | overrides), data=data)
        overrides |= {"reduction": (Reduction.SUM.value,), "score": (Score.FULL.value,)}
        options = self.plan.options.model_dump(include=set(StatementOptions.model_fields) - {"reduction"})
        return PlannedRun(name, "statement", _MemorisingOptions(**options | overrides), data=data)

    def _lender(self, task: str) -> str:
        """Return the id of the task's first item, if cross-validated of the first fold."""
        options = self.plan.options
        fold_of = folds_of_queries(self.plan.data.by_relation()[task], options.folds or FOLDS, options.seed)
        return min(of_task(self.plan, task), key=lambda id_: fold_of[id_] if options.cross_validate else 0)

    def premises(self, learnt: bool, vectors: Path | None) -> PlannedRun:
        """Return the run on P2. :param vectors: folder of learnt templates."""
        plan, templates = self.plan, RuleWording(templates=learnt)
        queries = second_premises(self._items(templates), plan.patterns, plan.rules, templates, plan.options.pairs)
        return self._texts(f"premises-{templates.name}", queries, soft=learnt, learnt=vectors)

    def conclusions(self, wording: RuleWording, halves: Halves, vectors: Path | None) -> PlannedRun:
        """Return the run on the hypothesis, with premises stated and not stated."""
        about = self._items(wording), self.plan.patterns, self.plan.rules, wording, self.plan.options.pairs, halves
        settings = {"soft": wording.templates, "soft_conjunction": wording.conjunction, "learnt": vectors}
        return self._texts(wording.name, rule_texts(*about), **settings)

    def _items(self, wording: RuleWording) -> QuerySet:
        """Return the queries for P1, each with its fold if the wording is learnt by cross-validation."""
        options = self.plan.options
        if not (options.cross_validate and learns(wording)):
            return self.tested
        return all_with_folds(self.tested, options.folds or FOLDS, options.seed)

    def _texts(self, name: str, queries: QuerySet, **more: object) -> PlannedRun:
        """Return a run on all test queries, whose items the memorising run selected."""
        options = self.plan.options.model_copy(
            update={"relations": (), "subset": SUBSETS[-1], "limit": None, "templates": (), **more}
            | _without_folds(bool(more.get("soft") or more.get("soft_conjunction")))
        )
        if self.chat is not None:
            queries = select(queries, Selection(subset=SUBSETS[-1])).data
        return plan_texts(f"{MODEL}/{name}", self.chat, queries, options)


class ModelRuns(PlannedTexts):
    """The runs of one model, and how well it remembers the premises.

    :ivar measure: name of the measure of a right answer.
    :ivar remembered: a row for each rule's premises: mean 1 / rank (or share of right choices) of both halves,
        and the items in neither, for P2 with the pair.
    :ivar of_wording: predictions of the hypothesis, by wording.
    :ivar memory: how well the finest answer of each item's P1 is remembered, by rule; empty if nothing is by words.
    """

    def __init__(
        self, name: str, model: Model, plan: EntailmentPlan, tested: QuerySet, out: Path, announce: Announce
    ) -> None:
        super().__init__(model, plan, tested)
        self.name, self.out, self.announce = name, out, announce
        self.measure = "accuracy" if isinstance(model, ChatServer) else "MRR"
        self.runs: list[RunFolder] = []
        self.notes = [] if self.chat is None else [OF_CHAT]
        self.notes += [] if has_twins(model) else [NO_TWIN]
        self.remembered: list[dict[str, Any]] = []
        self.of_wording: dict[str, Rows] = {}
        self.memory: dict[str, dict[str, float]] = {}
        for learnt, wordings in by_templates(plan.wordings).items():
            self._run_wordings(learnt, wordings)

    def _run_wordings(self, learnt: bool, wordings: Sequence[RuleWording]) -> None:
        folder = self._make(self.memorising(learnt, wordings))
        memory, vectors = Rows(folder, with_scores=False), folder.path / "artifacts" / "soft" if learnt else None
        second = self._run(self.premises(learnt, vectors))
        first_ranks = self._first_ranks(memory, folder.path)
        remembered = self._halves(RuleWording(templates=learnt), memory, first_ranks, second)
        for wording in wordings:
            planned = self.conclusions(wording, remembered, vectors)
            self.notes += (planned.data or self.plan.data).notes[len(self.plan.data.notes) :]
            self.of_wording[wording.name] = self._run(planned)
            if wording == RuleWording():
                finest = np.where(np.isnan(memory.rank), memory.correct, memory.reciprocal_of_finest())
                self.memory = self._of_first(memory, finest)

    def _run(self, planned: PlannedRun) -> Rows:
        return Rows(self._make(planned), with_scores=False, cluster=self.plan.cluster)

    def _make(self, planned: PlannedRun) -> RunFolder:
        folder = make(planned, self.name, self.model, self.out, self.announce)
        self.runs.append(folder)
        return folder

    def _first_ranks(self, memory: Rows, path: Path) -> dict[str, dict[str, float]]:
        """Return how well P1 of each item is remembered, by rule. :raises BadInput: a rule has too few items."""
        ranks = self._of_first(memory, memory.reciprocal_or_credit())
        for rule, items in ranks.items():
            if len(items) < LEAST:
                raise BadInput(
                    f"{rule}: {self.name} {'ranks' if self.chat is None else 'gives an answer that can be read to'} "
                    f"{len(items) or 'no'} item of the task {RULES[rule]} (fathom metrics {path} says why): "
                    "leave the rule out of --rules"
                )
        return ranks

    def _of_first(self, memory: Rows, values: Floats) -> dict[str, dict[str, float]]:
        """Return the values of P1's queries by rule. :param values: of the predictions."""
        by_id = _memory_values(memory, set(self.tested_ids), values)
        return {
            rule: {id_: value for id_, value in by_id.items() if id_.rpartition("/")[0] == RULES[rule]}
            for rule in self.plan.rules
        }

    def _halves(
        self, templates: RuleWording, memory: Rows, first_ranks: Mapping[str, dict[str, float]], second: Rows
    ) -> Halves:
        second_ranks, divide = _second_ranks(second), halves if self.chat is None else right_and_wrong
        first: dict[str, str] = {}
        of_second: dict[tuple[str, int, str], str] = {}
        for rule, ranks in first_ranks.items():
            split = divide(ranks)
            first |= split.of
            self._remember(templates, rule, "P1", memory, ranks, [split], [self._subject(split.middle)])
            of_pairs = [dict(second_ranks.get((rule, pair), [])) for pair in range(self.plan.options.pairs)]
            splits = list(map(divide, of_pairs))
            of_second |= {(rule, pair, item): half for pair, cut in enumerate(splits) for item, half in cut.of.items()}
            pairs = grouped((self._subject(cut.middle), str(pair)) for pair, cut in enumerate(splits))
            middle = [f"{name} (pair {', '.join(numbers)})" for name, numbers in pairs.items() if name]
            self._remember(templates, rule, "P2", second, set().union(*of_pairs), splits, middle)
        return Halves(first, of_second)

    def _subject(self, id_: str) -> str:
        return next((query.subject for query in self.plan.data.queries if query.id == id_), "")

    def _remember(
        self,
        templates: RuleWording,
        rule: str,
        premise: str,
        rows: Rows,
        items: Collection[str],
        splits: Sequence[Split],
        middle: Iterable[str],
    ) -> None:
        """:param splits: one for each pair, whose means are averaged."""
        made = recipe(rows, self.measure.lower(), rows.scorings[0])
        means = np.mean([(split.better, split.worse) for split in splits], axis=0).tolist()
        about = {"model": self.name, "templates": templates.name, "rule": rule, "premise": premise, "items": len(items)}
        of_halves = {
            half: point_estimate(HALVED, f"{made}|rule:{rule}|{premise}:{half}", mean, len(items) // 2)
            for half, mean in zip(("better half", "worse half"), means, strict=True)
        }
        self.remembered.append(about | of_halves | {"left out": "; ".join(filter(None, middle)) or None})


def by_templates(wordings: Iterable[RuleWording]) -> dict[bool, list[RuleWording]]:
    """Return wordings by whether their templates are learnt."""
    return grouped((wording.templates, wording) for wording in wordings)


def _without_folds(learnt: bool) -> dict[str, Any]:
    return {} if learnt else {"cross_validate": False, "folds": None}


def _memory_values(rows: Rows, ids: Collection[str], values: Floats) -> dict[str, float]:
    """Return each query's value by :data:`PARTICULAR` if the run has it, else the mean over templates."""
    by_query: dict[str, dict[str, float]] = {}
    for place in rows.of(rows.scorings[0]).tolist():
        query = rows.query_ids[rows.query[place]]
        if rows.scored[place] and query in ids:
            by_query.setdefault(query, {})[rows.asked(place)[0]] = float(values[place])
    means = {}
    for query, by_prompt in by_query.items():
        particular = [value for prompt, value in by_prompt.items() if prompt.endswith(PARTICULAR)]
        means[query] = float(np.mean(particular or list(by_prompt.values())))
    return means


def _second_ranks(rows: Rows) -> dict[tuple[str, int], list[tuple[str, float]]]:
    """Return items with their 1 / rank, by rule and pair of pseudowords."""
    about = (rows.groups[query] for query in rows.query.tolist())
    return grouped(
        ((groups["rule"], int(groups["pair"])), (groups["item"], value))
        for groups, value, scored in zip(about, rows.reciprocal_or_credit().tolist(), rows.scored.tolist(), strict=True)
        if scored
    )
