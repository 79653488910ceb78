"""Selection of queries and candidates, by filters in a fixed order, with the number that each removed.

On a graph all filters use arrays: a :class:`fathom.data.queries.Query` is made only for what remains.
"""

from __future__ import annotations

import csv
import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fathom.base.errors import BadInput, refuse
from fathom.base.options import quoted
from fathom.base.reading import first_few, read_text
from fathom.data.graph.queries import EntityCandidates, GraphQuerySet, TripleQueries, candidate_set, graph_queryset
from fathom.data.queries import CandidateSet, Direction, Query, QuerySet
from fathom.data.selection.altering import alter, alteration_faults
from fathom.data.selection.options import BasicSelectionOptions, Selection
from fathom.data.selection.pools import moved, pooled
from fathom.data.selection.readings import apply_reading, reading_faults
from fathom.data.selection.reversal import reverse_queries
from fathom.data.statistics import CountTokens

EVERY_SPLIT = "all"
_SAME_SPLIT = {"valid": "dev", "validation": "dev", "val": "dev"}
_BLOCK = 100_000
OptionsT = TypeVar("OptionsT", bound=BasicSelectionOptions)


class NarrowedData(NamedTuple):
    """Data after all filters that need no tokenizer.

    :param source: the unmodified data.
    :param data: with the selected split, directions and reading.
    """

    source: QuerySet
    data: QuerySet
    pool: _Pool
    left_out: Mapping[str, int]


class SelectedData(NamedTuple):
    """:param left_out: number removed by each filter, e.g. ``{"queries": {"relations": 12}, "candidates": {}}``."""

    data: QuerySet
    left_out: Mapping[str, Mapping[str, int]]


def select(
    data: QuerySet | NarrowedData, options: BasicSelectionOptions, count_tokens: CountTokens | None = None
) -> SelectedData:
    """Return the queries to evaluate, in their order, and their candidates.

    A query whose gold answer is no longer a candidate, or that has one candidate left, stays as unscored.

    :param options: any options model with selection options.
    :param count_tokens: needed for the filters by tokens.
    :raises BadInput: everything about *options* that the data does not have, or no query left.
    """
    selection = Selection.from_options(options)
    if (selection.single_token or selection.tail_tokens is not None) and count_tokens is None:
        raise BadInput("--single-token and --tail-tokens need a model with a tokenizer")
    narrowed = data if isinstance(data, NarrowedData) else narrow(data, options)
    data, tally = narrowed.data, _Tally(narrowed.pool, dict(narrowed.left_out))
    if selection.tail_tokens is not None and count_tokens is not None:
        low, high = _token_range(selection.tail_tokens)
        tally.narrow("tail_tokens", _of_tokens(tally.pool, low, high, selection, count_tokens))
    if selection.single_token and count_tokens is not None:
        tally.narrow("single_token", _of_tokens(tally.pool, 1, 1, selection, count_tokens))
    if selection.limit is not None and selection.ids is None and selection.limit < len(tally.pool):
        tally.narrow("limit", tally.pool.take(_drawn(tally.pool, selection.limit, selection.seed)))
    tally.refuse_empty(data)
    queries = tally.pool.queries()
    data, queries, fewer = pooled(data, queries, selection.pool, selection.add_candidates)
    spaces, without = _candidates(data, selection, queries, count_tokens)
    if spaces:
        queries = tuple(moved(query, spaces[query.candidates]) for query in queries)
    whole = narrowed.source.whole or narrowed.source
    selected = replace(data, queries=queries, candidates=spaces or data.candidates, whole=whole)
    return SelectedData(selected, {"queries": tally.left_out, "candidates": fewer | without})


def narrow(data: QuerySet, options: BasicSelectionOptions) -> NarrowedData:
    """Apply all filters that need no tokenizer, but for the limit. :raises BadInput: as for :func:`select`."""
    source, selection = data, Selection.from_options(with_relation_ids(data, options))
    data, faults = _of_split(data, selection)
    data, one_way = _in_directions(data, selection.directions)
    faults += one_way
    if selection.part is not None and selection.part.endswith(".csv"):
        data = _with_listed(data, selection.part)
    faults += _faults(data, selection)
    if selection.reading != "auto":
        faults += reading_faults(data, selection.reading)
    faults += alteration_faults(data, selection.alter, selection.reading)
    refuse(faults)
    if data.has_sentences:
        data = apply_reading(
            data, selection.reading, all_sentences=selection.sentences == "all", any_surface=selection.any_surface
        )
    if selection.reverse:
        data = reverse_queries(data, selection.relations)
    data = alter(data, selection.alter, selection.seed)
    queries = data.queries
    whole = _Rows(queries, queries.rows) if isinstance(queries, TripleQueries) else _MemoryPool(data, queries)
    tally = _Tally(whole)
    if selection.relations:
        tally.narrow("relations", tally.pool.of_relations(selection.relations))
    if selection.part is not None:
        tally.narrow("subset", tally.pool.of_ids(data.subsets[selection.part]))
    if selection.ids is not None:
        tally.narrow("ids", tally.pool.of_ids(selection.ids))
    if selection.exclude_tails:
        tally.narrow("exclude_tails", _without(data, whole, tally.pool, set(selection.exclude_tails)))
    tally.refuse_empty(data)
    return NarrowedData(source, data, tally.pool, tally.left_out)


