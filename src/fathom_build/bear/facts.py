"""The pool of a relation: facts on disk that meet every constraint on a fact alone, the most popular of each answer.

Only as many facts are held as a balanced choice can need: memory does not grow with the dump.
"""

from __future__ import annotations

import heapq
import json
import re
import sqlite3
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import NamedTuple

from fathom.base.errors import BadInput, optional, refuse
from fathom.base.reading import Json
from fathom_build.bear.entities import INSTANCE_OF, SUBCLASS_OF, UNKNOWN, Entity, Numbers, Statement, WantedStatements
from fathom_build.bear.plan import BearPlan, RelationPlan
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
        self.statements = Log()
        """Those of facts, by property and why they do not count, "" for those that do."""

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
        example = f"{entity.label or f'Q{entity.number}'} → Q{claim.object}" if claim.state else ""
        self.statements.drop(claim.property, claim.state.value, example)
        if not claim.state and claim.object != UNKNOWN:
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
    ended = {
        relation.property for relation in plan.relations if (plan.ended if relation.ended is None else relation.ended)
    }
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
        states = store.statements.counts_of(property_)
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


FUZZY = 95
"""RapidFuzz's ``partial_ratio`` from which names are alike."""
SHORTEST = 4
"""Characters that another name, or the shorter of two alike ones, must have."""
_WORD = re.compile(r"\w+")
_UNINFORMATIVE = frozenset((Path(__file__).parent / "uninformative.txt").read_text(encoding="utf-8").split())
"""Articles, prepositions and legal forms, which unrelated names share."""


@lru_cache(maxsize=1 << 16)
def words(name: str) -> tuple[str, ...]:
    """Split a name into words, without case and accents: "São Paulo" → ("sao", "paulo")."""
    plain = unicodedata.normalize("NFKD", name)
    return tuple(_WORD.findall("".join(sign for sign in plain if not unicodedata.combining(sign)).casefold()))


def telling(name: str) -> frozenset[str]:
    """Return the words of a name that say something of what it names; all if none does."""
    all_words = frozenset(words(name))
    return all_words - _UNINFORMATIVE or all_words


def contains(longer: Sequence[str], shorter: Sequence[str]) -> bool:
    """Return whether some words stand among others, in a row and as a whole."""
    size = len(shorter)
    return 0 < size <= len(longer) and any(longer[at : at + size] == shorter for at in range(len(longer) - size + 1))


def revealing(subject: str, answer: str, aliases: Sequence[str]) -> bool:
    """Return whether the subject's name gives the answer away.

    They share a word, it contains the answer or one of its *aliases*, or the best match of the shorter name within the
    longer is alike (RapidFuzz's ``partial_ratio``, without case and accents).

    :raises MissingExtra: RapidFuzz is not installed.
    """
    names = (answer, *(alias for alias in aliases if len(alias) >= SHORTEST))
    if telling(subject) & telling(answer) or any(contains(words(subject), words(name)) for name in names):
        return True
    if min(len(subject), len(answer)) < SHORTEST:
        return False
    partial_ratio = optional("rapidfuzz.fuzz", "text").partial_ratio
    return bool(partial_ratio(" ".join(words(subject)), " ".join(words(answer)), score_cutoff=FUZZY))


