"""Queries, the answer spaces they share, and relations with their templates."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from fathom.base.reading import first_few, shown
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.templates import Sentence, Template
from fathom.store.predictions import NO_TEMPLATE

Direction = Literal["tail", "head"]
SEEN, OF_ANSWER, POPULARITY = "seen", "answer_triples", "popularity"
DERIVED = frozenset({SEEN, OF_ANSWER, POPULARITY})
"""Groups derived from the rest of a graph (:mod:`fathom.data.graph.seen`)."""
ENTITIES = "entities"
"""Name of the candidate set of a graph."""
NGRAM, NGRAM_AMONG_ALL, ANSWERABLE = "n-gram", "n-gram among all", "answerable"
"""Groups of built sentences: the answer's rank by an n-gram model ("3 of 22", "3-5 of 22" for ties) among its own
candidates and among those of all relations; and whether it is first."""
_CODE = re.compile(r"(?=\S*\d)(?=\S*[A-Za-z/_])\S+$|\d{6,}$")
SPLIT = "split"
"""Group of facts in Fathom's own format whose values are subsets of the data."""


@dataclass(frozen=True)
class CandidateSet:
    """An ordered answer space, shared by many queries. Ids are unique; names may repeat (two people of one name).

    :param descriptions: a short text for each, "" for none; None if no candidate has one.

    >>> fathom.CandidateSet("cities", ("Q90", "Q220"), ("Paris", "Rome")).name_of("Q220")
    'Rome'
    """

    name: str
    ids: tuple[str, ...]
    names: tuple[str, ...]
    descriptions: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"<CandidateSet {shown(self.name)}: {len(self):,} candidates: {first_few(self.names)}>"

    @cached_property
    def position(self) -> dict[str, int]:
        """Place of each id in the order."""
        return {id_: place for place, id_ in enumerate(self.ids)}

    def places(self, ids: Iterable[str]) -> list[int]:
        """Return the places of ids; ids that are not candidates are skipped."""
        return [self.position[id_] for id_ in ids if id_ in self.position]

    def named(self) -> Iterable[tuple[str, str]]:
        """Return pairs of id and name, in order."""
        return zip(self.ids, self.names, strict=True)

    def name_of(self, id_: str) -> str:
        """Return the name of an id, "" if it is not a candidate."""
        return self.names[self.position[id_]] if id_ in self.position else ""

    def keep(self, places: Sequence[int]) -> CandidateSet:
        """Return a smaller set, in the given order."""
        ids, names = (tuple(column[place] for place in places) for column in (self.ids, self.names))
        texts = self.descriptions
        return CandidateSet(self.name, ids, names, None if texts is None else tuple(texts[place] for place in places))


@dataclass(frozen=True, slots=True)
class Query:
    """One question: (head, relation, ?) or, with ``direction="head"``, (?, relation, tail), or a cloze sentence.

    :param subject: name of the known entity, "" for a sentence without one.
    :param gold: ids of the gold answers, within the candidate set.
    :param known: other correct answers, removed from the ranking (the filtered setting).
    :param groups: keys of breakdowns, e.g. cardinality or domain; several values are joined by "; ".
    :param sentences: natural sentences to use instead of the relation's templates.
    :param altered: further sentences from the data, by kind (:mod:`fathom.data.selection.altering`).
    :param place: file and line from which it was read, for messages; "" if unknown.
    :param distances: of each gold answer the steps in the data's hierarchy, 1 for the finest; () without a hierarchy.
    :param one_of_several: the data have further gold answers, which are not candidates here.

    >>> fathom.Query("q1", "capital", "France", "Q142", ("Q90",), "cities").fact_id
    'Q142|capital|Q90'
    """

    id: str
    relation: str
    subject: str
    subject_id: str
    gold: tuple[str, ...]
    candidates: str
    direction: Direction = "tail"
    known: tuple[str, ...] = ()
    groups: Mapping[str, str] = field(default_factory=dict)
    unscored: str | None = None
    sentences: tuple[Sentence, ...] = ()
    altered: Mapping[str, tuple[Sentence, ...]] = field(default_factory=dict)
    distances: tuple[int, ...] = ()
    place: str = field(default="", compare=False, repr=False)
    one_of_several: bool = False

    @property
    def fact_id(self) -> str | None:
        """``head|relation|tail``, with ``*`` for several answers: the same in every template, run and world.

        None for a sentence whose subject is unknown.
        """
        if not self.subject_id:
            return None
        answer = "*" if self.one_of_several or len(self.gold) != 1 else self.gold[0]
        head, tail = (self.subject_id, answer) if self.direction == "tail" else (answer, self.subject_id)
        return f"{head}|{self.relation}|{tail}"


