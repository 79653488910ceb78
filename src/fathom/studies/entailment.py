"""Does a model reason with an ontology, or only remember it? Six rules, each premise said, remembered, or neither
(section 4.2 and figures 2 to 4 of Wu et al. 2023). The runs are those of :mod:`fathom.studies.entailment_runs`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from fathom.metrics.bootstrap import interval, paired_difference
from fathom.metrics.table import SHARE
from fathom.prompts.entailment import ABSENT, EXPLICIT, IMPLICIT
from fathom.results.names import folder_names
from fathom.results.numbers import Number, combined, number_of, recipe
from fathom.results.plots import Plot
from fathom.results.rows import Rows
from fathom.results.tables import Cell, Table
from fathom.results.tasks import BOUNDS, FORMATS, LEGEND, MEASURED, OUT_OF_SIGHT, measured, metrics
from fathom.store.folder import RunFolder
from fathom.studies import Announce
from fathom.studies.entailment_plan import Loader, given_runs, memories, planned, tested
from fathom.studies.entailment_runs import Asked, Remembered
from fathom.studies.options import EntailmentStudyOptions

LEVELS = (EXPLICIT, IMPLICIT, ABSENT)
ALL = "all rules"
ALL_WORDINGS = "all wordings"
SAID = {"P1": (True, False), "P2": (False, True), "P1 and P2": (True, True)}
_MRR, _MRR_ALL = "MRR", "MRRₐ"
_ENDS = {name: BOUNDS[name] for name in (_MRR, _MRR_ALL)}
_HALVES = {f"{half} half": (f"{half} half low", f"{half} half high") for half in ("better", "worse")}
_GIVEN = (
    "P1, P2: explicit: said; implicit: not said, but among the half that is remembered better; absent: the other half"
)
_PAIRS = LEGEND.replace("right answer, low", "right answer, over items and pairs of pseudowords, low")


class Setting(NamedTuple):
    """One rule as it is asked.

    :param first: how P1 is given.
    :param second: how P2 is.
    """

    model: str
    wording: str
    rule: str
    first: str
    second: str


class Answer(NamedTuple):
    """What came of one text.

    :param item: id of the memorising query.
    :param first: how P1 is given.
    :param values: by :data:`MEASURED`; NaN where unscored.
    """

    rule: str
    item: str
    pair: int
    first: str
    second: str
    values: dict[str, float]

    @property
    def scored(self) -> bool:
        """Whether it has a rank."""
        return not math.isnan(self.values[_MRR])


class Line(NamedTuple):
    """The numbers of one setting.

    :param numbers: by :data:`MEASURED`, over items and pairs, intervals by items; none where nothing was scored.
    :param items: ids, one for each item and pair.
    :param values: what the numbers are means of, as long as *items*.
    """

    setting: Setting
    numbers: dict[str, Number]
    unscored: int
    items: list[str]
    values: dict[str, list[float]]


class Mean(NamedTuple):
    """Every rule (and model, and wording) has the same weight.

    :param model: "" for all models together.
    :param wording: "" for all wordings together.
    :param mrr: its interval by items, the rules being what they are; so *mrr_all*.
    :param rules: those that have an item in the setting.
    """

    model: str
    wording: str
    first: str
    second: str
    mrr: Number
    mrr_all: Number
    rules: tuple[str, ...]


class Effect(NamedTuple):
    """What saying premises adds to 1 / rank of the same items and pairs.

    :param said: one of :data:`SAID`.
    """

    model: str
    wording: str
    rule: str
    said: str
    difference: Number


@dataclass(frozen=True)
class Entailment:
    """What the study found.

    :param by_wording: MRR and MRRₐ over all else.
    :param runs: the folders of all runs, in their order.
    :param notes: what could not be asked.
    """

    lines: list[Line]
    means: list[Mean]
    by_wording: dict[str, tuple[Number, Number]]
    effects: list[Effect]
    remembered: list[Remembered]
    runs: list[RunFolder]
    notes: list[str]


def ask(
    models: Sequence[tuple[str, Loader]],
    data: str | Path,
    options: EntailmentStudyOptions,
    out: Path,
    announce: Announce,
) -> Entailment:
    """Make the runs that are not there yet, and ask them.

    :param models: names, and what loads them.
    :param data: the folder of the ontology.
    :raises BadInput: data that is no ontology or lacks what a rule needs, given runs of something else, a model without
        masks; before anything is asked.
    """
    loaders = dict(zip(folder_names([name for name, _ in models]), (load for _, load in models), strict=True))
    plan = planned(data, options)
    given = given_runs(plan, options.memory)
    items = tested(plan, given)
    if len(loaders) == 1:  # several are loaded again when their turn comes: they may not fit into memory together
        loaders = {name: cache(load) for name, load in loaders.items()}
    known = memories(list(loaders.items()), plan, given)
    made = [Asked(name, load(), plan, items, known, out, announce) for name, load in loaders.items()]
    lines, effects = [], []
    for one in made:
        for wording, rows in one.of_wording.items():
            lines += _lines(one.name, wording, rows, plan.rules)
            effects += _effects(one.name, wording, rows, plan.rules)
    return Entailment(
        lines,
        means_of(lines),
        _by_wording(lines),
        effects,
        [found for one in made for found in one.remembered],
        [folder for one in made for folder in one.runs],
        list(dict.fromkeys(note for one in made for note in one.notes)),
    )


def _answers(rows: Rows) -> list[Answer]:
    columns = {name: metric.columns(rows)[0].tolist() for name, metric in metrics().items()}
    found = []
    for place, query in enumerate(rows.query.tolist()):
        about = rows.groups[query]
        values = {name: column[place] if rows.scored[place] else math.nan for name, column in columns.items()}
        given = about.get("premise 1", ""), about.get("premise 2", "")
        found.append(Answer(about["rule"], about["item"], int(about["pair"]), *given, values))
    return found


def _made(rows: Rows, rule: str) -> str:
    """The recipe of a number, but for its name and how premises are given."""
    return f"{recipe(rows, '', rows.scorings[0])}|rule:{rule}"


def _lines(model: str, wording: str, rows: Rows, rules: Sequence[str]) -> list[Line]:
    answers = _answers(rows)
    found = []
    for rule in rules:
        for first in LEVELS:
            for second in LEVELS:
                own = [one for one in answers if (one.rule, one.first, one.second) == (rule, first, second)]
                made = f"{_made(rows, rule)}|P1:{first}|P2:{second}"
                found.append(line_of(Setting(model, wording, rule, first, second), own, made))
    return found


def line_of(setting: Setting, answers: Sequence[Answer], made: str) -> Line:
    """:param answers: of this setting.
    :param made: their recipe, but for the number's name."""
    told = [answer for answer in answers if answer.scored]
    items = [answer.item for answer in told]
    values = {name: [answer.values[name] for answer in told] for name in MEASURED} if told else {}
    numbers = {
        name: number_of(interval(own, items, limits=SHARE), len(own), name + made) for name, own in values.items()
    }
    return Line(setting, numbers, len(answers) - len(told), items, values)


