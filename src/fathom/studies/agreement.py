"""Do two probes agree? :mod:`fathom.results.agreements` of two runs, with a plot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fathom.errors import BadInput
from fathom.results.agreements import WITHIN, Agreement, agreement
from fathom.results.claims import Claim, Contrast, decide, sentences
from fathom.results.estimates import Estimate
from fathom.results.loading import read_facts
from fathom.results.names import short_names
from fathom.results.plots import Plot
from fathom.results.tables import Table
from fathom.store.folder import RunFolder


def analyse(runs: Sequence[RunFolder], scoring: Sequence[str] = (), k: int = 10, cluster: str = "") -> Agreement:
    """Compare the ranks of two probes.

    :param runs: two; the same one twice for two of its scorings.
    :param scoring: of both runs, or one for each.
    :raises BadInput: the runs have no fact in common or different candidates, or are the same.
    """
    if len(runs) != 2:
        raise BadInput(f"two probes are compared, with a run of each: found {len(runs)}")
    if len(scoring) > 2:
        raise BadInput(f"--scoring {','.join(scoring)}: expected one for both runs, or one for each")
    scorings = [[name] for name in scoring] or [[]]
    if runs[0].path.resolve() == runs[1].path.resolve() and scorings[0] == scorings[-1]:
        raise BadInput(f"{runs[0].path} is both runs: give two, or two of its scorings (--scoring A,B)")
    first, second = (
        read_facts(run, wanted, name, cluster)
        for run, wanted, name in zip(runs, (scorings[0], scorings[-1]), short_names(runs), strict=True)
    )
    return agreement(first, second, k)


def conclude(findings: Agreement) -> list[str]:
    """Say whether the probes agree within relations."""
    name = f"{findings.first} and {findings.second}, correlation of {WITHIN}"
    return sentences(decide([Claim(name, (Contrast("correlation", findings.within),))]), is_share=False)


def tables(findings: Agreement) -> list[Table]:
    """Return correlations, and quadrants of hits and misses."""
    hit, miss = f"hit@{findings.k}", f"miss@{findings.k}"
    excluded = f"{findings.left_out} facts that one of the two could not rank are excluded"
    stopped = (
        f"{findings.stopped} facts are only known to rank beyond --max-rank: they are misses in the quadrants; "
        "correlations need every rank, run again without --max-rank"
    )
    notes = [note for count, note in ((findings.left_out, excluded), (findings.stopped, stopped)) if count]
    lines = [("log10 rank", findings.log_ranks), (WITHIN, findings.within), ("rank", findings.ranks)]
    quadrants = [
        (hit, hit, findings.both_hit),
        (miss, miss, findings.both_miss),
        (hit, miss, findings.only_first),
        (miss, hit, findings.only_second),
    ]
    return [
        correlations_table(f"{findings.first} and {findings.second}", lines, notes),
        Table.of(quadrants, "quadrants", columns=(findings.first, findings.second, "share")),
    ]


def correlations_table(title: str, lines: Sequence[tuple[str, Estimate]], notes: Sequence[str]) -> Table:
    """Return a row for each named correlation."""
    rows = [(name, number, number.n) for name, number in lines]
    return Table.of(rows, title, notes, columns=("of", "Pearson r", "facts"), hidden=["p"])


def files(findings: Agreement) -> dict[str, Table]:
    """Return the ranks of every fact."""
    return {"agreement-ranks": Table(("fact", findings.first, findings.second), tuple(findings.points), "ranks")}


def plots(findings: Agreement) -> list[Plot]:
    """Draw every fact by its two ranks on logarithmic axes, with lines at rank *k* (figure 7 of the DEER paper)."""

    def draw(axes: Any) -> None:
        axes.scatter([x for _, x, _ in findings.points], [y for _, _, y in findings.points], s=6, alpha=0.5)
        axes.set(xscale="log", yscale="log")
        axes.axvline(findings.k, color="grey", linewidth=0.8)
        axes.axhline(findings.k, color="grey", linewidth=0.8)

    axes = (f"rank by {findings.first}", f"rank by {findings.second}")
    return [Plot("agreement", draw, *axes, f"r = {findings.log_ranks.value:.3f} on log ranks")]
