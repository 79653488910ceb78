"""BioLAMA (Sung et al., EMNLP 2021): biomedical triples with several right answers, each with aliases.

Published layout (github.com/dmis-lab/BioLAMA at 0d9a9c9): ``data/wikidata/triples_processed/P2175/test.jsonl`` with
``train.jsonl`` and ``dev.jsonl``, templates in ``data/wikidata/prompts/manual.jsonl``; ``ctd`` and ``umls`` likewise.
Queries come from the test triples; all files are splits of the graph. Alternatively one file per source:
``wikidata_triples.jsonl``, with ``templates.jsonl``, whose lines have a ``source`` if there are several.

All sources make one query set, with the group ``source``, as no two share ids of relations.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fathom.data.queries import QuerySet
from fathom.formats.base import Draft, Format, texts_of
from fathom.formats.facts import AnswerNames, Fact, NamedAnswer, RelationEntry, add_queries, read_entries, split_graph
from fathom.reading import Faults, Json, read_json_lines, resolve_packed, shown, stands

SOURCES = ("ctd", "wikidata", "umls")
PROCESSED = "triples_processed"
PROMPTS = Path("prompts") / "manual.jsonl"
_SPLITS = ("train", "dev", "test")
_TRIPLE: dict[str, type] = {
    **dict.fromkeys(("predicate_id", "sub_uri", "sub_label"), str),
    **dict.fromkeys(("obj_uris", "obj_labels"), list),
}


class _Source(NamedTuple):
    """:param triples: files by split; a single file is ``test``."""

    name: str
    templates: Path
    triples: dict[str, list[Path]]


def _read(path: Path, faults: Faults) -> QuerySet | None:
    entries: dict[str, RelationEntry] = {}
    facts: list[Fact] = []
    for source in _sources(path):
        if stands(source.templates):
            entries |= read_entries(source.templates, faults, source.name)
        else:
            faults.note(source.templates, None, f"file is missing: the relations of {source.name} have no templates")
        for split, files in source.triples.items():
            facts += [fact for file in files for fact in _facts(file, source.name, split, faults)]
    names, draft = AnswerNames(facts), Draft(path, faults)
    asked = [fact for fact in facts if fact.split == "test"]
    add_queries(draft, asked, entries, names, lambda fact, gold: {"source": fact.source, "answers": str(len(gold))})
    without = [id_ for id_, relation in draft.relations.items() if not relation.templates]
    if draft.queries and not faults.found:
        names.note(path, faults)
        if without:
            message = "asked by few-shot lines, where a probe can"
            faults.note(path, None, f"no templates for {', '.join(without)}: {message}")
    return draft.queryset(
        path.name.split(".")[0],
        lambda: split_graph(facts, names),
        nothing="no triples to ask: expected one per line",
        licence="Apache-2.0; the triples as their source has it",
    )


def _sources(path: Path) -> list[_Source]:
    """Find the sources of a folder of sources, of one source, of a folder of files by source or of one such file."""
    if path.is_file():
        return [source for source in _one_file_each(path.parent) if path in source.triples["test"]]
    if not path.is_dir():
        return []
    published = [folder for folder in (path, *(path / name for name in SOURCES)) if (folder / PROCESSED).is_dir()]
    return [_published(folder) for folder in published] or _one_file_each(path)


def _one_file_each(folder: Path) -> list[_Source]:
    return [
        _Source(name, resolve_packed(folder / "templates.jsonl"), {"test": [file]})
        for name in SOURCES
        for ending in ("", ".gz")
        if stands(file := folder / f"{name}_triples.jsonl{ending}")
    ]


def _published(folder: Path) -> _Source:
    triples = {split: sorted((folder / PROCESSED).glob(f"*/{split}.jsonl")) for split in _SPLITS}
    return _Source(folder.absolute().name.lower(), resolve_packed(folder / PROMPTS), triples)


def _facts(file: Path, source: str, split: str, faults: Faults) -> Iterator[Fact]:
    for line, row in read_json_lines(file, _TRIPLE, faults):
        subject_aliases = texts_of(row.get("sub_aliases") or [])
        if subject_aliases is None:
            faults.add(file, line, f"'sub_aliases' must be a list of texts, found {shown(row['sub_aliases'])}")
        elif answers := _answers(row):
            yield Fact(
                file,
                line,
                str(row.get("uuid") or ""),
                row["predicate_id"],
                row["sub_label"],
                row["sub_uri"] or row["sub_label"],
                answers,
                subject_aliases=tuple(subject_aliases),
                source=source,
                split=split,
            )
        else:
            expected = "as many texts, one or more, and 'obj_aliases' as a list of lists of texts, one for each"
            counts = f"{len(row['obj_uris'])} obj_uris for {len(row['obj_labels'])} obj_labels"
            faults.add(file, line, f"{counts}: expected {expected}")


def _answers(row: Json) -> tuple[NamedAnswer, ...]:
    """Read each id once; the empty tuple if ids, names and aliases do not match."""
    ids, labels = texts_of(row["obj_uris"]), texts_of(row["obj_labels"])
    given = row.get("obj_aliases", [[]] * len(ids or ()))
    if not ids or not labels or not isinstance(given, list) or not len(ids) == len(labels) == len(given):
        return ()
    aliases = [texts_of(names) for names in given]
    if None in aliases:
        return ()
    named = zip(ids, labels, aliases, strict=True)
    answers = (NamedAnswer(id_ or name, name, tuple(more or ())) for id_, name, more in named)
    return tuple({answer.id: answer for answer in answers}.values())


FORMAT = Format(
    "biolama", "wikidata_triples.jsonl or triples_processed (BioLAMA)", lambda path: bool(_sources(path)), _read
)
