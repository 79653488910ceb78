"""Queries for subjects: the answer is given, and the same templates are read in reverse.

A model that has learnt "A is B" may not know "B is A" (Berglund et al. 2024): a fact has the same ``fact_id`` in both
directions. Candidates are the relation's subjects; other subjects with the same answer are filtered.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from fathom.base.errors import refuse
from fathom.base.reading import first_few
from fathom.data.graph.queries import TripleQueries
from fathom.data.queries import CandidateSet, Query, QuerySet, Relation
from fathom.data.templates import ANSWER, SUBJECT, Template

_SHOWN = 5


def reverse_queries(data: QuerySet, only: Collection[str] = ()) -> QuerySet:
    """Return the data with queries for subjects.

    :param only: ids of the selected relations; all if empty.
    :raises BadInput: a selected relation has no template that can be reversed.
    """
    wanted = {id_: relation for id_, relation in data.relations.items() if not only or id_ in only}
    refuse(list(_faults(data, wanted)))
    relations = {id_: _reversed(relation) for id_, relation in wanted.items()}
    if isinstance(data.queries, TripleQueries):  # every entity is a candidate already
        return replace(data, queries=data.queries.asked(("head",)), relations={**data.relations, **relations})
    spaces, queries = {}, []
    origin: dict[str, list[str]] = defaultdict(list)
    for id_, members in data.by_relation().items():
        if id_ in wanted:
            spaces[_space(id_)] = _subjects(id_, members)
            for query in _queries(data, members):
                origin[query.id.rpartition(_PART)[0] or query.id].append(query.id)
                queries.append(query)
    subsets = {name: frozenset(new for id_ in ids for new in origin[id_]) for name, ids in data.subsets.items()}
    return replace(data, queries=tuple(queries), candidates=spaces, relations=relations, subsets=subsets)


_PART = "/answer "
"""Between the id of a query with several gold answers and the number of one of them."""


def _faults(data: QuerySet, wanted: Mapping[str, Relation]) -> Iterator[str]:
    """Yield a line for each reason, with its relations."""
    lines: dict[str, list[str]] = defaultdict(list)
    asked = {id_: queries for id_, queries in data.by_relation().items() if id_ in wanted}
    for id_, queries in asked.items():
        if any(query.sentences for query in queries):
            lines["by natural sentences, which ask for their answers"].append(id_)
        elif wanted[id_].templates and set(wanted[id_].templates) <= set(wanted[id_].questions):
            lines["by questions, which ask for their answers"].append(id_)
        elif not _reversible(wanted[id_]):
            lines[f"without a template that has {SUBJECT} and {ANSWER}"].append(id_)
    for why, found in lines.items():
        rest = "" if len(found) == len(asked) else ", or choose others by --relations"
        labels = first_few(data.labels_of(found), _SHOWN)
        yield f"--reverse: {data.name} asks {labels} {why}: write templates for them{rest}"


def _reversible(relation: Relation) -> list[Template]:
    statements = [template for template in relation.templates if template not in relation.questions]
    return [template for template in statements if SUBJECT in template.text and ANSWER in template.text]


def _reversed(relation: Relation) -> Relation:
    templates = tuple(replace(template, text=_exchanged(template.text)) for template in _reversible(relation))
    negated = tuple(replace(template, text=_exchanged(template.text)) for template in relation.negated)
    return replace(relation, templates=templates, questions=(), asks_heads=True, negated=negated)


def _exchanged(text: str) -> str:
    parts = text.split(SUBJECT)
    return ANSWER.join(part.replace(ANSWER, SUBJECT) for part in parts)


def _space(relation: str) -> str:
    return f"subjects of {relation}"


def _subjects(relation: str, queries: Sequence[Query]) -> CandidateSet:
    """Return the distinct subjects that have a name."""
    names = {
        query.subject_id: query.subject for query in reversed(queries) if query.subject_id and query.subject.strip()
    }
    ordered = {query.subject_id: names[query.subject_id] for query in queries if query.subject_id in names}
    return CandidateSet(_space(relation), tuple(ordered), tuple(ordered.values()))


def _queries(data: QuerySet, queries: Sequence[Query]) -> Iterator[Query]:
    """Yield a query for each gold answer of each query."""
    having: dict[str, dict[str, None]] = defaultdict(dict)
    for query in queries:
        for answer in (*query.gold, *query.known):
            having[answer][query.subject_id] = None
    for query in queries:
        for number, answer in enumerate(query.gold, start=1):
            yield replace(
                query,
                id=query.id if len(query.gold) == 1 else f"{query.id}{_PART}{number}",
                subject=data.candidates[query.candidates].name_of(answer),
                subject_id=answer,
                gold=(query.subject_id,),
                candidates=_space(query.relation),
                direction="head",
                known=tuple(subject for subject in having[answer] if subject != query.subject_id),
            )
