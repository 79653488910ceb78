"""Sources of Wikidata: its JSON dump, truthy statements in N-Triples (plain, ``.gz``, ``.bz2``), its SPARQL endpoint.

Truthy triples contain the best rank alone, and no qualifiers: when facts began or ended is unknown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import groupby
from pathlib import Path
from string import Template
from typing import Any, Protocol

from fathom.base.errors import BadInput, refuse
from fathom.base.progress import Progress, log, unseen
from fathom.base.reading import Faults, Unreadable, check_file, opened
from fathom.base.reading.bounds import MEGABYTE
from fathom.data.formats.rdf import kind_of, quads
from fathom_build.bear.entities import (
    INSTANCE_OF,
    SUBCLASS_OF,
    UNKNOWN,
    DumpForecast,
    DumpPass,
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
from fathom_build.options import BearBuildOptions


class WikidataSource(Protocol):
    """Something that holds Wikidata, or a part of it."""

    name: str
    notes: list[str]
    """What its user should know of the data that come from it."""

    def facts(self) -> Iterator[Entity]:
        """Yield items with a statement of a wanted property."""
        ...

    def named(self, needed: Numbers) -> Iterator[Entity]:
        """Yield the available items of *needed*."""
        ...


_WORTH_SAYING = 60
"""Seconds of a pass from which its time and space are logged."""
_MOST_FAULTS = 20
_ODD_SHARE = 1e-4
"""Of odd lines above which a dump is refused."""


class Dump:
    """Wikidata's JSON dump, or one cut from it.

    :param folder: keeps the parts that have been read.
    """

    def __init__(
        self, path: Path, wanted: WantedStatements, folder: Path, options: BearBuildOptions, progress: Progress = unseen
    ) -> None:
        self.path, self.name, self._wanted, self._folder, self._options = path, path.name, wanted, folder, options
        self._progress, self._size = progress, path.stat().st_size
        self.notes: list[str] = []
        self._lines = self._entities = self._unpacked = 0

    def facts(self) -> Iterator[Entity]:
        """Yield items with a statement of a property of the plan, and classes.

        :raises BadInput: all that is wrong with the dump.
        """
        if (work := self.forecast()) is not None and 60 * work.minutes * work.processes > _WORTH_SAYING:
            log(
                f"{self.path}: at most {work.minutes:,.0f} minutes for each of two passes with {work.processes} "
                f"processes, and {work.disk:.1f} GB in {self._folder}, where {work.free:,.1f} GB are free (estimated "
                "from samples)"
            )
        yield from self._read(DumpPass(self.path, self._wanted, self._folder))

    def forecast(self) -> DumpForecast | None:
        """Extrapolate from samples; None for a small dump, or once a part has been made."""
        return DumpPass(self.path, self._wanted, self._folder).estimate(self._options.workers)

    def named(self, needed: Numbers) -> Iterator[Entity]:
        if len(needed):
            yield from self._read(DumpPass(self.path, self._wanted, self._folder, needed))

    def _read(self, dump: DumpPass) -> Iterator[Entity]:
        """Yield the entities of a pass, the first of each number; note or refuse odd lines."""
        faults, seen, is_open, cut = Faults(), Numbers(), False, ""
        self._lines = self._entities = self._unpacked = 0
        with closing(dump.parts(self._options.workers)) as parts:
            for part, rows in parts:
                first, self._lines = self._lines, self._lines + part.lines
                self._entities += part.entities
                self._unpacked += part.unpacked
                for number, found in rows:
                    if isinstance(found, Entity) and seen.add(found.number):
                        yield found
                        continue
                    twice = isinstance(found, Entity) and f"Q{found.number} stands here for the second time: remove one"
                    faults.add(self.path, first + number, twice or str(found))
                    if self._has_too_many(faults):
                        break
                is_open = is_open if part.is_open is None else part.is_open
                cut = part.cut
                self._progress(part.place, self._size)
                if cut or self._has_too_many(faults):
                    break
        self._progress(self._size, self._size)
        self._report_end(cut, is_open, faults)
        if not self._entities and not faults.found:
            empty = "the file is empty" if not self._unpacked else "no entity in it"
            raise BadInput(f"{self.path}: {empty}: expected Wikidata's JSON dump, one entity per line")
        if not self._entities or len(faults.found) > max(1, _ODD_SHARE * self._entities):
            faults.stop_if_any()
        if faults.found:
            note = f"odd lines are left out: {len(faults.found):,} of {self._entities:,}, the first: {faults.found[0]}"
            self.notes += [note] * (note not in self.notes)

    def _has_too_many(self, faults: Faults) -> bool:
        return len(faults.found) >= max(_MOST_FAULTS, _ODD_SHARE * self._entities)

    def _report_end(self, cut: str, is_open: bool, faults: Faults) -> None:
        """Refuse a dump that breaks off, or note it; note one that lacks its end."""
        if self._has_too_many(faults):
            return
        progress = f"{self._entities:,} entities could be read, {self._unpacked / MEGABYTE:,.1f} MB unpacked"
        if cut:
            number = self._lines + 1
            message = f"the dump breaks off in line {number:,} ({cut}): {progress}"
            if not self._options.partial:
                advice = "fetch it again and compare its checksum, or take what is there with --partial"
                faults.add(self.path, number, f"{message}: {advice}")
                faults.stop_if_any()
            self.notes.append(f"{self.path}: {message}; the rest is not in the data set (--partial)")
        elif is_open:  # the dump may be a part of another
            self.notes.append(
                f'{self.path} has no "]" at its end, as if it were cut after line {self._lines:,}: {progress}'
            )


_ENTITY, _DIRECT = "http://www.wikidata.org/entity/", "http://www.wikidata.org/prop/direct/"
_PAGE = "/wiki/Special:EntityData/"
_LABEL, _ALIAS = "http://www.w3.org/2000/01/rdf-schema#label", "http://www.w3.org/2004/02/skos/core#altLabel"
_SITELINKS, _ABOUT = "http://wikiba.se/ontology#sitelinks", "http://schema.org/about"
NO_QUALIFIERS = (
    "truthy triples have no qualifiers: facts that have ended look like others, and no fact has dates; the JSON dump "
    "has both"
)


class Triples:
    """:param progress: called with (bytes read, bytes to read) of each pass."""

    def __init__(self, path: Path, wanted: WantedStatements, progress: Progress = unseen) -> None:
        self.path, self.name, self._wanted, self._progress = path, path.name, wanted, progress
        self.notes = [f"{path}: {NO_QUALIFIERS}"]

    def facts(self) -> Iterator[Entity]:
        """Yield items with a statement of a wanted property.

        :raises BadInput: it cannot be read, or a date is asked for.
        """
        if self._wanted.as_of:
            raise BadInput(f"as_of: {self.path}: {NO_QUALIFIERS}")
        yield from (
            entity for entity in self._entities() if any(claim.property != INSTANCE_OF for claim in entity.claims)
        )

    def named(self, needed: Numbers) -> Iterator[Entity]:
        if len(needed):
            yield from (entity for entity in self._entities() if entity.number in needed)

    def _entities(self) -> Iterator[Entity]:
        faults, size, count = Faults(), self.path.stat().st_size, 0
        read = quads(self.path, faults, progress=lambda done: self._progress(done, size))
        for number, group in groupby(read, key=_number_of):
            if number:
                yield _entity(number, group, self._wanted)
                count += 1
        if faults.found:
            advice = f"{count:,} entities could be read before; fetch it again and compare its checksum"
            raise BadInput([*(f"{fault}" for fault in faults.found), f"{self.path}: {advice}"])


def _number_of(quad: Any) -> int:
    """Return the number of a triple's item: its subject, the item of its page, or of a page of Wikipedia."""
    iri = str(getattr(quad.subject, "value", ""))
    if quad.predicate.value == _ABOUT:
        iri = str(quad.object.value)
    elif _PAGE in iri:
        iri = _ENTITY + iri.rpartition("/")[2]
    return item_number(iri)


