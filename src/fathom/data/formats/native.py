"""Fathom's own format, made to be written by hand: see docs/data-format.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fathom.base.reading import (
    Faults,
    Json,
    Unreadable,
    first_few,
    parquet_file,
    read_json_lines,
    repetition,
    short_place,
    shown,
    stands,
)
from fathom.base.reading.spelling import Spelling
from fathom.data.formats.base import Draft, Format, check_answer_space, check_templates, texts_of, unscored_unless
from fathom.data.formats.fact_table import is_fact_table, read_fact_table, without_index
from fathom.data.formats.rows import Columns, Row
from fathom.data.prompts.questions import as_template
from fathom.data.queries import SPLIT, CandidateSet, Query, QuerySet, Relation, cardinality_of
from fathom.data.templates import ANSWER, SUBJECT, Sentence, Template
from fathom.store.files import write_json_lines

if TYPE_CHECKING:
    import pyarrow as pa

ALTERED = ("negated", "misprimed", "paraphrased", "truncated")
RELATIONS = "relations.jsonl"

_FACT = {
    **dict.fromkeys(("id", "subject", "subject_id", "relation", "answer", "answer_id", "language"), "text"),
    **dict.fromkeys(("answers", "sentences"), "list"),
    "known": "texts",
    "groups": "labels",
    "altered": "object",
}
_RELATION = {
    **dict.fromkeys(("relation", "name"), "text"),
    "templates": "texts by language",
    "questions": "texts",
    "domains": "texts",
    "candidates": "list",
}


class _Fact(NamedTuple):
    line: int
    row: Json
    subject: str
    answers: list[str]
    sentences: tuple[Sentence, ...]
    altered: dict[str, tuple[Sentence, ...]]


def write_native(folder: Path, facts: Iterable[Json], relations: Iterable[Json]) -> None:
    """Write a data set into an existing folder.

    :param facts: lines of ``facts.jsonl``, written one at a time.
    :param relations: lines of ``relations.jsonl``, consumed after all facts are written.
    """
    write_json_lines(folder / "facts.jsonl", facts)
    write_json_lines(folder / RELATIONS, relations)


def _read(path: Path, faults: Faults) -> QuerySet | None:
    file, *others = _facts_files(path)
    for double in others:
        faults.add(double, None, f"is next to {file.name}, which is read: remove one of the two")
    name = path.stem if path == file else path.name
    if is_fact_table(file) and (file == path or file.suffix != ".parquet"):  # in a folder, fields are as in JSON Lines
        return read_table(file, faults, name=name)
    entries = _relation_entries(file.with_name(RELATIONS), faults)
    rows = read_json_lines(file, {"relation": str}, faults) if file.suffix == ".jsonl" else _parquet_rows(file, faults)
    return _queryset(name, file, file.with_name(RELATIONS), entries, rows, faults)


def read_table(
    file: Path,
    faults: Faults,
    names: Mapping[str, str] | None = None,
    frame: pa.Table | None = None,
    name: str | None = None,
    alone: bool = False,
) -> QuerySet | None:
    """Read facts of a table, with ``relations.jsonl`` next to it if there is one; None after a fault.

    :param names: our names of columns by those of the table.
    :param frame: the table, if it is not in the file.
    :param name: of the data set; by default the file's.
    :param alone: no other file is read.
    """
    relations = file.with_name(RELATIONS)
    entries = _relation_entries(relations, faults) if not alone and stands(relations) else {}
    rows = read_fact_table(file, entries, faults, names, frame)
    return _queryset(name or file.stem, file, relations if entries else file, entries, rows, faults)


def _queryset(
    name: str,
    file: Path,
    relations: Path,
    entries: dict[str, tuple[int, Json]],
    content: Iterable[tuple[int, Json]],
    faults: Faults,
) -> QuerySet | None:
    """:param relations: file of the entries."""
    rows = list(_fitting(file, content, _FACT, faults))
    facts: dict[str, list[_Fact]] = {id_: [] for id_ in entries}
    for line, row in rows:
        answers = _answers(file, line, row, faults)
        if row["relation"] not in entries:
            some = ", ".join(list(entries)[:10]) or "none"
            faults.add(file, line, f"relation {row['relation']!r} is not in {RELATIONS}: it has {some}")
        elif answers:
            sentences = tuple(_sentences(file, line, row, faults))
            subject, altered = str(row.get("subject", "")), _altered(file, line, row, faults)
            facts[row["relation"]].append(_Fact(line, row, subject, answers, sentences, altered))
    draft = Draft(file, faults)
    for id_, (line, entry) in entries.items():
        _add_relation(draft, relations, line, entry, facts[id_])
    _check_ids(file, draft.queries, faults)
    has_one_language = len(draft.candidates) <= len(draft.relations)
    return draft.queryset(
        name,
        lambda: (
            draft.graph(draft.names() | {query.subject_id: query.subject for query in draft.queries})
            if has_one_language
            else None
        ),
        nothing="no facts: nothing to ask",
        subsets=_subsets(draft.queries),
    )


def _subsets(queries: Iterable[Query]) -> dict[str, frozenset[str]]:
    """Return the ids of each value of the group ``split``."""
    subsets: dict[str, set[str]] = {}
    for query in queries:
        if split := query.groups.get(SPLIT):
            subsets.setdefault(split, set()).add(query.id)
    return {name: frozenset(ids) for name, ids in subsets.items()}


def _facts_files(path: Path) -> list[Path]:
    """List the files of facts: those of a folder, or a table itself."""
    if is_fact_table(path):
        return [path]
    files = (path / f"facts{ending}" for ending in (".jsonl", ".parquet", ".csv", ".tsv"))
    return [file for file in files if stands(file) and (file.suffix != ".tsv" or is_fact_table(file))]


def _add_relation(draft: Draft, file: Path, line: int, entry: Json, facts: list[_Fact]) -> None:
    """:param file: of the relation, and its *line* there."""
    id_, faults = entry["relation"], draft.faults
    if not facts:
        if draft.path not in faults.broken:
            faults.add(file, line, f"relation {id_!r} has no facts: add some or remove it")
        return
    if not entry.get("templates") and not all(fact.row.get("sentences") for fact in facts):
        expected = "write at least one, or 'sentences' in each of its facts"
        faults.add(file, line, f"relation {id_!r} has no template: {expected}")
        return
    spaces = _answer_spaces(file, line, entry, facts, faults)
    cardinality = cardinality_of(f"{fact.row.get('language')} {answer}" for fact in facts for answer in fact.answers)
    templates = tuple(map(Template, _by_language(entry.get("templates", [])).get("", ())))
    draft.relations[id_] = relation = Relation(
        id_, str(entry.get("name", id_)), templates, cardinality, tuple(entry.get("domains", ())),
        tuple(map(as_template, entry.get("questions", ()))),
    )  # fmt: skip
    draft.candidates |= {space.name: space for space in spaces.values()}
    draft.queries += _queries(draft.path, relation, spaces, _by_language(entry.get("templates", [])), facts, faults)


def _by_language(value: object) -> dict[str, Any]:
    """Return the values by language; "" stands for a value without languages."""
    return value if isinstance(value, dict) else {"": value}


def _relation_entries(file: Path, faults: Faults) -> dict[str, tuple[int, Json]]:
    entries: dict[str, tuple[int, Json]] = {}
    lines: dict[str, int] = {}
    for line, row in _fitting(file, read_json_lines(file, {"relation": str}, faults), _RELATION, faults):
        if why := repetition(lines, row["relation"], line, f"relation {row['relation']!r}"):
            faults.add(file, line, why)
        for texts in _by_language(row.get("templates", [])).values():
            check_templates(file, line, texts, faults)
        entries[row["relation"]] = (line, row)
    return entries


def _fitting(
    file: Path, rows: Iterable[tuple[int, Json]], columns: Columns, faults: Faults
) -> Iterator[tuple[int, Json]]:
    """Yield the rows whose fields are all known and of their kind, so that no misspelt field is ignored."""
    for line, content in rows:
        row, unknown = Row(file, line, content, faults), sorted(content.keys() - columns.keys())
        if unknown:
            row.refuse(f"unknown field {', '.join(unknown)}: expected {', '.join(sorted(columns))}")
        if row.fits({name: columns[name] for name in content if name in columns}) and not unknown:
            yield line, content


def _parquet_rows(file: Path, faults: Faults) -> Iterator[tuple[int, Json]]:
    faults.read.add(file)
    try:
        table = parquet_file(file, what_to_do="expected a Parquet file of facts")
    except Unreadable as error:
        faults.keep(error)
        return
    spelling = Spelling(file, faults.respelt)
    for number, row in enumerate(without_index(file, table, _FACT, faults).to_pylist(), start=1):
        present = {name: value for name, value in row.items() if value is not None}
        if isinstance(present.get("relation"), str):
            yield number, spelling.of(number, present)
        else:
            faults.add(file, number, "'relation' must be text")


def _answers(file: Path, line: int, row: Json, faults: Faults) -> list[str]:
    answers = row.get("answers", [row["answer"]] if "answer" in row else [])
    if {"answer", "answers"} <= row.keys():
        faults.add(file, line, "'answer' and 'answers': give one of them, with all correct answers in 'answers'")
    if not isinstance(answers, list) or not answers or not all(isinstance(a, str) and a.strip() for a in answers):
        faults.add(file, line, "expected 'answer': \"text\" or 'answers': [\"text\", …], none empty")
        return []
    if len(set(answers)) < len(answers):
        faults.add(file, line, f"an answer is repeated in {answers!r}")
    if "answer_id" in row and len(answers) > 1:
        faults.add(file, line, "'answer_id' goes with one 'answer'; give the relation 'candidates' with ids instead")
    return answers


def _sentences(file: Path, line: int, row: Json, faults: Faults) -> Iterator[Sentence]:
    """Yield sentences from texts, or from objects with the original words at the answer's place."""
    for sentence in row.get("sentences", ()):
        item = sentence if isinstance(sentence, dict) else {"text": sentence}
        text, surface = item.get("text"), item.get("surface") or ""
        if not isinstance(text, str) or not isinstance(surface, str) or item.keys() - {"text", "surface"}:
            faults.add(file, line, f'a sentence must be text or {{"text": "…", "surface": "…"}}, found {sentence!r}')
        elif (count := text.count(ANSWER)) != 1 or SUBJECT in text:
            has = f"has {SUBJECT}" if count == 1 else f"has {ANSWER} {count} times"
            faults.add(file, line, f"sentence {text!r} {has}: write {ANSWER} once, and the subject's name in full")
        else:
            yield Sentence(text, surface)
    if "sentences" in row and not row["sentences"]:
        faults.add(file, line, "'sentences' is empty: write at least one, or leave it out")


