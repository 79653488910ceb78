"""The predictions of a run as arrays, joined with their queries: the basis of every summary."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fathom.base.errors import BadInput
from fathom.base.reading import shown
from fathom.data.queries import ENTITIES, are_codes
from fathom.results.metrics.confidence import Confidence, confidences
from fathom.results.metrics.ranking import (
    consistency,
    finest_rank,
    known_hits_at_k,
    reciprocal_mean_rank,
    reciprocal_rank,
)
from fathom.results.metrics.table import Metric
from fathom.results.samples import QUERY, RELATION, Origin, Sample, check_key, drawn
from fathom.store.folder import RunFolder

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
DIRECTION = "direction"
NONE = "(none)"
"""Value of a key for queries that have none."""
Key = TypeVar("Key")
Value = TypeVar("Value")

_RANKS = ("rank", "rank_above", "rank_optimistic", "rank_pessimistic")
_CREDIT = ("correct", "precision", "recall")
_OTHERS = ("query_id", "template", "scoring", "num_candidates", "not_ranked", "unscored")
_PROMPT = ("prompt_log_prob", "prompt_tokens")
_EARLIER = dict.fromkeys(("subject_id", "known", "distances", "frequency_optimistic", "frequency_pessimistic"))
_EARLIER |= dict.fromkeys(("filtered", "sentences"), 0)
"""Values of columns that queries of earlier versions lack."""
_NUMBER = re.compile(r"(?<!\S)\d+(?![^\s,;]| has no name)")  # not in a name as in P36, nor an id of digits


def _interned(values: Iterable[Any]) -> list[Any]:
    """Store equal texts once, also those of several runs of the same facts."""
    return [sys.intern(value) if type(value) is str else value for value in values]


def grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """Return the values of each key; both in order of appearance."""
    groups: dict[Key, list[Value]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def alike_reasons(reasons: Mapping[str, int]) -> list[tuple[str, int]]:
    """Count reasons, those that differ only in numbers as one with their range: "of 101 to 125 tokens"."""
    groups = grouped((tuple(_NUMBER.split(why)), why) for why in reasons)
    together = []
    for words, whys in groups.items():
        ends = [sorted(numbers, key=int) for numbers in zip(*map(_NUMBER.findall, whys), strict=True)]
        ranges = [low if low == high else f"{low} to {high}" for low, *_, high in ([own[0], *own] for own in ends)]
        text = words[0] + "".join(both + rest for both, rest in zip(ranges, words[1:], strict=True))
        together.append((text, sum(map(reasons.__getitem__, whys))))
    return sorted(together, key=lambda line: -line[1])


def split_values(key: str, text: str | None) -> list[str]:
    """Split a query's text under a key into its values: "A; B" counts in A and in B."""
    if key in (RELATION, DIRECTION):
        return [text or NONE]
    values = [value.strip() for value in (text or "").split(";")]
    return list(dict.fromkeys(value for value in values if value)) or [NONE]


def best_gold(scores: Sequence[float | None] | None) -> int:
    """Return the index of the gold answer with the best score; 0 if no score was recorded."""
    known = {place: score for place, score in enumerate(scores or ()) if score is not None and not np.isnan(score)}
    return max(known, key=known.__getitem__, default=0)


