"""The folder format of BEAR and BEAR-big (Wiland et al. 2024), see docs/data-format.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fathom.base.reading import Faults, Json, line_of, read_json_lines, short_place, shown, stands
from fathom.data.formats.base import (
    Draft,
    Format,
    check_answer_space,
    check_templates,
    read_object,
    texts_of,
    unscored_unless,
)
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.queries import POPULARITY, CandidateSet, Query, QuerySet, Relation, cardinality_of
from fathom.data.templates import Template
from fathom.store.files import write_json, write_json_lines

METADATA, DOMAINS, LITE = "metadata_relations.json", "relation_info.json", "bear_lite_indices.json"
DATES, UNKNOWN = ("valid_from", "valid_until"), "unknown"
"""Optional years of a fact, written by ``fathom build bear``."""
POPULARITIES = (POPULARITY, "answer_popularity")
"""Optional numbers of subject and answer."""
_FIELDS: dict[str, type] = {"sub_id": str, "sub_label": str, "obj_id": str, "obj_label": str}


def _read(path: Path, faults: Faults) -> QuerySet | None:
    metadata = read_object(path / METADATA, faults, '{"P36": {"templates": […], …}, …}', dict)
    domains = _sibling(path, DOMAINS, faults)
    draft = Draft(path, faults)
    names: dict[str, str] = {}
    aliases: dict[str, list[str]] = {}
    for id_, entry in metadata.items():
        about_relation = domains.get(id_)
        stated = about_relation.get("domains") if isinstance(about_relation, dict) else None
        own_domains = tuple(map(str, stated)) if isinstance(stated, list) else ()
        if rows := _add_relation(draft, id_, entry, own_domains):
            names |= {row["sub_id"]: row["sub_label"] for row in rows}
            aliases |= {row["sub_id"]: row.get("sub_aliases") or [] for row in rows}
            names.update(draft.candidates[id_].named())
    return draft.queryset(
        path.name,
        lambda: KnowledgeGraph.from_triples(draft.triples(), names, aliases),
        nothing="no relation with instances: nothing to ask",
        licence="CC BY-SA (as stated in the paper)",
        subsets=_lite(path, metadata, draft.queries, faults),
    )


def _add_relation(draft: Draft, id_: str, entry: Json, domains: tuple[str, ...]) -> list[Json]:
    """:returns: its instances; [] if the relation is dropped."""
    metadata, file, faults = draft.path / METADATA, draft.path / f"{id_}.jsonl", draft.faults
    if not stands(file):
        faults.note(metadata, None, f"relation {id_} has no file {file.name}: left out")
        return []
    templates = _templates(metadata, id_, entry, faults)
    has_space = "answer_space_labels" in entry
    rows = list(read_json_lines(file, _FIELDS | ({"answer_idx": int} if has_space else {}), faults))
    instances = [row for _, row in rows]
    for line, row in rows:
        if texts_of(row.get("sub_aliases") or []) is None:
            faults.add(file, line, f"'sub_aliases' must be a list of texts, found {shown(row['sub_aliases'])}")
    if not rows:
        if file not in faults.broken:
            faults.add(file, None, f"relation {id_} has no instances: add some or remove it from {METADATA}")
        return []
    space = _answer_space(metadata, id_, entry, instances, faults)
    gold = [_gold(file, line, row, space, faults) if has_space else row["obj_id"] for line, row in rows]
    relation = Relation(id_, id_, templates, cardinality_of(gold), domains)
    draft.add(relation, space, _queries(file, relation, rows, gold, faults))
    return instances


def _queries(
    file: Path, relation: Relation, rows: Sequence[tuple[int, Json]], gold: Sequence[str], faults: Faults
) -> Iterator[Query]:
    groups = {"cardinality": relation.cardinality, "domain": "; ".join(relation.domains)}
    named = [names for names in (DATES, POPULARITIES) if any(name in row for _, row in rows for name in names)]
    for index, ((line, row), answer) in enumerate(zip(rows, gold, strict=True)):
        cells = {name: row.get(name) for names in named for name in names}
        dated = {name: UNKNOWN if value in (None, "") else str(value) for name, value in cells.items()}
        yield Query(
            id=f"{relation.id}/{index}",
            relation=relation.id,
            subject=row["sub_label"],
            subject_id=row["sub_id"],
            gold=(answer,),
            candidates=relation.id,
            groups=groups | dated,
            place=short_place(file, line),
            unscored=unscored_unless(
                row["sub_label"].strip(), file, line, f"subject {row['sub_id']} has no label", faults
            ),
        )


def _sibling(path: Path, name: str, faults: Faults) -> Json:
    """Read an object from a file in the folder or its parent; {} without such a file."""
    file = next((file for folder in (path, path.parent) if stands(file := folder / name)), None)
    return {} if file is None else read_object(file, faults, "an object: relation → …")


def _templates(file: Path, id_: str, entry: Json, faults: Faults) -> tuple[Template, ...]:
    texts, line = entry.get("templates"), line_of(file, id_)
    if not texts or texts_of(texts) is None:
        faults.add(file, line, f"relation {id_}: 'templates' must be a list of at least one sentence")
        return ()
    return check_templates(file, line, texts, faults, f"relation {id_}: ")


def _answer_space(file: Path, id_: str, entry: Json, rows: Sequence[Json], faults: Faults) -> CandidateSet:
    objects = {row["obj_id"]: row["obj_label"] for row in rows}
    labels = entry.get("answer_space_labels", list(objects.values()))
    ids = entry.get("answer_space_ids", labels) if "answer_space_labels" in entry else list(objects)
    if not isinstance(labels, list) or not isinstance(ids, list):
        faults.add(file, line_of(file, id_), f"relation {id_}: answer_space_labels and _ids must be lists")
        labels, ids = [], []
    check_answer_space(file, line_of(file, id_), f"relation {id_}", ids, labels, faults)
    count = min(len(ids), len(labels))  # unequal lengths are a fault already
    return CandidateSet(id_, tuple(map(str, ids[:count])), tuple(map(str, labels[:count])))


def _gold(file: Path, line: int, row: Json, space: CandidateSet, faults: Faults) -> str:
    """Return the answer at the row's index."""
    index = row["answer_idx"]
    if not 0 <= index < len(space):
        faults.add(file, line, f"answer_idx is {index}, but the answer space has 0 to {len(space) - 1}")
        return ""
    if space.names[index] != row["obj_label"]:
        faults.add(file, line, f"answer_idx {index} is {space.names[index]!r}, but obj_label {row['obj_label']!r}")
    return space.ids[index]


