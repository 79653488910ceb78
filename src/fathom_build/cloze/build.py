"""The build of a cloze data set: two passes over the texts, and a folder that appears when it is complete.

The first pass only identifies records, and determines which of them a later record replaces or withdraws. The second
parses the others and keeps sentences. Both read one record at a time, and what grows with the input is kept on disk.
"""

from __future__ import annotations

import itertools
import shutil
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from statistics import fmean, pstdev
from tempfile import TemporaryDirectory
from typing import NamedTuple

from fathom._version import VERSION
from fathom.base.errors import BadInput, all_of, refuse
from fathom.base.progress import Progress, unseen
from fathom.base.reading import Json
from fathom.data.formats.native import write_native
from fathom.data.queries import ANSWERABLE, NGRAM, NGRAM_AMONG_ALL
from fathom.results.tables import Table
from fathom.store.files import write_json, write_json_lines
from fathom.store.outputs import obstacles, signature_of, whole_folder
from fathom_build.cloze import corpora
from fathom_build.cloze.documents import LANGUAGES, Corpus, Document, Paragraph, Unit, UnreadableDocument
from fathom_build.cloze.entities import EntityList, read_entities, split_given
from fathom_build.cloze.rows import Neighbours, Occurrences, Row, SentenceRows, Supersession, is_own_name, rows_in
from fathom_build.cloze.sentences import (
    ADDRESS,
    BLOCKED,
    BLOCKED_FILE,
    FRAGMENT,
    HYPHENATED,
    KEPT,
    LEAKS,
    MARKED,
    NO_NAME,
    OTHER_WORD,
    PART,
    SEVERAL,
    SHARED,
    SHORT,
    Selector,
    read_blocked,
)
from fathom_build.options import ClozeBuildOptions, ClozeFiles
from fathom_build.sheets import REVIEW_FILE, SENTENCES, Reservoir, write_sheet

BROKEN, WITHDRAWN, REPLACED = "cannot be read", "withdrawn by a later file", "replaced by a later record"
LANGUAGE, UNDATED, EARLY, EMPTY = "in another language", "without a date", "not after", "without text"
SILENT = "name no entity"
_DOCUMENT_STEPS = (BROKEN, WITHDRAWN, REPLACED, LANGUAGE, UNDATED, EARLY, EMPTY, SILENT)
ORDINARY = "the name is mostly an ordinary word here"
DUPLICATE = "say the same as one above"
WITHOUT_MODEL = "can be answered by neighbouring words alone"
_SENTENCE_STEPS = (NO_NAME, SEVERAL, SHARED)
QUALITY_STEPS = (HYPHENATED, PART, FRAGMENT, ADDRESS, OTHER_WORD, *LEAKS.values(), ORDINARY)
_TYPED_STEPS = (MARKED, SHORT, BLOCKED, *QUALITY_STEPS, DUPLICATE, WITHOUT_MODEL)

_SHOWN = 3
"""Examples of each reason."""


class CountedStep(NamedTuple):
    """One reason to drop records or sentences, and how many are left after it, if known also by type."""

    what: str
    dropped: int
    left: int
    by_type: dict[str, int] | None = None


class Example(NamedTuple):
    """A sentence that was dropped, with the masked words."""

    document: str
    sentence: str
    answer: str


class Frequencies(NamedTuple):
    """Frequencies of the entities of a type that occur; ``sd`` is the population standard deviation."""

    type: str
    sentences: int
    entities: int
    mean: float
    sd: float
    most: int
    least: int


