"""The embedded default: plant half of the geography facts in two small models and see whether the probe can tell."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fathom.data.queries import QuerySet
from fathom.metrics.bootstrap import Interval, interval
from fathom.metrics.ranking import hits_at_k
from fathom.models.loading import load
from fathom.probes.options import StatementOptions
from fathom.run import run
from fathom.store.folder import RunFolder
from fathom.training.options import PlantOptions
from fathom.training.planting import frequency_baseline, plant

ASKED = {"causal": None, "masked": 320}
"""How many of the facts each kind is asked, None for all: a masked model takes a pass for every token."""


class Line(NamedTuple):
    """Accuracy of one model on one phrasing. :param phrasing: "trained on" or "never seen"."""

    kind: str
    phrasing: str
    planted: Interval
    withheld: Interval
    baseline: Interval

    @property
    def withheld_is_chance(self) -> bool:
        """Whether the withheld accuracy lies in the interval of answering by frequency."""
        return self.baseline.low <= self.withheld.estimate <= self.baseline.high


def demo(data: QuerySet, out: Path, say: Callable[[str], None]) -> list[Line]:
    """Plant, probe, compare. What is already in *out* is used again.

    :param say: told what goes on, a line at a time.
    """
    lines = []
    for kind, limit in ASKED.items():
        folder = out / f"planted-{kind}"
        options = PlantOptions(kind=kind)
        if not folder.exists():
            say(f"planting half of {len(data.queries)} facts in a small {kind} model, from scratch …")
            plant(data, options, folder)
        say(f"asking it {limit or len(data.queries)} facts, in a phrasing it was trained on and in one it was not …")
        unseen = len(next(iter(data.relations.values())).templates) - 1
        asked = StatementOptions(templates=(0, unseen), limit=limit, device="cpu")
        probed = run("statement", load(str(folder), device="cpu"), data, asked, out / f"run-{kind}")
        planted = planted_ids(folder)
        lines += [
            _line(kind, phrasing, probed, template, planted, data)
            for phrasing, template in (("trained on", 0), ("never seen", unseen))
        ]
    return lines


def planted_ids(model: Path) -> set[str]:
    """Ids of the queries whose facts a model was trained on, from the record beside it."""
    rows = map(json.loads, (model / "planted.jsonl").read_text(encoding="utf-8").splitlines())
    return {row["query_id"] for row in rows if row["planted"]}


def _line(kind: str, phrasing: str, folder: RunFolder, template: int, planted: set[str], data: QuerySet) -> Line:
    names = ("query_id", "template", "rank_optimistic", "rank_pessimistic")
    columns = zip(*(folder.predictions().column(name).to_pylist() for name in names), strict=True)
    relation = {query.id: query.relation for query in data.queries}
    hits = {
        query: float(hits_at_k(np.array([optimistic]), np.array([pessimistic]), 1)[0])
        for query, number, optimistic, pessimistic in columns
        if number == template and optimistic is not None
    }
    by_frequency = frequency_baseline(data, planted)
    baseline = {query: by_frequency[query] for query in hits}

    def accuracy(values: dict[str, float], of_planted: bool) -> Interval:
        chosen = [query for query in values if (query in planted) == of_planted]
        found, clusters = [values[query] for query in chosen], [relation[query] for query in chosen]
        return interval(np.array(found), np.array(clusters), limits=(0.0, 1.0))

    return Line(kind, phrasing, accuracy(hits, True), accuracy(hits, False), accuracy(baseline, False))
