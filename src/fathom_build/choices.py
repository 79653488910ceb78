"""Multiple choice from an ontology: memorising questions, reasoning questions after six rules of RDFS, and arguments.

Worded and written as OntoProbe's authors did for ChatGPT (Wu et al. 2023, section 5): the premise about X and Y (P2) is
always given, the ontological premise (P1) in the files ``…-22`` and not in the files ``…-02``. Unlike theirs, each
question draws options of its own, and no wrong option is right by the ontology's hierarchy. The folder ``arguments``
holds arguments about nonce words, and altered texts from which the answer does not follow.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fathom.base.errors import BadInput, refuse
from fathom.base.options import EVERYTHING
from fathom.base.reading import Json
from fathom.data.formats import locate, read
from fathom.data.formats.choices import ALTERED, ARGUMENTS, REASONING, question_line, write_choices
from fathom.data.formats.ontology import Hierarchy, read_hierarchy
from fathom.data.formats.ontoprobe import MEMORIZING, PROPERTY_FILE, is_ontoprobe, read_patterns
from fathom.data.prompts.alterations import COMBINES, COUNTERFACTUAL, PLAIN, REMEMBERS, WHOLE, argument_queries
from fathom.data.prompts.choices import NO_DISTRACTOR, Choices, choices, drawn_options, right_answers
from fathom.data.prompts.nonce import NonceWords, excerpt_of
from fathom.data.prompts.ontology import LIMITED, RULES, TASKS, Patterns, few_items, one_answer, one_of
from fathom.data.queries import CandidateSet, Query, QuerySet, unrankable
from fathom.data.selection.filters import select
from fathom.data.selection.options import Selection
from fathom.data.templates import ANSWER, SUBJECT
from fathom.store.outputs import obstacles, signature_of, whole_folder
from fathom_build.options import ChoicesBuildOptions

Rows = list[Json]
GIVEN, OMITTED = "22", "02"
"""Endings of the files with and without P1."""
_PAIRS = 2
"""Pairs of nonce words, so that a lucky guess of one altered question takes no verdict."""


class BuiltChoices(NamedTuple):
    """What was built.

    :param counts: questions by file, and omitted items by rule and reason.
    :param notes: rules with too few items for a conclusion.
    """

    counts: dict[str, int]
    notes: list[str]


def build_choices(options: ChoicesBuildOptions) -> BuiltChoices:
    """Write a folder of multiple-choice questions.

    :raises BadInput: other data, the folder exists, or a property without a sentence pattern.
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
    data = select(whole, Selection(subset=None if part == EVERYTHING else part)).data
    hierarchy = read_hierarchy(folder, whole)
    memorizing = choices(data, options.options, options.seed, hierarchy.right_too)
    sampler = _OptionSampler(data, hierarchy, options.options, options.seed)
    patterns = read_patterns(folder)
    files = _memorizing(memorizing) | _reasoning(memorizing, patterns, sampler)
    files |= _arguments(data, memorizing, patterns, hierarchy, options)
    with whole_folder(options.out, signature) as new_folder:
        write_choices(new_folder, files)
    answers = {rule: _answers_of(files.get(f"{ARGUMENTS}/{rule}-{ALTERED}", ())) for rule in RULES}
    counts = {name: len(rows) for name, rows in files.items()} | _omitted(data)
    if lacking := sum(query.unscored == NO_DISTRACTOR for query in memorizing.queries):
        counts[f"left out ({NO_DISTRACTOR})"] = lacking
    return BuiltChoices(counts, [*few_items(answers), *one_answer(answers)])


def _answers_of(lines: Sequence[Json]) -> list[str]:
    """Return the answer of each argument."""
    whole = (line for line in lines if (line["conclusion"], line["given"]) == (COMBINES, WHOLE))
    return [line["gold"].partition(") ")[2] for line in whole]


def _omitted(data: QuerySet) -> dict[str, int]:
    """Count the items by rule of which no single class follows."""
    by_task = data.by_relation()
    counts = {
        f"left out of {rule} (one of several classes: none follows)": sum(map(bool, map(one_of, by_task.get(task, ()))))
        for rule, task in RULES.items()
    }
    return {name: count for name, count in counts.items() if count}


class _OptionSampler:
    """Draws options anew for each question about one fact."""

    def __init__(self, data: QuerySet, hierarchy: Hierarchy, options: int, seed: int) -> None:
        self.data, self.hierarchy, self.options, self.seed = data, hierarchy, options, seed
        self.queries = {query.id: query for query in data.queries}
        self.ids = {name: sorted(space.ids) for name, space in data.candidates.items()}

    def row(self, query: Query, form: str, question: str) -> Json:
        """Return a line of a file."""
        fact = self.queries[query.id]  # with all of its right answers, which multiple choice cuts to one
        space = self.data.candidates[fact.candidates]
        excluded = right_answers(fact, space) | self.hierarchy.right_too(fact)
        seed = f"{self.seed} {query.id} {form}"
        drawn = drawn_options(seed, space, self.ids[fact.candidates], fact.gold[:1], excluded, self.options)
        return _line(question, CandidateSet("", tuple(drawn), tuple(map(space.name_of, drawn))), fact.gold[0])