@dataclass
class Counts:
    """Numbers of records and sentences by outcome.

    :param documents: by outcome.
    :param sentences: those that do not name exactly one entity, by outcome.
    :param typed: those that name one entity, by its type and the outcome.
    :param examples: the first that were dropped, by outcome.
    """

    documents: Counter[str] = field(default_factory=Counter)
    sentences: Counter[str] = field(default_factory=Counter)
    typed: Counter[tuple[str, str]] = field(default_factory=Counter)
    examples: dict[str, list[Example]] = field(default_factory=dict)

    def show(self, outcome: str, example: Example) -> None:
        """Keep an example, if it is one of the first of its outcome."""
        shown = self.examples.setdefault(outcome, [])
        if len(shown) < _SHOWN:
            shown.append(example)

    def notes(self) -> list[str]:
        """Report dropped sentences of poor quality, each kind with its first example."""
        lost: Counter[str] = Counter()
        for (_, outcome), count in self.typed.items():
            lost[outcome] += count
        return [
            f"{outcome}: {lost[outcome]:,}, such as {shown[0].sentence!r} ({shown[0].answer})"
            for outcome in QUALITY_STEPS
            if (shown := self.examples.get(outcome)) and lost[outcome]
        ]

    def steps(self, types: Sequence[str], after: str | None) -> list[CountedStep]:
        """List the steps from all records to the remaining sentences. :param after: the day of :data:`EARLY`."""
        left = sum(self.documents.values())
        steps = [CountedStep("records", 0, left)]
        for reason in _DOCUMENT_STEPS:
            dropped = self.documents[reason]
            left -= dropped
            if dropped or reason == SILENT:
                steps.append(CountedStep(f"{reason} {after}" if reason == EARLY else reason, dropped, left))
        left = sum(self.sentences.values()) + sum(self.typed.values())
        steps.append(CountedStep("sentences of paragraphs that name an entity", 0, left))
        by_type = dict.fromkeys(types, 0)
        for (type_, _), count in self.typed.items():
            by_type[type_] += count
        for reason in _SENTENCE_STEPS:
            left -= self.sentences[reason]
            steps.append(CountedStep(reason, self.sentences[reason], left, dict(by_type) if reason == SHARED else None))
        for reason in _TYPED_STEPS:
            lost = {type_: self.typed[type_, reason] for type_ in by_type}
            by_type = {type_: count - lost[type_] for type_, count in by_type.items()}
            if any(lost.values()) or reason in (BLOCKED, DUPLICATE):
                steps.append(CountedStep(reason, sum(lost.values()), sum(by_type.values()), by_type))
        return steps


def explain_empty(steps: list[CountedStep], troubles: list[str]) -> list[str]:
    """Report which step left nothing, and how many the others left."""
    empty = next(number for number, step in enumerate(steps) if not step.left)
    at = steps[empty].what if empty else "there is no record in the input"
    reason = f"nothing was left after {at!r} ({steps[empty].dropped:,} of {steps[empty - 1].left:,})" if empty else at
    counted = [f"  {step.left:>9,}  after: {step.what}" for step in steps[: empty + 1]]
    return [f"no sentence is left: {reason}; nothing is written", *counted, *(f"  {line}" for line in troubles)]


class BuiltCloze(NamedTuple):
    """A finished data set, what each step left, and notes on skipped and odd input."""

    out: Path
    steps: list[CountedStep]
    frequencies: list[Frequencies]
    notes: list[str]

    def tables(self) -> list[Table]:
        """Show how many were left after each step, and how often entities occur."""
        types = list(self.steps[-1].by_type or {})
        several = types if len(types) > 1 else []
        rows = tuple(
            (step.what, step.dropped or None, step.left, *((step.by_type or {}).get(type_) for type_ in several))
            for step in self.steps
        )
        columns = ("type", "sentences", "entities", "mean", "sd", "max", "min")
        formats = dict.fromkeys(("mean", "sd"), ".2f")
        return [
            Table(("step", "left out", "left", *several), rows, "from records to sentences"),
            Table(columns, tuple(self.frequencies), "sentences per entity", formats=formats),
        ]


_SAMPLE = 1 << 25
"""Unpacked bytes of an estimate."""
_DISK = 2.5
"""Size of the sorted sentences with the data set made of them, as a multiple of the former."""
_EMPTY = 20
"""How many files without a record are listed."""


