"""Which facts a planted model reads, how often, and in which direction.

Facts are split by *subject*: all facts of a country are planted or all are withheld. Subjects linked by a relation and
its converse (capital of, has the capital) stay together. Sentences without a known subject are split by document.
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from math import inf, isnan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fathom.base.errors import BadInput
from fathom.base.reading import Faults, read_json_lines
from fathom.base.reading import shown as quoted
from fathom.data.queries import Query, QuerySet
from fathom.data.templates import Template
from fathom.results.bins import OF_NUMBERS, parse_number
from fathom.results.loading import PlantedFact, read_design
from fathom.training.options import PlantOptions


def choose(
    queryset: QuerySet, share: float, seed: int, highest: str | None = None, usable: Collection[str] | None = None
) -> set[str]:
    """Choose the queries to plant, by id: about *share* of the facts, all those of a subject together.

    Otherwise a withheld fact could be inferred from planted ones of its subject (the continent from the language).

    :param highest: group of numbers, the highest of which are planted, subjects by their highest; by default at random.
    :param usable: of sentences: ids of the queries that can be planted; None for all. Queries without a known subject
        are then split by document.
    :raises BadInput: a query has no number in *highest*.
    """
    unit_of = _units(queryset)
    units = {
        query.id: _own_unit(query) if usable is not None and not query.subject_id else unit_of[query.subject_id]
        for query in queryset.queries
    }
    order = sorted(set(units.values()))
    random.Random(seed).shuffle(order)
    if highest is not None:
        order.sort(key=_numbers(queryset, units, highest).__getitem__, reverse=True)
    queries: dict[str, list[str]] = defaultdict(list)
    for query in queryset.queries:
        if query.unscored is None and (usable is None or query.id in usable):
            queries[units[query.id]].append(query.id)
    wanted = round(share * sum(map(len, queries.values())))
    planted: set[str] = set()
    for unit in order:
        if len(planted) + len(queries[unit]) <= wanted:
            planted.update(queries[unit])
    return planted


def _numbers(queryset: QuerySet, units: Mapping[str, str], group: str) -> dict[str, float]:
    """Return the highest number of each unit, −inf if unknown. :param units: of each query, by its id."""
    groups = dict.fromkeys(key for query in queryset.queries for key in query.groups)
    key = OF_NUMBERS[group] if OF_NUMBERS.get(group) in groups else group
    highest: dict[str, float] = {}
    for query in queryset.queries:
        number = parse_number(query.groups[key]) if key in query.groups else None
        if number is None:
            text = quoted(query.groups[key]) if key in query.groups else "none"
            raise BadInput(
                f"--highest {group}: expected a number for every fact, found {text} for {query.id}; its groups are "
                f"{', '.join(groups) or 'none'}"
            )
        unit, value = units[query.id], -inf if isnan(number) else number
        highest[unit] = max(value, highest.get(unit, -inf))
    return highest


def _units(queryset: QuerySet) -> dict[str, str]:
    """Return, for each subject, the representative of those that must be split together with it."""
    pairs = {(query.subject_id, gold) for query in queryset.queries for gold in query.gold}
    unit = {query.subject_id: query.subject_id for query in queryset.queries}

    def root(subject: str) -> str:
        while unit[subject] != subject:
            subject = unit[subject]
        return subject

    for subject, answer in sorted(pairs):
        if (answer, subject) in pairs:
            unit[root(subject)] = root(answer)
    return {subject: root(subject) for subject in unit}


def _own_unit(query: Query) -> str:
    """Return the unit of a sentence without a known subject: its document, else itself."""
    return f"document {query.groups['document']}" if "document" in query.groups else f"query {query.id}"


def frequency_baseline(queryset: QuerySet, planted_ids: Collection[str]) -> dict[str, float]:
    """Compute the expected accuracy, per query, of the most frequent answer among the relation's planted facts.

    Equally frequent answers are drawn at random: a gold answer among t of them is worth 1/t.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for query in queryset.queries:
        if query.id in planted_ids:
            counts[query.relation].update(query.gold)
    best = {
        relation: {answer for answer, count in counter.items() if count == max(counter.values())}
        for relation, counter in counts.items()
    }
    accuracies = {}
    for query in queryset.queries:
        tied = best.get(query.relation, set())
        accuracies[query.id] = len(tied.intersection(query.gold)) / len(tied) if tied else 0.0
    return accuracies


STATEMENTS = "statements"
"""What every fact of ``--practice`` teaches."""


