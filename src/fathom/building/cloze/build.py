"""The build itself: two passes over the texts, and a folder that appears when it is complete.

The first pass only finds records and their ids, and so learns which of them a later record replaces or withdraws; the
second parses the others and keeps sentences. Both read a record at a time, and what grows with the input lies on disk.
"""

from __future__ import annotations

import json
import math
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, NamedTuple

import fathom
from fathom.building.cloze.corpora import (
    MEDLINE,
    Source,
    Troubles,
    check_encoding,
    corpus_of,
    digest_of,
    find_sources,
    units_of,
)
from fathom.building.cloze.documents import Document, Part, Unreadable
from fathom.building.cloze.entities import Entity, EntityList, read_entities
from fathom.building.cloze.medline import LANGUAGES
from fathom.building.cloze.occurrences import Occurrences, Resolved
from fathom.building.cloze.options import ClozeOptions
from fathom.building.cloze.review import REVIEW_FILE, Sample, write_review
from fathom.building.cloze.sentences import (
    BLOCKED,
    HYPHENATED,
    KEPT,
    LENGTH,
    NO_NAME,
    PLACES,
    SEVERAL,
    SHARED,
    Selector,
)
from fathom.errors import BadInput, all_of
from fathom.store.files import whole_folder, write_json

BLOCKED_FILE = Path(__file__).parent / "blocked.txt"
Progress = Callable[[int, int], None]

_BROKEN, _WITHDRAWN, _REPLACED = "cannot be read", "withdrawn by a later file", "replaced by a later record"
_LANGUAGE, _UNDATED, _EARLY, _EMPTY = "in another language", "without a date", "not after", "without text"
_SILENT = "name no entity"
_DOCUMENT_STEPS = (_BROKEN, _WITHDRAWN, _REPLACED, _LANGUAGE, _UNDATED, _EARLY, _EMPTY, _SILENT)
_DUPLICATE = "say the same as one above"
_SENTENCE_STEPS = (NO_NAME, SEVERAL, SHARED)
_TYPED_STEPS = (HYPHENATED, LENGTH, PLACES, BLOCKED, _DUPLICATE)


class Step(NamedTuple):
    """:param left: how many are left after it. :param by_type: the same by type of the entity, where that is known."""

    what: str
    dropped: int
    left: int
    by_type: dict[str, int] | None = None


class Frequencies(NamedTuple):
    """How often an entity of a type occurs, over those that do. :param sd: of all of them, not of a sample."""

    type: str
    sentences: int
    entities: int
    mean: float
    sd: float
    most: int
    least: int


class Built(NamedTuple):
    """:param steps: what was left after each. :param notes: what was passed over, or is odd."""

    out: Path
    steps: list[Step]
    frequencies: list[Frequencies]
    notes: list[str]


class _Blocked(NamedTuple):
    path: Path
    texts: list[str]


def build_cloze(
    inputs: Sequence[Path],
    entities: Sequence[str],
    out: Path,
    options: ClozeOptions | None = None,
    blocked: Path | None = None,
    progress: Progress | None = None,
) -> Built:
    """A data set of masked sentences from *inputs*, in a new folder *out*.

    :param entities: files, ``type=file`` or a file named after its type.
    :param blocked: a list of sub-strings instead of the paper's. :param progress: told (bytes read, bytes to read).
    :raises BadInput: everything that is wrong with the arguments, or no sentence is left (and nothing is written).
    """
    options = options or ClozeOptions()
    notes: list[str] = []
    sources, listed, words, *_ = all_of(
        lambda: find_sources(inputs, notes),
        lambda: read_entities(entities, options),
        lambda: _blocked_texts(blocked or BLOCKED_FILE),
        lambda: check_encoding(options.encoding),
        lambda: _check_out(out),
    )
    _check_language(sources, options)
    builder = _Builder(sources, listed, words.texts, options, progress or (lambda done, total: None))
    notes += listed.notes + _shared_names(builder.selector.matcher.ambiguous, listed.entities, options)
    with whole_folder(out) as folder:
        rows = builder.collect(folder / "work")
        steps = builder.steps()
        if not steps[-1].left:
            raise BadInput(_emptied(steps, builder.troubles.notes()))
        frequencies = builder.write(folder, rows)
        shutil.rmtree(folder / "work")
        notes += builder.troubles.notes() + builder.without()
        write_json(folder / "manifest.json", builder.manifest(words, steps, frequencies, notes))
    return Built(out, steps, frequencies, notes)


