"""DyKnow (Mousavi et al., EMNLP Findings 2024): facts that change, with all their answers and dates.

Published files (github.com/sislab-unitn/DyKnow): ``grc_generated.json``, prompts to complete, or ``qa_generated.json``,
questions. Objects of kinds, subjects and sometimes roles are nested down to ``questions`` and ``answers``. An answer
reads ``Sergio Mattarella |S: +2015-02-03T00:00:00Z``; without ``|E: …`` it is current.

Gold answers are the current ones; distractors are outdated. The groups ``valid_from`` and ``valid_until`` are the years
of the latest gold answer; only ended answers have the second.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from fathom.formats.base import Draft, texts_of, unscored_unless
from fathom.formats.closed_questions import ClosedQuestion, add_questions, completed
from fathom.formats.recognition import JSON_ENDINGS, beginning, define_format, keys_of
from fathom.reading import Faults, Json, line_of, read_json, shown

_ANSWER = re.compile(r"(.+?)((?: ?\|[A-Z]:? \+\d{4,}-\d\d-\d\dT00:00:00Z)+)")
_DATE = re.compile(r"\|([A-Z]):? \+(\d+)-")
_PREFERRED = "grc_generated.json"


class _DatedName(NamedTuple):
    """:param begins: year, "" where it is not known; *ends* likewise."""

    name: str
    begins: str
    ends: str
    has_ended: bool


def _fill(draft: Draft, files: list[Path]) -> None:
    file = next((file for file in files if file.name.startswith(_PREFERRED)), files[0])
    if others := [other.name for other in files if other != file]:
        message = f"{', '.join(others)} have the same facts as {file.name}, which is read: give another file to read it"
        draft.faults.note(draft.path, None, message)
    nodes = _nodes(read_json(file, draft.faults), ())
    questions = (_question(file, place, node, draft.faults) for place, node in nodes)
    add_questions(draft, (question for question in questions if question is not None))


def _nodes(value: Any, place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Json]]:
    """Yield objects with questions or answers, each with the keys that lead to it."""
    if not isinstance(value, dict):
        return
    if "questions" in value or "answers" in value:
        yield place, value
    else:
        for key, inner in value.items():
            yield from _nodes(inner, (*place, key))


def _question(file: Path, place: tuple[str, ...], node: Json, faults: Faults) -> ClosedQuestion | None:
    where, texts = " / ".join(place), node.get("questions")
    questions = texts_of(list(texts.values()) if isinstance(texts, dict) else texts)
    answers = [_dated(answer) for answer in texts_of(node.get("answers")) or ()]
    dated = [answer for answer in answers if answer is not None]
    if not questions or not answers or len(dated) < len(answers) or len(place) < 2:
        expected = "'questions' (texts) and 'answers' as 'name |S: +2015-02-03T00:00:00Z'"
        line = line_of(file, place[-1]) if place else None
        faults.add(file, line, f"{where}: expected {expected}, found {shown(node, 200)}")
        return None
    current, reason = [answer for answer in dated if not answer.has_ended], "every answer has ended"
    why = unscored_unless(current, file, None, f"{where}: {reason}", faults, reason)
    right = list(dict.fromkeys(answer.name for answer in current or dated))
    outdated = list(dict.fromkeys(answer.name for answer in dated if answer.name not in right))
    latest = max(current or dated, key=lambda answer: int(answer.begins or 0))
    dates = {"valid_from": latest.begins or "unknown", "valid_until": latest.ends or "unknown"}
    groups, texts = {**dates, "answers": str(len({*right, *outdated}))}, list(map(completed, questions))
    about = (where, place[0], texts, right, outdated, groups, place[1], where)
    return ClosedQuestion(file, None, *about, unscored=why)


def _dated(text: str) -> _DatedName | None:
    match = _ANSWER.fullmatch(text.strip())
    if match is None:
        return None
    dates = dict(_DATE.findall(match[2]))
    return _DatedName(match[1].strip(), dates.get("S", ""), dates.get("E", ""), "E" in dates)


FORMAT = define_format(
    "dyknow",
    "grc_generated.json (DyKnow)",
    JSON_ENDINGS,
    lambda file: {"questions", "answers"} <= keys_of(file) and "|S: +" in beginning(file),
    _fill,
    nothing="no facts: expected 'questions' and 'answers'",
    licence="MIT",
)
