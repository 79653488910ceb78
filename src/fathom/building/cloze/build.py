"""The build of a cloze data set: two passes over the texts, and a folder that appears when it is complete.

The first pass only identifies records, and determines which of them a later record replaces or withdraws. The second
parses the others and keeps sentences. Both read one record at a time, and what grows with the input is kept on disk.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from importlib.metadata import version
from itertools import count
from pathlib import Path

from fathom._version import VERSION
from fathom.building.cloze import corpora, counts
from fathom.building.cloze.boilerplate import BLOCKED_FILE, read_blocked
from fathom.building.cloze.documents import Corpus, Document, Paragraph, Unit, UnreadableDocument
from fathom.building.cloze.duplicates import SPLIT_THRESHOLD, NearDuplicates, split_clusters
from fathom.building.cloze.entities import EntityList, read_entities, split_given
from fathom.building.cloze.ngrams import Neighbours
from fathom.building.cloze.options import ClozeBuildOptions
from fathom.building.cloze.pubmed import LANGUAGES
from fathom.building.cloze.rows import Occurrences, Row, SentenceRows, Supersession, is_own_name, rows_in
from fathom.building.cloze.sentences import KEPT, CorpusSentence, Selector
from fathom.building.options import ClozeFiles
from fathom.building.review import REVIEW_FILE, SENTENCES, Reservoir
from fathom.data.queries import ANSWERABLE, NGRAM, NGRAM_AMONG_ALL, SPLIT
from fathom.errors import BadInput, all_of, refuse
from fathom.formats.native import write_native
from fathom.progress import Progress, unseen
from fathom.reading import Json
from fathom.store.files import write_json, write_json_lines
from fathom.store.outputs import obstacles, signature_of, whole_folder


def build_cloze(
    files: ClozeFiles, options: ClozeBuildOptions = ClozeBuildOptions(), progress: Progress = unseen
) -> counts.BuiltCloze:
    """Build a data set of masked sentences in a new folder.

    :param progress: called with (bytes read, bytes to read).
    :raises BadInput: with all faults of the options and files, or no sentence is left; nothing is written.
    :raises MadeBefore: the same call has made the folder.
    """
    notes: list[str] = []
    blocked = files.blocked or BLOCKED_FILE
    read_from = [*files.input, blocked, *(split_given(given)[1] for given in files.entities)]
    signature = signature_of(
        "build cloze", options.model_dump(mode="json"), files=read_from, entities=list(files.entities)
    )
    sources, listed, blocked_texts, *_ = all_of(
        lambda: corpora.find_sources(files.input, notes),
        lambda: read_entities(files.entities, options),
        lambda: read_blocked(blocked),
        lambda: corpora.check_encoding(options.encoding),
        lambda: refuse(obstacles(files.out, signature)),
    )
    _check_language(sources, options)
    builder = _Builder(sources, listed, blocked_texts, options, progress)
    notes += listed.notes + builder.selector.finder.notes()
    with whole_folder(files.out, signature) as folder:
        rows = builder.collect(folder / "work")
        steps = builder.counts.steps(listed.types, options.after)
        if not steps[-1].left:
            raise BadInput(counts.explain_empty(steps, builder.troubles.notes()))
        frequencies = builder.write(folder, rows)
        shutil.rmtree(folder / "work")
        notes += builder.answerable() + builder.troubles.notes() + builder.empty() + builder.counts.notes()
        write_json(folder / "manifest.json", builder.manifest(blocked_texts, steps, frequencies, notes))
    return counts.BuiltCloze(files.out, steps, frequencies, notes)


class _Builder:
    def __init__(
        self,
        sources: list[corpora.TextFile],
        listed: EntityList,
        blocked: Sequence[str],
        options: ClozeBuildOptions,
        progress: Progress,
    ) -> None:
        self.sources, self.listed, self.options = sources, listed, options
        self.selector = Selector(listed.entities, options, blocked)
        self.troubles = corpora.Troubles()
        self._progress = progress
        self._bytes = [source.path.stat().st_size for source in sources]
        self._digests: list[str] = []
        self._records: Counter[str] = Counter()
        self.counts = counts.Counts()
        self._sentences: Counter[int] = Counter()
        self._neighbours: Neighbours | None = None
        threshold = options.near_duplicates or (SPLIT_THRESHOLD if options.splits else None)
        self._near_duplicates = None if threshold is None else NearDuplicates(threshold)
        self._splits: Mapping[str, str] = {}
        self._first_by_ngrams: Counter[str] = Counter()

    def collect(self, work: Path) -> Path:
        """Run both passes with temporary files in *work*. :returns: queries, one per line."""
        work.mkdir()
        latest = self._latest(work / "records")
        if self.options.answerable != "off":
            self._neighbours = Neighbours(work / "neighbours")
        rows = SentenceRows(work, self.listed.entities, merge=self.options.merge)
        with closing(rows):
            self._read(latest, rows)
        self.counts.take(counts.DUPLICATE, rows.drop_repeated())
        self.counts.take(counts.MERGED, rows.merge())
        for row in rows_in(rows.queries):
            self._sentences.update((row.entity, *row.others))
            if row.others:
                self.counts.show(counts.MERGED, self._with_answers(row))
        if self._neighbours is not None and self._sentences:
            rows.replace(self._judged(rows.queries, self._neighbours))
        if self.options.splits and self._sentences.total():
            clusters = (self._cluster(row) for row in rows_in(rows.queries))
            self._splits = split_clusters(clusters, self.options.splits, self.options.seed)
        return rows.queries

    def _cluster(self, row: Row) -> str:
        return row.document if self._near_duplicates is None else self._near_duplicates.cluster(row.document)

    def _judged(self, queries: Path, neighbours: Neighbours) -> Iterator[Row]:
        """Add the n-gram model's ranks to queries; drop those it answers if the option says so."""
        lost: Counter[str] = Counter()
        pools = [self._candidates(type_) for type_ in self.listed.types]
        if len(pools) > 1:
            pools.append([number for pool in pools for number in pool])
        ranks = neighbours.model().ranks(rows_in(queries), pools)
        for row, row_ranks in zip(rows_in(queries), ranks, strict=True):
            type_ = self.listed.entities[row.entity].type
            if row_ranks[0].pool == 1 + len(row.others):  # there is no distractor
                yield row
                continue
            if row_ranks[0].last == 1:
                self._first_by_ngrams[type_] += 1
                self.counts.show(counts.WITHOUT_MODEL, self._with_answers(row))
                if self.options.answerable == "drop":
                    lost[type_] += 1
                    self._sentences.subtract((row.entity, *row.others))
                    continue
            yield row._replace(ngram=[str(rank) for rank in row_ranks])
        self.counts.take(counts.WITHOUT_MODEL, lost)

    def _candidates(self, type_: str) -> list[int]:
        numbers = [number for number, entity in enumerate(self.listed.entities) if entity.type == type_]
        return numbers if self.options.candidates == "listed" else [n for n in numbers if self._sentences[n]]

    def _with_answers(self, row: Row) -> counts.Example:
        answers = ", ".join(self.listed.entities[number].name for number in (row.entity, *row.others))
        return counts.Example(row.document, row.masked, answers)

    def _latest(self, path: Path) -> Supersession:
        records = Occurrences(path)
        for number, source in enumerate(self.sources):
            self._digests.append(corpora.digest_of(source.path))
            corpus = corpora.corpus_of(source, self.options)
            for unit in corpora.units_of(source, corpus):
                keys = corpus.keys(unit)
                records.add(*keys.ids, deleted=keys.deleted)
            self._progress(sum(self._bytes[: number + 1]), 2 * sum(self._bytes))
        return records.resolve("last")

    def _read(self, latest: Supersession, rows: SentenceRows) -> None:
        places = count()  # the second argument of zip, so that no place is lost at the end of a file
        for number, source in enumerate(self.sources):
            corpus = corpora.corpus_of(source, self.options)
            for unit, place in zip(corpora.units_of(source, corpus, self.troubles), places, strict=False):
                if latest.beaten[place]:
                    outcome = counts.WITHDRAWN if latest.withdrawn[place] else counts.REPLACED
                else:
                    outcome = self._outcome(number, corpus, unit, rows)
                if outcome:
                    self._records[source.name] += 1
                    self.counts.documents[outcome] += 1
            self._progress(sum(self._bytes) + sum(self._bytes[: number + 1]), 2 * sum(self._bytes))

    def _outcome(self, number: int, corpus: Corpus, unit: Unit, rows: SentenceRows) -> str:
        """Return the outcome of a record, "" for a list of deletions."""
        try:
            if unit.fault:
                raise UnreadableDocument(unit.fault)
            document = corpus.document(unit)
        except UnreadableDocument as error:
            self.troubles.add(self.sources[number], f"{corpus.place} {unit.place:,}", f"record skipped: {error}")
            return counts.BROKEN
        if document is None:
            return ""
        return self._unwanted(document) or self._keep(number, document, rows)

    def _unwanted(self, document: Document) -> str:
        options = self.options
        if document.languages and not options.any_language and LANGUAGES[options.language] not in document.languages:
            return counts.LANGUAGE
        if options.after is not None and not document.date:
            return counts.UNDATED
        return counts.EARLY if options.after is not None and document.date <= options.after else ""

    def _keep(self, number: int, document: Document, rows: SentenceRows) -> str:
        """Store the sentences of a document that may become queries. :returns: the outcome of the document."""
        before = 0
        outcome = counts.EMPTY
        pending: list[tuple[CorpusSentence, Row | None]] = []
        texts: list[str] = []
        for part in self._parts(number, document):
            sentences = self.selector.sentences(part.text)
            outcome = KEPT if sentences else counts.SILENT if outcome == counts.EMPTY else outcome
            for sentence in sentences:
                row = None
                if sentence.entity is not None:
                    origin = (document.id, document.date, before + sentence.offset, part.section, number)
                    row = Row(sentence.entity, sentence.masked, sentence.surface, *origin)
                if self._near_duplicates is None:
                    self._take(sentence.outcome, row, rows)
                else:
                    pending.append((sentence, row))
            if self._near_duplicates is not None:
                texts.append(part.text)
            before += len(part.text) + 1
        repeats = any(sentence.outcome == KEPT for sentence, _ in pending) and self._repeats(document, texts)
        for sentence, row in pending:
            self._take(counts.NEAR if repeats and sentence.outcome == KEPT else sentence.outcome, row, rows)
        return outcome

    def _repeats(self, document: Document, texts: Sequence[str]) -> bool:
        """Return whether to drop a document that nearly repeats an earlier one; without the option, only link them."""
        assert self._near_duplicates is not None
        if self.options.near_duplicates is None:
            self._near_duplicates.link(document.id, "\n".join(texts))
            return False
        return bool(self._near_duplicates.repeats(document.id, "\n".join(texts)))

    def _take(self, outcome: str, row: Row | None, rows: SentenceRows) -> None:
        if row is None:
            self.counts.sentences[outcome] += 1
            return
        self.counts.typed[self.listed.entities[row.entity].type, outcome] += 1
        if self._neighbours is not None and outcome != counts.NEAR:
            self._neighbours.add(row.entity, row.masked, row.document)
        if outcome == KEPT:
            rows.add(row)
        else:
            self.counts.show(outcome, counts.Example(row.document, row.masked, row.surface))

    def _parts(self, number: int, document: Document) -> Iterator[Paragraph]:
        """Read paragraphs; of a text that is damaged in the middle, those before."""
        try:
            yield from document.parts
        except UnreadableDocument as error:
            self.troubles.add(self.sources[number], "text", str(error))

    def empty(self) -> list[str]:
        """Report files without a record, and types without a sentence."""
        empty = [f"{source.name}: no records" for source in self.sources if not self._records[source.name]]
        types = {self.listed.entities[entity].type for entity, count in self._sentences.items() if count}
        gone = [type_ for type_ in self.listed.types if type_ not in types]
        return [*empty, *(f"{type_}: no sentence is left: not in the data set" for type_ in gone)]

    def answerable(self) -> list[str]:
        """Report how many kept sentences an n-gram model answers, by type."""
        if not self._first_by_ngrams or self.options.answerable == "drop":
            return []
        kept: Counter[str] = Counter()
        for (type_, outcome), sentences in self.counts.typed.items():
            kept[type_] += sentences * (outcome == KEPT)
        shares = [f"{self._first_by_ngrams[type_]:,} of {n:,} {type_}" for type_, n in kept.items() if n]
        examples = self.counts.examples.get(counts.WITHOUT_MODEL, ())[:1]
        shown = [f"such as {example.sentence!r} ({example.answer})" for example in examples]
        return [f"{counts.WITHOUT_MODEL} (kept, and marked): {', '.join([*shares, *shown])}"]

    def write(self, folder: Path, rows: Path) -> list[counts.Frequencies]:
        """Write the data set, the sample for the reviewers, and how often each entity occurs."""
        samples = {type_: Reservoir(self.options.sample, f"{self.options.seed} {type_}") for type_ in self.listed.types}
        write_native(folder, self._facts(rows, samples), self._relations())
        counted = (
            {"type": entity.type, "id": entity.id, "name": entity.name, "sentences": self._sentences[number]}
            for number, entity in enumerate(self.listed.entities)
        )
        write_json_lines(folder / "entities.jsonl", counted)
        SENTENCES.write(folder / REVIEW_FILE, (row for sample in samples.values() for row in sample.in_order()))
        by_type: dict[str, list[int]] = {type_: [] for type_ in self.listed.types}
        for number, sentences in self._sentences.items():
            if sentences:
                by_type[self.listed.entities[number].type].append(sentences)
        return [counts.count_frequencies(type_, sentences) for type_, sentences in by_type.items() if sentences]

    def _facts(self, rows: Path, samples: Mapping[str, Reservoir]) -> Iterator[Json]:
        """Return facts, and offer each to the sample of its type."""
        numbers: Counter[str] = Counter()
        for row in rows_in(rows):
            entity = self.listed.entities[row.entity]
            id_ = f"{entity.type}/{numbers[entity.type]}"
            numbers[entity.type] += 1
            others = [self.listed.entities[other].name for other in row.others]
            answers = " | ".join((row.surface, *others))
            samples[entity.type].add({"id": id_, "type": entity.type, "sentence": row.masked, "answer": answers})
            is_main = is_own_name(row.surface, entity)
            groups = {"document": row.document, "date": row.date, "offset": str(row.offset), "section": row.section}
            yield {
                "id": id_,
                "relation": entity.type,
                **({"answers": [entity.name, *others]} if others else {"answer": entity.name}),
                "sentences": [row.masked if is_main else {"text": row.masked, "surface": row.surface}],
                "groups": {name: value for name, value in groups.items() if value}
                | {"source": self.sources[row.source].name, "mention": row.surface}
                | ({"answers": str(1 + len(others))} if others else {})
                | ({SPLIT: self._splits[self._cluster(row)]} if self._splits else {})
                | _by_ngrams(row),
            }

    def _relations(self) -> Iterator[Json]:
        for type_ in self.listed.types:
            chosen = [self.listed.entities[number] for number in self._candidates(type_)]
            if any(self._sentences[number] for number in self._candidates(type_)):
                candidates = [e.name if e.id == e.name else {"id": e.id, "name": e.name} for e in chosen]
                yield {"relation": type_, "candidates": candidates}

    def _libraries(self) -> list[str]:
        """Return libraries that may affect the outcome."""
        kinds = {source.kind for source in self.sources}
        used = {"datasketch": self._near_duplicates is not None, "docutils": corpora.RESTRUCTURED in kinds}
        return ["lxml", "ahocorasick-rs", "markdown-it-py", "sentencex", *(name for name in used if used[name])]

    def manifest(
        self,
        blocked: list[str],
        steps: list[counts.CountedStep],
        frequencies: list[counts.Frequencies],
        notes: list[str],
    ) -> Json:
        """Return what the folder can be built from again, without times and names of machines."""
        return {
            "command": "fathom build cloze",
            "fathom": VERSION,
            "libraries": {name: version(name) for name in self._libraries()},
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
            "blocked": blocked,
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
    return {ANSWERABLE: "yes" if first else "no", **dict(zip((NGRAM, NGRAM_AMONG_ALL), row.ngram, strict=False))}


def _check_language(sources: list[corpora.TextFile], options: ClozeBuildOptions) -> None:
    known = options.any_language or options.language in LANGUAGES
    if not known and any(source.kind in (corpora.MEDLINE, corpora.JATS) for source in sources):
        raise BadInput(
            f"--language {options.language}: PubMed's code for it is unknown; expected one of "
            f"{', '.join(sorted(LANGUAGES))}; --any-language reads all records"
        )