def _effects(model: str, wording: str, rows: Rows, rules: Sequence[str]) -> list[Effect]:
    """The same items and pairs with premises said and with none; of a rule without such there is none."""
    answers = [answer for answer in _answers(rows) if answer.scored]
    found = []
    for rule in rules:
        values: dict[tuple[bool, bool], dict[tuple[str, int], float]] = {}
        for answer in answers:
            if answer.rule == rule:
                said = answer.first == EXPLICIT, answer.second == EXPLICIT
                values.setdefault(said, {})[answer.item, answer.pair] = answer.values[_MRR]
        silent = values.get((False, False), {})
        for name, premises in SAID.items():
            loud = values.get(premises, {})
            both = [key for key in loud if key in silent]
            if both:
                one, other = ([own[key] for key in both] for own in (loud, silent))
                added = paired_difference(one, other, [item for item, _ in both], limits=(-1.0, 1.0))
                number = number_of(added.difference, len(both), f"MRR{_made(rows, rule)}|said:{name} − none")
                found.append(Effect(model, wording, rule, name, number._replace(p_value=added.p_value)))
    return found


def means_of(lines: Sequence[Line]) -> list[Mean]:
    """Of each model over its rules, and of all models, or all wordings, together where there are several."""
    models = list(dict.fromkeys(line.setting.model for line in lines))
    wordings = list(dict.fromkeys(line.setting.wording for line in lines))
    cells: dict[tuple[str, str, str, str], list[Line]] = {}
    for model in [*models, ""] if len(models) > 1 else models:
        for wording in [*wordings, ""] if len(wordings) > 1 else wordings:
            for line in lines:
                if line.items and model in (line.setting.model, "") and wording in (line.setting.wording, ""):
                    cell = model, wording, line.setting.first, line.setting.second
                    cells.setdefault(cell, []).append(line)
    return [
        Mean(*cell, *_over(own), tuple(dict.fromkeys(line.setting.rule for line in own))) for cell, own in cells.items()
    ]


