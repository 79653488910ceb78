"""Does a model reason with an ontology, or only remember it? Six rules, each premise said, remembered, or neither
(section 4.2 and figures 2 to 4 of Wu et al. 2023).

A plan of runs for each model, all in one folder, each of which goes on where it was stopped:

``memory-…``    the ontology probe's own tasks: how well is P1 remembered?
``premises-…``  the same tasks asked about pseudowords: would the model say P2 anyway?
``words``, ``learnt-conjunction``, ``learnt-templates``, ``learnt``
                the hypothesis, with the premises said and not said, in each wording

*Implicit* is the half of the premises that is remembered better, *absent* the other half, by the reciprocal rank of the
best right answer; with an odd count the one in the middle is left out and named. P2's halves are those of each pair of
pseudowords. Premises equally well remembered stand in the order of the data.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field

from fathom.data.queries import QuerySet
from fathom.data.selection.filters import Selection, select
from fathom.data.templates import SUBJECT
from fathom.errors import BadInput
from fathom.formats import locate, read
from fathom.formats.ontoprobe import PROPERTY_FILE, is_ontoprobe, read_patterns
from fathom.metrics.bootstrap import Difference, Interval, interval, paired_difference
from fathom.metrics.ranking import hits_at_k, reciprocal_mean_rank, reciprocal_rank
from fathom.models.base import Attention, Model
from fathom.options import CIRCUMSTANCE
from fathom.probes import ENTAILMENT
from fathom.probes.entailment import INSTEAD
from fathom.probes.options import EntailmentOptions, OntologyOptions
from fathom.prompts.entailment import (
    ABSENT,
    EXPLICIT,
    IMPLICIT,
    SUBSETS,
    WORDINGS,
    Halves,
    Wording,
    entailment,
    items,
    second_premises,
    sources,
)
from fathom.prompts.ontology import RULES, TASKS, TEMPLATES
from fathom.run import run
from fathom.scoring.slots import Masks, Pooling, Way
from fathom.store.folder import RunFolder
from fathom.studies.ontology import CUTS, Numbers

LEVELS = (EXPLICIT, IMPLICIT, ABSENT)
ALL = "all rules"
ALL_WORDINGS = "all wordings"
LEAST = 2
"""Items of a rule: with fewer there are no two halves."""
PARTICULAR = TEMPLATES["type"][-1].removeprefix(SUBJECT)
"""How the hypothesis asks for a class. Of several templates that asked for P1, its rank is that of this one."""
SAID = {"P1": (True, False), "P2": (False, True), "P1 and P2": (True, True)}

Announce = Callable[[str], Callable[[int, int], None]]
Loader = Callable[[], Model]


class Setting(NamedTuple):
    """:param first: how P1 is given. :param second: how P2 is."""

    model: str
    wording: str
    rule: str
    first: str
    second: str


class Line(NamedTuple):
    """:param numbers: over items and pairs, its interval by items; None where nothing was scored.
    :param values: what its MRR is of, 1 / rank with the item's id."""

    setting: Setting
    numbers: Numbers | None
    unscored: int
    values: list[tuple[str, float]]


class Mean(NamedTuple):
    """Every rule (and model, and wording) has the same weight. :param model: "" for all models together.
    :param wording: "" for all wordings together. :param mrr: its interval by items, the rules being what they are.
    :param rules: those that have an item in the setting."""

    model: str
    wording: str
    first: str
    second: str
    mrr: Interval
    mrr_all: float
    rules: tuple[str, ...]


class Effect(NamedTuple):
    """What saying premises adds to 1 / rank of the same items and pairs. :param said: one of :data:`SAID`."""

    model: str
    wording: str
    rule: str
    said: str
    difference: Difference


class Remembered(NamedTuple):
    """A premise's halves. :param premise: P1 or P2. :param better: mean 1 / rank of the better half, and so *worse*.
    :param middle: left out, by name; of P2 with its pair."""

    model: str
    wording: str
    rule: str
    premise: str
    items: int
    better: float
    worse: float
    middle: tuple[str, ...]


@dataclass(frozen=True)
class Entailment:
    """:param by_wording: MRR and MRRₐ over all else. :param runs: the folders of all runs, in their order.
    :param notes: what could not be asked."""

    lines: list[Line]
    means: list[Mean]
    by_wording: dict[str, tuple[float, float]]
    effects: list[Effect]
    remembered: list[Remembered]
    runs: list[RunFolder]
    notes: list[str]


