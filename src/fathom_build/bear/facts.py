"""Facts and entities on disk while a probe is built, so that memory does not grow with the dump."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fathom.base.errors import BadInput, refuse
from fathom_build.bear.entities import (
    INSTANCE_OF,
    SUBCLASS_OF,
    UNKNOWN,
    Entity,
    Numbers,
    Statement,
    StatementState,
    WantedStatements,
)
from fathom_build.bear.plan import BearPlan
from fathom_build.bear.sources import WikidataSource
from fathom_build.sheets import read_pairs

_BATCH = 10_000
EXAMPLES = 20
"""Examples that the log has of each kind of what is left out."""
_SCHEMA, _ROWS, _SUBJECTS, _BELOW = (
    (Path(__file__).parent / "queries" / f"{name}.sql").read_text(encoding="utf-8")
    for name in ("schema", "rows", "subjects", "below")
)


class FactRow(NamedTuple):
    """A fact with what is known of its two ends; a label is None where the entity is not in the data.

    :param types: numbers of the classes it is an instance of, separated by blanks.
    :param answers: objects that the subject has in all, an unknown one included.
    :param least: number of the first of them: 0 where one is unknown.
    :param place: of the object among them by popularity, from 1.
    """

    subject: int
    subject_label: str | None
    subject_popularity: int
    subject_types: str | None
    object: int
    object_label: str | None
    object_popularity: int
    object_types: str | None
    object_aliases: str | None
    valid_from: str
    valid_until: str
    answers: int
    least: int
    place: int


class FactStore:
    """:param file: of the database, which must not be there.
    :param views: popularity by entity, instead of the number of Wikipedias.
    """

    def __init__(self, file: Path, views: Mapping[int, int] | None = None) -> None:
        self._base = sqlite3.connect(file, isolation_level=None)
        self._base.executescript(_SCHEMA)
        self._views = views
        self.stored = Numbers()
        self.needed = Numbers()
        self.states: Counter[tuple[str, StatementState]] = Counter()
        self.examples: dict[tuple[str, StatementState], list[str]] = {}

    def close(self) -> None:
        """Close the file."""
        self._base.close()

    def fill(self, entities: Iterable[Entity], relations: frozenset[str]) -> None:
        """Keep entities, their facts and classes.

        :param relations: properties whose statements are facts.
        """
        batch: list[Entity] = []
        for entity in entities:
            batch.append(entity)
            for claim in entity.claims:
                if claim.property in relations:
                    self._count(entity, claim)
            if len(batch) >= _BATCH:
                self._write(batch, relations)
                batch = []
        self._write(batch, relations)

    def _count(self, entity: Entity, claim: Statement) -> None:
        kind = (claim.property, claim.state)
        self.states[kind] += 1
        if claim.state:
            kept = self.examples.setdefault(kind, [])
            if len(kept) < EXAMPLES:
                kept.append(f"{entity.label or f'Q{entity.number}'} → Q{claim.object}")
        elif claim.object != UNKNOWN:
            self.needed.add(claim.object)

    def _write(self, batch: list[Entity], relations: frozenset[str]) -> None:
        counting = [(entity.number, claim) for entity in batch for claim in entity.claims if not claim.state]
        facts = [
            (claim.property, number, claim.object, claim.valid_from, claim.valid_until)
            for number, claim in counting
            if claim.property in relations
        ]
        classes = [(number, claim.object) for number, claim in counting if claim.property == SUBCLASS_OF]
        self._base.execute("BEGIN")
        self._base.executemany("INSERT OR REPLACE INTO entity VALUES (?, ?, ?, ?, ?)", map(self._row, batch))
        self._base.executemany("INSERT INTO fact VALUES (?, ?, ?, ?, ?)", facts)
        self._base.executemany("INSERT INTO subclass VALUES (?, ?)", classes)
        self._base.execute("COMMIT")

    def _row(self, entity: Entity) -> tuple[int, str, str, int, str]:
        self.stored.add(entity.number)
        types = [claim.object for claim in entity.claims if claim.property == INSTANCE_OF and not claim.state]
        popularity = entity.links if self._views is None else self._views.get(entity.number, 0)
        aliases = json.dumps(entity.aliases, ensure_ascii=False) if entity.aliases else ""
        return entity.number, entity.label, aliases, popularity, " ".join(map(str, types))

    def lacking(self) -> Numbers:
        """Return objects of facts that have not been seen as entities yet."""
        for (number,) in self._base.execute("SELECT DISTINCT object FROM fact"):
            if number in self.stored:
                self.needed.discard(number)
        return self.needed

    def finish(self) -> None:
        """Make it quick to ask; call it once all is in."""
        self._base.execute("CREATE INDEX fact_of ON fact (property, subject, object, valid_from, valid_until)")
        self._base.execute("CREATE INDEX class_above ON subclass (above, below)")
        self._base.execute("CREATE INDEX class_below ON subclass (below, above)")

    def rows(self, property_: str) -> Iterator[FactRow]:
        """Yield the facts of a relation by object, those of the most popular subjects first."""
        return map(FactRow._make, self._base.execute(_ROWS, {"property": property_}))

    def count(self, property_: str) -> tuple[int, int]:
        """Count the facts of a relation, and those with an unknown answer."""
        facts = "SELECT DISTINCT subject, object FROM fact WHERE property = ?"
        row = self._base.execute(f"SELECT COUNT(*), SUM(object = 0) FROM ({facts})", (property_,)).fetchone()
        return int(row[0]), int(row[1] or 0)

    def subjects(self, property_: str) -> tuple[int, int]:
        """Count the subjects of a relation, and those with several answers."""
        row = self._base.execute(_SUBJECTS, (property_,)).fetchone()
        return int(row[0]), int(row[1] or 0)

    def objects(self, property_: str, subject: int) -> set[int]:
        """Return all right answers to one question."""
        query = "SELECT DISTINCT object FROM fact WHERE property = ? AND subject = ?"
        return {number for (number,) in self._base.execute(query, (property_, subject))}

    def below(self, classes: Iterable[int]) -> frozenset[int]:
        """Return these classes and all below them."""
        values = ", ".join(f"({int(number)})" for number in classes)
        return frozenset(number for (number,) in self._base.execute(_BELOW.format(values))) if values else frozenset()

    def above(self, class_: int) -> list[int]:
        """Return the direct superclasses of a class."""
        rows = self._base.execute("SELECT DISTINCT above FROM subclass WHERE below = ? ORDER BY above", (class_,))
        return [number for (number,) in rows]

    def label(self, number: int) -> str:
        """Return an entity's label, its id without one."""
        row = self._base.execute("SELECT label FROM entity WHERE id = ?", (number,)).fetchone()
        return row[0] if row and row[0] else f"Q{number}"

    def aliases(self, number: int) -> list[str]:
        """Return the other names of an entity."""
        row = self._base.execute("SELECT aliases FROM entity WHERE id = ?", (number,)).fetchone()
        return json.loads(row[0]) if row and row[0] else []


