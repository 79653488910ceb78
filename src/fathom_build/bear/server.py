"""Wikidata's SPARQL endpoint, queried for just the statements and entities that the plan needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from string import Template

from fathom.base.progress import Progress, unseen
from fathom_build.bear.entities import (
    INSTANCE_OF,
    SUBCLASS_OF,
    Entity,
    Numbers,
    RankedStatement,
    Statement,
    StatementState,
    WantedStatements,
    counted,
    date_of,
    item_number,
)
from fathom_build.ontology.sources import Endpoint, Row

QUERIES = Path(__file__).parent / "queries"
_AT_ONCE = 200
"""Entities in one query."""
_RANKS = {"PreferredRank": "preferred", "NormalRank": "normal", "DeprecatedRank": "deprecated"}


class WikidataServer:
    """:param progress: called with (relations done, relations)."""

    def __init__(self, endpoint: Endpoint, wanted: WantedStatements, progress: Progress = unseen) -> None:
        self.name, self._endpoint, self._wanted, self._progress = endpoint.name, endpoint, wanted, progress
        self.notes: list[str] = []
        self._types: set[int] = set()
        """Of all that was described, and what is above them."""

    def facts(self) -> Iterator[Entity]:
        """Yield items with a statement of a wanted property.

        :raises BadInput: it does not answer, or with something else.
        """
        wanted = sorted(self._wanted.properties - {INSTANCE_OF, SUBCLASS_OF})
        for done, property_ in enumerate(wanted):
            self._progress(done, len(wanted))
            claims = self._claims(property_)
            for entity in self._described(sorted(claims)):
                yield entity._replace(claims=(*claims.pop(entity.number), *entity.claims))
            yield from (Entity(number, "", (), 0, claims_) for number, claims_ in claims.items())
        self._progress(len(wanted), len(wanted))

    def named(self, needed: Numbers) -> Iterator[Entity]:
        """Yield the items of *needed*, and the classes of all items with all classes above them."""
        yield from self._described(list(needed))
        waiting, done = set(self._types), set[int]()
        while waiting:
            above = self._above(sorted(waiting))
            for entity in self._described(sorted(waiting)):
                yield entity._replace(claims=(*entity.claims, *above[entity.number]))
            done |= waiting
            waiting = {claim.object for claims in above.values() for claim in claims} - done

    def _claims(self, property_: str) -> dict[int, tuple[Statement, ...]]:
        statements: dict[int, dict[str, RankedStatement]] = defaultdict(dict)
        for row in self._endpoint.rows(_query("statements", property=property_)):
            if number := item_number(row["subject"]):
                statements[number].setdefault(row["statement"], _ranked(property_, row))
        return {number: tuple(counted(claims.values(), self._wanted)) for number, claims in statements.items()}

    def _above(self, classes: list[int]) -> dict[int, list[Statement]]:
        superclasses: dict[int, list[Statement]] = defaultdict(list)
        for row in self._describe("classes", classes):
            if above := item_number(row["above"]):
                superclasses[item_number(row["item"])].append(Statement(SUBCLASS_OF, above))
        return superclasses

    def _described(self, wanted: list[int]) -> Iterator[Entity]:
        """Yield each with its names, popularity (all its pages in Wikimedia's projects) and classes."""
        rows = self._describe("entities", wanted)
        for number, of in groupby(rows, key=lambda row: item_number(row["item"])):
            labels: dict[str, str] = {}
            aliases, types, links = [], [], 0
            for row in of:
                if "label" in row:
                    labels[row["language"]] = " ".join(row["label"].split())
                elif "alias" in row:
                    aliases.append(row["alias"])
                elif type_ := item_number(row.get("type", "")):
                    types.append(Statement(INSTANCE_OF, type_))
                links = int(row.get("links", links))
            self._types |= {claim.object for claim in types}
            label = labels.get(self._wanted.language) or labels.get("mul", "")
            yield Entity(number, label, tuple(aliases), links, tuple(types))

    def _describe(self, query: str, wanted: list[int]) -> Iterator[Row]:
        for start in range(0, len(wanted), _AT_ONCE):
            items = " ".join(f"wd:Q{number}" for number in wanted[start : start + _AT_ONCE])
            yield from self._endpoint.rows(_query(query, items=items, language=self._wanted.language))


def _query(name: str, **values: str) -> str:
    return Template((QUERIES / f"{name}.rq").read_text(encoding="utf-8")).substitute(values)


def _ranked(property_: str, row: Row) -> RankedStatement:
    """Return a statement with its rank. Dates have no precision here; month and day imply it."""
    number = item_number(row["object"])
    unknown = "/.well-known/genid/" in row["object"]
    state = StatementState.COUNTS if number or unknown else StatementState.NO_ITEM
    begun, over = (_date(row.get(name, "")) for name in ("from", "until"))
    claim = Statement(property_, number, begun or _date(row.get("at", "")), over, state)
    rank = _RANKS.get(row["rank"].rpartition("#")[2], "normal")
    return RankedStatement(claim, rank, "until" in row)


def _date(time: str) -> str:
    """Shorten a date: the first of January stands for a year, the first of a month for the month."""
    if not time or "genid" in time:
        return ""
    whole = date_of(time)
    return whole.removesuffix("-01-01") if whole.endswith("-01-01") else whole
