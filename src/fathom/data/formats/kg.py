"""Knowledge graphs as tab-separated triples, in KG-BERT's layout or in one file, see docs/data-format.md."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fathom.base.reading import Faults, Unreadable, check_file, first_few, stands
from fathom.data.columns import (
    SHOWN,
    Columns,
    ends_within_a_line,
    few_chunks,
    first_fields,
    first_lines,
    is_blank,
    take_rows,
)
from fathom.data.formats.base import Format, read_object
from fathom.data.formats.facts import read_entries
from fathom.data.formats.kg_types import JSON, LABELS, TYPES, read_types
from fathom.data.graph.queries import GraphQuerySet, graph_queryset
from fathom.data.knowledge import KnowledgeGraph, characters, consecutive, entity_table, named_by_id
from fathom.data.queries import QuerySet, are_codes
from fathom.data.templates import Template
from fathom.store.files import write_json_lines

TEMPLATES = "templates.jsonl"
Templates = Mapping[str, tuple[Template, ...]]
_SPLITS = {"train": ("train",), "dev": ("dev", "valid", "validation", "val"), "test": ("test",)}
_ENTITIES, _RELATIONS, _LONG = ("entity2text", "entities"), ("relation2text", "relations"), ("entity2textlong",)
_ENDINGS = (".tsv", ".txt", ".tsv.gz", ".txt.gz")
_ALL_ENDINGS = (*_ENDINGS, *JSON)
_WORDNET_ID = r"^(\d{8}|.+\.[nvars]\.\d\d+)$"
_WITH_GLOSS = 0.99
CUT_OFF = "it looks cut off; add what is missing, or a line end if the file is whole"
_LINES = 1 << 18
"""Lines that are put together at a time."""


class GraphFiles(NamedTuple):
    """Files of a graph in a folder. :param triples: by split; the one of "" holds all triples."""

    triples: dict[str, Path]
    entities: Path | None
    relations: Path | None
    long: Path | None
    wikidata: Path | None
    types: Path | None
    labels: Path | None


def read_graph(path: Path, faults: Faults, order: str | None = None) -> QuerySet | None:
    """Read the graph of a folder or file of triples; None after a fault. :param order: of the columns."""
    files = find_files(path)
    if path.is_dir():
        _refuse_doubles(path, faults)
    if files.entities is None:
        for file in (files.wikidata, files.long):
            if file is not None:
                faults.read.add(file)
                faults.note(file, None, f"not used: {_ENTITIES[0]}.txt, which names the entities, is missing")
    parts = {split: read_triples(file, faults, order) for split, file in files.triples.items()}
    graph = assemble(parts, files, faults) if is_in_order(parts, order, faults) else None
    queryset = graph_data(path, graph, faults)
    if queryset is None or graph is None:
        return None
    first = graph.entities.slice(0, 1000)
    if are_codes(*(first.column(name).to_pylist() for name in ("id", "name"))):
        faults.note(path, None, f"most entities are named by ids: write lines of id<TAB>name into {_ENTITIES[0]}.txt")
    wrong = read_wrong_tails(files.triples, graph, faults, order)
    if wrong:
        queryset = graph_queryset(graph, name=path.name, templates=queryset.templates, wrong=wrong)
    if graph.splits and queryset.split != "test":
        faults.note(path, None, f"there is no test split: {queryset.split or 'all triples, of train as well,'} asked")
    return queryset


def graph_data(path: Path, graph: KnowledgeGraph | None, faults: Faults) -> GraphQuerySet | None:
    """Make the queries of a graph, with the templates that are next to its files; None after a fault."""
    templates = _templates(path if path.is_dir() else path.parent, graph, faults)
    return None if graph is None or faults.found else graph_queryset(graph, name=path.name, templates=templates)


def _templates(folder: Path, graph: KnowledgeGraph | None, faults: Faults) -> dict[str, tuple[Template, ...]]:
    """Read templates by relation."""
    if graph is None or not faults.there(folder / TEMPLATES):
        return {}
    entries = read_entries(folder / TEMPLATES, faults)
    ids = graph.relations.column("id").to_pylist()
    if unknown := [id_ for id_ in entries if id_ not in set(ids)]:
        some = ", ".join(map(str, ids[:10]))
        faults.add(folder / TEMPLATES, None, f"the graph has no relation {', '.join(unknown[:5])}: it has {some}")
    return {id_: entry.templates for id_, entry in entries.items()}


def _refuse_doubles(folder: Path, faults: Faults) -> None:
    """Refuse two files of the same content and folders in place of files; note lists of ids without names."""
    for stems in (*_SPLITS.values(), _ENTITIES, _RELATIONS, _LONG, TYPES):
        endings = _ALL_ENDINGS if stems is TYPES else _ENDINGS
        files = [path for stem in stems for ending in endings if stands(path := folder / f"{stem}{ending}")]
        for path in files:
            try:
                check_file(path)
            except Unreadable as error:
                faults.keep(error)
        lists = list(filter(lists_ids, files))
        files = [path for path in files if path not in lists]
        faults.read.update(lists)
        for path in lists:
            faults.note(path, None, f"not used: it lists ids{f', {files[0].name} names them' if files else ''}")
        if len(files) > 1:
            others = " and ".join(path.name for path in files[1:])
            faults.add(files[0], None, f"is next to {others}: both have the same content, remove all but one")


def split_of(file: Path) -> str | None:
    """Return the split in a file's name, such as ``dev`` for ``valid.tsv.gz``; None if it names none."""
    return next((split for split, stems in _SPLITS.items() if file.name.split(".")[0] in stems), None)


