"""Ready-made multiple choice: JSON Lines of ``prompt`` and ``gold``, as in OntoProbe's ``multiple_choice``.

Reasoning files are named by rule and premises: in ``rdfs2-12`` P1 is implicit (:data:`PREMISES`) and P2 explicit. The
group ``premise`` is the memorising question whose answer is P1; ``item`` holds the texts of one premise together.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from string import ascii_lowercase
from typing import NamedTuple

from fathom.base.reading import Faults, Json, NotData, Unreadable, json_value, read_json_lines, text_lines
from fathom.base.reading import shown as shown_value
from fathom.data.formats.base import Format, texts_of
from fathom.data.formats.ontoprobe import MEMORIZING
from fathom.data.prompts.alterations import COUNTERFACTUAL, NEEDED
from fathom.data.prompts.choices import MOST, Choices, shown, statements_of
from fathom.data.prompts.ontology import RULES, TASKS
from fathom.data.queries import CandidateSet, Query, Relation, cardinality_of
from fathom.data.templates import ANSWER, Sentence
from fathom.store.files import write_json_lines

REASONING = "reasoning"
"""Folder of the files named by rule and premises, next to that of the memorising tasks."""
ARGUMENTS, ALTERED = "arguments", "altered"
"""Folder of arguments, and the ending of its files."""
PREMISES = {"2": "explicit", "1": "implicit", "0": "absent"}
"""How P1 is given, by its digit in a file's name."""

_RULE_FILE = re.compile(rf"(rdfs\d+)-(?:([012])2|({ALTERED}))")
_PREMISE = re.compile(r"(\w+)/\d+")
_ABOUT = re.compile(r"What (?:is the (?:type|superclass) of (?!it if )|does )(.+?)(?: imply)?\?")


class _ChoiceLine(NamedTuple):
    """A line.

    :param listed: its ``cands``, or the options of its prompt.
    :param premise: id of the question about P1, "" if the line names none.
    :param text: its ``conclusion`` and ``given``, empty if it is of no argument.
    """

    id: str
    stem: str
    question: str
    options: tuple[str, ...]
    listed: tuple[str, ...]
    gold: int
    premise: str
    text: Mapping[str, str]


def is_choices(path: Path) -> bool:
    """Return whether the first line of the first file has a prompt and a gold answer."""
    files = _files(path)
    if not files:
        return False
    try:
        first = json_value(next(text_lines(files[0]), ""))
    except (Unreadable, NotData):
        return False
    return isinstance(first, dict) and {"prompt", "gold"} <= first.keys()


def read_choices(path: Path, faults: Faults) -> Choices | None:
    """Return the query set, or None after a fault."""
    items = [item for file in _files(path) for item in _items(file, faults)]
    if not items and not faults.found:
        faults.add(path, None, "no question in it: expected lines with 'prompt' and 'gold'")
    if faults.found:
        return None
    memorizing = [item for item in [*items, *_memorizing_items(path)] if item.stem in TASKS]
    ids = {item.id for item in memorizing}
    if lost := next((item for item in items if ids and item.premise and item.premise not in ids), None):
        faults.add(path, None, f"{lost.id} names the premise {lost.premise!r}, which is no question of {MEMORIZING}")
        return None
    by_content = {(item.stem, item.listed, item.gold): item for item in memorizing}
    queries = [_query(item, by_content) for item in items]
    golds: dict[str, list[str]] = defaultdict(list)
    for query in queries:
        golds[query.relation] += query.gold
    return Choices(
        name=path.resolve().name,
        queries=tuple(queries),
        candidates={item.id: CandidateSet(item.id, item.options, item.options) for item in items},
        relations={name: Relation(name, name, (), cardinality_of(answers)) for name, answers in golds.items()},
        notes=tuple(faults.notes),
        questions={item.id: item.question for item in items},
    )


def write_choices(folder: Path, files: Mapping[str, Iterable[Json]]) -> None:
    """Write questions into an existing folder.

    :param files: lines (:func:`question_line`) of each file, by its path without an ending: "reasoning/rdfs2-22".
    """
    for name, rows in files.items():
        file = folder / f"{name}.jsonl"
        file.parent.mkdir(exist_ok=True)
        write_json_lines(file, rows)


def question_line(question: str, names: Sequence[str], gold: int) -> Json:
    """Make a line of a file."""
    return {"prompt": shown(question, names), "gold": f"({ascii_lowercase[gold]}) {names[gold]}"}


def split_prompt(prompt: str) -> tuple[str, tuple[str, ...]] | None:
    """Split a prompt into its question and options, lettered from (a) on; None without 2 to 26 options."""
    question, mark, rest = prompt.partition(" (a) ")
    options = []
    for letter in ascii_lowercase[1:]:
        option, more, tail = rest.partition(f", ({letter}) ")
        options.append(option.strip())
        if not more:
            break
        rest = tail
    else:
        if ", (aa) " in rest:
            return None
        options.append(rest.strip())
    return (question.strip(), tuple(options)) if mark and len(options) > 1 and all(options) else None


