"""BMLAMA (Qi et al., EMNLP 2023): the same cloze sentences in many languages, each with its own few candidates.

As published (github.com/Betswish/Cross-Lingual-Consistency): ``en.tsv``, ``de.tsv`` …, columns ``Prompt``, ``Ans``,
``Candidate Ans`` and ``Subject`` without any quoting; ``<mask>`` stands for the answer, candidates are separated by a
comma and a space. A row is the same fact in every language, and so are its candidates, by place: they share
their ids, so that a fact has one ``fact_id``. Relations are not named: they are the English sentences without subject.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from fathom.data.queries import QuerySet
from fathom.data.templates import ANSWER, SUBJECT
from fathom.formats.base import Draft, Format
from fathom.formats.own_answers import ClosedQuestion, OwnAnswers
from fathom.formats.peeking import begins_with, data_files, note_rest
from fathom.reading import Faults, read_lines

MASK, LANGUAGE, ENGLISH = "<mask>", "language", "en"
_HEADER = ["Prompt", "Ans", "Candidate Ans", "Subject"]
_ENDINGS = (".tsv", ".tsv.gz")
_NAMELESS = "fact"
"""The relation of all rows where there is no English to tell them apart."""


class _Row(NamedTuple):
    line: int
    prompt: str
    answer: str
    candidates: list[str]
    subject: str


def read_bmlama(path: Path, faults: Faults) -> QuerySet | None:
    """:returns: the query set, None where a fault keeps it from being read."""
    files = {file.name.split(".")[0]: file for file in _files(path)}
    rows = {language: _rows(file, faults) for language, file in files.items()}
    note_rest(path, _ENDINGS, files.values(), faults)
    draft = Draft(path, faults)
    _check_aligned(draft, files, rows)
    if faults.found:
        return None
    wordings = [row.prompt.replace(row.subject, SUBJECT, 1).replace(MASK, ANSWER) for row in rows.get(ENGLISH, [])]
    relations = {wording: f"R{number}" for number, wording in enumerate(dict.fromkeys(wordings), start=1)}
    made = OwnAnswers(draft)
    for language, some in rows.items():
        for number, row in enumerate(some, start=1):
            relation = relations[wordings[number - 1]] if wordings else _NAMELESS
            made.add(files[language], row.line, _asked(language, number, row, relation))
    made.finish({id_: wording for wording, id_ in relations.items()})
    return draft.queryset(
        path.name.split(".")[0], nothing="no rows: expected one per line below the header", licence="CC BY-NC 4.0"
    )


def _files(path: Path) -> list[Path]:
    return [file for file in data_files(path, *_ENDINGS) if begins_with(file, ["Candidate Ans\tSubject"])]


def _rows(file: Path, faults: Faults) -> list[_Row]:
    rows: list[_Row] = []
    for line, text in read_lines(file, faults):
        cells = text.rstrip("\r").split("\t")
        if line == 1 and cells != _HEADER:
            faults.add(file, 1, f"expected the columns {', '.join(_HEADER)}, found {text[:80]!r}")
            return []
        if line == 1 or not text.strip():
            continue
        candidates = cells[2].split(", ") if len(cells) == len(_HEADER) else []
        if not candidates or cells[0].count(MASK) != 1:
            faults.add(file, line, f"expected {len(_HEADER)} columns, {MASK} once in the first, found {text[:80]!r}")
        elif cells[1] not in candidates:
            faults.add(file, line, f"answer {cells[1]!r} is not among the candidates {cells[2][:80]!r}")
        else:
            rows.append(_Row(line, cells[0], cells[1], candidates, cells[3]))
    return rows


def _check_aligned(draft: Draft, files: dict[str, Path], rows: dict[str, list[_Row]]) -> None:
    """Every language must have the rows and candidates of the first."""
    if draft.faults.found:
        return
    first = ENGLISH if ENGLISH in rows else next(iter(rows))
    for language, some in rows.items():
        if len(some) != len(rows[first]):
            draft.faults.add(
                files[language], None, f"{len(some):,} rows, {first} has {len(rows[first]):,}: expected as many"
            )
            continue
        for row, other in zip(some, rows[first], strict=True):
            here, there = ((len(one.candidates), one.candidates.index(one.answer)) for one in (row, other))
            if here != there:
                message = f"answer {here[1] + 1} of {here[0]} candidates, in {first} {there[1] + 1} of {there[0]}"
                draft.faults.add(files[language], row.line, f"{message}: expected the same fact in every language")


def _asked(language: str, number: int, row: _Row, relation: str) -> ClosedQuestion:
    ids = {name: str(place) for place, name in reversed(list(enumerate(row.candidates, start=1)))}
    return ClosedQuestion(
        f"{language}/{number}",
        relation,
        [row.prompt.replace(MASK, ANSWER)],
        [row.answer],
        [name for name in row.candidates if name != row.answer],
        {LANGUAGE: language},
        row.subject,
        f"fact {number}",
        ids=ids,
    )


FORMAT = Format("bmlama", "en.tsv with Candidate Ans (BMLAMA)", lambda path: bool(_files(path)), read_bmlama)