def _altered(file: Path, line: int, row: Json, faults: Faults) -> dict[str, tuple[Sentence, ...]]:
    by_kind = {}
    for kind, texts in row.get("altered", {}).items():
        if kind in ALTERED and isinstance(texts, list) and texts:
            by_kind[kind] = tuple(_sentences(file, line, {"sentences": texts}, faults))
        else:
            expected = f"lists of texts under {', '.join(ALTERED)}"
            faults.add(file, line, f"'altered' must have {expected}, found {shown({kind: texts})}")
    return by_kind


def _answer_spaces(file: Path, line: int, entry: Json, facts: list[_Fact], faults: Faults) -> dict[str, CandidateSet]:
    """Return the relation's candidates by language, or else all answers of its facts, in order of appearance."""
    if "candidates" in entry:
        pairs = _named_candidates(file, line, entry["candidates"], faults)
    else:
        # A name without an id is its own, unless another fact gives that name an id.
        by_name: dict[str, str] = {fact.answers[0]: fact.row["answer_id"] for fact in facts if "answer_id" in fact.row}
        answers = [answer for fact in facts for answer in (*fact.answers, *fact.row.get("known", ()))]
        pairs = {"": [(by_name.get(name, name), name) for name in dict.fromkeys(answers)]}
    spaces = {}
    for language, named in pairs.items():
        ids, names = tuple(id_ for id_, _ in named), tuple(name for _, name in named)
        where = f"relation {entry['relation']!r}" + (f", language {language}" if language else "")
        check_answer_space(file, line, where, ids, names, faults)
        if len(ids) == 1:
            faults.note(file, line, f"{where} has one candidate: every answer is right")
        spaces[language] = CandidateSet("/".join(filter(None, (entry["relation"], language))), ids, names)
    return spaces


