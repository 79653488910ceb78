"""Runs side by side: each one's numbers, and the difference of every pair on the facts that both ranked.

A fact's value is the mean over its templates, sentences and directions. Pairs are joined on ``fact_id``, so that runs
by other templates, probes or worlds can be compared where facts and candidates are the same; a pair that cannot be
compared is told with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple, TypeVar

import numpy as np

from fathom.errors import BadInput, all_of, refuse
from fathom.metrics.significance import LEVEL, POWER, holm, mcnemar
from fathom.metrics.table import METRICS, Metric, metric
from fathom.results.agreements import Agreement, agreement
from fathom.results.names import short_names
from fathom.results.numbers import Number
from fathom.results.outcomes import WRITTEN, Keeper, Kept, Outcome, unknown_scorings, wanted_of
from fathom.results.rows import Floats, grouped
from fathom.results.samples import Sample
from fathom.results.sides import Side, common_facts, difference
from fathom.results.tables import Cell, Table, Tabled
from fathom.store.folder import RunFolder

Held = TypeVar("Held")
AGREE_AT = 10
"""Two probes of one model agree on a fact where both rank its answer so far, or neither does."""
COMPARED = ("accuracy", "hits@10", "mrr")
"""Metrics that are compared where none are named."""
SMALLEST = (
    f"smallest: the true difference that a test of these facts at {LEVEL:.0%} finds in {POWER:.0%} of cases; where "
    "none was shown, smaller ones remain possible"
)


class OfRun(NamedTuple):
    """One run in one scoring.

    :param name: what tables call it: its model, and what else tells it apart.
    :param left_out: facts one of whose predictions is unscored.
    :param numbers: of each metric, over the facts that are not left out.
    """

    name: str
    outcome: Kept
    facts: int
    left_out: int
    numbers: tuple[Number, ...]


class Difference(NamedTuple):
    """Of one metric.

    :param first: mean of the first run over the common facts; NaN where it cannot be told.
    :param number: first − second, with interval, p value and the smallest difference that could have been shown.
    :param adjusted: p value by Holm among all pairs of the metric; None where there is none.
    """

    first: float
    second: float
    number: Number
    adjusted: float | None = None

    @property
    def shown(self) -> bool:
        """Whether it is significant among all pairs."""
        return self.adjusted is not None and self.adjusted < LEVEL


class Cells(NamedTuple):
    """How many facts both runs, one of them or neither have right.

    :param undecided: facts of which one run has neither 0 nor 1 for Hits@1: ties, templates that disagree.
    :param p_value: McNemar's, exact, of the decided facts. :param adjusted: by Holm among all pairs.
    """

    both: int
    only_first: int
    only_second: int
    neither: int
    undecided: int
    p_value: float
    adjusted: float | None = None


class Pair(NamedTuple):
    """Two runs.

    :param facts: how many both ranked. :param only_first: how many the first alone did.
    :param differences: of each metric.
    :param cells: None where Hits@1 cannot be told.
    :param agreement: of two probes, or scorings, of one model; None of others, and where a run has no ranks.
    """

    first: str
    second: str
    facts: int
    only_first: int
    only_second: int
    differences: tuple[Difference, ...]
    cells: Cells | None
    agreement: Agreement | None = None


class NotCompared(NamedTuple):
    """Two runs, and why."""

    first: str
    second: str
    why: str


@dataclass(frozen=True, repr=False)
class Comparison(Tabled):
    """All that ``fathom compare`` prints."""

    runs: tuple[OfRun, ...]
    metrics: tuple[Metric, ...]
    pairs: tuple[Pair, ...]
    not_compared: tuple[NotCompared, ...] = ()

    @property
    def tables(self) -> list[Table]:
        """Runs, differences in each metric, right and wrong answers, agreement of probes, and pairs that could not be
        compared."""
        return [
            _runs_table(self),
            *(_differences_table(self, place) for place in range(len(self.metrics))),
            _cells_table(self),
            *([_agreements_table(agreeing)] if (agreeing := [one for one in self.pairs if one.agreement]) else []),
            *([refusals_table(("first", "second", "why"), self.not_compared)] if self.not_compared else []),
        ]


def compare(
    runs: Sequence[RunFolder],
    scoring: Sequence[str] = (),
    metrics: Sequence[str] = COMPARED,
    cluster: str = "",
    to_first: bool = False,
) -> Comparison:
    """Each run, and all pairs of them.

    :param scoring: which to take of runs that have several; with more than one of a run, these are compared, too.
    :param metrics: "accuracy", "mrr", "hits@K", or others whose values are of ranks alone.
    :param cluster: what queries are drawn by, for the intervals; see :mod:`fathom.results.samples`.
    :param to_first: only the pairs with the first run.
    :raises BadInput: unfinished runs, one given twice, scorings not chosen, metrics that are no mean over facts; no
        pair that can be compared.
    """
    wanted: list[Metric] = []
    _, kept = all_of(
        lambda: wanted.extend(map(_metric, dict.fromkeys(metrics))),
        lambda: outcomes_to_compare(runs, scoring, cluster, Keeper(wanted).keep),
    )
    return compared(kept, wanted, to_first)


def compared(kept: Sequence[Kept], metrics: Sequence[Metric], to_first: bool = False) -> Comparison:
    """Runs that were read.

    :param metrics: whose values each of them has.
    :param to_first: only the pairs with the first run.
    :raises BadInput: no pair can be compared.
    """
    samples = _Samples()
    sides = list(zip(names_of_runs(kept), kept, strict=True))
    lines = tuple(_of_run(*own, metrics, samples) for own in sides)
    found = [
        _pair(one, other, metrics, samples) for one, other in combinations(sides, 2) if not to_first or one is sides[0]
    ]
    pairs = [one for one in found if isinstance(one, Pair)]
    refused = [one for one in found if isinstance(one, NotCompared)]
    if not pairs:
        raise BadInput(dict.fromkeys(one.why for one in refused))
    return Comparison(lines, tuple(metrics), tuple(_adjusted(pairs)), tuple(refused))


def outcomes_to_compare(
    runs: Sequence[RunFolder], scoring: Sequence[str], cluster: str, kept: Callable[[Outcome], Held]
) -> list[Held]:
    """Each run in each scoring that is wanted of it.

    :param kept: what is held of each while the next run is read.
    :raises BadInput: with the faults of all runs.
    """
    faults = _given_twice(runs)
    found: list[Held] = []
    there: set[str] = set()
    for run, model in zip(runs, short_names(runs), strict=True):
        try:
            for outcome in wanted_of(run, scoring, model, cluster):
                there |= set(outcome.rows.scorings)
                found.append(kept(outcome))
            del outcome  # with its rows, before those of the next run
        except BadInput as error:
            faults += error.faults
    refuse([*faults, *(unknown_scorings(scoring, there) if there else ())])
    check_several(found)
    return found


def check_several(found: Sequence[object]) -> None:
    """:raises BadInput: there are no two to compare."""
    if len(found) < 2:
        raise BadInput("expected two runs or more, or several scorings of one (--scoring A,B): found one")


def _given_twice(runs: Sequence[RunFolder]) -> list[str]:
    places = grouped((run.path.resolve(), run.path) for run in runs)
    return [
        f"{paths[0]} is given {'twice' if len(paths) == 2 else f'{len(paths)} times'}: give it once "
        "(several scorings of one run: --scoring A,B)"
        for paths in places.values()
        if len(paths) > 1
    ]


def _metric(name: str) -> Metric:
    """:raises BadInput: there is none of that name, or it is no mean over facts of what ranks tell."""
    found = metric(name)
    if not found.beside_baselines:
        own = ", ".join(one.name for one in METRICS.entries() if one.beside_baselines)
        raise BadInput(f"--metrics {name}: it cannot be paired by fact; there is {own} and hits@K")
    return found


def names_of_runs(outcomes: Sequence[Side]) -> list[str]:
    """The model of each, with probe, scoring, data, reading, wording and folder where these tell apart what is alike so
    far."""
    return told_apart([one.told_by for one in outcomes])


def told_apart(parts: Sequence[tuple[str, ...]]) -> list[str]:
    """The first part of each, with those of the others that tell apart what is alike so far."""
    names = [own[0] for own in parts]
    for kind in range(1, len(parts[0])):
        for alike in grouped((name, place) for place, name in enumerate(names)).values():
            if len({parts[place][kind] for place in alike}) > 1:
                for place in alike:
                    names[place] += f" {parts[place][kind]}"
    return names


class _Samples:
    """How facts were drawn, told once for the pairs that share them."""

    _MOST = 8
    """So many are remembered: where each run has facts of its own, there are as many as pairs."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, tuple[str, ...]], Sample] = {}

    def of(self, outcome: Kept, facts: Sequence[str]) -> Sample:
        # By a key of their own, the queries of each run may be in clusters of their own.
        key = (outcome.path if outcome.cluster else "", tuple(facts))
        if key not in self._known:
            if len(self._known) == self._MOST:
                self._known.pop(next(iter(self._known)))
            self._known[key] = outcome.two_way_sample(facts).numbered()
        return self._known[key]