def _entity(number: int, group: Iterator[Any], wanted: WantedStatements) -> Entity:
    labels: dict[str, str] = {}
    aliases, claims = [], []
    pages = links = 0
    for quad in group:
        predicate, object_ = quad.predicate.value, quad.object
        language = getattr(object_, "language", None)
        if predicate == _LABEL and language in (wanted.language, "mul"):
            labels[language] = " ".join(object_.value.split())
        elif predicate == _ALIAS and language == wanted.language:
            aliases.append(object_.value)
        elif predicate == _SITELINKS:
            links = int(object_.value)
        elif predicate == _ABOUT:
            pages += ".wikipedia.org/" in quad.subject.value
        elif predicate.startswith(_DIRECT) and (name := predicate[len(_DIRECT) :]) in wanted.properties:
            claims.append(_claim(name, object_))
    label = labels.get(wanted.language) or labels.get("mul", "")
    return Entity(number, label, tuple(aliases), pages or links, tuple(claims))


def _claim(property_: str, object_: Any) -> Statement:
    """Return the statement of a triple. Unknown values are blank nodes, or made-up IRIs in newer dumps."""
    value = str(object_.value)
    if "/.well-known/genid/" in value or type(object_).__name__ == "BlankNode":
        return Statement(property_, UNKNOWN)
    number = item_number(value)
    return Statement(property_, number, state=StatementState.COUNTS if number else StatementState.NO_ITEM)


def sources_of(
    inputs: Sequence[Path], wanted: WantedStatements, folder: Path, options: BearBuildOptions, progress: Progress
) -> list[WikidataSource]:
    """Return a source for each file.

    :param folder: keeps what has been read of dumps.
    :raises BadInput: each that is missing or of another kind.
    """
    faults: list[str] = []
    sources: list[WikidataSource] = []
    for path in inputs:
        try:
            check_file(path)
            if kind_of(path) == "N_TRIPLES":
                sources.append(Triples(path, wanted, progress))
            elif _begins_as_json(path):
                sources.append(Dump(path, wanted, folder, options, progress))
            else:
                faults.append(
                    f"--input {path}: expected Wikidata's JSON dump (.json, .json.gz, .json.bz2) or truthy N-Triples "
                    "(.nt, .nt.gz, .nt.bz2)"
                )
        except Unreadable as error:
            faults += [f"--input {fault}" for fault in error.faults]
    refuse(faults)
    return sources


def _begins_as_json(path: Path) -> bool:
    if {".json", ".jsonl", ".ndjson"} & set(path.suffixes):
        return True
    with opened(path) as stream:
        return stream.peek(64)[:64].removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"[", b"{")


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
    return RankedStatement(claim, _RANKS.get(row["rank"].rpartition("#")[2], "normal"), "until" in row)


def _date(time: str) -> str:
    """Shorten a date: the first of January stands for a year, the first of a month for the month."""
    if not time or "genid" in time:
        return ""
    whole = date_of(time)
    return whole.removesuffix("-01-01") if whole.endswith("-01-01") else whole
