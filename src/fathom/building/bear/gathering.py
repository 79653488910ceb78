"""From dumps, triples or a server to facts on disk: items with a wanted statement, then those that these lead to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from fathom.building.bear.dump import Dump
from fathom.building.bear.entities import INSTANCE_OF, SUBCLASS_OF, Entity, WantedStatements
from fathom.building.bear.facts import FactStore
from fathom.building.bear.numbers import Numbers
from fathom.building.bear.plan import BearPlan
from fathom.building.bear.triples import Triples
from fathom.errors import BadInput, refuse
from fathom.formats.rdf_syntax import kind_of
from fathom.progress import Progress
from fathom.reading import Faults, Unreadable, check_file, opened, read_lines


class Source(Protocol):
    """Something that holds Wikidata, or a part of it."""

    name: str
    notes: list[str]
    """What its user should know of the data that come from it."""

    def facts(self) -> Iterator[Entity]:
        """Items with a statement of a wanted property."""
        ...

    def named(self, needed: Numbers) -> Iterator[Entity]:
        """The items of *needed*, as far as it has them."""
        ...


def wanted_of(plan: BearPlan) -> WantedStatements:
    """What is read of each entity."""
    ended = {one.property for one in plan.relations if (plan.ended if one.ended is None else one.ended)}
    wanted = frozenset({*plan.properties, INSTANCE_OF, SUBCLASS_OF})
    return WantedStatements(wanted, plan.language, frozenset(ended), plan.as_of)


def sources_of(inputs: Sequence[Path], wanted: WantedStatements, partial: bool, progress: Progress) -> list[Source]:
    """One for each file. :raises BadInput: each that is missing or of another kind."""
    faults: list[str] = []
    sources: list[Source] = []
    for path in inputs:
        try:
            check_file(path)
            if kind_of(path) == "N_TRIPLES":
                sources.append(Triples(path, wanted, progress))
            elif _begins_as_json(path):
                sources.append(Dump(path, wanted, partial, progress))
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


def gather(sources: Sequence[Source], store: FactStore, plan: BearPlan) -> None:
    """All facts of the plan's relations, and what is known of their ends.

    :raises BadInput: what is wrong with the sources, and relations of which none has a statement.
    """
    relations = frozenset(plan.properties)
    for source in sources:
        store.fill(source.facts(), plan.examples, relations)
    _check_found(sources, store, plan)
    for source in sources:
        store.fill(source.named(store.lacking()), 0, frozenset())
    store.finish()


def _check_found(sources: Sequence[Source], store: FactStore, plan: BearPlan) -> None:
    """:raises BadInput: relations of which there is no statement at all, or none that counts."""
    faults = []
    where = ", ".join(source.name for source in sources)
    for property_ in plan.properties:
        states = {state: count for (of, state), count in store.states.items() if of == property_}
        if not states:
            faults.append(f"relation {property_}: no statement of it in {where}: check the property, or leave it out")
        elif not store.count(property_)[0]:
            said = ", ".join(f"{count:,} {state}" for state, count in states.items())
            faults.append(f"relation {property_}: none of its statements in {where} counts ({said}): leave it out")
    refuse(faults)


def read_views(path: Path | None) -> Mapping[int, int] | None:
    """Page views: a line for each entity, its id, a tab, and a number. :raises BadInput: every line that is not so."""
    if path is None:
        return None
    faults = Faults()
    views_by_id: dict[int, int] = {}
    for number, line in read_lines(path, faults):
        id_, _, views = (part.strip() for part in line.partition("\t"))
        if not line.strip() or line.startswith("#"):
            continue
        if not (id_[:1] == "Q" and id_[1:].isdecimal() and views.isdecimal()):
            faults.add(path, number, f"expected Q42, a tab and a number of page views, found {line.strip()[:60]!r}")
        elif int(id_[1:]) in views_by_id:
            faults.add(path, number, f"{id_} stands here for the second time")
        else:
            views_by_id[int(id_[1:])] = int(views)
    faults.stop_if_any()
    if not views_by_id:
        raise BadInput(f"{path}: no page views in it: expected lines of Q42, a tab and a number")
    return views_by_id