class Rows:
    """One entry per prediction (query, template, scoring) in arrays of shape (n); NaN where there is no number.

    ``natural``: queries have their own sentences, which the column ``template`` counts.

    :raises BadInput: predictions and queries of the run contradict each other; queries without the cluster key.
    """

    def __init__(
        self, run: RunFolder, with_scores: bool = True, cluster: str = "", without: Collection[str] = ()
    ) -> None:
        """:param with_scores: False does not read the scores of all candidates.
        :param cluster: key by which queries were drawn together; see :mod:`fathom.results.samples`.
        :param without: further columns of the predictions not to read, if *with_scores* is False."""
        manifest = run.manifest
        self.identity: Mapping[str, Any] = manifest["identity"]
        self.declared = read_declarations(manifest)
        self.descriptions = manifest.get("circumstances", {}).get("descriptions")
        self.candidates = run.candidates()
        self.table = run.predictions() if with_scores else run.predictions(without=("scores", *without))
        self.cluster = cluster
        self._read_queries(run.queries())
        check_key(cluster, chain.from_iterable(self.groups))
        if unknown := sorted({space for space in self.spaces if space is not None} - self.candidates.keys()):
            raise BadInput(f"{run.path / 'candidates.parquet'} lacks the set {unknown[0]!r}: make the run anew")
        self._read_predictions()
        self._check(run)
        self.table = self.table.drop_columns(
            [name for name in (*_RANKS, *_CREDIT, *_OTHERS, *_PROMPT) if name in self.table.column_names]
        )
        self.templates: tuple[int, ...] = ()
        """Templates to take; all by default."""
        self._places: dict[str, Ints] = {}
        self._columns: dict[str, tuple[Floats, ...]] = {}

    def _read_queries(self, table: pa.Table) -> None:
        columns: dict[str, list[Any]] = {name: [value] * len(table) for name, value in _EARLIER.items()}
        columns |= {name: _interned(column) for name, column in table.to_pydict().items()}
        self.query_ids: list[str] = columns["query_id"]
        self.fact_ids: list[str | None] = columns["fact_id"]
        self.relations = [relation or "" for relation in columns["relation"]]
        self.directions: list[str | None] = columns["direction"]
        self.subjects: list[str | None] = columns["subject_id"]
        self.gold: list[list[str]] = [_interned(gold or ()) for gold in columns["gold"]]
        self.spaces: list[str | None] = columns["candidates"]
        self.filtered: list[int] = columns["filtered"]
        """Number of other right answers removed from each query's ranking."""
        self.known: list[list[str] | None] = columns["known"]
        """Their ids, where the scores of all candidates are stored; None if not recorded."""
        self.distances: list[list[int] | None] = columns["distances"]
        """Steps to each gold answer in the data's hierarchy, 1 for the finest; None without a hierarchy."""
        kinds = [tuple(map(tuple, groups or ())) for groups in columns["groups"]]
        parts = {kind: dict(map(_interned, kind)) for kind in set(kinds)}
        self.groups = [parts[kind] for kind in kinds]
        self.sentences: list[int | None] = columns["sentences"]
        self.natural = any(self.sentences)
        self.is_of_graph = ENTITIES in self.spaces
        self.records_frequency = "frequency_optimistic" in table.column_names
        ends = [columns[f"frequency_{end}"] for end in ("optimistic", "pessimistic")]
        self.by_frequency = np.array(ends, dtype=np.float64)
        """Rank of each query's gold answer by training frequency, before and after ties, (2, queries); NaN: unknown."""

    def _read_predictions(self) -> None:
        place = {id_: number for number, id_ in enumerate(self.query_ids)}
        ids = self.table.column("query_id").to_pylist()
        if unknown := sorted({str(id_) for id_ in ids if id_ not in place}):
            raise BadInput(
                f"the run has predictions of {len(unknown)} queries that its queries.parquet lacks, such as "
                f"{unknown[0]!r}: its files are not of one run"
            )
        self.query: Ints = np.array([place[id_] for id_ in ids], dtype=np.int64)
        self.template: Ints = self.table.column("template").fill_null(-1).to_numpy().astype(np.int64)
        self.scoring: list[str] = _interned(self.table.column("scoring").to_pylist())
        self.number_of_candidates = np.nan_to_num(self._number("num_candidates"))
        self.rank, self.above, self.optimistic, self.pessimistic = map(self._number, _RANKS)
        self.correct, self.precision, self.recall = map(self._number, _CREDIT)
        self.prompt_log_prob, self.prompt_tokens = map(self._number, _PROMPT)
        self.prompt_log_prob[~(np.isfinite(self.prompt_log_prob) & (self.prompt_tokens > 0))] = np.nan
        earlier = "not_ranked" not in self.table.column_names
        self.not_ranked: list[str | None] = [None] * len(ids) if earlier else self.table["not_ranked"].to_pylist()
        missing = np.isnan(self.optimistic) & np.isnan(self.above) & np.isnan(self.correct)
        self.reason: list[str | None] = [
            "no rank was recorded" if reason is None and nothing else reason
            for reason, nothing in zip(self.table.column("unscored").to_pylist(), missing.tolist(), strict=True)
        ]

    def _number(self, name: str) -> Floats:
        if name not in self.table.column_names:  # a run of an earlier version
            return np.full(len(self.table), np.nan)
        return np.array(self.table.column(name).to_numpy(), dtype=np.float64)

    def _check(self, run: RunFolder) -> None:
        """:raises BadInput: predictions that are repeated, missing or impossible."""
        self._check_queries(run)
        numbers = {name: number for number, name in enumerate(self.scorings)}
        keys = np.stack([self.query, self.template, [numbers[name] for name in self.scoring]])
        order = np.lexsort(keys)
        if len(again := np.flatnonzero((keys[:, order[1:]] == keys[:, order[:-1]]).all(axis=0))):
            place = int(order[again[0] + 1])
            raise BadInput(
                f"the run has two predictions of query {self.query_ids[self.query[place]]!r}, template "
                f"{self.template[place]}, scoring {self.scoring[place]}: its prediction files overlap"
            )
        missing = np.ones(len(self.query_ids), dtype=bool)
        missing[self.query] = False
        if missing.any() and run.is_complete():
            raise BadInput(
                f"{run.path / 'predictions'} lacks {np.sum(missing):,} of {len(missing):,} queries, such as "
                f"{self.query_ids[int(np.argmax(missing))]!r}, though every part is there: the run is damaged, make it "
                "anew"
            )
        most = np.where(self.number_of_candidates > 0, self.number_of_candidates, np.inf)
        for name in (*_RANKS[:1], *_RANKS[2:], *_CREDIT):
            values, least, top = self._number(name), int(name in _RANKS), most if name in _RANKS else 1
            expected = f"{least} to {'the number of candidates' if least else '1'}"
            self._refuse(run, name, np.flatnonzero((values < least) | (values > top)), expected)
        outside = (self.optimistic > self.rank) | (self.rank > self.pessimistic)
        self._refuse(run, "rank", np.flatnonzero(outside), "rank_optimistic to rank_pessimistic")
        places, values = self._entries("gold_ranks")
        self._refuse(
            run,
            "gold_ranks",
            places[self.scored[places] & ((values < 1) | (values > self._sizes[self.query[places]]))],
            "1 to the size of its set",
        )
        places, top_ids = self._entries("top_ids")
        spaces = (self._positions.get(self.spaces[query], {}) for query in self.query[places].tolist())
        foreign = [id_ not in space for id_, space in zip(top_ids.tolist(), spaces, strict=True)]
        self._refuse(run, "top_ids", places[np.array(foreign, dtype=bool)], "candidates of the query")

    def _check_queries(self, run: RunFolder) -> None:
        """:raises BadInput: a query has an impossible number of filtered answers, or rank by frequency."""
        sizes = self._sizes
        recorded = [own if known is None else len(known) for own, known in zip(self.filtered, self.known, strict=True)]
        filtered = np.array(self.filtered)
        checks = {
            "filtered": (filtered != recorded) | (filtered < 0) | (filtered > sizes),
            "frequency_optimistic and frequency_pessimistic": (self.by_frequency < 1).any(axis=0),
        }
        for name, wrong in checks.items():
            if wrong.any():
                query = self.query_ids[int(np.argmax(wrong))]
                raise BadInput(
                    f"{run.path / 'queries.parquet'}: {name} of query {query!r} cannot be: the run is damaged, make it "
                    "anew"
                )

    def _entries(self, name: str) -> tuple[Ints, npt.NDArray[Any]]:
        """Return the entries of a column of lists, and the prediction of each; none of a column that was not read."""
        if name not in self.table.column_names:
            return np.empty(0, dtype=np.int64), np.empty(0)
        lists = self.table.column(name).combine_chunks()
        return pc.list_parent_indices(lists).to_numpy(), lists.flatten().to_numpy(zero_copy_only=False)

    def _refuse(self, run: RunFolder, name: str, wrong: Ints, expected: str) -> None:
        """:raises BadInput: there are *wrong* predictions."""
        if len(wrong):
            query, value = self.query_ids[self.query[wrong[0]]], self.table.column(name)[int(wrong[0])].as_py()
            raise BadInput(
                f"{run.path / 'predictions'}: {name} of query {query!r} is {shown(value)}, expected {expected}: "
                "the run is damaged, make it anew"
            )

    # --- groups of predictions and queries

    @property
    def scorings(self) -> list[str]:
        """Names of the scorings, in order of appearance."""
        return list(dict.fromkeys(self.scoring))

    @cached_property
    def scored(self) -> npt.NDArray[np.bool_]:
        """Mask of predictions with a rank, a bound of it, or credit; shape (n)."""
        return np.array([reason is None for reason in self.reason], dtype=bool)

    def relation_of(self) -> list[str]:
        """Return the relation of each prediction, "" where it has none."""
        return [self.relations[query] for query in self.query.tolist()]

    def by_relation(self) -> dict[str, list[int]]:
        """Return the numbers of each relation's queries, in order."""
        return grouped((relation, query) for query, relation in enumerate(self.relations))

    @property
    def has_codes(self) -> bool:
        """Whether a language model scores candidates that are named by ids."""
        by_name = {NATS, "cosine"} & {self.declared.scoring(name)["unit"] for name in self.scorings}
        return bool(by_name) and any(are_codes(ids[:1000], names[:1000]) for ids, names in self.candidates.values())

    @cached_property
    def keys(self) -> list[str]:
        """Keys by which queries can be grouped."""
        return list(dict.fromkeys((RELATION, DIRECTION, *chain.from_iterable(self.groups))))

    def values_of(self, query: int, key: str) -> list[str]:
        """Return the values of a query under *key*; several for "A; B"."""
        return split_values(key, self.text_of(query, key))

    def text_of(self, query: int, key: str) -> str | None:
        if key == RELATION:
            return self.relations[query]
        return self.directions[query] if key == DIRECTION else self.groups[query].get(key)

    def of(self, scoring: str) -> Ints:
        if scoring not in self._places:
            places = np.array([place for place, name in enumerate(self.scoring) if name == scoring], dtype=np.int64)
            if self.templates:
                places = places[np.isin(self.template[places], self.templates)]
            self._places[scoring] = places
        return self._places[scoring]

    # --- sampling units

    @cached_property
    def unit(self) -> Ints:
        """First query of each query's fact; the query itself where queries are the clusters."""
        first: dict[str, int] = {}
        units = (first.setdefault(self._unit(query, self.cluster), query) for query in range(len(self.query_ids)))
        return np.array(list(units), dtype=np.int64)

    def _unit(self, query: int, cluster: str) -> str:
        fact = None if cluster == QUERY else self.fact_ids[query]
        return fact or self.query_ids[query]

    def sample(self, queries: Sequence[int]) -> Sample:
        """Return how these queries were drawn."""
        relations = [self.relations[query] for query in queries]
        subjects = [self.subjects[query] for query in queries]
        return drawn(self.cluster, relations, map(self.cluster_label, queries), subjects=subjects)

    def origin(self, query: int, cluster: str = "") -> Origin:
        """Return how one query was drawn, for values of several runs. :param cluster: key, by default the rows'."""
        key = cluster or self.cluster
        return Origin(key, self._unit(query, key), self.relations[query], self.cluster_label(query, key))

    def cluster_label(self, query: int, cluster: str = "") -> str | None:
        """Return the value of a query under the cluster key; None where it has none."""
        key = cluster or self.cluster
        labels = {RELATION: self.relations[query], "subject": self.subjects[query]}
        labels["answer"] = next(iter(self.gold[query]), None)
        return labels.get(key) or self.groups[query].get(key)

    # --- values of predictions, for the steps of :mod:`fathom.results.metrics.table`

    def columns(self, metric: Metric) -> tuple[Floats, ...]:
        """Return the values of a metric's step, computed once."""
        if metric.name not in self._columns:
            self._columns[metric.name] = metric.columns(self)
        return self._columns[metric.name]

    def hits(self, k: int) -> Floats:
        """Return expected Hits@k; NaN where the search stopped before k. Credit without ranks is Hits@1."""
        return known_hits_at_k(self.optimistic, self.pessimistic, self.above, self.correct, k)

    def reciprocal(self) -> Floats:
        """Return the expected 1 / rank under random order of ties; NaN without a rank."""
        values = np.full(len(self.rank), np.nan)
        ranked = ~np.isnan(self.rank)
        values[ranked] = reciprocal_rank(self.optimistic[ranked], self.pessimistic[ranked])
        return values

    def reciprocal_or_credit(self) -> Floats:
        """Return the expected 1 / rank, or the credit given to an answer without a rank (choice, generation)."""
        return np.where(np.isnan(self.rank), self.correct, self.reciprocal())

    def reciprocal_of_all(self) -> Floats:
        """Return 1 / mean rank of all gold answers (MRRₐ), NaN where their ranks were not recorded."""
        values = np.full(len(self.rank), np.nan)
        ranks = self.table.column("gold_ranks").to_pylist()
        places = [place for place, golds in enumerate(ranks) if golds and not np.isnan(golds).all()]
        values[places] = reciprocal_mean_rank([ranks[place] for place in places])
        return values

    @cached_property
    def finest_rank(self) -> Floats:
        """Rank of the finest gold answer without the coarser ones; NaN where ranks of all were not recorded.

        Without a hierarchy all gold answers are as fine.
        """
        ranks = zip(self.query.tolist(), self.table.column("gold_ranks").to_pylist(), strict=True)
        return np.array([finest_rank(golds or (), self.at_distance(query)) for query, golds in ranks], dtype=np.float64)

    def reciprocal_of_finest(self) -> Floats:
        """Return 1 / rank of the finest gold answer; of gold answers that are as fine as :meth:`reciprocal`, ties
        expected."""
        alike = zip(self.gold, self.distances, strict=True)
        alone = np.array([len(gold) == 1 or not steps for gold, steps in alike], dtype=bool)[self.query]
        return np.where(alone, self.reciprocal(), 1 / self.finest_rank)

    def at_distance(self, query: int, distance: int = 1) -> list[int]:
        """Return the places, among a query's gold answers, of those at a distance."""
        steps = self.distances[query] or [1] * len(self.gold[query])
        return [place for place, own in enumerate(steps) if own == distance]

    def agreeing(self) -> Floats:
        """Return the chance that all templates of the prediction's query give one answer (consistency).

        NaN where there is one template, or one of them gives no answer.
        """
        values = np.full(len(self.rank), np.nan)
        keys = zip(self.scoring, self.query.tolist(), strict=True)
        for places in grouped((key, place) for place, key in enumerate(keys)).values():
            if len(places) > 1:
                tops = [self.top_answers(place) if self.scored[place] else frozenset() for place in places]
                if all(tops):
                    values[places] = consistency([tops])
        return values

    @cached_property
    def confidence(self) -> Confidence:
        """Confidence of scored predictions by log-likelihoods of all candidates; NaN for others."""
        places = [
            place
            for place in np.flatnonzero(self.scored).tolist()
            if self.declared.scoring(self.scoring[place])["unit"] == NATS
            and len(self.scores(place))
            and self.gold_places(place)
        ]
        known = confidences([self.scores(place) for place in places], [self.gold_places(place) for place in places])
        full = Confidence(*(np.full(len(self.rank), np.nan) for _ in known))
        for array, values in zip(full, known, strict=True):
            array[places] = values
        return full

    # --- one prediction

    def asked(self, place: int) -> tuple[str, str]:
        """Return the prompt and the subject of one prediction, "" where it has none."""
        prompt, subject = (self.table.column(name)[place].as_py() or "" for name in ("prompt", "subject"))
        return prompt, subject

    def best(self, place: int) -> list[str]:
        """Return the ids of the best answers of one prediction, as many as were recorded."""
        return self.table.column("top_ids")[place].as_py() or []

    def top_answers(self, place: int) -> frozenset[str]:
        """Return the ids of the best-scored answers of one prediction, unfiltered, several if tied.

        Without the scores of all candidates, ties beyond the list of the best are unknown.
        """
        scores, space = self.scores(place), self.spaces[int(self.query[place])]
        if len(scores) and space is not None:
            ids: Sequence[str] = self.candidates[space][0]
        else:
            ids = self.best(place)
            scores = np.asarray(self.table.column("top_scores")[place].as_py() or [], float)
        return frozenset(ids[best] for best in np.flatnonzero(scores == scores.max(initial=-np.inf)).tolist())

    def gold_places(self, place: int) -> list[int]:
        """Return the positions of the gold answers among the candidates of one prediction."""
        return self.candidate_places(place, self.gold[int(self.query[place])])

    def candidate_places(self, place: int, ids: Iterable[str]) -> list[int]:
        """Return the positions of ids among the candidates of one prediction; others are ignored."""
        order = self._positions.get(self.spaces[int(self.query[place])], {})
        return [order[id_] for id_ in ids if id_ in order]

    @cached_property
    def _positions(self) -> dict[str | None, dict[str, int]]:
        return {name: {id_: place for place, id_ in enumerate(ids)} for name, (ids, _) in self.candidates.items()}

    @cached_property
    def _sizes(self) -> Ints:
        """Number of candidates of each query."""
        return np.array([0 if name is None else len(self.candidates[name][0]) for name in self.spaces], dtype=np.int64)

    def scores(self, place: int) -> Floats:
        """Return the scores of all candidates of one prediction, in their order; empty if not stored or not read."""
        if "scores" not in self.table.column_names:
            return np.empty(0)
        flat, offsets = self._scores
        return flat[offsets[place] : offsets[place + 1]]

    @cached_property
    def _scores(self) -> tuple[Floats, Ints]:
        """All lists end to end and where each begins: Arrow's own form, since millions of Python floats fill memory."""
        lists = self.table.column("scores").combine_chunks()
        flat = lists.values.to_numpy(zero_copy_only=False).astype(np.float64)
        offsets = lists.offsets.to_numpy().astype(np.int64)
        stored = np.diff(offsets)
        if len(wrong := np.flatnonzero((stored > 0) & (stored != self._sizes[self.query]))):
            query = int(self.query[wrong[0]])
            raise BadInput(
                f"query {self.query_ids[query]!r} has {stored[wrong[0]]:,} scores for {self._sizes[query]:,} "
                "candidates: the files of the run do not belong together, make it anew"
            )
        return flat, offsets


