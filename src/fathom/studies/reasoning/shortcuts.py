"""Shortcuts: ways to guess premise 1 from premise 2 without memory of it.

No altered text takes the verdict from an answerer that reads with care, and guesses what it should remember. So
verdicts on memory rest on the items that no shortcut *solves*.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from fathom.data.prompts.alterations import REMEMBERS, WHOLE
from fathom.data.queries import QuerySet
from fathom.results.rows import grouped

SOLVES = 0.1
"""Smallest probability that a shortcut names the answer first, with ties broken at random."""
_MOST_ALIKE = 20
"""Items with the most letters in common, whose spelling is compared in full."""

Place = tuple[str, ...]
"""Conclusion, rule, depth and form."""


class AskedText(NamedTuple):
    """A text with its candidates.

    :param item: what the whole and the altered texts share.
    :param names: of the candidates.
    :param right: names of other correct answers among them.
    """

    place: Place
    item: str
    stated: str
    text: str
    names: Sequence[str]
    gold: str
    right: frozenset[str]

    @property
    def bound(self) -> str:
        """What the premises about the subject in question say, without its name."""
        before, _, question = self.text.rpartition("Therefore,")
        mark = re.search(r"<[xyzw]>|\b[XY]\b|\w+", question)
        subject = re.escape(mark[0]) if mark else "$."
        sentences = (text for text in re.split(r"\s?\.\s", before + " ") if re.search(rf"(?<!\w){subject}(?!\w)", text))
        return " ".join(re.sub(rf"(?<!\w){subject}(?!\w)|<\w>", "", text).strip() for text in sentences)


def asked_texts(queries: QuerySet) -> Iterator[AskedText]:
    """Yield the texts of arguments, for their first pair of pseudowords."""
    for query in queries.queries:
        groups = query.groups
        if groups.get("pair") == "0" and "conclusion" in groups:
            space = queries.candidates[query.candidates]
            right = frozenset(space.names[at] for at in space.places(query.known))
            place = groups["conclusion"], groups["rule"], groups["depth"], groups["form"]
            gold = space.name_of(query.gold[0]) if query.gold[0] in space.position else query.gold[0]
            yield AskedText(place, groups["item"], groups["given"], query.sentences[0].text, space.names, gold, right)


class _PartIndex:
    """Names, found by their parts. :param parts_of: splits a name or a text."""

    def __init__(self, names: Iterable[str], parts_of: Callable[[str], frozenset[str]]) -> None:
        self._parts_of = parts_of
        self._names: dict[str, list[str]] = defaultdict(list)
        for name in names:
            for part in parts_of(name):
                self._names[part].append(name)

    def shares(self, text: str) -> Mapping[str, float]:
        """Return the share of each name's parts in a text, without names that have none in it."""
        parts = self._parts_of(text)
        names = dict.fromkeys(name for part in parts for name in self._names.get(part, ()))
        return {name: len(parts & self._parts_of(name)) / len(self._parts_of(name)) for name in names}


class _Items:
    """The whole texts of one place. :ivar often: number of items with each answer."""

    def __init__(self, texts: Sequence[AskedText]) -> None:
        self.texts = texts
        self.bound = [text.bound for text in texts]
        self.often = Counter(text.gold for text in texts)
        self.letters = [_letters(text) for text in self.bound]
        names = list(dict.fromkeys(name for text in texts for name in text.names))
        self.words = _PartIndex(names, _words)
        self.pieces = _PartIndex(names, _pieces)

    def by_words(self, number: int) -> Mapping[str, float]:
        """Return the share of each candidate's words in premise 2."""
        return self.words.shares(self.bound[number])

    def by_pieces(self, number: int) -> Mapping[str, float]:
        """Return the share of each candidate's words, split at capitals, in premise 2."""
        return self.pieces.shares(self.bound[number])

    def by_frequency(self, number: int) -> Mapping[str, float]:
        """Return the number of other items with each answer."""
        return self.often - Counter([self.texts[number].gold])

    def by_neighbour(self, number: int) -> Mapping[str, float]:
        """Return how alike the premise 2 of the most similar other item with each answer is spelt."""
        nearest = sorted(self._overlaps(number), key=lambda overlap: -overlap[1])[:_MOST_ALIKE]
        scores: dict[str, float] = defaultdict(float)
        for place, _ in nearest:
            gold = self.texts[place].gold
            alike = SequenceMatcher(None, self.bound[number], self.bound[place], autojunk=False)
            scores[gold] = max(scores[gold], alike.ratio())
        return scores

    def by_letters(self, number: int) -> Mapping[str, float]:
        """Return the votes of all other items for their answers, by the squared share of common runs of letters."""
        votes: dict[str, float] = defaultdict(float)
        for place, overlap in self._overlaps(number):
            votes[self.texts[place].gold] += overlap**2
        return votes

    def _overlaps(self, number: int) -> list[tuple[int, float]]:
        """Return the places of the other items, with the share of runs of three letters in common."""
        asked = self.letters[number]
        return [(place, _overlap(asked, letters)) for place, letters in enumerate(self.letters) if place != number]


SHORTCUTS: Mapping[str, Callable[[_Items, int], Mapping[str, float]]] = {
    "word overlap": _Items.by_words,
    "pieces of the premise": _Items.by_pieces,
    "frequency": _Items.by_frequency,
    "neighbour": _Items.by_neighbour,
    "votes by letters": _Items.by_letters,
}


def solved_items(texts: Iterable[AskedText]) -> dict[Place, dict[str, frozenset[str]]]:
    """Return the items that each shortcut solves, for each rule of :data:`REMEMBERS`."""
    by_place = grouped((text.place, text) for text in texts if (text.place[0], text.stated) == (REMEMBERS, WHOLE))
    solved = {}
    for place, asked in by_place.items():
        of_place = list({text.item: text for text in asked}.values())  # an item may be asked about several pairs
        items = _Items(of_place)
        solved[place] = {
            name: frozenset(
                text.item for number, text in enumerate(of_place) if _chance(shortcut(items, number), text) >= SOLVES
            )
            for name, shortcut in SHORTCUTS.items()
        }
    return solved


def _chance(scores: Mapping[str, float], asked: AskedText) -> float:
    """Return the probability that the gold answer is first, with ties broken at random."""
    names = frozenset(asked.names) - asked.right
    able = {name: score for name, score in scores.items() if score > 0 and name in names}
    best = max(able.values(), default=0.0)
    tied = [name for name, score in able.items() if score == best]
    return 1 / len(tied) if asked.gold in tied else 0.0


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.lower()))


def _pieces(text: str) -> frozenset[str]:
    """Return the words in names such as "SweetPepperTopping", in lower case."""
    return frozenset(map(str.lower, re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", text)))


def _letters(text: str) -> frozenset[str]:
    return frozenset(text[at : at + 3].lower() for at in range(len(text) - 2))


def _overlap(some: frozenset[str], others: frozenset[str]) -> float:
    """Return Jaccard's index."""
    return len(some & others) / (len(some | others) or 1)