class Plan(NamedTuple):
    """:param data: the folder of the ontology. :param memory: finished runs of the ontology probe to use."""

    data: str | Path
    rules: Sequence[str]
    wordings: Sequence[Wording]
    options: EntailmentOptions
    out: Path
    memory: Sequence[RunFolder] = ()


def folder_names(models: Sequence[str]) -> dict[str, str]:
    """The last part of each model's name, which names its folder. :raises BadInput: two are alike, or there is none."""
    names = {name: name.rstrip("/").rpartition("/")[2] for name in models}
    if len(set(names.values())) < len(names) or not names:
        raise BadInput(f"--model {','.join(models)}: expected models whose last parts differ: they name their folders")
    return names


def study(models: Sequence[tuple[str, Loader]], plan: Plan, announce: Announce) -> Entailment:
    """Make the runs that are not there yet, and ask them.

    :param models: short names, which name folders below the plan's, and what loads them.
    :raises BadInput: data that is no ontology or lacks what a rule needs, given runs of something else, a model without
        masks; before anything is asked.
    """
    plan = plan._replace(rules=list(dict.fromkeys(plan.rules)), wordings=list(dict.fromkeys(plan.wordings)))
    data, patterns = _ontology(plan)
    tested = _tested(data, patterns, plan)
    if len(models) == 1:  # several are loaded again when their turn comes: they may not fit into memory together
        models = [(name, cache(load)) for name, load in models]
    given = _given(models, plan)
    made = [_Asked(name, load(), data, patterns, tested, given, plan, announce) for name, load in models]
    lines = [line for one in made for line in one.lines]
    return Entailment(
        lines,
        _means(lines),
        _by_wording(lines),
        [effect for one in made for effect in one.effects],
        [found for one in made for found in one.remembered],
        [folder for one in made for folder in one.runs],
        list(dict.fromkeys(note for one in made for note in one.notes)),
    )


_Patterns = Mapping[str, Mapping[str, str]]
_Memory = Mapping[tuple[str, bool], RunFolder]
"""Finished memorising runs by model, and whether their templates are learnt."""


def _ontology(plan: Plan) -> tuple[QuerySet, _Patterns]:
    """:raises BadInput: no ontology, or rules that there are not."""
    folder = locate(plan.data)
    if not is_ontoprobe(folder):
        raise BadInput(f"{folder} is no ontology: expected {PROPERTY_FILE}, such as fathom build ontology makes")
    faults = [f"--rules {rule}: there is {', '.join(RULES)}" for rule in plan.rules if rule not in RULES]
    if not plan.rules:
        faults.append(f"--rules: expected one or more of {', '.join(RULES)}")
    if not plan.wordings:
        faults.append(f"--wordings: expected one or more of {', '.join(WORDINGS)}")
    if plan.memory and plan.options.limit is not None:
        faults.append("--limit: with --memory the items are those that its runs have asked; leave --limit out")
    if faults:
        raise BadInput(faults)
    return read(folder), read_patterns(folder)


def _tested(data: QuerySet, patterns: _Patterns, plan: Plan) -> QuerySet:
    """The test items that ask for P1, the same for all models and wordings: those that --limit draws, or those that all
    given runs have asked.

    :raises BadInput: too few of a rule, or given runs that do not fit.
    """
    _check_memory(plan, data)
    asks_first = list(dict.fromkeys(RULES[rule] for rule in plan.rules))
    there = {task: _of_task(data, task) for task in _tasks(plan.rules, plan.wordings)}
    faults = [
        f"{rule} needs the task {task}: {plan.data} has {len(there[task])} items of it to test on; leave it out"
        for rule in plan.rules
        for task in _tasks([rule], plan.wordings)
        if len(there[task]) < (LEAST if task == RULES[rule] else 1)
    ]
    if faults:
        raise BadInput(dict.fromkeys(faults))
    drawn = select(
        data, Selection(relations=asks_first, subset=SUBSETS[-1], limit=plan.options.limit, seed=plan.options.seed)
    ).data
    ids = {query.id for query in drawn.queries}
    for run_ in plan.memory:
        ids &= set(run_.queries().column("query_id").to_pylist())
    how = "asked by all --memory runs" if plan.memory else "whose pattern fits"
    how = f"after --limit {plan.options.limit}" if plan.options.limit is not None else how
    for rule in plan.rules:
        if sum(item.query.id in ids for item in items(data, patterns, rule)[0]) < LEAST:
            faults.append(f"{rule}: fewer than {LEAST} items of the task {RULES[rule]} {how}: they have no halves")
    if faults:
        raise BadInput(faults)
    return select(data, Selection(ids=ids)).data