def _of_run(name: str, outcome: Kept, wanted: Sequence[Metric], samples: _Samples) -> OfRun:
    facts = outcome.told()
    sample = samples.of(outcome, facts)
    told = (outcome.mean(one.name, outcome.values[one.name], facts, sample) for one in wanted)
    return OfRun(name, outcome, len(facts), len(outcome.left_out), tuple(told))


def _pair(
    one: tuple[str, Kept], other: tuple[str, Kept], wanted: Sequence[Metric], samples: _Samples
) -> Pair | NotCompared:
    (name, first), (second_name, second) = one, other
    try:
        facts = common_facts([first, second])
    except BadInput as error:
        return NotCompared(name, second_name, str(error))
    sample = samples.of(first, facts)

    def differing(own: Metric) -> Difference:
        values = [side.values[own.name] for side in (first, second)]
        one_mean, other_mean = (
            float(value[side.at(facts)].mean()) for side, value in zip((first, second), values, strict=True)
        )
        told = difference(own.name, [(1, first), (-1, second)], values, facts, sample)
        return Difference(one_mean, other_mean, told)

    return Pair(
        name,
        second_name,
        len(facts),
        len(first.told()) - len(facts),
        len(second.told()) - len(facts),
        tuple(map(differing, wanted)),
        cells_of(*(side.right[side.at(facts)] for side in (first, second))),
        _agreement(first, second),
    )


