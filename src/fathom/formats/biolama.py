"""BioLAMA (Sung et al., EMNLP 2021): biomedical triples with several right answers, each with aliases.

As published (github.com/dmis-lab/BioLAMA at 0d9a9c9): ``data/wikidata/triples_processed/P2175/test.jsonl`` beside
``train.jsonl`` and ``dev.jsonl``, templates in ``data/wikidata/prompts/manual.jsonl``; ``ctd`` and ``umls`` likewise.
The test triples are asked, those of the other files are splits of the graph. Or in one file per source:
``wikidata_triples.jsonl``, templates in ``templates.jsonl``, with a ``source`` where there are several.

Sources have different ids for relations, so those of all sources that are there make one query set, which says in its
groups which is which.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from fathom.data.faults import Faults, Json, read_json_lines
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.queries import QuerySet
from fathom.formats.base import Draft, Format, texts_of
from fathom.formats.facts import Answer, AnswerNames, Fact, ask
from fathom.formats.wording import RelationEntry, read_entries

SOURCES = ("ctd", "wikidata", "umls")
PROCESSED = "triples_processed"
PROMPTS = Path("prompts") / "manual.jsonl"
_SPLITS = ("train", "dev", "test")
_TRIPLE: dict[str, type] = {
    "predicate_id": str,
    "sub_uri": str,
    "sub_label": str,
    "obj_uris": list,
    "obj_labels": list,
}


class _Source(NamedTuple):
    """:param triples: files by split; what is in one file is asked, as ``test``."""

    name: str
    templates: Path
    triples: dict[str, list[Path]]


class _Triple(NamedTuple):
    """A fact of a source, and the split it stands in."""

    source: str
    split: str
    fact: Fact
    subject_aliases: tuple[str, ...]


def read_biolama(path: Path, faults: Faults) -> QuerySet | None:
    """:returns: the query set, None where a fault keeps it from being read."""
    entries: dict[str, RelationEntry] = {}
    triples: list[_Triple] = []
    for source in _sources(path):
        if source.templates.exists():
            entries |= read_entries(source.templates, faults, source.name)
        else:
            faults.note(source.templates, None, f"file is missing: the relations of {source.name} have no templates")
        for split, files in source.triples.items():
            triples += [triple for file in files for triple in _triples(file, source.name, split, faults)]
    names, draft = AnswerNames(triple.fact for triple in triples), Draft(path, faults)
    asked = {triple.fact: triple.source for triple in triples if triple.split == "test"}
    ask(draft, list(asked), entries, names, lambda fact, gold: {"source": asked[fact], "answers": str(len(gold))})
    without = [id_ for id_, relation in draft.relations.items() if not relation.templates]
    if draft.queries and not faults.found:
        names.note(path, faults)
        if without:
            asked_how = "asked by few-shot lines, where a probe can"
            faults.note(path, None, f"no templates for {', '.join(without)}: {asked_how}")
    return draft.queryset(
        path.name.split(".")[0],
        lambda: _graph(triples, names),
        nothing="no triples to ask: expected one per line",
        licence="Apache-2.0; the triples as their source has it",
    )


def _sources(path: Path) -> list[_Source]:
    """Of a folder of sources, the folder of one source, a folder of files by source, or one such file."""
    if path.is_file():
        return [one for one in _one_file_each(path.parent) if path in one.triples["test"]]
    if not path.is_dir():
        return []
    published = [folder for folder in (path, *(path / name for name in SOURCES)) if (folder / PROCESSED).is_dir()]
    return [_published(folder) for folder in published] or _one_file_each(path)


def _one_file_each(folder: Path) -> list[_Source]:
    return [
        _Source(name, folder / "templates.jsonl", {"test": [file]})
        for name in SOURCES
        for ending in ("", ".gz")
        if (file := folder / f"{name}_triples.jsonl{ending}").exists()
    ]


def _published(folder: Path) -> _Source:
    triples = {split: sorted((folder / PROCESSED).glob(f"*/{split}.jsonl")) for split in _SPLITS}
    return _Source(folder.absolute().name.lower(), folder / PROMPTS, triples)


def _triples(file: Path, source: str, split: str, faults: Faults) -> Iterator[_Triple]:
    for line, row in read_json_lines(file, _TRIPLE, faults):
        answers = _answers(row)
        if answers is None:
            faults.add(
                file,
                line,
                f"{len(row['obj_uris'])} obj_uris for {len(row['obj_labels'])} obj_labels: expected as many texts, one "
                "or more, and 'obj_aliases' as a list of lists of texts, one for each",
            )
            continue
        subject, subject_id = row["sub_label"], row["sub_uri"] or row["sub_label"]
        fact = Fact(file, line, str(row.get("uuid") or ""), row["predicate_id"], subject, subject_id, answers)
        yield _Triple(source, split, fact, tuple(texts_of(row.get("sub_aliases")) or ()))


def _answers(row: Json) -> tuple[Answer, ...] | None:
    """Each id once; None where ids, names and aliases do not fit together."""
    ids, labels = texts_of(row["obj_uris"]), texts_of(row["obj_labels"])
    given = row.get("obj_aliases", [[]] * len(ids or ()))
    if not ids or not labels or not isinstance(given, list) or not len(ids) == len(labels) == len(given):
        return None
    aliases = [texts_of(names) for names in given]
    if any(names is None for names in aliases):
        return None
    answers = (
        Answer(id_ or name, name, tuple(more or ())) for id_, name, more in zip(ids, labels, aliases, strict=True)
    )
    return tuple({answer.id: answer for answer in answers}.values())


def _graph(triples: list[_Triple], names: AnswerNames) -> KnowledgeGraph:
    """All triples with their aliases; with splits where there is more than the test triples."""
    called: dict[str, str] = {}
    aliases: dict[str, dict[str, None]] = defaultdict(dict)
    rows: list[tuple[str, str, str]] = []
    splits: dict[str, range] = {}
    for split in _SPLITS:
        start = len(rows)
        for triple in triples:
            if triple.split != split:
                continue
            fact = triple.fact
            called.setdefault(fact.subject_id, fact.subject)
            aliases[fact.subject_id].update(dict.fromkeys(triple.subject_aliases))
            for answer in fact.answers:
                own = names.id_of(answer.id)
                called.setdefault(own, answer.name)
                aliases[own].update(dict.fromkeys(answer.aliases))
                rows.append((fact.subject_id, fact.relation, own))
        splits[split] = range(start, len(rows))
    graph = KnowledgeGraph.from_triples(rows, called, aliases)
    return graph if splits["test"] == range(len(rows)) else replace(graph, splits=splits)


FORMAT = Format(
    "biolama", "wikidata_triples.jsonl or triples_processed (BioLAMA)", lambda path: bool(_sources(path)), read_biolama
)