@dataclass(frozen=True)
class _MemoryPool:
    """Queries in memory."""

    data: QuerySet
    kept: Sequence[Query]

    def __len__(self) -> int:
        return len(self.kept)

    def of_relations(self, relations: Collection[str]) -> _MemoryPool:
        return self._that(lambda query: query.relation in relations)

    def of_ids(self, ids: Collection[str]) -> _MemoryPool:
        return self._that(lambda query: query.id in ids)

    def golds(self) -> tuple[list[str], list[str]]:
        """Return ids and names of the distinct gold answers."""
        pairs = self._pairs()
        return [id_ for _, id_ in pairs], [self.data.candidates[space].name_of(id_) for space, id_ in pairs]

    def with_golds(self, keep: NDArray[np.bool_]) -> _MemoryPool:
        """Keep queries all of whose gold answers are kept."""
        kept = dict(zip(self._pairs(), keep.tolist(), strict=True))
        return self._that(lambda query: all(kept[query.candidates, gold] for gold in query.gold))

    def take(self, places: Sequence[int]) -> _MemoryPool:
        return replace(self, kept=[self.kept[place] for place in places])

    def queries(self) -> tuple[Query, ...]:
        return tuple(self.kept)

    def _pairs(self) -> list[tuple[str, str]]:
        return list(dict.fromkeys((query.candidates, gold) for query in self.kept for gold in query.gold))

    def _that(self, fits: Callable[[Query], bool]) -> _MemoryPool:
        return replace(self, kept=[query for query in self.kept if fits(query)])


@dataclass(frozen=True)
class _Rows:
    """Queries of a graph as rows of triples."""

    triples: TripleQueries
    rows: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)

    def of_relations(self, relations: Collection[str]) -> _Rows:
        graph = self.triples.graph
        wanted = pc.is_in(graph.relations.column("id"), value_set=pa.array(list(relations), pa.string())).to_numpy()
        return replace(self, rows=self.rows[wanted[graph.relation[self.rows]]])

    def of_ids(self, ids: Collection[str]) -> _Rows:
        return replace(self, rows=self.rows[np.isin(self.rows, self.triples.rows_of(ids))])

    def golds(self) -> tuple[list[str], list[str]]:
        entities = self.triples.graph.entities.take(np.unique(self.triples.answers(self.rows)))
        return entities.column("id").to_pylist(), entities.column("name").to_pylist()

    def with_golds(self, keep: NDArray[np.bool_]) -> _Rows:
        """Keep triples all of whose gold answers are kept, including heads if these are queried."""
        answers = self.triples.answers(self.rows)
        _, place = np.unique(answers, return_inverse=True)
        return replace(self, rows=self.rows[keep[place].reshape(answers.shape).all(axis=0)])

    def take(self, places: Sequence[int]) -> _Rows:
        return replace(self, rows=self.rows[np.array(places, dtype=np.int64)])

    def queries(self) -> tuple[Query, ...]:
        return self.triples.make(self.rows)


_Pool = _MemoryPool | _Rows
"""The remaining queries."""


@dataclass
class _Tally:
    """The remaining queries, and the number that each filter removed."""

    pool: _Pool
    left_out: dict[str, int] = field(default_factory=dict)

    def narrow(self, name: str, pool: _Pool) -> None:
        self.left_out[name] = len(self.pool) - len(pool)
        self.pool = pool

    def refuse_empty(self, data: QuerySet) -> None:
        if not len(self.pool):
            filters = ", ".join(f"--{name.replace('_', '-')}" for name in self.left_out)
            raise BadInput(f"no query of {data.name} is left after {filters or 'reading it'}")


