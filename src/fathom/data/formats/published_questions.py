"""How rows of published data sets become questions with their own answers, where that takes more than columns.

Their records are in the catalogue, ``fathom/data/published.yaml``; docs/data-format.md describes their files.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from fathom.base.reading import Faults, Json, line_of, read_json, read_lines, shown
from fathom.base.reading.spelling import Spelling, tidy
from fathom.data.formats.base import Draft, texts_of, unscored_unless
from fathom.data.formats.facts import ClosedQuestion, add_questions, completed
from fathom.data.formats.rows import Columns, Row, RowReader
from fathom.data.formats.tables import Make, leave_out
from fathom.data.templates import ANSWER, SUBJECT

About = Mapping[str, Any]

# --- BMLAMA (Qi et al., EMNLP 2023): the same cloze sentences in many languages, each with its own few candidates. A
# row is the same fact in every language, and so are its candidates, by place: they share their ids. Relations are not
# named: they are the English sentences without subject.

_MASK = "<mask>"
_HEADER = "Prompt Ans Candidate Ans Subject"


def _bmlama_lines(file: Path, columns: Columns, faults: Faults) -> Iterator[tuple[int, Json]]:
    """Read a language. Most files have no quoting; in one that is quoted, a quoted cell has doubled quotes."""
    lines = [(line, text.rstrip("\r")) for line, text in read_lines(file, faults)]
    if lines and lines[0][1].split() != _HEADER.split():
        faults.add(file, 1, f"expected the columns {_HEADER}, found {lines[0][1][:80]!r}")
        return
    cells = [text.split("\t") for _, text in lines[1:]]
    opened = [cell for row in cells for cell in row if cell.startswith('"')]
    spelling = Spelling(file, faults.respelt)
    is_quoted = any('""' in cell[1:-1] for cell in opened) and all(map(_QUOTED.fullmatch, opened))
    for (line, text), row in zip(lines[1:], cells, strict=True):
        if not text.strip():
            continue
        if len(row) != len(columns) or row[0].count(_MASK) != 1:
            faults.add(file, line, f"expected {len(columns)} columns, {_MASK} once in the first, found {text[:80]!r}")
            continue
        values = spelling.of(line, next(csv.reader([text], delimiter="\t")) if is_quoted else row)
        fact: Json = dict(zip(("Prompt", "Ans", "Candidate Ans", "Subject"), values, strict=True))
        answer, candidates = fact["Ans"], fact["Candidate Ans"]
        if answer in (names := list(map(tidy, candidates.split(", ")))):
            yield line, fact | {"names": names}
        else:
            faults.add(file, line, f"answer {answer!r} is not among the candidates {candidates[:80]!r}")


_QUOTED = re.compile(r'"(?:[^"]|"")*"')


def _bmlama_languages(draft: Draft, rows: Iterator[Row]) -> About:
    languages = {file: list(some) for file, some in groupby(rows, key=lambda row: row.file)}
    if languages:
        _keep_aligned(languages, draft.faults)
    return add_questions(draft, _bmlama({some[0]["stem"]: some for some in languages.values()}))


def _keep_aligned(languages: dict[Path, list[Row]], faults: Faults) -> None:
    """Leave out languages whose rows are other facts than those of most, by the places of the answers."""
    shapes = {file: tuple(map(_place, rows)) for file, rows in languages.items()}
    count = Counter(shapes.values())
    usual = max(shapes, key=lambda file: (count[shapes[file]], file.name.startswith("en.")))
    found = {file: _differences(rows, languages[usual]) for file, rows in languages.items()}
    leave_out(found, languages, faults)


def _place(row: Row) -> tuple[int, int]:
    """Return the answer's place, from 1, and the number of candidates."""
    return row["names"].index(row["Ans"]) + 1, len(row["names"])


def _differences(rows: Sequence[Row], usual: Sequence[Row]) -> list[str]:
    """Return a line for each row that is another fact."""
    faults, first = Faults(), usual[0]["stem"]
    if len(rows) != len(usual):
        faults.add(rows[0].file, None, f"{len(rows):,} rows, {first} has {len(usual):,}: expected as many")
        return faults.found
    for row, other in zip(rows, usual, strict=True):
        (place, size), (expected, expected_size) = _place(row), _place(other)
        if (place, size) != (expected, expected_size):
            here = f"answer {place} of {size} candidates, in {first} {expected} of {expected_size}"
            faults.add(row.file, row.line, f"{here}: expected the same fact in every language")
    return faults.found