def _files(path: Path) -> list[Path]:
    """Sort memorising tasks before rules, in the order of the paper, and others last."""
    if path.is_file():
        return [path]
    folders = [path / MEMORIZING, path / REASONING, path / ARGUMENTS] if not list(path.glob("*.jsonl")) else [path]
    stems = [*TASKS, *(f"{rule}-{digit}2" for rule in RULES for digit in "012")]
    stems += [f"{rule}-{ALTERED}" for rule in RULES]
    places = {stem: place for place, stem in enumerate(stems)}
    files = [file for folder in folders for file in sorted(folder.glob("*.jsonl"))]
    return sorted(files, key=lambda file: places.get(file.stem, len(stems)))


def _memorizing_items(path: Path) -> list[_ChoiceLine]:
    """Read the memorising items next to a folder of reasoning or arguments."""
    parent = path.resolve().parent / MEMORIZING
    if path.resolve().name not in (REASONING, ARGUMENTS) or not parent.is_dir():
        return []
    return [item for file in _files(parent) for item in _items(file, Faults())]


def _items(file: Path, faults: Faults) -> Iterator[_ChoiceLine]:
    for number, (line, row) in enumerate(read_json_lines(file, {"prompt": str, "gold": str}, faults)):
        parts = split_prompt(row["prompt"])
        if parts is None:
            expected = f"expected a prompt 'question (a) …, (b) …' of 2 to {MOST} options"
            faults.add(file, line, f"{expected}, found {row['prompt'][:60]!r}")
            continue
        question, options = parts
        named = [row["gold"] in (option, f"({ascii_lowercase[at]}) {option}") for at, option in enumerate(options)]
        if len({option.casefold() for option in options}) < len(options):
            faults.add(file, line, "two options are the same")
        elif True not in named:
            faults.add(file, line, f"gold {row['gold'][:40]!r} is none of the {len(options)} options")
        else:
            listed = _listed(file, line, row, options, faults)
            about = (f"{file.stem}/{number}", file.stem, question, options, listed, named.index(True))
            yield _ChoiceLine(*about, *_names_in_row(file, line, row, faults))


def _names_in_row(file: Path, line: int, row: Json, faults: Faults) -> tuple[str, Mapping[str, str]]:
    """Return ``premise`` of a line, "" by default, and the name of its text."""
    premise = row.get("premise", "")
    rule = _RULE_FILE.fullmatch(file.stem)
    task = RULES.get(rule[1]) if rule else None
    match = _PREMISE.fullmatch(premise) if isinstance(premise, str) else None
    if "premise" in row and not (match and match[1] == task):
        expected = f"must name a question as '{task}/3'" if task else "belongs to files of rules (rdfs9-02.jsonl)"
        faults.add(file, line, f"'premise' {expected}, found {shown_value(premise)}")
        return "", {}
    if rule is None or not rule[3]:
        return premise, {}
    text = {key: str(row.get(key)) for key in ("conclusion", "given")} | {"order": str(row.get("order", 0))}
    if not premise or text["conclusion"] not in (*NEEDED, COUNTERFACTUAL) or not isinstance(row.get("given"), str):
        faults.add(file, line, f"expected 'premise', 'conclusion' and 'given', found {shown_value(text)}")
    return premise, text


def _listed(file: Path, line: int, row: Json, options: Sequence[str], faults: Faults) -> tuple[str, ...]:
    listed = row.get("cands", options)
    if "cands" in row and (texts_of(listed) is None or len(listed) != len(options)):
        faults.add(file, line, f"'cands' must list the {len(options)} options, found {shown_value(listed)}")
        return tuple(options)
    for option, cand in zip(options, listed, strict=True):
        if option != cand:
            faults.note(file, line, f"the prompt says {option!r}, its 'cands' {cand!r}: asked as in the prompt")
    return tuple(listed)


def _query(item: _ChoiceLine, memorizing: Mapping[tuple[str, tuple[str, ...], int], _ChoiceLine]) -> Query:
    """:param memorizing: items by task, options and gold."""
    rule = _RULE_FILE.fullmatch(item.stem)
    subject = about[1] if (about := _ABOUT.fullmatch(item.question)) else ""
    sentences = [text for text in statements_of(item.question) if text.count(ANSWER) == 1]
    return Query(
        id=item.id,
        relation=rule[1] if rule and not rule[3] else item.stem,
        subject=subject,
        subject_id=subject,
        gold=(item.options[item.gold],),
        candidates=item.id,
        groups={"options": str(len(item.options)), **_groups(item, rule, memorizing)},
        sentences=tuple(map(Sentence, sentences)),
    )


def _groups(
    item: _ChoiceLine, rule: re.Match[str] | None, memorizing: Mapping[tuple[str, tuple[str, ...], int], _ChoiceLine]
) -> dict[str, str]:
    """:param rule: match of the file's name, if it is one of a rule."""
    if not rule:
        return {"task": item.stem} if item.stem in TASKS else {}
    groups = {"rule": rule[1]} | (dict(item.text) if rule[3] else {"p1": PREMISES[rule[2]]})
    if item.premise:
        groups |= {"premise": item.premise, "item": f"{rule[1]} {item.premise}"}
    elif premise := memorizing.get((RULES.get(rule[1], ""), item.listed, item.gold)):
        groups |= {"premise": premise.id}
    return groups


FORMAT = Format("choices", "JSON Lines of prompt and gold (multiple choice)", is_choices, read_choices)
