"""Arguments of one and more steps, and texts from which the answer does not follow: how far does a model follow?

The texts are those of :mod:`fathom.prompts.arguments`; all depths have the same items. A model follows if the whole
argument does better than each broken one that names the answer, and better than in its untrained twins
(:mod:`fathom.studies.reasoning.controls`).
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fathom.data.queries import QuerySet
from fathom.errors import BadInput
from fathom.formats import locate
from fathom.formats.ontology import AXIOM_FILE, Axioms, read_axioms
from fathom.models.base import Model
from fathom.options import EVERYTHING
from fathom.prompts.arguments import ANOTHER, BROKEN, DISTRACTORS, WHOLE, argument_queries
from fathom.prompts.axioms import DISJOINT, AxiomItem, axiom_items, axiom_queries
from fathom.prompts.entailment import NO_OTHER
from fathom.results.estimates import NOTHING, Estimate, difference, mean, point_estimate
from fathom.results.names import folder_names
from fathom.results.plots import Plot
from fathom.results.recipes import recipe
from fathom.results.rows import Rows, grouped
from fathom.results.samples import Origin, sample_of_origins
from fathom.results.tables import Table
from fathom.store.folder import RunFolder
from fathom.studies import Announce
from fathom.studies.options import ChainStudyOptions
from fathom.studies.reasoning.controls import Control, Gains, control_of, gains_over, of_all, summarise, table, verdicts
from fathom.studies.reasoning.plan import LEAST, EntailmentPlan, Loader, check_kind, is_chat, planned, tested
from fathom.studies.reasoning.runs import ChatQuestions, run_texts, untrained_twins

FOLLOWS = "follows what is said"
_OF_DISJOINT = (
    "disjoint: how far below the best the class is that must not follow, from 0 (first) to 1 (last); the higher the "
    "better, and of chat models the share of other choices"
)
_NOTES = (
    f"{FOLLOWS}: 1 / rank of what follows from all facts, less that of the control; what follows from fewer or more "
    "facts is right as well, and taken out of the ranking (chat models: share of right choices)",
    "answer's fact alone: the last fact, which names the answer; said of others: all, about other pseudowords; a fact "
    "missing: the first; another begins: all, with another item's class or property said of the pseudoword",
    f"shuffled: in random order, among {DISTRACTORS} facts of other items",
    "significant: every gain, and every gain beyond untrained twins, is above 0",
)


class ChainPlace(NamedTuple):
    """One point of a curve."""

    model: str
    rule: str
    form: str
    depth: int


class ChainLine(NamedTuple):
    """The numbers of one point.

    :param whole: MRR of the whole argument.
    :param broken: MRR of each broken one that exists.
    :param reworded: MRR less that of the first form on the same items; None for the first.
    """

    place: ChainPlace
    whole: Estimate
    broken: Mapping[str, Estimate]
    reworded: Estimate | None
    items: int


@dataclass(frozen=True)
class Chains:
    """The findings.

    :param contrasts: gains of whole arguments over broken ones; their rule is "rdfs9, depth 2", their wording the form.
    :param notes: what could not be evaluated.
    """

    lines: list[ChainLine]
    contrasts: list[Control]
    runs: list[RunFolder]
    notes: list[str]


class _Value(NamedTuple):
    """1 / rank of one text, or credit."""

    value: float
    origin: Origin


_ByItem = Mapping[tuple[str, int], _Value]
"""Values by item and pair."""


class _ModelChains(NamedTuple):
    """A model's run. :param values: by rule, form, depth and text."""

    name: str
    run: RunFolder
    rows: Rows
    values: Mapping[tuple[str, str, int, str], _ByItem]

    def of(self, place: ChainPlace, text: str) -> _ByItem:
        return self.values.get((place.rule, place.form, place.depth, text), {})


def analyse(
    models: Sequence[tuple[str, Loader]], data: str | Path, options: ChainStudyOptions, out: Path, announce: Announce
) -> Chains:
    """Make the missing runs and analyse all.

    :param models: names and loaders.
    :param data: the folder of an ontology.
    :raises BadInput: data that is no ontology or has too few chains of a rule, or an unsuitable model; before its run.
    """
    plan, queries = _planned(data, options)
    options = options.model_copy(update={"axioms": tuple(kind for kind in options.axioms if kind in plan.rules)})
    findings = Chains([], [], [], [*queries.notes[len(plan.data.notes) :], *_without_another(queries)])
    for name, load in zip(folder_names([name for name, _ in models]), (load for _, load in models), strict=True):
        model = load()
        check_kind(name, model, plan)
        own = _run(name, model, plan, queries, out, announce)
        twins = [
            _run(f"{name}-untrained-{seed}", twin, plan, queries, out, announce)
            for seed, twin in enumerate(untrained_twins(model, options.untrained))
        ]
        findings.runs.extend(one.run for one in (own, *twins))
        depths = range(1, options.depth + 1)
        chains = product(options.rules, options.forms, depths)
        for place in (ChainPlace(name, *one) for one in (*chains, *product(options.axioms, options.forms, (1,)))):
            findings.lines.append(_line(place, own, options.forms[0]))
            findings.contrasts.extend(_contrasts(place, own, twins))
    return findings


