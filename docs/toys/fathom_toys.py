"""Small examples of extensions: a probe, a format, a metric, a study, a link predictor and a builder of data sets.

See docs/howto/extend.md. The entry points are in the pyproject.toml of this folder. Once installed, they appear on the
command line.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel

from fathom.base.options import opt
from fathom.base.progress import Progress
from fathom.base.reading import Faults
from fathom.data.formats.base import Format
from fathom.data.formats.native import write_native
from fathom.data.graph.links import Links, training_links
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.options import NewFolder
from fathom.data.queries import CandidateSet, Query, QuerySet, Relation
from fathom.data.templates import Template
from fathom.engine.models.base import Identity
from fathom.engine.scoring.rows import PromptedQuery, score_columns
from fathom.probes import Entry
from fathom.probes.base import Probe
from fathom.probes.options import ProbeOptions
from fathom.results.estimates import Estimate, mean
from fathom.results.loading import read_all_facts
from fathom.results.metrics.table import Metric
from fathom.results.tables import Table
from fathom.store.folder import RunFolder
from fathom.store.outputs import signature_of, whole_folder
from fathom.store.predictions import NO_TEMPLATE, Scoring
from fathom.studies import Study
from fathom.studies.options import RunsOptions
from fathom_build.command import Builder, Output
from fathom_kgc.links import Kind
from fathom_kgc.links.base import Line, Predictor
from fathom_kgc.links.options import LinkTraining

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

# --- a link predictor without training: the more often an entity is the answer of a relation, the higher its rank


class PopularOptions(LinkTraining):
    """Options of the toy link predictor: those of every link predictor."""


class Popular(Predictor):
    """Counts how often each entity answers a relation in training, in each direction. A useful predictor beats it."""

    scoring = Scoring("popularity", "score")

    def __init__(
        self, graph: KnowledgeGraph, options: PopularOptions, source: Path | None, device: torch.device
    ) -> None:
        super().__init__(graph, options, source, device)
        self.network, self.identity = torch.nn.Identity(), Identity("none", None, "float32", "0")
        self.counts = torch.zeros(2 * len(graph.relations), len(graph.entities))
        questions = training_links(graph, np.arange(2 * len(graph.training)))
        rows, answers = self._rows(questions), torch.from_numpy(questions.gold)
        self.counts.index_put_((rows, answers), torch.ones(len(rows)), accumulate=True)

    def train(self, folder: Path, progress: Progress) -> Line:
        """Do nothing: the constructor counts."""
        return {"why": "counted"}

    def load(self, folder: Path) -> None:
        """Do nothing: there are no weights."""

    def scores(self, links: Links) -> torch.Tensor:
        return self.counts[self._rows(links)]

    def _rows(self, links: Links) -> torch.Tensor:
        return torch.from_numpy(links.relation + len(self.graph.relations) * links.inverse)


KIND = Kind("popular", "fathom_toys:PopularOptions", "fathom_toys:Popular", "the most frequent answers")

# --- a builder: a data set of the letters and what follows them


class AlphabetOptions(BaseModel):
    """Options of ``fathom build alphabet``."""

    out: NewFolder
    letters: int = opt(26, "How many letters to ask about.", ge=3, le=26)


def alphabet(options: AlphabetOptions, progress: Progress) -> Output:
    """Make a data set of the letters of the alphabet, each with the one that follows it."""
    letters = ascii_lowercase[: options.letters]
    facts = [{"subject": first, "relation": "next", "answer": second} for first, second in pairwise(letters)]
    with whole_folder(options.out, signature_of("build alphabet", {"letters": options.letters})) as folder:
        write_native(folder, facts, [{"relation": "next", "templates": ["After the letter [X] comes [Y]."]}])
    return Output(text=f"{len(facts)} facts in {options.out}")


BUILDER = Builder(alphabet, "fathom build alphabet --out letters")