class _Builder:
    def __init__(
        self,
        sources: list[Source],
        listed: EntityList,
        blocked: Sequence[str],
        options: ClozeOptions,
        progress: Progress,
    ) -> None:
        self.sources, self.listed, self.options = sources, listed, options
        self.selector = Selector(listed.entities, options, blocked)
        self.troubles = Troubles()
        self._progress = progress
        self._bytes = [source.path.stat().st_size for source in sources]
        self._digests: list[str] = []
        self._records: Counter[str] = Counter()
        self._documents: Counter[str] = Counter()
        self._sentences: Counter[str] = Counter()
        self._typed: Counter[tuple[str, str]] = Counter()
        self._found: Counter[int] = Counter()

    def collect(self, work: Path) -> Path:
        """Both passes. :param work: a folder for what lies on disk meanwhile. :returns: sentences, one per line."""
        work.mkdir()
        latest = self._latest(work / "records")
        rows = work / "rows.jsonl"
        said = Occurrences(work / "sentences")
        with rows.open("w", encoding="utf-8") as file:
            for number, document in self._documents_of(latest):
                self._keep(number, document, file, said)
        self._drop_repeated(rows, said)
        return rows.with_suffix(".unique")

    def _latest(self, path: Path) -> Resolved:
        """Which records count."""
        records = Occurrences(path)
        for number, source in enumerate(self.sources):
            self._digests.append(digest_of(source.path))
            corpus = corpus_of(source, self.options)
            for unit in units_of(source, corpus):
                keys = corpus.keys(unit)
                records.add(*keys.ids, deleted=keys.deleted)
            self._progress(sum(self._bytes[: number + 1]), 2 * sum(self._bytes))
        return records.resolve("last")

    def _documents_of(self, latest: Resolved) -> Iterator[tuple[int, Document]]:
        """(number of the source, document) of all that are asked for; the others are counted by reason."""
        place = -1
        for number, source in enumerate(self.sources):
            corpus = corpus_of(source, self.options)
            for unit in units_of(source, corpus, self.troubles):
                place += 1
                if latest.beaten[place]:
                    self._drop_document(source, _WITHDRAWN if latest.withdrawn[place] else _REPLACED)
                    continue
                try:
                    if unit.fault:
                        raise Unreadable(unit.fault)
                    document = corpus.document(unit)
                except Unreadable as error:
                    self.troubles.add(source, f"{corpus.place} {unit.place:,}", f"record left out: {error}")
                    self._drop_document(source, _BROKEN)
                    continue
                if document is None:
                    continue
                if reason := self._unwanted(document):
                    self._drop_document(source, reason)
                    continue
                self._records[source.name] += 1
                yield number, document
            self._progress(sum(self._bytes) + sum(self._bytes[: number + 1]), 2 * sum(self._bytes))

    def _drop_document(self, source: Source, reason: str) -> None:
        self._records[source.name] += 1
        self._documents[reason] += 1

    def _unwanted(self, document: Document) -> str:
        options = self.options
        if document.languages and not options.any_language and LANGUAGES[options.language] not in document.languages:
            return _LANGUAGE
        if options.after is not None and not document.date:
            return _UNDATED
        return _EARLY if options.after is not None and document.date <= options.after else ""

    def _keep(self, number: int, document: Document, file: IO[str], said: Occurrences) -> None:
        """Sentences of a document that may become queries, one per line."""
        before = 0
        reason = _EMPTY
        for part in self._parts(number, document):
            sentences = self.selector.sentences(part.text)
            reason = KEPT if sentences else _SILENT if reason == _EMPTY else reason
            for sentence in sentences:
                if sentence.entity is None:
                    self._sentences[sentence.outcome] += 1
                    continue
                self._typed[self.listed.entities[sentence.entity].type, sentence.outcome] += 1
                if sentence.outcome == KEPT:
                    place = (document.id, document.date, before + sentence.offset, part.section, number)
                    row = (sentence.entity, sentence.masked, sentence.surface, *place)
                    file.write(json.dumps(row, ensure_ascii=False) + "\n")
                    own = sentence.surface.lower() == self.listed.entities[sentence.entity].name.lower()
                    # Of sentences that say the same, one with the answer's own name is asked by default.
                    said.add((f"{sentence.entity} {sentence.masked.lower()}", 1 if own else 2))
            before += len(part.text) + 1
        self._documents[reason] += 1

    def _parts(self, number: int, document: Document) -> Iterator[Part]:
        """A long text can turn out to be none in the middle: what stands before counts."""
        try:
            yield from document.parts
        except Unreadable as error:
            self.troubles.add(self.sources[number], "text", str(error))

    def _drop_repeated(self, rows: Path, said: Occurrences) -> None:
        repeated = said.resolve("first").beaten
        with rows.open(encoding="utf-8") as file, rows.with_suffix(".unique").open("w", encoding="utf-8") as unique:
            for again, line in zip(repeated, file, strict=True):
                entity = json.loads(line)[0]
                if again:
                    type_ = self.listed.entities[entity].type
                    self._typed[type_, KEPT] -= 1
                    self._typed[type_, _DUPLICATE] += 1
                else:
                    self._found[entity] += 1
                    unique.write(line)

    def steps(self) -> list[Step]:
        """From all records to the sentences that are left."""
        left = sum(self._documents.values())
        steps = [Step("records", 0, left)]
        for reason in _DOCUMENT_STEPS:
            dropped = self._documents[reason]
            left -= dropped
            what = f"{reason} {self.options.after}" if reason == _EARLY else reason
            if dropped or reason == _SILENT:
                steps.append(Step(what, dropped, left))
        left = sum(self._sentences.values()) + sum(self._typed.values())
        steps.append(Step("sentences of paragraphs that name an entity", 0, left))
        by_type = dict.fromkeys(self.listed.types, 0)
        for (type_, _), count in self._typed.items():
            by_type[type_] += count
        for reason in _SENTENCE_STEPS:
            left -= self._sentences[reason]
            steps.append(Step(reason, self._sentences[reason], left, dict(by_type) if reason == SHARED else None))
        for reason in _TYPED_STEPS:
            lost = {type_: self._typed[type_, reason] for type_ in by_type}
            by_type = {type_: count - lost[type_] for type_, count in by_type.items()}
            if any(lost.values()) or reason in (BLOCKED, _DUPLICATE):
                steps.append(Step(reason, sum(lost.values()), sum(by_type.values()), by_type))
        return steps

    def without(self) -> list[str]:
        """Files without a record, and types of which nothing is left."""
        empty = [f"{source.name}: no records" for source in self.sources if not self._records[source.name]]
        found = {self.listed.entities[entity].type for entity in self._found}
        gone = [type_ for type_ in self.listed.types if type_ not in found]
        return [*empty, *(f"{type_}: no sentence is left: not in the data set" for type_ in gone)]

    def write(self, folder: Path, rows: Path) -> list[Frequencies]:
        """The data set in Fathom's own format, the sample for the reviewers, and how often each entity occurs."""
        entities = self.listed.entities
        samples = {type_: Sample(self.options.sample, f"{self.options.seed} {type_}") for type_ in self.listed.types}
        numbers: Counter[str] = Counter()
        with (
            rows.open(encoding="utf-8") as lines,
            (folder / "facts.jsonl").open("w", encoding="utf-8", newline="\n") as file,
        ):
            for line in lines:
                entity, *rest = json.loads(line)
                fact = self._fact(entities[entity], numbers[entities[entity].type], rest)
                numbers[entities[entity].type] += 1
                file.write(json.dumps(fact, ensure_ascii=False) + "\n")
                samples[entities[entity].type].add(_for_review(fact))
        _write_lines(folder / "relations.jsonl", self._relations())
        _write_lines(folder / "entities.jsonl", self._counted())
        write_review(folder / REVIEW_FILE, (row for sample in samples.values() for row in sample.in_order()))
        return self._frequencies()

    def _fact(self, entity: Entity, number: int, row: list[Any]) -> dict[str, Any]:
        masked, surface, document, date, offset, section, source = row
        other_name = surface.lower() != entity.name.lower()
        groups = {"document": document, "date": date, "offset": str(offset), "section": section}
        return {
            "id": f"{entity.type}/{number}",
            "relation": entity.type,
            "answer": entity.name,
            "sentences": [{"text": masked, "surface": surface} if other_name else masked],
            "groups": {name: value for name, value in groups.items() if value}
            | {"source": self.sources[source].name, "mention": surface},
        }

    def _relations(self) -> Iterator[dict[str, Any]]:
        for type_ in self.listed.types:
            of_type = [(number, entity) for number, entity in enumerate(self.listed.entities) if entity.type == type_]
            found = [entity for number, entity in of_type if self._found[number]]
            if found:
                chosen = found if self.options.candidates == "found" else [entity for _, entity in of_type]
                candidates = [e.name if e.id == e.name else {"id": e.id, "name": e.name} for e in chosen]
                yield {"relation": type_, "candidates": candidates}

    def _counted(self) -> Iterator[dict[str, Any]]:
        for number, entity in enumerate(self.listed.entities):
            yield {"type": entity.type, "id": entity.id, "name": entity.name, "sentences": self._found[number]}

    def _frequencies(self) -> list[Frequencies]:
        counts: dict[str, list[int]] = {}
        for number, count in self._found.items():
            counts.setdefault(self.listed.entities[number].type, []).append(count)
        return [_frequencies_of(type_, counts[type_]) for type_ in self.listed.types if type_ in counts]

    def manifest(
        self, words: _Blocked, steps: list[Step], frequencies: list[Frequencies], notes: list[str]
    ) -> dict[str, Any]:
        """What the same folder can be made from again; no times and no names of machines."""
        libraries = ("lxml", "ahocorasick-rs", "sentencex")
        return {
            "command": "fathom build cloze",
            "fathom": fathom.__version__,
            "libraries": {name: version(name) for name in libraries},
            "options": self.options.model_dump(),
            "inputs": [
                {
                    "name": source.name,
                    "kind": source.kind,
                    "bytes": size,
                    "sha256": digest,
                    "records": self._records[source.name],
                    "troubles": self.troubles.count[source.name],
                }
                for source, size, digest in zip(self.sources, self._bytes, self._digests, strict=True)
            ],
            "entities": [
                {"name": about["path"].name, "sha256": digest_of(about["path"])}
                | {key: value for key, value in about.items() if key != "path"}
                for about in self.listed.about
            ],
            "blocked": words.texts,
            "steps": [{name: value for name, value in step._asdict().items() if value is not None} for step in steps],
            "frequencies": [found._asdict() for found in frequencies],
            "notes": notes,
        }


