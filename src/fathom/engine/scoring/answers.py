"""Equality of answers (spelling, numbers and dates normalised, aliases known), and answers that a reply mentions."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from fathom.data.knowledge import KnowledgeGraph
from fathom.data.queries import CandidateSet, Query
from fathom.data.words import is_word_character

Key = TypeVar("Key")
_MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_MONTH = {name: number for number, full in enumerate(_MONTHS, start=1) for name in (full, full[:3])} | {"sept": 9}
_NUMBER = re.compile(r"([+\-−]?)(\d{1,3}(?:,\d{3})+|\d+)(?:\.(\d+))?")
_DATES = (
    re.compile(r"(?P<day>\d{1,2})(?:st|nd|rd|th)?(?: of)? (?P<month>[a-z]+)\.?,? (?P<year>\d{3,4})"),
    re.compile(r"(?P<month>[a-z]+)\.? (?P<day>\d{1,2})(?:st|nd|rd|th)?,? (?P<year>\d{3,4})"),
    re.compile(r"(?P<month>[a-z]+)\.?,? (?P<year>\d{3,4})"),
    re.compile(r"(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})"),
)


def answer_key(text: str, normalise: bool = True) -> str:
    """Return a key that is equal for equal answers.

    :param normalise: ignore letter case, spaces, enclosing quotation marks, final punctuation, and the spelling of
        numbers ("1,234.0" is 1234) and dates ("March 12th, 1990" is 12 March 1990). Else ignore only letter case, as
        KAMEL's own script does. Articles stay: "The Who" is not "who".
    """
    if not normalise:
        return text.strip().lower()
    plain = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    bare = plain.strip("\"'“”‘’„«»` ").rstrip(" .,;:!?") or plain
    return _number(bare) or _date(bare) or bare


def _number(text: str) -> str | None:
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    sign, whole, fraction = match.groups(default="")
    digits = whole.replace(",", "").lstrip("0") or "0"
    digits += ("." + fraction.rstrip("0")).rstrip(".")
    return digits if sign in ("", "+") or digits == "0" else "-" + digits


def _date(text: str) -> str | None:
    """Return year, month and day (0 if missing); None if *text* is no date."""
    for pattern in _DATES:
        if match := pattern.fullmatch(text):
            parts = match.groupdict(default="0")
            month = _MONTH.get(parts["month"]) or (int(parts["month"]) if parts["month"].isdecimal() else 0)
            day = int(parts.get("day", "0"))
            if 1 <= month <= 12 and day <= 31:
                return f"{int(parts['year']):04}-{month:02}-{day:02}"
    return None


def split_answers(text: str, separator: str, normalise: bool = True) -> list[str]:
    """Return the distinct answers in a reply, in order."""
    parts = [part.strip() for part in text.split(separator.strip())]
    first = {answer_key(part, normalise): part for part in reversed(parts) if part}
    return [part for part in dict.fromkeys(parts) if part in first.values()]


class AnswerMatch(NamedTuple):
    """The comparison of given answers with the gold answers of a query.

    :param ids: the entity that each answer names: a gold answer, another known one, a candidate by its label; else
        None.
    :param right: number of right answers named, at most the number of gold ones.
    :param wrong: number of answers that name no right answer.
    :param gold: number of gold answers.
    """

    ids: tuple[str | None, ...]
    right: int
    wrong: int
    gold: int


class _Names(Generic[Key]):
    """The keys by which entities' names and aliases are found, and the candidates by those of their label.

    :param graph: has the aliases; None for labels alone.
    """

    def __init__(
        self, graph: KnowledgeGraph | None, queries: Sequence[Query], keys: Callable[[Iterable[str]], frozenset[Key]]
    ) -> None:
        self._keys = keys
        wanted = dict.fromkeys(answer for query in queries for answer in (*query.gold, *query.known))
        self._by_id = {id_: keys(names) for id_, names in _names_in_graph(graph, list(wanted)).items()}
        self._labels: dict[str, dict[Key, str]] = {}

    def of(self, id_: str, space: CandidateSet) -> frozenset[Key]:
        label = () if (place := space.position.get(id_)) is None else (space.names[place],)
        return self._by_id.get(id_, frozenset()) | self._keys(label)

    def labels(self, space: CandidateSet) -> Mapping[Key, str]:
        """Return the candidates' ids by the key of their label; the first of several with one name."""
        if space.name not in self._labels:
            pairs = zip(reversed(space.names), reversed(space.ids), strict=True)
            self._labels[space.name] = {key: id_ for name, id_ in pairs for key in self._keys((name,))}
        return self._labels[space.name]


