"""Multiple choice from an ontology: memorising questions, and reasoning questions after six rules of RDFS.

Worded and written as OntoProbe's authors did for ChatGPT (Wu et al. 2023, section 5), so that
:mod:`fathom.formats.choices` reads it. X and Y stand for what nobody can know; the premise about them (P2) is
always given, the ontological premise (P1) in the files ``…-22`` and not in the files ``…-02``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from fathom.data.queries import Query
from fathom.data.selection.filters import Selection, select
from fathom.data.templates import ANSWER, SUBJECT
from fathom.errors import BadInput
from fathom.formats import locate, read
from fathom.formats.choices import REASONING, question_line, write_choices
from fathom.formats.ontoprobe import MEMORIZING, PROPERTY_FILE, is_ontoprobe, read_patterns
from fathom.prompts.choices import OPTIONS, Choices, choices
from fathom.prompts.ontology import LIMITED, RULES, TASKS
from fathom.reading import Json
from fathom.store.files import whole_folder

Rows = list[Json]


def build_choices(
    data: str | Path, out: Path, options: int = OPTIONS, seed: int = 0, subset: str = "test"
) -> dict[str, int]:
    """Write the folder *out*. :returns: how many questions each of its files has.

    :param data: a folder as OntoProbe's, or one that ``fathom build ontology`` made.
    :param options: 2 to 26.
    :raises BadInput: other data, *out* is there already, a property without a sentence pattern.
    """
    folder = locate(data)
    if not is_ontoprobe(folder):
        raise BadInput(f"{folder} is no ontology: expected {PROPERTY_FILE}, such as fathom build ontology makes")
    if out.exists():
        raise BadInput(f"{out} is there already: delete it, or choose another --out")
    asked = choices(select(read(folder), Selection(subset=subset)).data, options, seed)
    files = _memorizing(asked) | _reasoning(asked, read_patterns(folder))
    with whole_folder(out) as made:
        write_choices(made, files)
    return {name: len(rows) for name, rows in files.items()}


def _memorizing(asked: Choices) -> dict[str, Rows]:
    found = {
        f"{MEMORIZING}/{task}": [
            _row(asked, query, asked.questions[query.id]) | {"cands": list(asked.candidates[query.id].names)}
            for query in queries
            if query.unscored is None
        ]
        for task, queries in asked.by_relation().items()
        if task in TASKS
    }
    return {name: rows for name, rows in found.items() if rows}


def _reasoning(asked: Choices, patterns: Mapping[str, Mapping[str, str]]) -> dict[str, Rows]:
    by_task = asked.by_relation()
    found: dict[str, Rows] = {}
    for rule, task in RULES.items():
        queries = [query for query in by_task.get(task, ()) if query.unscored is None]
        worded = [(query, _worded(rule, query, asked.questions[query.id], patterns.get(task, {}))) for query in queries]
        for digit in "02" if worded else "":
            found[f"{REASONING}/{rule}-{digit}2"] = [
                _row(asked, query, f"{' '.join(given[digit == '0' :])} Therefore, {question}")
                for query, (given, question) in worded
            ]
    return found


def _row(asked: Choices, query: Query, question: str) -> Json:
    names = asked.candidates[query.id].names
    return question_line(question, names, names.index(asked.candidates[query.id].name_of(query.gold[0])))


def _worded(rule: str, query: Query, question: str, patterns: Mapping[str, str]) -> tuple[tuple[str, str], str]:
    """One rule about one fact: P1 and P2, and the question about the pseudoword.

    :param question: of the memorising task.
    :param patterns: "[X]'s mother is [Y] ." by the property's name.
    """
    subject, gold = query.subject, query.gold[0]
    if rule in ("rdfs2", "rdfs3"):
        clause = re.sub(r" it$", " that", question.partition(" of it if ")[2].removesuffix("?"))
        limited = f"{LIMITED.replace('particular ' + ANSWER, gold)}{clause}."
        pseudoword = "X" if rule == "rdfs2" else "Y"
        return ((limited, _about_pseudowords(patterns[subject])), f"What is the type of {pseudoword}?")
    if rule == "rdfs5":
        return ((f"{subject} implies {gold}.", f"X implies {subject}."), "What does X imply?")
    if rule == "rdfs7":
        given = (f"{subject} implies {_about_pseudowords(patterns[gold])}", _about_pseudowords(patterns[subject]))
        return (given, "What is the relation between X and Y?")
    asked = "type" if rule == "rdfs9" else "superclass"
    return ((f"{subject} is a {gold}.", f"X is a {subject}."), f"What is the {asked} of X?")


def _about_pseudowords(pattern: str) -> str:
    return pattern.replace(SUBJECT, "X").replace(ANSWER, "Y")