def _of_task(data: QuerySet, task: str) -> list[str]:
    """Ids of its test items."""
    return [query.id for query in data.queries if query.relation == task and query.id in data.subsets[SUBSETS[-1]]]


def _tasks(rules: Iterable[str], wordings: Iterable[Wording]) -> list[str]:
    """The memorising tasks that ask for P1, and those whose learnt templates the texts have."""
    found = {RULES[rule] for rule in rules}
    for rule in rules:
        found |= {source.task for wording in wordings for source in sources(rule, "both", wording)}
    return [task for task in TASKS if task in found]


def _way(options: EntailmentOptions) -> str:
    """What runs call the study's way of scoring."""
    return Way(Masks(options.masks[0]), Pooling(options.reduction[0])).name


def _check_memory(plan: Plan, data: QuerySet) -> None:
    """:raises BadInput: another probe's run, of other data, unfinished, or without a task or the way of scoring."""
    faults = []
    for given in plan.memory:
        about = given.manifest["identity"]
        if about["probe"] != "ontology" or not given.is_complete():
            faults.append(f"--memory {given.path}: expected a finished run of the ontology probe")
        elif about["data"]["content_hash"] != data.content_hash:
            faults.append(f"--memory {given.path}: it asked {about['data']['name']}, not {data.name} as it is now")
        else:
            learnt = bool(about["options"].get("soft"))
            tasks = _tasks(plan.rules, [one for one in plan.wordings if one.templates == learnt])
            there = set(given.queries().column("relation").to_pylist())
            faults += [f"--memory {given.path}: it did not ask the task {task}" for task in tasks if task not in there]
            ways = set(given.predictions().column("scoring").to_pylist())
            if _way(plan.options) not in ways:
                faults.append(
                    f"--memory {given.path}: it scored by {', '.join(sorted(ways))}, the study by "
                    f"{_way(plan.options)}: give both the same --masks and --reduction"
                )
    if faults:
        raise BadInput(faults)


def _given(models: Sequence[tuple[str, Loader]], plan: Plan) -> _Memory:
    """Whose memory the given runs are. Every model is loaded and looked at before the first is asked.

    :raises BadInput: a model without masks, a run that is of none of the models or not worded as the study, two of one.
    """
    names: dict[str, list[str]] = {}
    for name, load in models:
        model = load()
        if model.attention is not Attention.BIDIRECTIONAL or model.tokenizer.mask_token_id is None:
            raise BadInput(
                f"--model {name}: the entailment study needs a masked model, it is {model.attention}: {INSTEAD}"
            )
        names.setdefault(model.identity.content_hash, []).append(name)
    kinds = list(dict.fromkeys(wording.templates for wording in plan.wordings))
    found: dict[tuple[str, bool], RunFolder] = {}
    faults = []
    for given in plan.memory:
        about = given.manifest["identity"]
        content, learnt = about["model"]["content_hash"], bool(about["options"].get("soft"))
        own = names.get(content, [])
        if not own:
            wanted = " or ".join(name for name, _ in models)
            faults.append(f"--memory {given.path}: it asked {about['model']['name']}, not {wanted}")
        elif learnt not in kinds:
            faults.append(
                f"--memory {given.path}: it asked {_how(learnt)}, the study's wordings ask {_how(not learnt)}"
            )
        elif (own[0], learnt) in found:
            faults.append(f"--memory {given.path}: another of them asked {own[0]} {_how(learnt)}, too")
        found |= {(name, learnt): given for name in own}
    if faults:
        raise BadInput(faults)
    return found


def _how(learnt: bool) -> str:
    return "with learnt templates" if learnt else "by words"


class _Memorising(OntologyOptions):
    """The ontology probe's, for queries that are drawn already. A run's identity has a digest of what was asked."""

    ids: frozenset[str] = Field(json_schema_extra=CIRCUMSTANCE)

    def selection(self) -> Selection:
        return replace(super().selection(), ids=self.ids, limit=None)