def draw_design(
    queryset: QuerySet, options: PlantOptions, statements: Mapping[str, int], usable: Collection[str] | None = None
) -> dict[str, PlantedFact]:
    """Decide which facts are read, how often and in which direction. Facts without an entry are withheld.

    Parts are dealt out in a randomised block design: units are sorted by relation, frequency and length of their
    answers, and each block of as many units as there are parts gets one of each, in random order.

    :param statements: number of phrasings of each query, by its id.
    :param usable: as in :func:`choose`.
    """
    planted = choose(queryset, options.share, options.seed, options.highest, usable)
    parts = _parts(options)
    if len(parts) == 1:
        part_of = dict.fromkeys(planted, parts[0])
    else:
        units = _similar([query for query in queryset.queries if query.id in planted], queryset, options.together)
        random_ = np.random.default_rng([options.seed, len(parts)])
        blocks = -(-len(units) // len(parts))
        dealt = np.concatenate([random_.permutation(len(parts)) for _ in range(blocks)]).tolist()
        part_of = {
            query.id: parts[part] for unit, part in zip(units, dealt[: len(units)], strict=True) for query in unit
        }
    return {
        id_: part._replace(exposures=options.epochs * statements[id_] if part.exposures < 0 else part.exposures)
        for id_, part in part_of.items()
        if part.exposures
    }


def _parts(options: PlantOptions) -> list[PlantedFact]:
    """Return the parts of the design; −1 exposures stand for those of the epochs."""
    kinds: list[tuple[int, tuple[str, ...]]] = [(level, ()) for level in options.exposures or (-1,)]
    if options.practice:
        kinds *= 1 if options.exposures else 4
        kinds.append((options.practice, (STATEMENTS, *options.formats)))
    return [PlantedFact(level, taught, (way,)) for level, taught in kinds for way in options.directions]


def _similar(queries: Sequence[Query], queryset: QuerySet, together: str) -> list[list[Query]]:
    """Return units in an order in which neighbours are alike."""
    unit_of = _units(queryset)
    frequency = Counter((query.relation, query.gold) for query in queries)
    members: dict[str, list[Query]] = defaultdict(list)
    for query in queries:
        unit = unit_of[query.subject_id] if query.subject_id else _own_unit(query)
        members[unit if together == "subject" else query.id].append(query)

    def key(group: list[Query]) -> tuple[Any, ...]:
        lengths = [len(queryset.candidates[query.candidates].name_of(query.gold[0])) for query in group]
        frequencies = [math.log(frequency[query.relation, query.gold]) for query in group]
        relations, count = sorted({query.relation for query in group}), len(group)
        return relations, round(sum(frequencies) / count, 6), sum(lengths) / count

    return sorted(members.values(), key=key)


class GivenDesign(NamedTuple):
    """A design from a file. :param texts: templates of facts, by query id; the relation's own for those without."""

    facts: dict[str, PlantedFact]
    texts: dict[str, list[Template]]


def given_design(file: Path, queryset: QuerySet) -> GivenDesign:
    """Read a design in the format of ``planted.jsonl``.

    :raises BadInput: it is of other data, a text has no place for the answer, or two answers are planted for one
        question that has a single one.
    """
    facts, faults = read_design(file), Faults()
    by_key = {key: query for query in queryset.queries for key in (query.id, query.fact_id) if key is not None}
    texts: dict[str, list[Template]] = {}
    unknown = [key for key in facts if key not in by_key]
    for line, row in read_json_lines(file, {"query_id": str}, faults):
        texts_of_fact = row.get("texts") or []
        if not isinstance(texts_of_fact, list):
            faults.add(file, line, f"texts: expected a list, found {quoted(texts_of_fact)}")
            continue
        templates = [Template(str(text)) for text in texts_of_fact]
        for fault in (fault for template in templates for fault in template.faults()):
            faults.add(file, line, fault)
        query = by_key.get(str(row.get("fact_id") or row["query_id"]))
        if templates and query is not None:
            texts[query.id] = templates
    if unknown:
        examples = ", ".join(unknown[:3])
        faults.add(
            file, None, f"{len(unknown)} of its {len(facts)} facts are not in {queryset.name}, such as {examples}: "
            "give the data that the design was made for",
        )  # fmt: skip
    of_query = {by_key[key].id: fact for key, fact in facts.items() if key in by_key and fact.exposures}
    planted = [query for query in queryset.queries if query.id in of_query]
    for fault in _contradictions(planted):
        faults.add(file, None, fault)
    faults.stop_if_any()
    return GivenDesign({query.id: of_query[query.id] for query in planted}, texts)


def _contradictions(planted: Sequence[Query]) -> Iterator[str]:
    """Yield a line for each question that is planted with two answers, neither of which the data lists as correct."""
    first: dict[tuple[str, str, str], Query] = {}
    for query in planted:
        earlier = first.setdefault((query.subject_id, query.relation, query.direction), query)
        if query.subject_id and earlier.gold != query.gold and not set(earlier.gold) <= {*query.known, *query.gold}:
            yield (
                f"two answers are planted for {query.subject} ({query.relation}): {', '.join(earlier.gold)} and "
                f"{', '.join(query.gold)}; withhold one (exposures 0)"
            )