def _memorizing(items: Choices) -> dict[str, Rows]:
    return {
        f"{MEMORIZING}/{task}": [
            _line(items.questions[query.id], items.candidates[query.id], query.gold[0])
            | {"cands": list(items.candidates[query.id].names)}
            for query in queries
        ]
        for task, queries in _by_task(items).items()
        if queries
    }


def _by_task(items: Choices) -> dict[str, list[Query]]:
    """Return the scorable queries of each task, in the order of its file."""
    return {
        task: [query for query in queries if query.unscored is None]
        for task, queries in items.by_relation().items()
        if task in TASKS
    }


def _reasoning(items: Choices, patterns: Mapping[str, Mapping[str, str]], sampler: _OptionSampler) -> dict[str, Rows]:
    by_task = _by_task(items)
    files: dict[str, Rows] = {}
    for rule, task in RULES.items():
        facts = [
            (query, f"{task}/{number}", _phrase(rule, query, items.questions[query.id], patterns.get(task, {})))
            for number, query in enumerate(by_task.get(task, ()))
            if not one_of(sampler.queries[query.id])
        ]
        for ending, first in ((OMITTED, 1), (GIVEN, 0)):
            form = f"{rule}-{ending}"
            files[f"{REASONING}/{form}"] = [
                sampler.row(query, form, f"{' '.join(premises[first:])} Therefore, {question}") | {"premise": premise}
                for query, premise, (premises, question) in facts
            ]
    return {name: rows for name, rows in files.items() if rows}


def _arguments(
    data: QuerySet, memorizing: Choices, patterns: Patterns, hierarchy: Hierarchy, options: ChoicesBuildOptions
) -> dict[str, Rows]:
    """Phrase arguments and their altered texts about nonce words."""
    conclusions = (COMBINES, REMEMBERS, COUNTERFACTUAL)
    texts = argument_queries(data, patterns, list(RULES), (1,), (PLAIN,), _PAIRS, options.seed, conclusions)
    words = NonceWords(excerpt_of(data.whole or data, patterns), list(RULES), _PAIRS, options.seed)
    items = choices(words.put_in(texts), options.options, options.seed, hierarchy.right_too, sharing_words=True)
    premises = {
        query.id: f"{task}/{number}"
        for task, queries in _by_task(memorizing).items()
        for number, query in enumerate(queries)
    }
    return {
        f"{ARGUMENTS}/{rule}-{ALTERED}": [
            _line(items.questions[query.id], items.candidates[query.id], query.gold[0])
            | {"premise": premises[query.groups["item"]]}
            | {key: query.groups[key] for key in ("conclusion", "given", "order")}
            for query in queries
            if unrankable(query, items.candidates[query.id]) is None and query.groups["item"] in premises
        ]
        for rule, queries in items.by_relation().items()
        if queries
    }


def _line(question: str, options: CandidateSet, gold: str) -> Json:
    return question_line(question, options.names, options.position[gold])


def _phrase(rule: str, query: Query, question: str, patterns: Mapping[str, str]) -> tuple[tuple[str, str], str]:
    """Phrase one rule about one fact: P1 and P2, and the question about the pseudoword."""

    def about_pseudowords(property_: str) -> str:
        return patterns[property_].replace(SUBJECT, "X").replace(ANSWER, "Y")

    subject, gold = query.subject, query.gold[0]
    if rule in ("rdfs2", "rdfs3"):
        clause = re.sub(r" it$", " that", question.partition(" of it if ")[2].removesuffix("?"))
        limited = f"{LIMITED.replace('particular ' + ANSWER, gold)}{clause}."
        pseudoword = "X" if rule == "rdfs2" else "Y"
        return ((limited, about_pseudowords(subject)), f"What is the type of {pseudoword}?")
    if rule == "rdfs5":
        return ((f"{subject} implies {gold}.", f"X implies {subject}."), "What does X imply?")
    if rule == "rdfs7":
        premises = (f"{subject} implies {about_pseudowords(gold)}", about_pseudowords(subject))
        return (premises, "What is the relation between X and Y?")
    kind = "type" if rule == "rdfs9" else "superclass"
    return ((f"{subject} is a {gold}.", f"X is a {subject}."), f"What is the {kind} of X?")