class _Asked:
    """One model: its runs, and what they say."""

    def __init__(
        self,
        name: str,
        model: Model,
        data: QuerySet,
        patterns: _Patterns,
        tested: QuerySet,
        given: _Memory,
        plan: Plan,
        announce: Announce,
    ) -> None:
        """:param tested: what asks for P1. :param given: memorising runs that need not be made."""
        self.name, self.model, self.data, self.patterns, self.plan = name, model, data, patterns, plan
        self.tested, self.given, self.announce = tested, given, announce
        self.out = plan.out / name
        self.runs: list[RunFolder] = []
        self.notes: list[str] = []
        self.remembered: list[Remembered] = []
        self.lines: list[Line] = []
        self.effects: list[Effect] = []
        self.rows: dict[str, list[_Row]] = {}
        """Of each wording."""
        for learnt in dict.fromkeys(wording.templates for wording in plan.wordings):
            self._with_templates(learnt)

    def _with_templates(self, learnt: bool) -> None:
        """All wordings that share the memorising runs."""
        wordings = [wording for wording in self.plan.wordings if wording.templates == learnt]
        memory = self._memory(learnt, wordings)
        vectors = memory.path / "artifacts" / "soft" if learnt else None
        templates = Wording(templates=learnt)
        self.runs.append(memory)
        second = self._run(
            f"premises-{templates.name}",
            second_premises(self.tested, self.patterns, self.plan.rules, templates, self.plan.options.pairs),
            {"soft": learnt, "learnt": vectors},
        )
        remembered = self._halves(templates, memory, second)
        for wording in wordings:
            queries = entailment(
                self.tested, self.patterns, self.plan.rules, wording, self.plan.options.pairs, remembered
            )
            self.notes += queries.notes[len(self.data.notes) :]
            made = self._run(
                wording.name,
                queries,
                {"soft": learnt, "soft_conjunction": wording.conjunction, "learnt": vectors},
            )
            self.rows[wording.name] = list(_rows(made))
            self._tell(wording)

    def _memory(self, learnt: bool, wordings: Sequence[Wording]) -> RunFolder:
        """The run that was given, or one of our own. A task that only lends its learnt template is asked one item: it
        is learnt from training items, but learnt only where it is asked."""
        if (self.name, learnt) in self.given:
            return self.given[self.name, learnt]
        tasks = _tasks(self.plan.rules, wordings)
        asks_first = {query.relation for query in self.tested.queries}
        ids = {query.id for query in self.tested.queries}
        ids |= {_of_task(self.data, task)[0] for task in tasks if task not in asks_first}
        name = f"memory-{Wording(templates=learnt).name}"
        said = self.plan.options.model_dump(include=set(OntologyOptions.model_fields))
        options = _Memorising(**said | {"relations": tuple(tasks), "soft": learnt, "ids": ids})
        return run("ontology", self.model, self.data, options, self.out / name, self._announced(name))

    def _run(self, name: str, queries: QuerySet, more: Mapping[str, Any]) -> RunFolder:
        """Which items are asked is decided by the memorising run."""
        options = self.plan.options.model_copy(
            update={"relations": (), "subset": SUBSETS[-1], "limit": None, "templates": (), **more}
        )
        made = run(ENTAILMENT, self.model, queries, options, self.out / name, self._announced(name))
        self.runs.append(made)
        return made

    def _announced(self, name: str) -> Callable[[int, int], None]:
        return self.announce(f"{self.name} {name}")

    def _halves(self, templates: Wording, memory: RunFolder, second: RunFolder) -> Halves:
        first_ranks = _memory_ranks(memory, _way(self.plan.options), {query.id for query in self.tested.queries})
        first: dict[str, str] = {}
        second_ranks = {(row.rule, row.pair, row.item): 1 / row.rank for row in _rows(second) if not np.isnan(row.rank)}
        of_second: dict[tuple[str, int, str], str] = {}
        for rule in self.plan.rules:
            own = {id_: value for id_, value in first_ranks.items() if id_.rpartition("/")[0] == RULES[rule]}
            if len(own) < LEAST:
                raise BadInput(
                    f"{rule}: {self.name} ranks {len(own) or 'no'} item of the task {RULES[rule]} (fathom metrics "
                    f"{memory.path} says why): leave the rule out of --rules"
                )
            found = halves(own)
            first |= found.of
            self._remember(templates, rule, "P1", len(own), found.better, found.worse, [self._called(found.middle)])
            splits = []
            for pair in range(self.plan.options.pairs):
                values = {item: value for (r, p, item), value in second_ranks.items() if (r, p) == (rule, pair)}
                splits.append(halves(values))
                of_second |= {(rule, pair, item): half for item, half in splits[-1].of.items()}
            middles = self._by_pair([split.middle for split in splits])
            count = len({item for of_rule, _, item in second_ranks if of_rule == rule})
            better, worse = np.mean([(split.better, split.worse) for split in splits], axis=0).tolist()
            self._remember(templates, rule, "P2", count, better, worse, middles)
        return Halves(first, of_second)

    def _called(self, id_: str) -> str:
        return next((query.subject for query in self.data.queries if query.id == id_), "")

    def _by_pair(self, middles: Sequence[str]) -> list[str]:
        """What is left out of each pair, pairs that leave out the same together."""
        pairs: dict[str, list[str]] = {}
        for pair, middle in enumerate(middles):
            pairs.setdefault(self._called(middle), []).append(str(pair))
        return [f"{name} (pair {', '.join(own)})" for name, own in pairs.items() if name]

    def _remember(
        self, templates: Wording, rule: str, premise: str, items: int, better: float, worse: float, middle: list[str]
    ) -> None:
        named = tuple(name for name in middle if name)
        self.remembered.append(Remembered(self.name, templates.name, rule, premise, items, better, worse, named))

    def _tell(self, wording: Wording) -> None:
        rows = self.rows[wording.name]
        for rule in self.plan.rules:
            of_rule = [row for row in rows if row.rule == rule]
            for first in LEVELS:
                for second in LEVELS:
                    own = [row for row in of_rule if (row.first, row.second) == (first, second)]
                    setting = Setting(self.name, wording.name, rule, first, second)
                    self.lines.append(_line(setting, own))
            self.effects += [
                Effect(self.name, wording.name, rule, said, difference)
                for said, premises in SAID.items()
                if (difference := _effect(of_rule, premises)) is not None
            ]