def _planned(data: str | Path, options: ChainStudyOptions) -> tuple[EntailmentPlan, QuerySet]:
    any_rule = options.rules or ("rdfs9",) * bool(options.axioms)  # axioms need no rule
    plan = planned(data, options.model_copy(update={"rules": any_rule}))._replace(rules=options.rules)
    parts = [_chains(plan, options)] if options.rules else []
    if options.axioms:
        parts.append(_axioms(plan, read_axioms(locate(data)), options))
    queries = replace(
        parts[0],
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
        queries=tuple(query for part in parts for query in part.queries),
        candidates={name: space for part in parts for name, space in part.candidates.items()},
        relations={name: relation for part in parts for name, relation in part.relations.items()},
    )
    kinds = [kind for kind in options.axioms if kind in queries.relations]
    return plan._replace(rules=(*options.rules, *kinds)), queries


def _chains(plan: EntailmentPlan, options: ChainStudyOptions) -> QuerySet:
    """:raises BadInput: fewer than two items of a rule."""
    about = (plan.patterns, plan.rules, options.depth, options.forms, options.pairs, options.seed)
    queries = argument_queries(tested(plan, []), *about)
    for rule in plan.rules:
        items = {query.groups["item"] for query in queries.queries if query.relation == rule}
        if len(items) < LEAST:
            raise BadInput(
                f"--depth {options.depth}: {len(items)} of the items of {rule} have so many steps: use a smaller "
                "--depth, or leave the rule out of --rules"
            )
    return queries


def _axioms(plan: EntailmentPlan, axioms: Axioms, options: ChainStudyOptions) -> QuerySet:
    """Return the queries of at most --limit random items of each kind; kinds with fewer than two are noted.

    :raises BadInput: no kind has two.
    """
    items: dict[str, list[AxiomItem]] = {}
    lacking = []
    for kind in options.axioms:
        of_kind = axiom_items(plan.data, plan.patterns, kind, getattr(axioms, kind))
        if len(of_kind) < LEAST:
            lacking.append(f"--axioms {kind}: {plan.data.name} has {len(of_kind)} items of it, {LEAST} are needed")
            continue
        count = min(options.limit or len(of_kind), len(of_kind))
        drawn = random.Random(f"{options.seed} {kind}").sample(of_kind, count)
        items[kind] = [item for item in of_kind if item in drawn]
    if not items:
        raise BadInput([f"{line}; fathom build ontology writes {AXIOM_FILE} if it has any" for line in lacking])
    queries = axiom_queries(plan.data, plan.patterns, items, options.forms, options.pairs, options.seed)
    return replace(queries, notes=(*queries.notes, *(f"{line}: not asked" for line in lacking)))


def _without_another(queries: QuerySet) -> list[str]:
    """Return notes on items without a control, as every other item is about the same."""
    texts = grouped(((query.relation, query.groups["item"]), query.groups["given"]) for query in queries.queries)
    items = grouped((rule, ANOTHER in given) for (rule, _), given in texts.items())
    return [
        f"{rule}: {own.count(False)} of {len(own)} items lack the control {ANOTHER!r}: {NO_OTHER}"
        + ("" if any(own) else f"; {FOLLOWS!r} is not fully controlled")
        for rule, own in items.items()
        if not all(own)
    ]


def _run(
    name: str, model: Model, plan: EntailmentPlan, queries: QuerySet, out: Path, announce: Announce
) -> _ModelChains:
    chat = ChatQuestions(model, plan) if is_chat(model) else None
    options = plan.options.model_copy(update={"relations": (), "subset": EVERYTHING, "limit": None, "templates": ()})
    folder = run_texts(model, chat, queries, options, out / name / "chains", announce(f"{name} chains"))
    rows = Rows(folder, with_scores=False, cluster=plan.cluster)
    ranks, below = rows.reciprocal_or_credit().tolist(), _below(rows)
    values: dict[tuple[str, str, int, str], dict[tuple[str, int], _Value]] = {}
    for place, query in enumerate(rows.query.tolist()):
        about = rows.groups[query]
        if rows.scored[place]:
            value = (below if about["rule"] == DISJOINT else ranks)[place]
            of_text = values.setdefault((about["rule"], about["form"], int(about["depth"]), about["given"]), {})
            of_text[about["item"], int(about["pair"])] = _Value(value, rows.origin(query))
    return _ModelChains(name, folder, rows, values)


def _below(rows: Rows) -> list[float]:
    """Return how far below the best the answer is that must not follow, from 0 (first) to 1 (last, or not chosen)."""
    others = rows.number_of_candidates - np.array(rows.filtered)[rows.query] - 1
    ranked = np.clip((rows.rank - 1) / np.maximum(others, 1), 0, 1)
    return np.where(np.isnan(rows.rank), 1 - rows.correct, ranked).tolist()  # type: ignore[no-any-return]


