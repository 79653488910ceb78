"""Two readings of the same facts: by the relation's template, or by a natural sentence for each fact.

By default the sentence is the first that masks the answer's exact name, as T-REx also masks other words for it
("Winger" for "midfielder"). A fact without text in a reading stays in it, unscored with the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from fathom.data.queries import Query, QuerySet
from fathom.data.selection.options import Reading


def reading_faults(data: QuerySet, reading: Reading) -> list[str]:
    """Return a line if *data* does not have the reading."""
    if reading == "template-free" and not data.has_sentences:
        return [f"--reading template-free: {data.name} has no natural sentences"]
    if reading == "template-based" and not any(relation.templates for relation in data.relations.values()):
        return [f"--reading template-based: {data.name} has no templates"]
    return []


def apply_reading(
    data: QuerySet, reading: Reading, *, all_sentences: bool = False, any_surface: bool = False
) -> QuerySet:
    """Return the data in one reading: queries keep the sentences to use, or none if templates are used."""
    by_template = {
        id_: reading == "template-based" or (reading == "auto" and bool(relation.templates))
        for id_, relation in data.relations.items()
    }
    return replace(
        data,
        queries=tuple(
            _in_template(query, data)
            if by_template[query.relation]
            else _in_sentences(query, data, all_sentences=all_sentences, any_surface=any_surface)
            for query in data.queries
        ),
        relations={
            id_: relation if by_template[id_] else replace(relation, templates=(), negated=())
            for id_, relation in data.relations.items()
        },
    )


class ReadingCounts(NamedTuple):
    """Number of facts and of prompts in each reading.

    :param by_sentence: facts with a sentence that masks the answer's name.
    :param all_sentences: number of such sentences.
    :param any_surface: facts with any sentence.
    :param all_any_surface: number of all sentences.
    """

    facts: int
    by_template: int
    by_sentence: int
    all_sentences: int
    any_surface: int
    all_any_surface: int

    @classmethod
    def total(cls, rows: Iterable[ReadingCounts]) -> ReadingCounts:
        """Return the sum, column by column."""
        return cls(*(sum(column) for column in zip(*rows, strict=True)))


def asked(data: QuerySet) -> dict[str, ReadingCounts]:
    """Count by relation, on the readings themselves."""
    template = apply_reading(data, "template-based")
    first, any_ = (apply_reading(data, "template-free", all_sentences=True, any_surface=any_) for any_ in (False, True))
    counts = [
        Counter(query.relation for query in data.queries),
        Counter(
            q.relation for q in template.queries if q.unscored is None and template.relations[q.relation].templates
        ),
    ]
    for read in (first, any_):
        can = [query for query in read.queries if query.unscored is None]
        counts.append(Counter(query.relation for query in can if query.sentences))
        counts.append(Counter(query.relation for query in can for _ in query.sentences))
    return {relation: ReadingCounts(*(count[relation] for count in counts)) for relation in data.relations}


def _in_template(query: Query, data: QuerySet) -> Query:
    # Without this, a probe would use few-shot lines, a third reading.
    lacking = None if data.relations[query.relation].templates else "the relation has no template"
    return replace(query, sentences=(), unscored=query.unscored or lacking)


def _in_sentences(query: Query, data: QuerySet, *, all_sentences: bool, any_surface: bool) -> Query:
    names = {data.candidates[query.candidates].name_of(answer) for answer in query.gold}
    fit = tuple(sentence for sentence in query.sentences if any_surface or sentence.surface in ("", *names))
    if fit:
        return replace(query, sentences=fit if all_sentences else fit[:1])
    reason = "no sentence masks the answer's name itself (--any-surface takes others)"
    return replace(
        query, sentences=(), unscored=query.unscored or (reason if query.sentences else "no sentence with one mask")
    )
