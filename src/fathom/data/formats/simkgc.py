"""Knowledge graphs as SimKGC (Wang et al., ACL 2022) takes them: Wikidata5m, WN18RR and FB15k-237 as published.

On a line of Wikidata5m's entities and relations the first name counts; the others are aliases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fathom.base.reading import Faults, resolve_packed, stands
from fathom.data.columns import Columns
from fathom.data.formats.base import Format
from fathom.data.formats.kg import check_triples, distinct_ids, graph_data, graph_of_rows, index_triples, with_unnamed
from fathom.data.formats.rows import keys_of
from fathom.data.formats.tables import data_files
from fathom.data.knowledge import KnowledgeGraph, entity_table, named_by_id
from fathom.data.queries import QuerySet

_SPLITS = {"train": "train", "dev": "valid", "test": "test"}
_KINDS = ("transductive", "inductive")
_WHOLE_LINE = "\x1f"
"""A delimiter that no text has: lines have names in any number."""

Lines = tuple[pa.ChunkedArray, pa.ChunkedArray]
"""Ids, and what follows each: a list of fields."""


class _Texts(NamedTuple):
    """Names of files; "" for none."""

    entities: str
    relations: str
    descriptions: str
    table: Callable[[Lines], pa.Table]
    description: Callable[[pa.ChunkedArray], pa.ChunkedArray]


def _read(path: Path, faults: Faults) -> QuerySet | None:
    folder, texts = _folder(path), _texts(path)
    if texts is None:
        source = "train.txt, valid.txt, test.txt and the names of entities"
        faults.add(path, None, f"output of SimKGC's preprocess.py (.txt.json): give the folder of its input: {source}")
        return None
    triples = _triples(path, faults)
    names = filter(None, (texts.entities, texts.relations, texts.descriptions))
    files = {name: file for name in names if stands(file := resolve_packed(folder / name))}
    if faults.found:
        return None
    return graph_data(folder, _read_graph(triples, files, texts, faults), faults)


def _folder(path: Path) -> Path:
    return path if path.is_dir() else path.parent


def _texts(path: Path) -> _Texts | None:
    """Return the layout of the folder; None for KG-BERT's, whose own files name more, and for others."""
    folder = _folder(path)
    if any(stands(resolve_packed(folder / f"entity2text{ending}")) for ending in (".txt", ".tsv")):
        return None
    return next((layout for layout in _LAYOUTS if stands(resolve_packed(folder / layout.entities))), None)


def _is_preprocessed(path: Path) -> bool:
    """Return whether a folder has SimKGC's JSON without triples that other formats read."""
    made = (file for file in data_files(path, ".txt.json") if {"head_id", "tail_id"} <= keys_of(file))
    return not _there(_folder(path), "") and any(made)


def _triples(path: Path, faults: Faults) -> dict[str, Path]:
    """Find the file of each split; for a file of Wikidata5m, those of its kind."""
    folder = _folder(path)
    plain = _there(folder, "")
    of_kind = {kind: by_split for kind in _KINDS if (by_split := _there(folder, f"wikidata5m_{kind}_"))}
    if path != folder:
        of_kind = {kind: by_split for kind, by_split in of_kind.items() if path in by_split.values()}
    if len(of_kind) > 1 and not plain:
        some = " or ".join(
            by_split["train" if "train" in by_split else next(iter(by_split))].name for by_split in of_kind.values()
        )
        faults.add(path, None, f"holds the transductive and the inductive split: give the file {some}")
    files = plain or next(iter(of_kind.values()), {})
    if not files:
        expected = "train.txt, valid.txt and test.txt, or wikidata5m_transductive_train.txt …"
        faults.add(path, None, f"no triples: expected {expected}")
    return files


def _there(folder: Path, before: str) -> dict[str, Path]:
    files = {split: resolve_packed(folder / f"{before}{name}.txt") for split, name in _SPLITS.items()}
    return {split: file for split, file in files.items() if stands(file)}