def _recipe(model: _ModelChains, place: ChainPlace) -> str:
    scoring = model.rows.scorings[0]
    measure = "accuracy" if model.rows.declared.scoring(scoring)["unit"] == "credit" else "MRR"
    return f"{measure}{recipe(model.rows, '', scoring)}|rule:{place.rule}|form:{place.form}|depth:{place.depth}"


def _contrasts(place: ChainPlace, model: _ModelChains, twins: Sequence[_ModelChains]) -> list[Control]:
    """Compare the whole argument with each broken one that exists."""
    about = (place.model, place.form, f"{place.rule}, depth {place.depth}", FOLLOWS)
    return [
        control_of(
            (*about, control),
            _gains(model, place, control),
            [_gains(twin, place, control) for twin in twins],
            f"{_recipe(model, place)}|less:{control}",
        )
        for control in BROKEN
        if model.of(place, control)
    ]


def _gains(model: _ModelChains, place: ChainPlace, control: str) -> Gains:
    whole, broken = ({key: one.value for key, one in model.of(place, text).items()} for text in (WHOLE, control))
    return of_all(gains_over(whole, broken), place.rule)


def _line(place: ChainPlace, model: _ModelChains, first: str) -> ChainLine:
    """:param first: the form that others are compared with."""
    made = _recipe(model, place)
    texts = {text: model.of(place, text) for text in (WHOLE, *BROKEN)}
    numbers = {
        text: mean(
            [one.value for one in own.values()],
            sample_of_origins([one.origin for one in own.values()]),
            f"{made}|{text}",
            form=".3f",
        )
        for text, own in texts.items()
        if own
    }
    whole, usual = texts[WHOLE], model.of(place._replace(form=first), WHOLE)
    both = [key for key in whole if key in usual]
    reworded = None
    if place.form != first and both:
        values = [whole[key].value for key in both], [usual[key].value for key in both]
        sample = sample_of_origins([whole[key].origin for key in both])
        reworded = difference(*values, sample, f"{made}|less:{first}", form="+.3f")
    items = len({item for item, _ in whole})
    return ChainLine(place, numbers.pop(WHOLE, point_estimate(NOTHING, made)), numbers, reworded, items)


# --- tables and curves


def conclude(findings: Chains) -> list[str]:
    """Return for how many rules and depths each model follows."""
    return summarise(verdicts(findings.contrasts, {ANOTHER}))


def tables(findings: Chains) -> list[Table]:
    """Return the numbers by depth, and the controls."""
    decided = {key[:3]: word for key, word in verdicts(findings.contrasts, {ANOTHER}).items()}
    rows = [
        {
            **place._asdict(),
            "verdict": decided.get((place.model, place.form, f"{place.rule}, depth {place.depth}")),
            "whole": line.whole,
            **{text: line.broken.get(text) for text in BROKEN},
            "less the first form": line.reworded,
            "items": line.items,
        }
        for line in findings.lines
        for place in [line.place]
    ]
    notes = ["MRR of the same items at all depths (chat models: share of right choices)", *findings.notes]
    if any(line.place.rule == DISJOINT for line in findings.lines):
        notes.append(_OF_DISJOINT)
    by_depth = Table.of(rows, "how far it follows", notes, main="whole").without_empty(*BROKEN, "less the first form")
    return [by_depth, table(findings.contrasts, "does it follow? The controls", _NOTES, {ANOTHER})]


def plots(findings: Chains) -> list[Plot]:
    """Return a curve over depth for each model and rule: the whole argument in each form, and the best broken one."""
    lines = grouped(((one.place.model, one.place.rule), one) for one in findings.lines)
    return [_curve(model, rule, own) for (model, rule), own in lines.items() if own[-1].place.depth > 1]


def _curve(model: str, rule: str, lines: Sequence[ChainLine]) -> Plot:
    def draw(axes: Any) -> None:
        for form, own in grouped((one.place.form, one) for one in lines).items():
            depths = [one.place.depth for one in own]
            [drawn] = axes.plot(depths, [one.whole.value for one in own], marker="o", label=form)
            ends = [(one.whole.low, one.whole.high) for one in own]
            if all(low is not None and high is not None for low, high in ends):
                axes.fill_between(depths, *zip(*ends, strict=True), alpha=0.15, color=drawn.get_color())
            best = [max((number.value for number in one.broken.values()), default=math.nan) for one in own]
            axes.plot(depths, best, linestyle=":", color=drawn.get_color(), label=f"{form}, best broken")
        axes.set_xticks(sorted({one.place.depth for one in lines}))
        axes.set_ylim(0, 1)
        axes.legend()

    return Plot(f"chains-{model}-{rule}", draw, "steps", "MRR of what follows", f"{rule}, {model}")
