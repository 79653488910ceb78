"""Nonce words for models that take only text, instead of pseudowords. None is a word of the data.

``<z>`` and ``<w>`` differ from ``<x>`` and ``<y>`` in one sound, so that a model has to read the whole word.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import chain

from fathom.data.nonce import INNER, LONG, nonce_words, similar_words
from fathom.data.prompts.entailment import W, X, Y, Z
from fathom.data.prompts.ontology import Patterns
from fathom.data.queries import Query, QuerySet
from fathom.data.templates import Sentence

_OF_WORDS = ("rdfs5", "rdfs11")
"""Rules whose pseudoword is a class or property, written in lower case."""


class NonceWords:
    """The nonce words of an ontology's rules, the same for all its queries, and for any other rules and more pairs.

    :param avoid: casefolded words that are excluded (:func:`excerpt_of`).
    :param pairs: number of pairs per rule.
    """

    def __init__(self, avoid: Collection[str], rules: Sequence[str], pairs: int, seed: int) -> None:
        self.of_rule: dict[str, list[str]] = {}
        for rule in rules:
            drawn = nonce_words(f"{seed} {rule}", avoid, LONG)
            words: list[str] = []
            for _ in range(pairs):
                pair = [next(drawn), next(drawn)]
                words += [*pair, *(next(similar_words(name, INNER, {*avoid, *words})) for name in pair)]
            self.of_rule[rule] = words if rule in _OF_WORDS else [word.capitalize() for word in words]

    def put_in(self, queries: QuerySet) -> QuerySet:
        return replace(queries, queries=tuple(self._about(query) for query in queries.queries))

    def _about(self, query: Query) -> Query:
        first = 4 * int(query.groups["pair"])
        words = dict(zip((X, Y, Z, W), self.of_rule[query.relation][first : first + 4], strict=True))
        marks = re.compile("|".join(words))
        texts = [marks.sub(lambda mark: words[mark[0]], sentence.text) for sentence in query.sentences]
        return replace(query, sentences=tuple(map(Sentence, texts)))


def excerpt_of(data: QuerySet, patterns: Patterns) -> set[str]:
    """Return all casefolded words of an ontology's names and sentence patterns."""
    names = (name for space in data.candidates.values() for name in space.names)
    subjects = (query.subject for query in data.queries)
    texts = (text for of_task in patterns.values() for text in of_task.values())
    return {word for text in chain(names, subjects, texts) for word in re.findall(r"\w+", text.casefold())}
