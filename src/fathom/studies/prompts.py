"""How much do the embedding probe's results depend on the wording of its tail prompts? (Table 9 of the DEER paper.)"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fathom.data.queries import QuerySet
from fathom.models.base import Model
from fathom.probes.options import EmbeddingOptions
from fathom.results.claims import percent
from fathom.results.loading import read_scorings
from fathom.results.tables import Table
from fathom.run import run
from fathom.studies import Announce
from fathom.studies.sizes import HitsLine, hits_line, hits_table

TAIL_TEMPLATES = ("deer", "A", "B", "C")


def analyse(model: Model, data: QuerySet, options: EmbeddingOptions, out: Path, announce: Announce) -> list[HitsLine]:
    """Run the embedding probe with each published tail template, each run in its own folder below *out*."""
    lines: list[HitsLine] = []
    for template in TAIL_TEMPLATES:
        name, chosen = f"template {template}", options.model_copy(update={"tail_template": template})
        folder = run("embedding", model, data, chosen, out / name.replace(" ", "-"), announce(name))
        lines += map(hits_line, read_scorings(folder, name, options.cluster))
    return lines


def conclude(findings: Sequence[HitsLine]) -> list[str]:
    """State the range of Hits@1 over prompts."""
    best, worst = (choose(findings, key=lambda line: line.hits[0].value) for choose in (max, min))
    ends = f"{percent(worst.hits[0].value)} ({worst.name}) to {percent(best.hits[0].value)} ({best.name})"
    return [f"Hits@1 is {ends}, depending on the tail prompt."]


def tables(findings: Sequence[HitsLine]) -> list[Table]:
    """Return one table."""
    return [hits_table("embedding probe by tail prompt", findings)]
