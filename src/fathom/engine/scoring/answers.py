"""Equality of answers: spelling, numbers and dates are normalised, aliases known."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from fathom.data.knowledge import KnowledgeGraph
from fathom.data.queries import CandidateSet, Query

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
        wanted = dict.fromkeys(answer for query in queries for answer in (*query.gold, *query.known))
        self.keys = {id_: self._keys(names) for id_, names in names_of_entities(graph, list(wanted)).items()}
        self.by_label: dict[str, dict[str, str]] = {}

    def nameless(self, query: Query) -> list[str]:
        space = self.spaces[query.candidates]
        return [gold for gold in query.gold if not self._names_of(gold, space)]

    def match(self, query: Query, replies: Sequence[str]) -> AnswerMatch:
        """Compare answers with those of a query.

        Other true answers (``query.known``) are right, too, up to the number of gold ones: a graph has a query for each
        triple, and no question specifies which of the true tails it wants.
        """
        keys = [answer_key(answer, self.normalise) for answer in replies]
        space = self.spaces[query.candidates]
        names = {id_: self._names_of(id_, space) for id_ in (*query.gold, *query.known)}
        by_label = self._by_label(space)
        ids = [next((id_ for id_ in names if key in names[id_]), by_label.get(key)) for key in keys]
        right = min(sum(not spellings.isdisjoint(keys) for spellings in names.values()), len(query.gold))
        wrong = sum(not any(key in names[id_] for id_ in names) for key in dict.fromkeys(keys))
        return AnswerMatch(tuple(ids), right, wrong, len(query.gold))

    def _names_of(self, id_: str, space: CandidateSet) -> frozenset[str]:
        place = space.position.get(id_)
        label = () if place is None else (space.names[place],)
        return self.keys.get(id_, frozenset()) | self._keys(label)

    def _by_label(self, space: CandidateSet) -> dict[str, str]:
        """Return ids by the key of their label; the first of several with one name."""
        if space.name not in self.by_label:
            pairs = zip(reversed(space.names), reversed(space.ids), strict=True)
            self.by_label[space.name] = {answer_key(name, self.normalise): id_ for name, id_ in pairs}
        return self.by_label[space.name]

    def _keys(self, names: Iterable[str]) -> frozenset[str]:
        return frozenset(answer_key(name, self.normalise) for name in names)


def names_of_entities(graph: KnowledgeGraph | None, ids: list[str]) -> dict[str, list[str]]:
    """Return the name and the aliases of each entity that the graph has."""
    if graph is None:
        return {}
    places = pc.index_in(pa.array(ids, pa.string()), graph.entities.column("id").combine_chunks())
    present = [id_ for id_, place in zip(ids, places.to_pylist(), strict=True) if place is not None]
    rows = graph.entities.take(places.drop_null())
    columns = (rows.column("name").to_pylist(), rows.column("aliases").to_pylist())
    return {id_: [name, *(aliases or ())] for id_, name, aliases in zip(present, *columns, strict=True)}
