"""Multiple choice from an ontology: memorising questions, reasoning questions after six rules of RDFS, and controls.

Worded and written as OntoProbe's authors did for ChatGPT (Wu et al. 2023, section 5), so that
:mod:`fathom.formats.choices` reads it. X and Y stand for what no model can know; the premise about them (P2) is
always given, the ontological premise (P1) in the files ``…-22`` and not in the files ``…-02``.

Unlike theirs, each reasoning question draws options and an order of its own, so that no liking for a letter or a wrong
option says which premise is remembered; no wrong option is right by the ontology's hierarchy; and the folder
``controls`` holds each question without any premise (``…-00``), and with P1 about another subject (``…-32``).
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from fathom.building.options import ChoicesBuildOptions
from fathom.data.queries import CandidateSet, Query, QuerySet
from fathom.data.selection.filters import select
from fathom.data.selection.options import Selection
from fathom.data.templates import ANSWER, SUBJECT
from fathom.errors import BadInput, refuse
from fathom.formats import locate, read
from fathom.formats.choices import ANOTHERS, BARE, CONTROLS, REASONING, question_line, write_choices
from fathom.formats.hierarchy import Hierarchy, read_hierarchy
from fathom.formats.ontoprobe import MEMORIZING, PROPERTY_FILE, is_ontoprobe, read_patterns
from fathom.options import EVERYTHING
from fathom.prompts.choices import Choices, choices, drawn_options, right_answers
from fathom.prompts.entailment import NO_OTHER
from fathom.prompts.ontology import LIMITED, PROPERTIES, RULES, TASKS, one_of
from fathom.reading import Json
from fathom.store.outputs import obstacles, signature_of, whole_folder

Rows = list[Json]
SAID, UNSAID = "22", "02"
"""Endings of the files in which P1 is given, and is not."""


def build_choices(options: ChoicesBuildOptions) -> dict[str, int]:
    """Write a folder of multiple-choice questions.

    :returns: number of questions by file, and of omitted items by rule and reason.
    :raises BadInput: other data, the folder exists, a property without a sentence pattern, or a question for which the
        ontology has no distractor.
    :raises MadeBefore: the same call has made the folder.
    """
    folder = locate(options.data)
    if not is_ontoprobe(folder):
        raise BadInput(f"{folder} is no ontology: expected {PROPERTY_FILE}, such as fathom build ontology makes")
    drawing = {name: getattr(options, name) for name in ("options", "seed", "subset")}
    signature = signature_of("build choices", drawing, files=[folder])
    refuse(obstacles(options.out, signature))
    whole = read(folder)
    part = options.subset or whole.usual or EVERYTHING
    chosen = select(whole, Selection(subset=None if part == EVERYTHING else part)).data
    hierarchy = read_hierarchy(folder, whole)
    asked = choices(chosen, options.options, options.seed, hierarchy.right_too)
    lots = _Lots(chosen, hierarchy, options.options, options.seed)
    files = _memorizing(asked) | _reasoning(asked, read_patterns(folder), lots)
    with whole_folder(options.out, signature) as new_folder:
        write_choices(new_folder, files)
    return {name: len(rows) for name, rows in files.items()} | _left_out(chosen) | _without_another(files)


def _left_out(data: QuerySet) -> dict[str, int]:
    """Of rdfs2 and rdfs3 the items whose domain or range is one of several classes, of which none follows."""
    by_task = data.by_relation()
    counts = {rule: sum(bool(one_of(query)) for query in by_task.get(task, ())) for rule, task in RULES.items()}
    return {f"left out of {rule} (one of several classes: none follows)": n for rule, n in counts.items() if n}


def _without_another(files: Mapping[str, Rows]) -> dict[str, int]:
    """Of each rule the items whose control cannot be made."""
    lacking = {
        rule: len(files.get(f"{REASONING}/{rule}-{UNSAID}", ())) - len(files.get(f"{CONTROLS}/{rule}-{ANOTHERS}", ()))
        for rule in RULES
    }
    return {f"left out of {CONTROLS}/{rule}-{ANOTHERS} ({NO_OTHER})": n for rule, n in lacking.items() if n}


class _Lots:
    """Draws options anew for each question about one fact."""

    def __init__(self, data: QuerySet, hierarchy: Hierarchy, options: int, seed: int) -> None:
        self.data, self.hierarchy, self.options, self.seed = data, hierarchy, options, seed
        self.queries = {query.id: query for query in data.queries}
        self.ids = {name: sorted(space.ids) for name, space in data.candidates.items()}

    def row(self, query: Query, form: str, question: str, lure: str = "") -> Json:
        """A line of a file. :param lure: a wrong answer that must be among the options."""
        fact = self.queries[query.id]  # with all of its right answers, which multiple choice cuts to one
        space = self.data.candidates[fact.candidates]
        never = right_answers(fact, space) | self.hierarchy.right_too(fact)
        shown = [answer for answer in (fact.gold[0], lure) if answer]
        lot = f"{self.seed} {query.id} {form}"
        drawn = drawn_options(lot, space, self.ids[fact.candidates], shown, never, self.options)
        return _line(question, CandidateSet("", tuple(drawn), tuple(map(space.name_of, drawn))), fact.gold[0])

    def another(self, query: Query, others: list[Query]) -> Query | None:
        """Another fact, drawn among *others*, whose P1 says nothing of what the query is about; None where
        each does."""
        fact_query = self.queries[query.id]
        above = self.hierarchy.right_too(fact_query) | self.hierarchy.of(fact_query.candidates, [fact_query.subject])
        if fact_query.relation in ("domain", "range"):  # what P1 is about is a property there, the answer a class
            above |= self.hierarchy.of(PROPERTIES, [fact_query.subject])
        fitting = [
            other
            for other in others
            if not above & {other.subject.casefold(), *(answer.casefold() for answer in other.gold)}
        ]
        return random.Random(f"{self.seed} {query.id} other").choice(fitting) if fitting else None


def _memorizing(asked: Choices) -> dict[str, Rows]:
    tasks = {
        f"{MEMORIZING}/{task}": [
            _line(asked.questions[query.id], asked.candidates[query.id], query.gold[0])
            | {"cands": list(asked.candidates[query.id].names)}
            for query in queries
        ]
        for task, queries in _of_tasks(asked).items()
    }
    return {name: rows for name, rows in tasks.items() if rows}


def _of_tasks(asked: Choices) -> dict[str, list[Query]]:
    """Queries that can be asked, of each task, as they stand in its file."""
    return {
        task: [query for query in queries if query.unscored is None]
        for task, queries in asked.by_relation().items()
        if task in TASKS
    }


class _Fact(NamedTuple):
    """A fact as a rule uses it.

    :param premise: id of the memorising question that asks for P1, in the files.
    :param given: P1 and P2 in words.
    :param question: about the pseudoword.
    """

    query: Query
    premise: str
    given: tuple[str, str]
    question: str


def _reasoning(asked: Choices, patterns: Mapping[str, Mapping[str, str]], lots: _Lots) -> dict[str, Rows]:
    by_task = _of_tasks(asked)
    files: dict[str, Rows] = {}
    for rule, task in RULES.items():
        facts = [
            _Fact(query, f"{task}/{number}", *_worded(rule, query, asked.questions[query.id], patterns.get(task, {})))
            for number, query in enumerate(by_task.get(task, ()))
            if not one_of(lots.queries[query.id])
        ]
        rows = {
            f"{REASONING}/{rule}-{UNSAID}": [_row(lots, fact, f"{rule}-{UNSAID}", fact.given[1:]) for fact in facts],
            f"{REASONING}/{rule}-{SAID}": [_row(lots, fact, f"{rule}-{SAID}", fact.given) for fact in facts],
            f"{CONTROLS}/{rule}-{BARE}": [_row(lots, fact, f"{rule}-{BARE}", ()) for fact in facts],
            f"{CONTROLS}/{rule}-{ANOTHERS}": list(_with_anothers(lots, facts, f"{rule}-{ANOTHERS}")),
        }
        files |= {name: own for name, own in rows.items() if own}
    return files


def _with_anothers(lots: _Lots, facts: list[_Fact], form: str) -> Iterator[Json]:
    """P2 of each fact after P1 of another, whose answer is among the options: who copies P1 chooses it."""
    by_id = {fact.query.id: fact for fact in facts}
    for fact in facts:
        other = lots.another(fact.query, [one.query for one in facts])
        if other is not None:
            given = (by_id[other.id].given[0], fact.given[1])
            yield _row(lots, fact, form, given, other.gold[0]) | {"lure": other.gold[0]}


def _row(lots: _Lots, fact: _Fact, form: str, given: tuple[str, ...], lure: str = "") -> Json:
    question = f"{' '.join(given)} Therefore, {fact.question}" if given else fact.question
    return lots.row(fact.query, form, question, lure) | {"premise": fact.premise}


def _line(question: str, options: CandidateSet, gold: str) -> Json:
    """:raises BadInput: nothing but what is right can be shown."""
    if len(options) < 2:
        raise BadInput(
            f"{question!r}: every class or property of the ontology is right, found no wrong option: leave the item "
            "out of the ontology, or add some"
        )
    return question_line(question, options.names, options.position[gold])


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
