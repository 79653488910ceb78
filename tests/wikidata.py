"""Dumps of Wikidata made up for tests, in the layout of the published ones."""

from __future__ import annotations

import bz2
import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple


class ItemClaim(NamedTuple):
    """A statement.

    :param object: number of the item; None for an unknown value.
    :param rank: of Wikidata.
    """

    property: str
    object: int | None
    rank: str = "normal"
    begun: str = ""
    over: str = ""


def item(
    number: int,
    label: str | None,
    said: Sequence[ItemClaim] = (),
    aliases: Sequence[str] = (),
    links: int = 0,
) -> dict[str, Any]:
    """An item as a dump has it.

    :param label: in English; None for none.
    :param links: Wikipedias that have a page on it.
    """
    claims: dict[str, list[dict[str, Any]]] = {}
    for place, one in enumerate(said):
        claims.setdefault(one.property, []).append(statement(number, place, one))
    return {
        "type": "item",
        "id": f"Q{number}",
        "labels": {"en": _text("en", label)} if label else {},
        "descriptions": {},
        "aliases": {"en": [_text("en", name) for name in aliases]} if aliases else {},
        "claims": claims,
        "sitelinks": {
            f"{code}wiki": {"site": f"{code}wiki", "title": label or f"Q{number}", "badges": []}
            for code in [f"a{place}" for place in range(links)]
        },
        "lastrevid": 1_500_000_000 + number,
        "modified": "2022-01-03T00:00:00Z",
    }


def statement(number: int, place: int, said: ItemClaim) -> dict[str, Any]:
    """A statement with its reference, as a dump has it."""
    snak: dict[str, Any] = {"snaktype": "somevalue", "property": said.property, "datatype": "wikibase-item"}
    if said.object is not None:
        snak |= {"snaktype": "value", "datavalue": _entity(said.object)}
    found: dict[str, Any] = {
        "mainsnak": snak,
        "type": "statement",
        "id": f"Q{number}$4C2B6A1E-{place:04d}-4F4B-9D52-{number:012d}",
        "rank": said.rank,
        "references": [
            {
                "hash": f"{number:040x}",
                "snaks": {"P143": [{"snaktype": "value", "property": "P143", "datavalue": _entity(328)}]},
                "snaks-order": ["P143"],
            }
        ],
    }
    dates = {"P580": said.begun, "P582": said.over}
    if any(dates.values()):
        found["qualifiers"] = {name: [_time(name, date)] for name, date in dates.items() if date}
    return found


def _text(language: str, value: str) -> dict[str, str]:
    return {"language": language, "value": value}


def _entity(number: int) -> dict[str, Any]:
    value = {"entity-type": "item", "numeric-id": number, "id": f"Q{number}"}
    return {"value": value, "type": "wikibase-entityid"}


def _time(property_: str, date: str) -> dict[str, Any]:
    parts = [*date.split("-"), "00", "00"][:3]
    value = {
        "time": f"+{'-'.join(parts)}T00:00:00Z", "timezone": 0, "before": 0, "after": 0,
        "precision": 9 + date.count("-"), "calendarmodel": "http://www.wikidata.org/entity/Q1985727",
    }  # fmt: skip
    return {"snaktype": "value", "property": property_, "datavalue": {"value": value, "type": "time"}}