def _blocked_texts(path: Path) -> _Blocked:
    """One sub-string per line, spaces included, in quotes if you like; lines with ``#`` are remarks.

    :raises BadInput: it cannot be read, or a line is an unfinished quotation.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"--blocked {path}: cannot be read: {error}; expected one sub-string per line") from error
    texts, faults = [], []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        if not line.startswith('"'):
            texts.append(line)
            continue
        try:
            texts.append(json.loads(line))
        except json.JSONDecodeError as error:
            faults.append(f'--blocked {path}:{number}: expected "text" in two quotes, found {line!r} ({error.msg})')
    if not all(texts):
        faults.append(f'--blocked {path}: "" is part of every sentence: remove it')
    if faults:
        raise BadInput(faults)
    return _Blocked(path, texts)


def _check_out(out: Path) -> None:
    if out.exists():
        raise BadInput(f"--out {out}: exists already; name a new folder")


def _check_language(sources: list[Source], options: ClozeOptions) -> None:
    if options.any_language or options.language in LANGUAGES or all(source.kind != MEDLINE for source in sources):
        return
    raise BadInput(
        f"--language {options.language}: PubMed's sign for it is not known; there are {', '.join(sorted(LANGUAGES))}; "
        "--any-language takes all records"
    )


def _shared_names(ambiguous: dict[str, list[int]], entities: Sequence[Entity], options: ClozeOptions) -> list[str]:
    if not ambiguous:
        return []
    name, whose = next(iter(ambiguous.items()))
    of = ", ".join(f"{entities[number].name} ({entities[number].type})" for number in whose)
    rule = "sentences that name them are left out" if options.ambiguous == "drop" else "the first listed is meant"
    return [f"{len(ambiguous):,} names are of several entities, as {name!r} is of {of}: {rule}"]


def _emptied(steps: list[Step], troubles: list[str]) -> list[str]:
    """Which step left nothing, and what the others left."""
    empty = next(number for number, step in enumerate(steps) if not step.left)
    at = steps[empty].what if empty else "there is no record in the input"
    said = f"nothing was left after {at!r} ({steps[empty].dropped:,} of {steps[empty - 1].left:,})" if empty else at
    counted = [f"  {step.left:>9,}  after: {step.what}" for step in steps[: empty + 1]]
    return [f"no sentence is left: {said}; nothing is written", *counted, *(f"  {line}" for line in troubles)]


def _for_review(fact: dict[str, Any]) -> dict[str, Any]:
    sentence = fact["sentences"][0]
    text = sentence if isinstance(sentence, str) else sentence["text"]
    return {"id": fact["id"], "type": fact["relation"], "sentence": text, "answer": fact["groups"]["mention"]}


def _frequencies_of(type_: str, counts: list[int]) -> Frequencies:
    mean = sum(counts) / len(counts)
    sd = math.sqrt(sum((count - mean) ** 2 for count in counts) / len(counts))
    return Frequencies(type_, sum(counts), len(counts), mean, sd, max(counts), min(counts))


def _write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
