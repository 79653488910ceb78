"""What is asked: queries, the answer spaces they share, and the relations whose templates put them into words."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from fathom.data.knowledge import KnowledgeGraph
from fathom.data.templates import Sentence, Template
from fathom.reading import shown, some_of
from fathom.store.predictions import NO_TEMPLATE

Direction = Literal["tail", "head"]
SEEN, OF_ANSWER, POPULARITY = "seen", "answer_triples", "popularity"
DERIVED = frozenset({SEEN, OF_ANSWER, POPULARITY})
"""Groups that follow from the rest of a graph (:mod:`fathom.data.graph.seen`)."""
ENTITIES = "entities"
"""Name of the candidate set that all queries of a graph share."""
NGRAM, NGRAM_AMONG_ALL, ANSWERABLE = "n-gram", "n-gram among all", "answerable"
"""Groups of built sentences: where a model of neighbouring words puts the answer ("3 of 22", "3-5 of 22" where it ties)
among its own candidates and among those of all relations; and whether it puts it first."""


LONGEST_NAME = 20_000
"""Most characters of a name. Longer text would keep a model busy for hours."""
SPLIT = "split"
"""Group of facts of Fathom's own format that are parts of the data: each is a subset."""


@dataclass(frozen=True)
class CandidateSet:
    """An ordered answer space, shared by many queries. Ids are unique; names may repeat (two people of one name).

    :param descriptions: a short text on each, "" for none; None where none has one.
    """

    name: str
    ids: tuple[str, ...]
    names: tuple[str, ...]
    descriptions: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"<CandidateSet {shown(self.name)}: {len(self):,} candidates: {some_of(self.names)}>"

    @cached_property
    def position(self) -> dict[str, int]:
        """Place of each id in the order."""
        return {id_: place for place, id_ in enumerate(self.ids)}

    def places(self, ids: Iterable[str]) -> list[int]:
        """Where they stand; those that are not among the candidates are passed over."""
        return [self.position[id_] for id_ in ids if id_ in self.position]

    def named(self) -> Iterable[tuple[str, str]]:
        """Ids with their names, in order."""
        return zip(self.ids, self.names, strict=True)

    def name_of(self, id_: str) -> str:
        """ "" where it is not a candidate."""
        return self.names[self.position[id_]] if id_ in self.position else ""

    def keep(self, places: Sequence[int]) -> CandidateSet:
        """A smaller set, in the given order."""
        ids, names = (tuple(column[place] for place in places) for column in (self.ids, self.names))
        said = self.descriptions
        return CandidateSet(self.name, ids, names, None if said is None else tuple(said[place] for place in places))