def lines_of(items: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    """The lines of a dump: "[", an item a line with a comma behind all but the last, "]"."""
    yield b"[\n"
    before = b""
    for one in items:
        if before:
            yield before + b",\n"
        before = json.dumps(one, separators=(",", ":")).encode()
    yield before + b"\n" if before else b""
    yield b"]\n"


def write_dump(path: Path, items: Iterable[dict[str, Any]]) -> Path:
    """A dump, packed as its name says."""
    opener = {".gz": gzip.open, ".bz2": bz2.open}.get(path.suffix, open)
    with opener(path, "wb") as file:
        file.writelines(lines_of(items))
    return path


# ------------------------------------------------------------------------------ BEAR's own facts, with planted noise

PLANTED = 500_000_000
"""Entities of this number or above are planted."""
KINDS = (
    "extra answer", "revealing name", "no label", "ended", "deprecated", "outranked", "unknown value", "same name",
    "wrong type",
)  # fmt: skip
PERSON, THING = 5, 35120


class Bear(NamedTuple):
    """Facts of a published BEAR folder, as items of Wikidata.

    :param templates: by relation.
    :param facts: (subject, answer) of each relation.
    :param planted: how many noisy facts of each kind every relation has.
    """

    templates: dict[str, list[str]]
    items: list[dict[str, Any]]
    facts: dict[str, set[tuple[int, int]]]
    planted: int


def bear_items(folder: Path, relations: Sequence[str] = (), planted: int = 0) -> Bear:
    """BEAR's facts as a dump holds them, every entity an instance of one class and more popular the earlier it stands.

    :param relations: of the folder; all where none is named.
    :param planted: noisy facts of each of :data:`KINDS`, of every relation: all about more popular subjects.
    """
    metadata = json.loads((folder / "metadata_relations.json").read_text(encoding="utf-8"))
    names: dict[int, tuple[str, list[str]]] = {THING: ("thing", []), PERSON: ("person", [])}
    said: dict[int, list[ItemClaim]] = {}
    facts: dict[str, set[tuple[int, int]]] = {}
    for name in relations or [name for name in metadata if (folder / f"{name}.jsonl").exists()]:
        for line in (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            subject, answer = int(row["sub_id"][1:]), int(row["obj_id"][1:])
            names[answer] = (row["obj_label"], names.get(answer, ("", []))[1])
            names[subject] = (names[subject][0] if subject in names else row["sub_label"], row["sub_aliases"])
            said.setdefault(subject, []).append(ItemClaim(name, answer))
            facts.setdefault(name, set()).add((subject, answer))
    items = [
        item(number, label, [*said.get(number, ()), ItemClaim("P31", THING)], aliases, 10 + number % 90)
        for number, (label, aliases) in names.items()
    ]
    for place, name in enumerate(facts):
        items += _noise(name, sorted(facts[name]), names, planted, PLANTED + place * 100_000)
    return Bear({name: metadata[name]["templates"] for name in facts}, items, facts, planted)


def _noise(
    relation: str,
    facts: Sequence[tuple[int, int]],
    names: dict[int, tuple[str, list[str]]],
    planted: int,
    first: int,
) -> Iterator[dict[str, Any]]:
    """Items that a balanced probe must not have, each more popular than all good ones."""
    answers = sorted({answer for _, answer in facts})
    for place, kind in enumerate(KINDS):
        for count in range(planted):
            number = first + place * 1_000 + count
            answer, other = answers[count % len(answers)], answers[(count + 1) % len(answers)]
            label: str | None = f"zq{number}"
            said = [ItemClaim(relation, answer)]
            if kind == "extra answer":
                said.append(ItemClaim(relation, other))
            elif kind == "revealing name":
                label = f"zq{number} {names[answer][0]}"
            elif kind == "no label":
                label = None
            elif kind == "ended":
                said = [ItemClaim(relation, answer, over="1999")]
            elif kind == "deprecated":
                said = [ItemClaim(relation, answer, "deprecated")]
            elif kind == "outranked":
                said = [ItemClaim(relation, answer), ItemClaim(relation, number + 50_000, "preferred")]
            elif kind == "unknown value":
                said.append(ItemClaim(relation, None))
            elif kind == "same name":
                label = names[facts[count % len(facts)][0]][0]
            type_ = PERSON if kind == "wrong type" else THING
            popular = 1 if kind == "same name" else 100
            yield item(number, label, [*said, ItemClaim("P31", type_)], links=popular)


# ------------------------------------------------------------------------------------------------------ the same in RDF

_RDF = {
    "wd": "http://www.wikidata.org/entity/", "wdt": "http://www.wikidata.org/prop/direct/",
    "p": "http://www.wikidata.org/prop/", "ps": "http://www.wikidata.org/prop/statement/",
    "pq": "http://www.wikidata.org/prop/qualifier/", "s": "http://www.wikidata.org/entity/statement/",
    "wikibase": "http://wikiba.se/ontology#", "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "skos": "http://www.w3.org/2004/02/skos/core#", "schema": "http://schema.org/",
    "data": "https://www.wikidata.org/wiki/Special:EntityData/", "xsd": "http://www.w3.org/2001/XMLSchema#",
}  # fmt: skip
_RANKS = {"preferred": "PreferredRank", "normal": "NormalRank", "deprecated": "DeprecatedRank"}


def _iri(short: str) -> str:
    space, _, name = short.partition(":")
    return f"<{_RDF[space]}{name}>"


def triples_of(items: Iterable[dict[str, Any]], truthy: bool = True) -> Iterator[str]:
    """Lines of N-Triples as Wikidata's own dumps have them, an item at a time.

    :param truthy: the best statements alone; else whole statements with rank and dates beside them, as a server has.
    """
    for one in items:
        subject, links = _iri(f"wd:{one['id']}"), len(one["sitelinks"])
        page = _iri(f"data:{one['id']}")
        yield f"{page} {_iri('schema:about')} {subject} .\n"
        counted = f'"{links}"^^{_iri("xsd:integer")}'  # of the page in dumps; servers put it to the item
        yield f"{page if truthy else subject} {_iri('wikibase:sitelinks')} {counted} .\n"
        for label in one["labels"].values():
            yield f"{subject} {_iri('rdfs:label')} {json.dumps(label['value'])}@{label['language']} .\n"
        for alias in one["aliases"].get("en", ()):
            yield f"{subject} {_iri('skos:altLabel')} {json.dumps(alias['value'])}@en .\n"
        for property_, statements in one["claims"].items():
            ranks = {said["rank"] for said in statements}
            best = "preferred" if "preferred" in ranks else "normal"
            for said in statements:
                if said["rank"] == best:
                    yield f"{subject} {_iri(f'wdt:{property_}')} {_object(said)} .\n"
                if not truthy:
                    yield from _statement(subject, property_, said)


def _object(said: dict[str, Any]) -> str:
    if said["mainsnak"]["snaktype"] == "somevalue":
        return f"<http://www.wikidata.org/.well-known/genid/{said['id'].replace('$', '-')}>"
    return _iri(f"wd:{said['mainsnak']['datavalue']['value']['id']}")


def _statement(subject: str, property_: str, said: dict[str, Any]) -> Iterator[str]:
    node = _iri(f"s:{said['id'].replace('$', '-')}")
    yield f"{subject} {_iri(f'p:{property_}')} {node} .\n"
    yield f"{node} {_iri(f'ps:{property_}')} {_object(said)} .\n"
    yield f"{node} {_iri('wikibase:rank')} {_iri('wikibase:' + _RANKS[said['rank']])} .\n"
    for name, (snak,) in said.get("qualifiers", {}).items():
        time = snak["datavalue"]["value"]["time"].lstrip("+").replace("-00", "-01")
        yield f'{node} {_iri(f"pq:{name}")} "{time}"^^{_iri("xsd:dateTime")} .\n'
