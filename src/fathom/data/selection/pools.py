"""Candidates of a query: its relation's answer space, all candidates of the data, or a list."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from fathom.base.errors import BadInput
from fathom.base.reading import Unreadable, read_text
from fathom.base.reading.bounds import NAME
from fathom.base.reading.spelling import tidy
from fathom.data.formats import read
from fathom.data.graph.queries import EntityCandidates, GraphQuerySet, candidate_set
from fathom.data.queries import CandidateSet, Direction, Query, QuerySet, unrankable

RELATION, DATA = "relation", "data"


def pooled(
    data: QuerySet, queries: Sequence[Query], pool: str | None, add: Path | None
) -> tuple[QuerySet, tuple[Query, ...], dict[str, int]]:
    """Return *data* and *queries* with other candidates.

    :param pool: None: unmodified; ``relation``: likewise, of a graph the relation's tails (heads) in any split;
        ``data``: those of all relations together; or a file of names, one per line.
    :param add: a file of further names, or a folder of data whose candidates are added. A known name is that entity
        (or entities); an unknown name is an entity with the name as its id.
    :returns: also the number of candidates that a list removed, and of its duplicate lines.
    :raises BadInput: a file that is unreadable or has no name; a knowledge graph and other candidates than its own.
    """
    if pool == RELATION and add is None and isinstance(data.candidates, EntityCandidates):
        answers = _answer_spaces(data.candidates, queries)
        queries = tuple(moved(query, answers[query.relation, query.direction]) for query in queries)
        return replace(data, queries=queries, candidates={space.name: space for space in answers.values()}), queries, {}
    if pool in (None, RELATION, DATA) and add is None and (pool != DATA or isinstance(data, GraphQuerySet)):
        return data, tuple(queries), {}
    if isinstance(data, GraphQuerySet):
        raise BadInput(
            f"{data.name} is a knowledge graph, whose entities are all candidates: leave --pool and --add-candidates "
            f"out, or give --pool {RELATION} for the answers of each relation"
        )
    all_candidates = _union("data", data.candidates.values())
    counts: dict[str, int] = {}
    if pool in (None, RELATION):
        spaces = dict(data.candidates)
    elif pool == DATA:
        spaces = dict.fromkeys(data.candidates, all_candidates)
    else:
        listed, doubles = _listed(Path(str(pool)), all_candidates, "--pool")
        spaces = dict.fromkeys(data.candidates, listed)
        counts = {"pool": sum(id_ not in listed.position for id_ in all_candidates.ids), "doubles_in_pool": doubles}
    if add is not None:
        if add.is_dir():
            more, _ = _candidates_of(add, _names_in_data(add), all_candidates)
        else:
            more, counts["doubles_in_add_candidates"] = _listed(add, all_candidates, "--add-candidates")
        spaces = {name: _union(space.name, (space, more)) for name, space in spaces.items()}
    queries = tuple(moved(query, spaces[query.candidates]) for query in queries)
    return replace(data, queries=queries, candidates={space.name: space for space in spaces.values()}), queries, counts


def _answer_spaces(entities: EntityCandidates, queries: Iterable[Query]) -> dict[tuple[str, Direction], CandidateSet]:
    """Return the entities that answer each queried relation and direction in a graph."""
    graph, spaces = entities.graph, {}
    number = {id_: place for place, id_ in enumerate(graph.relations.column("id").to_pylist())}
    for relation, direction in dict.fromkeys((query.relation, query.direction) for query in queries):
        ends = (graph.tail if direction == "tail" else graph.head)[graph.relation == number[relation]]
        space = candidate_set(graph, np.intersect1d(ends, entities.rows))
        spaces[relation, direction] = replace(space, name=relation if direction == "tail" else f"{relation}/head")
    return spaces


def moved(query: Query, space: CandidateSet) -> Query:
    """Return the query with other candidates."""
    also_right = tuple(answer for answer in query.known if answer in space.position)
    return replace(query, candidates=space.name, known=also_right, unscored=unrankable(query, space))


def _union(name: str, spaces: Iterable[CandidateSet]) -> CandidateSet:
    """Return all candidates without duplicates, in order of appearance."""
    names: dict[str, str] = {}
    for space in spaces:
        for id_, text in space.named():
            names.setdefault(id_, text)
    return CandidateSet(name, tuple(names), tuple(names.values()))


def _listed(file: Path, space: CandidateSet, option: str) -> tuple[CandidateSet, int]:
    """Return the names of a file as candidates, and the number of duplicate lines."""
    try:
        lines = read_text(file).splitlines()
    except Unreadable as error:
        others = f", or {RELATION} or {DATA}" if option == "--pool" else ""
        raise BadInput(f"{option} {error}; expected a file with one name per line{others}") from error
    names = list(filter(None, map(tidy, lines)))
    if longest := next((at for at, line in enumerate(lines, start=1) if len(line) > NAME.most), None):
        raise BadInput(f"{option} {file}:{longest}: {NAME.fault()}")
    if not names:
        raise BadInput(f"{option} {file}: no names; expected one per line")
    return _candidates_of(file, names, space)


def _names_in_data(folder: Path) -> list[str]:
    """Return the names of all candidates of a data set. :raises BadInput: it cannot be read."""
    return [name for space in read(folder).candidates.values() for _, name in space.named()]


def _candidates_of(source: Path, names: Sequence[str], space: CandidateSet) -> tuple[CandidateSet, int]:
    """Return names as candidates, under the ids of known ones, and the number of doubles."""
    ids_of: dict[str, list[str]] = {}
    for id_, name in space.named():
        ids_of.setdefault(name, []).append(id_)
    listed = {id_: name for name in dict.fromkeys(names) for id_ in ids_of.get(name, [name])}
    return CandidateSet(source.stem, tuple(listed), tuple(listed.values())), len(names) - len(set(names))