@dataclass(frozen=True, slots=True)
class Query:
    """One thing to ask: (head, relation, ?) or, with ``direction="head"``, (?, relation, tail), or a cloze sentence.

    :param subject: name of the known entity, "" where a sentence is all there is.
    :param subject_id: its id, or "".
    :param gold: ids of the right answers, within the candidate set.
    :param candidates: name of the candidate set.
    :param known: other right answers, taken out of the ranking (the filtered setting).
    :param groups: what to break results down by, e.g. cardinality or domain; several values joined by "; ".
    :param unscored: why it cannot be asked, where it cannot.
    :param sentences: natural sentences that ask it, where there are any, instead of the relation's templates.
    :param altered: further sentences that the data have of it, by kind (:mod:`fathom.data.selection.altering`).
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

    @property
    def fact_id(self) -> str | None:
        """``head|relation|tail``, with ``*`` for several answers: the same in every template, run and world.
        None for a sentence whose subject is not known."""
        if not self.subject_id:
            return None
        answer = self.gold[0] if len(self.gold) == 1 else "*"
        head, tail = (self.subject_id, answer) if self.direction == "tail" else (answer, self.subject_id)
        return f"{head}|{self.relation}|{tail}"


def unrankable(query: Query, space: CandidateSet) -> str | None:
    """Why no rank among *space* would say anything; None where one does."""
    if query.unscored is not None:
        return query.unscored
    if any(answer not in space.position for answer in query.gold):
        return "the gold answer is not among the candidates"
    return "there is one candidate: every answer is right" if len(space) == 1 else None


@dataclass(frozen=True)
class Relation:
    """A relation and how it is put into words.

    :param cardinality: "1:1" where every answer occurs once, else "1:N".
    :param questions: templates whose answer stands last, for a model to complete: "What is the capital of [X]? [Y]".
    :param negated: templates that say the opposite: "[X] was not born in [Y]."
    :param asks_heads: its templates ask for heads: the tail is what stands at ``[X]``.
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
    """Queries, candidate sets, relations, and where they come from. Every reader makes one.

    :param subsets: named parts, as ids of queries (BEAR's ``lite``).
    :param notes: what the reader found odd but could live with, each with file and line.
    :param whole: what this is a selected part of: where examples that are not asked can be found.
    :param usual: the subset on which published numbers were measured, "" where there is none.
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
        """One line, also of millions of queries."""
        graph = f", of a graph of {len(self.graph):,} triples" if self.graph is not None else ""
        about = f"{len(self.queries):,} queries, {len(self.relations):,} relations: {some_of(self.relations)}"
        return f"<{type(self).__name__} {shown(self.name)}: {about}{graph}>"

    @cached_property
    def content_hash(self) -> str:
        """Digest of everything that can change a result: queries, answer spaces, templates, in their order; without
        what :data:`DERIVED` groups say, which follows from the graph."""
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
        if self.graph is not None and self.graph.splits:  # few-shot lines are drawn from triples that nobody asks
            digest.update(self.graph.content_hash.encode())
        return digest.hexdigest()[:16]

    @cached_property
    def has_sentences(self) -> bool:
        """Whether facts can be asked in sentences of their own."""
        return any(query.sentences for query in self.queries)

    def phrasings(self, query: Query) -> Sequence[Template]:
        """What puts *query* into words: its own sentences, else its relation's templates."""
        if query.sentences:
            return [Template(sentence.text, natural=True) for sentence in query.sentences]
        return self.relations[query.relation].templates

    def lacking_templates(self, numbers: Iterable[int]) -> list[str]:
        """One line for each template asked for that a relation does not have."""
        faults = []
        for relation, queries in self.by_relation().items():
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

    def heads_in_templates(self) -> list[str]:
        """One line where heads are asked of relations whose templates or sentences ask for tails."""
        worded = [
            relation
            for relation, queries in self.by_relation().items()
            if not self.relations[relation].asks_heads
            and any(query.direction == "head" and self.phrasings(query) for query in queries)
        ]
        if not worded:
            return []
        shown = ", ".join(worded[:5]) + (f", … ({len(worded)} in all)" if len(worded) > 5 else "")
        return [
            f"--directions head: the templates of {shown} ask for tails, only few-shot lines ask for heads: choose "
            "relations without templates (--relations), use the embedding probe, or give --reverse instead"
        ]

    def by_phrasing(self, queries: Sequence[Query], numbers: Sequence[int] = ()) -> dict[int, list[Query]]:
        """Queries by the numbers of their phrasings, those without any under :data:`NO_TEMPLATE`.

        :param numbers: only these phrasings.
        :param queries: they come back in their order.
        """
        grouped: dict[int, list[Query]] = {}
        for query in queries:
            count = len(self.phrasings(query))
            asked = [number for number in numbers or range(count) if number < count] if count else [NO_TEMPLATE]
            for number in asked:
                grouped.setdefault(number, []).append(query)
        return dict(sorted(grouped.items()))

    def without_subjects(self, probe: str) -> list[str]:
        """One line for a *probe* that needs the subject of a question, where there are only sentences."""
        if not any(query.sentences for query in self.queries):
            return []
        return [
            f"the {probe} probe asks of a subject, {self.name} is asked by sentences, as all is with --alter: use the "
            "cloze or statement probe"
        ]

    def by_relation(self) -> dict[str, list[Query]]:
        """Queries of each relation that has any, in the order of the relations."""
        grouped: dict[str, list[Query]] = {relation: [] for relation in self.relations}
        for query in self.queries:
            grouped[query.relation].append(query)
        return {relation: queries for relation, queries in grouped.items() if queries}


def cardinality_of(answers: Iterable[str]) -> str:
    """ "1:1" where every answer is given once, else "1:N" (the paper's terms)."""
    return "1:1" if max(Counter(answers).values(), default=1) == 1 else "1:N"
