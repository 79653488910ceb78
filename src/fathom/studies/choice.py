"""What models choose from memory, and what they choose when they reason (tables 5 and 6 of Wu et al. 2023).

Runs on multiple-choice data of OntoProbe's form, of any probe that ranks or gives credit. A reasoning question in
which the premise P1 is not given counts as *memorised* where the same model, in the same scoring, chose the right
answer of the memorising question whose answer is P1; with several statements, in more than half of them. How the data's
files are named says what another model remembered, and is not used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fathom.errors import BadInput
from fathom.prompts.choices import NO_OPTION
from fathom.results.names import short_names
from fathom.results.numbers import Number, combined, mean, recipe
from fathom.results.rows import Rows, grouped
from fathom.results.samples import Origin, Sample, by_default, check_key, drawn_from
from fathom.results.tables import Table
from fathom.store.folder import RunFolder

GIVEN, MEMORISED, NOT_MEMORISED, UNKNOWN = "given", "memorised", "not memorised", "not known"
"""How P1 comes to the model; *not known* where its memorising question was not asked or has no answer."""
ALL = "all"
_NOTES = (
    "accuracy: of the questions with an answer, with its 95 % interval; all: over tasks or rules",
    "unparsed: replies that name no option; all wrong: accuracy where they, and the unscored, count as wrong",
)
_BY_DESIGN = {"p1": "it is how the data give P1, of which nobody drew a sample"}
_PREMISE = "P1 memorised: the model chose the right answer of the question that asks for P1; P2 is always given"


class ChoiceLine(NamedTuple):
    """One model on the questions of one task or rule.

    :param premise: how P1 comes to the model; "" for memorising tasks.
    :param questions: how many were asked.
    :param accuracy: of those with an answer; without a value where there is none.
    :param unparsed: questions whose reply names no option.
    :param unscored: other questions without an answer.
    :param all_wrong: accuracy over all questions, those without an answer counted as wrong.
    """

    model: str
    scoring: str
    task: str
    premise: str
    questions: int
    accuracy: Number
    unparsed: int
    unscored: int
    all_wrong: Number


class ChoiceLines(NamedTuple):
    """Both tables' lines.

    :param notes: on runs that are not finished.
    """

    memorizing: list[ChoiceLine]
    reasoning: list[ChoiceLine]
    notes: list[str]


class _MarkedQuestion(NamedTuple):
    """:param credit: mean over its statements, NaN where one has none.
    :param reason: why, "" where it has.
    :param origin: how it was drawn, as the user says."""

    groups: Mapping[str, str]
    credit: float
    reason: str
    origin: Origin


class _ModelAsked(NamedTuple):
    """What one model was asked in one scoring.

    :param questions: by id.
    :param made: recipes of its runs.
    """

    model: str
    scoring: str
    questions: dict[str, _MarkedQuestion]
    made: list[str]


def ask(runs: Sequence[RunFolder], cluster: str = "") -> ChoiceLines:
    """Both tables, each model's lines together.

    :param runs: of one model or several; memorising and reasoning in one run or in two.
    :param cluster: key by which questions were drawn together, which some run must have; see
        :mod:`fathom.results.samples`.
    :raises BadInput: no such question in a run, a question asked twice of one model, or with other options.
    """
    read = [Rows(run, with_scores=False) for run in runs]
    check_key(cluster, (key for rows in read for groups in rows.groups for key in groups), _BY_DESIGN)
    _check_options(runs, read)
    asked: dict[tuple[str, str], _ModelAsked] = {}
    for run, rows, model in zip(runs, read, short_names(runs), strict=True):
        for scoring in rows.scorings:
            questions = _questions(run, rows, scoring, cluster)
            of_model = asked.setdefault((model, scoring), _ModelAsked(model, scoring, {}, []))
            if double := next((id_ for id_ in questions if id_ in of_model.questions), None):
                raise BadInput(
                    f"{run.path}: another run has question {double} of {model} {scoring}, too: leave one out"
                )
            of_model.questions.update(questions)
            of_model.made.append(recipe(rows, "accuracy", scoring))
    return ChoiceLines(
        [line for of_model in asked.values() for line in _memorizing(of_model)],
        [line for of_model in asked.values() for line in _reasoning(of_model)],
        [f"{run.path} is unfinished: numbers are of the finished part only" for run in runs if not run.is_complete()],
    )


def _questions(run: RunFolder, rows: Rows, scoring: str, cluster: str) -> dict[str, _MarkedQuestion]:
    """:raises BadInput: no memorising and no reasoning question."""
    if not any({"task", "rule"} & groups.keys() for groups in rows.groups):
        raise BadInput(
            f"{run.path}: no memorising task and no rule in it: expected a run on multiple-choice data as OntoProbe's, "
            "or on what fathom build choices makes"
        )
    places = grouped((int(rows.query[place]), place) for place in rows.of(scoring).tolist())
    hits = rows.hits(1)
    return {
        rows.query_ids[query]: _MarkedQuestion(
            rows.groups[query],
            float(hits[own].mean()),
            next((reason for place in own if (reason := rows.reason[place]) is not None), ""),
            rows.origin(query, cluster),
        )
        for query, own in places.items()
        if {"task", "rule"} & rows.groups[query].keys()
    }


def _check_options(runs: Sequence[RunFolder], read: Sequence[Rows]) -> None:
    """Two models must have had the same choice."""
    options: dict[str, tuple[tuple[str, ...], RunFolder]] = {}
    for run, rows in zip(runs, read, strict=True):
        for question, (_, names) in rows.candidates.items():
            first = options.setdefault(question, (tuple(names), run))
            if first[0] != tuple(names):
                raise BadInput(f"question {question} has other options in {run.path} than in {first[1].path}")


def _memorizing(asked: _ModelAsked) -> list[ChoiceLine]:
    tasks = grouped((one.groups["task"], one) for one in asked.questions.values() if "task" in one.groups)
    lines = [_line(asked, task, "", {task: own}) for task, own in tasks.items()]
    return lines + ([_line(asked, ALL, "", tasks)] if len(tasks) > 1 else [])


def _reasoning(asked: _ModelAsked) -> list[ChoiceLine]:
    ruled = [question for question in asked.questions.values() if "rule" in question.groups]
    parts = grouped(((question.groups["rule"], _premise(question, asked.questions)), question) for question in ruled)
    rules, order = dict.fromkeys(rule for rule, _ in parts), (NOT_MEMORISED, MEMORISED, UNKNOWN, GIVEN)
    lines = [
        _line(asked, rule, premise, {rule: parts[rule, premise]})
        for rule in rules
        for premise in order
        if (rule, premise) in parts
    ]
    if len(rules) > 1:
        for premise in order:
            together = {rule: parts[rule, premise] for rule in rules if (rule, premise) in parts}
            lines += [_line(asked, ALL, premise, together)] if together else []
    return lines


def _premise(question: _MarkedQuestion, questions: Mapping[str, _MarkedQuestion]) -> str:
    if question.groups.get("p1") == "explicit":
        return GIVEN
    memory = questions.get(question.groups.get("premise", ""))
    if memory is None or np.isnan(memory.credit):
        return UNKNOWN
    return MEMORISED if memory.credit > 0.5 else NOT_MEMORISED


def _line(asked: _ModelAsked, task: str, premise: str, parts: Mapping[str, Sequence[_MarkedQuestion]]) -> ChoiceLine:
    """:param parts: the questions, by what the interval of all is clustered by; of one part, each stands alone."""
    every = [(part, question) for part, own in parts.items() for question in own]
    about = f"|rule:{task}|P1:{premise}" if premise else f"|task:{task}"

    def number(name: str, given: Sequence[tuple[str, _MarkedQuestion]]) -> Number:
        made = combined(name, asked.made, " and ") + about
        sample = _sample(given, "rule" if premise else "task")
        return mean([float(np.nan_to_num(question.credit)) for _, question in given], sample, made)

    told = [(part, question) for part, question in every if not np.isnan(question.credit)]
    unparsed = sum(question.reason in NO_OPTION for _, question in every)
    return ChoiceLine(
        asked.model,
        asked.scoring,
        task,
        premise,
        len(every),
        number("accuracy", told),
        unparsed,
        len(every) - len(told) - unparsed,
        number("accuracy, all wrong", every),
    )


def _sample(given: Sequence[tuple[str, _MarkedQuestion]], group: str) -> Sample:
    """As the user says, else whole groups or the questions within each."""
    if any(question.origin.key for _, question in given):
        return drawn_from([question.origin for _, question in given])
    return by_default([part for part, _ in given], "question", group)


def tables(found: ChoiceLines) -> list[Table]:
    """Memorising and reasoning (tables 5 and 6 of Wu et al. 2023); one without questions is left out."""
    notes = (*_NOTES, *found.notes)
    both = (
        _table(found.memorizing, "memorising", ("task",), notes),
        _table(found.reasoning, "reasoning", ("rule", "P1"), (_PREMISE, *notes)),
    )
    return [table for table in both if table.rows]


def _table(lines: Sequence[ChoiceLine], title: str, about: tuple[str, ...], notes: Iterable[str]) -> Table:
    ends = ("all wrong low", "all wrong high")
    return Table.of_numbers(
        ("model", "scoring", *about, "questions", "accuracy", "unparsed", "unscored", "all wrong"),
        [(*line[:2], *line[2:4][: len(about)], *line[4:]) for line in lines],
        title,
        {"accuracy": ("low", "high"), "all wrong": ends},
        dict.fromkeys(("accuracy", "all wrong"), ".1%"),
        notes,
        ends,
    )
