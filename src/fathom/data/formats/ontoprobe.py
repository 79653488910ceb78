"""The folder format of OntoProbe (Wu et al., *Do PLMs Know and Understand Ontological Knowledge?*, ACL 2023).

As in the reference code, hyphens, brackets and slashes in names become spaces, and a test has at most 500 items. Unlike
it, the letters after the first of an instance's name keep their case: "Little League", not "Little league".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from fathom.base.reading import Faults, Json, read_json, read_json_lines, resolve_packed, short_place, stands
from fathom.data.formats.base import Draft, Format, texts_of, unscored_unless
from fathom.data.hierarchy import distances
from fathom.data.knowledge import consecutive
from fathom.data.prompts.ontology import (
    CLASSES,
    HIERARCHIES,
    ONE_OF,
    PROPERTIES,
    TASKS,
    TEMPLATES,
    domain_sentence,
    range_sentence,
)
from fathom.data.queries import CandidateSet, Query, QuerySet, Relation, cardinality_of
from fathom.data.templates import ANSWER, SUBJECT, Sentence, Template
from fathom.store.files import write_json, write_json_lines

SPLIT_SIZES = {"train": 10, "dev": 10, "test": 500}
"""Items of a task, in the order of its file."""
LEAST_ITEMS = SPLIT_SIZES["train"] + SPLIT_SIZES["dev"] + 1
"""With fewer, nothing is left to test on what the others have taught."""
CLASS_FILE, PROPERTY_FILE = Path("ontology/class.json"), Path("ontology/property.json")
OF_PROPERTIES = ("domain", "range", "subPropertyOf")
"""Tasks whose items ask about properties."""
MEMORIZING = "memorizing"
"""Folder of the tasks."""
MANIFEST = "manifest.json"
"""In a folder that Fathom built, and not in the published one, whose numbers are of the subset ``test``."""

_SPACES = str.maketrans(dict.fromkeys("-()/", " "))


class OntologyClass(NamedTuple):
    """:param superclasses: labels, nearest first. :param instances: names of some."""

    iri: str
    label: str
    superclasses: tuple[str, ...]
    instances: tuple[str, ...]


class OntologyProperty(NamedTuple):
    """:param iris: of all vocabularies that have it.
    :param domains: labels of the classes that are right answers, most often one; so *ranges*.
    :param superproperties: sentence patterns by label, nearest first.
    :param one_of: "domain" and "range" where they are alternatives (a union): no class by itself follows.
    """

    iris: tuple[str, ...]
    label: str
    domains: tuple[str, ...]
    ranges: tuple[str, ...]
    superproperties: Mapping[str, str]
    pattern: str
    one_of: tuple[str, ...] = ()


class _TaskItem(NamedTuple):
    """A line of a task. :param pattern: of a property, "" of a class or an instance."""

    line: int
    subject: str
    pattern: str
    gold: tuple[str, ...]


def is_ontoprobe(path: Path) -> bool:
    """Return whether a folder has classes and memorising tasks."""
    return stands(path / CLASS_FILE) and (path / MEMORIZING).is_dir()


def _read(path: Path, faults: Faults) -> QuerySet | None:
    spaces = {CLASSES: _space(CLASSES, _class_labels(path / CLASS_FILE, faults))}
    listed = list(_entries(path / PROPERTY_FILE, faults))
    spaces[PROPERTIES] = _space(PROPERTIES, _property_labels(path / PROPERTY_FILE, listed, faults))
    one_of = {entry["rdfs:label"]: texts_of(entry.get("one_of")) for _, entry in listed}
    items = {task: list(_items(_task_file(path, task), faults)) for task in TASKS}
    above = {space: {clean(item.subject): item.gold for item in items[task]} for space, task in HIERARCHIES.items()}
    draft = Draft(path, faults)
    subsets: dict[str, frozenset[str]] = dict.fromkeys(SPLIT_SIZES, frozenset())
    for task, members in items.items():
        if not members:
            continue
        file = _task_file(path, task)
        space = spaces[PROPERTIES if task == "subPropertyOf" else CLASSES]
        cardinality = cardinality_of(gold for item in members for gold in item.gold)
        relation = Relation(task, task, tuple(map(Template, TEMPLATES[task])), cardinality)
        side = {"domain": "range", "range": "domain"}.get(task)
        other_side = {item.subject: item.gold[0] for item in items[side]} if side else {}
        queries = [
            replace(_marked(query, one_of.get(query.subject_id)), distances=distances(query.gold, above[space.name]))
            for query in _queries(file, relation, space, members, other_side, faults)
        ]
        for split, part in consecutive(SPLIT_SIZES).items():
            subsets[split] |= {query.id for query in queries[part.start : part.stop]}
        _note_odd_items(file, members, faults)
        draft.add(relation, space, queries)
    of_properties = next((task for task in OF_PROPERTIES if items[task]), None)
    if of_properties is not None and not len(spaces[PROPERTIES]):
        faults.add(path / PROPERTY_FILE, None, f"lists no property, but {of_properties}.jsonl asks about some")
    if not draft.queries and not faults.found:
        faults.add(path / MEMORIZING, None, f"no items: expected {', '.join(f'{task}.jsonl' for task in TASKS)}")
    draft.candidates = {name: space for name, space in spaces.items() if name in draft.candidates}
    usual = "" if stands(path / MANIFEST) else "test"
    return draft.queryset(path.resolve().name, subsets=subsets, usual=usual)


def write_ontoprobe(
    folder: Path,
    classes: Sequence[OntologyClass],
    properties: Sequence[OntologyProperty],
    by_default: Collection[str],
    tasks: Mapping[str, Iterable[Json]],
) -> None:
    """Write an ontology and its memorising tasks into a folder that exists.

    :param by_default: labels of properties whose sentence pattern is the default one.
    :param tasks: lines of each task (:func:`task_lines`), in the order in which they are asked.
    """
    write_json(
        folder / CLASS_FILE,
        [
            {
                "id": number,
                "rdfs:Class": class_.iri,
                "rdfs:label": class_.label,
                "rdfs:subClassOf": list(class_.superclasses),
                "is rdf:type of": list(class_.instances),
            }
            for number, class_ in enumerate(classes)
        ],
    )
    write_json(
        folder / PROPERTY_FILE,
        [
            {
                "id": number,
                "rdf:Property": list(property_.iris),
                "rdfs:label": property_.label,
                "rdfs:domain": _one_or_all(property_.domains),
                "rdf:range": _one_or_all(property_.ranges),  # the published file spells it so
                "rdfs:subPropertyOf": dict(property_.superproperties),
                "pattern": property_.pattern,
                "pattern_is_default": property_.label in by_default,
                "one_of": list(property_.one_of),
            }
            for number, property_ in enumerate(properties)
        ],
    )
    (folder / MEMORIZING).mkdir()
    for task, rows in tasks.items():
        write_json_lines(_task_file(folder, task), rows)


def _one_or_all(sides: Sequence[str]) -> str | list[str] | None:
    return sides[0] if len(sides) == 1 else list(sides) or None


def task_lines(classes: Sequence[OntologyClass], properties: Sequence[OntologyProperty]) -> dict[str, list[Json]]:
    """Make the lines of all tasks: ``uuu`` is the subject, ``xxx`` the gold answers."""
    # Each name once with the classes of all its bearers, finest first: no gold answer counts as wrong.
    golds: dict[str, dict[str, None]] = {}
    written: dict[str, str] = {}
    for class_ in classes:
        for name in class_.instances:
            written.setdefault(clean(name), name)
            golds.setdefault(clean(name), {}).update(dict.fromkeys((class_.label, *class_.superclasses)))
    patterns = {entry.label: {entry.label: entry.pattern} for entry in properties}
    by_property = [(patterns[entry.label], entry) for entry in properties]
    items: dict[str, Iterable[tuple[Any, Any]]] = {
        "type": ((written[name], list(gold)) for name, gold in golds.items()),
        "subClassOf": [(entry.label, list(entry.superclasses)) for entry in classes],
        "subPropertyOf": [(subject, dict(entry.superproperties)) for subject, entry in by_property],
        "domain": [(subject, list(entry.domains)) for subject, entry in by_property],
        "range": [(subject, list(entry.ranges)) for subject, entry in by_property],
    }
    return {task: [{"uuu": subject, "xxx": gold} for subject, gold in pairs if gold] for task, pairs in items.items()}


def read_shape(folder: Path) -> tuple[list[OntologyClass], list[OntologyProperty]]:
    """Read classes and properties, with cleaned names, of a folder that was read without faults."""

    def names(value: str | Iterable[str] | None) -> tuple[str, ...]:
        return tuple(dict.fromkeys(map(clean, [value] if isinstance(value, str) else value or ())))

    classes = [
        OntologyClass(
            "", clean(entry["rdfs:label"]), names(entry.get("rdfs:subClassOf")), names(entry.get("is rdf:type of"))
        )
        for _, entry in _entries(folder / CLASS_FILE, Faults())
    ]
    properties = [
        OntologyProperty(
            *((), clean(entry["rdfs:label"]), names(entry.get("rdfs:domain")), names(entry.get("rdf:range"))),
            *(dict.fromkeys(names(entry.get("rdfs:subPropertyOf")), ""), "", names(entry.get("one_of"))),
        )
        for _, entry in _entries(folder / PROPERTY_FILE, Faults())
    ]
    return classes, properties


def clean(name: str) -> str:
    """Return "Women's club 1890 1914" for "Women's club (1890-1914)", as the reference code words and ranks names."""
    return " ".join(name.translate(_SPACES).split())


def has_words(name: str) -> bool:
    """Return whether a name has a letter or a digit; punctuation alone says nothing to a tokenizer."""
    return any(sign.isalnum() for sign in name)


def read_patterns(folder: Path) -> dict[str, dict[str, str]]:
    """Return sentence patterns, such as "[X]'s mother is [Y] .", by task and property.

    In a folder built by Fathom, those of properties in axioms alone are under "property".

    :raises BadInput: a property in a task without one.
    """
    faults = Faults()
    patterns: dict[str, dict[str, str]] = {}
    for task in OF_PROPERTIES:
        file = _task_file(folder, task)
        for line, row in read_json_lines(file, {}, faults) if stands(file) else ():
            sides = [side for side in (row.get("uuu"), row.get("xxx")) if isinstance(side, dict)]
            for label, pattern in (pair for side in sides for pair in side.items()):
                if SUBJECT not in str(pattern) or ANSWER not in str(pattern):
                    faults.add(file, line, f"{label!r} has no pattern with {SUBJECT} and {ANSWER}, found {pattern!r}")
                patterns.setdefault(task, {})[clean(label)] = str(pattern)
    in_tasks = {label for of_task in patterns.values() for label in of_task}
    entries = _entries(folder / PROPERTY_FILE, faults) if stands(folder / PROPERTY_FILE) else ()
    for label, entry in ((clean(entry["rdfs:label"]), entry) for _, entry in entries):
        pattern = str(entry.get("pattern"))
        if "pattern_is_default" in entry and label not in in_tasks and SUBJECT in pattern and ANSWER in pattern:
            patterns.setdefault("property", {})[label] = pattern
    faults.stop_if_any()
    return patterns


def _class_labels(file: Path, faults: Faults) -> Iterator[str]:
    """Yield classes and super-classes of ``class.json``; invalid entries become faults."""
    for number, entry in _entries(file, faults):
        superclasses, instances = entry.get("rdfs:subClassOf") or [], entry.get("is rdf:type of") or []
        if texts_of(superclasses) is None or texts_of(instances) is None:
            faults.add(file, None, f"entry {number}: 'rdfs:subClassOf' and 'is rdf:type of' must be lists of texts")
        else:
            yield from (entry["rdfs:label"], *superclasses)


def _property_labels(file: Path, entries: Iterable[tuple[int, Json]], faults: Faults) -> Iterator[str]:
    """Yield properties and super-properties of ``property.json``; invalid entries become faults."""
    for number, entry in entries:
        iris, supers = entry.get("rdf:Property") or [], entry.get("rdfs:subPropertyOf") or {}
        if not isinstance(supers, dict) or texts_of(list(supers.values())) is None or not isinstance(iris, str | list):
            faults.add(file, None, f"entry {number}: 'rdfs:subPropertyOf' must be an object of patterns by label")
        else:
            yield from (entry["rdfs:label"], *supers)


def _marked(query: Query, sides: Sequence[str] | None) -> Query:
    """Mark a domain or range that is one of several classes; with unknown *sides*, several classes are alternatives."""
    if query.relation not in ("domain", "range"):
        return query
    is_one_of = len(query.gold) > 1 if sides is None else query.relation in sides
    return replace(query, groups={**query.groups, ONE_OF: "yes"}) if is_one_of else query


def _entries(file: Path, faults: Faults) -> Iterator[tuple[int, Json]]:
    content = read_json(file, faults)
    if not isinstance(content, list | None):
        faults.add(file, 1, "expected a list of objects with 'rdfs:label'")
    for number, entry in enumerate(content if isinstance(content, list) else ()):
        if isinstance(entry, dict) and isinstance(entry.get("rdfs:label"), str):
            yield number, entry
        else:
            faults.add(file, None, f"entry {number}: expected an object with 'rdfs:label', found {str(entry)[:40]}")


def _space(name: str, labels: Iterator[str]) -> CandidateSet:
    """Return a candidate set whose labels are their own ids, since the tasks' gold answers are labels."""
    names = tuple(dict.fromkeys(cleaned for label in labels if has_words(cleaned := clean(label))))
    return CandidateSet(name, names, names)