class _Row(NamedTuple):
    """:param item: id of the memorising query. :param first: how P1 is given. :param rank: NaN where unscored, and
    with it *optimistic* and *pessimistic*."""

    rule: str
    item: str
    pair: int
    first: str
    second: str
    rank: float
    optimistic: float
    pessimistic: float
    every: list[float]


def _rows(folder: RunFolder) -> Iterator[_Row]:
    if not folder.is_complete():
        raise BadInput(f"{folder.path} is unfinished: type its command again, it goes on where it stopped")
    table = folder.queries()
    groups = dict(zip(table.column("query_id").to_pylist(), table.column("groups").to_pylist(), strict=True))
    wanted = ["query_id", "rank", "rank_optimistic", "rank_pessimistic", "gold_ranks", "unscored"]
    for row in folder.predictions().select(wanted).to_pylist():
        about = dict(groups[row["query_id"]])
        told = row["unscored"] is None
        yield _Row(
            about["rule"],
            about["item"],
            int(about["pair"]),
            about.get("premise 1", ""),
            about.get("premise 2", ""),
            row["rank"] if told else np.nan,
            row["rank_optimistic"] if told else np.nan,
            row["rank_pessimistic"] if told else np.nan,
            row["gold_ranks"] or [],
        )


def _memory_ranks(memory: RunFolder, way: str, ids: Collection[str]) -> dict[str, float]:
    """Of each of these queries 1 / rank of its best right answer, scored in this way; of several templates
    :data:`PARTICULAR` counts, else their mean."""
    found: dict[str, dict[str, float]] = {}
    table = memory.predictions().select(["query_id", "prompt", "rank", "unscored", "scoring"])
    for row in table.to_pylist():
        if row["unscored"] is None and row["scoring"] == way and row["query_id"] in ids:
            found.setdefault(row["query_id"], {})[row["prompt"]] = 1 / row["rank"]
    ranks = {}
    for query, by_prompt in found.items():
        particular = [value for prompt, value in by_prompt.items() if prompt.endswith(PARTICULAR)]
        ranks[query] = float(np.mean(particular or list(by_prompt.values())))
    return ranks


class Split(NamedTuple):
    """:param of: each premise's half. :param better: mean of the better half, and so *worse*.
    :param middle: left out, "" where the count is even."""

    of: Mapping[str, str]
    better: float
    worse: float
    middle: str


