"""Do probes agree? :mod:`fathom.results.agreements` of two runs, or of each two runs of one model on the same data.

With several models this makes tables 3, 5 and 7 and figures 8 and 10 of Jinno et al. (DEER).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

from fathom.errors import BadInput
from fathom.results.agreements import WITHIN, Agreement, agreement
from fathom.results.claims import Claim, Contrast, decide, sentences
from fathom.results.comparison import refusals_table
from fathom.results.estimates import Estimate, mean_over_models
from fathom.results.facts import RunFacts, Shared
from fathom.results.loading import check_ranked, read_facts, read_runs
from fathom.results.names import distinguished, short_names
from fathom.results.plots import Panels, Plot
from fathom.results.rows import grouped
from fathom.results.tables import Cell, Table
from fathom.store.folder import RunFolder

Tokens = Mapping[str, int]
PAIR = ("model", "data", "first", "second")


class ProbePair(NamedTuple):
    """Two runs.

    :param first: probe, with what else distinguishes it from others of these runs; *second* likewise.
    :param tokens: number of tokens of each fact's answer, as the first or else the second run recorded it.
    """

    model: str
    data: str
    first: str
    second: str
    ranks: Agreement
    tokens: Tokens


class Agreements(NamedTuple):
    """All pairs.

    :param refused: pairs that could not be compared, and why.
    :param alone: folders of runs without another run of the same model and data.
    :param wide: whether tables have a row for each pair; else they are of the only pair.
    """

    pairs: list[ProbePair]
    refused: list[tuple[str, ...]]
    alone: list[str]
    wide: bool


class _Side(NamedTuple):
    """:param kind: what may distinguish the probe from others."""

    facts: RunFacts
    kind: tuple[str, ...]
    tokens: Tokens


def analyse(
    runs: Sequence[RunFolder], scoring: Sequence[str] = (), k: int = 10, wide: bool = False, cluster: str = ""
) -> Agreements:
    """Compare the ranks of two probes, or of each two runs of one model on the same data.

    :param runs: any two, or several; one run twice for two of its scorings.
    :param scoring: of two runs: one for both, or one for each; of several: those to take.
    :param wide: treat two runs like several.
    :raises BadInput: no pair has a fact in common and the same candidates, or two runs are the same.
    """
    if len(runs) == 2 and not wide:
        first, second = _read_two(runs, scoring, cluster)
        pair = ProbePair(first.model, first.data, first.probe, second.probe, agreement(first, second, k), {})
        return Agreements([pair], [], [], wide=False)
    shared: Shared = {}
    sides = read_runs(runs, scoring, cluster, partial(_side, shared=shared), without=("prompt", "top_ids"))
    kinds = list(dict.fromkeys(side.kind for side in sides))
    names = dict(zip(kinds, distinguished(kinds), strict=True))
    facets = grouped(((side.facts.model, side.facts.data), side) for side in sides)
    findings = Agreements([], [], [own[0].facts.path for own in facets.values() if len(own) == 1], wide=True)
    for facet, own in facets.items():
        labels = distinguished([(names[side.kind], side.facts.path) for side in own])
        for (first_name, one), (second_name, other) in combinations(zip(labels, own, strict=True), 2):
            place = (*facet, first_name, second_name)
            try:
                found = agreement(one.facts, other.facts, k)
                findings.pairs.append(ProbePair(*place, found, one.tokens or other.tokens))
            except BadInput as error:
                findings.refused.append((*place, str(error)))
    if not findings.pairs:
        none = "no two of the runs are of one model on the same data: give a run of each of two probes"
        raise BadInput([why for *_, why in findings.refused] or none)
    return findings


def _read_two(runs: Sequence[RunFolder], scoring: Sequence[str], cluster: str) -> tuple[RunFacts, RunFacts]:
    if len(scoring) > 2:
        raise BadInput(f"--scoring {','.join(scoring)}: expected one for both runs, or one for each")
    scorings = [[name] for name in scoring] or [[]]
    if runs[0].path.resolve() == runs[1].path.resolve() and scorings[0] == scorings[-1]:
        raise BadInput(f"{runs[0].path} is both runs: give two, or two of its scorings (--scoring A,B)")
    one, other = short_names(runs)
    return read_facts(runs[0], scorings[0], one, cluster), read_facts(runs[1], scorings[-1], other, cluster)


def _side(facts: RunFacts, shared: Shared) -> _Side:
    """Keep what a comparison needs of a run. :raises BadInput: it has no ranks."""
    check_ranked(facts)
    tokens = {fact: number for fact, (_, number) in facts.best_golds().items() if number is not None}
    kind = (facts.probe, facts.scoring, facts.reading, facts.wording)
    return _Side(facts.release([], shared), kind, tokens)


def conclude(findings: Agreements) -> list[str]:
    """Say whether the probes agree within relations."""
    claims = []
    for pair in findings.pairs:
        name = f"{pair.ranks.first} and {pair.ranks.second}"
        if findings.wide:
            name = f"{pair.model}, {pair.data}, {pair.first} and {pair.second}"
        claims.append(Claim(f"{name}, correlation of {WITHIN}", (Contrast("correlation", pair.ranks.within),)))
    return sentences(decide(claims), is_share=False)


def tables(findings: Agreements) -> list[Table]:
    """Return correlations, and quadrants of hits and misses."""
    ranks = [pair.ranks for pair in findings.pairs]
    left_out, stopped = sum(own.left_out for own in ranks), sum(own.stopped for own in ranks)
    together = ", all pairs together" if len(ranks) > 1 else ""
    notes = {
        f"{left_out} facts that one of the two could not rank are excluded{together}": left_out,
        f"{stopped} facts{together} are only known to rank beyond --max-rank: they are misses in the quadrants; "
        "correlations need every rank, run again without --max-rank": stopped,
        f"excluded, without another run of the same model and data: {', '.join(findings.alone)}": findings.alone,
    }
    shown = [note for note, known in notes.items() if known]
    if not findings.wide:
        return _tables_of_one(ranks[0], shown)
    legend = (
        "r: Pearson's correlation of log10 ranks; r within: of these minus the mean of their relation; p: of each r by "
        "itself, not adjusted for the number of pairs"
    )
    hit = f"hit: a rank up to {ranks[0].k}"
    return [
        Table.of(_rows(findings.pairs, _correlations), "agreement of probes", [legend, *shown], main="r"),
        Table.of(_rows(findings.pairs, _quadrants), "quadrants", [hit], main="both hit"),
        *([refusals_table((*PAIR, "why"), findings.refused)] if findings.refused else []),
    ]


def _correlations(found: Agreement) -> dict[str, Estimate]:
    return {"r": found.log_ranks, "r within": found.within, "r of ranks": found.ranks}


def _quadrants(found: Agreement) -> dict[str, Estimate]:
    shares = (found.both_hit, found.only_first, found.only_second, found.both_miss)
    return dict(zip(("both hit", "only first", "only second", "both miss"), shares, strict=True))


def _rows(pairs: Sequence[ProbePair], numbers: Any) -> list[dict[str, Any]]:
    """Return a row for each pair, then the means over models of each two probes on each data set."""
    rows: list[dict[str, Any]] = [
        {**dict(zip(PAIR, pair, strict=False)), "facts": pair.ranks.both_hit.n, **numbers(pair.ranks)} for pair in pairs
    ]
    for place, own in grouped((pair[1:4], numbers(pair.ranks)) for pair in pairs).items():
        if len(own) > 1:
            means = {name: mean_over_models(name, [one[name] for one in own]) for name in own[0]}
            rows.append(dict(zip(PAIR, (f"mean of {len(own)} models", *place), strict=True)) | means)
    return rows


def _tables_of_one(found: Agreement, notes: Sequence[str]) -> list[Table]:
    hit, miss = f"hit@{found.k}", f"miss@{found.k}"
    lines = [("log10 rank", found.log_ranks), (WITHIN, found.within), ("rank", found.ranks)]
    quadrants = [
        (hit, hit, found.both_hit),
        (miss, miss, found.both_miss),
        (hit, miss, found.only_first),
        (miss, hit, found.only_second),
    ]
    return [
        correlations_table(f"{found.first} and {found.second}", lines, notes),
        Table.of(quadrants, "quadrants", columns=(found.first, found.second, "share")),
    ]


def correlations_table(title: str, lines: Sequence[tuple[str, Estimate]], notes: Sequence[str]) -> Table:
    """Return a row for each named correlation."""
    rows = [(name, number, number.n) for name, number in lines]
    return Table.of(rows, title, notes, columns=("of", "Pearson r", "facts"), hidden=["p"])


def files(findings: Agreements) -> dict[str, Table]:
    """Return the ranks of every fact."""
    if not findings.wide:
        [found] = [pair.ranks for pair in findings.pairs]
        return {"agreement-ranks": Table(("fact", found.first, found.second), tuple(found.points), "ranks")}
    columns = (*PAIR, "fact", "rank by first", "rank by second", "tokens")
    rows: list[tuple[Cell, ...]] = [
        (*pair[:4], *point, pair.tokens.get(point[0])) for pair in findings.pairs for point in pair.ranks.points
    ]
    return {"agreement-ranks": Table(columns, tuple(rows), "ranks")}


def plots(findings: Agreements) -> list[Plot | Panels]:
    """Draw every fact by its two ranks on logarithmic axes, with lines at rank *k* (figure 7 of the DEER paper).

    Several pairs are panels of one picture, coloured by the number of tokens of the answer (figures 8 and 10).
    """
    known = [pair.tokens[fact] for pair in findings.pairs for fact, *_ in pair.ranks.points if fact in pair.tokens]
    ends = (min(known), max(known)) if known else (0, 0)
    panels = []
    for pair in findings.pairs:
        own, last = pair.ranks, pair is findings.pairs[-1]
        names, about = (own.first, own.second), ""
        if findings.wide:
            names, about = (pair.first, pair.second), f"{pair.model}, {pair.data}\n"
        title = f"{about}r = {own.log_ranks.value:.3f} on log ranks"
        x, y = (f"rank by {name}" for name in names)
        panels.append(Plot("agreement", partial(_draw, pair, ends, last), x, y, title))
    return [Panels("agreement", panels) if len(panels) > 1 else panels[0]]


def _draw(pair: ProbePair, ends: tuple[int, int], last: bool, axes: Any) -> None:
    """:param ends: smallest and largest number of tokens of all pairs. :param last: whether all others are drawn."""
    facts, xs, ys = zip(*pair.ranks.points, strict=True) if pair.ranks.points else ((), (), ())
    colours: dict[str, Any] = {}
    if ends[0] < ends[1]:
        tokens = [pair.tokens.get(fact, float("nan")) for fact in facts]
        colours = {"c": tokens, "vmin": ends[0], "vmax": ends[1], "cmap": "plasma", "plotnonfinite": True}
    dots = axes.scatter(xs, ys, s=6, alpha=0.5, **colours)
    axes.set(xscale="log", yscale="log")
    axes.axvline(pair.ranks.k, color="grey", linewidth=0.8)
    axes.axhline(pair.ranks.k, color="grey", linewidth=0.8)
    if colours and last:
        axes.figure.colorbar(dots, ax=axes.figure.axes, label="tokens of the answer")