def _task_file(folder: Path, task: str) -> Path:
    return resolve_packed(folder / MEMORIZING / f"{task}.jsonl")


def _items(file: Path, faults: Faults) -> Iterator[_TaskItem]:
    if not stands(file):
        faults.note(file, None, "file is missing: the task is left out")
        return
    for line, row in read_json_lines(file, {}, faults):
        subject, pattern = _named(row.get("uuu"))
        gold = texts_of(list(row["xxx"]) if isinstance(row.get("xxx"), dict) else row.get("xxx"))
        if subject is None or not gold:
            expected = '{"uuu": "text" or {"label": "pattern"}, "xxx": ["text", …] or {"label": "pattern", …}}'
            faults.add(file, line, f"expected {expected}, found {str(row)[:60]}")
        else:
            yield _TaskItem(line, subject, pattern, tuple(dict.fromkeys(map(clean, gold))))


def _named(asked: object) -> tuple[str | None, str]:
    """Return (label, sentence pattern); no label if it is neither a text nor one property."""
    if isinstance(asked, str):
        return asked, ""
    if isinstance(asked, dict) and len(asked) == 1 and texts_of(list(asked.values())):
        return next(iter(asked.items()))
    return None, ""


def _queries(
    file: Path,
    relation: Relation,
    space: CandidateSet,
    items: Sequence[_TaskItem],
    other_side: Mapping[str, str],
    faults: Faults,
) -> Iterator[Query]:
    """:param other_side: of tasks domain and range, the range or domain of each property."""
    for number, item in enumerate(items):
        missing = [gold for gold in item.gold if gold not in space.position]
        if missing:
            faults.add(file, item.line, f"gold answer {missing[0]!r} is none of the {len(space)} {space.name}")
        else:
            yield Query(
                id=f"{relation.id}/{number}",
                relation=relation.id,
                subject=clean(item.subject),
                subject_id=item.subject,
                gold=item.gold,
                candidates=space.name,
                groups={"cardinality": relation.cardinality, "answers": str(len(item.gold))},
                unscored=unscored_unless(
                    has_words(item.subject), file, item.line, f"{item.subject!r} has no letter or digit", faults
                ),
                sentences=_sentences(file, relation.id, item, other_side.get(item.subject), faults),
                place=short_place(file, item.line),
            )


def _sentences(file: Path, task: str, item: _TaskItem, other_side: str | None, faults: Faults) -> tuple[Sentence, ...]:
    if task not in ("domain", "range"):
        return ()
    if SUBJECT not in item.pattern or item.pattern.count(ANSWER) != 1:
        faults.add(file, item.line, f"pattern {item.pattern!r}: expected {SUBJECT} and once {ANSWER}")
        return ()
    return (Sentence((domain_sentence if task == "domain" else range_sentence)(item.pattern, other_side)),)


def _note_odd_items(file: Path, items: Sequence[_TaskItem], faults: Faults) -> None:
    if len(items) < LEAST_ITEMS:
        few = f"{len(items)} items: with fewer than {LEAST_ITEMS} none is left for the subset test"
        faults.note(file, None, f"{few}, on which templates learnt from train and dev are tested (or --cross-validate)")
    repeated = len(items) - len({item.subject for item in items})
    if repeated:
        message = "items ask about a name asked before: there the other's answers count as wrong"
        faults.note(file, None, f"{repeated} {message}")


FORMAT = Format("ontoprobe", f"{CLASS_FILE} and {MEMORIZING} (OntoProbe)", is_ontoprobe, _read)
