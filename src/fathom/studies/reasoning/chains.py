"""How far does a model follow? Arguments of one and more steps, beside texts from which the answer does not follow.

What is asked is :mod:`fathom.prompts.arguments`: facts of an ontology, each the premise of the next, and something said
of a pseudoword. All depths are asked of the same items. At each depth, and in each form of the premises, a model is
said to follow if the whole argument does better than every broken one of the same form that names the answer, too, and
better than its untrained twins: the verdict and its numbers are those of :mod:`fathom.studies.reasoning.controls`.
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
from fathom.formats.axioms import AXIOM_FILE, Axioms, read_axioms
from fathom.models.base import Model
from fathom.options import EVERYTHING
from fathom.probes import ENTAILMENT
from fathom.prompts.arguments import ANOTHER, BROKEN, DISTRACTORS, WHOLE, argument_queries
from fathom.prompts.axioms import DISJOINT, AxiomItem, axiom_items, axiom_queries
from fathom.prompts.entailment import NO_OTHER
from fathom.results.estimates import NOTHING, Estimate, difference, mean, untold
from fathom.results.names import folder_names
from fathom.results.plots import Plot
from fathom.results.recipes import recipe
from fathom.results.rows import Rows, grouped
from fathom.results.samples import Origin, drawn_from
from fathom.results.tables import Table
from fathom.run import run
from fathom.store.folder import RunFolder
from fathom.studies import Announce
from fathom.studies.options import ChainStudyOptions
from fathom.studies.reasoning.chat import ChatQuestions
from fathom.studies.reasoning.controls import Contrast, Gains, contrast_of, gains_over, in_words, table, verdicts
from fathom.studies.reasoning.entailment import untrained_twins
from fathom.studies.reasoning.plan import LEAST, EntailmentPlan, Loader, check_kind, is_chat, planned, tested

FOLLOWS = "follows what is said"
_OF_DISJOINT = (
    "disjoint: how far below the best the class is that must not follow, from 0 (first) to 1 (last); the higher the "
    "better, and of chat models the share of other choices"
)
_NOTES = (
    f"{FOLLOWS}: 1 / rank of what follows from all facts, less that of the control; what follows from fewer or more "
    "facts is right, too, and taken out of the ranking (chat models: share of right choices)",
    "answer's fact alone: the last fact, which names the answer; said of others: all, about other pseudowords; a fact "
    "missing: the first; another begins: all, with another item's class or property said of the pseudoword",
    f"shuffled: in an order by lot, among {DISTRACTORS} facts of other items",
    "significant: every gain, and every gain beyond untrained twins, is above 0",
)


class ChainPlace(NamedTuple):
    """One point of a curve."""

    model: str
    rule: str
    form: str
    depth: int


class ChainLine(NamedTuple):
    """What came of one point.

    :param whole: MRR of the whole argument.
    :param broken: of each broken one; those that there are.
    :param reworded: MRR less that of the first form on the same items; None of the first.
    :param items: how many.
    """

    place: ChainPlace
    whole: Estimate
    broken: Mapping[str, Estimate]
    reworded: Estimate | None
    items: int


@dataclass(frozen=True)
class Chains:
    """What the study found.

    :param contrasts: whole arguments less broken ones, "rdfs9, depth 2" being the rule and the form the wording.
    :param notes: what could not be asked.
    """

    lines: list[ChainLine]
    contrasts: list[Contrast]
    runs: list[RunFolder]
    notes: list[str]


class _Value(NamedTuple):
    """1 / rank of one text, or credit."""

    value: float
    origin: Origin


_Values = dict[tuple[str, str, int, str], dict[tuple[str, int], _Value]]
"""Of rule, form, depth and text, by item and pair."""


class _Model(NamedTuple):
    name: str
    run: RunFolder
    rows: Rows
    values: _Values


def analyse(
    models: Sequence[tuple[str, Loader]],
    data: str | Path,
    options: ChainStudyOptions,
    out: Path,
    announce: Announce,
) -> Chains:
    """Make the runs that are not there yet, and ask them.

    :param models: names, and what loads them.
    :param data: the folder of an ontology.
    :raises BadInput: data that is no ontology or has too few chains of a rule, or a model that cannot be asked; before
        anything is.
    """
    plan, queries = _planned(data, options)
    options = options.model_copy(update={"axioms": tuple(kind for kind in options.axioms if kind in plan.rules)})
    asked: list[_Model] = []
    runs: list[RunFolder] = []
    contrasts: list[Contrast] = []
    for name, load in zip(folder_names([name for name, _ in models]), (load for _, load in models), strict=True):
        model = load()
        check_kind(name, model, plan)
        own = _asked(name, model, plan, queries, out, announce)
        twins = [
            _asked(f"{name}-untrained-{seed}", twin, plan, queries, out, announce)
            for seed, twin in enumerate(untrained_twins(model, options.untrained))
        ]
        asked.append(own)
        runs += [own.run, *(twin.run for twin in twins)]
        contrasts += [found for place in _places(own, options) for found in _contrasts(place, own, twins)]
    lines = [_line(place, one, options.forms[0]) for one in asked for place in _places(one, options)]
    notes = [*queries.notes[len(plan.data.notes) :], *_without_another(queries)]
    return Chains(lines, contrasts, runs, notes)


def _planned(data: str | Path, options: ChainStudyOptions) -> tuple[EntailmentPlan, QuerySet]:
    """:raises BadInput: see :func:`ask`."""
    any_rule = options.rules or ("rdfs9",) * bool(options.axioms)  # axioms can be asked alone
    plan = planned(data, options.model_copy(update={"rules": any_rule}))._replace(rules=options.rules)
    asked = [_chains(plan, options)] if options.rules else []
    if options.axioms:
        asked.append(_axioms(plan, read_axioms(locate(data)), options))
    queries = asked[0] if len(asked) == 1 else _together(*asked)
    kinds = [kind for kind in options.axioms if kind in queries.relations]
    return plan._replace(rules=(*options.rules, *kinds)), queries


def _chains(plan: EntailmentPlan, options: ChainStudyOptions) -> QuerySet:
    """:raises BadInput: fewer than two items of a rule."""
    asked = (plan.patterns, plan.rules, options.depth, options.forms, options.pairs, options.seed)
    queries = argument_queries(tested(plan, []), *asked)
    for rule in plan.rules:
        items = {query.groups["item"] for query in queries.queries if query.relation == rule}
        if len(items) < LEAST:
            raise BadInput(
                f"--depth {options.depth}: {len(items)} of the items of {rule} have so many steps: ask with a smaller "
                "--depth, or leave the rule out of --rules"
            )
    return queries


def _axioms(plan: EntailmentPlan, axioms: Axioms, options: ChainStudyOptions) -> QuerySet:
    """At most --limit items of each kind, drawn by the seed; kinds with fewer than two are noted.

    :raises BadInput: no kind has two.
    """
    items: dict[str, list[AxiomItem]] = {}
    lacking = []
    for kind in options.axioms:
        found = axiom_items(plan.data, plan.patterns, kind, getattr(axioms, kind))
        if len(found) < LEAST:
            lacking.append(f"--axioms {kind}: {plan.data.name} has {len(found)} items of it, {LEAST} are needed")
            continue
        drawn = random.Random(f"{options.seed} {kind}").sample(found, min(options.limit or len(found), len(found)))
        items[kind] = [item for item in found if item in drawn]
    if not items:
        raise BadInput([f"{line}; fathom build ontology writes {AXIOM_FILE} where there are some" for line in lacking])
    made = axiom_queries(plan.data, plan.patterns, items, options.forms, options.pairs, options.seed)
    return replace(made, notes=(*made.notes, *(f"{line}: not asked" for line in lacking)))


def _without_another(queries: QuerySet) -> list[str]:
    """Of which items no other says nothing, so that one control of theirs cannot be made."""
    texts = grouped(((query.relation, query.groups["item"]), query.groups["given"]) for query in queries.queries)
    items = grouped((rule, ANOTHER in given) for (rule, _), given in texts.items())
    return [
        f"{rule}: {own.count(False)} of {len(own)} items lack the control {ANOTHER!r}: {NO_OTHER}"
        + ("" if any(own) else f"; {FOLLOWS!r} is not fully controlled")
        for rule, own in items.items()
        if not all(own)
    ]


def _together(one: QuerySet, other: QuerySet) -> QuerySet:
    """Queries of one ontology, whose own notes both have."""
    return replace(
        one,
        notes=tuple(dict.fromkeys((*one.notes, *other.notes))),
        queries=(*one.queries, *other.queries),
        candidates={**one.candidates, **other.candidates},
        relations={**one.relations, **other.relations},
    )


def _asked(name: str, model: Model, plan: EntailmentPlan, queries: QuerySet, out: Path, announce: Announce) -> _Model:
    where = out / name / "chains", announce(f"{name} chains")
    if is_chat(model):
        made = run(*ChatQuestions(model, plan).about(queries), *where)
    else:
        own = {"relations": (), "subset": EVERYTHING, "limit": None, "templates": ()}
        options = plan.options.model_copy(update=own)
        made = run(ENTAILMENT, model, queries, options, *where)
    if not made.is_complete():
        raise BadInput(f"{made.path} is unfinished: type its command again, it goes on where it stopped")
    rows = Rows(made, with_scores=False, cluster=plan.cluster)
    return _Model(name, made, rows, _values(rows))


def _values(rows: Rows) -> _Values:
    values, below = rows.reciprocal_or_credit().tolist(), _below(rows)
    found: dict[tuple[str, str, int, str], list[tuple[tuple[str, int], _Value]]] = {}
    for place, query in enumerate(rows.query.tolist()):
        about = rows.groups[query]
        if rows.scored[place]:
            key = about["rule"], about["form"], int(about["depth"]), about["given"]
            value = (below if about["rule"] == DISJOINT else values)[place]
            item = about["item"], int(about["pair"])
            found.setdefault(key, []).append((item, _Value(value, rows.origin(query))))
    return {key: dict(own) for key, own in found.items()}


def _below(rows: Rows) -> list[float]:
    """How far below the best the answer is that must not follow: 0 is first, 1 is last, or not chosen."""
    others = rows.number_of_candidates - np.array(rows.filtered)[rows.query] - 1
    ranked = np.clip((rows.rank - 1) / np.maximum(others, 1), 0, 1)
    return np.where(np.isnan(rows.rank), 1 - rows.correct, ranked).tolist()  # type: ignore[no-any-return]


def _places(model: _Model, options: ChainStudyOptions) -> list[ChainPlace]:
    depths = range(1, options.depth + 1)
    chains = product(options.rules, options.forms, depths)
    return [ChainPlace(model.name, *one) for one in (*chains, *product(options.axioms, options.forms, (1,)))]


def _contrasts(place: ChainPlace, model: _Model, twins: Sequence[_Model]) -> list[Contrast]:
    """The whole argument less each broken one that there is."""
    made = f"{_made(model)}|rule:{place.rule}|form:{place.form}|depth:{place.depth}"
    about = (place.model, place.form, f"{place.rule}, depth {place.depth}", FOLLOWS)
    return [
        contrast_of(
            (*about, control),
            _gains(model, place, control),
            [_gains(twin, place, control) for twin in twins],
            f"{made}|less:{control}",
        )
        for control in BROKEN
        if _of(model, place, control)
    ]


def _gains(model: _Model, place: ChainPlace, control: str) -> Gains:
    whole, broken = ({key: one.value for key, one in _of(model, place, text).items()} for text in (WHOLE, control))
    gains = gains_over(whole, broken)
    return Gains(np.array(list(gains.values())), [place.rule] * len(gains))


def _of(model: _Model, place: ChainPlace, text: str) -> dict[tuple[str, int], _Value]:
    return model.values.get((place.rule, place.form, place.depth, text), {})


def _made(model: _Model) -> str:
    """The recipe of a number, but for what it is of."""
    scoring = model.rows.scorings[0]
    measure = "accuracy" if model.rows.declared.scoring(scoring)["unit"] == "credit" else "MRR"
    return f"{measure}{recipe(model.rows, '', scoring)}"


def _line(place: ChainPlace, model: _Model, first: str) -> ChainLine:
    """:param first: the form that others are compared with."""
    made = f"{_made(model)}|rule:{place.rule}|form:{place.form}|depth:{place.depth}"
    texts = {text: _of(model, place, text) for text in (WHOLE, *BROKEN)}
    numbers = {text: _mean(own, f"{made}|{text}") for text, own in texts.items() if own}
    whole, usual = texts[WHOLE], _of(model, place._replace(form=first), WHOLE)
    both = [key for key in whole if key in usual]
    reworded = None
    if place.form != first and both:
        pair = [whole[key].value for key in both], [usual[key].value for key in both]
        reworded = difference(
            *pair, drawn_from([whole[key].origin for key in both]), f"{made}|less:{first}", form="+.3f"
        )
    items = len({item for item, _ in whole})
    return ChainLine(place, numbers.pop(WHOLE, untold(NOTHING, made)), numbers, reworded, items)


def _mean(own: Mapping[tuple[str, int], _Value], made: str) -> Estimate:
    return mean([one.value for one in own.values()], drawn_from([one.origin for one in own.values()]), made, form=".3f")


# --- tables and curves


def conclude(findings: Chains) -> list[str]:
    """By how many rules and depths each model follows."""
    return in_words(verdicts(findings.contrasts, {ANOTHER}))


def tables(findings: Chains) -> list[Table]:
    """The verdicts, and the numbers by depth."""
    decided = {key[:3]: word for key, word in verdicts(findings.contrasts, {ANOTHER}).items()}
    rows = [
        (
            *(place.model, place.rule, place.form, place.depth),
            decided.get((place.model, place.form, f"{place.rule}, depth {place.depth}")),
            line.whole,
            *(line.broken.get(text) for text in BROKEN),
            line.reworded,
            line.items,
        )
        for line in findings.lines
        for place in [line.place]
    ]
    columns = ("model", "rule", "form", "depth", "verdict", "whole", *BROKEN, "less the first form", "items")
    notes = ["MRR of the same items at all depths (chat models: share of right choices)", *findings.notes]
    if any(line.place.rule == DISJOINT for line in findings.lines):
        notes.append(_OF_DISJOINT)
    every = Table.of(rows, "how far it follows", notes, columns=columns, main="whole")
    by_depth = every.without_empty(*BROKEN, "less the first form")
    return [by_depth, table(findings.contrasts, "does it follow? The controls", _NOTES, {ANOTHER})]


def plots(findings: Chains) -> list[Plot]:
    """Of each model and rule a curve over depth: the whole argument in each form, and the best broken one."""
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
