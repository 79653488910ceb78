"""Do scores differ between the readings of the same facts? (Section 4 of Shaier et al. 2024.)"""

from __future__ import annotations

from collections.abc import Sequence

from fathom.errors import BadInput
from fathom.results.outcomes import BY_TEMPLATE, FREE, by_column, outcomes_of
from fathom.results.pairs import Paired, paired, paired_table
from fathom.results.sides import common_facts
from fathom.results.tables import Table
from fathom.store.folder import RunFolder


def ask(runs: Sequence[RunFolder], scoring: Sequence[str] = (), cluster: str = "") -> list[Paired]:
    """Template-free minus template-based, of each model and data set with a run of both.

    :raises BadInput: no model has both, no fact in common, or other candidates.
    """
    columns = by_column(outcomes_of(runs, scoring, cluster))
    found = [
        paired(free, based, common_facts([free, based]))
        for (data, reading), models in columns.items()
        if reading == FREE
        for model, free in models.items()
        if (based := columns.get((data, BY_TEMPLATE), {}).get(model)) is not None
    ]
    if not found:
        there = "; ".join(f"{data} {reading}: {', '.join(models)}" for (data, reading), models in columns.items())
        raise BadInput(
            "no model has runs of one data set in both readings: ask it with --reading template-based and with "
            f"--reading template-free (there is {there})"
        )
    return found


def tables(found: Sequence[Paired]) -> list[Table]:
    """One; between readings neither the reading nor the number of candidates, which is the same, says anything."""
    title = "the same facts, template-based and template-free"
    return [paired_table(found, FREE, BY_TEMPLATE, title, ("reading", "sizes"))]
