"""Do template-based and template-free probing rank models alike? (Tables 3 and 4 of Shaier et al. 2024.)

A model's place on a data set is by Acc@1, ties by Acc@5 and then Acc@10; models still tied share their mean place.
All models of a column are compared on the facts that all of them ranked, and the two readings of a data set on those
that all ranked in both, unless each is to have its own; the others are counted and listed. Two rankings are compared by
Kendall's tau-b and Spearman's rho. The bounds of tau come from the pairs of models: one whose order is significant in
both readings is concordant or discordant, any other may be either. Within groups of models each step to the next larger
one is a paired difference, per reading (section 4: does size help in both?).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import Literal

from fathom.errors import BadInput
from fathom.results.baselines import which_is_above
from fathom.results.claims import Claim, Contrast, decide
from fathom.results.facts import ACCURACIES, READINGS
from fathom.results.loading import by_column, outcomes_of
from fathom.results.pairing import difference
from fathom.store.folder import RunFolder
from fathom.studies.rankings_agreement import agreements
from fathom.studies.rankings_columns import (
    Column,
    ColumnHits,
    averaged,
    column_hits,
    left_out_of,
    on_common_facts,
    ranked,
)
from fathom.studies.rankings_groups import read_groups
from fathom.studies.rankings_tables import Rankings, Step, conclude, files, plots, tables

__all__ = ["Rankings", "analyse", "conclude", "files", "plots", "tables"]


def analyse(
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
    steps = _steps(grids, found)
    columns, steps = _decided(columns, steps, grids)
    for reading in READINGS:
        columns += averaged([grid for grid in grids if grid.reading == reading], reading)
    left_out = [one for grid in grids for one in left_out_of(grid)]
    return Rankings(columns, agreements(grids, found), found, left_out, steps)


def _decided(
    columns: Sequence[Column], steps: Sequence[Step], grids: Sequence[ColumnHits]
) -> tuple[list[Column], list[Step]]:
    """Decide as one family: which models are above the baselines, and which steps to a larger model change accuracy."""
    above = [
        (grid.data, grid.reading, model, grid.baselines[model].claim(1, grid.facts))
        for grid in grids
        for model in grid.models
    ]
    changes = [Claim(f"{step.larger} − {step.smaller}", (Contrast(ACCURACIES[0], step.difference),)) for step in steps]
    decisions = decide([*(claim for *_, claim in above if claim is not None), *changes])
    rest = iter(decisions)
    is_above = {key: None if claim is None else next(rest) for *key_, claim in above for key in [tuple(key_)]}
    of_steps = list(rest)
    made = [
        column._replace(
            scores=[
                score._replace(decision=is_above[column.data, column.reading, score.model]) for score in column.scores
            ]
        )
        for column in columns
    ]
    told = []
    for step, own in zip(steps, of_steps, strict=True):
        two = [is_above[step.data, step.reading, model] for model in (step.smaller, step.larger)]
        told.append(step._replace(decision=own, above=which_is_above(two, (step.smaller, step.larger))))
    return made, told


def _steps(grids: Sequence[ColumnHits], groups: Mapping[str, str]) -> list[Step]:
    """Within groups, models in order of their parameters; those whose run does not record them are skipped."""
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
                number = difference(ACCURACIES[0], [(1, one), (-1, other)], [one.hits(1), other.hits(1)], grid.facts)
                found.append(Step(grid.data, grid.reading, group, smaller, larger, number))
    return found
