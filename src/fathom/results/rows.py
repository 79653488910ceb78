"""The predictions of a run as arrays, joined with their queries: what every summary starts from."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from fathom.data.queries import ENTITIES, OF_ANSWER
from fathom.errors import BadInput
from fathom.metrics.confidence import Confidence, confidences
from fathom.metrics.ranking import consistency, reciprocal_mean_rank, reciprocal_rank, told_hits_at_k
from fathom.metrics.table import Metric
from fathom.results.declarations import NATS, read_declarations
from fathom.results.samples import QUERY, RELATION, Origin, Sample, check_key, drawn
from fathom.store.folder import RunFolder

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
DIRECTION = "direction"
NONE = "(none)"
"""Under what a query counts that has no value of a key."""
Key = TypeVar("Key")
Value = TypeVar("Value")


_RANKS = ("rank", "rank_above", "rank_optimistic", "rank_pessimistic")
_CREDIT = ("correct", "precision", "recall")
_AS_ARRAYS = {
    *(
        "query_id",
        "template",
        "scoring",
        "num_candidates",
        "not_ranked",
        "unscored",
        "prompt_log_prob",
        "prompt_tokens",
    ),
    *(*_RANKS, *_CREDIT),
}
"""Columns of the predictions of which the rows have arrays or lists of their own."""


def _shared(values: Iterable[Any]) -> list[Any]:
    """Equal texts are kept once, also those of several runs, which ask about the same facts."""
    return [sys.intern(value) if type(value) is str else value for value in values]


def grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """The values of each key; both in order of appearance."""
    found: dict[Key, list[Value]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def values_in(key: str, said: str | None) -> list[str]:
    """Where a query counts that says so of *key*; see :meth:`Rows.values_of`."""
    if key in (RELATION, DIRECTION):
        return [said or NONE]
    values = [value.strip() for value in (said or "").split(";")]
    return list(dict.fromkeys(value for value in values if value)) or [NONE]


class Rows:
    """One entry per prediction (query, template, scoring) in arrays of length n; NaN where there is no number.

    ``natural``: queries were asked by sentences of their own, which the column ``template`` counts.

    :raises BadInput: a prediction of no query of the run, or two of one query, template and scoring; queries without
        the key of clusters.
    """

    def __init__(
        self, run: RunFolder, with_scores: bool = True, cluster: str = "", without: Collection[str] = ()
    ) -> None:
        """:param with_scores: False leaves the scores of all candidates on the disk.
        :param cluster: key by which queries were drawn together; see :mod:`fathom.results.samples`.
        :param without: further columns of the predictions that are left there, since nobody will ask for them."""
        manifest = run.manifest
        self.identity: Mapping[str, Any] = manifest["identity"]
        self.declared = read_declarations(manifest)
        self.candidates = run.candidates()
        table = run.predictions() if with_scores else run.predictions(without=("scores", *without))
        self.table, queries = table, run.queries()
        asked = {name: _shared(column) for name, column in queries.to_pydict().items()}
        self.query_ids: list[str] = asked["query_id"]
        self.relations = [relation or "" for relation in asked["relation"]]
        self.directions: list[str | None] = asked["direction"]
        self.gold: list[list[str]] = [_shared(gold or ()) for gold in asked["gold"]]
        self.spaces: list[str | None] = asked["candidates"]
        if strange := sorted({space for space in self.spaces if space is not None} - self.candidates.keys()):
            raise BadInput(f"{run.path / 'candidates.parquet'} lacks the set {strange[0]!r}: make the run anew")
        kinds = [tuple(map(tuple, groups or ())) for groups in asked["groups"]]
        parts = {kind: dict(map(_shared, kind)) for kind in set(kinds)}
        self.groups = [parts[kind] for kind in kinds]
        self.subjects: list[str | None] = asked.get("subject_id", [None] * len(queries))
        self.filtered: list[int] = asked.get("filtered", [0] * len(queries))
        """How many other right answers were taken out of each query's ranking."""
        self.known: list[list[str] | None] = asked.get("known", [None] * len(queries))
        """Which ones, where the scores of all candidates are kept; None where that is not recorded."""
        none = [None] * len(queries)
        self.records_frequency = "frequency_optimistic" in queries.column_names
        self.is_of_graph = ENTITIES in self.spaces
        self.by_frequency = np.array(
            [asked.get(f"frequency_{end}", none) for end in ("optimistic", "pessimistic")], dtype=np.float64
        )
        """Rank of each query's gold answer by training frequency, before and after ties, [2, queries]; NaN: unknown."""
        self.cluster = cluster
        check_key(cluster, chain.from_iterable(self.groups))
        self.fact_ids: list[str | None] = asked["fact_id"]
        self.sentences: list[int | None] = asked.get("sentences", [0] * len(queries))
        self.natural = any(self.sentences)
        self.query = self._joined()
        self.template: Ints = table.column("template").fill_null(-1).to_numpy().astype(np.int64)
        self.scoring: list[str] = _shared(table.column("scoring").to_pylist())
        self._refuse_doubles()
        self._refuse_gaps(run)
        self.number_of_candidates = np.nan_to_num(self._number("num_candidates"))
        self.rank, self.above, self.optimistic, self.pessimistic = map(self._number, _RANKS)
        self.correct, self.precision, self.recall = map(self._number, _CREDIT)
        self.prompt_log_prob, self.prompt_tokens = map(self._number, ("prompt_log_prob", "prompt_tokens"))
        self.prompt_log_prob[~(np.isfinite(self.prompt_log_prob) & (self.prompt_tokens > 0))] = np.nan
        told = "not_ranked" in table.column_names  # not in a run of an earlier version
        self.not_ranked: list[str | None] = table.column("not_ranked").to_pylist() if told else [None] * len(table)
        self._refuse_what_cannot_be(run)
        self.reason = self._reasons()
        self.table = table.drop_columns([name for name in _AS_ARRAYS if name in table.column_names])
        self._places: dict[str, Ints] = {}
        self._columns: dict[str, tuple[Floats, ...]] = {}

    @property
    def scorings(self) -> list[str]:
        """Names of the scorings, in order of appearance."""
        return list(dict.fromkeys(self.scoring))

    @cached_property
    def scored(self) -> npt.NDArray[np.bool_]:
        """Of each prediction: whether it has a rank, a bound of it, or credit; shape [n]."""
        return np.array([reason is None for reason in self.reason], dtype=bool)

    @cached_property
    def most_candidates(self) -> int:
        """Size of the largest answer space."""
        return max((len(ids) for ids, _ in self.candidates.values()), default=0)

    def relation_of(self) -> list[str]:
        """Of each prediction's query, "" where it has none."""
        return [self.relations[query] for query in self.query.tolist()]

    def by_relation(self) -> dict[str, list[int]]:
        """Numbers of the queries of each relation, in order."""
        return grouped((relation, query) for query, relation in enumerate(self.relations))

    @cached_property
    def unit(self) -> Ints:
        """Of each query the first one of its fact, with which it was drawn; itself where queries are the clusters."""
        keys = (self._unit_by(self.cluster, query) for query in range(len(self.query_ids)))
        first: dict[str, int] = {}
        return np.array([first.setdefault(key, place) for place, key in enumerate(keys)], dtype=np.int64)

    def sample(self, queries: Sequence[int]) -> Sample:
        """How these queries were drawn."""
        relations = [self.relations[query] for query in queries]
        subjects = [self.subjects[query] for query in queries]
        return drawn(self.cluster, relations, map(self.cluster_label, queries), subjects=subjects)

    def origin(self, query: int, cluster: str = "") -> Origin:
        """How one query was drawn, for values of several runs. :param cluster: key, by default that of the rows."""
        key = cluster or self.cluster
        return Origin(key, self._unit_by(key, query), self.relations[query], self._label_by(key, query))

    def cluster_label(self, query: int) -> str | None:
        """Of one query by the key of clusters; None where it has none."""
        return self._label_by(self.cluster, query)

    def _unit_by(self, key: str, query: int) -> str:
        """Id of what one query was drawn with: its fact, or itself where queries are the clusters."""
        fact = None if key == QUERY else self.fact_ids[query]
        return fact or self.query_ids[query]

    def _label_by(self, key: str, query: int) -> str | None:
        own = {RELATION: self.relations[query], "subject": self.subjects[query]}
        own["answer"] = next(iter(self.gold[query]), None)
        return own.get(key) or self.groups[query].get(key)

    @cached_property
    def keys(self) -> list[str]:
        """By what queries can be told apart."""
        return list(dict.fromkeys((RELATION, DIRECTION, *chain.from_iterable(self.groups))))

    def values_of(self, query: int, key: str) -> list[str]:
        """Where a query counts under *key*; several for "A; B"."""
        return values_in(key, self.said_of(query, key))

    def said_of(self, query: int, key: str) -> str | None:
        """What a query has under *key*."""
        if key == RELATION:
            return self.relations[query]
        return self.directions[query] if key == DIRECTION else self.groups[query].get(key)

    def of(self, scoring: str) -> Ints:
        """Places of all predictions of one scoring."""
        if scoring not in self._places:
            own = [place for place, name in enumerate(self.scoring) if name == scoring]
            self._places[scoring] = np.array(own, dtype=np.int64)
        return self._places[scoring]

    def hits(self, k: int) -> Floats:
        """Expected Hits@k; where the search for the rank stopped before k, NaN. Without ranks (generation, choice) the
        credit given is Hits@1."""
        return told_hits_at_k(self.optimistic, self.pessimistic, self.above, self.correct, k)

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
        """1 / mean rank of all gold answers (MRRₐ), NaN where their ranks were not recorded."""
        values = np.full(len(self.rank), np.nan)
        ranks = self.table.column("gold_ranks").to_pylist()
        told = [place for place, of_gold in enumerate(ranks) if of_gold and not np.isnan(of_gold).all()]
        values[told] = reciprocal_mean_rank([ranks[place] for place in told])
        return values

    def even_weight(self) -> Floats:
        """1 / scored predictions of the same relation and scoring; NaN of what is not scored."""
        values = np.full(len(self.rank), np.nan)
        keys = zip(self.relation_of(), self.scoring, self.scored, strict=True)
        for key, places in grouped((key, place) for place, key in enumerate(keys)).items():
            values[places] = 1 / len(places) if key[-1] else np.nan
        return values

    def rare_weight(self) -> Floats:
        """1 / (1 + training triples of the answer); NaN where the queries do not say how many there are."""
        told = [groups.get(OF_ANSWER) for groups in self.groups]
        weights = np.array([np.nan if count is None else 1 / (1 + int(count)) for count in told])
        return weights[self.query]

    def searched(self) -> tuple[int, int, int]:
        """Tokens that an exact search ran, would have run without pruning, and for one statement at a time."""
        run, full, naive = (np.nansum(self._number(f"tokens_{way}")) for way in ("run", "full", "naive"))
        return int(run), int(full), int(naive)

    def agreeing(self) -> Floats:
        """Chance that all templates of the prediction's query give one answer (consistency), the same for each of its
        predictions; NaN where there is one template, or one of them gives no answer."""
        values = np.full(len(self.rank), np.nan)
        keys = zip(self.scoring, self.query.tolist(), strict=True)
        for places in grouped((key, place) for place, key in enumerate(keys)).values():
            if len(places) > 1:
                tops = [self.top_answers(place) if self.scored[place] else frozenset() for place in places]
                if all(tops):
                    values[places] = consistency([tops])
        return values

    def columns(self, metric: Metric) -> tuple[Floats, ...]:
        """Values of the metric's step, made once."""
        if metric.name not in self._columns:
            self._columns[metric.name] = metric.columns(self)
        return self._columns[metric.name]

    def asked(self, place: int) -> tuple[str, str]:
        """Prompt and subject of one prediction, "" where it has none."""
        prompt, subject = (self.table.column(name)[place].as_py() or "" for name in ("prompt", "subject"))
        return prompt, subject

    def best(self, place: int) -> list[str]:
        """Ids of the best answers of one prediction, as many as were recorded."""
        return self.table.column("top_ids")[place].as_py() or []

    def scores(self, place: int) -> Floats:
        """Scores of all candidates of one prediction, in their order; empty where they were not kept."""
        flat, offsets = self._scores
        return flat[offsets[place] : offsets[place + 1]]

    def gold_places(self, place: int) -> list[int]:
        """Return the positions of the gold answers among the candidates of one prediction."""
        return self.candidate_places(place, self.gold[int(self.query[place])])

    def candidate_places(self, place: int, ids: Iterable[str]) -> list[int]:
        """Return the positions of ids among the candidates of one prediction; others are passed over."""
        order = self._positions.get(self.spaces[int(self.query[place])], {})
        return [order[id_] for id_ in ids if id_ in order]

    @cached_property
    def confidence(self) -> Confidence:
        """Of all scored predictions by log-likelihoods of which all candidates' scores were kept; NaN elsewhere."""
        places = [
            place
            for place in np.flatnonzero(self.scored).tolist()
            if self.declared.scoring(self.scoring[place])["unit"] == NATS
            and len(self.scores(place))
            and self.gold_places(place)
        ]
        values = confidences([self.scores(place) for place in places], [self.gold_places(place) for place in places])
        full = Confidence(*(np.full(len(self.rank), np.nan) for _ in values))
        for array, found in zip(full, values, strict=True):
            array[places] = found
        return full

    def top_answers(self, place: int) -> frozenset[str]:
        """Ids of the best-scored answers of one prediction, several if tied (unfiltered; empty where not recorded).
        Where only the list of the best was kept, ties beyond its end are not seen."""
        scores, space = self.scores(place), self.spaces[int(self.query[place])]
        if len(scores) and space is not None:
            ids: Sequence[str] = self.candidates[space][0]
        else:
            ids = self.best(place)
            scores = np.asarray(self.table.column("top_scores")[place].as_py() or [], float)
        return frozenset(ids[best] for best in np.flatnonzero(scores == scores.max(initial=-np.inf)).tolist())

    @cached_property
    def _positions(self) -> dict[str | None, dict[str, int]]:
        return {name: {id_: place for place, id_ in enumerate(ids)} for name, (ids, _) in self.candidates.items()}

    @cached_property
    def _scores(self) -> tuple[Floats, Ints]:
        """All lists end to end and where each begins: Arrow's own form, since millions of Python floats fill memory."""
        lists = self.table.column("scores").combine_chunks()
        flat = lists.values.to_numpy(zero_copy_only=False).astype(np.float64)
        offsets = lists.offsets.to_numpy().astype(np.int64)
        sizes = np.array([0 if name is None else len(self.candidates[name][0]) for name in self.spaces], dtype=np.int64)
        kept = np.diff(offsets)
        if len(wrong := np.flatnonzero((kept > 0) & (kept != sizes[self.query]))):
            query = int(self.query[wrong[0]])
            raise BadInput(
                f"query {self.query_ids[query]!r} has {kept[wrong[0]]:,} scores for {sizes[query]:,} candidates: the "
                "files of the run do not belong together, make it anew"
            )
        return flat, offsets

    def _joined(self) -> Ints:
        place = {id_: number for number, id_ in enumerate(self.query_ids)}
        ids = self.table.column("query_id").to_pylist()
        strangers = sorted({str(id_) for id_ in ids if id_ not in place})
        if strangers:
            raise BadInput(
                f"the run has predictions of {len(strangers)} queries that its queries.parquet lacks, "
                f"such as {strangers[0]!r}: its files are not of one run"
            )
        return np.array([place[id_] for id_ in ids], dtype=np.int64)

    def _refuse_doubles(self) -> None:
        numbers = {name: number for number, name in enumerate(dict.fromkeys(self.scoring))}
        keys = np.stack([self.query, self.template, [numbers[name] for name in self.scoring]])
        order = np.lexsort(keys)
        if len(again := np.flatnonzero((keys[:, order[1:]] == keys[:, order[:-1]]).all(axis=0))):
            place = int(order[again[0] + 1])
            raise BadInput(
                f"the run has two predictions of query {self.query_ids[self.query[place]]!r}, template "
                f"{self.template[place]}, scoring {self.scoring[place]}: its prediction files overlap"
            )

    def _refuse_gaps(self, run: RunFolder) -> None:
        """:raises BadInput: the run is finished, and has no prediction for one of its queries."""
        asked = np.zeros(len(self.query_ids), dtype=bool)
        asked[self.query] = True
        if not asked.all() and run.is_complete():
            gap = self.query_ids[int(np.flatnonzero(~asked)[0])]
            raise BadInput(
                f"{run.path / 'predictions'} lacks {np.sum(~asked):,} of {len(asked):,} queries, such as {gap!r}, "
                "though every part is there: the run is damaged, make it anew"
            )

    def _refuse_what_cannot_be(self, run: RunFolder) -> None:
        """:raises BadInput: ranks below 1 or beyond the candidates, credit outside of 0 to 1."""
        most = np.where(self.number_of_candidates > 0, self.number_of_candidates, np.inf)
        bounds = dict.fromkeys(_RANKS[:1] + _RANKS[2:], (1, most)) | dict.fromkeys(_CREDIT, (0, 1))
        for name, (least, top) in bounds.items():
            values = self._number(name)
            if len(wrong := np.flatnonzero((values < least) | (values > top))):
                query, found = self.query_ids[self.query[wrong[0]]], values[wrong[0]]
                raise BadInput(
                    f"{run.path / 'predictions'}: {name} of query {query!r} is {found:g}, expected {least} to "
                    f"{'1' if least == 0 else 'the number of candidates'}: the run is damaged, make it anew"
                )

    def _number(self, name: str) -> Floats:
        if name not in self.table.column_names:  # a run of an earlier version
            return np.full(len(self.table), np.nan)
        return np.array(self.table.column(name).to_numpy(), dtype=np.float64)

    def _reasons(self) -> list[str | None]:
        silent = np.isnan(self.optimistic) & np.isnan(self.above) & np.isnan(self.correct)
        return [
            reason if reason is not None or not nothing else "no rank was recorded"
            for reason, nothing in zip(self.table.column("unscored").to_pylist(), silent.tolist(), strict=True)
        ]
