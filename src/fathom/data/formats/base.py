"""The entry of a format in the registry, and the parts that all readers share."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fathom.base.reading import Faults, Json, Unreadable, first_few, opened, read_json, shown
from fathom.base.reading.bounds import NAME, PROMPT, Bound
from fathom.data.knowledge import KnowledgeGraph, Triple
from fathom.data.queries import CandidateSet, Query, QuerySet, Relation
from fathom.data.templates import SUBJECT, Template

ABOUT = "dataset.json"
"""Optional name, version and licence of a user's data set."""
_DATA = re.compile(r".+\.(jsonl?|tsv|txt|csv|parquet|nt|ttl)(\.gz)?")
_OF_BUILDS = {"entities.jsonl", "review.csv", "audit.csv"}
"""What ``fathom build`` writes next to a data set and its manifest."""
_NO_DATA = re.compile(r"(readme|licen[cs]e|copying|citation|notice|manifest|fetched)\b.*", re.IGNORECASE)


@dataclass(frozen=True)
class Format:
    """One way to lay out a data set in a folder or a file.

    :param expects: the files that identify it, in a few words, for messages.
    :param fits: returns whether a path has data of this format; it never raises.
    :param read: returns the query set of such a path; after a fault, which it adds, None.
    """

    name: str
    expects: str
    fits: Callable[[Path], bool]
    read: Callable[[Path, Faults], QuerySet | None]


@dataclass
class Draft:
    """A query set under construction, from the folder or file *path*."""

    path: Path
    faults: Faults
    relations: dict[str, Relation] = field(default_factory=dict)
    candidates: dict[str, CandidateSet] = field(default_factory=dict)
    queries: list[Query] = field(default_factory=list)

    def add(self, relation: Relation, space: CandidateSet, queries: Iterable[Query]) -> None:
        """Add a relation with its answer space and its queries."""
        self.relations[relation.id], self.candidates[space.name] = relation, space
        self.queries += queries

    def names(self) -> dict[str, str]:
        """Return the names of all candidates, by id."""
        return {id_: name for space in self.candidates.values() for id_, name in space.named()}

    def triples(self) -> list[Triple]:
        """Return head, relation and tail of each query and answer."""
        return [(query.subject_id, query.relation, answer) for query in self.queries for answer in query.gold]

    def graph(
        self, names: Mapping[str, str], aliases: Mapping[str, Iterable[str]] | None = None
    ) -> KnowledgeGraph | None:
        """Make a graph of the queries with a known subject; None if there is none."""
        triples = [triple for triple in self.triples() if triple[0]]
        return KnowledgeGraph.from_triples(triples, names, aliases) if triples else None

    def queryset(
        self, name: str, graph: Callable[[], KnowledgeGraph | None] = lambda: None, nothing: str = "", **about: Any
    ) -> QuerySet | None:
        """Return the query set, or None after a fault.

        :param graph: makes the graph of the facts; called only without faults.
        :param nothing: fault of data without queries or other faults.
        :param about: further fields of the query set: version, licence, subsets.
        """
        if nothing and not self.queries and not self.faults.found:
            self.faults.add(self.path, None, nothing)
        for space in self.candidates.values():
            self._refuse_long(f"a candidate of {space.name!r}", space.names, NAME)
        self._refuse_long("a subject", (query.subject for query in self.queries), NAME)
        self._refuse_long("a query", (sentence.text for query in self.queries for sentence in query.sentences), PROMPT)
        if self.faults.found:
            return None
        about |= {"graph": graph(), "notes": tuple(self.faults.notes)}
        return QuerySet(name, tuple(self.queries), self.candidates, self.relations, **about)

    def _refuse_long(self, what: str, texts: Iterable[str], bound: Bound) -> None:
        if max(map(len, texts), default=0) > bound.most:
            self.faults.add(self.path, None, f"{what}: {bound.fault()}")


def read_about(folder: Path, faults: Faults) -> Json:
    """Read :data:`ABOUT`: name, version, licence; {} without such a file."""
    file = folder / ABOUT
    content = read_object(file, faults, '{"name": "…", "version": "…", "licence": "…"}') if faults.there(file) else {}
    for name in ("name", "licence"):
        if not isinstance(content.get(name, ""), str):
            faults.add(file, None, f"'{name}' must be text, found {shown(content[name])}")
    return {name: str(content[name]) for name in ("name", "version", "licence") if name in content}


def note_unread(path: Path, faults: Faults) -> None:
    """Note the data files of a folder, next to those that were read, that were not; unreadable ones are faults."""
    folders = {path, *(file.parent for file in faults.read if file.is_relative_to(path))} if path.is_dir() else ()
    files = [file for folder in sorted(folders) for file in sorted(folder.iterdir())]
    unread = []
    for file in files:
        if file in faults.read or not _DATA.fullmatch(file.name) or _NO_DATA.fullmatch(file.name):
            continue
        if file.name in _OF_BUILDS and file.with_name("manifest.json").exists():
            continue
        try:
            with opened(file) as stream:
                stream.read(1)
            unread.append(str(file.relative_to(path)))
        except Unreadable as error:
            faults.keep(error)
    if unread:
        faults.note(path, None, f"not read: {first_few(unread, 10)}")


def read_object(file: Path, faults: Faults, expected: str, values: type = object) -> Json:
    """Read a JSON object with values of a type; return {} after a fault."""
    content = read_json(file, faults)
    if isinstance(content, dict) and all(isinstance(value, values) for value in content.values()):
        return content
    if content is not None:
        faults.add(file, 1, f"expected {expected}, found {shown(content)}")
    return {}


def texts_of(value: object) -> list[str] | None:
    """Return a list of texts unchanged, and None for any other value."""
    return value if isinstance(value, list) and all(isinstance(item, str) for item in value) else None


def check_answer_space(
    file: Path, line: int | None, where: str, ids: Sequence[str | None], labels: Sequence[str | None], faults: Faults
) -> None:
    """Refuse an answer space with empty or repeated answers, or more or fewer ids than labels."""
    if len(ids) != len(labels):
        faults.add(file, line, f"{where}: {len(ids)} answer ids for {len(labels)} answers")
    for place, label in enumerate(labels):
        if not isinstance(label, str) or not label.strip():
            faults.add(file, line, f"{where}: answer {place} is empty ({label!r})")
    for kind, values in (("answer", labels), ("answer id", ids)):
        for value, count in Counter(map(str, values)).items():
            if count > 1 and value.strip():
                faults.add(file, line, f"{where}: {kind} {value!r} is repeated in the answer space")


def check_templates(
    file: Path, line: int | None, texts: Iterable[str], faults: Faults, where: str = ""
) -> tuple[Template, ...]:
    """Make templates; their faults and notes are added. :param where: start of each message."""
    templates = tuple(map(Template, texts))
    for template in templates:
        for fault in template.faults():
            faults.add(file, line, f"{where}{fault}")
        if SUBJECT not in template.text:
            message = f"template {template.text!r} has no {SUBJECT}: it says nothing of the subject"
            faults.note(file, line, f"{where}{message}")
    return templates


def unscored_unless(
    is_scored: object, file: Path, line: int | None, why: str, faults: Faults, reason: str = "the subject has no name"
) -> str | None:
    """Return the reason of a query that cannot be scored and note it; None if it can.

    :param why: the reason in the words of the file.
    """
    if is_scored:
        return None
    faults.note(file, line, f"{why}: the query is kept as unscored")
    return reason