class Matcher:
    """Compares answers with the labels and aliases of a query set's entities.

    :param graph: has the aliases; None for labels alone.
    """

    def __init__(
        self,
        graph: KnowledgeGraph | None,
        spaces: Mapping[str, CandidateSet],
        queries: Sequence[Query],
        normalise: bool,
    ) -> None:
        self.spaces, self.normalise = spaces, normalise
        self.names = _Names(graph, queries, lambda names: frozenset(answer_key(name, self.normalise) for name in names))

    def nameless(self, query: Query) -> list[str]:
        space = self.spaces[query.candidates]
        return [gold for gold in query.gold if not self.names.of(gold, space)]

    def match(self, query: Query, replies: Sequence[str]) -> AnswerMatch:
        """Compare answers with those of a query.

        Other true answers (``query.known``) are right, too, up to the number of gold ones: a graph has a query for each
        triple, and no question specifies which of the true tails it wants.
        """
        keys = [answer_key(answer, self.normalise) for answer in replies]
        space = self.spaces[query.candidates]
        names = {id_: self.names.of(id_, space) for id_ in (*query.gold, *query.known)}
        by_label = self.names.labels(space)
        ids = [next((id_ for id_ in names if key in names[id_]), by_label.get(key)) for key in keys]
        right = min(sum(not spellings.isdisjoint(keys) for spellings in names.values()), len(query.gold))
        wrong = sum(not any(key in names[id_] for id_ in names) for key in dict.fromkeys(keys))
        return AnswerMatch(tuple(ids), right, wrong, len(query.gold))


def _names_in_graph(graph: KnowledgeGraph | None, ids: list[str]) -> dict[str, list[str]]:
    """Return the name and the aliases of each entity that the graph has."""
    if graph is None:
        return {}
    places = pc.index_in(pa.array(ids, pa.string()), graph.entities.column("id").combine_chunks())
    present = [id_ for id_, place in zip(ids, places.to_pylist(), strict=True) if place is not None]
    rows = graph.entities.take(places.drop_null())
    columns = (rows.column("name").to_pylist(), rows.column("aliases").to_pylist())
    return {id_: [name, *(aliases or ())] for id_, name, aliases in zip(present, *columns, strict=True)}


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
    """Finds the answers that replies name: the scoring ``contains`` of the generation probe.

    As in PopQA (Mallen et al. 2023) and EntityQuestions (Sciavolino et al. 2021), a reply is right that has a name or
    alias of a gold answer as words. Fathom is stricter: what repeats three or more words of the question is an echo;
    what is negated is not named; of several candidates that a reply names, the first counts.

    :param graph: has the aliases; None for labels alone.
    """

    def __init__(
        self, graph: KnowledgeGraph | None, spaces: Mapping[str, CandidateSet], queries: Sequence[Query]
    ) -> None:
        self._spaces = spaces
        self._names = _Names(graph, queries, _forms_of)

    def first(self, query: Query, question: str, reply: str) -> NamedAnswer:
        """Return the first candidate that a reply names. :param question: without examples."""
        asked, said = words_of(question), words_of(reply)
        space = self._spaces[query.candidates]
        right = {form: id_ for id_ in (*query.known, *query.gold) for form in self._names.of(id_, space)}
        others = self._names.labels(space)
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


def _forms_of(names: Iterable[str]) -> frozenset[Words]:
    """Return each name as words, also without its article."""
    forms = set()
    for name in names:
        form = tuple(word for word in words_of(name) if word != _BREAK)
        forms.add(form)
        if form[:1] and form[0] in ARTICLES and len("".join(form[1:])) >= LONG:
            forms.add(form[1:])
    return frozenset(forms - {()})


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