def unrankable(query: Query, space: CandidateSet) -> str | None:
    """Return why a rank among *space* would be meaningless, or None."""
    if query.unscored is not None:
        return query.unscored
    if any(answer not in space.position for answer in query.gold):
        return "the gold answer is not among the candidates"
    if len(space) == 1:
        return "there is one candidate: every answer is right"
    if len(query.gold) + len(query.known) >= len(space) and {*query.gold, *query.known} >= space.position.keys():
        return "every candidate is a right answer"
    return None


@dataclass(frozen=True)
class Relation:
    """A relation and its templates.

    :param cardinality: "1:1" if every answer occurs once, else "1:N".
    :param questions: templates with the answer at the end: "What is the capital of [X]? [Y]".
    :param negated: templates that state the opposite: "[X] was not born in [Y]."
    :param asks_heads: its templates ask for heads: ``[X]`` is the tail.

    >>> fathom.Relation("capital", "capital", (fathom.Template("The capital of [X] is [Y]."),), "1:1").cardinality
    '1:1'
    """

    id: str
    name: str
    templates: tuple[Template, ...]
    cardinality: str
    domains: tuple[str, ...] = ()
    questions: tuple[Template, ...] = ()
    asks_heads: bool = False
    negated: tuple[Template, ...] = ()


