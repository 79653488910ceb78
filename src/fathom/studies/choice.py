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
import pyarrow as pa
from numpy.typing import NDArray

from fathom.errors import BadInput
from fathom.metrics.bootstrap import Interval, interval
from fathom.metrics.ranking import told_hits_at_k
from fathom.results.names import short_names
from fathom.store.folder import RunFolder

GIVEN, MEMORISED, NOT_MEMORISED, UNKNOWN = "given", "memorised", "not memorised", "not known"
"""How P1 comes to the model; *not known* where its memorising question was not asked or has no answer."""
ALL = "all"
UNPARSED = "unparsed"
"""How the reason of a reply that names no option begins."""


class Line(NamedTuple):
    """One model on the questions of one task or rule.

    :param premise: how P1 comes to the model; "" for memorising tasks. :param questions: how many were asked.
    :param accuracy: of those with an answer; None where there is none.
    :param unparsed: questions whose reply names no option. :param unscored: other questions without an answer.
    :param all_wrong: accuracy over all questions, those without an answer counted as wrong.
    """

    model: str
    scoring: str
    task: str
    premise: str
    questions: int
    accuracy: Interval | None
    unparsed: int
    unscored: int
    all_wrong: float


class Found(NamedTuple):
    memorizing: list[Line]
    reasoning: list[Line]


class _Question(NamedTuple):
    """:param credit: mean over its statements, NaN where one has none. :param reason: why, "" where it has."""

    id: str
    groups: Mapping[str, str]
    credit: float
    reason: str


def choice(runs: Sequence[RunFolder]) -> Found:
    """Both tables, each model's lines together.

    :param runs: of one model or several; memorising and reasoning in one run or in two.
    :raises BadInput: no such question in a run, a question asked twice of one model, or with other options.
    """
    _check_options(runs)
    asked: dict[tuple[str, str], dict[str, _Question]] = {}
    for run, model in zip(runs, short_names(runs), strict=True):
        for scoring, question in _questions(run):
            key = (model, scoring)
            of_model = asked.setdefault(key, {})
            if question.id in of_model:
                raise BadInput(
                    f"{run.path}: another run has question {question.id} of {' '.join(key)}, too: leave one out"
                )
            of_model[question.id] = question
    found = Found([], [])
    for key, questions in asked.items():
        found.memorizing.extend(_memorizing(key, questions.values()))
        found.reasoning.extend(_reasoning(key, questions))
    return found


def _questions(run: RunFolder) -> Iterable[tuple[str, _Question]]:
    """Scoring, and what came of each question in it.

    :raises BadInput: no memorising and no reasoning question.
    """
    queries = run.queries()
    groups = {
        id_: dict(found)
        for id_, found in zip(queries.column("query_id").to_pylist(), queries.column("groups").to_pylist(), strict=True)
        if {"task", "rule"} & dict(found).keys()
    }
    if not groups:
        raise BadInput(
            f"{run.path}: no memorising task and no rule in it: expected a run on multiple-choice data as OntoProbe's, "
            "or on what fathom build choices makes"
        )
    table = run.predictions()
    optimistic, pessimistic = _numbers(table, "rank_optimistic"), _numbers(table, "rank_pessimistic")
    hits = told_hits_at_k(optimistic, pessimistic, _numbers(table, "rank_above"), _numbers(table, "correct"), 1)
    reasons = table.column("unscored").to_pylist()
    places: dict[tuple[str, str], list[int]] = {}
    for place, key in enumerate(
        zip(*(table.column(name).to_pylist() for name in ("scoring", "query_id")), strict=True)
    ):
        places.setdefault(key, []).append(place)
    for (scoring, query), own in places.items():
        if query in groups:
            why = [reasons[place] or "no rank was recorded" for place in own if np.isnan(hits[place])]
            credit = float("nan") if why else float(hits[own].mean())
            yield scoring, _Question(query, groups[query], credit, "".join(why[:1]))


def _numbers(table: pa.Table, name: str) -> NDArray[np.float64]:
    return np.asarray(table.column(name).to_numpy(), dtype=np.float64)


def _check_options(runs: Sequence[RunFolder]) -> None:
    """Two models must have had the same choice."""
    options: dict[str, tuple[tuple[str, ...], RunFolder]] = {}
    for run in runs:
        for question, (_, names) in run.candidates().items():
            first = options.setdefault(question, (tuple(names), run))
            if first[0] != tuple(names):
                raise BadInput(f"question {question} has other options in {run.path} than in {first[1].path}")


def _memorizing(key: tuple[str, str], questions: Iterable[_Question]) -> list[Line]:
    tasks: dict[str, list[_Question]] = {}
    for question in questions:
        if "task" in question.groups:
            tasks.setdefault(question.groups["task"], []).append(question)
    return [_line(key, task, "", {task: own}) for task, own in tasks.items()] + (
        [_line(key, ALL, "", tasks)] if len(tasks) > 1 else []
    )


def _reasoning(key: tuple[str, str], questions: Mapping[str, _Question]) -> list[Line]:
    rules: dict[str, dict[str, list[_Question]]] = {}
    for question in questions.values():
        if "rule" in question.groups:
            premise = _premise(question, questions)
            rules.setdefault(question.groups["rule"], {}).setdefault(premise, []).append(question)
    order = (NOT_MEMORISED, MEMORISED, UNKNOWN, GIVEN)
    lines = [
        _line(key, rule, premise, {rule: of_rule[premise]})
        for rule, of_rule in rules.items()
        for premise in order
        if premise in of_rule
    ]
    if len(rules) > 1:
        for premise in order:
            together = {rule: of_rule[premise] for rule, of_rule in rules.items() if premise in of_rule}
            lines += [_line(key, ALL, premise, together)] if together else []
    return lines


def _premise(question: _Question, questions: Mapping[str, _Question]) -> str:
    if question.groups.get("p1") == "explicit":
        return GIVEN
    memory = questions.get(question.groups.get("premise", ""))
    if memory is None or np.isnan(memory.credit):
        return UNKNOWN
    return MEMORISED if memory.credit > 0.5 else NOT_MEMORISED


def _line(key: tuple[str, str], task: str, premise: str, parts: Mapping[str, Sequence[_Question]]) -> Line:
    """:param parts: the questions, by what the interval of all is clustered by; of one part, each stands alone."""
    every = [(part, question) for part, own in parts.items() for question in own]
    told = [(part, question.credit) for part, question in every if not np.isnan(question.credit)]
    unparsed = sum(question.reason.startswith(UNPARSED) for _, question in every)
    values = [credit for _, credit in told]
    clusters = [part for part, _ in told] if task == ALL else None
    accuracy = interval(values, clusters, limits=(0.0, 1.0)) if told else None
    return Line(
        *key,
        task,
        premise,
        len(every),
        accuracy,
        unparsed,
        len(every) - len(told) - unparsed,
        sum(values) / len(every),
    )