def overlapping(names: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield places (shorter, longer) of names that equal or contain each other: Guinea and Equatorial Guinea."""
    split = [words(name) for name in names]
    by_word: dict[str, list[int]] = defaultdict(list)
    for place, parts in enumerate(split):
        for word in dict.fromkeys(parts):
            by_word[word].append(place)
    for place, parts in enumerate(split):
        if parts:
            rarest = min(parts, key=lambda word: len(by_word[word]))
            for longer in by_word[rarest]:
                same = split[longer] == parts
                if (longer > place if same else longer != place) and contains(split[longer], parts):
                    yield place, longer


class Log:
    """What was left out of each relation, with examples."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self._examples: dict[tuple[str, str], list[str]] = {}
        self._said: dict[tuple[str, str], Json] = {}

    def drop(self, relation: str, why: str, example: str = "", count: int = 1) -> None:
        """Record that something of a relation is left out."""
        if not count:
            return
        self.counts[relation, why] += count
        kept = self._examples.setdefault((relation, why), [])
        if example and len(kept) < EXAMPLES:
            kept.append(example)

    def say(self, relation: str, what: str, **more: object) -> None:
        """Record something else for the reader, such as the configuration that was chosen."""
        self._said[relation, what] = more

    def counts_of(self, relation: str) -> dict[str, int]:
        """Count what is left out of a relation, by reason."""
        return {why: count for (where, why), count in self.counts.items() if where == relation}

    def lines(self) -> Iterator[Json]:
        """Yield the lines of the log, one for each relation and reason."""
        for (relation, why), count in self.counts.items():
            examples = self._examples.get((relation, why), [])
            yield {"relation": relation, "left_out": count, "why": why, "examples": examples}
        for (relation, what), more in self._said.items():
            yield {"relation": relation, "said": what, **more}


SPARE = 4
"""How many times the instances and answers are held that a variant can take: names may overlap, answers be reviewed."""
NOT_THERE = "subject or answer is not in the data"
NO_LABEL = "subject or answer has no label in the language"
WRONG_TYPE = "subject or answer is of another type"
SEVERAL = "subject has several right answers"
NOT_CHOSEN = "another right answer of the subject is more popular"
NOT_KNOWN = "answer is an unknown value"
INCOMPLETE = "list of answers is incomplete: another is an unknown value"
REVEALING = "subject's name gives the answer away"
ITSELF = "subject and answer are the same"
REVIEWED = "left out by the review"
UNPOPULAR = "less popular than what is needed"
SAME_NAME = "another subject of the relation has the name"
LEFT_OVER = "less popular than the instances taken"


class Instance(NamedTuple):
    """A fact that can be asked.

    :param also: other right answers of the subject.
    """

    subject: int
    name: str
    popularity: int
    valid_from: str
    valid_until: str
    also: frozenset[int] = frozenset()


class Answer(NamedTuple):
    """:param instances: the most popular first."""

    number: int
    name: str
    popularity: int
    types: tuple[int, ...]
    instances: list[Instance]

    def value(self, instances: int | None = None) -> float:
        """Return the preference for an answer: the median popularity of its instances, or of the first of them."""
        return median(instance.popularity for instance in self.instances[:instances])


class FactPool(NamedTuple):
    """:param facts: of the relation in the data, before any filter.
    :param answers: the most preferred first.
    """

    relation: RelationPlan
    facts: int
    answers: list[Answer]


def pool_of(store: FactStore, relation: RelationPlan, plan: BearPlan, dropped: frozenset[int], log: Log) -> FactPool:
    """Return the facts of a relation that can be evaluated.

    :param dropped: numbers of subjects and answers that a reviewer has left out.
    """
    filters = _Filters(store, relation, plan, dropped, log)
    most = max(limits.most_per_answer for limits in plan.variants().values()) * SPARE
    widest = max(max(limits.most_answers, limits.one_to_one) for limits in plan.variants().values()) * SPARE
    least = min(limits.least_per_answer for limits in plan.variants().values())
    many, single = _Best(widest), _Best(widest)
    for number, rows in groupby(store.rows(relation.property), key=lambda row: row.object):
        if (answer := filters.answer(number, rows, most)) is not None:
            gone = (many if len(answer.instances) >= least else single).offer(answer)
            log.drop(relation.property, UNPOPULAR, count=len(gone.instances) if gone is not None else 0)
    facts, unknown = store.count(relation.property)
    log.drop(relation.property, NOT_KNOWN, count=unknown)
    return FactPool(relation, facts, _without_same_names(many.kept() + single.kept(), relation, log))


class _Best:
    """The most preferred of a stream of answers."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._heap: list[tuple[float, int, Answer]] = []

    def offer(self, answer: Answer) -> Answer | None:
        """Add the next answer. :returns: the one that is dropped, if any."""
        entry = (answer.value(), -answer.number, answer)
        if len(self._heap) < self._most:
            heapq.heappush(self._heap, entry)
            return None
        return heapq.heappushpop(self._heap, entry)[2]

    def kept(self) -> list[Answer]:
        return [answer for *_, answer in sorted(self._heap, reverse=True)]


class _Filters:
    """Conditions that each fact must meet on its own."""

    def __init__(
        self, store: FactStore, relation: RelationPlan, plan: BearPlan, dropped: frozenset[int], log: Log
    ) -> None:
        self._store, self._relation, self._plan, self._dropped, self._log = store, relation, plan, dropped, log
        self._several = relation.several or plan.several
        self._subject_types = store.below(int(id_[1:]) for id_ in relation.subject_types)
        self._object_types = store.below(int(id_[1:]) for id_ in relation.object_types)

    def answer(self, number: int, rows: Iterator[FactRow], most: int) -> Answer | None:
        """Return an answer with its most popular instances; None if none is left."""
        kept: list[Instance] = []
        first: FactRow | None = None
        for row in rows:
            if why := self._why_not(row):
                example = f"{row.subject_label or f'Q{row.subject}'} → {row.object_label or f'Q{row.object}'}"
                self._log.drop(self._relation.property, why, example)
            elif len(kept) < most:
                first = row
                kept.append(self._instance(row))
            else:
                self._log.drop(self._relation.property, UNPOPULAR)
        if first is None:
            return None
        types = tuple(map(int, (first.object_types or "").split()))
        return Answer(number, first.object_label or "", first.object_popularity, types, kept)

    def _instance(self, row: FactRow) -> Instance:
        has_others = row.answers > 1 and self._several == "chosen"
        also = self._store.objects(self._relation.property, row.subject) - {row.object} if has_others else ()
        about = row.subject_label or "", row.subject_popularity, row.valid_from, row.valid_until
        return Instance(row.subject, *about, frozenset(also))

    def _why_not(self, row: FactRow) -> str:
        if row.subject_label is None or row.object_label is None:
            return NOT_THERE
        if not words(row.subject_label) or not words(row.object_label):
            return NO_LABEL
        if not (_is_of(row.subject_types, self._subject_types) and _is_of(row.object_types, self._object_types)):
            return WRONG_TYPE
        aliases = json.loads(row.object_aliases) if row.object_aliases else ()
        reasons = {
            INCOMPLETE: row.least == UNKNOWN,
            SEVERAL: row.answers > 1 and self._several == "filtered",
            NOT_CHOSEN: row.place > 1 and self._several == "chosen",
            ITSELF: row.subject == row.object,
            REVIEWED: not self._dropped.isdisjoint((row.subject, row.object)),
        }
        why = next((reason for reason, applies in reasons.items() if applies), "")
        return why or (REVEALING if revealing(row.subject_label, row.object_label, aliases) else "")


def _is_of(types: str | None, allowed: frozenset[int]) -> bool:
    return not allowed or any(int(type_) in allowed for type_ in (types or "").split())


def _without_same_names(answers: list[Answer], relation: RelationPlan, log: Log) -> list[Answer]:
    """Keep the most popular subject of each name. The answers of one subject are not two subjects."""
    first: dict[tuple[str, ...], tuple[int, int]] = {}
    for answer in answers:
        for instance in answer.instances:
            mine = (-instance.popularity, instance.subject)
            first[words(instance.name)] = min(mine, first.get(words(instance.name), mine))
    distinct = []
    for answer in answers:
        kept = [instance for instance in answer.instances if first[words(instance.name)][1] == instance.subject]
        for instance in answer.instances:
            if first[words(instance.name)][1] != instance.subject:
                log.drop(relation.property, SAME_NAME, f"{instance.name} (Q{instance.subject})")
        if kept:
            distinct.append(answer._replace(instances=kept))
    return distinct