def _drawn(pool: _Pool, limit: int, seed: int) -> list[int]:
    """Draw *limit* places, ascending; a reasoning question comes with its item and premise, or not at all."""
    generator, together = random.Random(seed), _together(pool)
    if not together:
        return sorted(generator.sample(range(len(pool)), limit))
    drawn: set[int] = set()
    for place in generator.sample(range(len(pool)), len(pool)):
        more = {place, *together.get(place, ())} - drawn
        if len(drawn) + len(more) <= limit:
            drawn |= more
    return sorted(drawn)


def _together(pool: _Pool) -> dict[int, list[int]]:
    """Return, for each reasoning question, the places of the queries that must come with it."""
    if not isinstance(pool, _MemoryPool):
        return {}
    place_of = {query.id: place for place, query in enumerate(pool.kept)}
    items: dict[str, list[int]] = {}
    for place, query in enumerate(pool.kept):
        if item := query.groups.get("item"):
            items.setdefault(item, []).append(place)
    partners: dict[int, list[int]] = {}
    for place, query in enumerate(pool.kept):
        places = items.get(query.groups.get("item", ""), [])
        premise = place_of.get(query.groups.get("premise", ""))
        if premise is not None and (places or query.groups.get("p1") != "explicit"):
            places = [*places, premise]
        if places:
            partners[place] = places
    return partners


def _of_split(data: QuerySet, selection: Selection) -> tuple[QuerySet, list[str]]:
    """Return the data with the queries of the selected split."""
    if selection.split is None:
        return data, []
    wanted = _SAME_SPLIT.get(selection.split, selection.split)
    if not isinstance(data, GraphQuerySet) or data.graph is None or not data.graph.splits:
        return data, [f"--split {selection.split}: {data.name} has no splits to choose from"]
    if wanted == EVERY_SPLIT:
        wanted = ""
    elif wanted not in data.graph.splits:
        splits = ", ".join(data.graph.splits)
        return data, [f"{data.name} has no split '{selection.split}': it has {splits}, or {EVERY_SPLIT} of them"]
    if wanted == data.split:
        return data, []
    about = data.about
    if isinstance(data.queries, TripleQueries):
        about |= {"directions": data.queries.directions, "all_entities": data.queries.all_entities}
    return graph_queryset(data.graph, wanted, **about), []


def _in_directions(data: QuerySet, directions: tuple[Direction, ...]) -> tuple[QuerySet, list[str]]:
    """Return the data with queries in these directions; unmodified if none are given."""
    if isinstance(data.queries, TripleQueries):
        if directions in ((), data.queries.directions):
            return data, []
        return replace(data, queries=data.queries.asked(directions)), []
    if "head" not in directions or {query.direction for query in data.queries} == set(directions):
        return data, []
    return data, [
        f"--directions {','.join(directions)}: {data.name} is no knowledge graph, its questions ask for tails alone: "
        "give a folder with train.tsv or a file of triples, or leave --directions out"
    ]


def _with_listed(data: QuerySet, file: str) -> QuerySet:
    """Add the subset of the facts in a file's column ``fact``. :raises BadInput: there is none, or data lack a fact."""
    lines = read_text(Path(file)).splitlines()
    listed = {row.get("fact") or "" for row in csv.DictReader(lines)} - {""}
    named = {query.id: query.fact_id or query.id for query in data.queries}
    if missing := sorted(listed - set(named.values())):
        raise BadInput(f"--subset {file}: {data.name} lacks {len(missing):,} of its facts, such as {missing[0]}")
    if not listed:
        raise BadInput(f"--subset {file}: expected facts in a column 'fact', as fathom study items writes them")
    ids = frozenset(id_ for id_, fact in named.items() if fact in listed)
    return replace(data, subsets={**data.subsets, file: ids})


def with_relation_ids(data: QuerySet, options: OptionsT) -> OptionsT:
    """Return options with the ids of their relations.

    Each is given by its id or by a label that no other relation of the split has.
    """
    of_split, _ = _of_split(data, Selection.from_options(options)) if options.relations else (data, [])
    alone = {label: ids[0] for label, ids in _ids_by_label(of_split).items() if len(ids) == 1}
    ids = tuple(name if name in of_split.relations else alone.get(name, name) for name in options.relations)
    return options.model_copy(update={"relations": ids}) if ids != options.relations else options


def _ids_by_label(data: QuerySet) -> dict[str, list[str]]:
    ids: dict[str, list[str]] = {}
    for id_, relation in data.relations.items():
        ids.setdefault(relation.name, []).append(id_)
    return ids