def _named_candidates(file: Path, line: int, listed: list[Any], faults: Faults) -> dict[str, list[tuple[str, str]]]:
    """Return ids and names by language, "" for names without one."""
    items = [item if isinstance(item, dict) else {"id": item, "name": item} for item in listed]
    pairs: dict[str, list[tuple[Any, Any]]] = {}
    for item in items:
        for language, name in _by_language(item.get("names", item.get("name"))).items():
            pairs.setdefault(language, []).append((item.get("id", name if "name" in item else None), name))
    if texts_of([text for some in pairs.values() for pair in some for text in pair]) is None:
        expected = 'texts, {"id": "…", "name": "…"} or {"id": "…", "names": {"de": "…"}}'
        faults.add(file, line, f"'candidates' must be {expected}, found {shown(listed)}")
        return {"": []}
    return pairs or {"": []}


def _queries(
    file: Path,
    relation: Relation,
    spaces: Mapping[str, CandidateSet],
    templates: Mapping[str, list[str]],
    facts: list[_Fact],
    faults: Faults,
) -> Iterator[Query]:
    """:param spaces: and *templates*, by language."""
    ids = {language: {name: id_ for id_, name in space.named()} for language, space in spaces.items()}
    for index, fact in enumerate(facts):
        row, language = fact.row, fact.row.get("language", "")
        of_space = language if language in spaces else ""
        if of_space not in spaces:
            has = f"the candidates of {relation.id!r} have names in {', '.join(spaces)}"
            faults.add(file, fact.line, f"language {language!r}: {has}")
            continue
        texts = templates.get(language, []) if language else []
        if not (row.get("sentences") or texts or relation.templates):
            faults.add(file, fact.line, f"relation {relation.id!r} has no template in {language!r}")
        answers = _answers_in(file, fact, spaces[of_space], ids[of_space], faults)
        if answers is None:
            continue
        if "subject" not in row and not row.get("sentences"):
            faults.add(file, fact.line, "'subject' is missing: only a fact with 'sentences' needs none")
        named = fact.subject.strip() or fact.sentences or "subject" not in row
        groups = {"cardinality": relation.cardinality, "domain": "; ".join(relation.domains)}
        groups |= {"language": language} if language else {}
        yield Query(
            id=str(row.get("id", f"{relation.id}/{index}")),
            relation=relation.id,
            subject=fact.subject,
            subject_id=row.get("subject_id", fact.subject),
            gold=answers[0],
            candidates=spaces[of_space].name,
            known=answers[1],
            groups=groups | {str(key): str(value) for key, value in (row.get("groups") or {}).items()},
            unscored=unscored_unless(named, file, fact.line, "the subject is empty", faults),
            sentences=fact.sentences or tuple(Sentence(Template(text).question(fact.subject)) for text in texts),
            altered=fact.altered,
            place=short_place(file, fact.line),
        )


