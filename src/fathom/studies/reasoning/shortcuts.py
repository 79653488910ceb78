"""Shortcuts: ways to answer from the surface of a text, which need no model.

A shortcut *solves* an item if it ranks the answer of the whole text higher than that of each altered text.
Verdicts rest on the items that no shortcut solves (:mod:`fathom.studies.reasoning.conclusions`).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np

from fathom.data.prompts.alterations import NEEDED, WHOLE, needed
from fathom.data.prompts.axioms import DISJOINT
from fathom.data.queries import QuerySet
from fathom.results.rows import grouped

SOLVES = 0.1
"""Smallest gain over every altered text: of 1 / rank, or for choices of the probability to be chosen."""
_WORD = r"<\w>|\w+"
_SHORTEST = 5
"""Letters of the shortest common substring that counts."""

Place = tuple[str, ...]
"""Conclusion, rule, depth and form."""


class AskedText(NamedTuple):
    """A text with its candidates.

    :param item: what the whole and the altered texts share.
    :param names: of the candidates, without other correct answers.
    """

    place: Place
    item: str
    given: str
    text: str
    names: Sequence[str]
    gold: str
    right: frozenset[str]


def asked_texts(queries: QuerySet) -> Iterator[AskedText]:
    """Yield the texts of arguments, for their first pair of pseudowords."""
    for query in queries.queries:
        groups = query.groups
        if groups.get("pair") == "0" and "conclusion" in groups:
            space = queries.candidates[query.candidates]
            right = frozenset(map(space.name_of, (id_ for id_ in query.known if id_ in space.position)))
            place = groups["conclusion"], groups["rule"], groups["depth"], groups["form"]
            gold = space.name_of(query.gold[0]) if query.gold[0] in space.position else query.gold[0]
            yield AskedText(place, groups["item"], groups["given"], query.sentences[0].text, space.names, gold, right)


class _Candidates:
    """Names of candidates, found by their words and by parts of words."""

    def __init__(self, names: Sequence[str]) -> None:
        self.words = {name: _words(name) for name in names}
        self.by_word: dict[str, list[str]] = defaultdict(list)
        self.by_part: dict[str, list[str]] = defaultdict(list)
        self.pieces = {name: _pieces([name]) for name in names}
        self.by_piece: dict[str, list[str]] = defaultdict(list)
        for name, words in self.words.items():
            for piece in self.pieces[name]:
                self.by_piece[piece].append(name)
            for word in dict.fromkeys(words):
                self.by_word[word].append(name)
            for part in dict.fromkeys(_parts(name.lower())):
                self.by_part[part].append(name)

    def named(self, words: Sequence[str]) -> dict[str, int]:
        """Return the candidates whose words occur in a row, with the place of the last occurrence."""
        found = {}
        for place, word in enumerate(words):
            for name in self.by_word.get(word, ()):
                own = self.words[name]
                if own[0] == word and own == words[place : place + len(own)]:
                    found[name] = place
        return found


class _Reading:
    """A text in parts. :param often: how often each answer is correct, and finest, in the rule's items."""

    def __init__(self, asked: AskedText, candidates: _Candidates, often: Mapping[str, Counter[str]]) -> None:
        self.asked, self.candidates, self.often = asked, candidates, often
        before, _, self.question = asked.text.rpartition("Therefore,")
        sentences = re.split(r"\s?\.\s", before + " ")
        self.cased = [words for part in sentences if (words := re.findall(_WORD, part))]
        self.premises = [list(map(str.lower, words)) for words in self.cased]

    @cached_property
    def subject(self) -> str:
        """The pseudoword that the question is about."""
        mark = re.search(r"<[xyzw]>|\b[XY]\b", self.question)
        return mark[0].lower() if mark else next(iter(_words(self.question)), "")

    @property
    def bound(self) -> list[list[str]]:
        """The premises that name the subject."""
        return [words for words in self.premises if self.subject in words]

    @property
    def facts(self) -> list[list[str]]:
        return [words for words in self.premises if self.subject not in words]

    def named(self, premises: Iterable[list[str]]) -> dict[str, int]:
        """Return the candidates that these premises name, with their places."""
        return self.candidates.named(_flat(premises))

    def overlap(self, words: Iterable[str]) -> dict[str, float]:
        """Return the share of each candidate's words among *words*."""
        given = set(words)
        names = dict.fromkeys(name for word in given for name in self.candidates.by_word.get(word, ()))
        return {name: len(given & set(own)) / len(set(own)) for name in names for own in [self.candidates.words[name]]}


def _substring(text: _Reading, of: str) -> Mapping[str, float]:
    """Return the length of the longest common substring of each candidate and *of*, in lower case."""
    whole, found = of, {}
    for name in dict.fromkeys(name for part in _parts(whole) for name in text.candidates.by_part.get(part, ())):
        own, longest = name.lower(), 0
        for at in range(len(own)):
            while at + longest < len(own) and own[at : at + longest + 1] in whole:
                longest += 1
        found[name] = float(longest)
    return found


def _bound_pieces(text: _Reading) -> Mapping[str, float]:
    """Return the share of each candidate's words, split at capitals, that the premises about the subject have."""
    given = _pieces(word for words in text.cased if text.subject in map(str.lower, words) for word in words)
    names = dict.fromkeys(name for piece in given for name in text.candidates.by_piece.get(piece, ()))
    pieces = text.candidates.pieces
    return {name: len(given & pieces[name]) / len(pieces[name]) for name in names}