def find_files(path: Path) -> GraphFiles:
    """Find the files of a graph: those of a folder, or a file of triples with the others next to it."""
    folder = path if path.is_dir() else path.parent
    names = {
        "entities": _first(folder, _ENTITIES),
        "relations": _first(folder, _RELATIONS),
        "long": _first(folder, _LONG),
        "wikidata": _first(folder, ("entity2wikidata",), JSON),
        "types": _first(folder, TYPES, _ALL_ENDINGS),
        "labels": _first(folder, (LABELS,), JSON),
    }
    triples = {split: file for split, stems in _SPLITS.items() if (file := _first(folder, stems)) is not None}
    if path.is_file() or not triples:
        others = [path] if path.is_file() else [file for file in sorted(folder.glob("*")) if file not in names.values()]
        with_three = [file for file in others if file.name.endswith(_ENDINGS) and first_fields(file) == 3]
        triples = {"": with_three[0]} if len(with_three) == 1 else {}
    return GraphFiles(triples, **names)


def assemble(parts: Mapping[str, Columns], files: GraphFiles, faults: Faults) -> KnowledgeGraph | None:
    """Make a graph from ids of head, relation and tail; None after a fault.

    :param parts: columns of each split; the one of "" holds all triples.
    """
    check_triples(parts, faults)
    if faults.found and not all(map(len, parts.values())):
        return None
    names = {
        kind: _read_names(file, faults, kind)
        for kind, file in (("entity", files.entities), ("relation", files.relations))
        if file is not None
    }
    if "entity" in names:
        named, ids = names["entity"], distinct_ids(parts, "head", "tail")
        entities = with_unnamed(_with_texts(named, files, faults), ids, "entities", named.file, faults)
        if not faults.found and len(entities) > len(named) and ends_within_a_line(named.file):
            faults.add(named.file, None, f"ends within a line and does not name all entities: {CUT_OFF}")
    else:
        entities = named_by_id(distinct_ids(parts, "head", "tail"))
    relations = names["relation"].table if "relation" in names else named_by_id(distinct_ids(parts, "relation"))
    _report_cut_off(parts, names, faults)
    if files.types is not None:
        entities = entities.append_column("type", read_types(files.types, files.labels, entities, faults))
    rows = index_triples(parts, entities, relations)
    if "relation" in names and not names["relation"].faulty:  # else an id may be on a line that could not be read
        _refuse_unknown(parts, rows["relation"], names["relation"].file.name)
    return None if faults.found else graph_of_rows(parts, entities, relations.select(["id", "name"]), rows)