def wanted_of(plan: BearPlan) -> WantedStatements:
    """Return what to read of each entity."""
    ended = {one.property for one in plan.relations if (plan.ended if one.ended is None else one.ended)}
    wanted = frozenset({*plan.properties, INSTANCE_OF, SUBCLASS_OF})
    return WantedStatements(wanted, plan.language, frozenset(ended), plan.as_of)


def gather(sources: Sequence[WikidataSource], store: FactStore, plan: BearPlan) -> None:
    """Store all facts of the plan's relations, and what is known of their subjects and objects.

    :raises BadInput: what is wrong with the sources, and relations of which none has a statement.
    """
    relations = frozenset(plan.properties)
    for source in sources:
        store.fill(source.facts(), relations)
    _check_found(sources, store, plan)
    for source in sources:
        store.fill(source.named(store.lacking()), frozenset())
    store.finish()


def _check_found(sources: Sequence[WikidataSource], store: FactStore, plan: BearPlan) -> None:
    faults = []
    where = ", ".join(source.name for source in sources)
    for property_ in plan.properties:
        states = {state: count for (of, state), count in store.states.items() if of == property_}
        if not states:
            faults.append(f"relation {property_}: no statement of it in {where}: check the property, or leave it out")
        elif not store.count(property_)[0]:
            states_text = ", ".join(f"{count:,} {state}" for state, count in states.items())
            faults.append(
                f"relation {property_}: none of its statements in {where} counts ({states_text}): leave it out"
            )
    refuse(faults)


def read_views(path: Path | None) -> Mapping[int, int] | None:
    """Read page views: on each line an entity's id, a tab, and a number.

    :raises BadInput: every line that is not so.
    """
    if path is None:
        return None
    views = read_pairs(
        path,
        "Q42, a tab and a number of page views",
        lambda id_, views: (
            (int(id_[1:]), int(views)) if id_[:1] == "Q" and id_[1:].isdecimal() and views.isdecimal() else None
        ),
    )
    if not views:
        raise BadInput(f"{path}: no page views in it: expected lines of Q42, a tab and a number")
    return views