def _first_and_last(text: _Reading) -> Mapping[str, float]:
    """Copy what the last fact names if the first mentions what the subject is stated to be."""
    own = {word for words in text.bound for word in words if len(word) > 3}
    if len(text.facts) < 2 or not own & set(text.facts[0]):
        return {}
    return dict.fromkeys(text.named(text.facts[-1:]), 1.0)


def _any_subject(text: _Reading) -> Mapping[str, float]:
    """Copy the name in a fact that shares its other words with a premise about any subject."""
    for place, words in enumerate(text.premises):
        others = {word for other in (*text.premises[:place], *text.premises[place + 1 :]) for word in other}
        named = text.candidates.named(words)
        rest = {word for word in words if len(word) > 3} - {word for name in named for word in _words(name)}
        if named and rest & others:
            return dict.fromkeys(named, 1.0)
    return {}


def _frequency(text: _Reading) -> Mapping[str, float]:
    often = text.often["gold"]
    return {**often, text.asked.gold: often[text.asked.gold] - 1}


SHORTCUTS: Mapping[str, Callable[[_Reading], Mapping[str, float]]] = {
    "word overlap": lambda text: text.overlap(_words(text.asked.text)),
    "overlap with the bound premise": lambda text: text.overlap(_flat(text.bound)),
    "pieces of the bound premise": _bound_pieces,
    "longest common substring": lambda text: _substring(text, text.asked.text.lower()),
    "substring of the bound premise": lambda text: _substring(text, " ".join(_flat(text.bound))),
    "copying the first class": lambda text: {name: 1 / (1 + at) for name, at in text.named(text.premises).items()},
    "copying the last class": lambda text: {name: 1 + at for name, at in text.named(text.premises).items()},
    "copying for a stated subject": lambda text: dict.fromkeys(text.named(text.facts) if text.bound else (), 1.0),
    "first and last": _first_and_last,
    "any subject": _any_subject,
    "root": lambda text: text.often["right"],
    "frequency": _frequency,
}


def solved_items(texts: Iterable[AskedText], ranked: bool = True) -> dict[Place, dict[str, frozenset[str]]]:
    """Return the items that each shortcut solves, for each conclusion, rule, depth and form.

    Of disjoint classes none is solved, as the one in question must not be chosen.

    :param ranked: the candidates are ranked, not chosen from options that differ between the texts of an item.
    """
    credit_of = _reciprocal if ranked else _credit
    by_place = grouped((one.place, one) for one in texts if one.place[0] in NEEDED and one.place[1] != DISJOINT)
    candidates: dict[int, tuple[Sequence[str], _Candidates]] = {}
    solved = {}
    for place, own in by_place.items():
        firsts = [one for one in own if one.given == WHOLE]
        often = {
            "gold": Counter(one.gold for one in firsts),
            "right": Counter(name for one in firsts for name in (one.gold, *one.right)),
        }
        credit: dict[str, dict[str, dict[str, float]]] = {name: defaultdict(dict) for name in SHORTCUTS}
        for one in own:
            if id(one.names) not in candidates:  # kept with its names, so that the id stays theirs
                candidates[id(one.names)] = one.names, _Candidates(one.names)
            reading = _Reading(one, candidates[id(one.names)][1], often)
            for name, shortcut in SHORTCUTS.items():
                credit[name][one.item][one.given] = credit_of(shortcut(reading), one, reading.candidates.words)
        conclusion, rule, depth = place[0], place[1], int(place[2])
        solved[place] = {
            name: frozenset(
                item for item, values in items.items() if _is_solved(values, needed(conclusion, rule, depth))
            )
            for name, items in credit.items()
        }
    return solved


def _credit(scores: Mapping[str, float], asked: AskedText, names: Collection[str]) -> float:
    """Return the probability that a shortcut chooses the gold answer, with ties broken at random."""
    known = {name: score for name, score in scores.items() if score > 0 and name not in asked.right and name in names}
    best = max(known.values(), default=0.0)
    if not best:
        return 1 / max(1, len(names) - len(asked.right))
    return sum(score == best for score in known.values()) ** -1 if known.get(asked.gold) == best else 0.0


def _reciprocal(scores: Mapping[str, float], asked: AskedText, names: Collection[str]) -> float:
    """Return the mean of 1 / rank of the gold answer over all orders of ties."""
    rivals = [score for name, score in scores.items() if score > 0 and name not in asked.right and name in names]
    own = max(0.0, scores.get(asked.gold, 0.0))
    above = sum(score > own for score in rivals)
    tied = sum(score == own for score in rivals) if own else len(names) - len(asked.right) - len(rivals)
    return float(np.mean(1 / np.arange(above + 1, above + max(1, tied) + 1)))


def _is_solved(values: Mapping[str, float], altered: Sequence[str]) -> bool:
    given = [values[text] for text in altered if text in values]
    return WHOLE in values and bool(given) and values[WHOLE] - max(given) >= SOLVES


def _flat(premises: Iterable[list[str]]) -> list[str]:
    return [word for words in premises for word in words]


def _words(text: str) -> list[str]:
    return re.findall(_WORD, text.lower())


def _pieces(words: Iterable[str]) -> frozenset[str]:
    """Return the words in words such as "SweetPepperTopping", in lower case."""
    return frozenset().union(*map(_split, words))


@cache
def _split(word: str) -> frozenset[str]:
    return frozenset(map(str.lower, re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|<\w>", word)))


def _parts(text: str) -> list[str]:
    return [text[at : at + _SHORTEST] for at in range(len(text) - _SHORTEST + 1)]