def _faults(data: QuerySet, selection: Selection) -> Iterator[str]:
    ids = _ids_by_label(data)
    no_ids = [relation for relation in selection.relations if relation not in data.relations]
    for label in (name for name in no_ids if name in ids):
        yield f"{data.name} has {len(ids[label])} relations {quoted(label)}: give the id, {' or '.join(ids[label])}"
    unknown = [name for name in no_ids if name not in ids]
    if unknown:
        relations = [quoted(name) for name in sorted(data.labels_of(data.relations))]
        yield f"{data.name} has no relation {', '.join(unknown)}: it has {first_few(relations, 100)}"
    if selection.part is not None and selection.part not in data.subsets:
        yield f"{data.name} has no subset '{selection.subset}': it has {', '.join(data.subsets) or 'none'}"
    if selection.candidates == "asked" and not isinstance(data, GraphQuerySet):
        yield (
            f"--candidates asked: {data.name} has an answer space for each relation; it is for knowledge graphs, "
            "whose entities are all candidates"
        )
    if selection.tail_tokens is not None:
        try:
            _token_range(selection.tail_tokens)
        except BadInput as error:
            yield from error.faults


def _token_range(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", text)
    if not match:
        raise BadInput(f"--tail-tokens: expected a number or a range such as 2-4, found {text!r}")
    low, high = int(match[1]), int(match[2] or match[1])
    if not 1 <= low <= high:
        raise BadInput(f"--tail-tokens: expected a range of 1 or more, the smaller number first, found {text!r}")
    return low, high


def _without(data: QuerySet, whole: _Pool, left: _Pool, tails: set[str]) -> _Pool:
    """Remove queries with gold answers of these names or ids, all of which must occur in *whole*."""
    ids, names = whole.golds()
    absent = tails - set(ids) - set(names)
    if absent:
        raise BadInput(
            f"--exclude-tails: no gold answer of {data.name} has the name or id {', '.join(sorted(absent))}; "
            "a name with a comma must be given by its id"
        )
    kept = [id_ not in tails and name not in tails for id_, name in zip(*left.golds(), strict=True)]
    return left.with_golds(np.array(kept, dtype=bool))


def _of_tokens(pool: _Pool, low: int, high: int, selection: Selection, count_tokens: CountTokens) -> _Pool:
    """Keep queries whose gold answers have this many tokens."""
    counts = _counts(pool.golds()[1], selection, count_tokens)
    return pool.with_golds((counts >= low) & (counts <= high))


def _counts(names: Sequence[str], selection: Selection, count_tokens: CountTokens) -> NDArray[np.int64]:
    """Count the tokens of each name."""
    different = list(dict.fromkeys(names))
    space = " " if selection.tokens_after_space else ""
    counts: dict[str, int] = {}
    for start in range(0, len(different), _BLOCK):
        block = different[start : start + _BLOCK]
        counts |= zip(block, count_tokens([space + name for name in block]), strict=True)
    return np.array([counts[name] for name in names], dtype=np.int64)


def _candidates(
    data: QuerySet, selection: Selection, queries: Sequence[Query], count_tokens: CountTokens | None
) -> tuple[Mapping[str, CandidateSet], dict[str, int]]:
    """Return the reduced candidate sets, and the number of candidates that each filter removed."""
    spaces: dict[str, CandidateSet] = {}
    fewer: Counter[str] = Counter()
    for name in dict.fromkeys(query.candidates for query in queries):
        if selection.candidates == "asked":
            spaces[name], fewer["candidates"] = _asked(data.candidates, name, queries)
        if selection.single_token and count_tokens is not None:
            whole = spaces[name] if name in spaces else data.candidates[name]
            single = _counts(whole.names, selection, count_tokens) == 1
            spaces[name] = whole.keep(np.flatnonzero(single).tolist())
            fewer["single_token"] += len(whole) - len(spaces[name])
    return spaces, dict(fewer)


def _asked(spaces: Mapping[str, CandidateSet], name: str, queries: Sequence[Query]) -> tuple[CandidateSet, int]:
    """Return heads and tails of the queries in the order of entities, and the number of other candidates."""
    ids = {query.subject_id for query in queries} | {gold for query in queries for gold in query.gold}
    if isinstance(spaces, EntityCandidates):  # most entities need not become text
        all_ids = spaces.graph.entities.column("id").take(spaces.rows)
        places = np.flatnonzero(pc.is_in(all_ids, value_set=pa.array(sorted(ids), pa.string())).to_numpy())
        return candidate_set(spaces.graph, spaces.rows[places]), len(spaces.rows) - len(places)
    whole = spaces[name]
    asked = whole.keep([place for place, id_ in enumerate(whole.ids) if id_ in ids])
    return asked, len(whole) - len(asked)
