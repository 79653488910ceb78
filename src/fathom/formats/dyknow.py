"""DyKnow (Mousavi et al., EMNLP Findings 2024): facts that change, each with all its answers and their dates.

As published (github.com/sislab-unitn/DyKnow): ``grc_generated.json``, prompts to go on with, or ``qa_generated.json``,
questions: an object of kinds of subjects, of subjects and, where they have several, of roles, down to ``questions`` and
``answers``. An answer reads ``Sergio Mattarella |S: +2015-02-03T00:00:00Z``; one without ``|E: …`` has not ended.

Right is what has not ended, the candidates are all answers that the fact ever had: what else a model chooses is
outdated. The year since which the (latest) right answer is right is the group ``valid_from``; that until which it is,
``valid_until``, is known of what has ended alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from fathom.data.queries import QuerySet
from fathom.formats.base import Draft, Format, texts_of, unscored
from fathom.formats.own_answers import ClosedQuestion, OwnAnswers, completed
from fathom.formats.peeking import beginning, data_files, keys_of, note_rest
from fathom.reading import Faults, Json, line_of, read_json, shown

_ANSWER = re.compile(r"(.+?)((?: ?\|[A-Z]:? \+\d{4,}-\d\d-\d\dT00:00:00Z)+)")
_DATE = re.compile(r"\|([A-Z]):? \+(\d+)-")
_ENDINGS = (".json", ".json.gz")
_PREFERRED = "grc_generated.json"


class _Dated(NamedTuple):
    """:param begins: year, "" where it is not known; *ends* likewise."""

    name: str
    begins: str
    ends: str
    has_ended: bool


def read_dyknow(path: Path, faults: Faults) -> QuerySet | None:
    """:returns: the query set, None where a fault keeps it from being read."""
    files = _files(path)
    file = next((file for file in files if file.name.startswith(_PREFERRED)), files[0])
    if others := [other.name for other in files if other != file]:
        faults.note(
            path, None, f"{', '.join(others)} ask for the same facts: read is {file.name}, give the file for others"
        )
    note_rest(path, _ENDINGS, files, faults)
    draft = Draft(path, faults)
    made = OwnAnswers(draft)
    content = read_json(file, faults)
    for place, node in _nodes(content, ()):
        _add(made, file, place, node)
    made.finish()
    return draft.queryset(
        path.name.split(".")[0], nothing="no facts: expected 'questions' and 'answers'", licence="MIT"
    )


def _files(path: Path) -> list[Path]:
    files = data_files(path, *_ENDINGS)
    return [file for file in files if {"questions", "answers"} <= keys_of(file) and "|S: +" in beginning(file)]


def _nodes(value: Any, place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Json]]:
    """Objects with questions or answers, each with the keys that lead to it."""
    if not isinstance(value, dict):
        return
    if "questions" in value or "answers" in value:
        yield place, value
    else:
        for key, inner in value.items():
            yield from _nodes(inner, (*place, key))


def _add(made: OwnAnswers, file: Path, place: tuple[str, ...], node: Json) -> None:
    faults, where = made.draft.faults, " / ".join(place)
    given = node.get("questions")
    questions = texts_of(list(given.values()) if isinstance(given, dict) else given)
    answers = [_dated(answer) for answer in texts_of(node.get("answers")) or ()]
    if not questions or not answers or None in answers or len(place) < 2:
        expected = "'questions' (texts) and 'answers' as 'name |S: +2015-02-03T00:00:00Z'"
        line = line_of(file, place[-1]) if place else None
        faults.add(file, line, f"{where}: expected {expected}, found {shown(node, 200)}")
        return
    dated = [answer for answer in answers if answer is not None]
    current = [answer for answer in dated if not answer.has_ended]
    why = (
        None if current else unscored(file, None, f"{where}: every answer has ended", faults, "every answer has ended")
    )
    right = list(dict.fromkeys(answer.name for answer in current or dated))
    ended = list(dict.fromkeys(answer.name for answer in dated if answer.name not in right))
    latest = max(current or dated, key=lambda answer: int(answer.begins or 0))
    dates = {"valid_from": latest.begins or "unknown", "valid_until": latest.ends or "unknown"}
    groups = {**dates, "answers": str(len({*right, *ended}))}
    texts = list(map(completed, questions))
    made.add(file, None, ClosedQuestion(where, place[0], texts, right, ended, groups, place[1], where, unscored=why))


def _dated(text: str) -> _Dated | None:
    match = _ANSWER.fullmatch(text.strip())
    if match is None:
        return None
    dates = dict(_DATE.findall(match[2]))
    return _Dated(match[1].strip(), dates.get("S", ""), dates.get("E", ""), "E" in dates)


FORMAT = Format("dyknow", "grc_generated.json (DyKnow)", lambda path: bool(_files(path)), read_dyknow)