def build_cloze(
    files: ClozeFiles, options: ClozeBuildOptions = ClozeBuildOptions(), progress: Progress = unseen
) -> BuiltCloze:
    """Build a data set of masked sentences in a new folder.

    :param progress: called with (bytes read, bytes to read).
    :raises BadInput: with all faults of the options and files, or no sentence is left; nothing is written.
    :raises MadeBefore: the same call has made the folder.
    """
    builder, signature, notes = _checked(files, options, progress)
    with whole_folder(files.out, signature) as folder:
        rows = builder.collect(folder / "work")
        steps = builder.counts.steps(builder.listed.types, options.after)
        if not steps[-1].left:
            raise BadInput(explain_empty(steps, [*builder.troubles.notes(), *builder.without_records()]))
        frequencies = builder.write(folder, rows)
        shutil.rmtree(folder / "work")
        notes += builder.guessable() + builder.troubles.notes() + builder.without_records()
        notes += builder.without_sentences() + builder.counts.notes()
        write_json(folder / "manifest.json", builder.manifest(steps, frequencies, notes))
    return BuiltCloze(files.out, steps, frequencies, notes)


def _checked(files: ClozeFiles, options: ClozeBuildOptions, progress: Progress) -> tuple[_Builder, Json, list[str]]:
    """Return the builder, the signature of the build, and notes. :raises BadInput: with all faults."""
    notes: list[str] = []
    blocked = files.blocked or BLOCKED_FILE
    read_from = [*files.input, blocked, *(split_given(entity_list)[1] for entity_list in files.entities)]
    signature = signature_of(
        "build cloze", options.model_dump(mode="json"), files=read_from, entities=list(files.entities)
    )
    sources, listed, blocked_texts, *_ = all_of(
        lambda: corpora.find_sources(files.input, notes),
        lambda: read_entities(files.entities, options),
        lambda: read_blocked(blocked),
        lambda: refuse(obstacles(files.out, signature)),
    )
    coded = any(source.kind in (corpora.MEDLINE, corpora.JATS) for source in sources)
    if coded and options.language not in LANGUAGES:
        languages = ", ".join(sorted(LANGUAGES))
        raise BadInput(f"--language {options.language}: PubMed's code for it is unknown; expected one of {languages}")
    builder = _Builder(sources, listed, blocked_texts, options, progress)
    return builder, signature, notes + listed.notes + builder.selector.finder.notes()


def forecast_cloze(files: ClozeFiles, options: ClozeBuildOptions = ClozeBuildOptions()) -> Table:
    """Estimate time and space on the disk from a build of the beginnings of some files. Nothing is left on the disk.

    :raises BadInput: as the build would, before it reads.
    """
    started = time.process_time()
    whole, *_ = _checked(files, options, unseen)
    prepared = time.process_time()
    with TemporaryDirectory() as name:
        folder = Path(name)
        copies = corpora.copy_beginnings(whole.sources, folder, _SAMPLE)
        share = sum(copy.path.stat().st_size for copy in copies) / max(1, whole.size)
        work, builder = folder / "work", _Builder(copies, whole.listed, whole.blocked, options, unseen)
        read_from = time.process_time()
        builder.collect(work)
        seconds = prepared - started + (time.process_time() - read_from) / share
        disk = _DISK * sum(file.stat().st_size for file in work.iterdir()) / share
    parent = next(parent for parent in files.out.absolute().parents if parent.exists())
    row = (len(whole.sources), whole.size / 1e9, seconds / 60, disk / 1e9, shutil.disk_usage(parent).free / 1e9)
    columns = ("files", "GB to read", "minutes", "GB on the disk", "GB free")
    note = f"estimated from {100 * share:.1f} % of the bytes"
    return Table(columns, (row,), "estimates", notes=(note,), formats={"minutes": ".2g", "GB on the disk": ".2g"})


