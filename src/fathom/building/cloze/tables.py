"""Tables of what was built, and of what reviewers found."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.building.cloze.build import Built
from fathom.building.cloze.review import Judged
from fathom.results.tables import Table


def built_tables(built: Built) -> list[Table]:
    """What was left after each step, and how often entities occur."""
    types = list(built.steps[-1].by_type or {})
    several = types if len(types) > 1 else []
    steps = tuple(
        (step.what, step.dropped or None, step.left, *((step.by_type or {}).get(type_) for type_ in several))
        for step in built.steps
    )
    frequencies = tuple((f.type, f.sentences, f.entities, f.mean, f.sd, f.most, f.least) for f in built.frequencies)
    return [
        Table(("step", "left out", "left", *several), steps, "from records to sentences"),
        Table(
            ("type", "sentences", "entities", "mean", "sd", "max", "min"),
            frequencies,
            "sentences per entity",
            formats=dict.fromkeys(("mean", "sd"), ".2f"),
        ),
    ]


def review_table(found: Sequence[Judged]) -> Table:
    columns = ["type", "sentences"]
    for number in (1, 2):
        columns += [f"judged by {number}", f"factual by {number}", f"low {number}", f"high {number}"]
    rows = []
    for line in found:
        cells = [cell for n, share in zip(line.judged, line.factual, strict=True) for cell in (n, *share)]
        rows.append((line.type, line.sentences, *cells, line.mean, line.both, line.agreed, line.kappa))
    shares = [*(column for column in columns if column.split()[0] in ("factual", "low", "high")), "mean", "agreed"]
    return Table(
        (*columns, "mean", "judged by both", "agreed", "kappa"),
        tuple(rows),
        "judgements of the reviewers",
        formats=dict.fromkeys(shares, ".1%") | {"kappa": ".3f"},
        notes=("factual: share of those judged, with Wilson's interval; kappa: Cohen's, over those judged by both",),
    )
