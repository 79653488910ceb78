"""Facts whose answers have ids and names, and questions with their own few answers, made into queries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from fathom.base.reading import Faults, first_few, read_json_lines, short_place, shown
from fathom.data.formats.base import Draft, check_templates, texts_of, unscored_unless
from fathom.data.knowledge import KnowledgeGraph, Triple, consecutive
from fathom.data.queries import CandidateSet, Query, Relation, cardinality_of
from fathom.data.templates import ANSWER, SUBJECT, Sentence, Template

_SPLITS = ("train", "dev", "test")


class RelationEntry(NamedTuple):
    """A relation of a file of templates.

    :param type: a group of its queries, such as LAMA's cardinality ("N-1"); "" for none.
    :param questions: and *negated*, as in :class:`~fathom.data.queries.Relation`.
    """

    templates: tuple[Template, ...] = ()
    name: str = ""
    type: str = ""
    questions: tuple[Template, ...] = ()
    domains: tuple[str, ...] = ()
    negated: tuple[Template, ...] = ()


def read_entries(file: Path, faults: Faults, source: str = "") -> dict[str, RelationEntry]:
    """Read lines ``{"relation": "P19", "template": "[X] was born in [Y] ."}``, several per relation if need be.

    They may have ``template_negated`` ("[X] was not born in [Y] .").

    :param source: skip lines with another ``source`` (BioLAMA).
    """
    entries: dict[str, RelationEntry] = {}
    for line, row in read_json_lines(file, {"relation": str}, faults):
        if source and row.get("source", source) != source:
            continue
        several = row.get("templates", [])
        if isinstance(several, list) and "template" in row:
            several = [*several, row["template"]]
        texts = texts_of(several)
        if not texts:
            faults.add(file, line, f"expected 'template': \"… {SUBJECT} … [Y] …\" or 'templates': a list of such texts")
        templates = check_templates(file, line, texts or (), faults)
        negation = row.get("template_negated") or ""
        if not isinstance(negation, str):
            faults.add(file, line, f"'template_negated' must be text, found {shown(negation)}")
        negated = check_templates(file, line, [negation] if negation and isinstance(negation, str) else [], faults)
        before = entries.get(row["relation"], RelationEntry())
        for template in templates:
            if template in before.templates:
                faults.note(file, line, f"template {template.text!r} of {row['relation']} is repeated")
        entries[row["relation"]] = RelationEntry(
            tuple(dict.fromkeys((*before.templates, *templates))),
            before.name or _text(row.get("label")),
            before.type or _text(row.get("type")),
            negated=tuple(dict.fromkeys((*before.negated, *negated))),
        )
    return entries


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


class NamedAnswer(NamedTuple):
    """A right answer."""

    id: str
    name: str
    aliases: tuple[str, ...] = ()


class Fact(NamedTuple):
    """A line of a file: a subject with its right answers.

    :param by_sentence: each fact of the layout has sentences, so that no subject is needed.
    :param altered: and *groups*, as in :class:`~fathom.data.queries.Query`.
    """

    file: Path
    line: int | None
    id: str
    relation: str
    subject: str
    subject_id: str
    answers: tuple[NamedAnswer, ...]
    sentences: tuple[Sentence, ...] = ()
    by_sentence: bool = False
    subject_aliases: tuple[str, ...] = ()
    split: str = "test"
    altered: Mapping[str, tuple[Sentence, ...]] = MappingProxyType({})
    groups: Mapping[str, str] = MappingProxyType({})


class AnswerNames:
    """Ids and names of answers, one to one.

    No model can distinguish two answers of the same name: they are one candidate, whose id is the name. If an id has
    several names, the first counts. Both are noted.

    :param facts: all facts whose answers must be distinguished; answers without a name are skipped.
    :param merge: False to keep answers of one name apart (KAMEL, whose names are not unique by design).
    """

    def __init__(self, facts: Iterable[Fact], merge: bool = True) -> None:
        self._merge = merge
        self._names: dict[str, str] = {}
        self._ids: dict[str, list[str]] = {}
        self._renamed: dict[str, str] = {}
        for fact in facts:
            for answer in _named(fact):
                name = self._names.get(answer.id)
                if name is None:
                    self._names[answer.id] = answer.name
                    self._ids.setdefault(answer.name, []).append(answer.id)
                elif name != answer.name:
                    self._renamed.setdefault(answer.id, answer.name)

    def name_of(self, id_: str) -> str:
        """:raises KeyError: an id without a name."""
        return self._names[id_]

    def id_of(self, id_: str) -> str:
        """Return the candidate of an answer; an id without a name stays unchanged."""
        name = self._names.get(id_)
        return name if name is not None and self._merge and len(self._ids[name]) > 1 else id_

    def note(self, path: Path, faults: Faults) -> None:
        """Note shared names and renamed ids, with examples."""
        shared = [f"{name!r} ({', '.join(ids[:3])})" for name, ids in self._ids.items() if len(ids) > 1]
        renamed = [f"{id_} ({self._names[id_]!r}, {name!r})" for id_, name in self._renamed.items()]
        if shared and self._merge:
            message = "each name is one candidate, whose id is the name"
            faults.note(path, None, f"names of several ids: {first_few(shared)}; {message}")
        if renamed:
            faults.note(path, None, f"ids with several names: {first_few(renamed)}; the first is used")


def add_facts(
    draft: Draft,
    facts: Sequence[Fact],
    entries: Mapping[str, RelationEntry],
    *,
    splits: bool = False,
    count_answers: bool = False,
    by_id: bool = False,
) -> dict[str, Any]:
    """Add a query for each fact; its candidates are all answers of its relation.

    :param splits: queries come from the facts of the split ``test``; the others are splits of the graph.
    :param count_answers: add the group ``answers``.
    :param by_id: as in KAMEL's evaluation: answers of one name stay apart, and other right answers of a subject count
        as wrong.
    :returns: further arguments of :meth:`Draft.queryset`.
    """
    names, grouped = AnswerNames(facts, merge=not by_id), defaultdict[str, list[Fact]](list)
    for fact in facts:
        if fact.split == "test" or not splits:
            grouped[fact.relation].append(fact)
    taken: set[str] = set()
    for id_, members in grouped.items():
        entry = entries.get(id_, RelationEntry())
        # A query all of whose answers lack a name is unscored.
        golds = [
            tuple(dict.fromkeys(names.id_of(answer.id) for answer in _named(fact) or fact.answers)) for fact in members
        ]
        candidates = {names.id_of(answer.id): names.name_of(answer.id) for fact in members for answer in _named(fact)}
        if not candidates:
            draft.faults.add(members[0].file, None, f"relation {id_} has no answer with a name: nothing to choose from")
        cardinality = cardinality_of(answer for gold in golds for answer in gold)
        about = (entry.name or id_, entry.templates, cardinality, entry.domains, entry.questions)
        relation = Relation(id_, *about, negated=entry.negated)
        shared = {"cardinality": cardinality, **({"type": entry.type} if entry.type else {})}
        counts = [{"answers": str(len(gold))} if count_answers else {} for gold in golds]
        groups = [{**shared, **fact.groups, **count} for fact, count in zip(members, counts, strict=True)]
        right: Mapping[str, Iterable[str]] = {} if by_id else _right_answers(members, golds)
        queries = _queries(relation, members, golds, groups, right, taken, draft.faults)
        draft.add(relation, CandidateSet(id_, tuple(candidates), tuple(candidates.values())), queries)
    if draft.queries and not draft.faults.found:
        names.note(draft.path, draft.faults)
    return {"graph": partial(_split_graph, facts, names) if splits else partial(_aliased_graph, draft, facts, names)}


def _named(fact: Fact) -> list[NamedAnswer]:
    return [answer for answer in fact.answers if answer.name.strip()]


def _right_answers(facts: Sequence[Fact], golds: Sequence[tuple[str, ...]]) -> Mapping[str, Iterable[str]]:
    """Return the gold answers of all facts of each subject."""
    right: dict[str, dict[str, None]] = defaultdict(dict)
    for fact, gold in zip(facts, golds, strict=True):
        if fact.subject_id and _named(fact):
            right[fact.subject_id].update(dict.fromkeys(gold))
    return right


def _queries(
    relation: Relation,
    facts: Sequence[Fact],
    golds: Sequence[tuple[str, ...]],
    groups: Sequence[Mapping[str, str]],
    right: Mapping[str, Iterable[str]],
    taken: set[str],
    faults: Faults,
) -> Iterator[Query]:
    """:param right: all right answers of a subject. :param taken: ids of queries; each new one is added."""
    for number, (fact, gold) in enumerate(zip(facts, golds, strict=True)):
        id_ = fact.id or f"{relation.id}/{number}"
        if id_ in taken:
            faults.note(fact.file, fact.line, f"id {id_} is repeated: this fact is {id_}/{number}")
            id_ = f"{id_}/{number}"
        taken.add(id_)
        yield Query(
            id=id_,
            relation=relation.id,
            subject=fact.subject,
            subject_id=fact.subject_id,
            gold=gold,
            candidates=relation.id,
            known=tuple(answer for answer in right.get(fact.subject_id, ()) if answer not in gold),
            groups=groups[number],
            unscored=_unscored(fact, relation, faults),
            sentences=fact.sentences,
            altered=dict(fact.altered),
            place=short_place(fact.file, fact.line),
        )


def _unscored(fact: Fact, relation: Relation, faults: Faults) -> str | None:
    """Return why the query is unscored, if it is, and note it."""
    lacking = len(fact.answers) - len(_named(fact))
    if lacking == len(fact.answers):
        return unscored_unless(False, fact.file, fact.line, reason := "the answer has no name", faults, reason)
    if lacking:
        faults.note(fact.file, fact.line, f"{lacking} of {len(fact.answers)} answers have no name: left out")
    is_scored = fact.subject.strip() or (fact.by_sentence and not relation.templates)
    return unscored_unless(is_scored, fact.file, fact.line, "the subject has no name", faults)


def _aliased_graph(draft: Draft, facts: Iterable[Fact], names: AnswerNames) -> KnowledgeGraph | None:
    """Make a graph of the queries with aliases of subjects and answers; None if no fact has a known subject."""
    texts = {query.subject_id: query.subject for query in reversed(draft.queries)} | draft.names()
    aliases: dict[str, dict[str, None]] = defaultdict(dict)
    for fact in facts:
        aliases[fact.subject_id].update(dict.fromkeys(fact.subject_aliases))
        for answer in fact.answers:
            aliases[names.id_of(answer.id)].update(dict.fromkeys(answer.aliases))
    return draft.graph(texts, aliases)


def _split_graph(facts: Iterable[Fact], names: AnswerNames) -> KnowledgeGraph:
    """Make a graph of all facts, named as in the last split; without splits if all facts are of ``test``."""
    texts: dict[str, str] = {}
    aliases: dict[str, dict[str, None]] = defaultdict(dict)
    triples: dict[str, list[Triple]] = {split: [] for split in _SPLITS}
    for fact in sorted(facts, key=lambda fact: _SPLITS.index(fact.split), reverse=True):
        answers = [(names.id_of(answer.id), answer.name, answer.aliases) for answer in fact.answers]
        for id_, name, others in ((fact.subject_id, fact.subject, fact.subject_aliases), *answers):
            texts.setdefault(id_, name)
            aliases[id_].update(dict.fromkeys(others))
        triples[fact.split] += [(fact.subject_id, fact.relation, id_) for id_, *_ in answers]
    if not triples["train"] and not triples["dev"]:
        return KnowledgeGraph.from_triples(triples["test"], texts, aliases)
    if not triples["dev"]:
        del triples["dev"]
    graph = KnowledgeGraph.from_triples(chain.from_iterable(triples.values()), texts, aliases)
    return replace(graph, splits=consecutive({split: len(rows) for split, rows in triples.items()}))


class ClosedQuestion(NamedTuple):
    """A question.

    :param wrong: names of the distractors; empty names and right answers are dropped and noted.
    :param known: other right names, which are not ranked.
    :param ids: of names; a name without one is its own id.
    """

    file: Path
    line: int | None
    id: str
    relation: str
    sentences: Sequence[str]
    right: Sequence[str]
    wrong: Sequence[str]
    groups: Mapping[str, str]
    subject: str = ""
    subject_id: str = ""
    known: Sequence[str] = ()
    ids: Mapping[str, str] = {}
    unscored: str | None = None
    relation_name: str = ""


def add_questions(draft: Draft, questions: Iterable[ClosedQuestion]) -> dict[str, Any]:
    """Add a query for each question, with one candidate set for equal answers, and their relations."""
    spaces: dict[tuple[tuple[str, str], ...], CandidateSet] = {}
    golds: dict[tuple[str, str], list[str]] = defaultdict(list)
    lacking: list[str] = []
    seen: set[str] = set()
    for question in questions:
        _check(question, seen, draft.faults)
        seen.add(question.id)
        ids, right = question.ids, (*question.right, *question.known)
        wrong = [name for name in question.wrong if name.strip() and name not in right]
        if len(wrong) < len(question.wrong):
            lacking.append(question.id)
        names = tuple(dict.fromkeys((*right, *wrong)))
        key = tuple((ids.get(name, name), name) for name in names)
        if key not in spaces:
            spaces[key] = CandidateSet(question.id, tuple(id_ for id_, _ in key), names)
            draft.candidates[question.id] = spaces[key]
        gold = tuple(ids.get(name, name) for name in question.right)
        golds[question.relation, question.relation_name] += gold
        draft.queries.append(
            Query(
                question.id,
                question.relation,
                question.subject,
                question.subject_id,
                gold,
                spaces[key].name,
                known=tuple(ids.get(name, name) for name in question.known),
                groups=question.groups,
                unscored=question.unscored,
                sentences=tuple(map(Sentence, dict.fromkeys(question.sentences))),
                place=short_place(question.file, question.line),
            )
        )
    for (id_, name), answers in golds.items():
        draft.relations[id_] = Relation(id_, name or id_, (), cardinality_of(answers))
    if lacking:
        message = "wrong answers that are empty or right, too, left out of their question"
        draft.faults.note(draft.path, None, f"{message}: {first_few(lacking, 3)}")
    return {}


def _check(question: ClosedQuestion, seen: set[str], faults: Faults) -> None:
    file, line = question.file, question.line
    bad = [text for text in question.sentences if text.count(ANSWER) != 1 or SUBJECT in text]
    if bad:
        faults.add(file, line, f"expected a prompt without {SUBJECT} and {ANSWER} in it, found {bad[0][:80]!r}")
    if not question.right or not all(name.strip() for name in question.right):
        faults.add(file, line, f"expected right answers, none empty, found {list(question.right)}")
    if question.id in seen:
        faults.add(file, line, f"question {question.id} is repeated: ids must differ")


def completed(prompt: str) -> str:
    """Return a prompt, or a question, followed by the answer's place."""
    return f"{prompt.rstrip()} {ANSWER}"
