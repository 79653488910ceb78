"""Small examples of extensions: a probe, a format, a metric and a study (docs/howto/extend.md).

The entry points are in the pyproject.toml of this folder. Once installed, they appear on the command line.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fathom.base.reading import Faults
from fathom.data.formats import Format
from fathom.data.queries import CandidateSet, Query, QuerySet, Relation
from fathom.data.templates import Template
from fathom.engine.scoring.rows import PromptedQuery, score_columns
from fathom.probes import Entry
from fathom.probes.base import Probe
from fathom.probes.options import ProbeOptions
from fathom.results.estimates import Estimate, mean
from fathom.results.loading import read_all_facts
from fathom.results.metrics.table import Metric
from fathom.results.tables import Table
from fathom.store.folder import RunFolder
from fathom.store.predictions import NO_TEMPLATE, Scoring
from fathom.studies import Study
from fathom.studies.options import RunsOptions

# --- a probe: the shorter the name, the higher its rank


class BrevityOptions(ProbeOptions):
    """Options of the toy probe: those of every probe."""


class Brevity(Probe):
    """Ranks candidates by the brevity of their names, regardless of the query. A useful probe beats it."""

    scorings = (Scoring("brevity", "score"),)

    def __init__(self, options: BrevityOptions, model: Any, queryset: QuerySet) -> None:
        self.options, self.model, self.queryset = options, model, queryset

    def plan(self) -> list[str]:
        return ["all"]

    def evaluate(self, shard: str) -> list[dict[str, Any]]:
        return [row for query in self.queryset.queries for row in self._rows(query)]

    def _rows(self, query: Query) -> list[dict[str, Any]]:
        space = self.queryset.candidates[query.candidates]
        scores = np.array([-float(len(name)) for name in space.names])
        answer = score_columns(query, space, scores, [1] * len(query.gold), [1] * len(space), top_k=10)
        return PromptedQuery(query, NO_TEMPLATE, None, len(space)).rows(self.scorings, [answer])


PROBE = Entry(
    "brevity",
    "fathom_toys:BrevityOptions",
    "fathom_toys:Brevity",
    "Rank candidates by the brevity of their names.",
    "fathom probe brevity --model gpt2 --data geography --out runs/brevity",
)

# --- a format: a line "country: capital" for each fact


def _read_capitals(path: Path, faults: Faults) -> QuerySet | None:
    pairs = []
    for line, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        country, colon, capital = text.partition(": ")
        if not colon:
            faults.add(path, line, f"expected 'country: capital', found {text!r}")
        pairs.append((country, capital))
    answers = tuple(dict.fromkeys(capital for _, capital in pairs))
    queries = tuple(
        Query(f"capital/{number}", "capital", country, country, (capital,), "capital")
        for number, (country, capital) in enumerate(pairs)
    )
    relation = Relation("capital", "capital", (Template("The capital of [X] is [Y]."),), "1:1")
    return QuerySet(path.stem, queries, {"capital": CandidateSet("capital", answers, answers)}, {"capital": relation})


FORMAT = Format("capitals", "a .capitals file", lambda path: path.suffix == ".capitals", _read_capitals)

# --- a metric: half a point for a gold answer in second place

METRIC = Metric("hits@2-or-half", lambda items: (items.hits(1) + items.hits(2)) / 2, ".1%")

# --- a study: are some relations easier than others?


def analyse(runs: Sequence[RunFolder], options: RunsOptions) -> list[tuple[str, str, Estimate]]:
    """Accuracy of each relation of each run."""
    estimates = []
    for outcome in read_all_facts(runs, options.scoring, options.cluster):
        hits = outcome.hits(1)
        for relation in sorted(set(outcome.relations)):
            facts = [fact for fact, own in zip(outcome.facts, outcome.relations, strict=True) if own == relation]
            scored = [fact for fact in facts if fact not in outcome.left_out]
            made = f"{outcome.recipe('accuracy')}|relation:{relation}"
            estimates.append((outcome.model, relation, mean(hits[outcome.at(scored)], outcome.sample(scored), made)))
    return estimates


def tables(findings: Sequence[tuple[str, str, Estimate]]) -> list[Table]:
    """One table, with a row per model and relation."""
    return [Table.of(findings, "by relation", columns=("model", "relation", "accuracy"))]


STUDY = Study(
    "easy-relations",
    "How do models compare?",
    "Are some relations easier than others?",
    "runs",
    "fathom_toys",
    "easy-relations runs/gpt2",
)