def _report_cut_off(parts: Mapping[str, Columns], names: Mapping[str, Columns], faults: Faults) -> None:
    """Report files that end within a line, with an id that occurs nowhere else.

    It is a note if no file names the entities: in data written by hand every id may be new.
    """
    report = faults.add if "entity" in names else faults.note
    columns = [column for part in (*parts.values(), *names.values()) for column in part.table.columns]
    for part in parts.values() if not faults.found else ():
        last = part.table.columns[-1][-1]
        times = sum(pc.sum(pc.equal(column, last)).as_py() or 0 for column in columns)
        if times == 1 and ends_within_a_line(part.file):
            report(part.file, part.line(len(part) - 1), f"ends within a line, and {last.as_py()!r} is new: {CUT_OFF}")


def with_unnamed(table: pa.Table, ids: pa.Array, kind: str, file: Path, faults: Faults) -> pa.Table:
    """Add rows for the ids without a name, which are named after the id and, unless there are faults, noted."""
    without = ids.filter(pc.invert(pc.is_in(ids, value_set=table.column("id").combine_chunks())))
    if len(without) and not faults.found:
        faults.note(file, None, f"{kind} without a name, called by their id: {first_few(without.to_pylist())}")
    more = named_by_id(without).select(table.column_names)
    return pa.concat_tables([table, more.cast(table.schema)])


Rows = dict[str, list[pa.ChunkedArray]]
"""Rows of heads, relations and tails in the tables of a graph, for each split; null for unknown ids."""


def index_triples(parts: Mapping[str, Columns], entities: pa.Table, relations: pa.Table) -> Rows:
    """Look up the ids of all triples."""
    ids = {name: table.column("id").combine_chunks() for name, table in (("head", entities), ("relation", relations))}
    return {
        name: [pc.index_in(part[name], value_set=ids.get(name, ids["head"])) for part in parts.values()]
        for name in ("head", "relation", "tail")
    }


def graph_of_rows(parts: Mapping[str, Columns], entities: pa.Table, relations: pa.Table, rows: Rows) -> KnowledgeGraph:
    """Make a graph of the entities and relations in use. :param rows: without unknown ids."""
    columns = [np.concatenate([chunk.to_numpy() for chunk in column]) for column in rows.values()]
    splits = consecutive({split: len(part) for split, part in parts.items()})
    return KnowledgeGraph.from_used(entities, relations, columns, splits)


def _first(folder: Path, stems: tuple[str, ...], endings: tuple[str, ...] = _ENDINGS) -> Path | None:
    files = (folder / f"{stem}{ending}" for stem in stems for ending in endings)
    return next((file for file in files if stands(file) and not lists_ids(file)), None)


def lists_ids(file: Path) -> bool:
    """Return whether a file lists ids without names."""
    return file.name.split(".")[0] in (_ENTITIES[1], _RELATIONS[1]) and first_fields(file) == 1


def _read_names(file: Path, faults: Faults, kind: str) -> Columns:
    """Read ``id``, ``name`` and, from three columns, ``description``."""
    fields = ("id", "name", "description")[: min(max(first_fields(file), 2), 3)]
    part = Columns(file, fields, faults)
    part.refuse_empty("id")
    part.refuse_second("id", kind)
    part.complain(
        np.flatnonzero(is_blank(part["name"])),
        lambda row: f"{kind} {part['id'][row].as_py()!r} has no name: what asks of it is unscored",
        f"{kind}s have no name",
        faults.note,
    )
    return part


def _with_texts(part: Columns, files: GraphFiles, faults: Faults) -> pa.Table:
    """Add the descriptions and aliases of all files."""
    ids, names = part["id"], part["name"]
    descriptions = part["description"] if "description" in part.names else None
    aliases = None
    if descriptions is None and _has_glosses(ids, names):
        # Without ", " there is no gloss: the name is the whole text.
        parts = pc.extract_regex(names, r"(?s)^(?P<name>.*?)(?:, (?P<gloss>.*))?$")
        names, descriptions = pc.struct_field(parts, "name"), pc.struct_field(parts, "gloss")
    if files.wikidata is not None:
        descriptions, aliases = _from_wikidata(files.wikidata, ids, names, faults)
    if files.long is not None:
        long = _read_long(files.long, ids, faults)
        descriptions = long if descriptions is None else pc.if_else(pc.equal(long, ""), descriptions, long)
    return entity_table(ids, names, descriptions, aliases)


def _has_glosses(ids: pa.ChunkedArray, texts: pa.ChunkedArray) -> bool:
    if not len(ids) or not pc.all(pc.match_substring_regex(ids, _WORDNET_ID)).as_py():
        return False
    return bool(pc.mean(pc.match_substring(texts, ", ")).as_py() >= _WITH_GLOSS)