def halves(values: Mapping[str, float]) -> Split:
    """:param values: how well each premise is remembered, in the order of the data."""
    order = sorted(values, key=lambda premise: -values[premise])
    half = len(order) // 2
    best, worst = order[:half], order[len(order) - half :]
    of = dict.fromkeys(best, IMPLICIT) | dict.fromkeys(worst, ABSENT)
    better, worse = (float(np.mean([values[one] for one in own])) if own else np.nan for own in (best, worst))
    return Split(of, better, worse, order[half] if len(order) % 2 else "")


def _line(setting: Setting, rows: Sequence[_Row]) -> Line:
    told = [row for row in rows if not np.isnan(row.rank)]
    if not told:
        return Line(setting, None, len(rows), [])
    optimistic, pessimistic = [row.optimistic for row in told], [row.pessimistic for row in told]
    recalls = tuple(float(hits_at_k(optimistic, pessimistic, k).mean()) for k in CUTS)
    items, values = [row.item for row in told], reciprocal_rank([row.rank for row in told])
    mrr_all = float(reciprocal_mean_rank([row.every for row in told]).mean())
    numbers = Numbers(recalls, interval(values, items, limits=(0.0, 1.0)), mrr_all, len(set(items)))
    return Line(setting, numbers, len(rows) - len(told), list(zip(items, values.tolist(), strict=True)))


def _effect(rows: Sequence[_Row], premises: tuple[bool, bool]) -> Difference | None:
    """The same items and pairs with these premises said and with none. None where there are no such."""
    ranks: dict[tuple[bool, bool], dict[tuple[str, int], float]] = {}
    for row in rows:
        said = row.first == EXPLICIT, row.second == EXPLICIT
        if not np.isnan(row.rank):
            ranks.setdefault(said, {})[row.item, row.pair] = row.rank
    loud, silent = ranks.get(premises, {}), ranks.get((False, False), {})
    both = [key for key in loud if key in silent]
    if not both:
        return None
    return paired_difference(
        reciprocal_rank([loud[key] for key in both]),
        reciprocal_rank([silent[key] for key in both]),
        [item for item, _ in both],
        limits=(-1.0, 1.0),
    )


def _means(lines: Sequence[Line]) -> list[Mean]:
    """Of each model over its rules, and of all models, or all wordings, together where there are several."""
    models = list(dict.fromkeys(line.setting.model for line in lines))
    wordings = list(dict.fromkeys(line.setting.wording for line in lines))
    cells: dict[tuple[str, str, str, str], list[Line]] = {}
    for model in [*models, ""] if len(models) > 1 else models:
        for wording in [*wordings, ""] if len(wordings) > 1 else wordings:
            for line in lines:
                if line.values and model in (line.setting.model, "") and wording in (line.setting.wording, ""):
                    cell = model, wording, line.setting.first, line.setting.second
                    cells.setdefault(cell, []).append(line)
    return [
        Mean(*cell, _mean_of(own), _mean_of_all(own), tuple(dict.fromkeys(line.setting.rule for line in own)))
        for cell, own in cells.items()
    ]


def _mean_of(lines: Sequence[Line]) -> Interval:
    values = [value for line in lines for _, value in line.values]
    items = [item for line in lines for item, _ in line.values]
    weights = [1 / len(line.values) for line in lines for _ in line.values]
    return interval(values, items, weights=weights, limits=(0.0, 1.0))


def _mean_of_all(lines: Sequence[Line]) -> float:
    return float(np.mean([line.numbers.mrr_all for line in lines if line.numbers]))


def _by_wording(lines: Sequence[Line]) -> dict[str, tuple[float, float]]:
    """MRR and MRRₐ of each wording over all models, rules and settings that all wordings have (figure 4)."""
    cells: dict[tuple[str, ...], dict[str, Numbers]] = {}
    for line in lines:
        model, wording, *setting = line.setting
        if line.numbers is not None:
            cells.setdefault((model, *setting), {})[wording] = line.numbers
    wordings = list(dict.fromkeys(line.setting.wording for line in lines))
    whole = [found for found in cells.values() if len(found) == len(wordings)]
    if not whole:
        return {}
    return {
        wording: (
            float(np.mean([found[wording].mrr.estimate for found in whole])),
            float(np.mean([found[wording].mrr_all for found in whole])),
        )
        for wording in wordings
    }