def _over(lines: Sequence[Line]) -> tuple[Number, Number]:
    """Mean MRR and MRRₐ of lines, each with the same weight; by resampling items."""
    items = [item for line in lines for item in line.items]
    weights = [1 / len(line.items) for line in lines for _ in line.items]

    def mean(name: str) -> Number:
        values = [value for line in lines for value in line.values[name]]
        made = combined(name, [line.numbers[name].recipe for line in lines], " and ")
        return number_of(interval(values, items, weights=weights, limits=SHARE), len(values), made)

    return mean(_MRR), mean(_MRR_ALL)


def _by_wording(lines: Sequence[Line]) -> dict[str, tuple[Number, Number]]:
    """MRR and MRRₐ of each wording over all models, rules and settings that all wordings have (figure 4)."""
    cells: dict[tuple[str, ...], dict[str, Line]] = {}
    for line in lines:
        model, wording, *setting = line.setting
        if line.numbers:
            cells.setdefault((model, *setting), {})[wording] = line
    wordings = list(dict.fromkeys(line.setting.wording for line in lines))
    whole = [found for found in cells.values() if len(found) == len(wordings)]
    return {wording: _over([found[wording] for found in whole]) for wording in wordings} if whole else {}


# --- tables and heat maps


def tables(found: Entailment) -> list[Table]:
    """Means over rules (figure 3), wordings (figure 4), each rule in all settings (figures 2 and 8), what saying
    premises adds, and how premises are remembered."""
    rules = dict.fromkeys(line.setting.rule for line in found.lines)
    return [
        _means(found),
        *([_wordings(found)] if len(found.by_wording) > 1 else []),
        *(_rule([line for line in found.lines if line.setting.rule == rule], rule) for rule in rules),
        _differences(found.effects),
        _remembered(found.remembered, found.notes),
    ]


def _means(found: Entailment) -> Table:
    body = [
        (mean.model or "all models", mean.wording or ALL_WORDINGS, *mean[2:6], len(mean.rules)) for mean in found.means
    ]
    columns = ("model", "wording", "P1", "P2", _MRR, _MRR_ALL, "rules")
    notes = (_GIVEN, "every rule has the same weight; low and high: 95 % of resamples of the items", *_lacking(found))
    return Table.of_numbers(columns, body, f"{ALL} (figure 3)", _ENDS, FORMATS, notes, _ENDS[_MRR_ALL])


def _lacking(found: Entailment) -> list[str]:
    """Which rules are not in all means."""
    empty = Counter(line.setting[:3] for line in found.lines if not line.items)
    said = [
        f"{rule} of {model}, {wording} ({count} of {len(LEVELS) ** 2} settings)"
        for (model, wording, rule), count in empty.items()
    ]
    return [f"not in every mean, as nothing was scored in the setting: {'; '.join(said)}"] if said else []


