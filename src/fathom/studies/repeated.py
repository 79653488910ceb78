"""Does a model answer everything alike? How often each entity stands among the best (section 5.4 and figure 1 of Shaier
et al. 2024)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from fathom.errors import BadInput, all_of
from fathom.results.numbers import Number, untold
from fathom.results.outcomes import CUTS, Outcome, names_of, outcomes_of
from fathom.results.plots import Plot
from fathom.results.tables import Table
from fathom.store.folder import RunFolder

SHOWN = 15
NO_INTERVAL = "no interval: fewer prompts have fewer distinct answers, so resampled ones would not tell it"
CHOSEN = "no interval: the entities are chosen by these shares"


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


def ask(runs: Sequence[RunFolder], scoring: Sequence[str] = (), cluster: str = "") -> list[Repeated]:
    """One per run. :raises BadInput: a run recorded fewer than its ten best answers."""
    return all_of(*(partial(_repeated, outcome) for outcome in outcomes_of(runs, scoring, cluster)))


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


def tables(found: Sequence[Repeated]) -> list[Table]:
    """Distinct predictions of every run, then the most repeated entities of each."""
    shares = tuple(f"distinct/predictions @{k}" for k in CUTS)
    return [
        Table.of_numbers(
            ("model", "data", "reading", "prompts", "unscored", *(f"distinct@{k}" for k in CUTS), *shares),
            [(*line[:5], *line.distinct, *line.shares) for line in found],
            "distinct predictions",
            dict.fromkeys(shares, ()),
            dict.fromkeys(shares, ".1%"),
            ("distinct@k: entities that any prompt has among its k best; predictions: prompts × k",),
        ),
        *(_entities(line, SHOWN) for line in found),
    ]


def files(found: Sequence[Repeated]) -> dict[str, Table]:
    """All entities of each run."""
    return {f"repeated-{number}": _entities(line) for number, line in enumerate(found)}


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


def plots(found: Sequence[Repeated]) -> list[Plot]:
    """Bars of the most repeated entities (figure 1)."""
    label = f"% of the prompts that have it in their top {max(CUTS)}"
    return [Plot(f"repeated-{number}", partial(_draw, line), "entity", label) for number, line in enumerate(found)]


def _draw(found: Repeated, axes: Any) -> None:
    entities = found.entities[:SHOWN]
    axes.bar(range(len(entities)), [100 * entity.shares[-1].value for entity in entities])
    axes.set_xticks(range(len(entities)), [entity.name for entity in entities], rotation=60, ha="right", fontsize=7)
    distinct = ", ".join(f"{share.value:.1%} of top {k}" for share, k in zip(found.shares, CUTS, strict=True))
    axes.set_title(f"{found.model}, {found.data}, {found.reading}\ndistinct: {distinct}", fontsize=8)
