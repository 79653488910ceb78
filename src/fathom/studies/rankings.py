"""Do template-based and template-free probing rank models alike? (Tables 3 and 4 of Shaier et al. 2024.)

A model's place on a data set is by Acc@1, ties by Acc@5 and then Acc@10; models still tied share their mean place.
All models of a column are compared on the facts that all of them ranked, and the two readings of a data set on those
that all ranked in both, unless each is to have its own; the others are counted and listed. Two rankings are compared by
Kendall's tau-b and Spearman's rho, with percentile intervals under resampling of what was drawn: how much the agreement
depends on which relations or facts were asked, the models being those that were chosen. Within groups of models each
step to the next larger one is a paired difference, per reading (section 4: does size help in both?).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import Literal

from fathom.errors import BadInput
from fathom.results.bars import which_above
from fathom.results.outcomes import READINGS, by_column, outcomes_of
from fathom.results.pairs import ACCURACIES
from fathom.results.sides import difference
from fathom.store.folder import RunFolder
from fathom.studies.rankings_agreement import agreements
from fathom.studies.rankings_columns import (
    ColumnHits,
    averaged,
    column_hits,
    left_out_of,
    on_common_facts,
    ranked,
)
from fathom.studies.rankings_groups import read_groups
from fathom.studies.rankings_tables import Rankings, Step, files, plots, tables

__all__ = ["Rankings", "ask", "files", "plots", "tables"]


def ask(
    runs: Sequence[RunFolder],
    scoring: Sequence[str] = (),
    cluster: str = "",
    groups: Path | None = None,
    facts: Literal["common", "own"] = "common",
) -> Rankings:
    """:param groups: file that says of each model to which group it belongs, see :func:`read_groups`.
    :param facts: of data in both readings, whether both are compared on the facts that all ranked in both.
    :raises BadInput: fewer than two models, no common facts, other candidates, a model without a group."""
    outcomes = outcomes_of(runs, scoring, cluster)
    models = list(dict.fromkeys(outcome.model for outcome in outcomes))
    if len(models) < 2:
        raise BadInput(f"a ranking needs runs of two models or more, found {models[0]} alone")
    found = {} if groups is None else read_groups(groups, {o.model: o.full_name for o in outcomes})
    grids = [
        column_hits(data, reading, {model: of_model[model] for model in models if model in of_model})
        for (data, reading), of_model in by_column(outcomes).items()
    ]
    if facts == "common":
        grids = on_common_facts(grids)
    columns = [ranked(grid) for grid in grids]
    for reading in READINGS:
        columns += averaged([grid for grid in grids if grid.reading == reading], reading)
    left_out = [one for grid in grids for one in left_out_of(grid)]
    return Rankings(columns, agreements(grids, found), found, left_out, _steps(grids, found))


def _steps(grids: Sequence[ColumnHits], groups: Mapping[str, str]) -> list[Step]:
    """Within groups, models in order of their parameters; those of which the run does not say are passed over."""
    found = []
    for grid, group in product(grids, dict.fromkeys(groups.values())):
        sized = [
            (size, model)
            for model, outcome in grid.outcomes.items()
            if groups[model] == group and (size := outcome.parameters) is not None
        ]
        for (least, smaller), (most, larger) in pairwise(sorted(sized)):
            if least < most:
                one, other = grid.outcomes[larger], grid.outcomes[smaller]
                hits = [one.hits(1), other.hits(1)]
                number = difference(ACCURACIES[0], [(1, one), (-1, other)], hits, list(grid.facts))
                first, second = (grid.bars[model].strongest(1, grid.facts) for model in (smaller, larger))
                above = which_above(first, second, (smaller, larger))
                found.append(Step(grid.data, grid.reading, group, smaller, larger, number, above))
    return found
