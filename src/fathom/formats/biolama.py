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
from typing import Any, NamedTuple

from fathom.data.faults import Faults, read_json_lines
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.queries import CandidateSet, Query, QuerySet, Relation, cardinality_of
from fathom.formats.wording import AnswerNames, RelationEntry, read_entries

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
    """:param answers: (id, name, aliases) of each."""

    file: Path
    line: int
    source: str
    split: str
    id: str
    relation: str
    subject_id: str
    subject: str
    subject_aliases: tuple[str, ...]
    answers: tuple[tuple[str, str, tuple[str, ...]], ...]


def is_biolama(path: Path) -> bool:
    return bool(_sources(path))


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
    names = AnswerNames()
    for triple in triples:
        for id_, name, _ in triple.answers:
            if name.strip():
                names.add(id_, name)
    relations, spaces, queries = _ask(triples, entries, names, faults)
    if not queries:
        faults.add(path, None, "no triples to ask: expected one per line")
    if faults.found:
        return None
    names.note(path, faults)
    without = [id_ for id_, relation in relations.items() if not relation.templates]
    if without:
        faults.note(path, None, f"no templates for {', '.join(without)}: asked by few-shot lines, where a probe can")
    return QuerySet(
        name=path.name.split(".")[0],
        queries=tuple(queries),
        candidates=spaces,
        relations=relations,
        licence="Apache-2.0; the triples as their source has it",
        notes=tuple(faults.notes),
        graph=_graph(triples, names),
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
        yield _Triple(
            file,
            line,
            source,
            split,
            str(row.get("uuid") or ""),
            row["predicate_id"],
            row["sub_uri"] or row["sub_label"],
            row["sub_label"],
            tuple(_texts(row.get("sub_aliases")) or ()),
            tuple(answers),
        )


def _answers(row: dict[str, Any]) -> list[tuple[str, str, tuple[str, ...]]] | None:
    """Id, name and aliases of each, ids once; None where they do not fit together."""
    ids, labels = _texts(row["obj_uris"]), _texts(row["obj_labels"])
    given = row.get("obj_aliases", [[]] * len(ids or ()))
    if not ids or not labels or not isinstance(given, list) or not len(ids) == len(labels) == len(given):
        return None
    aliases = [_texts(names) for names in given]
    found = {
        id_ or name: (id_ or name, name, tuple(more or ()))
        for id_, name, more in zip(ids, labels, aliases, strict=True)
    }
    return None if any(names is None for names in aliases) else list(found.values())


def _texts(value: Any) -> list[str] | None:
    return value if isinstance(value, list) and all(isinstance(item, str) for item in value) else None


def _ask(
    triples: list[_Triple], entries: dict[str, RelationEntry], names: AnswerNames, faults: Faults
) -> tuple[dict[str, Relation], dict[str, CandidateSet], list[Query]]:
    """The candidates are the answers of a relation's asked triples."""
    relations: dict[str, Relation] = {}
    spaces: dict[str, CandidateSet] = {}
    queries: list[Query] = []
    grouped: dict[str, list[_Triple]] = defaultdict(list)
    for triple in triples:
        if triple.split == "test":
            grouped[triple.relation].append(triple)
    for id_, own in grouped.items():
        entry = entries.get(id_, RelationEntry(()))
        golds = [_gold(triple, names) for triple in own]
        answers = {
            names.id_of(answer): names.name_of(answer)
            for triple in own
            for answer, name, _ in triple.answers
            if name.strip()
        }
        if not answers:
            faults.add(own[0].file, None, f"relation {id_} has no answer with a name: nothing to choose from")
        spaces[id_] = CandidateSet(id_, tuple(answers), tuple(answers.values()))
        cardinality = cardinality_of(answer for gold in golds for answer in gold)
        relations[id_] = Relation(id_, entry.name or id_, entry.templates, cardinality)
        queries += _queries(own, golds, cardinality, faults)
    return relations, spaces, queries


def _gold(triple: _Triple, names: AnswerNames) -> tuple[str, ...]:
    """The answers that have a name; where none has, their ids, for the query to be unscored."""
    named = [names.id_of(id_) for id_, name, _ in triple.answers if name.strip()]
    return tuple(dict.fromkeys(named or [id_ for id_, _, _ in triple.answers]))


def _queries(triples: list[_Triple], golds: list[tuple[str, ...]], cardinality: str, faults: Faults) -> Iterator[Query]:
    answers: dict[str, dict[str, None]] = defaultdict(dict)
    for triple, gold in zip(triples, golds, strict=True):
        answers[triple.subject_id].update(dict.fromkeys(gold))
    taken: set[str] = set()
    for number, (triple, gold) in enumerate(zip(triples, golds, strict=True)):
        nameless = sum(not name.strip() for _, name, _ in triple.answers)
        unscored = None if triple.subject.strip() else "the subject has no name"
        if nameless == len(triple.answers):
            unscored = "the answer has no name"
        elif nameless:
            faults.note(triple.file, triple.line, f"{nameless} of {len(triple.answers)} answers have no name: left out")
        if unscored is not None:
            faults.note(triple.file, triple.line, f"{unscored}: the query is kept as unscored")
        id_ = triple.id or f"{triple.relation}/{number}"
        if id_ in taken:
            faults.note(triple.file, triple.line, f"id {id_} stands above: this triple is {id_}/{number}")
            id_ = f"{id_}/{number}"
        taken.add(id_)
        yield Query(
            id=id_,
            relation=triple.relation,
            subject=triple.subject,
            subject_id=triple.subject_id,
            gold=gold,
            candidates=triple.relation,
            known=tuple(answer for answer in answers[triple.subject_id] if answer not in gold),
            groups={"cardinality": cardinality, "source": triple.source, "answers": str(len(gold))},
            unscored=unscored,
        )


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
            called.setdefault(triple.subject_id, triple.subject)
            aliases[triple.subject_id].update(dict.fromkeys(triple.subject_aliases))
            for id_, name, more in triple.answers:
                own = names.id_of(id_)
                called.setdefault(own, name)
                aliases[own].update(dict.fromkeys(more))
                rows.append((triple.subject_id, triple.relation, own))
        splits[split] = range(start, len(rows))
    graph = KnowledgeGraph.from_triples(rows, called, {id_: list(found) for id_, found in aliases.items()})
    return graph if splits["test"] == range(len(rows)) else replace(graph, splits=splits)
