"""Do probes agree? :mod:`fathom.results.comparison` of two runs, or of each two runs of one model on the same data.

With several models this makes tables 3, 5 and 7 and figures 8 and 10 of Jinno et al. (DEER).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

from fathom.base.errors import BadInput
from fathom.results.claims import Claim, Contrast, decide_by_name, sentences
from fathom.results.comparison import WITHIN, Agreement, agreement, refusals_table
from fathom.results.estimates import Estimate, mean_over_models
from fathom.results.facts import RunFacts, Shared
from fathom.results.loading import check_ranked, distinguished, read_facts, read_runs, short_names
from fathom.results.rows import grouped
from fathom.results.tables import Axes, Cell, Panels, Plot, Table
from fathom.store.folder import RunFolder
from fathom.studies.options import AgreementOptions

Tokens = Mapping[str, int]
PAIR = ("model", "data", "first", "second")


class ProbePair(NamedTuple):
    """Two runs.

    :param model: of both, or "one / other"; *data* likewise.
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
    """

    pairs: list[ProbePair]
    refused: list[tuple[str, ...]]
    alone: list[str]


KIND = ("probe", "scoring", "reading", "wording")


class _Side(NamedTuple):
    """:param kind: values of :data:`KIND`, which may distinguish the probe from others."""

    facts: RunFacts
    kind: tuple[str, ...]
    tokens: Tokens


def analyse(runs: Sequence[RunFolder], options: AgreementOptions = AgreementOptions()) -> Agreements:
    """Compare the ranks of any two runs, or of each two runs of one model on the same data.

    :param runs: any two, or several; one run twice for two of its scorings. Two take one scoring, or one for each.
    :raises BadInput: no pair has a fact in common and the same candidates, or two runs are the same.
    """
    reduce = partial(_side, shared=Shared())
    if len(runs) == 2:
        pairs = zip(runs, _scorings_of_two(runs, options.scoring), short_names(runs), strict=True)
        sides = [reduce(read_facts(run, scoring, name, options.cluster)) for run, scoring, name in pairs]
        facets = [sides]
    else:
        sides = read_runs(runs, options.scoring, options.cluster, reduce, without=("prompt", "top_ids"))
        facets = list(grouped(((side.facts.model, side.facts.data), side) for side in sides).values())
    kinds = list(dict.fromkeys(side.kind for side in sides))
    parts = [dict(zip(KIND, kind, strict=True)) for kind in kinds]
    names = dict(zip(kinds, distinguished(parts), strict=True))
    findings = Agreements([], [], [facet[0].facts.path for facet in facets if len(facet) == 1])
    for facet in facets:
        about = [{"kind": names[side.kind], **side.facts.distinguishing} for side in facet]
        for (first_name, left), (second_name, right) in combinations(zip(distinguished(about), facet, strict=True), 2):
            both = [(left.facts.model, right.facts.model), (left.facts.data, right.facts.data)]
            model, data = (" / ".join(dict.fromkeys(names)) for names in both)
            place = (model, data, first_name, second_name)
            try:
                found = agreement(left.facts, right.facts, options.k)
                findings.pairs.append(ProbePair(*place, found, left.tokens or right.tokens))
            except BadInput as error:
                findings.refused.append((*place, str(error)))
    if not findings.pairs:
        none = "no two of the runs are of one model on the same data: give a run of each of two probes"
        raise BadInput([why for *_, why in findings.refused] or none)
    return findings


def _scorings_of_two(runs: Sequence[RunFolder], scoring: Sequence[str]) -> list[list[str]]:
    if len(scoring) > 2:
        raise BadInput(f"--scoring {','.join(scoring)}: expected one for both runs, or one for each")
    scorings = [[name] for name in scoring] or [[]]
    if runs[0].path.resolve() == runs[1].path.resolve() and scorings[0] == scorings[-1]:
        raise BadInput(f"{runs[0].path} is both runs: give two, or two of its scorings (--scoring A,B)")
    return [scorings[0], scorings[-1]]


def _side(facts: RunFacts, shared: Shared) -> _Side:
    """Keep what a comparison needs of a run. :raises BadInput: it has no ranks."""
    check_ranked(facts)
    tokens = {fact: number for fact, (_, number) in facts.best_golds().items() if number is not None}
    kind = tuple(facts.distinguishing[name] for name in KIND)
    return _Side(facts.release([], shared), kind, tokens)


def conclude(findings: Agreements) -> list[str]:
    claims = [
        Claim(
            f"{pair.model}, {pair.data}, {pair.first} and {pair.second}, correlation of {WITHIN}",
            (Contrast("correlation", pair.ranks.within),),
        )
        for pair in findings.pairs
    ]
    return sentences(decide_by_name(claims).values(), is_share=False)


def tables(findings: Agreements) -> list[Table]:
    ranks = [pair.ranks for pair in findings.pairs]
    left_out, stopped = sum(numbers.left_out for numbers in ranks), sum(numbers.stopped for numbers in ranks)
    together = ", all pairs together" if len(ranks) > 1 else ""
    notes = {
        "r: Pearson's correlation of log10 ranks; r within: of these minus the mean of their relation; p in CSV and "
        "JSON: of each r by itself, not adjusted for the number of pairs": True,
        f"{left_out} facts that one of the two could not rank are excluded{together}": left_out,
        f"{stopped} facts{together} are only known to rank beyond --max-rank: they are misses in the quadrants; "
        "correlations need every rank, run again without --max-rank": stopped,
        f"excluded, without another run of the same model and data: {', '.join(findings.alone)}": findings.alone,
    }
    shown, hit = [note for note, applies in notes.items() if applies], f"hit: a rank up to {ranks[0].k}"
    correlations, quadrants = ([getattr(numbers, part) for numbers in ranks] for part in ("correlations", "quadrants"))
    return [
        Table.of(
            _rows(findings.pairs, correlations), "agreement of probes", shown, main="r", inline=True, hidden=["p"]
        ),
        Table.of(_rows(findings.pairs, quadrants), "quadrants", [hit], main="both hit", inline=True),
        *([refusals_table((*PAIR, "why"), findings.refused)] if findings.refused else []),
    ]


def _rows(pairs: Sequence[ProbePair], numbers: Sequence[Mapping[str, Estimate]]) -> list[dict[str, Any]]:
    """Return a row for each pair, then the means over models of each two probes on each data set."""
    rows: list[dict[str, Any]] = [
        {**{field: getattr(pair, field) for field in PAIR}, "facts": pair.ranks.both_hit.n, **cells}
        for pair, cells in zip(pairs, numbers, strict=True)
    ]
    for place, of_models in grouped((pair[1:4], cells) for pair, cells in zip(pairs, numbers, strict=True)).items():
        if len(of_models) > 1:
            means = {name: mean_over_models(name, [cells[name] for cells in of_models]) for name in of_models[0]}
            rows.append(dict(zip(PAIR, (f"mean of {len(of_models)} models", *place), strict=True)) | means)
    return rows


def files(findings: Agreements) -> dict[str, Table]:
    columns = (*PAIR, "fact", "rank by first", "rank by second", "tokens")
    rows: list[tuple[Cell, ...]] = [
        (*pair[:4], *point, pair.tokens.get(point[0])) for pair in findings.pairs for point in pair.ranks.points
    ]
    return {"agreement-ranks": Table(columns, tuple(rows), "ranks")}


def plots(findings: Agreements) -> list[Plot | Panels]:
    """Draw every fact by its two ranks on logarithmic axes, with lines at rank *k* (figure 7 of the DEER paper).

    Several pairs are panels of one picture, coloured by the number of tokens of the answer (figures 8 and 10).
    """
    lengths = [pair.tokens[fact] for pair in findings.pairs for fact, *_ in pair.ranks.points if fact in pair.tokens]
    ends = (min(lengths), max(lengths)) if lengths else (0, 0)
    panels = [
        Plot(
            "agreement",
            partial(_draw, pair, ends, pair is findings.pairs[-1]),
            f"rank by {pair.first}",
            f"rank by {pair.second}",
            f"{pair.model}, {pair.data}\nr = {pair.ranks.log_ranks.value:.3f} on log ranks",
        )
        for pair in findings.pairs
    ]
    return [Panels("agreement", panels) if len(panels) > 1 else panels[0]]


def _draw(pair: ProbePair, ends: tuple[int, int], last: bool, axes: Axes) -> None:
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
