"""Do larger models hold more facts, by every probe? (Tables 4 and 8 of the DEER paper.)"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

from fathom.base.errors import BadInput, all_of
from fathom.results.baselines import NO_KNOWLEDGE, AccuracyChange, RunBaselines, decide_changes
from fathom.results.estimates import point_estimate
from fathom.results.facts import RunFacts, common_facts, difference
from fathom.results.loading import check_same, read_scorings, short_names
from fathom.results.rows import grouped
from fathom.results.tables import Table
from fathom.store.folder import RunFolder
from fathom.studies.options import AllScoringsOptions

CUTS = (1, 10, 100)


class Sizes(NamedTuple):
    """Rows of the runs in order of size, and for each probe and scoring the steps from each model to the next.

    Hits@k has no value where the search stopped before k, and candidates are a mean, NaN without any.
    """

    lines: list[dict[str, Any]]
    steps: list[AccuracyChange]


def analyse(runs: Sequence[RunFolder], options: AllScoringsOptions = AllScoringsOptions()) -> Sizes:
    """Order the runs of each probe by the size of their models, and compare each with the next.

    :raises BadInput: runs of several data sets, or unfinished.
    """
    check_same(runs, ("data",))
    named = zip(runs, short_names(runs), strict=True)
    read = all_of(*(partial(read_scorings, run, name, options.cluster) for run, name in named))
    sides = [(f"{side.probe} {side.scoring}", side) for scorings in read for side in scorings]
    sides.sort(key=lambda pair: (pair[0], pair[1].parameters or 0))
    pairs = [(probe, *pair) for probe, outcomes in grouped(sides).items() for pair in pairwise(outcomes)]
    lines = [
        {
            "probe": probe,
            "model": side.model,
            "parameters": side.parameters,
            **{f"hits@{k}": side.mean(f"hits@{k}", side.hits(k)) for k in CUTS},
            "candidates": side.mean_candidates,
            "queries": len(side.facts),
            "unscored": len(side.left_out),
        }
        for probe, side in sides
    ]
    return Sizes(lines, steps_between(pairs))


def steps_between(pairs: Sequence[tuple[str, RunFacts, RunFacts]]) -> list[AccuracyChange]:
    """Compare each model with the next larger one at every cut.

    Hits@1 decides: whether it changes in each step, and whether each model is above the baselines, is one family.
    """
    steps = [_step(probe, smaller, larger, k) for probe, smaller, larger in pairs for k in CUTS]
    models = {(probe, side.model): side for probe, *sides in pairs for side in sides}
    above = {key: RunBaselines(side).claim(CUTS[0], side.scored_facts) for key, side in models.items()}
    primary = {number: steps[number] for number in range(0, len(steps), len(CUTS))}
    decided, _ = decide_changes(primary, above, lambda step, model: (step.about["probe"], model))
    return [decided.get(number, step) for number, step in enumerate(steps)]


def _step(probe: str, smaller: RunFacts, larger: RunFacts, k: int) -> AccuracyChange:
    metric = f"hits@{k}"
    try:
        facts, hits = common_facts([larger, smaller]), [larger.hits(k), smaller.hits(k)]
        number = difference(metric, larger, smaller, hits, facts)
    except BadInput as error:
        number = point_estimate(str(error), form="+.1%")
    return AccuracyChange({"probe": probe, "of": metric}, smaller.model, larger.model, number)


def conclude(findings: Sizes) -> list[str]:
    primary = findings.steps[:: len(CUTS)]
    counts = Counter(step.verdict for step in primary)
    if not primary:
        return ["One model: there is no step to a larger one."]
    return [
        f"{counts['rise']} of {len(primary)} steps to a larger model raise Hits@1 significantly, "
        f"{counts['drop']} lower it."
    ]


def tables(findings: Sizes) -> list[Table]:
    note = "paired by fact; Hits@1 decides, by Holm over all steps and models; other cuts are secondary"
    columns = ("probe", "from", "to", "of", "difference", "verdict", "above baseline")
    rows, notes = [step.row for step in findings.steps], (note, NO_KNOWLEDGE)
    steps = [Table.of(rows, "from each size to the next", notes, columns=columns)] if rows else []
    # Readers see the interval of the first cut alone.
    first, *others = (f"hits@{k}" for k in CUTS)
    hidden = {"candidates", *(f"{name} {end}" for name in others for end in ("low", "high"))}
    title, formats = "growth with the size of the model", {"candidates": ",.0f"}
    table = Table.of(findings.lines, title, inline=True, hidden=hidden, formats=formats)
    return [replace(table, inline=frozenset({first})), *steps]
