"""The folder format of BEAR and BEAR-big (Wiland et al. 2024).

``metadata_relations.json`` holds the templates and, in BEAR, the answer space of each relation; ``P36.jsonl`` one
instance per line. BEAR-big stores no answer spaces: there it is the set of objects, in order of appearance; and its
metadata lists a relation without a file, which becomes a note. Cardinality is derived, domains (``relation_info.json``)
and the lite subset (``bear_lite_indices.json``) are read from the folder or the one above where they are there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fathom.data.faults import Faults, check_answer_space, line_of, read_json, read_json_lines
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.queries import CandidateSet, Query, QuerySet, Relation, cardinality_of
from fathom.data.templates import Template

METADATA = "metadata_relations.json"
_FIELDS: dict[str, type] = {"sub_id": str, "sub_label": str, "obj_id": str, "obj_label": str}


def is_bear(path: Path) -> bool:
    return (path / METADATA).exists()


def read_bear(path: Path, faults: Faults) -> QuerySet | None:
    """:returns: the query set, None where a fault keeps it from being read."""
    metadata = read_json(path / METADATA, faults)
    if not isinstance(metadata, dict) or not all(isinstance(entry, dict) for entry in metadata.values()):
        if metadata is not None:
            faults.add(path / METADATA, 1, 'expected {"P36": {"templates": […], …}, …}')
        return None
    domains = _beside(path, "relation_info.json", faults)
    queries: list[Query] = []
    spaces: dict[str, CandidateSet] = {}
    relations: dict[str, Relation] = {}
    names: dict[str, str] = {}
    aliases: dict[str, list[str]] = {}
    for id_, entry in metadata.items():
        file = path / f"{id_}.jsonl"
        if not file.exists():
            faults.note(path / METADATA, None, f"relation {id_} has no file {file.name}: left out")
            continue
        templates = _templates(path / METADATA, id_, entry, faults)
        rows = list(read_json_lines(file, _FIELDS | ({"answer_idx": int} if _has_space(entry) else {}), faults))
        if not rows:
            faults.add(file, None, f"relation {id_} has no instances: add some or remove it from {METADATA}")
            continue
        space = _answer_space(path / METADATA, id_, entry, [row for _, row in rows], faults)
        about = _domains(domains, id_)
        gold = _gold_answers(file, rows, space, entry, faults)
        relation = Relation(id_, id_, templates, cardinality_of(gold), tuple(about))
        groups = {"cardinality": relation.cardinality, "domain": "; ".join(about)}
        for index, ((line, row), answer) in enumerate(zip(rows, gold, strict=True)):
            if not row["sub_label"].strip():
                faults.note(file, line, f"subject {row['sub_id']} has no label: the query is kept as unscored")
            queries.append(
                Query(
                    id=f"{id_}/{index}",
                    relation=id_,
                    subject=row["sub_label"],
                    subject_id=row["sub_id"],
                    gold=(answer,),
                    candidates=id_,
                    groups=groups,
                    unscored=None if row["sub_label"].strip() else "the subject has no name",
                )
            )
            names[row["sub_id"]] = row["sub_label"]
            aliases[row["sub_id"]] = row.get("sub_aliases") or []
        spaces[id_], relations[id_] = space, relation
        names.update(zip(space.ids, space.names, strict=True))
    if not queries:
        faults.add(path, None, "no relation with instances: nothing to ask")
    if faults.found:
        return None
    triples = ((query.subject_id, query.relation, query.gold[0]) for query in queries)
    return QuerySet(
        name=path.name,
        queries=tuple(queries),
        candidates=spaces,
        relations=relations,
        licence="CC BY-SA (as stated in the paper)",
        subsets=_lite(path, metadata, queries, faults),
        notes=tuple(faults.notes),
        graph=KnowledgeGraph.from_triples(triples, names, aliases),
    )


def _has_space(entry: Any) -> bool:
    return "answer_space_labels" in entry


def _beside(path: Path, name: str, faults: Faults) -> dict[str, Any]:
    """A file of the folder or of the one above; {} where there is none."""
    for folder in (path, path.parent):
        if (folder / name).exists():
            content = read_json(folder / name, faults)
            if isinstance(content, dict):
                return content
            faults.add(folder / name, None, "expected an object: relation → …")
    return {}


def _domains(about: dict[str, Any], id_: str) -> list[str]:
    entry = about.get(id_)
    found = entry.get("domains") if isinstance(entry, dict) else None
    return [str(domain) for domain in found] if isinstance(found, list) else []


def _templates(file: Path, id_: str, entry: Any, faults: Faults) -> tuple[Template, ...]:
    texts, line = entry.get("templates"), line_of(file, id_)
    if not isinstance(texts, list) or not texts:
        faults.add(file, line, f"relation {id_}: 'templates' must be a list of at least one sentence")
        return ()
    templates = tuple(Template(str(text)) for text in texts)
    for template in templates:
        for fault in template.faults():
            faults.add(file, line, f"relation {id_}: {fault}")
    return templates


def _answer_space(file: Path, id_: str, entry: Any, rows: list[dict[str, Any]], faults: Faults) -> CandidateSet:
    if _has_space(entry):
        labels = entry["answer_space_labels"]
        ids = entry.get("answer_space_ids", labels)
        if not isinstance(labels, list) or not isinstance(ids, list):
            faults.add(file, line_of(file, id_), f"relation {id_}: answer_space_labels and _ids must be lists")
            labels, ids = [], []
    else:
        objects = {row["obj_id"]: row["obj_label"] for row in rows}
        ids, labels = list(objects), list(objects.values())
    check_answer_space(file, line_of(file, id_), f"relation {id_}", ids, labels, faults)
    pairs = list(zip(map(str, ids), map(str, labels), strict=False))  # unequal lengths are a fault already
    return CandidateSet(id_, tuple(id_ for id_, _ in pairs), tuple(label for _, label in pairs))


def _gold_answers(
    file: Path, rows: list[tuple[int, dict[str, Any]]], space: CandidateSet, entry: Any, faults: Faults
) -> list[str]:
    gold = []
    for line, row in rows:
        if not _has_space(entry):
            gold.append(row["obj_id"])
            continue
        index = row["answer_idx"]
        if not 0 <= index < len(space):
            faults.add(file, line, f"answer_idx is {index}, but the answer space has 0 to {len(space) - 1}")
            gold.append("")
            continue
        if space.names[index] != row["obj_label"]:
            faults.add(file, line, f"answer_idx {index} is {space.names[index]!r}, but obj_label {row['obj_label']!r}")
        gold.append(space.ids[index])
    return gold


def _lite(path: Path, metadata: dict[str, Any], queries: list[Query], faults: Faults) -> dict[str, frozenset[str]]:
    """BEAR-lite: positions of instances within each relation. They count BEAR's lines, not BEAR-big's."""
    if not all(_has_space(entry) for entry in metadata.values()):
        return {}
    indices = _beside(path, "bear_lite_indices.json", faults)
    if not all(isinstance(positions, list) for positions in indices.values()):
        faults.note(path, None, "bear_lite_indices.json is not relation → list of positions: no lite subset")
        return {}
    chosen = {f"{relation}/{index}" for relation, positions in indices.items() for index in positions}
    chosen &= {query.id for query in queries}
    return {"lite": frozenset(chosen)} if chosen else {}