def _lite(path: Path, metadata: Json, queries: Sequence[Query], faults: Faults) -> dict[str, frozenset[str]]:
    """Return BEAR-big's instances that BEAR has, listed by position within each relation."""
    indices = _sibling(path, LITE, faults)
    if any("answer_space_labels" in entry for entry in metadata.values()):
        return {}
    if not all(isinstance(positions, list) for positions in indices.values()):
        faults.note(path, None, f"{LITE} is not relation → list of positions: no lite subset")
        return {}
    lite = {f"{relation}/{index}" for relation, positions in indices.items() for index in positions}
    lite &= {query.id for query in queries}
    return {"lite": frozenset(lite)} if lite else {}


class BearInstance(NamedTuple):
    """A line of a relation's file. :param more: further fields, such as ``valid_from``."""

    subject_id: str
    subject: str
    aliases: Sequence[str]
    answer: int
    more: Mapping[str, str | int] = {}


class BearRelation(NamedTuple):
    """A relation to be written. :param answers: (id, name) of each, in order."""

    id: str
    templates: Sequence[str]
    answers: Sequence[tuple[str, str]]
    instances: Sequence[BearInstance]
    domains: Sequence[str] = ()


def write_bear(folder: Path, relations: Sequence[BearRelation], spaces: bool = True) -> None:
    """Write a data set into an existing folder.

    :param spaces: write answer spaces, as in BEAR; in BEAR-big they are the objects in order of appearance.
    """
    metadata: Json = {}
    for relation in relations:
        metadata[relation.id] = {"templates": list(relation.templates)}
        if spaces:
            ids, names = zip(*relation.answers, strict=True)
            metadata[relation.id] |= {"answer_space_labels": list(names), "answer_space_ids": list(ids)}
        write_json_lines(folder / f"{relation.id}.jsonl", (_line(row, relation, spaces) for row in relation.instances))
    write_json(folder / METADATA, metadata)


def write_shared(folder: Path, relations: Sequence[BearRelation], lite: Mapping[str, Sequence[int]]) -> None:
    """Write the files that BEAR and BEAR-big share: the domains and any lite subset."""
    write_json(folder / DOMAINS, {relation.id: {"domains": list(relation.domains)} for relation in relations})
    if lite:
        write_json(folder / LITE, {relation: list(positions) for relation, positions in lite.items()})


def _line(row: BearInstance, relation: BearRelation, spaces: bool) -> Json:
    answer_id, answer = relation.answers[row.answer]
    about = {"sub_id": row.subject_id, "sub_label": row.subject, "sub_aliases": list(row.aliases)}
    index = {"answer_idx": row.answer} if spaces else {}
    return about | {"obj_id": answer_id, "obj_label": answer} | index | dict(row.more)


FORMAT = Format("bear", f"{METADATA} (BEAR)", lambda path: stands(path / METADATA), _read)
