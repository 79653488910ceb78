"""Does a model answer everything alike? How often each entity stands among the best (section 5.4 and figure 1 of Shaier
et al. 2024), and how that changes from template to sentence.

The change is told of the facts that both readings ranked, by a number that resampled facts can tell: the overlap, which
is the share of the k best of one fact that is among the k best of another, over all pairs of facts. It is a U-statistic
of degree two, so its interval, and that of its change, is of the facts' jackknife pseudo-values (Arvesen, "Jackknifing
U-Statistics", Annals of Mathematical Statistics 1969). Right answers repeat, too: their overlap stands beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fathom.errors import BadInput, all_of, refuse
from fathom.results.compared import refusals_table
from fathom.results.numbers import Number, untold
from fathom.results.outcomes import BY_TEMPLATE, CUTS, FREE, READINGS, Outcome, names_of, outcomes_of
from fathom.results.plots import Plot
from fathom.results.rows import Floats, grouped
from fathom.results.sides import common_facts, difference
from fathom.results.tables import Table
from fathom.store.folder import RunFolder

SHOWN = 15
NO_INTERVAL = "no interval: fewer prompts have fewer distinct answers, so resampled ones would not tell it"
CHOSEN = "no interval: the entities are chosen by these shares"
FEW_FACTS = "no interval: of fewer than three facts there is no telling how much two have in common"


class RepeatedEntity(NamedTuple):
    """:param shares: of the prompts in whose top 1, 5 and 10 it stands."""

    id: str
    name: str
    shares: tuple[Number, ...]


class Repeated(NamedTuple):
    """One run.

    :param prompts: predictions with a rank; the unscored are left out.
    :param distinct: entities that stand in any prompt's top 1, 5, 10.
    :param shares: those ÷ (k · prompts), 1 where no prediction repeats another, and fewer candidates than k count as
        many as there are.
    :param entities: all of them, the most repeated in the top 10 first; equal ones by their top 5, top 1 and id.
    """

    model: str
    data: str
    reading: str
    prompts: int
    unscored: int
    distinct: tuple[int, ...]
    shares: tuple[Number, ...]
    entities: list[RepeatedEntity]


class Overlap(NamedTuple):
    """How much the answers to two facts have in common, of one model on one data set in both readings.

    :param k: of the k best answers.
    :param facts: that both readings ranked.
    :param right: overlap of the right answers themselves, which a model that knows all would have; of k = 1.
    :param difference: template-free − template-based, paired by fact.
    """

    model: str
    data: str
    facts: int
    k: int
    right: Number | None
    based: Number
    free: Number
    difference: Number


class NotPaired(NamedTuple):
    """A model that was asked a data set in both readings, which are not laid side by side, and why."""

    model: str
    data: str
    why: str


class Repetition(NamedTuple):
    """:param runs: one per run, in their order. :param changes: one for each model, data set and cut.
    :param not_paired: those of both readings without changes."""

    runs: list[Repeated]
    changes: list[Overlap]
    not_paired: list[NotPaired]


def ask(runs: Sequence[RunFolder], scoring: Sequence[str] = (), cluster: str = "") -> Repetition:
    """:raises BadInput: a run recorded fewer than its ten best answers."""
    outcomes = outcomes_of(runs, scoring, cluster)
    found = all_of(*(partial(_repeated, outcome) for outcome in outcomes))
    of_each = grouped(((outcome.model, outcome.data), outcome) for outcome in outcomes)
    changes, not_paired = [], []
    for (model, data), own in of_each.items():
        try:
            changes += [change for pair in _both_readings(own) for change in _changes(*pair)]
        except BadInput as error:
            not_paired.append(NotPaired(model, data, f"{BY_TEMPLATE} and {FREE}: {'; '.join(error.faults)}"))
    return Repetition(found, changes, not_paired)


def _both_readings(outcomes: Sequence[Outcome]) -> list[tuple[Outcome, Outcome]]:
    """One pair, none where one reading was not asked. :param outcomes: of one model and data set.

    :raises BadInput: several runs of a reading.
    """
    sides = [[outcome for outcome in outcomes if outcome.reading == reading] for reading in READINGS]
    if not all(sides):
        return []
    refuse(
        f"{' and '.join(outcome.path for outcome in own)} are both {own[0].reading}: give one"
        for own in sides
        if len(own) > 1
    )
    [[based], [free]] = sides
    return [(based, free)]


def _changes(based: Outcome, free: Outcome) -> list[Overlap]:
    """Of each cut. :raises BadInput: the readings have no fact in common, or were ranked among other candidates."""
    facts, found = common_facts([based, free]), []
    for k in CUTS:
        name = f"overlap of top {k}"
        values = [_overlaps(outcome, facts, k) for outcome in (based, free)]
        first, second = (
            _mean_overlap(outcome, name, own, facts) for outcome, own in zip((based, free), values, strict=True)
        )
        change = (
            difference(name, [(1, free), (-1, based)], [values[1], values[0]], facts)
            if len(facts) > 2
            else untold(FEW_FACTS, free.recipe(name))
        )
        right = _mean_overlap(based, "overlap of right answers", _right(based, facts), facts) if k == 1 else None
        found.append(Overlap(based.model, based.data, len(facts), k, right, first, second, change))
    return found


def _mean_overlap(outcome: Outcome, name: str, values: Floats, facts: Sequence[str]) -> Number:
    if len(facts) < 3:
        return untold(FEW_FACTS, outcome.recipe(name))
    return outcome.mean(name, values, facts)


def _overlaps(outcome: Outcome, facts: Sequence[str], k: int) -> Floats:
    """Pseudo-value of each fact of the outcome, NaN of those that are not asked of."""
    rows, wanted = outcome.rows, set(facts)
    tops: dict[str, list[list[str]]] = {fact: [] for fact in facts}
    for place, fact in zip(outcome.places.tolist(), outcome.fact_of.tolist(), strict=True):
        if outcome.facts[fact] in wanted:
            tops[outcome.facts[fact]].append(rows.best(place)[:k])
    shares = [
        {id_: count / len(of) for id_, count in Counter(e for t in of for e in t).items()} for of in tops.values()
    ]
    return _spread_out(
        outcome, facts, pseudo_values(shares, min(k, *map(len, (t for of in tops.values() for t in of))))
    )


def _right(outcome: Outcome, facts: Sequence[str]) -> Floats:
    golds = outcome.golds_of(facts)
    return _spread_out(outcome, facts, pseudo_values([dict.fromkeys(gold, 1 / len(gold)) for gold in golds], 1))


def _spread_out(outcome: Outcome, facts: Sequence[str], values: Floats) -> Floats:
    found = np.full(len(outcome.facts), np.nan)
    found[outcome.at(facts)] = values
    return found


def pseudo_values(shares: Sequence[dict[str, float]], k: int) -> Floats:
    """The jackknife's, of the mean overlap U of two facts, n · U − (n − 1) · U without the fact, [n]; their mean is U.

    :param shares: of each fact, how often each entity is among its *k* best, 0 to 1; of three facts or more.
    """
    n = len(shares)
    if n < 3:
        return np.full(n, np.nan)
    total: Counter[str] = Counter()
    for own in shares:
        total.update(own)
    others = [sum(share * (total[id_] - share) for id_, share in own.items()) / (k * (n - 1)) for own in shares]
    mean = float(np.mean(others))
    return n * mean - (n - 1) * (n * mean - 2 * np.array(others)) / (n - 2)


def _repeated(outcome: Outcome) -> Repeated:
    rows = outcome.rows
    scored = outcome.places[rows.scored[outcome.places]].tolist()
    tops = [rows.best(place) for place in scored]
    for top, place in zip(tops, scored, strict=True):
        if len(top) < min(max(CUTS), rows.number_of_candidates[place]):
            raise BadInput(
                f"{outcome.path} recorded the {len(top)} best answers of a prompt, {max(CUTS)} are needed: "
                f"ask with the cloze probe, or the statement probe with --top-k {max(CUTS)} and without --max-rank"
            )
    counts = [Counter(id_ for top in tops for id_ in top[:k]) for k in CUTS]
    names = names_of(rows.candidates)
    order = sorted(counts[-1], key=lambda id_: (*(-count[id_] for count in reversed(counts)), id_))
    n = len(scored)
    of_cuts = list(zip((outcome.recipe(f"share of top {k}") for k in CUTS), counts, strict=True))
    return Repeated(
        outcome.model,
        outcome.data,
        outcome.reading,
        n,
        len(outcome.places) - n,
        tuple(map(len, counts)),
        tuple(
            untold(NO_INTERVAL, outcome.recipe(f"distinct/predictions@{k}"), len(count) / count.total(), n)
            for k, count in zip(CUTS, counts, strict=True)
        ),
        [
            RepeatedEntity(
                id_, names.get(id_, id_), tuple(untold(CHOSEN, made, count[id_] / n, n) for made, count in of_cuts)
            )
            for id_ in order
        ],
    )


def tables(found: Repetition) -> list[Table]:
    """Distinct predictions of every run, the most repeated entities of each, and how readings differ."""
    shares = tuple(f"distinct/predictions @{k}" for k in CUTS)
    return [
        Table.of_numbers(
            ("model", "data", "reading", "prompts", "unscored", *(f"distinct@{k}" for k in CUTS), *shares),
            [(*line[:5], *line.distinct, *line.shares) for line in found.runs],
            "distinct predictions",
            dict.fromkeys(shares, ()),
            dict.fromkeys(shares, ".1%"),
            ("distinct@k: entities that any prompt has among its k best; predictions: prompts × k",),
        ),
        *(_entities(line, SHOWN) for line in found.runs),
        *([_changes_table(found.changes)] if found.changes else []),
        *([refusals_table(NotPaired._fields, found.not_paired)] if found.not_paired else []),
    ]


def _changes_table(changes: Sequence[Overlap]) -> Table:
    columns = ("right answers", BY_TEMPLATE, FREE)
    return Table.of_numbers(
        ("model", "data", "facts", "of", *columns, "difference"),
        [(*line[:3], f"top {line.k}", *line[4:]) for line in changes],
        "repetition, template-based and template-free",
        {name: (f"{name} low", f"{name} high") for name in columns} | {"difference": ("low", "high", "p")},
        dict.fromkeys(columns, ".1%") | {"difference": "+.1%"},
        (
            "overlap: the share of the k best answers to one fact that is among the k best to another, over all pairs "
            "of facts that both readings ranked; right answers: the overlap that a model that knows all would have",
            "difference: template-free minus template-based, paired by fact; below 0: sentences repeat less",
        ),
        [f"{name} {end}" for name in columns for end in ("low", "high")],
    )


def files(found: Repetition) -> dict[str, Table]:
    """All entities of each run."""
    return {f"repeated-{number}": _entities(line) for number, line in enumerate(found.runs)}


def _entities(found: Repeated, shown: int | None = None) -> Table:
    """:param shown: how many; None for all."""
    columns = tuple(f"top {k}" for k in CUTS)
    return Table.of_numbers(
        ("entity", "id", *columns),
        [(entity.name, entity.id, *entity.shares) for entity in found.entities[:shown]],
        f"most repeated: {found.model}, {found.data}, {found.reading}",
        dict.fromkeys(columns, ()),
        dict.fromkeys(columns, ".1%"),
        ("share of the prompts in whose top k an entity stands",),
    )


def plots(found: Repetition) -> list[Plot]:
    """Bars of the most repeated entities (figure 1), then both readings of each model and data set side by side."""
    label = f"% of the prompts that have it in their top {max(CUTS)}"
    each = {f"repeated-{number}": [line] for number, line in enumerate(found.runs)}
    together = grouped(((line.model, line.data), line) for line in found.runs)
    both = [
        sorted(lines, key=lambda line: line.reading)
        for lines in together.values()
        if len({one.reading for one in lines}) > 1
    ]
    each |= {f"repeated-readings-{number}": lines for number, lines in enumerate(both)}
    return [Plot(name, partial(_draw, lines), "entity", label) for name, lines in each.items()]


def _draw(lines: Sequence[Repeated], axes: Any) -> None:
    """:param lines: of one model and data set, one per reading."""
    shares = [{entity.id: (entity.name, entity.shares[-1].value) for entity in line.entities} for line in lines]
    names = {id_: name for own in shares for id_, (name, _) in own.items()}
    most = {id_: max(own[id_][1] for own in shares if id_ in own) for id_ in names}
    chosen = sorted(most, key=lambda id_: (-most[id_], id_))[:SHOWN]
    width = 0.8 / len(lines)
    for number, (line, own) in enumerate(zip(lines, shares, strict=True)):
        at = [place + width * (number - (len(lines) - 1) / 2) for place in range(len(chosen))]
        heights = [100 * own[id_][1] if id_ in own else 0.0 for id_ in chosen]
        distinct = ", ".join(f"{share.value:.1%} of top {k}" for share, k in zip(line.shares, CUTS, strict=True))
        axes.bar(at, heights, width, label=f"{line.reading}; distinct: {distinct}")
    axes.set_xticks(range(len(chosen)), [names[id_] for id_ in chosen], rotation=60, ha="right", fontsize=7)
    axes.legend(fontsize=7)
    axes.set_title(f"{lines[0].model}, {lines[0].data}", fontsize=8)
