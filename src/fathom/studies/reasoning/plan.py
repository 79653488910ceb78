"""Plan of the entailment study, checked before the first run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from fathom.base.errors import BadInput, all_of, refuse
from fathom.base.options import EVERYTHING
from fathom.base.progress import log
from fathom.data import folds
from fathom.data.formats import locate, read
from fathom.data.formats.ontology import Hierarchy, read_hierarchy
from fathom.data.formats.ontoprobe import PROPERTY_FILE, is_ontoprobe, read_patterns
from fathom.data.prompts.entailment import SUBSETS, WORDINGS, RuleWording, items, sources
from fathom.data.prompts.ontology import ENOUGH_ITEMS, RULES, TASKS, Patterns, few_items
from fathom.data.queries import QuerySet
from fathom.data.selection.filters import select
from fathom.data.selection.options import Selection
from fathom.engine.models.base import Attention, Model
from fathom.engine.models.options import ServerOptions
from fathom.engine.models.server import ChatServer
from fathom.probes.entailment import ALTERNATIVE
from fathom.probes.models import chat_template
from fathom.probes.options import ChoiceOptions, EntailmentOptions
from fathom.results.samples import check_key
from fathom.studies.options import EntailmentStudyOptions

LEAST = 2
"""Fewest items of a rule: two halves."""
ITEM, PAIR = "item", "pair"
KEYS = (ITEM, PAIR, "rule", "task")
"""Keys by which texts may be clustered, the default first."""
BY_DESIGN = {
    **dict.fromkeys(("given", "premise 1", "premise 2"), "it is how premises are given, not how items were sampled"),
    folds.FOLD: "folds are parts of the items, not how they were sampled",
}
"""Groups that the study makes, and why they are no clusters."""
CHAT_ALONE = (
    "options", "orders", "replies", "instruction", "sampling_temperature", "reply_tokens", "system", "cut_reasoning",
    "score", "chat_arguments", "shuffle_chat",
)  # fmt: skip
OF_CHAT = {"seed", "chat", *CHAT_ALONE, *ServerOptions.model_fields}
"""Options of the choice probe for chat models."""

Loader = Callable[[], Model]


class EntailmentPlan(NamedTuple):
    """The queries and options of all models.

    :param notes: on rules that are left out, or about which nothing can be concluded.
    """

    data: QuerySet
    patterns: Patterns
    rules: Sequence[str]
    wordings: Sequence[RuleWording]
    options: EntailmentOptions
    cluster: str
    chat: ChoiceOptions
    hierarchy: Hierarchy
    notes: Sequence[str] = ()

    @property
    def controlled(self) -> bool:
        """Return whether altered texts can be asked: by words, with a second pair of pseudowords."""
        return self.options.pairs > 1 and RuleWording() in self.wordings

    def is_chat(self, model: Model | ChatServer) -> bool:
        """Return whether the model answers multiple-choice questions: a chat server, or a local model by --chat."""
        return self.chat.chat or isinstance(model, ChatServer)


def planned(data: str | Path, options: EntailmentStudyOptions) -> EntailmentPlan:
    """Check the options. :raises BadInput: no ontology, or unknown rules, wordings or cluster keys."""
    folder = locate(data)
    if not is_ontoprobe(folder):
        raise BadInput(f"{folder} is no ontology: expected {PROPERTY_FILE}, as fathom build ontology writes it")
    faults = [f"--rules {rule}: there is {', '.join(RULES)}" for rule in options.rules if rule not in RULES]
    wordings = [WORDINGS[name] for name in (WORDINGS if options.soft else options.wordings)]
    if not options.rules:
        faults.append(f"--rules: expected one or more of {', '.join(RULES)}")
    if not wordings:
        faults.append(f"--wordings: expected one or more of {', '.join(WORDINGS)}")
    if options.folds is not None and not options.cross_validate:
        faults.append(f"--folds {options.folds}: folds need --cross-validate: add it")
    all_of(partial(check_key, options.cluster, KEYS, BY_DESIGN), partial(refuse, faults))
    # The runs' own numbers are not the study's, and memorising runs lack its keys.
    of_runs = options.model_dump(include=set(EntailmentOptions.model_fields) - {"soft", "cluster"})
    chat = ChoiceOptions(**options.model_dump(include=OF_CHAT))
    whole, cluster = read(folder), options.cluster or ITEM
    asked = EntailmentOptions(**of_runs | {"subset": _subset(options, whole, wordings)})
    patterns, hierarchy = read_patterns(folder), read_hierarchy(folder, whole)
    return EntailmentPlan(whole, patterns, options.rules, wordings, asked, cluster, chat, hierarchy)


def _subset(options: EntailmentStudyOptions, whole: QuerySet, wordings: Iterable[RuleWording]) -> str:
    """Return the subset to evaluate. :raises BadInput: an unknown one, or one that templates are learnt from."""
    held_out = not options.cross_validate and any(map(learns, wordings))
    usual = EVERYTHING if options.cross_validate else whole.usual or EVERYTHING
    part = options.subset or (SUBSETS[-1] if held_out else usual)
    if held_out and part != SUBSETS[-1]:
        raise BadInput(
            f"--subset {part}: expected {SUBSETS[-1]} where something is learnt; --cross-validate evaluates every item"
        )
    if part not in (EVERYTHING, *whole.subsets):
        raise BadInput(f"--subset {part}: expected {', '.join((EVERYTHING, *whole.subsets))}")
    return part


def learns(wording: RuleWording) -> bool:
    return wording.templates or wording.conjunction


def draw_items(plan: EntailmentPlan) -> tuple[EntailmentPlan, QuerySet]:
    """Return the plan for the rules with enough items, and the queries for their P1, the same for all models.

    The queries are drawn by --limit. Rules that are left out, and those with too few items for a conclusion, are
    logged and noted in the plan.

    :raises BadInput: no rule has enough.
    """
    lacking = {rule: reason for rule in dict.fromkeys(plan.rules) if (reason := _lacking(plan, rule))}
    rules = [rule for rule in dict.fromkeys(plan.rules) if rule not in lacking]
    if not rules:
        refuse(lacking.values())
    if plan.options.cross_validate:
        refuse(_too_few_to_teach(plan._replace(rules=rules)))
    options = plan.options
    first = list(dict.fromkeys(RULES[rule] for rule in rules))
    about = Selection(relations=first, subset=options.subset, limit=options.limit, seed=options.seed)
    ids = {query.id for query in select(plan.data, about).data.queries}
    answers = {
        rule: [item.first for item in items(plan.data, plan.patterns, rule)[0] if item.query.id in ids]
        for rule in rules
    }
    how = "whose pattern fits" if options.limit is None else f"after --limit {options.limit}: use a larger one"
    for rule, of_rule in answers.items():
        if len(of_rule) < LEAST:
            lacking[rule] = f"{rule} has fewer than {LEAST} items of the task {RULES[rule]} {how}"
    kept = [rule for rule in rules if rule not in lacking]
    if not kept:
        refuse(lacking.values())
    notes = [f"left out: {reason}" for reason in lacking.values()]
    notes += [note + _larger_limit(plan, answers) for note in few_items({rule: answers[rule] for rule in kept})]
    for note in notes:
        log(f"note: {note}")
    kept_data = select(plan.data, Selection(ids=ids, relations=[RULES[rule] for rule in kept])).data
    return plan._replace(rules=kept, notes=notes), kept_data


def _lacking(plan: EntailmentPlan, rule: str) -> str:
    """Return why a rule cannot be evaluated, "" if the data have items of each task that it needs."""
    for task in tasks_of([rule], plan.wordings):
        count = len(of_task(plan, task))
        if count < (LEAST if task == RULES[rule] else 1):
            return f"{rule} needs the task {task}: {plan.data.name} has {count} items of it{_reserved(plan, task)}"
    return ""


def _larger_limit(plan: EntailmentPlan, answers: Mapping[str, Sequence[str]]) -> str:
    """Return which --limit would leave about enough items, "" if none would. :param answers: of items, by rule."""
    limit = plan.options.limit
    few = {rule: len(of_rule) for rule, of_rule in answers.items() if 0 < len(of_rule) < ENOUGH_ITEMS}
    helped = [rule for rule in few if len(of_task(plan, RULES[rule])) >= ENOUGH_ITEMS]
    if limit is None or not helped:
        return ""
    larger = math.ceil(limit * ENOUGH_ITEMS / min(few[rule] for rule in helped))
    return f"; --limit {larger} would leave about enough of {', '.join(helped)}"


def _reserved(plan: EntailmentPlan, task: str) -> str:
    """Return a note on items that templates are learnt from."""
    every = sum(query.relation == task for query in plan.data.queries)
    kept = every - len(of_task(plan, task))
    if not kept:
        return ""
    return f" (templates are learnt from the other {kept}: add --cross-validate, or leave out --soft)"


def _too_few_to_teach(plan: EntailmentPlan) -> Iterator[str]:
    """Yield a fault for each rule with a learnt template whose task has too few items for folds."""
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
    """Return the ids of a task's items in the subset."""
    part = Selection(subset=plan.options.subset).part
    ids = None if part is None else plan.data.subsets[part]
    return [query.id for query in plan.data.queries if query.relation == task and (ids is None or query.id in ids)]


