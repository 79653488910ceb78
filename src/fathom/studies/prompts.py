"""How much do the embedding probe's results depend on the wording of its tail prompts? (Table 9 of the DEER paper.)"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fathom.data.queries import QuerySet
from fathom.errors import refuse
from fathom.models.base import Model
from fathom.probes.options import EmbeddingOptions
from fathom.results.claims import percent
from fathom.results.loading import check_same, read_scorings
from fathom.results.tables import Table
from fathom.store.folder import RunFolder
from fathom.studies import PlannedRun
from fathom.studies.options import PlannedOptions
from fathom.studies.sizes import HitsLine, hits_line, hits_table

TAIL_TEMPLATES = ("deer", "A", "B", "C")


def plan(options: EmbeddingOptions, model: Callable[[], Model], data: QuerySet) -> list[PlannedRun]:
    """Return a run for each published tail template."""
    return [
        PlannedRun(f"template-{name}", "embedding", options.model_copy(update={"tail_template": name}))
        for name in TAIL_TEMPLATES
    ]


def analyse(runs: Sequence[RunFolder], options: PlannedOptions = PlannedOptions()) -> list[HitsLine]:
    """Return Hits@k of each run. :raises BadInput: runs of several models or data sets."""
    check_same(runs, ("model", "data"))
    refuse(
        f"{run.path} is of the {probe} probe: expected runs of the embedding probe"
        for run in runs
        if (probe := run.manifest["identity"]["probe"]) != "embedding"
    )
    names = [f"template {run.manifest['identity']['options'].get('tail_template')}" for run in runs]
    return [
        hits_line(facts)
        for run, name in zip(runs, names, strict=True)
        for facts in read_scorings(run, name, options.cluster)
    ]


def conclude(findings: Sequence[HitsLine]) -> list[str]:
    best, worst = (choose(findings, key=lambda line: line.hits[0].value) for choose in (max, min))
    if len({line.hits[0].value for line in findings}) == 1:
        return [f"Hits@1 is {percent(best.hits[0].value)} by every tail prompt."]
    ends = f"{percent(worst.hits[0].value)} ({worst.name}) to {percent(best.hits[0].value)} ({best.name})"
    return [f"Hits@1 is {ends}, depending on the tail prompt."]


def tables(findings: Sequence[HitsLine]) -> list[Table]:
    """Return one table."""
    return [hits_table("embedding probe by tail prompt", findings)]
