"""Entailment by six rules, each premise stated, remembered, or neither: does a model reason with an ontology, or only
remember it (section 4.2 and figures 2 to 4 of Wu et al. 2023)?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from fathom.data.prompts.alterations import COMBINES, COUNTERFACTUAL, PLAIN, REMEMBERS, argument_queries
from fathom.data.prompts.entailment import ABSENT, EXPLICIT, IMPLICIT
from fathom.data.queries import QuerySet
from fathom.results.estimates import Estimate, mean, point_estimate, recipe
from fathom.results.loading import folder_names
from fathom.results.rows import Rows, grouped
from fathom.results.samples import Origin, sample_of_origins
from fathom.results.tables import Axes, Plot, Table
from fathom.results.tasks import FORMATS, LEGEND, MEASURED, NO_RANKS, measured, metrics, over
from fathom.store.folder import RunFolder
from fathom.studies import Announce, PlannedRun
from fathom.studies.options import EntailmentStudyOptions
from fathom.studies.reasoning.conclusions import (
    Conclusion,
    conclusion_tables,
    counterfactuals,
    evidence_of_runs,
    judge,
    summarise,
    values_of_run,
)
from fathom.studies.reasoning.plan import PAIR, EntailmentPlan, Loader, check_kind, draw_items, planned
from fathom.studies.reasoning.runs import ModelRuns, PlannedTexts, plan_arguments, run_arguments
from fathom.studies.reasoning.shortcuts import asked_texts, solved_items

LEVELS = (EXPLICIT, IMPLICIT, ABSENT)
ONE_PAIR = (
    "one pair of pseudowords: nothing can be stated of another subject, so that nothing is concluded; use --pairs 2"
)
LEARNT = "no wording by words: nothing is concluded; add words to --wordings"
_MRR, _MRR_ALL = "MRR", "MRRₐ"
_GIVEN = (
    "P1, P2: explicit: said; implicit: not said, but among the half that is remembered better; absent: the other half"
)
_AS_PUBLISHED = "as published: no control; a preference for some answers gives such differences as well: "
_CONCLUDED = "the conclusions are in the first table"
_NOT_CONCLUDED = "nothing can be concluded without altered texts"
_PAIRS = LEGEND.replace("right answer, low", "right answer, over items and pairs of pseudowords, low")


class EntailmentSetting(NamedTuple):
    """A rule, with how P1 (*first*) and P2 (*second*) are given."""

    model: str
    wording: str
    rule: str
    first: str
    second: str


class Trial(NamedTuple):
    """The result of one text.

    :param item: id of the memorising query.
    :param values: by :data:`MEASURED`; NaN if unscored.
    """

    item: str
    values: dict[str, float]
    origin: Origin


class EntailmentLine(NamedTuple):
    """The numbers of one setting.

    :param numbers: by :data:`MEASURED`, over items and pairs; empty if nothing was scored.
    :param items: ids, one for each item and pair; *values* and *origins* are as long.
    """

    setting: EntailmentSetting
    numbers: dict[str, Estimate]
    unscored: int
    items: list[str]
    values: dict[str, list[float]]
    origins: list[Origin]


class Mean(NamedTuple):
    """A mean over rules, models (*model* "") or wordings (*wording* ""), each with the same weight.

    :param rules: those with an item in the setting.
    """

    model: str
    wording: str
    first: str
    second: str
    mrr: Estimate
    mrr_all: Estimate
    rules: tuple[str, ...]


@dataclass(frozen=True)
class Entailment:
    """The findings.

    :param by_wording: MRR and MRRₐ over all models, rules and settings.
    """

    lines: list[EntailmentLine]
    means: list[Mean]
    by_wording: dict[str, tuple[Estimate, Estimate]]
    remembered: list[dict[str, Any]]
    conclusions: list[Conclusion]
    counterfactuals: list[dict[str, Any]]
    runs: list[RunFolder]
    notes: list[str]


def plan(options: EntailmentStudyOptions, model: Loader, data: str | Path) -> list[PlannedRun]:
    """Return the runs that :func:`analyse` makes of a model, with at least their texts. :raises BadInput: likewise."""
    plan, items = draw_items(planned(data, options))
    opened = model()
    check_kind(opened.identity.name, opened, plan)
    argued = _arguments(plan, items)
    concluded = [] if argued is None else plan_arguments(opened, plan, argued, options.untrained)
    return [*PlannedTexts(opened, plan, items).at_most(), *concluded]


def analyse(
    models: Sequence[tuple[str, Loader]],
    data: str | Path,
    options: EntailmentStudyOptions,
    out: Path,
    announce: Announce,
) -> Entailment:
    """Make the missing runs and analyse all.

    :raises BadInput: data that is no ontology or lacks what a rule needs, or an unsuitable model; before the first
        run.
    """
    loaders = dict(zip(folder_names([name for name, _ in models]), (load for _, load in models), strict=True))
    plan, items = draw_items(planned(data, options))
    if len(loaders) == 1:  # several may not fit into memory together, and are loaded again
        loaders = {name: cache(load) for name, load in loaders.items()}
    for name, load in loaders.items():
        check_kind(name, load(), plan)
    argued = _arguments(plan, items)
    solved = solved_items(asked_texts(argued)) if argued is not None else {}
    evaluated, evidence, against, runs = [], [], [], []
    for name, load in loaders.items():
        side = ModelRuns(name, model := load(), plan, items, out, announce)
        evaluated.append(side)
        runs += side.runs
        if argued is not None:
            made = run_arguments(name, model, plan, argued, options.untrained, out, announce)
            runs += [folder for folder, _ in made]
            evidence += evidence_of_runs(name, [rows for _, rows in made], side.memory, solved)
            rows = made[0][1]
            firsts = values_of_run(rows, rows.hits(1))
            against += counterfactuals(name, firsts, recipe(rows, "first", rows.scorings[0]))
    by_wording = ((side.name, wording, rows) for side in evaluated for wording, rows in side.of_wording.items())
    lines = [line for about in by_wording for line in _lines(*about, plan.rules)]
    return Entailment(
        lines,
        means_of(lines),
        _by_wording(lines),
        [remembered for side in evaluated for remembered in side.remembered],
        judge(evidence),
        against,
        runs,
        _notes(evaluated, plan),
    )


def _arguments(plan: EntailmentPlan, items: QuerySet) -> QuerySet | None:
    """Return the arguments and their altered texts; None if nothing can be concluded."""
    if not plan.controlled:
        return None
    settings = plan.rules, (1,), (PLAIN,), plan.options.pairs, plan.options.seed
    return argument_queries(items, plan.patterns, *settings, (COMBINES, REMEMBERS, COUNTERFACTUAL))


def _notes(evaluated: Sequence[ModelRuns], plan: EntailmentPlan) -> list[str]:
    notes = [*plan.notes, *(note for of_model in evaluated for note in of_model.notes)]
    chat = [of_model.name for of_model in evaluated if of_model.measure != _MRR]
    if chat:
        notes.append(f"{', '.join(chat)}: {_MRR} and {_MRR_ALL} are the share of right choices: options have no rank")
    if not plan.controlled:
        notes.append(ONE_PAIR if plan.options.pairs == 1 else LEARNT)
    return list(dict.fromkeys(notes))


def _trials(rows: Rows) -> dict[tuple[str, str, str], list[Trial]]:
    """Return the result of each text, by rule and how P1 and P2 are given: items in neither half are in no setting."""
    columns = {name: metric.columns(rows)[0].tolist() for name, metric in metrics().items()}
    columns[_MRR] = rows.reciprocal_or_credit().tolist()
    trials = []
    for place, query in enumerate(rows.query.tolist()):
        groups, origin = rows.groups[query], rows.origin(query)
        if "premise 1" in groups:
            if origin.key == PAIR:  # each rule has pseudowords of its own
                origin = origin._replace(label=f"{groups['rule']} {groups['pair']}")
            values = {name: column[place] if rows.scored[place] else math.nan for name, column in columns.items()}
            setting = groups["rule"], groups["premise 1"], groups.get("premise 2", "")
            trials.append((setting, Trial(groups["item"], values, origin)))
    return grouped(trials)


def _lines(model: str, wording: str, rows: Rows, rules: Sequence[str]) -> list[EntailmentLine]:
    trials = _trials(rows)
    made = recipe(rows, "", rows.scorings[0])
    return [
        line_of(
            EntailmentSetting(model, wording, rule, first, second),
            trials.get((rule, first, second), []),
            f"{made}|rule:{rule}|P1:{first}|P2:{second}",
        )
        for rule, first, second in product(rules, LEVELS, LEVELS)
    ]


def line_of(setting: EntailmentSetting, trials: Sequence[Trial], made: str) -> EntailmentLine:
    """Estimate the numbers of a setting. :param made: their recipe without the number's name."""
    scored = [trial for trial in trials if not math.isnan(trial.values[_MRR])]
    origins = [trial.origin for trial in scored]
    values = {name: [trial.values[name] for trial in scored] for name in MEASURED} if scored else {}
    values = {name: each for name, each in values.items() if not any(map(math.isnan, each))}  # choices have no ranks
    sample = sample_of_origins(origins)
    numbers = {name: mean(each, sample, name + made, form=FORMATS[name]) for name, each in values.items()}
    return EntailmentLine(
        setting, numbers, len(trials) - len(scored), [trial.item for trial in scored], values, origins
    )