def tasks_of(rules: Iterable[str], wordings: Iterable[RuleWording]) -> list[str]:
    """Return the memorising tasks for P1, and those whose learnt templates the texts have."""
    lent = {source.task for rule in rules for wording in wordings for source in sources(rule, "both", wording)}
    tasks = lent.union(RULES[rule] for rule in rules)
    return [task for task in TASKS if task in tasks]


def check_kind(name: str, model: Model, plan: EntailmentPlan) -> None:
    """:raises BadInput: a model that does not fit the plan's wordings, or options of chat models for another."""
    usual = EntailmentStudyOptions.model_fields
    options = [option for option in CHAT_ALONE if getattr(plan.chat, option) != usual[option].default]
    if options and not plan.is_chat(model):
        flags = ", ".join(f"--{option.replace('_', '-')}" for option in options)
        raise BadInput(f"--model {name} ranks all candidates without --chat: add it, or leave out {flags}")
    if plan.is_chat(model):
        try:
            chat_template(model, plan.chat)
        except BadInput as error:
            raise BadInput(f"--model {name}: {error}") from error
    if plan.is_chat(model) or model.attention is Attention.CAUSAL:
        if learnt := [wording.name for wording in plan.wordings if learns(wording)]:
            kind = "a server's model" if isinstance(model, ChatServer) else "causal"
            raise BadInput(
                f"--model {name} is {kind}, and --wordings {','.join(learnt)} are learnt at masks: leave out --soft"
            )
    elif model.attention is not Attention.BIDIRECTIONAL or model.tokenizer.mask_token_id is None:
        raise BadInput(
            f"--model {name}: the entailment study needs a masked, a causal or a chat model, it is {model.attention}: "
            f"{ALTERNATIVE}"
        )
