"""Do two probes agree? What :mod:`fathom.results.agreements` finds of two runs, with a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fathom.errors import BadInput
from fathom.results.agreements import WITHIN, Agreement, agreement
from fathom.results.claims import Claim, Contrast, decide, sentences
from fathom.results.estimates import Estimate
from fathom.results.facts import outcome_of
from fathom.results.names import short_names
from fathom.results.plots import Plot
from fathom.results.tables import Table
from fathom.store.folder import RunFolder


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
    return agreement(one, other, k)


def answer(found: Agreement) -> list[str]:
    """Whether the probes agree within relations."""
    name = f"{found.first} and {found.second}, correlation of {WITHIN}"
    return sentences(decide([Claim(name, (Contrast("correlation", found.within),))]), is_share=False)


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
    shares = (
        (hit, hit, found.both_hit),
        (miss, miss, found.both_miss),
        (hit, miss, found.only_first),
        (miss, hit, found.only_second),
    )
    names = (found.first, found.second, "share")
    return [
        correlations_table(f"{found.first} and {found.second}", lines, notes),
        Table.of([dict(zip(names, row, strict=True)) for row in shares], "quadrants"),
    ]


def correlations_table(title: str, lines: Sequence[tuple[str, Estimate]], notes: Sequence[str]) -> Table:
    """:param lines: what is correlated, and how."""
    return Table.of(
        [{"of": name, "Pearson r": number, "facts": number.n} for name, number in lines], title, notes, hidden=["p"]
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