def means_of(lines: Sequence[EntailmentLine]) -> list[Mean]:
    """Average over rules, for each model and wording, and over all models or wordings if there are several."""
    models, wordings = (list(dict.fromkeys(line.setting[part] for line in lines)) for part in (0, 1))
    cells = grouped(
        ((model, wording, line.setting.first, line.setting.second), line)
        for model in ([*models, ""] if len(models) > 1 else models)
        for wording in ([*wordings, ""] if len(wordings) > 1 else wordings)
        for line in lines
        if line.items and model in (line.setting.model, "") and wording in (line.setting.wording, "")
    )
    return [
        Mean(*cell, *_over(of_cell), tuple(dict.fromkeys(line.setting.rule for line in of_cell)))
        for cell, of_cell in cells.items()
    ]


def _over(lines: Sequence[EntailmentLine]) -> tuple[Estimate, Estimate]:
    """Return the mean MRR and MRRₐ of lines, each with the same weight."""
    sample = sample_of_origins([origin for line in lines for origin in line.origins])
    mrr, mrr_all = (
        over(name, [line.numbers[name] for line in lines], [line.values[name] for line in lines], sample)
        if all(name in line.numbers for line in lines)
        else point_estimate(NO_RANKS)
        for name in (_MRR, _MRR_ALL)
    )
    return mrr, mrr_all