def _read_long(file: Path, ids: pa.ChunkedArray, faults: Faults) -> Any:
    part = Columns(file, ("id", "description"), faults)
    places = pc.index_in(ids, value_set=part["id"].combine_chunks())
    if places.null_count and len(part) and not part.faulty:
        without = f"{places.null_count:,} of {len(ids):,} entities have no description"
        if ends_within_a_line(file):
            faults.add(file, None, f"ends within a line, and {without}: {CUT_OFF}")
        else:
            faults.note(file, None, f"{without}: they go without")
    return pc.fill_null(part["description"].combine_chunks().take(places.combine_chunks()), "")


def _from_wikidata(file: Path, ids: pa.ChunkedArray, names: pa.ChunkedArray, faults: Faults) -> tuple[Any, Any]:
    """Read descriptions, and labels and alternatives as aliases."""
    content = read_object(file, faults, '{"id": {"label": "…", "description": "…", "alternatives": […]}, …}')
    descriptions, aliases = [], []
    for id_, name in zip(ids.to_pylist(), names.to_pylist(), strict=True):
        about = entry if isinstance(entry := content.get(id_), dict) else {}
        descriptions.append(str(about.get("description") or ""))
        alternatives = about.get("alternatives")
        if not isinstance(alternatives, list | None):
            faults.add(file, None, f"'alternatives' of {id_!r} must be a list of texts, found {alternatives!r}")
            alternatives = None
        texts = dict.fromkeys(text for text in (about.get("label"), *(alternatives or ())) if isinstance(text, str))
        aliases.append([text for text in texts if text not in ("", name)])
    return pa.array(descriptions, pa.string()), pa.array(aliases, pa.list_(pa.string()))


def _refuse_unknown(parts: Mapping[str, Columns], rows: Sequence[pa.ChunkedArray], named_in: str) -> None:
    """Report each relation without a name once, at its first line."""
    reported: set[str] = set()
    for part, places in zip(parts.values(), rows, strict=True):
        unknown = np.flatnonzero(places.is_null().to_numpy())[::-1]
        lines = dict(zip(take_rows(part["relation"], unknown).to_pylist(), unknown.tolist(), strict=True))  # first ones
        ids = {row: id_ for id_, row in lines.items() if id_ not in reported}
        message = {row: f"unknown relation {id_!r}: {named_in} does not name it" for row, id_ in ids.items()}
        part.complain(np.array(sorted(message), dtype=np.int64), message.__getitem__, "unknown relations")
        reported.update(lines)


def unwritable(graph: KnowledgeGraph) -> list[str]:
    """Return a message for each text with a tab or line break, which tab-separated lines cannot hold."""
    faults = []
    for kind, table, columns in (
        ("entity", graph.entities, ("id", "name", "description", *_types(graph))),
        ("relation", graph.relations, ("id", "name")),
    ):
        for column in columns:
            texts = table.column(column)
            rows = np.flatnonzero(pc.match_substring_regex(texts, r"[\t\n\r]").to_numpy())
            faults += [
                f"{kind} {table.column('id')[row].as_py()!r}: its {column} has a tab or a line break, which a file "
                f"of tab-separated lines cannot hold: {texts[row].as_py()[:60]!r}; write a space instead"
                for row in rows[:SHOWN].tolist()
            ]
            if len(rows) > SHOWN:
                faults.append(f"{len(rows) - SHOWN:,} more {column}s of {kind} rows with a tab or a line break")
    return faults


