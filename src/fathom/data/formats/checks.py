"""Oddities of facts and graphs that reading accepts, for ``fathom data check``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from fathom.base.reading import Faults, first_few, short_place
from fathom.base.reading.spelling import folded, tidy
from fathom.data.columns import Columns
from fathom.data.formats import format_of
from fathom.data.formats.kg import FORMAT, find_files, read_triples
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.queries import CandidateSet, Query, QuerySet
from fathom.data.statistics import repeated_triples

_FEW = 10
"""Fewest relations of which most may have a single fact without a note."""


def fact_notes(data: QuerySet, faults: Faults) -> Iterator[str]:
    """Yield notes on facts, each with lines. :param faults: of reading them."""
    by_space: dict[str, list[Query]] = defaultdict(list)
    for query in data.queries:
        by_space[query.candidates].append(query)
    yield from _odd_roles(data)
    yield from _repeated(data.queries)
    yield from _merged(data, faults)
    pairs = [pair for name, some in by_space.items() for pair in _alike(data.candidates[name], some)]
    for what, is_kind in (("differ in case alone", True), ("look alike", False)):
        if found := [text for text, by_case in pairs if by_case == is_kind]:
            yield f"candidates that {what}, {len(found):,}: {first_few(found)}"


def _odd_roles(data: QuerySet) -> Iterator[str]:
    """Note relations with a single fact each, as of a column of answers read as relations."""
    by_relation = data.by_relation()
    single = [some[0] for some in by_relation.values() if len(some) == 1]
    if len(by_relation) >= _FEW and 2 * len(single) > len(by_relation):
        found = first_few([f"{query.relation!r} ({query.place})" for query in single])
        yield f"{len(single):,} of {len(by_relation):,} relations have one fact: do they name relations? {found}"


def _repeated(queries: Iterable[Query]) -> Iterator[str]:
    """Note facts on several lines, and subjects whose facts of one relation have several gold answers."""
    facts: dict[tuple[object, ...], dict[tuple[str, ...], list[Query]]] = defaultdict(lambda: defaultdict(list))
    for query in queries:
        if query.subject_id and query.place:
            key = (query.relation, query.subject_id, query.candidates, query.direction, query.sentences)
            facts[key][tuple(sorted(query.gold))].append(query)
    each = [some for by_gold in facts.values() for some in by_gold.values()]
    several = [[some[0] for some in by_gold.values()] for by_gold in facts.values() if len(by_gold) > 1]
    filtered = [
        some
        for some in several
        if all({*second.gold} <= {*first.gold, *first.known} for first in some for second in some)
    ]
    for what, groups in (
        ("facts with the same answers on several lines", each),
        ("subjects with several facts of a relation, whose answers all count as right", filtered),
    ):
        places = [(some[0].subject, list(dict.fromkeys(query.place for query in some))) for some in groups]
        if found := [f"{subject!r} ({first_few(lines, 3)})" for subject, lines in places if len(lines) > 1]:
            yield f"{what}, {len(found):,}: {first_few(found)}"


def _merged(data: QuerySet, faults: Faults) -> Iterator[str]:
    """Note candidates of several spellings, which are one."""
    golds: dict[str, list[str]] = defaultdict(list)
    for query in data.queries:
        for name in map(data.candidates[query.candidates].name_of, query.gold):
            golds[name].append(query.place)
    respelt: dict[str, dict[str, str]] = defaultdict(dict)
    for file, line, text in faults.tidied:
        respelt[tidy(text)].setdefault(short_place(file, line), text)
    shared = sorted(respelt.keys() & golds.keys())
    merged = [text for name in shared if (text := _spellings(name, respelt[name], golds[name]))]
    if merged:
        yield f"spellings that are one candidate, {len(merged):,}: {first_few(sorted(merged))}"


def _spellings(name: str, respelt: Mapping[str, str], places: Sequence[str]) -> str:
    """Return the spellings of a candidate with a place each; "" if there is one."""
    unmodified = [place for place in places if place not in respelt]
    first_place: dict[str, str] = {}
    for place, text in respelt.items():
        if place in places:
            first_place.setdefault(text, place)
    if not first_place or len(first_place) + bool(unmodified) < 2:
        return ""
    written = [f"{text!a} ({place})" for text, place in sorted(first_place.items())]
    if unmodified:
        written.append(f"{name!r} ({unmodified[0]})")
    return ", ".join(written)


def _alike(space: CandidateSet, queries: Iterable[Query]) -> Iterator[tuple[str, bool]]:
    """Yield candidates that are known by their names, and look alike; and whether they differ in case alone."""
    names: dict[str, list[str]] = defaultdict(list)
    for id_, name in space.named():
        if id_ == name:
            names[folded(name)].append(name)
    alike = {name: some for some in names.values() if len(some) > 1 for name in some}
    if not alike:
        return
    places = {id_: query.place for query in queries for id_ in query.gold if id_ in alike}
    for some in {id(some): some for some in alike.values()}.values():
        shown = ", ".join(f"{name!r} ({places[name]})" if name in places else repr(name) for name in some)
        yield shown, len({name.casefold() for name in some}) == 1


def graph_notes(path: Path, graph: KnowledgeGraph) -> Iterator[str]:
    """Yield notes on the graph in a folder or file, with lines if it is in the layout of this package's graphs."""
    files = find_files(path) if format_of(path) is FORMAT else None
    spans = graph.splits or {"": range(len(graph))}

    @cache
    def lines_of(split: str) -> Columns | None:
        return None if files is None else read_triples(files.triples[split], Faults())

    def place(row: int) -> tuple[str, str]:
        """Return the split of a row, and its file and line."""
        split = next(name for name, span in spans.items() if row in span)
        lines = lines_of(split)
        return split, f"row {row}" if lines is None else f"{lines.file.name}:{lines.line(row - spans[split].start)}"

    repeated: dict[str, list[str]] = {}
    for row, before in zip(*(rows.tolist() for rows in repeated_triples(graph)), strict=True):
        (split, line), (other_split, first) = place(row), place(before)
        what = f"of {split} also in {other_split}" if split != other_split else f"of {split or 'the graph'} repeated"
        repeated.setdefault(what, []).append(f"{line} ({first})")
    if loops := [place(row)[1] for row in np.flatnonzero(graph.head == graph.tail).tolist()]:
        repeated["whose head is the tail"] = loops
    for what, found in repeated.items():
        yield f"{len(found):,} triple{'s' * (len(found) != 1)} {what}: {first_few(found)}"