def _answers_in(
    file: Path, fact: _Fact, space: CandidateSet, by_name: Mapping[str, str], faults: Faults
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return the ids of the gold and the other known answers; None after a fault."""
    id_, name = fact.row.get("answer_id"), fact.answers[0]
    wanted = (id_,) if id_ is not None else tuple(by_name.get(answer, answer) for answer in fact.answers)
    also_right = tuple(by_name.get(answer, answer) for answer in fact.row.get("known", ()))
    missing = [answer for answer in (*wanted, *also_right) if answer not in space.position]
    if id_ is not None and by_name.get(name) != id_:
        faults.add(file, fact.line, f"answer {name!r} has the id {by_name.get(name)!r} elsewhere, not this one")
    elif missing:
        faults.add(file, fact.line, f"answer {missing[0]!r} is not among the candidates of {space.name!r}")
    else:
        return wanted, also_right
    return None


def _check_ids(file: Path, queries: list[Query], faults: Faults) -> None:
    facts: dict[tuple[str, str], list[Query]] = {}
    for query in queries:
        if query.subject_id:
            facts.setdefault((query.subject_id, query.candidates), []).append(query)
    unknown = []
    for (subject, relation), members in facts.items():
        right = {id_ for query in members for id_ in query.gold}
        if any(not right <= {*query.gold, *query.known} for query in members):
            unknown.append(f"{subject!r} of {relation!r} ({', '.join(query.place for query in members[:3])})")
    if unknown:
        message = f"other facts' answers count as wrong for {len(unknown):,} subjects with several facts of a relation"
        faults.note(file, None, f"{message}: {first_few(unknown)}; put them in one fact's 'answers', or in 'known'")
    for id_, count in Counter(query.id for query in queries).items():
        for _ in range(count - 1):
            faults.add(file, None, f"two facts have the id {id_!r}: ids must differ")


FORMAT = Format(
    "native",
    "facts.jsonl and relations.jsonl, or a .csv of subject, relation and answer (docs/data-format.md)",
    lambda path: bool(_facts_files(path)),
    _read,
)