def _bmlama(languages: Mapping[str, Sequence[Row]]) -> Iterator[ClosedQuestion]:
    english = languages.get("en", ())
    texts = [row["Prompt"].replace(row["Subject"], SUBJECT, 1).replace(_MASK, ANSWER) for row in english]
    relations = {text: f"R{number}" for number, text in enumerate(dict.fromkeys(texts), start=1)}
    for language, rows in languages.items():
        for number, row in enumerate(rows, start=1):
            text, names = texts[number - 1] if texts else "", row["names"]
            yield ClosedQuestion(
                row.file,
                row.line,
                f"{language}/{number}",
                relations.get(text, "fact"),
                [row["Prompt"].replace(_MASK, ANSWER)],
                [row["Ans"]],
                [name for name in names if name != row["Ans"]],
                {"language": language},
                row["Subject"],
                f"fact {number}",
                ids={name: str(place) for place, name in reversed(list(enumerate(names, start=1)))},
                relation_name=text,
            )


# --- DyKnow (Mousavi et al., EMNLP Findings 2024): facts that change. Objects of kinds, subjects and sometimes roles
# are nested down to `questions` and `answers`; an answer with `|E: …` has ended. Gold answers are the current ones.

_DATED = re.compile(r"(.+?)((?: ?\|[A-Z]:? \+\d{4,}-\d\d-\d\dT00:00:00Z)+)")
_DATE = re.compile(r"\|([A-Z]):? \+(\d+)-")


def _dyknow_nodes(file: Path, columns: Columns, faults: Faults) -> Iterator[tuple[None, Json]]:
    return ((None, {"place": place, **node}) for place, node in _nodes(read_json(file, faults), ()))


def _nodes(value: Any, place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Json]]:
    """Yield objects with questions or answers, each with the keys that lead to it."""
    if not isinstance(value, dict):
        return
    if "questions" in value or "answers" in value:
        yield place, value
    else:
        for key, inner in value.items():
            yield from _nodes(inner, (*place, key))


def _dyknow(row: Row) -> ClosedQuestion | None:
    place, where, texts = row["place"], " / ".join(row["place"]), row["questions"]
    questions = texts_of(list(texts.values()) if isinstance(texts, dict) else texts)
    answers = [_DATED.fullmatch(text.strip()) for text in texts_of(row["answers"]) or ()]
    if not questions or not answers or not all(answers) or len(place) < 2:
        expected = "'questions' (texts) and 'answers' as 'name |S: +2015-02-03T00:00:00Z'"
        line = line_of(row.file, place[-1]) if place else None
        row.faults.add(row.file, line, f"{where}: expected {expected}, found {shown(row.content, 200)}")
        return None
    dated = [(match[1].strip(), dict(_DATE.findall(match[2]))) for match in answers if match]
    current, reason = [(name, dates) for name, dates in dated if "E" not in dates], "every answer has ended"
    why = unscored_unless(current, row.file, None, f"{where}: {reason}", row.faults, reason)
    right = list(dict.fromkeys(name for name, _ in current or dated))
    outdated = list(dict.fromkeys(name for name, _ in dated if name not in right))
    _, latest = max(current or dated, key=lambda answer: int(answer[1].get("S", 0)))
    groups = {"valid_from": latest.get("S", "unknown"), "valid_until": latest.get("E", "unknown")}
    groups["answers"] = str(len({*right, *outdated}))
    about = (where, place[0], list(map(completed, questions)), right, outdated, groups, place[1], where)
    return ClosedQuestion(row.file, None, *about, unscored=why)


MAKE: dict[str, Make] = {
    "bmlama": _bmlama_languages,
    "dyknow": lambda draft, rows: add_questions(draft, filter(None, map(_dyknow, rows))),
}
"""Functions that records name as ``make``."""
READERS: dict[str, RowReader] = {"bmlama": _bmlama_lines, "dyknow": _dyknow_nodes}
"""Functions that records name as ``rows``."""
