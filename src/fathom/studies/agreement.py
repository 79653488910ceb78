"""Do two probes agree? Pearson's correlation of their ranks, and quadrants of hits and misses.

Section 5.2 and figure 7 of Jinno et al. (DEER): correlation on decimal logarithms of ranks, "since the significance of
a difference diminishes at higher ranks", and the linear one beside it. Its control is the correlation within relations:
two probes that know other facts agree, too, where both find the same relations easy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fathom.errors import BadInput
from fathom.results.names import short_names
from fathom.results.numbers import Number, combined, correlation, mean, untold
from fathom.results.outcomes import Outcome, common_facts, outcome_of
from fathom.results.plots import Plot
from fathom.results.rows import Floats
from fathom.results.tables import Table
from fathom.store.folder import RunFolder

WITHIN = "log10 rank, within relations"


class Agreement(NamedTuple):
    """Two probes on the facts that both ranked.

    :param log_ranks: correlation of log10 ranks; without a value where a search stopped.
    :param within: of log10 ranks less the mean of their relation: what is left where both only find the same relations
        easy.
    :param ranks: of the ranks themselves.
    :param both_hit: share of facts that both rank within *k*; likewise the other quadrants.
    :param left_out: facts that only one of them, or neither, could rank.
    :param stopped: facts that one of them only knows to rank beyond some number: they are in the quadrants, and the
        correlations, which need every rank, are not told: those of the other facts would be of facts chosen by rank.
    :param points: fact id, rank by the first, rank by the second; without those stopped.
    """

    first: str
    second: str
    k: int
    log_ranks: Number
    within: Number
    ranks: Number
    both_hit: Number
    both_miss: Number
    only_first: Number
    only_second: Number
    left_out: int
    stopped: int
    points: list[tuple[str, float, float]]


def ask(runs: Sequence[RunFolder], scoring: Sequence[str] = (), k: int = 10, cluster: str = "") -> Agreement:
    """:param runs: two, or one and the same by two of its scorings.
    :param scoring: of both, or two, the first run's first.
    :raises BadInput: the runs have no fact in common, were asked with different candidates, or are one and the same."""
    if len(runs) != 2:
        raise BadInput(f"two probes are compared, with a run of each: found {len(runs)}")
    if len(scoring) > 2:
        raise BadInput(f"--scoring {','.join(scoring)}: expected one for both runs, or one for each")
    wanted = [[name] for name in scoring] or [[]]
    if runs[0].path.resolve() == runs[1].path.resolve() and wanted[0] == wanted[-1]:
        raise BadInput(f"{runs[0].path} is both runs: give two, or two of its scorings (--scoring A,B)")
    names = short_names(runs)
    one, other = (
        outcome_of(run, own, name, cluster) for run, own, name in zip(runs, (wanted[0], wanted[-1]), names, strict=True)
    )
    first, second = one.name, other.name
    if first == second:
        first, second = (f"{side.name} ({side.path})" for side in (one, other))
    every = common_facts([one, other])
    known = [np.asarray((side.beyond == np.inf) | (side.beyond >= k))[side.at(every)] for side in (one, other)]
    facts = [fact for fact, both in zip(every, known[0] & known[1], strict=True) if both]
    if not facts:
        raise BadInput(f"no fact is ranked as far as {k} by both runs: give a smaller --k, or a greater --max-rank")
    stopped = (one.stopped | other.stopped).intersection(facts)
    ranks = [side.per_fact(side.ranks)[side.at(facts)] for side in (one, other)]
    logs = [side.per_fact(np.log10(side.ranks))[side.at(facts)] for side in (one, other)]
    centred = logs if stopped else _less_their_means(one, facts, logs)
    return Agreement(
        first,
        second,
        k,
        _correlation("correlation of log10 ranks", (one, other), facts, logs, len(stopped)),
        _correlation(f"correlation of {WITHIN}", (one, other), facts, centred, len(stopped)),
        _correlation("correlation of ranks", (one, other), facts, ranks, len(stopped)),
        *_quadrants((one, other), facts, ranks[0] <= k, ranks[1] <= k, k),
        len(set(one.facts).union(other.facts)) - len(facts),
        len(stopped),
        [point for point in zip(facts, *(side.tolist() for side in ranks), strict=True) if point[0] not in stopped],
    )


def _correlation(
    name: str, sides: Sequence[Outcome], facts: Sequence[str], values: Sequence[Floats], stopped: int
) -> Number:
    made = combined(name, [side.recipe("") for side in sides], " and ")
    if stopped:
        return untold("some ranks are only known to lie beyond --max-rank: no correlation", made)
    return correlation(values[0], values[1], sides[0].sample(facts), made)


def _less_their_means(side: Outcome, facts: Sequence[str], values: Sequence[Floats]) -> list[Floats]:
    """Values less the mean of their relation, [facts] each."""
    _, relation = np.unique(side.relations_of(facts), return_inverse=True)
    count = np.bincount(relation)
    # Rounded, so that what is alike throughout a relation does not differ in its last bits.
    return [np.round(own - (np.bincount(relation, own) / count)[relation], 12) for own in values]


def _quadrants(
    sides: Sequence[Outcome], facts: Sequence[str], first: npt.NDArray[np.bool_], second: npt.NDArray[np.bool_], k: int
) -> tuple[Number, Number, Number, Number]:
    """Both hit, both miss, only the first, only the second. :param first: whether it hits, [facts]."""
    sample, recipes = sides[0].sample(facts), [side.recipe("") for side in sides]

    def share(name: str, values: npt.NDArray[np.bool_]) -> Number:
        return mean(values, sample, combined(f"{name}@{k}", recipes, " and "))

    return (
        share("both hit", first & second),
        share("both miss", ~first & ~second),
        share("only first hit", first & ~second),
        share("only second hit", ~first & second),
    )


def tables(found: Agreement) -> list[Table]:
    """Correlations, and quadrants of hits and misses."""
    hit, miss = f"hit@{found.k}", f"miss@{found.k}"
    counted = (
        (found.left_out, "that one of the two could not rank are left out"),
        (
            found.stopped,
            "are only known to rank beyond --max-rank: they are misses in the quadrants; correlations need every rank, "
            "ask again without --max-rank",
        ),
    )
    notes = [f"{count} facts {what}" for count, what in counted if count]
    lines = [("log10 rank", found.log_ranks), (WITHIN, found.within), ("rank", found.ranks)]
    return [
        correlations_table(f"{found.first} and {found.second}", lines, notes),
        Table.of_numbers(
            (found.first, found.second, "share"),
            (
                (hit, hit, found.both_hit),
                (miss, miss, found.both_miss),
                (hit, miss, found.only_first),
                (miss, hit, found.only_second),
            ),
            "quadrants",
            {"share": ("low", "high")},
            {"share": ".1%"},
        ),
    ]


def correlations_table(title: str, lines: Sequence[tuple[str, Number]], notes: Sequence[str]) -> Table:
    """:param lines: what is correlated, and how."""
    return Table.of_numbers(
        ("of", "Pearson r", "facts"),
        [(name, number, number.n) for name, number in lines],
        title,
        {"Pearson r": ("low", "high", "p")},
        {"Pearson r": ".3f"},
        notes,
    )


def files(found: Agreement) -> dict[str, Table]:
    """The ranks of every fact."""
    return {"agreement-ranks": Table(("fact", found.first, found.second), tuple(found.points), "ranks")}


def plots(found: Agreement) -> list[Plot]:
    """Every fact by its two ranks, both axes logarithmic; the lines stand at rank *k* (figure 7 of the DEER paper)."""

    def draw(axes: Any) -> None:
        axes.scatter([x for _, x, _ in found.points], [y for _, _, y in found.points], s=6, alpha=0.5)
        axes.set(xscale="log", yscale="log")
        axes.axvline(found.k, color="grey", linewidth=0.8)
        axes.axhline(found.k, color="grey", linewidth=0.8)

    axes = (f"rank by {found.first}", f"rank by {found.second}")
    return [Plot("agreement", draw, *axes, f"r = {found.log_ranks.value:.3f} on log ranks")]
