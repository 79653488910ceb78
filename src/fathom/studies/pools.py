"""How much does a larger answer pool cost? (Table 6 of Shaier et al. 2024.)"""

from __future__ import annotations

from collections.abc import Sequence

from fathom.errors import refuse
from fathom.results.outcomes import outcomes_of
from fathom.results.pairs import Paired, paired, paired_table, pool_size
from fathom.results.rows import grouped
from fathom.results.sides import common_facts
from fathom.results.tables import Table
from fathom.store.folder import RunFolder


def ask(runs: Sequence[RunFolder], scoring: Sequence[str] = (), cluster: str = "") -> list[Paired]:
    """Each larger answer pool minus the smallest, of each model, data set and reading.

    :raises BadInput: nothing was asked with two pools.
    """
    outcomes = outcomes_of(runs, scoring, cluster)
    alike = grouped(((outcome.model, outcome.data, outcome.reading), outcome) for outcome in outcomes)
    found, faults = [], []
    for own in alike.values():
        smallest, *larger = sorted(own, key=pool_size)
        if not larger:
            faults.append(
                f"{smallest.path} is the only run of {smallest.model} on {smallest.data}, {smallest.reading}: "
                "ask again with --add-candidates FILE or another --pool"
            )
        for other in larger:
            facts = common_facts([other, smallest], same_candidates=False)
            spaces = [[side.spaces[place] for place in side.at(facts).tolist()] for side in (other, smallest)]
            if spaces[0] == spaces[1]:
                faults.append(
                    f"{smallest.path} and {other.path} were asked with the same candidates: nothing to compare"
                )
            else:
                found.append(paired(other, smallest, facts))
    refuse(faults)
    return found


def tables(found: Sequence[Paired]) -> list[Table]:
    """One."""
    return [paired_table(found, "modified", "original", "the same facts among more candidates")]
