"""Two readings of the same facts: by their relation's template, or by a natural sentence that says each of them.

Facts of both readings have the same ``fact_id``, so runs of both can be laid side by side (Shaier et al. 2024). Which
sentence is asked: the first in which the answer's name itself was masked, as T-REx also has sentences that mask another
word for it ("Winger" for "midfielder"). A fact without a sentence that fits stays, as unscored with the reason.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from fathom.data.graph_queries import GraphQuerySet
from fathom.data.queries import Query, QuerySet

Reading = Literal["auto", "template-based", "template-free"]
"""``auto``: by template where the relation has one."""


def lacking_reading(data: QuerySet, reading: Reading) -> list[str]:
    """One line where *data* cannot be read so."""
    if reading == "template-free" and not _has_sentences(data):
        return [f"--reading template-free: {data.name} has no natural sentences"]
    if reading == "template-based" and not any(relation.templates for relation in data.relations.values()):
        return [f"--reading template-based: {data.name} has no templates"]
    return []


def read_as(data: QuerySet, reading: Reading, *, all_sentences: bool = False, any_surface: bool = False) -> QuerySet:
    """*data* with each query asked in one way: its ``sentences`` are those to ask, none where a template is asked."""
    if not _has_sentences(data):
        return data
    by_template = {
        id_: reading == "template-based" or (reading == "auto" and bool(relation.templates))
        for id_, relation in data.relations.items()
    }
    return replace(
        data,
        queries=tuple(
            replace(query, sentences=())
            if by_template[query.relation]
            else _in_sentences(query, data, all_sentences=all_sentences, any_surface=any_surface)
            for query in data.queries
        ),
        relations={
            id_: relation if by_template[id_] else replace(relation, templates=())
            for id_, relation in data.relations.items()
        },
    )


def _has_sentences(data: QuerySet) -> bool:
    return not isinstance(data, GraphQuerySet) and any(query.sentences for query in data.queries)


def _in_sentences(query: Query, data: QuerySet, *, all_sentences: bool, any_surface: bool) -> Query:
    names = {data.candidates[query.candidates].name_of(answer) for answer in query.gold}
    fit = tuple(sentence for sentence in query.sentences if any_surface or sentence.surface in ("", *names))
    if fit:
        return replace(query, sentences=fit if all_sentences else fit[:1])
    reason = "no sentence masks the answer's name itself (--any-surface takes others)"
    return replace(
        query, sentences=(), unscored=query.unscored or (reason if query.sentences else "no sentence with one mask")
    )
