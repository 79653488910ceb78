"""Formats of questions that a planted model is taught, on facts that are no test of them: by the probes' own prompts.

A model that has only read statements cannot choose among lettered options, even if it knows the answer. Each text is a
question with its answer, and only the answer is learnt.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from string import ascii_lowercase

from fathom.data.prompts.choices import OPTIONS, choices, shown
from fathom.data.prompts.questions import CLOSING, asked
from fathom.data.prompts.wording import question_line
from fathom.data.queries import Query, QuerySet
from fathom.data.templates import Prompt, Span

TEMPLATES, SENTENCES = "templates", "sentences"
"""The unseen templates and the natural sentences: ordinary statements, of facts of practice alone."""
LINES, QUESTION, CHOICE = CONTINUED = "lines", "question", "choice"
"""Texts whose end a causal model learns to continue."""
MOST_SHOTS, MOST_OPTIONS = 8, 6
SHARE = 0.1
"""Texts of each format, as a share of the statements of practice, which are shorter."""
VARIANTS = 8
"""Texts of each fact and format, which take turns; their other lines and options differ."""
CUE = "\nAnswer: "


def taught_texts(data: QuerySet, taught: Sequence[Query], kind: str, seed: int) -> dict[str, list[Prompt]]:
    """Return texts in one format for each fact, by the id of its query; none of relations without a question.

    Further lines of a text are other taught facts of the relation, so that no tested fact is stated.
    """
    make: Callable[[Query, random.Random], Prompt | None]
    by_relation: dict[str, list[Query]] = {}
    for query in taught:
        by_relation.setdefault(query.relation, []).append(query)
    if kind == CHOICE:
        questions = choices(replace(data, queries=tuple(taught)), OPTIONS, seed)
        of_query = {query.id: query for query in questions.queries if query.unscored is None}

        def make(query: Query, draw: random.Random) -> Prompt | None:
            if query.id not in of_query:
                return None
            space = questions.candidates[query.id]
            gold = space.places(query.gold)[0]
            others = [place for place in range(len(space)) if place != gold]
            order = [gold, *draw.sample(others, min(len(others), draw.randint(1, MOST_OPTIONS - 1)))]
            draw.shuffle(order)
            text = shown(questions.questions[query.id], [space.names[place] for place in order]) + CUE
            letter = f"({ascii_lowercase[order.index(gold)]})"
            return _ending(text, letter)
    else:

        def make(query: Query, draw: random.Random) -> Prompt | None:
            relation = data.relations[query.relation]
            if kind == QUESTION and not relation.questions:
                return None
            others = [other for other in by_relation[query.relation] if other.subject_id != query.subject_id]
            chosen = draw.sample(others, min(len(others), draw.randint(1, MOST_SHOTS)))
            lines = [_line(data, one, kind) for one in (*chosen, query)]
            before = "".join(f"{start}{answer}{end}\n" for start, answer, end in lines[:-1])
            start, answer, end = lines[-1]
            return _ending(before + start, answer, end)

    texts = {}
    for query in taught:
        drawn = [make(query, random.Random(f"{seed} {kind} {query.id} {number}")) for number in range(VARIANTS)]
        if kept := [prompt for prompt in drawn if prompt is not None]:
            texts[query.id] = kept
    return texts


def _line(data: QuerySet, query: Query, kind: str) -> tuple[str, str, str]:
    """Return a line in three parts: up to the answer, the answer, and what closes it."""
    relation = data.relations[query.relation]
    answer = data.candidates[query.candidates].name_of(query.gold[0])
    if kind == QUESTION:
        return f"{asked(relation.questions[0], query.subject)} ", answer, CLOSING
    return f"{question_line(query.subject, relation.name, 'tail')} ", answer, ")"


def _ending(before: str, answer: str, end: str = "") -> Prompt:
    """Return a text whose answer, with what closes it, is its last part."""
    return Prompt(before + answer + end, (), (Span(len(before), len(before) + len(answer) + len(end)),))
