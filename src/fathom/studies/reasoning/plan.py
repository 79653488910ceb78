"""What the entailment study is about to ask, checked before the first run begins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from fathom.data.queries import QuerySet
from fathom.data.selection import folds
from fathom.data.selection.filters import select
from fathom.data.selection.options import Selection
from fathom.errors import BadInput, all_of, refuse
from fathom.formats import locate, read
from fathom.formats.hierarchy import Hierarchy, read_hierarchy
from fathom.formats.ontoprobe import PROPERTY_FILE, is_ontoprobe, read_patterns
from fathom.models.base import Attention, Model
from fathom.models.options import ServerOptions
from fathom.models.server import ChatServer
from fathom.options import EVERYTHING, FOLDS
from fathom.probes.choice_options import ChoiceOptions
from fathom.probes.entailment import ALTERNATIVE
from fathom.probes.ontology_options import EntailmentOptions
from fathom.prompts.entailment import SUBSETS, WORDINGS, RuleWording, items, sources
from fathom.prompts.ontology import RULES, TASKS
from fathom.results.rows import Rows
from fathom.results.samples import check_key
from fathom.scoring.slots import MaskCount, SlotPooling, SlotScoring
from fathom.scoring.statements import Reduction, Score, StatementScoring
from fathom.store.folder import RunFolder
from fathom.studies.options import EntailmentStudyOptions

LEAST = 2
"""Items of a rule: with fewer there are no two halves."""

ITEM, PAIR = "item", "pair"
"""What texts are drawn by: the item, with all its texts of whatever rule, unless the user says otherwise."""
KEYS = (ITEM, PAIR, "rule", "task")
"""Groups of texts that were drawn together."""
_OF_ALL = "it is how premises are given, of which nobody drew a sample"
BY_DESIGN = dict.fromkeys(("given", "premise 1", "premise 2"), _OF_ALL) | {
    folds.FOLD: "folds are parts of the items, of which nobody drew a sample"
}
"""Groups of texts that the study has made, and why they are no clusters."""
STATEMENTS = StatementScoring(Reduction.SUM, Score.FULL)
"""How causal models are asked for P1: by the log-likelihood of whole statements."""
CHAT = "chat"
"""How chat models are."""
CHAT_ALONE = (
    "options", "orders", "replies", "instruction", "sampling_temperature", "reply_tokens", "system", "cut_reasoning"
)  # fmt: skip
OF_CHAT = {"seed", *CHAT_ALONE, *ServerOptions.model_fields}
"""Options of the study that are those of its questions to a chat model."""

Loader = Callable[[], Model]


class MemorisingRun(NamedTuple):
    """A finished memorising run.

    :param learnt: whether its templates are.
    """

    run: RunFolder
    rows: Rows
    learnt: bool


class EntailmentPlan(NamedTuple):
    """What all models are asked.

    :param patterns: of :func:`fathom.formats.ontoprobe.read_patterns`.
    :param options: of each run.
    :param cluster: key by which texts were drawn together.
    :param chat: how chat models are asked.
    :param hierarchy: what stands above each class and property.
    """

    data: QuerySet
    patterns: Mapping[str, Mapping[str, str]]
    rules: Sequence[str]
    wordings: Sequence[RuleWording]
    options: EntailmentOptions
    cluster: str
    chat: ChoiceOptions
    hierarchy: Hierarchy

    @property
    def controlled(self) -> bool:
        """Whether controls can be asked: they are about a second pair of pseudowords."""
        return self.options.pairs > 1

    def way_of(self, model: Model) -> str:
        """What memorising runs of the model call its way of scoring."""
        if is_chat(model):
            return CHAT
        if model.attention is Attention.CAUSAL:
            return STATEMENTS.name
        return self.way

    @property
    def way(self) -> str:
        """What those of masked models call theirs."""
        return SlotScoring(MaskCount(self.options.masks[0]), SlotPooling(self.options.reduction[0])).name


def planned(data: str | Path, options: EntailmentStudyOptions) -> EntailmentPlan:
    """:raises BadInput: no ontology, or rules or a key of clusters that there are not."""
    folder = locate(data)
    if not is_ontoprobe(folder):
        raise BadInput(f"{folder} is no ontology: expected {PROPERTY_FILE}, such as fathom build ontology makes")
    faults = [f"--rules {rule}: there is {', '.join(RULES)}" for rule in options.rules if rule not in RULES]
    wordings = [WORDINGS[name] for name in (WORDINGS if options.soft else options.wordings)]
    if not options.rules:
        faults.append(f"--rules: expected one or more of {', '.join(RULES)}")
    if not wordings:
        faults.append(f"--wordings: expected one or more of {', '.join(WORDINGS)}")
    if options.chat:
        faults.append("--chat: models at hand are asked in plain wording here, servers in their own; leave it out")
    if options.memory and options.limit is not None:
        faults.append("--limit: with --memory the items are those that its runs have asked; leave --limit out")
    if options.folds is not None and not options.cross_validate:
        faults.append(f"--folds {options.folds}: they are those of --cross-validate: type it, too")
    all_of(partial(check_key, options.cluster, KEYS, BY_DESIGN), partial(refuse, faults))
    # The runs' own numbers are not the study's, and memorising runs lack its keys.
    of_runs = options.model_dump(include=set(EntailmentOptions.model_fields) - {"soft", "cluster"})
    chat = ChoiceOptions(**options.model_dump(include=OF_CHAT))
    whole, cluster = read(folder), options.cluster or ITEM
    asked = EntailmentOptions(**of_runs | {"subset": _subset(options, whole, wordings)})
    patterns, hierarchy = read_patterns(folder), read_hierarchy(folder, whole)
    return EntailmentPlan(whole, patterns, options.rules, wordings, asked, cluster, chat, hierarchy)


def _subset(options: EntailmentStudyOptions, whole: QuerySet, wordings: Iterable[RuleWording]) -> str:
    """What is asked. :raises BadInput: of what is not there, or to be learnt from."""
    held_out = not options.cross_validate and any(map(learns, wordings))
    usual = EVERYTHING if options.cross_validate else whole.usual or EVERYTHING
    part = options.subset or (SUBSETS[-1] if held_out else usual)
    if held_out and part != SUBSETS[-1]:
        raise BadInput(
            f"--subset {part}: expected {SUBSETS[-1]} where something is learnt; --cross-validate asks every item by "
            "what others teach"
        )
    if part not in (EVERYTHING, *whole.subsets):
        raise BadInput(f"--subset {part}: expected {', '.join((EVERYTHING, *whole.subsets))}")
    return part


def learns(wording: RuleWording) -> bool:
    """Whether anything is learnt for it."""
    return wording.templates or wording.conjunction


def given_runs(plan: EntailmentPlan, paths: Sequence[Path]) -> list[MemorisingRun]:
    """Memorising runs that need not be made.

    :raises BadInput: another probe's run, of other data, unfinished, or without a task or the way of scoring.
    """
    found, faults = [], []
    for path in paths:
        run = RunFolder.open(path)
        rows = Rows(run, with_scores=False)
        about, learnt = rows.identity, bool(rows.identity.get("options", {}).get("soft"))
        if rows.declared.headline != "tasks" or not run.is_complete():
            faults.append(f"--memory {path}: expected a finished run of the ontology probe")
        elif about["data"]["content_hash"] != plan.data.content_hash:
            faults.append(f"--memory {path}: it asked {about['data']['name']}, not {plan.data.name} as it is now")
        else:
            tasks = tasks_of(plan.rules, [one for one in plan.wordings if one.templates == learnt])
            missing = [task for task in tasks if task not in rows.relations]
            faults += [f"--memory {path}: it did not ask the task {task}" for task in missing]
            if plan.way not in rows.scorings:
                faults.append(
                    f"--memory {path}: it scored by {', '.join(sorted(rows.scorings))}, the study by "
                    f"{plan.way}: give both the same --masks and --reduction"
                )
            faults += _taught_otherwise(plan, path, about) if learnt else []
        found.append(MemorisingRun(run, rows, learnt))
    refuse(faults)
    return found


def _taught_otherwise(plan: EntailmentPlan, path: Path, about: Mapping[str, Any]) -> list[str]:
    """Whether a run's templates come from other items than the study's. :param about: its identity."""
    said, options = about["options"], plan.options
    crossed = bool(said.get("cross_validate"))
    if crossed != options.cross_validate:
        return [
            f"--memory {path}: its templates were learnt {'with' if crossed else 'without'} --cross-validate: "
            f"{'type it, too' if crossed else 'leave it out, or give a run with it'}"
        ]
    number, seed = said.get("folds"), about["seed"]
    if crossed and (number, seed) != (options.folds or FOLDS, options.seed):
        return [f"--memory {path}: it drew {number} folds by seed {seed}: give the study the same --folds and --seed"]
    return []


def tested(plan: EntailmentPlan, given: Sequence[MemorisingRun]) -> QuerySet:
    """The items that ask for P1, the same for all models and wordings: those that --limit draws, or those that all
    given runs have asked.

    :raises BadInput: too few of a rule.
    """
    options = plan.options
    there = {task: of_task(plan, task) for task in tasks_of(plan.rules, plan.wordings)}
    refuse(
        f"{rule} needs the task {task}: {plan.data.name} has {len(there[task])} items of it to ask"
        f"{_reserved(plan, task)}; leave it out"
        for rule in dict.fromkeys(plan.rules)
        for task in tasks_of([rule], plan.wordings)
        if len(there[task]) < (LEAST if task == RULES[rule] else 1)
    )
    if plan.options.cross_validate:
        refuse(_too_few_to_teach(plan))
    asks_first = list(dict.fromkeys(RULES[rule] for rule in plan.rules))
    about = Selection(relations=asks_first, subset=_part(plan), limit=options.limit, seed=options.seed)
    drawn = select(plan.data, about).data
    ids = {query.id for query in drawn.queries}.intersection(*(memory.rows.query_ids for memory in given))
    how = "asked by all --memory runs" if given else "whose pattern fits"
    how = f"after --limit {options.limit}" if options.limit is not None else how
    more = "ask with a larger --limit, or " if options.limit is not None else ""
    refuse(
        f"{rule}: fewer than {LEAST} items of the task {RULES[rule]} {how}, the least that can be compared: {more}"
        "leave the rule out of --rules"
        for rule in plan.rules
        if sum(item.query.id in ids for item in items(plan.data, plan.patterns, rule)[0]) < LEAST
    )
    return select(plan.data, Selection(ids=ids)).data


def _reserved(plan: EntailmentPlan, task: str) -> str:
    """How many items only learn."""
    every = sum(query.relation == task for query in plan.data.queries)
    kept = every - len(of_task(plan, task))
    if not kept:
        return ""
    return (
        f" (the other {kept} are those that templates are learnt on: type --cross-validate, which asks each by what "
        "others teach, or ask by words, without --soft)"
    )


def _too_few_to_teach(plan: EntailmentPlan) -> Iterator[str]:
    """The rules that need a learnt template whose task has not items enough for folds."""
    learnt = [wording for wording in plan.wordings if learns(wording)]
    by_task = plan.data.by_relation()
    for rule in plan.rules if learnt else ():
        for task in tasks_of([rule], learnt):
            subjects = {query.subject or query.id for query in by_task.get(task, ())}
            if len(subjects) < folds.LEAST:
                yield (
                    f"--cross-validate: {rule} learns from items of {task}, which has {len(subjects)}; {folds.LEAST} "
                    "are the least, one to ask, one to choose by and one to learn from: leave the rule out of --rules"
                )


def of_task(plan: EntailmentPlan, task: str) -> list[str]:
    """Ids of its items that may be asked: nothing is held back where nothing is learnt."""
    part = _part(plan)
    ids = None if part is None else plan.data.subsets[part]
    return [query.id for query in plan.data.queries if query.relation == task and (ids is None or query.id in ids)]


def _part(plan: EntailmentPlan) -> str | None:
    return None if plan.options.subset == EVERYTHING else plan.options.subset


def tasks_of(rules: Iterable[str], wordings: Iterable[RuleWording]) -> list[str]:
    """The memorising tasks that ask for P1, and those whose learnt templates the texts have."""
    lent = {source.task for rule in rules for wording in wordings for source in sources(rule, "both", wording)}
    found = lent.union(RULES[rule] for rule in rules)
    return [task for task in TASKS if task in found]


Memories = Mapping[tuple[str, bool], MemorisingRun]
"""Finished memorising runs by model, and whether their templates are learnt."""


def memories(models: Sequence[tuple[str, Loader]], plan: EntailmentPlan, given: Sequence[MemorisingRun]) -> Memories:
    """Whose memory the given runs are. Every model is loaded and looked at before the first is asked.

    :raises BadInput: a model without masks, a run that is of none of the models or not worded as the study, two of one.
    """
    names: dict[str, list[str]] = {}
    for name, load in models:
        model = load()
        check_kind(name, model, plan)
        names.setdefault(model.identity.content_hash, []).append(name)
    kinds = {wording.templates for wording in plan.wordings}
    found: dict[tuple[str, bool], MemorisingRun] = {}
    faults = []
    for memory in given:
        about, learnt = memory.rows.identity["model"], memory.learnt
        own = names.get(about["content_hash"], [])
        said = f"--memory {memory.run.path}"
        if not own:
            faults.append(f"{said}: it asked {about['name']}, not {' or '.join(name for name, _ in models)}")
        elif learnt not in kinds:
            faults.append(f"{said}: it asked {_how(learnt)}, the study's wordings ask {_how(not learnt)}")
        elif (own[0], learnt) in found:
            faults.append(f"{said}: another of them asked {own[0]} {_how(learnt)}, too")
        found |= {(name, learnt): memory for name in own}
    refuse(faults)
    return found


def is_chat(model: Model | ChatServer) -> bool:
    """Whether the model is behind a server, and takes and gives words alone."""
    return isinstance(model, ChatServer)


def check_kind(name: str, model: Model, plan: EntailmentPlan) -> None:
    """:raises BadInput: a model that cannot be asked in the plan's wordings, or with options of chat models."""
    wordings = plan.wordings
    usual = EntailmentStudyOptions.model_fields
    said = [option for option in CHAT_ALONE if getattr(plan.chat, option) != usual[option].default]
    if said and not is_chat(model):
        flags = ", ".join(f"--{option.replace('_', '-')}" for option in said)
        raise BadInput(f"--model {name} is no chat model, and ranks all candidates: leave out {flags}")
    if is_chat(model) or model.attention is Attention.CAUSAL:
        if learnt := [wording.name for wording in wordings if learns(wording)]:
            kind = "behind a server" if is_chat(model) else "causal"
            raise BadInput(
                f"--model {name} is {kind}, and --wordings {','.join(learnt)} are learnt in the place of masks: ask it "
                "by words, without --soft"
            )
    elif model.attention is not Attention.BIDIRECTIONAL or model.tokenizer.mask_token_id is None:
        raise BadInput(
            f"--model {name}: the entailment study needs a masked, a causal or a chat model, it is {model.attention}: "
            f"{ALTERNATIVE}"
        )


def _how(learnt: bool) -> str:
    return "with learnt templates" if learnt else "by words"
