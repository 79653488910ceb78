"""Arguments of one and more facts, and altered texts from which the answer does not follow: how far a model follows.

The texts are those of :mod:`fathom.data.prompts.alterations`; all depths have the same items. The verdicts are those of
:mod:`fathom.studies.reasoning.conclusions`: at depth 1 they are the entailment study's own.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fathom.base.errors import BadInput
from fathom.data.formats import locate
from fathom.data.formats.ontology import AXIOM_FILE, Axioms, read_axioms
from fathom.data.prompts.alterations import DISTRACTORS, WHOLE, argument_queries
from fathom.data.prompts.axioms import DISJOINT, AxiomItem, axiom_items, axiom_queries
from fathom.data.queries import QuerySet
from fathom.results.estimates import NOTHING, Estimate, difference, mean, point_estimate
from fathom.results.loading import folder_names
from fathom.results.rows import Floats, Rows, grouped
from fathom.results.samples import Origin, sample_of_origins
from fathom.results.tables import Axes, Plot, Table
from fathom.store.folder import RunFolder
from fathom.studies import Announce, PlannedRun
from fathom.studies.options import ChainStudyOptions
from fathom.studies.reasoning.conclusions import (
    Conclusion,
    conclusion_tables,
    evidence_of_runs,
    judge,
    recipe_of,
    summarise,
)
from fathom.studies.reasoning.plan import LEAST, EntailmentPlan, Loader, check_kind, draw_items, planned
from fathom.studies.reasoning.runs import plan_arguments, run_arguments
from fathom.studies.reasoning.shortcuts import asked_texts, solved_items

_OF_DISJOINT = (
    "disjoint: how far below the best the class is that must not follow, from 0 (first) to 1 (last); the higher the "
    "better, and of a chat server the share of other choices"
)
_NOTES = (
    "whole: mean 1 / rank of what follows from all facts (of a chat server: share of right choices); best altered: of "
    "the altered text with the highest mean",
    f"shuffled: in random order, among {DISTRACTORS} facts of other items",
)


Row = dict[str, Any]


@dataclass(frozen=True)
class Chains:
    """The findings.

    :param lines: a row for each point of a curve; "less the first form": MRR less that of the first form on the same
        items, None for the first.
    :param conclusions: verdicts; their rule is "rdfs9, depth 2", their prompt the form.
    """

    lines: list[Row]
    conclusions: list[Conclusion]
    runs: list[RunFolder]
    notes: list[str]


def plan(options: ChainStudyOptions, model: Loader, data: str | Path) -> list[PlannedRun]:
    """Return the runs that :func:`analyse` makes of a model. :raises BadInput: likewise."""
    plan, queries = _planned(data, options)
    opened = model()
    check_kind(opened.identity.name, opened, plan)
    return plan_arguments(opened, plan, queries, options.untrained)


def analyse(
    models: Sequence[tuple[str, Loader]], data: str | Path, options: ChainStudyOptions, out: Path, announce: Announce
) -> Chains:
    """Make the missing runs and analyse all.

    :raises BadInput: data that is no ontology or has too few items of a rule, or an unsuitable model; before its run.
    """
    plan, queries = _planned(data, options)
    solved = solved_items(asked_texts(queries))
    lines, evidence, runs = [], [], []
    for name, load in zip(folder_names([name for name, _ in models]), (load for _, load in models), strict=True):
        model = load()
        check_kind(name, model, plan)
        made = run_arguments(name, model, plan, queries, options.untrained, out, announce)
        runs += [folder for folder, _ in made]
        lines += _lines(name, made[0][1], options.forms[0])
        evidence += evidence_of_runs(name, [rows for _, rows in made], {}, solved, _values)
    return Chains(lines, judge(evidence), runs, list(queries.notes))


def _planned(data: str | Path, options: ChainStudyOptions) -> tuple[EntailmentPlan, QuerySet]:
    any_rule = options.rules or ("rdfs9",) * bool(options.axioms)  # axioms need no rule
    plan, parts = planned(data, options.model_copy(update={"rules": any_rule}))._replace(rules=()), []
    if options.rules:
        plan, items = draw_items(plan._replace(rules=options.rules))
        depths = range(1, options.depth + 1)
        parts.append(
            argument_queries(items, plan.patterns, plan.rules, depths, options.forms, options.pairs, options.seed)
        )
    if options.axioms:
        parts.append(_axioms(plan, read_axioms(locate(data)), options))
    notes = [note for part in parts for note in part.notes[len(plan.data.notes) :]]
    queries = replace(
        parts[0],
        notes=tuple(dict.fromkeys((*plan.notes, *notes))),
        queries=tuple(query for part in parts for query in part.queries),
        candidates={name: space for part in parts for name, space in part.candidates.items()},
        relations={name: relation for part in parts for name, relation in part.relations.items()},
    )
    kinds = [kind for kind in options.axioms if kind in queries.relations]
    return plan._replace(rules=(*plan.rules, *kinds)), queries


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


def _values(rows: Rows) -> Floats:
    """Return 1 / rank or credit; for disjoint classes how far below the best the answer is that must not follow."""
    disjoint = np.array([rows.relations[query] == DISJOINT for query in rows.query.tolist()], dtype=bool)
    return np.where(disjoint, _below(rows), rows.reciprocal_or_credit())


def _below(rows: Rows) -> Floats:
    """Return how far below the best the answer is that must not follow, from 0 (first) to 1 (last, or not chosen)."""
    others = rows.number_of_candidates - np.array(rows.filtered)[rows.query] - 1
    ranked = np.clip((rows.rank - 1) / np.maximum(others, 1), 0, 1)
    return np.where(np.isnan(rows.rank), 1 - rows.correct, ranked)


def _lines(name: str, rows: Rows, first: str) -> list[Row]:
    """:param first: the form that others are compared with."""
    scores = _values(rows)
    texts: dict[tuple[str, str, int], dict[str, dict[tuple[str, str], tuple[float, Origin]]]] = {}
    for at in np.flatnonzero(rows.scored).tolist():
        query = int(rows.query[at])
        groups = rows.groups[query]
        place = groups["rule"], groups["form"], int(groups["depth"])
        by_item = texts.setdefault(place, {}).setdefault(groups["given"], {})
        by_item[groups["item"], groups["pair"]] = float(scores[at]), rows.origin(query)
    lines: list[Row] = []
    for (rule, form, depth), by_text in texts.items():
        made = f"{recipe_of(rows)}|rule:{rule}|form:{form}|depth:{depth}"
        numbers = {text: _mean(values, f"{made}|{text}") for text, values in by_text.items()}
        whole, usual = by_text.get(WHOLE, {}), texts.get((rule, first, depth), {}).get(WHOLE, {})
        both = [key for key in whole if key in usual]
        reworded = None
        if form != first and both:
            whole_values, usual_values = ([values[key][0] for key in both] for values in (whole, usual))
            sample = sample_of_origins([whole[key][1] for key in both])
            reworded = difference(whole_values, usual_values, sample, f"{made}|less:{first}", form="+.3f")
        of_whole = numbers.pop(WHOLE, point_estimate(NOTHING, made))
        about = {"model": name, "rule": rule, "form": form, "depth": depth, "whole": of_whole}
        best = max(numbers.values(), key=lambda number: number.value, default=None)
        items = len({item for item, _ in whole})
        lines.append(about | {"best altered": best, "less the first form": reworded, "items": items})
    return lines


def _mean(values: Mapping[tuple[str, str], tuple[float, Origin]], made: str) -> Estimate:
    sample = sample_of_origins([origin for _, origin in values.values()])
    return mean([value for value, _ in values.values()], sample, made, form=".3f")


# --- tables and curves


def conclude(findings: Chains) -> list[str]:
    return summarise(findings.conclusions)


def tables(findings: Chains) -> list[Table]:
    decided = {}
    for conclusion in findings.conclusions:
        about = conclusion.evidence
        decided[about.model, about.prompt, about.rule, about.depth] = conclusion.decision.word
    rows = [
        line | {"verdict": decided.get((line["model"], line["form"], line["rule"], line["depth"]))}
        for line in findings.lines
    ]
    notes = [*_NOTES, *findings.notes]
    if any(line["rule"] == DISJOINT for line in findings.lines):
        notes.append(_OF_DISJOINT)
    columns = ("model", "rule", "form", "depth", "verdict", "whole", "best altered", "less the first form", "items")
    by_depth = Table.of(rows, "how far it follows", notes, columns=columns, main="whole").without_empty(
        "less the first form"
    )
    return [by_depth, *conclusion_tables(findings.conclusions)]


def plots(findings: Chains) -> list[Plot]:
    lines = grouped(((line["model"], line["rule"]), line) for line in findings.lines)
    return [_curve(model, rule, of_rule) for (model, rule), of_rule in lines.items() if of_rule[-1]["depth"] > 1]


def _curve(model: str, rule: str, lines: Sequence[Row]) -> Plot:
    def draw(axes: Axes) -> None:
        for form, of_form in grouped((line["form"], line) for line in lines).items():
            depths, numbers = [line["depth"] for line in of_form], [line["whole"] for line in of_form]
            [drawn] = axes.plot(depths, [number.value for number in numbers], marker="o", label=form)
            lows, highs = [share.low for share in numbers], [share.high for share in numbers]
            if None not in (*lows, *highs):
                axes.fill_between(depths, lows, highs, alpha=0.15, color=drawn.get_color())
            best = [np.nan if line["best altered"] is None else line["best altered"].value for line in of_form]
            axes.plot(depths, best, linestyle=":", color=drawn.get_color(), label=f"{form}, best altered")
        axes.set_xticks(sorted({line["depth"] for line in lines}))
        axes.set_ylim(0, 1)
        axes.legend()

    return Plot(f"chains-{model}-{rule}", draw, "steps", "MRR of what follows", f"{rule}, {model}")
