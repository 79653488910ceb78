"""Entities of Wikidata: names, sitelinks, and those of their statements that count.

Of the statements of a property those of the best rank count: preferred ones if there are any, else normal ones, never
deprecated ones (Wikidata's own "truthy" statements). Qualifiers say when a fact began and ended (P580, P582, P585).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from fathom.base.reading import Json

INSTANCE_OF, SUBCLASS_OF = "P31", "P279"
_START, _END, _POINT = "P580", "P582", "P585"
UNKNOWN = 0
"""In place of an object: there is one, but Wikidata does not know which ("unknown value")."""
_NO_WIKIPEDIA = frozenset((Path(__file__).parent / "not_wikipedia.txt").read_text(encoding="utf-8").split())
"""Sites that end in "wiki" and are no Wikipedia."""


class StatementState(StrEnum):
    """Why a statement does not count."""

    COUNTS = ""
    DEPRECATED = "deprecated"
    OUTRANKED = "of lower rank than another"
    ENDED = "has ended"
    NOT_YET = "had not begun"
    NO_ITEM = "no item (a text, number, date, or no value)"


class Statement(NamedTuple):
    """A statement of an entity.

    :param property: such as "P36".
    :param object: number of the item, :data:`UNKNOWN` for an unknown value.
    :param valid_from: date, as exact as Wikidata has it ("1998", "1998-05", "1998-05-01"); "" where none is given.
    """

    property: str
    object: int
    valid_from: str = ""
    valid_until: str = ""
    state: StatementState = StatementState.COUNTS


class Entity(NamedTuple):
    """:param number: of its id: 42 for Q42.
    :param label: in the wanted language, "" where there is none.
    :param links: Wikipedias that have a page on it.
    :param claims: of the wanted properties, those that do not count included.
    """

    number: int
    label: str
    aliases: tuple[str, ...]
    links: int
    claims: tuple[Statement, ...]


class WantedStatements(NamedTuple):
    """The statements and names to read of an entity.

    :param properties: whose statements are wanted.
    :param language: of labels and aliases.
    :param ended: of which of them facts that have ended count, too.
    :param as_of: a date: what held then counts, whatever has changed since; "" for what holds by the data itself.
    """

    properties: frozenset[str]
    language: str = "en"
    ended: frozenset[str] = frozenset()
    as_of: str = ""


def item_number(iri: str) -> int:
    """Return the number of an item, 0 for the IRI of something else."""
    end = iri.removeprefix("http://www.wikidata.org/entity/Q")
    return int(end) if end != iri and end.isdecimal() and len(end) < 10 else 0


def entity_of(row: Json, wanted: WantedStatements) -> Entity:
    """Read an entity from a row of a dump.

    :raises KeyError, TypeError, AttributeError, ValueError: it has another layout.
    """
    return Entity(
        int(row["id"][1:]),
        _label(row, wanted.language),
        tuple(name["value"] for name in _mapping(row, "aliases").get(wanted.language, ())),
        sum(site.endswith("wiki") and site not in _NO_WIKIPEDIA for site in _mapping(row, "sitelinks")),
        tuple(_claims(_mapping(row, "claims"), wanted)),
    )


def _mapping(row: Json, name: str) -> Json:
    """Return a mapping of a row; real dumps write an empty one as []."""
    value = row.get(name)
    return value if isinstance(value, dict) else {}


def _label(row: Json, language: str) -> str:
    """Return the label in the language or, since 2025, under "mul" if it is the same in all languages."""
    labels = _mapping(row, "labels")
    label = labels.get(language) or labels.get("mul")
    return " ".join(label["value"].split()) if label else ""


def _claims(claims: Json, wanted: WantedStatements) -> Iterator[Statement]:
    for property_, statements in claims.items():
        if property_ in wanted.properties:
            yield from counted([_claim(property_, one) for one in statements], wanted)


class RankedStatement(NamedTuple):
    """A statement before its rank is weighed."""

    claim: Statement
    rank: str
    ended: bool


def counted(statements: Iterable[RankedStatement], wanted: WantedStatements) -> Iterator[Statement]:
    """Yield the claims of one property, each with the reason if it does not count."""
    rows = [
        (_dated(statement, wanted) if statement.rank != "deprecated" else StatementState.DEPRECATED, statement)
        for statement in statements
    ]
    # With a date, ranks are weighed among what held then: what is preferred today may not have.
    in_question = [
        statement for state, statement in rows if state != StatementState.DEPRECATED and not (wanted.as_of and state)
    ]
    best = "preferred" if any(statement.rank == "preferred" for statement in in_question) else "normal"
    for state, statement in rows:
        outranked = state != StatementState.DEPRECATED and statement.rank != best
        yield statement.claim._replace(
            state=statement.claim.state or (StatementState.OUTRANKED if outranked else state)
        )


def _dated(statement: RankedStatement, wanted: WantedStatements) -> StatementState:
    ended = StatementState.COUNTS if statement.claim.property in wanted.ended else StatementState.ENDED
    if not wanted.as_of:
        return ended if statement.ended else StatementState.COUNTS
    begun, over = statement.claim.valid_from, statement.claim.valid_until
    if begun and _parts(begun, 1, 1) > _parts(wanted.as_of, 12, 31):
        return StatementState.NOT_YET
    if over and _parts(over, 12, 31) < _parts(wanted.as_of, 1, 1):
        return ended
    return StatementState.COUNTS


def _claim(property_: str, statement: Json) -> RankedStatement:
    main = statement["mainsnak"]
    state, object_ = StatementState.COUNTS, UNKNOWN
    if main["snaktype"] == "value":
        object_ = _item(main)
        state = StatementState.COUNTS if object_ else StatementState.NO_ITEM
    elif main["snaktype"] == "novalue":
        state = StatementState.NO_ITEM
    qualifiers = _mapping(statement, "qualifiers")
    at = _date(qualifiers, _POINT)
    dates = _date(qualifiers, _START) or at, _date(qualifiers, _END)
    ended = any(snak["snaktype"] != "novalue" for snak in qualifiers.get(_END, ()))
    return RankedStatement(Statement(property_, object_, *dates, state), statement.get("rank", "normal"), ended)


def _item(snak: Json) -> int:
    """Return an item's number, 0 if the value is no item. Older dumps give only the number."""
    value = snak["datavalue"]["value"] if snak["datavalue"]["type"] == "wikibase-entityid" else {}
    return int(value.get("numeric-id") or value["id"][1:]) if value.get("entity-type") == "item" else 0


