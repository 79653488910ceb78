"""Do two probes agree? What :mod:`fathom.results.agreements` finds of two runs, with a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fathom.errors import BadInput
from fathom.results.agreements import WITHIN, Agreement, agreement
from fathom.results.claims import Claim, Contrast, decide, sentences
from fathom.results.estimates import Estimate
from fathom.results.loading import outcome_of
from fathom.results.names import short_names
from fathom.results.plots import Plot
from fathom.results.tables import Table
from fathom.store.folder import RunFolder


def analyse(runs: Sequence[RunFolder], scoring: Sequence[str] = (), k: int = 10, cluster: str = "") -> Agreement:
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
    return agreement(one, other, k)


def conclude(findings: Agreement) -> list[str]:
    """Whether the probes agree within relations."""
    name = f"{findings.first} and {findings.second}, correlation of {WITHIN}"
    return sentences(decide([Claim(name, (Contrast("correlation", findings.within),))]), is_share=False)


def tables(findings: Agreement) -> list[Table]:
    """Correlations, and quadrants of hits and misses."""
    hit, miss = f"hit@{findings.k}", f"miss@{findings.k}"
    counted = (
        (findings.left_out, "that one of the two could not rank are left out"),
        (
            findings.stopped,
            "are only known to rank beyond --max-rank: they are misses in the quadrants; correlations need every rank, "
            "ask again without --max-rank",
        ),
    )
    notes = [f"{count} facts {what}" for count, what in counted if count]
    lines = [("log10 rank", findings.log_ranks), (WITHIN, findings.within), ("rank", findings.ranks)]
    shares = (
        (hit, hit, findings.both_hit),
        (miss, miss, findings.both_miss),
        (hit, miss, findings.only_first),
        (miss, hit, findings.only_second),
    )
    names = (findings.first, findings.second, "share")
    return [
        correlations_table(f"{findings.first} and {findings.second}", lines, notes),
        Table.of([dict(zip(names, row, strict=True)) for row in shares], "quadrants"),
    ]


def correlations_table(title: str, lines: Sequence[tuple[str, Estimate]], notes: Sequence[str]) -> Table:
    """:param lines: what is correlated, and how."""
    return Table.of(
        [{"of": name, "Pearson r": number, "facts": number.n} for name, number in lines], title, notes, hidden=["p"]
    )


def files(findings: Agreement) -> dict[str, Table]:
    """The ranks of every fact."""
    return {"agreement-ranks": Table(("fact", findings.first, findings.second), tuple(findings.points), "ranks")}


def plots(findings: Agreement) -> list[Plot]:
    """Every fact by its two ranks, both axes logarithmic; the lines stand at rank *k* (figure 7 of the DEER paper)."""

    def draw(axes: Any) -> None:
        axes.scatter([x for _, x, _ in findings.points], [y for _, _, y in findings.points], s=6, alpha=0.5)
        axes.set(xscale="log", yscale="log")
        axes.axvline(findings.k, color="grey", linewidth=0.8)
        axes.axhline(findings.k, color="grey", linewidth=0.8)

    axes = (f"rank by {findings.first}", f"rank by {findings.second}")
    return [Plot("agreement", draw, *axes, f"r = {findings.log_ranks.value:.3f} on log ranks")]