@dataclass(frozen=True)
class QuerySet:
    """Queries, candidate sets, relations and their source. Every reader returns one.

    :param subsets: named parts, as ids of queries (BEAR's ``lite``).
    :param notes: oddities that the reader accepted, each with file and line.
    :param whole: the unfiltered data, which has examples outside the queries.
    :param usual: the subset of published numbers, "" if there is none.

    >>> data = fathom.read_data("geography")
    >>> len(data.queries), list(data.relations)
    (781, ['capital', 'continent', 'currency', 'language'])
    """

    name: str
    queries: Sequence[Query]
    candidates: Mapping[str, CandidateSet]
    relations: Mapping[str, Relation]
    version: str = ""
    licence: str = "not stated"
    subsets: Mapping[str, frozenset[str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    graph: KnowledgeGraph | None = None
    whole: QuerySet | None = field(default=None, repr=False, compare=False)
    usual: str = ""

    def __repr__(self) -> str:
        graph = f", of a graph of {len(self.graph):,} triples" if self.graph is not None else ""
        relations = first_few(self.labels_of(self.relations))
        about = f"{len(self.queries):,} queries, {len(self.relations):,} relations: {relations}"
        return f"<{type(self).__name__} {shown(self.name)}: {about}{graph}>"

    @cached_property
    def content_hash(self) -> str:
        """Digest of everything that can change a result: queries, answer spaces and templates, in their order.

        :data:`DERIVED` groups are excluded, as they follow from the graph.
        """
        digest = hashlib.sha256()
        for query in self.queries:
            fields = (query.id, query.relation, query.subject, query.subject_id, query.gold, query.candidates)
            groups = {name: value for name, value in query.groups.items() if name not in DERIVED}
            digest.update(json.dumps([*fields, query.direction, query.known, groups]).encode())
            if query.sentences:
                digest.update(json.dumps(query.sentences).encode())
            if query.altered:
                digest.update(json.dumps(dict(query.altered)).encode())
        for space in self.candidates.values():
            digest.update(json.dumps([space.name, space.ids, space.names]).encode())
            if space.descriptions is not None:
                digest.update(json.dumps(space.descriptions).encode())
        for relation in self.relations.values():
            digest.update(json.dumps([relation.id, [template.text for template in relation.templates]]).encode())
            if relation.questions:
                digest.update(json.dumps([question.text for question in relation.questions]).encode())
            if relation.negated:
                digest.update(json.dumps({"negated": [template.text for template in relation.negated]}).encode())
        if self.graph is not None and self.graph.splits:  # few-shot lines come from triples outside the queries
            digest.update(self.graph.content_hash.encode())
        return digest.hexdigest()[:16]

    @cached_property
    def has_sentences(self) -> bool:
        """Return whether some queries have natural sentences."""
        return any(query.sentences for query in self.queries)

    @cached_property
    def relation_labels(self) -> dict[str, str]:
        """Return labels by id, of relations whose ids are addresses."""
        return relation_labels({id_: relation.name for id_, relation in self.relations.items()})

    def labels_of(self, relations: Iterable[str]) -> list[str]:
        """Return what messages call relations: their labels if they have one, else their ids."""
        return [self.relation_labels.get(id_, id_) for id_ in relations]

    def phrasings(self, query: Query) -> Sequence[Template]:
        """Return the query's own sentences, else its relation's templates."""
        if query.sentences:
            return [Template(sentence.text, natural=True) for sentence in query.sentences]
        return self.relations[query.relation].templates

    def template_faults(self, numbers: Iterable[int]) -> list[str]:
        """Return a line for each selected template that a relation does not have."""
        faults = []
        grouped = self.by_relation()
        for relation, queries in zip(self.labels_of(grouped), grouped.values(), strict=True):
            count = max(len(self.phrasings(query)) for query in queries)
            missing = [number for number in numbers if number >= count]
            if missing and not count:
                faults.append(
                    f"relation {relation} has no templates to choose from: leave --templates out, few-shot lines are "
                    "used"
                )
            else:
                faults += [f"relation {relation} has no template {n}: it has 0 to {count - 1}" for n in missing]
        return faults

    def head_faults(self) -> list[str]:
        """Return a line if heads are queried with templates or sentences that ask for tails."""
        with_text = [
            relation
            for relation, queries in self.by_relation().items()
            if not self.relations[relation].asks_heads
            and any(query.direction == "head" and self.phrasings(query) for query in queries)
        ]
        if not with_text:
            return []
        return [
            f"--directions head: the templates of {first_few(self.labels_of(with_text))} ask for tails: choose "
            "relations without templates (--relations), use the embedding probe, or give --reverse instead"
        ]

    def by_phrasing(self, queries: Sequence[Query], numbers: Sequence[int] = ()) -> dict[int, list[Query]]:
        """Group queries by the numbers of their phrasings; those without any are under :data:`NO_TEMPLATE`.

        :param numbers: only these phrasings; () for all.
        """
        grouped: dict[int, list[Query]] = {}
        for query in queries:
            count = len(self.phrasings(query))
            phrasing_numbers = (
                [number for number in numbers or range(count) if number < count] if count else [NO_TEMPLATE]
            )
            for number in phrasing_numbers:
                grouped.setdefault(number, []).append(query)
        return dict(sorted(grouped.items()))

    def subject_faults(self, probe: str) -> list[str]:
        """Return a line for a *probe* that needs subjects, if there are only sentences."""
        if not any(query.sentences for query in self.queries):
            return []
        return [
            f"the {probe} probe needs subjects, but {self.name} has sentences (always with --alter): use the cloze or "
            "statement probe"
        ]

    def by_relation(self) -> dict[str, list[Query]]:
        """Group queries by relation, in the order of the relations, without empty groups."""
        grouped: dict[str, list[Query]] = {relation: [] for relation in self.relations}
        for query in self.queries:
            grouped[query.relation].append(query)
        return {relation: queries for relation, queries in grouped.items() if queries}


def are_codes(ids: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether most names are ids that mean nothing to a language model: Q42, /m/0f8l9c, 08769179."""
    codes = [id_ == name and bool(_CODE.match(id_)) for id_, name in zip(ids, names, strict=True)]
    return 2 * sum(codes) > len(codes)


def relation_labels(names: Mapping[str, str]) -> dict[str, str]:
    """Return the names of relations whose ids are addresses, except names that several relations have.

    :param names: of all relations, by id.
    """
    shown = {id_: name if "://" in id_ and name.strip() else id_ for id_, name in names.items()}
    counts = Counter(shown.values())
    return {id_: name for id_, name in shown.items() if name != id_ and counts[name] == 1}


def cardinality_of(answers: Iterable[str]) -> str:
    """Return "1:1" if every answer occurs once, else "1:N" (the paper's terms)."""
    return "1:1" if max(Counter(answers).values(), default=1) == 1 else "1:N"