def _date(qualifiers: Json, property_: str) -> str:
    for snak in qualifiers.get(property_, ()):
        if snak["snaktype"] == "value" and snak["datavalue"]["type"] == "time":
            value = snak["datavalue"]["value"]
            return date_of(value["time"], value.get("precision", 11))
    return ""


def date_of(time: str, precision: int = 11) -> str:
    """Return "1998-05-01" for "+1998-05-01T00:00:00Z", or as much as is known: 9 is a year, 10 a month, 11 a day."""
    sign = "-" if time.startswith("-") else ""
    year, _, rest = time.lstrip("+-").partition("-")
    month, day = rest[:2], rest[3:5]
    parts = [f"{int(year):04}", *([month] if precision >= 10 and month > "00" else [])]
    return sign + "-".join([*parts, *([day] if len(parts) == 2 and precision >= 11 and day > "00" else [])])


def _parts(date: str, month: int, day: int) -> tuple[int, ...]:
    sign = -1 if date.startswith("-") else 1
    parts = [int(part) for part in date.lstrip("-").split("-")]
    return (sign * parts[0], *parts[1:], *(month, day)[len(parts) - 1 :])


class Numbers:
    """Numbers from 0 to the greatest given."""

    def __init__(self, numbers: Iterable[int] = ()) -> None:
        self._bits = bytearray(1 << 16)
        self._count = 0
        for number in numbers:
            self.add(number)

    def add(self, number: int) -> bool:
        """:returns: whether it is new."""
        place, bit = number >> 3, 1 << (number & 7)
        if place >= len(self._bits):
            self._bits.extend(bytes(max(place + 1 - len(self._bits), len(self._bits) >> 1)))
        new = not self._bits[place] & bit
        self._bits[place] |= bit
        self._count += new
        return new

    def discard(self, number: int) -> None:
        """Take it out, if it is there."""
        if number in self:
            self._bits[number >> 3] &= ~(1 << (number & 7))
            self._count -= 1

    def __contains__(self, number: int) -> bool:
        place = number >> 3
        return place < len(self._bits) and bool(self._bits[place] & (1 << (number & 7)))

    def __iter__(self) -> Iterator[int]:
        for place, byte in enumerate(self._bits):
            if byte:
                yield from (place << 3 | bit for bit in range(8) if byte & (1 << bit))

    def __len__(self) -> int:
        return self._count

    def digest(self) -> str:
        """Return a hash of the numbers."""
        return hashlib.sha256(self._bits.rstrip(b"\0")).hexdigest()
