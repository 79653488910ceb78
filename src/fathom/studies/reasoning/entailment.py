"""Does a model reason with an ontology, or only remember it? Six rules, each premise said, remembered, or neither
(section 4.2 and figures 2 to 4 of Wu et al. 2023). The runs are those of :mod:`fathom.studies.reasoning.runs`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

from fathom.models.base import Model
from fathom.prompts.entailment import EXPLICIT
from fathom.results.estimates import Estimate, difference, mean, untold
from fathom.results.names import folder_names
from fathom.results.plots import Plot
from fathom.results.recipes import recipe
from fathom.results.rows import Rows, grouped
from fathom.results.samples import Origin, drawn_from
from fathom.results.tables import Table
from fathom.results.tasks import FORMATS, LEGEND, MEASURED, NO_RANKS, measured, metrics, over
from fathom.store.folder import RunFolder
from fathom.studies import Announce
from fathom.studies.options import EntailmentStudyOptions
from fathom.studies.reasoning.controls import Contrast, contrasts, in_words, table, verdicts
from fathom.studies.reasoning.maps import LEVELS, bars, heat_map
from fathom.studies.reasoning.plan import PAIR, EntailmentPlan, Loader, given_runs, memories, planned, tested
from fathom.studies.reasoning.runs import ModelRuns, Remembered

SAID = {"P1": (True, False), "P2": (False, True), "P1 and P2": (True, True)}
_MRR, _MRR_ALL = "MRR", "MRRₐ"
_HALVES = ("better half", "worse half")
_GIVEN = (
    "P1, P2: explicit: said; implicit: not said, but among the half that is remembered better; absent: the other half"
)
_AS_PUBLISHED = (
    "as published: no control; a liking for some answers decides what is implicit, and gives such differences, too: "
)
_CONCLUDED = "what may be concluded stands in the first table"
_NOT_CONCLUDED = "nothing may be concluded, as nothing that was asked has controls"
ONE_PAIR = "one pair of pseudowords: nothing can be said of others, so that there are no controls; ask with --pairs 2"
_PAIRS = LEGEND.replace("right answer, low", "right answer, over items and pairs of pseudowords, low")


class EntailmentSetting(NamedTuple):
    """One rule as it is asked.

    :param first: how P1 is given.
    :param second: how P2 is.
    """

    model: str
    wording: str
    rule: str
    first: str
    second: str


class Trial(NamedTuple):
    """What came of one text.

    :param item: id of the memorising query.
    :param first: how P1 is given.
    :param values: by :data:`MEASURED`; NaN where unscored.
    :param origin: how it was drawn.
    """

    rule: str
    item: str
    pair: int
    first: str
    second: str
    values: dict[str, float]
    origin: Origin

    @property
    def scored(self) -> bool:
        """Whether it has a rank."""
        return not math.isnan(self.values[_MRR])


class EntailmentLine(NamedTuple):
    """The numbers of one setting.

    :param numbers: by :data:`MEASURED`, over items and pairs; none where nothing was scored.
    :param items: ids, one for each item and pair.
    :param values: what the numbers are means of, as long as *items*.
    :param origins: how they were drawn, as long as *items*.
    """

    setting: EntailmentSetting
    numbers: dict[str, Estimate]
    unscored: int
    items: list[str]
    values: dict[str, list[float]]
    origins: list[Origin]


class Mean(NamedTuple):
    """Every rule (and model, and wording) has the same weight.

    :param model: "" for all models together.
    :param wording: "" for all wordings together.
    :param rules: those that have an item in the setting.
    """

    model: str
    wording: str
    first: str
    second: str
    mrr: Estimate
    mrr_all: Estimate
    rules: tuple[str, ...]


class Effect(NamedTuple):
    """What saying premises adds to 1 / rank of the same items and pairs.

    :param said: one of :data:`SAID`.
    :param items: how many.
    """

    model: str
    wording: str
    rule: str
    said: str
    difference: Estimate
    items: int


@dataclass(frozen=True)
class Entailment:
    """What the study found.

    :param by_wording: MRR and MRRₐ over all else.
    :param contrasts: what the models conclude less what controls show; see
        :mod:`fathom.studies.reasoning.controls`.
    :param runs: the folders of all runs, in their order.
    :param notes: what could not be asked.
    """

    lines: list[EntailmentLine]
    means: list[Mean]
    by_wording: dict[str, tuple[Estimate, Estimate]]
    effects: list[Effect]
    remembered: list[Remembered]
    contrasts: list[Contrast]
    runs: list[RunFolder]
    notes: list[str]


def analyse(
    models: Sequence[tuple[str, Loader]],
    data: str | Path,
    options: EntailmentStudyOptions,
    out: Path,
    announce: Announce,
) -> Entailment:
    """Make the runs that are not there yet, and ask them.

    :param models: names, and what loads them.
    :param data: the folder of the ontology.
    :raises BadInput: data that is no ontology or lacks what a rule needs, given runs of something else, a model that
        is neither masked nor causal, or causal where tokens are learnt; before anything is asked.
    """
    loaders = dict(zip(folder_names([name for name, _ in models]), (load for _, load in models), strict=True))
    plan = planned(data, options)
    given = given_runs(plan, options.memory)
    items = tested(plan, given)
    if len(loaders) == 1:  # several are loaded again when their turn comes: they may not fit into memory together
        loaders = {name: cache(load) for name, load in loaders.items()}
    known = memories(list(loaders.items()), plan, given)
    made, twins = [], {}
    for name, load in loaders.items():
        model = load()
        made.append(ModelRuns(name, model, plan, items, known, out, announce))
        twins[name] = [
            ModelRuns(f"{name}-untrained-{seed}", twin, plan, items, {}, out, announce)
            for seed, twin in enumerate(untrained_twins(model, options.untrained if plan.controlled else 0))
        ]
    asked = [(one.name, wording, rows) for one in made for wording, rows in one.of_wording.items()]
    lines = [line for about in asked for line in _lines(*about, plan.rules)]
    return Entailment(
        lines,
        means_of(lines),
        _by_wording(lines),
        [effect for about in asked for effect in _effects(*about, plan.rules)],
        [found for one in made for found in one.remembered],
        [found for one in made for found in contrasts(one, twins[one.name], plan.rules)],
        [folder for one in made for each in (one, *twins[one.name]) for folder in each.runs],
        _notes(made, plan),
    )


def _notes(made: Sequence[ModelRuns], plan: EntailmentPlan) -> list[str]:
    found = [note for one in made for note in one.notes]
    chat = [one.name for one in made if one.chat is not None]
    if chat:
        found.append(f"{', '.join(chat)}: {_MRR} and {_MRR_ALL} are the share of right choices: options have no rank")
    return list(dict.fromkeys((*found, *([] if plan.controlled else [ONE_PAIR]))))


def untrained_twins(model: Model, count: int) -> Iterator[Model]:
    """Models of the same shape and tokenizer; none of one behind a server."""
    from fathom.models.loading import untrained
    from fathom.models.local import LocalModel

    if not isinstance(model, LocalModel):  # behind a server, of which nobody has the shape
        return iter(())
    return (untrained(model, seed) for seed in range(count))


def _answers(rows: Rows) -> list[Trial]:
    columns = {name: metric.columns(rows)[0].tolist() for name, metric in metrics().items()}
    columns[_MRR] = rows.reciprocal_or_credit().tolist()
    return [
        _trial(
            rows.groups[query],
            {name: column[place] if rows.scored[place] else math.nan for name, column in columns.items()},
            rows.origin(query),
        )
        for place, query in enumerate(rows.query.tolist())
        if "premise 1" in rows.groups[query]  # what is in no half is in no setting
    ]


def _trial(about: Mapping[str, str], values: dict[str, float], origin: Origin) -> Trial:
    rule, pair = about["rule"], about["pair"]
    # Each rule has pseudowords of its own.
    own = origin._replace(label=f"{rule} {pair}") if origin.key == PAIR else origin
    premises = about.get("premise 1", ""), about.get("premise 2", "")
    return Trial(rule, about["item"], int(pair), *premises, values, own)


def _made(rows: Rows, rule: str) -> str:
    """The recipe of a number, but for its name and how premises are given."""
    return f"{recipe(rows, '', rows.scorings[0])}|rule:{rule}"


def _lines(model: str, wording: str, rows: Rows, rules: Sequence[str]) -> list[EntailmentLine]:
    answers = grouped(((one.rule, one.first, one.second), one) for one in _answers(rows))
    return [
        line_of(
            EntailmentSetting(model, wording, rule, first, second),
            answers.get((rule, first, second), []),
            f"{_made(rows, rule)}|P1:{first}|P2:{second}",
        )
        for rule, first, second in product(rules, LEVELS, LEVELS)
    ]


def line_of(setting: EntailmentSetting, answers: Sequence[Trial], made: str) -> EntailmentLine:
    """:param answers: of this setting.
    :param made: their recipe, but for the number's name."""
    told = [answer for answer in answers if answer.scored]
    items, origins = [answer.item for answer in told], [answer.origin for answer in told]
    every = {name: [answer.values[name] for answer in told] for name in MEASURED} if told else {}
    values = {name: own for name, own in every.items() if not any(map(math.isnan, own))}  # choices have no ranks
    sample = drawn_from(origins)
    numbers = {name: mean(own, sample, name + made, form=FORMATS[name]) for name, own in values.items()}
    return EntailmentLine(setting, numbers, len(answers) - len(told), items, values, origins)


