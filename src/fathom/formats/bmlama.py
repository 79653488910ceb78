"""BMLAMA (Qi et al., EMNLP 2023): the same cloze sentences in many languages, each with its own few candidates.

As published (github.com/Betswish/Cross-Lingual-Consistency): ``en.tsv``, ``de.tsv`` …, columns ``Prompt``, ``Ans``,
``Candidate Ans`` and ``Subject`` without any quoting; ``<mask>`` stands for the answer, candidates are separated by a
comma and a space. A row is the same fact in every language, and so are its candidates, by place: they share
their ids, so that a fact has one ``fact_id``. Relations are not named: they are the English sentences without subject.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fathom.data.templates import ANSWER, SUBJECT
from fathom.formats.closed_questions import ClosedQuestion, add_questions
from fathom.formats.recognition import TSV_ENDINGS, begins_with, define_format
from fathom.reading import Faults, read_lines

_MASK, _ENGLISH = "<mask>", "en"
_HEADER = ["Prompt", "Ans", "Candidate Ans", "Subject"]
_NAMELESS = "fact"
"""Relation of all rows if there is no English file."""


class _Row(NamedTuple):
    line: int
    prompt: str
    answer: str
    candidates: list[str]
    subject: str


def _questions(files: list[Path], faults: Faults) -> Iterator[ClosedQuestion]:
    rows = {file: _rows(file, faults) for file in files}
    _check_aligned(rows, faults)
    if faults.found:
        return
    english = next((some for file, some in rows.items() if _language(file) == _ENGLISH), [])
    wordings = [row.prompt.replace(row.subject, SUBJECT, 1).replace(_MASK, ANSWER) for row in english]
    relations = {wording: f"R{number}" for number, wording in enumerate(dict.fromkeys(wordings), start=1)}
    for file, some in rows.items():
        for number, row in enumerate(some, start=1):
            wording = wordings[number - 1] if wordings else ""
            ids = {name: str(place) for place, name in reversed(list(enumerate(row.candidates, start=1)))}
            yield ClosedQuestion(
                file,
                row.line,
                f"{_language(file)}/{number}",
                relations.get(wording, _NAMELESS),
                [row.prompt.replace(_MASK, ANSWER)],
                [row.answer],
                [name for name in row.candidates if name != row.answer],
                {"language": _language(file)},
                row.subject,
                f"fact {number}",
                ids=ids,
                relation_name=wording,
            )


def _language(file: Path) -> str:
    return file.name.split(".")[0]


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
        if not candidates or cells[0].count(_MASK) != 1:
            faults.add(file, line, f"expected {len(_HEADER)} columns, {_MASK} once in the first, found {text[:80]!r}")
        elif cells[1] not in candidates:
            faults.add(file, line, f"answer {cells[1]!r} is not among the candidates {cells[2][:80]!r}")
        else:
            rows.append(_Row(line, cells[0], cells[1], candidates, cells[3]))
    return rows


def _check_aligned(rows: dict[Path, list[_Row]], faults: Faults) -> None:
    """Compare rows and candidates of all languages with those of English, or else of the first."""
    if faults.found:
        return
    first = next((file for file in rows if _language(file) == _ENGLISH), next(iter(rows)))
    for file, some in rows.items():
        if len(some) != len(rows[first]):
            expected = f"{_language(first)} has {len(rows[first]):,}: expected as many"
            faults.add(file, None, f"{len(some):,} rows, {expected}")
            continue
        for row, other in zip(some, rows[first], strict=True):
            (place, count), (expected_place, expected_count) = map(_place, (row, other))
            if (place, count) != (expected_place, expected_count):
                expected = f"in {_language(first)} {expected_place} of {expected_count}"
                message = f"answer {place} of {count} candidates, {expected}"
                faults.add(file, row.line, f"{message}: expected the same fact in every language")


def _place(row: _Row) -> tuple[int, int]:
    """Return the answer's place, from 1, and the number of candidates."""
    return row.candidates.index(row.answer) + 1, len(row.candidates)


FORMAT = define_format(
    "bmlama",
    "en.tsv with Candidate Ans (BMLAMA)",
    TSV_ENDINGS,
    lambda file: begins_with(file, ["Candidate Ans\tSubject"]),
    lambda draft, files: add_questions(draft, _questions(files, draft.faults)),
    nothing="no rows: expected one per line below the header",
    licence="CC BY-NC 4.0",
)
