"""A chat model's opinion of a finished probe: answers that do not fit their relation, and filled templates.

The prompts are the paper's (Wiland et al. 2024, figures 11 and 13). The opinions go to the tables for review; a person
decides.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from fathom.building.bear.plan import RelationPlan
from fathom.building.bear.review import COLUMNS, SHEET, TEMPLATE_COLUMNS
from fathom.building.review import REVIEW_FILE
from fathom.building.sheets import Row, read_sheet, write_sheet
from fathom.data.queries import CandidateSet
from fathom.errors import BadInput
from fathom.formats import read
from fathom.reading import json_file, shown
from fathom.results.tables import Table
from fathom.store.files import whole_file

SYSTEM, SENTENCES = (
    (Path(__file__).parent / name).read_text(encoding="utf-8").strip() for name in ("outliers.txt", "sentences.txt")
)
CORRECT, OF_MODEL, FLAGGED = "correct", "model", "flagged by the model"
AT_ONCE = 100
"""Answers in one question: BEAR-big's largest answer space."""
Ask = Callable[[str, Sequence[str]], Sequence[str]]
"""Given a system message and questions, the replies; "" where there is none."""
_CORRECT = re.compile(r"\W*correct\W*", re.IGNORECASE)
_TUPLE = re.compile(r"\(\s*\[.*\]\s*,.*\)", re.DOTALL)


def flag_review(file: Path, ask: Ask) -> tuple[Table, list[str]]:
    """Add the answers that a chat model flags to the review file, and its opinion to the table of templates.

    :param file: the review file in the folder of a probe; what a person has written in it stays.
    :returns: a table of the flagged answers, and notes.
    :raises BadInput: the file is not in such a folder.
    """
    folder, notes = file.absolute().parent, list[str]()
    relations, variants = _contents(folder)
    review = [row for _, row in read_sheet(file, COLUMNS, COLUMNS, f"the {REVIEW_FILE} of fathom build bear")]
    filled = [row for _, row in read_sheet(folder / SHEET, {"sentence"}, TEMPLATE_COLUMNS, f"the {SHEET} next to it")]
    listed = {(row["relation"], row["id"]): row for row in review}
    largest = {name: answers for spaces in reversed(variants.values()) for name, answers in spaces.items()}
    rows = []
    for property_, answers in largest.items():
        for id_, name in _flagged(relations[property_], answers, ask, notes):
            rows.append((property_, id_, name))
            row = listed.get((property_, id_))
            if row is None:
                used = (
                    name for name, spaces in variants.items() if property_ in spaces and id_ in spaces[property_].ids
                )
                about = {"relation": property_, "id": id_, "name": name, "why": FLAGGED, "in": "; ".join(used)}
                review.append(dict.fromkeys(COLUMNS, "") | about)
            elif FLAGGED not in row["why"]:
                row["why"] = f"{row['why']}; {FLAGGED}".removeprefix("; ")
    _write(file, review)
    _write(folder / SHEET, _judged(filled, ask, notes))
    return Table(("relation", "id", "answer"), tuple(rows), "answers that do not fit, by the model"), notes


def _contents(folder: Path) -> tuple[dict[str, RelationPlan], dict[str, Mapping[str, CandidateSet]]]:
    """Return the planned relations, and the answers of each variant, the largest first."""
    try:
        manifest = json_file(folder / "manifest.json")
        relations = [RelationPlan(**relation) for relation in manifest["options"]["relations"]]
        variants = {name: read(folder / place).candidates for name, place in manifest["variants"].items()}
    except (ValidationError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"{folder} is no probe of fathom build bear: give the {REVIEW_FILE} in one") from error
    return {relation.property: relation for relation in relations}, variants


def _flagged(relation: RelationPlan, answers: CandidateSet, ask: Ask, notes: list[str]) -> Iterator[tuple[str, str]]:
    """Yield id and name of the answers that the model says do not fit. Others that it lists are ignored."""
    starts = range(0, len(answers), AT_ONCE)
    replies = ask(SYSTEM, [question(relation, answers.names[start : start + AT_ONCE]) for start in starts])
    for start, reply in zip(starts, replies, strict=True):
        flagged = read_reply(reply)
        if flagged is None:
            notes.append(f"{relation.property}: the model gave no list of outliers: {shown(reply)}")
        for place in range(start, min(start + AT_ONCE, len(answers))):
            if answers.names[place] in (flagged or ()):
                yield answers.ids[place], answers.names[place]


def _judged(filled: Sequence[Row], ask: Ask, notes: list[str]) -> Iterator[Row]:
    """Yield filled templates, each with "correct", the model's correction, or "" without a reply."""
    replies = ask(SENTENCES, [row["sentence"] for row in filled])
    opinions = [CORRECT if _CORRECT.fullmatch(reply) else " ".join(reply.split()) for reply in replies]
    if doubted := sum(opinion not in (CORRECT, "") for opinion in opinions):
        notes.append(f"the model doubts {doubted} of {len(filled)} filled templates: see {SHEET}")
    for row, opinion in zip(filled, opinions, strict=True):
        yield row | {OF_MODEL: opinion}


def _write(path: Path, rows: Iterable[Row]) -> None:
    """Write a table with all columns of its rows, which a person may have added."""
    content = [{name: cell for name, cell in row.items() if name} for row in rows]
    columns = dict.fromkeys(name for row in content for name in row)
    with whole_file(path) as temporary:
        write_sheet(temporary, list(columns) or COLUMNS, content)


def question(relation: RelationPlan, answers: Sequence[str]) -> str:
    """Return the question about one relation."""
    about = {"label": relation.name or relation.property, "description": relation.description or relation.templates[0]}
    return repr(about | {"answers": list(answers)})


def read_reply(reply: str) -> list[str] | None:
    """Return the list in a reply such as ``(['Berlin'], 'countries')``; None if it has none."""
    match = _TUPLE.search(reply.replace("’", "'").replace("‘", "'"))
    try:
        value = ast.literal_eval(match[0]) if match else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    names = value[0] if isinstance(value, tuple) and value else None
    return [str(name) for name in names] if isinstance(names, list) else None