def _effects(model: str, wording: str, rows: Rows, rules: Sequence[str]) -> list[Effect]:
    """The same items and pairs with premises said and with none; of a rule without such there is none."""
    trials = grouped(
        ((one.rule, one.first == EXPLICIT, one.second == EXPLICIT), ((one.item, one.pair), one))
        for one in _answers(rows)
        if one.scored
    )
    found = []
    for rule, (name, premises) in product(rules, SAID.items()):
        loud, silent = (dict(trials.get((rule, *said), [])) for said in (premises, (False, False)))
        both = [key for key in loud if key in silent]
        if both:
            one, other = ([own[key].values[_MRR] for key in both] for own in (loud, silent))
            sample = drawn_from([loud[key].origin for key in both])
            added = difference(one, other, sample, f"MRR{_made(rows, rule)}|said:{name} − none", form="+.3f")
            found.append(Effect(model, wording, rule, name, added, len({item for item, _ in both})))
    return found


def means_of(lines: Sequence[EntailmentLine]) -> list[Mean]:
    """Of each model over its rules, and of all models, or all wordings, together where there are several."""
    models, wordings = (list(dict.fromkeys(line.setting[part] for line in lines)) for part in (0, 1))
    cells = grouped(
        ((model, wording, line.setting.first, line.setting.second), line)
        for model in ([*models, ""] if len(models) > 1 else models)
        for wording in ([*wordings, ""] if len(wordings) > 1 else wordings)
        for line in lines
        if line.items and model in (line.setting.model, "") and wording in (line.setting.wording, "")
    )
    return [
        Mean(*cell, *_over(own), tuple(dict.fromkeys(line.setting.rule for line in own))) for cell, own in cells.items()
    ]


