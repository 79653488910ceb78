"""Facts in altered sentences: negated, misprimed, paraphrased, truncated or without their subject.

A sentence from the data is used if there is one; otherwise a safe rule makes one, but never a negation. *Misprimed*
(Kassner and Schütze, ACL 2020) puts a wrong candidate in front, "Rome? Paris is in [Y]."; it is the group ``prime``.
"""

from __future__ import annotations

import random
import re
from dataclasses import replace
from typing import NamedTuple

from fathom.data.graph.queries import GraphQuerySet
from fathom.data.queries import CandidateSet, Query, QuerySet
from fathom.data.selection.options import Alteration, Reading
from fathom.data.templates import ANSWER, SUBJECT, Sentence, capitalized

PRIME = "prime"
FEWEST_WORDS = 3
"""Before the answer of a truncated sentence."""
_CALLED_OUT = re.compile(r"(.+?)\? ")
_TRIES = 100


class _AlteredSentences(NamedTuple):
    """:param sentences: empty for the reason in *why*."""

    sentences: tuple[Sentence, ...] = ()
    why: str = ""
    prime: str = ""


def alter(data: QuerySet, how: Alteration, seed: int) -> QuerySet:
    """Return the data, whose reading is chosen, with altered sentences for each query."""
    if how == "no":
        return data
    return replace(data, queries=tuple(_query(data, query, how, seed) for query in data.queries))


def alteration_faults(data: QuerySet, how: Alteration, reading: Reading) -> list[str]:
    """Return a line if no fact of *data* can be altered this way."""
    if how == "no":
        return []
    if isinstance(data, GraphQuerySet):
        return [f"--alter {how}: {data.name} is a knowledge graph, of which wordings would be made for every triple"]
    by_template = how == "negated" and reading != "template-free"
    if any(how in query.altered for query in data.queries) or (
        by_template and any(relation.negated for relation in data.relations.values())
    ):
        return []
    if how == "negated":
        return [f"--alter negated: {data.name} has no negated wordings, and none are made (docs/data-format.md)"]
    if how == "paraphrased" and not any(len(relation.templates) > 1 for relation in data.relations.values()):
        return [f"--alter paraphrased: {data.name} has neither paraphrases nor relations of several templates"]
    return []


def _query(data: QuerySet, query: Query, how: str, seed: int) -> Query:
    if query.unscored is not None:
        return replace(query, sentences=())
    space = data.candidates[query.candidates]
    published = query.altered.get(how, ())
    altered = _published(published, space) if published else _made(data, query, how, seed)
    groups = {**query.groups, **({PRIME: altered.prime} if altered.prime else {})}
    return replace(query, sentences=altered.sentences, unscored=altered.why or None, groups=groups)


def _published(sentences: tuple[Sentence, ...], space: CandidateSet) -> _AlteredSentences:
    """The first; who was called out in it, if that is a candidate."""
    called = _CALLED_OUT.match(sentences[0].text)
    named = {name.casefold(): id_ for id_, name in space.named()}
    return _AlteredSentences(sentences[:1], prime=named.get(called[1].casefold(), "") if called else "")


def _made(data: QuerySet, query: Query, how: str, seed: int) -> _AlteredSentences:
    negated = data.relations[query.relation].negated
    if how == "negated" and negated and not query.sentences:
        return _AlteredSentences((Sentence(_worded(negated[0].text, query)),))
    texts = [_worded(template.text, query) for template in data.relations[query.relation].templates]
    texts = [sentence.text for sentence in query.sentences] or texts
    if how == "paraphrased" and not query.sentences and len(texts) > 1:
        return _AlteredSentences(tuple(map(Sentence, texts[1:])))
    if how == "misprimed" and texts:
        return _misprimed(texts[0], query, data.candidates[query.candidates], seed)
    if how == "truncated" and texts:
        return _truncated(texts[0])
    if how == "no-subject" and not query.sentences and texts:
        templates = data.relations[query.relation].templates
        without = (" ".join(template.text.replace(SUBJECT, "").split()) for template in templates)
        return _AlteredSentences(tuple(Sentence(capitalized(text)) for text in without))
    return _AlteredSentences(why=f"the fact has no {how} wording")


def _worded(template: str, query: Query) -> str:
    return capitalized(template.replace(SUBJECT, query.subject))


def _misprimed(text: str, query: Query, space: CandidateSet, seed: int) -> _AlteredSentences:
    """A wrong candidate that the sentence does not name."""
    draw, right = random.Random(f"{seed} {query.id}"), {*query.gold, *query.known}
    for _ in range(_TRIES):
        place = draw.randrange(len(space))
        id_, name = space.ids[place], space.names[place]
        if id_ not in right and name.casefold() not in text.casefold() and ANSWER not in name:
            return _AlteredSentences((Sentence(f"{capitalized(name)}? {text}"),), prime=id_)
    return _AlteredSentences(why="no distractor to put in front")


def _truncated(text: str) -> _AlteredSentences:
    before, _, after = text.partition(ANSWER)
    if len(re.findall(r"\w+", before)) < FEWEST_WORDS:
        return _AlteredSentences(why=f"fewer than {FEWEST_WORDS} words precede the answer")
    if not re.search(r"\w", after):
        return _AlteredSentences(why="the answer is followed by no text to remove")
    return _AlteredSentences((Sentence(f"{before}{ANSWER}."),))