def _by_wording(lines: Sequence[EntailmentLine]) -> dict[str, tuple[Estimate, Estimate]]:
    """Return MRR and MRRₐ of each wording over all models, rules and settings that all wordings have (figure 4)."""
    cells = grouped((line.setting._replace(wording=""), (line.setting.wording, line)) for line in lines if line.numbers)
    wordings = list(dict.fromkeys(line.setting.wording for line in lines))
    whole = [by_wording for pairs in cells.values() if len(by_wording := dict(pairs)) == len(wordings)]
    return {wording: _over([cell[wording] for cell in whole]) for wording in wordings} if whole else {}


# --- tables and plots


def conclude(findings: Entailment) -> list[str]:
    return summarise(findings.conclusions) or ["Nothing can be concluded: no altered texts were evaluated."]


def tables(findings: Entailment) -> list[Table]:
    """Return the conclusions, means over rules (figure 3), wordings (figure 4), each rule in all settings (figures 2
    and 8), and how premises are remembered."""
    rules = dict.fromkeys(line.setting.rule for line in findings.lines)
    published = _AS_PUBLISHED + (_CONCLUDED if findings.conclusions else _NOT_CONCLUDED)
    return [
        *conclusion_tables(findings.conclusions, findings.counterfactuals),
        _means(findings, published),
        *([_wordings(findings)] if len(findings.by_wording) > 1 else []),
        *(_rule(findings, rule, published) for rule in rules),
        Table.of(
            findings.remembered,
            "how premises are remembered",
            ["mean 1 / rank in the memorising runs; left out: in the middle of an odd count", *findings.notes],
        ),
    ]