def _over(lines: Sequence[EntailmentLine]) -> tuple[Estimate, Estimate]:
    """Mean MRR and MRRₐ of lines, each with the same weight."""
    sample = drawn_from([origin for line in lines for origin in line.origins])
    mrr, mrr_all = (
        over(name, [line.numbers[name] for line in lines], [line.values[name] for line in lines], sample)
        if all(name in line.numbers for line in lines)
        else untold(NO_RANKS)
        for name in (_MRR, _MRR_ALL)
    )
    return mrr, mrr_all


def _by_wording(lines: Sequence[EntailmentLine]) -> dict[str, tuple[Estimate, Estimate]]:
    """MRR and MRRₐ of each wording over all models, rules and settings that all wordings have (figure 4)."""
    cells = grouped((line.setting._replace(wording=""), (line.setting.wording, line)) for line in lines if line.numbers)
    wordings = list(dict.fromkeys(line.setting.wording for line in lines))
    whole = [dict(found) for found in cells.values() if len(found) == len(wordings)]
    return {wording: _over([found[wording] for found in whole]) for wording in wordings} if whole else {}


# --- tables and heat maps


def conclude(findings: Entailment) -> list[str]:
    """By how many rules each model reasons."""
    return in_words(verdicts(findings.contrasts)) or ["Nothing can be concluded: no controls were evaluated."]