def write_graph(graph: KnowledgeGraph, folder: Path, templates: Templates = MappingProxyType({})) -> None:
    """Write all files of a graph into an existing folder. :func:`unwritable` must return no message.

    :param templates: by relation id; those of other relations are not written.
    """
    entities, relations = graph.entities, graph.relations
    ids, names, descriptions = (entities.column(name) for name in ("id", "name", "description"))
    joined = _with_glosses(graph)
    if joined is not None:
        _write(folder / "entity2text.txt", ids, joined)
    elif _has_glosses(ids, names):
        _write(folder / "entity2text.txt", ids, names, descriptions)  # names alone would be cut at their commas
    else:
        _write(folder / "entity2text.txt", ids, names)
        described = pc.not_equal(descriptions, "")
        if pc.any(described).as_py():
            _write(folder / "entity2textlong.txt", ids.filter(described), descriptions.filter(described))
    _write(folder / "relation2text.txt", relations.column("id"), relations.column("name"))
    if pc.any(_has_aliases(entities)).as_py():
        _write_aliases(folder / "entity2wikidata.json", entities.filter(_has_aliases(entities)))
    for types in map(entities.column, _types(graph)):
        typed = pc.not_equal(types, "")
        _write(folder / "entity2type.txt", ids.filter(typed), types.filter(typed))
    in_graph = {id_: templates[id_] for id_ in relations.column("id").to_pylist() if id_ in templates}
    if in_graph:
        entries = (
            {"relation": id_, "templates": [template.text for template in texts]} for id_, texts in in_graph.items()
        )
        write_json_lines(folder / TEMPLATES, entries)
    for split, rows in (graph.splits or {"triples": range(len(graph))}).items():
        _write_triples(folder / f"{split}.tsv", graph, rows)


def _with_glosses(graph: KnowledgeGraph) -> pa.ChunkedArray | None:
    """Join names and descriptions by ", " if the reader would split them again, else return None."""
    ids, names, descriptions = (graph.entities.column(name) for name in ("id", "name", "description"))
    if pc.any(pc.match_substring(names, ", ")).as_py() or pc.any(_has_aliases(graph.entities)).as_py():
        return None
    joined = pc.if_else(pc.equal(descriptions, ""), names, pc.binary_join_element_wise(names, descriptions, ", "))
    return joined if _has_glosses(ids, joined) else None


def _types(graph: KnowledgeGraph) -> tuple[str, ...]:
    return ("type",) if "type" in graph.entities.column_names else ()


def _has_aliases(entities: pa.Table) -> pa.ChunkedArray:
    return pc.greater(pc.list_value_length(entities.column("aliases")), 0)


def _write(file: Path, *columns: pa.ChunkedArray) -> None:
    starts = range(0, len(columns[0]), _LINES)
    _write_lines(file, ([column.slice(start, _LINES) for column in columns] for start in starts))


def _write_triples(file: Path, graph: KnowledgeGraph, rows: range) -> None:
    ids, relations = few_chunks(graph.entities.column("id")), few_chunks(graph.relations.column("id"))
    columns = ((ids, graph.head), (relations, graph.relation), (ids, graph.tail))
    parts = (slice(start, min(start + _LINES, rows.stop)) for start in range(rows.start, rows.stop, _LINES))
    _write_lines(file, ([take_rows(texts, places[part]) for texts, places in columns] for part in parts))


def _write_lines(file: Path, parts: Iterable[Sequence[pa.ChunkedArray]]) -> None:
    with file.open("wb") as stream:
        for columns in parts:
            lines = pc.binary_join_element_wise(pc.binary_join_element_wise(*columns, "\t"), "\n", "")
            stream.writelines(characters(lines))


def _write_aliases(file: Path, entities: pa.Table) -> None:
    with file.open("w", encoding="utf-8") as stream:
        before = "{\n"
        for batch in entities.select(["id", "aliases"]).to_batches(max_chunksize=_LINES):
            for id_, aliases in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                stream.write(f"{before}{json.dumps(id_)}: {json.dumps({'alternatives': aliases}, ensure_ascii=False)}")
                before = ",\n"
        stream.write("\n}\n")


_COLUMNS: dict[str, tuple[str, ...]] = {"hrt": ("head", "relation", "tail"), "htr": ("head", "tail", "relation")}
_ENDS = (("head", "tail"), ("subject", "object"))
_SIDES = [(head, name, tail) for head, tail in _ENDS for name in ("relation", "predicate")]
_HEADERS: dict[tuple[str, ...], str] = {
    **dict.fromkeys(_SIDES, "hrt"),
    **{(head, tail, relation): "htr" for head, relation, tail in _SIDES},
}
_MOST_RELATIONS = 0.1
"""Relations per entity from which on the columns may be in the other order: hundreds of triples share a relation."""