class _Builder:
    def __init__(
        self,
        sources: list[corpora.TextFile],
        listed: EntityList,
        blocked: Sequence[str],
        options: ClozeBuildOptions,
        progress: Progress,
    ) -> None:
        self.sources, self.listed, self.blocked, self.options = sources, listed, blocked, options
        self.selector = Selector(listed.entities, options, blocked)
        self.troubles = corpora.Troubles()
        self._progress = progress
        self._bytes = [source.path.stat().st_size for source in sources]
        self.size = sum(self._bytes)
        self._digests: list[str] = []
        self._records: Counter[str] = Counter()
        self.counts = Counts()
        self._sentences: Counter[int] = Counter()
        self._guessable: Counter[str] = Counter()

    def collect(self, work: Path) -> Path:
        """Run both passes with temporary files in *work*. :returns: queries, one per line."""
        work.mkdir()
        latest = self._latest(work / "records")
        neighbours = Neighbours(work / "neighbours")
        rows = SentenceRows(work, self.listed.entities)
        with closing(rows):
            self._read(latest, rows, neighbours)
        self._drop(DUPLICATE, rows.drop_repeated())
        rows.replace(self._with_proper_answers(rows_in(rows.queries)))
        if self._sentences.total():
            rows.replace(self._judged(rows.queries, neighbours))
        return rows.queries

    def _drop(self, reason: str, rows: Iterable[Row]) -> None:
        """Move kept sentences to the outcome *reason*."""
        for row in rows:
            type_ = self.listed.entities[row.entity].type
            self.counts.typed[type_, KEPT] -= 1
            self.counts.typed[type_, reason] += 1
            self.counts.show(reason, Example(row.document, row.masked, row.surface))

    def _with_proper_answers(self, rows: Iterator[Row]) -> Iterator[Row]:
        """Drop sentences of proper names that are mostly ordinary words in these texts, and count the others."""
        ordinary: Collection[int] = self.selector.finder.find_ordinary() if self.options.quality else ()
        for row in rows:
            if row.entity in ordinary:
                self._drop(ORDINARY, [row])
            else:
                self._sentences[row.entity] += 1
                yield row

    def _judged(self, queries: Path, neighbours: Neighbours) -> Iterator[Row]:
        """Add the n-gram model's ranks to queries; drop those it answers if the option says so."""
        pools = [self._candidates(type_) for type_ in self.listed.types]
        if len(pools) > 1:
            pools.append([number for pool in pools for number in pool])
        ranks = neighbours.model().ranks(rows_in(queries), pools)
        for row, row_ranks in zip(rows_in(queries), ranks, strict=True):
            if row_ranks[0].pool == 1:  # there is no distractor
                yield row
                continue
            if row_ranks[0].last == 1:
                self._guessable[self.listed.entities[row.entity].type] += 1
                if self.options.exclude_guessable:
                    self._drop(WITHOUT_MODEL, [row])
                    self._sentences[row.entity] -= 1
                    continue
                self.counts.show(WITHOUT_MODEL, Example(row.document, row.masked, row.surface))
            yield row._replace(ngram=[str(rank) for rank in row_ranks])

    def _candidates(self, type_: str) -> list[int]:
        return [n for n, entity in enumerate(self.listed.entities) if entity.type == type_ and self._sentences[n]]

    def _latest(self, path: Path) -> Supersession:
        records = Occurrences(path)
        for number, source in enumerate(self.sources):
            self._digests.append(corpora.digest_of(source.path))
            corpus = corpora.corpus_of(source, self.options)
            for unit in corpora.units_of(source, corpus):
                keys = corpus.keys(unit)
                records.add(*keys.ids, deleted=keys.deleted)
            self._progress(sum(self._bytes[: number + 1]), 2 * self.size)
        return records.resolve("last")

    def _read(self, latest: Supersession, rows: SentenceRows, neighbours: Neighbours) -> None:
        places = itertools.count()
        for number, source in enumerate(self.sources):
            corpus = corpora.corpus_of(source, self.options)
            for unit in corpora.units_of(source, corpus, self.troubles):
                place = next(places)
                if latest.beaten[place]:
                    outcome = WITHDRAWN if latest.withdrawn[place] else REPLACED
                else:
                    outcome = self._outcome(number, corpus, unit, rows, neighbours)
                if outcome:
                    self._records[source.name] += 1
                    self.counts.documents[outcome] += 1
            self._progress(self.size + sum(self._bytes[: number + 1]), 2 * self.size)

    def _outcome(self, number: int, corpus: Corpus, unit: Unit, rows: SentenceRows, neighbours: Neighbours) -> str:
        """Return the outcome of a record, "" for a list of deletions."""
        try:
            if unit.fault:
                raise UnreadableDocument(unit.fault)
            document = corpus.document(unit)
        except UnreadableDocument as error:
            self.troubles.add(self.sources[number], f"{corpus.place} {unit.place:,}", f"record skipped: {error}")
            return BROKEN
        if document is None:
            return ""
        return self._unwanted(document) or self._keep(number, document, rows, neighbours)

    def _unwanted(self, document: Document) -> str:
        options = self.options
        if document.languages and LANGUAGES[options.language] not in document.languages:
            return LANGUAGE
        if options.after is not None and not document.date:
            return UNDATED
        return EARLY if options.after is not None and document.date <= options.after else ""

    def _keep(self, number: int, document: Document, rows: SentenceRows, neighbours: Neighbours) -> str:
        """Store the sentences of a document that may become queries. :returns: the outcome of the document."""
        before = 0
        outcome = EMPTY
        self.selector.begin()
        for part in self._parts(number, document):
            sentences = self.selector.sentences(part.text)
            outcome = KEPT if sentences else SILENT if outcome == EMPTY else outcome
            for sentence in sentences:
                if sentence.entity is None:
                    self.counts.sentences[sentence.outcome] += 1
                    continue
                self.counts.typed[self.listed.entities[sentence.entity].type, sentence.outcome] += 1
                neighbours.add(sentence.entity, sentence.masked, document.id)
                if sentence.outcome == KEPT:
                    origin = (document.id, document.date, before + sentence.offset, part.section, number)
                    rows.add(Row(sentence.entity, sentence.masked, sentence.surface, *origin))
                else:
                    self.counts.show(sentence.outcome, Example(document.id, sentence.masked, sentence.surface))
            before += len(part.text) + 1
        return outcome

    def _parts(self, number: int, document: Document) -> Iterator[Paragraph]:
        """Read paragraphs; of a text that is damaged in the middle, those before."""
        try:
            yield from document.parts
        except UnreadableDocument as error:
            self.troubles.add(self.sources[number], "text", str(error))

    def without_records(self) -> list[str]:
        """Report files without a record."""
        empty = [source.name for source in self.sources if not self._records[source.name]]
        more = [f"{len(empty) - _EMPTY:,} more files: no records"] if len(empty) > _EMPTY else []
        return [*(f"{name}: no records" for name in empty[:_EMPTY]), *more]

    def without_sentences(self) -> list[str]:
        """Report types without a sentence."""
        gone = [type_ for type_ in self.listed.types if not self._candidates(type_)]
        return [f"{type_}: no sentence is left: not in the data set" for type_ in gone]

    def guessable(self) -> list[str]:
        """Report how many sentences an n-gram model answers, by type, and how many it does not."""
        left: Counter[str] = Counter()
        for number, sentences in self._sentences.items():
            left[self.listed.entities[number].type] += sentences
        excluded = self.options.exclude_guessable
        asked = {type_: count + self._guessable[type_] * excluded for type_, count in left.items()}
        if not self._guessable:
            return []
        shares = ", ".join(
            f"{self._guessable[type_]:,} of {count:,} {type_}" for type_, count in asked.items() if count
        )
        done = "excluded" if excluded else "kept and marked"
        rest = sum(asked.values()) - self._guessable.total()
        example = self.counts.examples[WITHOUT_MODEL][0]
        such = f"such as {example.sentence!r} ({example.answer})"
        return [f"{WITHOUT_MODEL} ({done}): {shares}; {rest:,} without these; {such}"]

    def write(self, folder: Path, rows: Path) -> list[Frequencies]:
        """Write the data set, the sample for the reviewers, and how often each entity occurs."""
        samples = {type_: Reservoir(self.options.sample, f"{self.options.seed} {type_}") for type_ in self.listed.types}
        types = [type_ for type_ in self.listed.types if self._candidates(type_)]
        places = {folder / type_: [type_] for type_ in types} if self.options.each_type else {folder: types}
        for place, place_types in places.items():
            place.mkdir(exist_ok=True)
            write_native(place, self._facts(rows, samples, place_types), self._relations(place_types))
        counted = (
            {"type": entity.type, "id": entity.id, "name": entity.name, "sentences": self._sentences[number]}
            for number, entity in enumerate(self.listed.entities)
        )
        write_json_lines(folder / "entities.jsonl", counted)
        write_sheet(folder / REVIEW_FILE, SENTENCES, (row for sample in samples.values() for row in sample.in_order()))
        by_type = {type_: [self._sentences[n] for n in self._candidates(type_)] for type_ in types}
        return [
            Frequencies(type_, sum(counts), len(counts), fmean(counts), pstdev(counts), max(counts), min(counts))
            for type_, counts in by_type.items()
        ]

    def _facts(self, rows: Path, samples: Mapping[str, Reservoir], types: Collection[str]) -> Iterator[Json]:
        """Return facts of some types, and offer each to the sample of its type."""
        numbers: Counter[str] = Counter()
        for row in (row for row in rows_in(rows) if self.listed.entities[row.entity].type in types):
            entity = self.listed.entities[row.entity]
            id_ = f"{entity.type}/{numbers[entity.type]}"
            numbers[entity.type] += 1
            samples[entity.type].add({"id": id_, "type": entity.type, "sentence": row.masked, "answer": row.surface})
            is_main = is_own_name(row.surface, entity)
            groups = {"document": row.document, "date": row.date, "offset": str(row.offset), "section": row.section}
            yield {
                "id": id_,
                "relation": entity.type,
                "answer": entity.name,
                "sentences": [row.masked if is_main else {"text": row.masked, "surface": row.surface}],
                "groups": {name: value for name, value in groups.items() if value}
                | {"source": self.sources[row.source].name, "mention": row.surface}
                | _by_ngrams(row),
            }

    def _relations(self, types: Collection[str]) -> Iterator[Json]:
        for type_ in types:
            entities = [self.listed.entities[number] for number in self._candidates(type_)]
            candidates = [e.name if e.id == e.name else {"id": e.id, "name": e.name} for e in entities]
            yield {"relation": type_, "candidates": candidates}

    def manifest(self, steps: list[CountedStep], frequencies: list[Frequencies], notes: list[str]) -> Json:
        """Return what the folder can be built from again, without times and names of machines."""
        kinds = {source.kind for source in self.sources}
        docutils = ["docutils"] if corpora.RESTRUCTURED in kinds else []
        libraries = ["lxml", "ahocorasick-rs", "markdown-it-py", "sentencex", *docutils]
        return {
            "command": "fathom build cloze",
            "fathom": VERSION,
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
                {"name": about["path"].name, "sha256": corpora.digest_of(about["path"])}
                | {key: value for key, value in about.items() if key != "path"}
                for about in self.listed.about
            ],
            "blocked": list(self.blocked),
            "steps": [{name: value for name, value in step._asdict().items() if value is not None} for step in steps],
            "examples": {
                outcome: [example._asdict() for example in shown] for outcome, shown in self.counts.examples.items()
            },
            "frequencies": [line._asdict() for line in frequencies],
            "notes": notes,
        }


def _by_ngrams(row: Row) -> dict[str, str]:
    if not row.ngram:
        return {}
    first = row.ngram[0].startswith("1 of ")
    return {
        ANSWERABLE: "yes" if first else "no",
        **dict(zip((NGRAM, NGRAM_AMONG_ALL)[: len(row.ngram)], row.ngram, strict=True)),
    }