# --- declarations of a probe in the manifest


NATS = "nats"
RANKED, CHOSEN, GENERATED = "ranked first", "chosen", "generated"
"""Ways in which a model can know an answer."""


class Declarations(NamedTuple):
    """Declarations on the numbers of a run.

    :param scorings: each with its ``unit`` (nats, cosine, score or credit), and others such as ``masks``, ``pooling``.
    :param headline: the first table: "metrics", or "tasks", a line for each relation.
    :param way: :data:`RANKED`, :data:`CHOSEN` or :data:`GENERATED`.
    :param cuts: the k of Hits@k in the headline.
    :param further: names of metrics that only such runs show.
    :param by: names of metrics that breakdowns show in addition to accuracy and MRR.
    :param options: those not at their defaults, and other settings, as a recipe writes them.
    :param notes: on candidates that are excluded or have identical names.
    :param relations: labels of relations whose ids are addresses.
    """

    scorings: Mapping[str, Mapping[str, str]]
    headline: str
    way: str
    cuts: tuple[int, ...]
    further: tuple[str, ...]
    by: tuple[str, ...]
    options: Mapping[str, str]
    notes: tuple[str, ...]
    relations: Mapping[str, str]

    def scoring(self, name: str) -> Mapping[str, str]:
        """Return the declarations of a scoring, by default the unit "score"."""
        return self.scorings.get(name, {"unit": "score"})

    def shown(self, key: str, value: str) -> str:
        """Return the value of a key for readers: of a relation its label."""
        return self.relations.get(value, value) if key == RELATION else value