def _means(findings: Entailment, published: str) -> Table:
    rows = [
        (cell.model or "all models", cell.wording or "all wordings", *cell[2:6], len(cell.rules))
        for cell in findings.means
    ]
    empty = Counter(line.setting[:3] for line in findings.lines if not line.items)
    cells = [
        f"{rule} of {model}, {wording} ({count} of {len(LEVELS) ** 2} settings)"
        for (model, wording, rule), count in empty.items()
    ]
    lacking = [f"not in every mean, as nothing was scored in the setting: {'; '.join(cells)}"] if cells else []
    notes = (_GIVEN, published, "every rule has the same weight", *lacking, *findings.notes)
    columns = ("model", "wording", "P1", "P2", _MRR, _MRR_ALL, "rules")
    return Table.of(rows, "all rules (figure 3)", notes, columns=columns, main=_MRR)


def _wordings(findings: Entailment) -> Table:
    rows = [(wording, *means) for wording, means in findings.by_wording.items()]
    notes = ["means over models, rules and settings; learnt: both templates and conjunction"]
    return Table.of(rows, "wordings (figure 4)", notes, columns=("wording", _MRR, _MRR_ALL), main=_MRR)


def _rule(findings: Entailment, rule: str, published: str) -> Table:
    rows = [
        (*line.setting[:2], *line.setting[3:], *measured(line.numbers).values(), len(set(line.items)), line.unscored)
        for line in findings.lines
        if line.setting.rule == rule
    ]
    columns = ("model", "wording", "P1", "P2", *MEASURED, "items", "unscored")
    return Table.of(rows, f"{rule}, every setting", (_GIVEN, published, _PAIRS), columns=columns, main=_MRR)


def plots(findings: Entailment) -> list[Plot]:
    """Return a 3×3 map of the MRR for each model, wording and rule (figures 2 and 8) and over all of these (figure 3),
    and bars of the wordings (figure 4)."""
    scored = [line for line in findings.lines if line.numbers]
    cells = [
        ((cell.model or "all-models", cell.wording or "all-wordings", "all-rules"), (cell[2:4], cell.mrr.value))
        for cell in findings.means
    ]
    cells += [(line.setting[:3], (line.setting[3:], line.numbers[_MRR].value)) for line in scored]
    if len({line.setting.wording for line in scored}) > 1:
        averaged = grouped((line.setting._replace(wording="all-wordings"), line.numbers[_MRR].value) for line in scored)
        cells += [(about[:3], (about[3:], sum(values) / len(values))) for about, values in averaged.items()]
    maps = [_heat_map(*about, dict(values)) for about, values in grouped(cells).items()]
    return [*maps, *([_bars(findings.by_wording)] if len(findings.by_wording) > 1 else [])]


def _bars(by_wording: Mapping[str, tuple[Estimate, Estimate]]) -> Plot:
    def draw(axes: Axes) -> None:
        for place, name in enumerate((_MRR, _MRR_ALL)):
            numbers = [means[place] for means in by_wording.values()]
            at = [number + (place - 0.5) * 0.4 for number in range(len(numbers))]
            axes.bar(at, [share.value for share in numbers], 0.4, label=name)
            for middle, share in zip(at, numbers, strict=True):
                if share.low is not None and share.high is not None:
                    axes.vlines(middle, share.low, share.high, color="black")
        axes.set_xticks(range(len(by_wording)), list(by_wording))
        axes.set_ylim(0, 1)
        axes.legend()

    return Plot("entailment-wordings", draw, "wording", "mean over models, rules and settings")


def _heat_map(model: str, wording: str, rule: str, cells: Mapping[tuple[str, str], float]) -> Plot:
    """Draw a map with the same colours, from 0 to 1, as all others."""

    def draw(axes: Axes) -> None:
        values = [[cells.get((first, second), math.nan) for second in LEVELS] for first in LEVELS]
        axes.imshow(values, vmin=0, vmax=1, cmap="Blues")
        for row, numbers in enumerate(values):
            for column, value in enumerate(numbers):
                text = "–" if math.isnan(value) else f"{value:.3f}"
                axes.text(column, row, text, ha="center", va="center", color="white" if value > 0.6 else "black")
        axes.set_xticks(range(len(LEVELS)), LEVELS)
        axes.set_yticks(range(len(LEVELS)), LEVELS)

    return Plot(f"entailment-{model}-{wording}-{rule}", draw, "P2", "P1", f"MRR: {rule}, {model}, {wording}")
