"""Texts in which facts are planted: templates of their relations, or natural sentences other than those of queries.

A query with ``--reading template-free`` uses the first sentence that masks the answer's own name. So a planted model
has not read the sentences of its queries, but others about the same facts, like models trained on an encyclopedia. If
the data have one sentence per fact, as from ``fathom build cloze``, that sentence is planted: a probe must then
distinguish sentences that were read from those that were not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fathom.data.queries import Query, QuerySet
from fathom.data.selection.readings import read_as
from fathom.data.templates import Prompt, Template

OTHERS, ASKED = "other sentences", "the asked sentence"


class PlantedTexts(NamedTuple):
    """:param prompts: of each query, by id; none if it cannot be planted.
    :param held_out: number of texts that are kept for queries.
    :param templates: those to train on, by relation; none with sentences.
    :param kind: "templates", or which sentences.
    """

    prompts: Mapping[str, Sequence[Prompt]]
    held_out: int
    templates: Mapping[str, list[int]]
    kind: str


def in_templates(queryset: QuerySet, templates: Mapping[str, list[int]]) -> PlantedTexts:
    """Fill the trained templates of each fact with each gold answer. :param templates: by relation."""
    prompts = {
        query.id: [
            queryset.relations[query.relation]
            .templates[index]
            .fill(query.subject, queryset.candidates[query.candidates].name_of(gold))
            for index in templates[query.relation]
            for gold in query.gold
        ]
        for query in queryset.queries
    }
    return PlantedTexts(prompts, 0, templates, "templates")


def in_sentences(queryset: QuerySet) -> PlantedTexts:
    """Restore the masked words of natural sentences."""
    asked = read_as(queryset, "template-free")
    first = {query.id: _filled(queryset, query) for query in asked.queries if query.unscored is None}
    prompts = {query.id: _filled(queryset, query) for query in queryset.queries}
    held_out = {prompt.text for own in first.values() for prompt in own}
    others = {id_: [prompt for prompt in own if prompt.text not in held_out] for id_, own in prompts.items()}
    if any(others.values()):
        return PlantedTexts(others, len(held_out), {}, OTHERS)
    return PlantedTexts({id_: first.get(id_, []) for id_ in prompts}, 0, {}, ASKED)


def _filled(queryset: QuerySet, query: Query) -> list[Prompt]:
    """Return each distinct sentence; with each gold answer if its original words are unknown."""
    space = queryset.candidates[query.candidates]
    texts = [
        Template(sentence.text, natural=True).fill(query.subject, words)
        for sentence in query.sentences
        for words in ([sentence.surface] if sentence.surface else [space.name_of(gold) for gold in query.gold])
    ]
    return list(dict.fromkeys(texts))