def read_triples(file: Path, faults: Faults, order: str | None = None) -> Columns:
    """Read the triples of a file, of a labelled one those that are right.

    :param order: of the columns; by default as a header states, else head, relation, tail.
    """
    header = next((_HEADERS.get(tuple(line.lower().split("\t"))) for line in first_lines(file, 1)), None)
    columns = _COLUMNS[order or header or "hrt"]
    if not _is_labelled(file):
        return Columns(file, columns, faults, skip=int(header is not None))
    part = Columns(file, (*columns, "label"), faults)
    labels = part["label"].to_numpy()
    part.complain(
        np.flatnonzero((labels != "1") & (labels != "-1")),
        lambda row: f"label: expected 1 or -1, found {labels[row][:40]!r}",
    )
    part.drop(labels != "1")
    return part


def _is_labelled(file: Path) -> bool:
    return any(line.split("\t")[3:] in (["1"], ["-1"]) for line in first_lines(file, 1))


def read_wrong_tails(
    triples: Mapping[str, Path], graph: KnowledgeGraph, faults: Faults, order: str | None = None
) -> dict[str, list[tuple[str, ...]]]:
    """Return the wrong tails of each right triple of the labelled files.

    A wrong triple without a right one before it, or with a tail outside the graph, is left out and counted.
    """
    by_split = {}
    labelled = {split: file for split, file in triples.items() if _is_labelled(file)}
    entities = set(graph.entities.column("id").to_pylist()) if labelled else set()
    for split, file in labelled.items():
        part, lost = Columns(file, (*_COLUMNS[order or "hrt"], "label"), faults), 0
        wrong: list[tuple[str, ...]] = []
        place: dict[tuple[str, str], int] = {}
        columns = (part[name].to_pylist() for name in (*_COLUMNS["hrt"], "label"))
        for head, relation, tail, label in zip(*columns, strict=True):
            if label == "1":
                place[head, relation] = len(wrong)
                wrong.append(())
            elif (head, relation) in place and tail in entities:
                wrong[place[head, relation]] += (tail,)
            else:
                lost += 1
        by_split[split] = wrong
        if lost:
            faults.note(file, None, f"wrong triples without a right one to compare with, left out: {lost:,}")
        if single := sum(not others for others in wrong):
            faults.note(file, None, f"triples without a wrong one, not queried: {single:,}")
    return by_split


def distinct_ids(parts: Mapping[str, Columns], *names: str) -> pa.Array:
    """Return the ids in some columns, each once."""
    chunks = [chunk for part in parts.values() for name in names for chunk in part[name].chunks]
    return pc.unique(pa.chunked_array(chunks, pa.string()))


def is_in_order(parts: Mapping[str, Columns], order: str | None, faults: Faults) -> bool:
    """Return False, and add a fault, if relations are many and mostly heads or tails, too.

    :param order: as given by the user; "hrt" makes it a note.
    """
    relations, entities = distinct_ids(parts, "relation"), distinct_ids(parts, "head", "tail")
    shared = pc.sum(pc.is_in(relations, value_set=entities)).as_py() or 0
    if len(relations) <= _MOST_RELATIONS * len(entities) or 2 * shared <= len(relations):
        return True
    tails, part = len(distinct_ids(parts, "tail")), next(iter(parts.values()))
    names, file = part.names[:3], part.file
    places = dict(zip(names, ("first", "second", "third"), strict=True))
    found = (
        f"read as {', '.join(names)}, the {places['relation']} column has {len(relations):,} different values, "
        f"{shared:,} of them heads or tails, too, and the {places['tail']} column {tails:,}"
    )
    swapped = "if lines are head, tail, relation, give --columns htr; if this is right, --columns hrt"
    if order == "hrt":
        faults.note(file.parent, None, found)
    else:
        faults.add(file.parent, None, f"{found}: {'leave out --columns htr' if order else swapped}")
    return order == "hrt"


def check_triples(parts: Mapping[str, Columns], faults: Faults) -> None:
    """Refuse files without triples and empty fields."""
    for part in parts.values():
        if not len(part) and not part.faulty:
            faults.add(part.file, None, "no triples: expected lines of head, relation and tail, separated by tabs")
        for name in part.names:
            part.refuse_empty(name)


FORMAT = Format(
    "kg",
    "train.tsv, dev.tsv and test.tsv or one file of head, relation and tail separated by tabs",
    lambda path: bool(find_files(path).triples),
    read_graph,
)
