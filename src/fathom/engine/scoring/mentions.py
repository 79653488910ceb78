"""Whether a written reply contains an answer: the scoring ``contains`` of the generation probe.

As in PopQA (Mallen et al. 2023) and EntityQuestions (Sciavolino et al. 2021), a reply is right that has a name or alias
of a gold answer as words. Fathom is stricter in three cases:

- what repeats three or more words of the question is an echo, and names nothing;
- what is negated ("not Paris", "Paris is not") is not named;
- of several candidates that a reply names, the first counts, so that a list is no answer.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fathom.data.knowledge import KnowledgeGraph
from fathom.data.queries import CandidateSet, Query
from fathom.data.words import is_word_character
from fathom.engine.scoring.answers import names_of_entities

Words = tuple[str, ...]
ECHO = 3
"""Words in a row that a reply has in common with its question are an echo from this number on."""
ARTICLES = {"the", "a", "an"}
LONG = 5
"""Letters from which on a name may lack its article: "Hague", but not "who" for "The Who"."""
NEGATING = {"not", "no", "never", "neither", "nor", "isn", "wasn", "aren", "cannot"}
"""Also "isn't" and the like, which are two words."""
NEAR = 3
"""Words before a name among which a negation concerns it."""
RESETS = {"but", "rather", "instead"}
_ACCENTS = re.compile("[\u0300-\u036f]")
_BREAK = "|"
_UNSPACED = ("CJK UNIFIED", "HIRAGANA", "KATAKANA", "HANGUL", "THAI", "LAO ", "KHMER", "MYANMAR")
"""Scripts without spaces between words or before particles: each of their letters is a word."""


class NamedAnswer(NamedTuple):
    """What a reply names first.

    :param id_: an answer or another candidate; None for nothing.
    :param is_right: whether it is a gold answer, or another true one.
    """

    id_: str | None
    is_right: bool


class MentionFinder:
    """Finds the answers that replies name.

    :param graph: has the aliases; None for labels alone.
    """

    def __init__(
        self, graph: KnowledgeGraph | None, spaces: Mapping[str, CandidateSet], queries: Sequence[Query]
    ) -> None:
        self._spaces = spaces
        wanted = dict.fromkeys(answer for query in queries for answer in (*query.gold, *query.known))
        self._names = names_of_entities(graph, list(wanted))
        self._labels: dict[str, dict[Words, str]] = {}

    def first(self, query: Query, question: str, reply: str) -> NamedAnswer:
        """Return the first candidate that a reply names. :param question: without examples."""
        asked, said = words_of(question), words_of(reply)
        space = self._spaces[query.candidates]
        right = {form: id_ for id_ in (*query.known, *query.gold) for form in self._forms(id_, space)}
        others = self._of_space(space)
        longest = max(map(len, (*right, *others)), default=0)
        silent = _echoed(asked, said)
        place = 0
        while place < len(said):
            for length in range(min(longest, len(said) - place), 0, -1):
                form = said[place : place + length]
                id_ = right.get(form) or (None if _occurs(form, asked) else others.get(form))
                if id_ is not None:
                    if not silent[place] and not _is_negated(said, place, length):
                        return NamedAnswer(id_, form in right)
                    place += length - 1
                    break
            place += 1
        return NamedAnswer(None, False)

    def _forms(self, id_: str, space: CandidateSet) -> Iterable[Words]:
        label = () if (place := space.position.get(id_)) is None else (space.names[place],)
        return _forms_of((*label, *self._names.get(id_, ())))

    def _of_space(self, space: CandidateSet) -> Mapping[Words, str]:
        if space.name not in self._labels:
            pairs = zip(reversed(space.ids), reversed(space.names), strict=True)
            self._labels[space.name] = {form: id_ for id_, name in pairs for form in _forms_of((name,))}
        return self._labels[space.name]


def words_of(text: str) -> Words:
    """Split a text into words without case and accents, and :data:`_BREAK` where a clause ends."""
    letters: list[str] = []
    for sign in _ACCENTS.sub("", unicodedata.normalize("NFKD", text)).casefold():
        if not is_word_character(sign):
            letters.append(f" {_BREAK} " if sign in ".,;:!?()\n" else " ")
        elif unicodedata.name(sign, "").startswith(_UNSPACED):
            letters.append(f" {sign} ")
        else:
            letters.append(sign)
    return tuple("".join(letters).split())


def _forms_of(names: Iterable[str]) -> set[Words]:
    """Return each name as words, also without its article."""
    forms = set()
    for name in names:
        form = tuple(word for word in words_of(name) if word != _BREAK)
        forms.add(form)
        if form[:1] and form[0] in ARTICLES and len("".join(form[1:])) >= LONG:
            forms.add(form[1:])
    return forms - {()}


def _echoed(asked: Words, said: Words) -> list[bool]:
    """Return for each word of a reply whether it repeats the question."""
    echoed = [False] * len(said)
    for place in range(len(said)):
        length = 0
        while place + length < len(said) and _occurs(said[place : place + length + 1], asked):
            length += 1
        if length >= ECHO:
            echoed[place : place + length] = [True] * length
    return echoed


def _occurs(form: Words, words: Words) -> bool:
    return any(words[start : start + len(form)] == form for start in range(len(words) - len(form) + 1))


def _is_negated(said: Words, place: int, length: int) -> bool:
    before = said[max(0, place - NEAR) : place]
    for word in reversed(before):
        if word == _BREAK or word in RESETS:
            break
        if word in NEGATING:
            return True
    after = said[place + length : place + length + 2]
    return after[:1] in (("isn",), ("wasn",)) or after in (("is", "not"), ("was", "not"))