def read_declarations(manifest: Mapping[str, Any]) -> Declarations:
    """Read the declarations of a run of any version."""
    identity = manifest["identity"]
    of_probes = json.loads(Path(__file__).with_name("earlier.json").read_text(encoding="utf-8"))
    earlier = of_probes.get(identity.get("probe"), {})
    usual: dict[str, Any] = {"scorings": {}, "headline": "metrics", "cuts": (1, 5, 10), "further": (), "by": ()}
    usual |= {"usual": {}, "recipe": {}, "relations": {}, "way": earlier.get("way", RANKED)}
    shows = usual | manifest.get("shows", earlier)
    noted = manifest.get("circumstances", {})
    notes = noted.get("notes") or [
        f"{what}: {said}" for what, said in noted.items() if what.startswith(tuple(earlier.get("notes", ())))
    ]
    if weights := shows["recipe"].get("weights"):
        notes = [*notes, f"weights: {weights}"]
    return Declarations(
        shows["scorings"],
        shows["headline"],
        shows["way"],
        tuple(shows["cuts"]),
        tuple(shows["further"]),
        tuple(shows["by"]),
        _said(identity, shows["usual"]) | shows.get("told", {}) | shows["recipe"],  # earlier runs say "told"
        tuple(notes),
        shows["relations"],
    )


def _said(identity: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, str]:
    """Return the options that are not at their defaults, except those in every recipe or without effect on numbers."""
    options = identity.get("options", {})
    elsewhere = {"templates", "reduction", "score", "dtype", "keep_tokens"}
    elsewhere |= {"seed"} if not options.get("limit") else set()
    said = {
        name: ",".join(map(str, value)) if isinstance(value, list) else str(value)
        for name, value in options.items()
        if name not in elsewhere and value != usual.get(name)
    }
    resolved = identity.get("resolved", {})
    # The user's own, by what they say.
    return said | {
        name: resolved[name]
        for name in ("questions", "own_templates", "chat_template")
        if resolved.get(name) is not None
    }