def _read_graph(
    triples: Mapping[str, Path], files: Mapping[str, Path], texts: _Texts, faults: Faults
) -> KnowledgeGraph | None:
    parts = {split: Columns(file, ("head", "relation", "tail"), faults) for split, file in triples.items()}
    check_triples(parts, faults)
    lines = {name: _lines(file, faults) for name, file in files.items()}
    if faults.found:
        return None
    entities = texts.table(lines[texts.entities])
    if texts.descriptions in lines:
        described, fields = lines[texts.descriptions]
        place = pc.index_in(entities.column("id"), value_set=described.combine_chunks())
        descriptions = texts.description(fields).combine_chunks().take(place.combine_chunks())
        entities = entities.set_column(3, "description", pc.fill_null(descriptions, ""))
    folder = next(iter(triples.values())).parent
    entities = with_unnamed(entities, distinct_ids(parts, "head", "tail"), "entities", folder, faults)
    ids = distinct_ids(parts, "relation")
    relations = named_by_id(ids)
    if texts.relations in lines:
        relations = with_unnamed(_with_aliases(lines[texts.relations]), ids, "relations", folder, faults)
    rows = index_triples(parts, entities, relations)
    return graph_of_rows(parts, entities, relations.select(["id", "name"]), rows)


def _lines(file: Path, faults: Faults) -> Lines:
    part = Columns(file, ("line",), faults, delimiter=_WHOLE_LINE)
    fields = pc.split_pattern_regex(part["line"], r"\pZ*\t\pZ*")
    short = np.flatnonzero(pc.less(pc.list_value_length(fields), 2).to_numpy())
    part.complain(
        short, lambda row: f"expected an id and a text, separated by a tab, found {part['line'][row].as_py()[:60]!r}"
    )
    if part.faulty or len(short):
        return pa.chunked_array([[]], pa.string()), pa.chunked_array([[]], pa.list_(pa.string()))
    return pc.list_element(fields, 0), pc.list_slice(fields, 1)


def _with_aliases(lines: Lines) -> pa.Table:
    """Take the first name as the name and the others as aliases."""
    ids, fields = lines
    return entity_table(ids, pc.list_element(fields, 0), aliases=pc.list_slice(fields, 1))


def _of_wordnet(lines: Lines) -> pa.Table:
    """Return WordNet's names: ``__land_reform_NN_1`` is land reform."""
    ids, fields = lines
    names = pc.replace_substring_regex(pc.list_element(fields, 0), r"^_*(.*?)(_[A-Z]+_\d+)?$", r"\1")
    glosses = pc.binary_join(pc.list_slice(fields, 1), " ")
    return entity_table(ids, pc.replace_substring(names, "_", " "), glosses)


def _of_freebase(lines: Lines) -> pa.Table:
    ids, fields = lines
    return entity_table(ids, pc.utf8_trim_whitespace(pc.replace_substring(pc.list_element(fields, 0), "_", " ")))


def _joined(fields: pa.ChunkedArray, pattern: str = "") -> pa.ChunkedArray:
    """Join the fields into one text. :param pattern: what of it is kept, as its first group."""
    text = pc.binary_join(fields, " ")
    return pc.replace_substring_regex(text, pattern, r"\1") if pattern else text


_LAYOUTS = (
    _Texts("wikidata5m_entity.txt", "wikidata5m_relation.txt", "wikidata5m_text.txt", _with_aliases, _joined),
    _Texts("wordnet-mlj12-definitions.txt", "", "", _of_wordnet, _joined),
    _Texts(
        "FB15k_mid2name.txt",
        "",
        "FB15k_mid2description.txt",
        _of_freebase,
        partial(_joined, pattern=r'^"((?s:.*))"@en$'),
    ),
)
FORMAT = Format(
    "simkgc",
    "train.txt with wikidata5m_entity.txt, wordnet-mlj12-definitions.txt or FB15k_mid2name.txt (SimKGC)",
    lambda path: _texts(path) is not None or _is_preprocessed(path),
    _read,
)
