"""In which texts facts are planted: their relations' templates, or natural sentences other than those that are asked.

Asked of a fact is what ``--reading template-free`` asks by default: the first sentence that masks the answer's own
name. So what a plant is asked it has not read, but has read other sentences of the fact, as with models trained on an
encyclopedia. Of data that have one sentence per fact, as ``fathom build cloze`` makes, that sentence itself is told:
then a probe must tell sentences that were read from those that were not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fathom.data.queries import Query, QuerySet
from fathom.data.selection.readings import read_as
from fathom.data.templates import Prompt, Template

OTHERS, ASKED = "other sentences", "the asked sentence"


class Telling(NamedTuple):
    """:param prompts: of each query, by id; none where it cannot be told.
    :param held_out: texts that are asked and never told.
    :param by: templates to train on, by relation; none where sentences are told.
    :param what: "templates", or which sentences.
    """

    prompts: Mapping[str, Sequence[Prompt]]
    held_out: int
    by: Mapping[str, list[int]]
    what: str


def in_templates(queryset: QuerySet, templates: Mapping[str, list[int]]) -> Telling:
    """Every trained phrasing of every right answer. :param templates: those to train on, for each relation."""
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
    return Telling(prompts, 0, templates, "templates")


def in_sentences(queryset: QuerySet) -> Telling:
    """Natural sentences with the words that stood in them."""
    asked = read_as(queryset, "template-free")
    first = {query.id: _filled(queryset, query) for query in asked.queries if query.unscored is None}
    every = {query.id: _filled(queryset, query) for query in queryset.queries}
    held_out = {prompt.text for prompts in first.values() for prompt in prompts}
    others = {id_: [one for one in prompts if one.text not in held_out] for id_, prompts in every.items()}
    if any(others.values()):
        return Telling(others, len(held_out), {}, OTHERS)
    return Telling({id_: first.get(id_, []) for id_ in every}, 0, {}, ASKED)


def _filled(queryset: QuerySet, query: Query) -> list[Prompt]:
    """Each sentence once; with every right answer where the words that stood there are not known."""
    space = queryset.candidates[query.candidates]
    texts = [
        Template(sentence.text, natural=True).fill(query.subject, words)
        for sentence in query.sentences
        for words in ([sentence.surface] if sentence.surface else [space.name_of(gold) for gold in query.gold])
    ]
    return list(dict.fromkeys(texts))