def _agreement(first: Kept, second: Kept) -> Agreement | None:
    another = (first.probe, first.scoring) != (second.probe, second.scoring)
    if first.model != second.model or not another or WRITTEN in (first.why_untold, second.why_untold):
        return None
    try:
        return agreement(first, second, AGREE_AT)._replace(points=[])  # which no table here shows
    except BadInput:  # both searches stopped too early
        return None


def cells_of(first: Floats, second: Floats) -> Cells | None:
    """:param first: Hits@1 of the facts, [n]; *second* of the same facts."""
    if np.isnan(first + second).any():
        return None
    decided = np.isin(first, (0, 1)) & np.isin(second, (0, 1))
    one, other = first[decided] == 1, second[decided] == 1
    both, only_first, only_second = (int(np.sum(cell)) for cell in (one & other, one & ~other, ~one & other))
    neither = int(decided.sum()) - both - only_first - only_second
    return Cells(both, only_first, only_second, neither, int(np.sum(~decided)), mcnemar(only_first, only_second))


def holm_of(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjusted among those that there are; None where there is none."""
    told = [p for p in p_values if p is not None]
    adjusted = iter(holm(told).tolist())
    return [None if p is None else next(adjusted) for p in p_values]


def _adjusted(pairs: Sequence[Pair]) -> list[Pair]:
    """With Holm's p values: among all pairs of each metric, and among all of McNemar's."""
    of_metric = [
        holm_of([own.number.p_value for own in same])
        for same in zip(*(pair.differences for pair in pairs), strict=True)
    ]
    of_cells = holm_of([pair.cells and pair.cells.p_value for pair in pairs])
    return [
        pair._replace(
            differences=tuple(
                own._replace(adjusted=adjusted[place])
                for own, adjusted in zip(pair.differences, of_metric, strict=True)
            ),
            cells=pair.cells and pair.cells._replace(adjusted=of_cells[place]),
        )
        for place, pair in enumerate(pairs)
    ]


# --- tables


def _runs_table(found: Comparison) -> Table:
    names = [one.name for one in found.metrics]
    body: list[tuple[Cell | Number, ...]] = []
    for run in found.runs:
        own = run.outcome
        about = (own.model, own.probe, own.scoring, own.data, own.path)
        body.append((run.name, *about, run.facts, run.left_out, *run.numbers))
    notes = ["each over its own facts, templates or sentences of a fact averaged"]
    if any(run.left_out for run in found.runs):
        notes.append("left out: facts with an unscored prediction")
    return Table.of_numbers(
        ("run", "model", "probe", "scoring", "data", "path", "facts", "left out", *names),
        body,
        "runs",
        {name: (f"{name} low", f"{name} high") for name in names},
        {one.name: one.shown for one in found.metrics},
        notes,
        ("model", "path"),
    )


def _differences_table(found: Comparison, place: int) -> Table:
    shown = found.metrics[place].shown
    body: list[tuple[Cell | Number, ...]] = []
    for pair in found.pairs:
        own = pair.differences[place]
        higher = (pair.first if own.number.value > 0 else pair.second) if own.shown else None
        about = (pair.first, pair.second, pair.facts, pair.only_first, pair.only_second, own.first, own.second)
        smallest = None if own.shown else own.number.smallest
        body.append((*about, own.number, own.adjusted, smallest, higher))
    among = "the one pair" if len(body) == 1 else f"all {len(body)} pairs"
    notes = [
        "difference: first minus second, paired by fact; higher: the run that is, where p (Holm) is below "
        f"{LEVEL:.2g}; p (Holm): adjusted for {among} of this table",
        SMALLEST,
    ]
    alone = ("only first", "only second")
    if any(pair.only_first + pair.only_second for pair in found.pairs):
        notes.append("facts that only one run of a pair ranked are left out: only first, only second in CSV and JSON")
    return Table.of_numbers(
        ("first", "second", "facts", *alone, "of first", "of second", "difference", "p (Holm)", "smallest", "higher"),
        body,
        f"differences in {found.metrics[place].name}",
        {"difference": ("low", "high", "p")},
        dict.fromkeys(("of first", "of second", "smallest"), shown) | {"difference": f"+{shown}", "p (Holm)": ".2g"},
        notes,
        alone,
    )


def _cells_table(found: Comparison) -> Table:
    columns = ("both right", "only first", "only second", "both wrong", "undecided", "p", "p (Holm)")
    return Table(
        ("first", "second", *columns),
        tuple((pair.first, pair.second, *(pair.cells or (None,) * len(columns))) for pair in found.pairs),
        "right and wrong",
        dict.fromkeys(("p", "p (Holm)"), ".2g"),
        notes=(
            "p: McNemar's exact test, each fact for itself, whatever its relation",
            "undecided: Hits@1 is neither 0 nor 1 in one of the runs (ties, templates that disagree); not in the test",
        ),
    )


def _agreements_table(pairs: Sequence[Pair]) -> Table:
    quadrants = (f"both hit@{AGREE_AT}", "only first", "only second", "both miss")
    body: list[tuple[Cell | Number, ...]] = []
    for pair in pairs:
        own = pair.agreement
        if own is not None:
            cells = (own.both_hit, own.only_first, own.only_second, own.both_miss)
            body.append((pair.first, pair.second, own.both_hit.n, own.log_ranks, own.within, *cells))
    return Table.of_numbers(
        ("first", "second", "facts", "r", "r within", *quadrants),
        body,
        "agreement of probes",
        {"r": ("low", "high", "p"), "r within": ("within low", "within high", "within p")}
        | {name: (f"{name} low", f"{name} high") for name in quadrants},
        dict.fromkeys(("r", "r within"), ".3f") | dict.fromkeys(quadrants, ".1%"),
        ("r: Pearson's, of log10 ranks; r within: of these less the mean of their relation, which probes find alike",),
        (*(f"{name} {end}" for name in quadrants for end in ("low", "high")), "within p"),
    )


def refusals_table(columns: Sequence[str], lines: Sequence[Sequence[Cell]]) -> Table:
    """What could not be compared, and why."""
    return Table(tuple(columns), tuple(map(tuple, lines)), "not compared")