def tables(findings: Entailment) -> list[Table]:
    """Means over rules (figure 3), wordings (figure 4), each rule in all settings (figures 2 and 8), what saying
    premises adds, and how premises are remembered."""
    rules = dict.fromkeys(line.setting.rule for line in findings.lines)
    return [
        *([table(findings.contrasts)] if findings.contrasts else []),
        _means(findings),
        *([_wordings(findings)] if len(findings.by_wording) > 1 else []),
        *(_rule(findings, rule) for rule in rules),
        Table.of(
            findings.effects,
            "what saying premises adds",
            ["1 / rank with the premises said, minus with none said, of the same items and pairs"],
            columns=("model", "wording", "rule", "said", "difference", "items"),
        ),
        Table.of(
            [(*one[:-1], "; ".join(one.middle) or None) for one in findings.remembered],
            "how premises are remembered",
            ["mean 1 / rank in the memorising runs; left out: in the middle of an odd count", *findings.notes],
            columns=("model", "templates", "rule", "premise", "items", *_HALVES, "left out"),
        ),
    ]


def _means(findings: Entailment) -> Table:
    return Table.of(
        [
            (one.model or "all models", one.wording or "all wordings", *one[2:6], len(one.rules))
            for one in findings.means
        ],
        "all rules (figure 3)",
        (_GIVEN, _as_published(findings), "every rule has the same weight", *_lacking(findings), *findings.notes),
        columns=("model", "wording", "P1", "P2", _MRR, _MRR_ALL, "rules"),
        main=_MRR,
    )


def _lacking(findings: Entailment) -> list[str]:
    """Which rules are not in all means."""
    empty = Counter(line.setting[:3] for line in findings.lines if not line.items)
    said = [
        f"{rule} of {model}, {wording} ({count} of {len(LEVELS) ** 2} settings)"
        for (model, wording, rule), count in empty.items()
    ]
    return [f"not in every mean, as nothing was scored in the setting: {'; '.join(said)}"] if said else []


def _wordings(findings: Entailment) -> Table:
    rows = [(wording, *means) for wording, means in findings.by_wording.items()]
    notes = ["means over models, rules and settings; learnt: both templates and conjunction"]
    return Table.of(rows, "wordings (figure 4)", notes, columns=("wording", _MRR, _MRR_ALL), main=_MRR)


def _as_published(findings: Entailment) -> str:
    return _AS_PUBLISHED + (_CONCLUDED if findings.contrasts else _NOT_CONCLUDED)


def _rule(findings: Entailment, rule: str) -> Table:
    rows = [
        (*one.setting[:2], *one.setting[3:], *measured(one.numbers).values(), len(set(one.items)), one.unscored)
        for one in findings.lines
        if one.setting.rule == rule
    ]
    notes = (_GIVEN, _as_published(findings), _PAIRS)
    columns = ("model", "wording", "P1", "P2", *MEASURED, "items", "unscored")
    return Table.of(rows, f"{rule}, every setting", notes, columns=columns, main=_MRR)


def plots(findings: Entailment) -> list[Plot]:
    """A 3×3 map of the MRR for each model, wording and rule, over all wordings as in the paper (figures 2 and 8), and
    over all rules (figure 3); the wordings side by side (figure 4)."""
    of_means = (
        ((one.model or "all-models", one.wording or "all-wordings", "all-rules"), (one[2:4], one.mrr.value))
        for one in findings.means
    )
    told = [one for one in findings.lines if one.numbers]
    of_lines: list[_Cell] = [(one.setting[:3], (one.setting[3:], one.numbers[_MRR].value)) for one in told]
    maps = [heat_map(*about, dict(cells)) for about, cells in grouped((*of_means, *of_lines, *_averaged(told))).items()]
    return [*maps, *([bars(findings.by_wording, (_MRR, _MRR_ALL))] if len(findings.by_wording) > 1 else [])]


_Cell = tuple[tuple[str, str, str], tuple[tuple[str, str], float]]
"""Model, wording and rule of a map; how P1 and P2 are given in a cell of it, and its value."""


def _averaged(lines: Sequence[EntailmentLine]) -> list[_Cell]:
    """Of each model and rule the mean over wordings of each cell, where there are several wordings."""
    if len({line.setting.wording for line in lines}) < 2:
        return []
    cells = grouped((one.setting._replace(wording="all-wordings"), one.numbers[_MRR].value) for one in lines)
    return [(about[:3], (about[3:], sum(own) / len(own))) for about, own in cells.items()]