def _wordings(found: Entailment) -> Table:
    body: list[tuple[Cell | Number, ...]] = [(wording, *means) for wording, means in found.by_wording.items()]
    note = "means over models, rules and settings; learnt: both templates and conjunction"
    columns = ("wording", _MRR, _MRR_ALL)
    return Table.of_numbers(columns, body, "wordings (figure 4)", _ENDS, FORMATS, (note,), _ENDS[_MRR_ALL])


def _rule(lines: Sequence[Line], rule: str) -> Table:
    body: list[tuple[Cell | Number, ...]] = []
    for line in lines:
        about = (line.setting.model, line.setting.wording, line.setting.first, line.setting.second)
        body.append((*about, *measured(line.numbers), len(set(line.items)), line.unscored))
    columns = ("model", "wording", "P1", "P2", *MEASURED, "items", "unscored")
    title = f"{rule}, every setting"
    return Table.of_numbers(columns, body, title, BOUNDS, FORMATS, (_GIVEN, _PAIRS), OUT_OF_SIGHT)


def _differences(effects: Sequence[Effect]) -> Table:
    columns = ("model", "wording", "rule", "said", "difference", "items")
    note = "1 / rank with the premises said, minus with none said, of the same items and pairs; 95 % over items"
    return Table.of_numbers(
        columns,
        [(*effect, effect.difference.clusters) for effect in effects],
        "what saying premises adds",
        {"difference": ("difference low", "difference high", "p")},
        {"difference": "+.3f"},
        (note,),
    )


def _remembered(found: Sequence[Remembered], notes: Sequence[str]) -> Table:
    body: list[tuple[Cell | Number, ...]] = [(*one[:-1], "; ".join(one.middle) or None) for one in found]
    columns = ("model", "templates", "rule", "premise", "items", *_HALVES, "left out")
    note = "mean 1 / rank in the memorising runs; left out: in the middle of an odd count"
    ends = [end for pair in _HALVES.values() for end in pair]
    title = "how premises are remembered"
    return Table.of_numbers(columns, body, title, _HALVES, dict.fromkeys(_HALVES, ".3f"), (note, *notes), ends)


def plots(found: Entailment) -> list[Plot]:
    """A 3×3 map of the MRR for each model, wording and rule, and one over all rules (figures 2, 3 and 8)."""
    maps: dict[tuple[str, str, str], dict[tuple[str, str], float]] = {}
    for mean in found.means:
        about = mean.model or "all-models", mean.wording or _dashed(ALL_WORDINGS), _dashed(ALL)
        maps.setdefault(about, {})[mean.first, mean.second] = mean.mrr.value
    for line in found.lines:
        model, wording, rule, first, second = line.setting
        if line.numbers:
            maps.setdefault((model, wording, rule), {})[first, second] = line.numbers[_MRR].value
    return [_heat_map(*about, cells) for about, cells in maps.items()]


def _dashed(name: str) -> str:
    return name.replace(" ", "-")


def _heat_map(model: str, wording: str, rule: str, cells: dict[tuple[str, str], float]) -> Plot:
    """Colours from 0 to 1 in all maps, so that they can be laid side by side."""

    def draw(axes: Any) -> None:
        values = [[cells.get((first, second), math.nan) for second in LEVELS] for first in LEVELS]
        axes.imshow(values, vmin=0, vmax=1, cmap="Blues")
        for row, own in enumerate(values):
            for column, value in enumerate(own):
                said = "–" if math.isnan(value) else f"{value:.3f}"
                axes.text(column, row, said, ha="center", va="center", color="white" if value > 0.6 else "black")
        axes.set_xticks(range(len(LEVELS)), LEVELS)
        axes.set_yticks(range(len(LEVELS)), LEVELS)
        axes.set_title(f"MRR: {rule}, {model}, {wording}")

    return Plot(f"entailment-{model}-{wording}-{rule}", draw, "P2", "P1")
