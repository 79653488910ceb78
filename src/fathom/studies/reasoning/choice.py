"""Multiple choice from memory and by reasoning (tables 5 and 6 of Wu et al. 2023), and the conclusions of
:mod:`.conclusions`, from the arguments that ``fathom build choices`` writes.

Takes runs on multiple-choice data of OntoProbe's form, of any probe that ranks or gives credit. A reasoning question
without P1 counts as *memorised* if the model, in the same scoring, chose the gold answer of the question for P1. With
several statements, more than half of them count. The data's file names state what another model remembered, and are
ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fathom.base.errors import BadInput
from fathom.data.prompts.alterations import PLAIN
from fathom.data.prompts.choices import NO_OPTION
from fathom.results.estimates import Estimate, combined, mean, recipe
from fathom.results.loading import short_names
from fathom.results.rows import Rows, grouped
from fathom.results.samples import Origin, by_default, check_key, sample_of_origins
from fathom.results.tables import Table
from fathom.store.folder import RunFolder
from fathom.studies.options import ChoiceStudyOptions
from fathom.studies.reasoning.conclusions import (
    Conclusion,
    conclusion_tables,
    counterfactuals,
    evidence_of,
    is_remembered,
    judge,
    summarise,
    values_by_place,
)
from fathom.studies.reasoning.shortcuts import AskedText, solved_items

ALL = "all"

GIVEN, MEMORISED, NOT_MEMORISED, UNKNOWN = "given", "memorised", "not memorised", "not known"
"""How P1 comes to the model; *not known* if its memorising question is missing or has no answer."""
_NOTES = (
    "accuracy: of the questions with an answer, with its 95 % interval; all: over tasks or rules",
    "unparsed: replies that name no option; all wrong: accuracy where they, and the unscored, count as wrong",
)
_PREMISE = "P1 memorised: the model chose the right answer of the question that asks for P1; P2 is always given"
_AS_PUBLISHED = (
    "as published: no altered texts; a preference for a letter, an option or a frequent answer, and copying P1, give "
    "such numbers as well"
)
NO_ARGUMENTS = "nothing can be concluded: the questions have no altered texts, which fathom build choices writes"
_BY_DESIGN = {"p1": "it is how the data give P1, not how questions were sampled"}


class MarkedQuestion(NamedTuple):
    """A question with its credit.

    :param credit: mean over its statements, NaN if one has none.
    :param reason: why it is NaN, else "".
    :param options: names, in the order of the data.
    """

    groups: Mapping[str, str]
    credit: float
    reason: str
    origin: Origin
    text: str
    options: Sequence[str]
    gold: str


class ModelQuestions(NamedTuple):
    """The questions of one model in one scoring, by id. :param recipes: of its runs."""

    model: str
    scoring: str
    questions: dict[str, MarkedQuestion]
    recipes: list[str]

    def recipe(self, name: str) -> str:
        return combined(name, self.recipes, " and ")


Row = dict[str, Any]


class ChoiceLines(NamedTuple):
    """The findings, of each model the questions of each task or rule.

    :param memorizing: "unparsed": questions whose reply names no option; "unscored": others without an answer; "all
        wrong": accuracy if both count as wrong.
    :param reasoning: likewise; "P1": how it comes to the model.
    :param notes: unfinished runs.
    """

    memorizing: list[Row]
    reasoning: list[Row]
    notes: list[str]
    conclusions: list[Conclusion]
    counterfactuals: list[Row]


def analyse(runs: Sequence[RunFolder], options: ChoiceStudyOptions = ChoiceStudyOptions()) -> ChoiceLines:
    """Return the lines of all tables, each model's together.

    :param runs: of one model or several; memorising and reasoning in one run or in several.
    :raises BadInput: a run without such questions, a question twice for one model, or with different options.
    """
    models = questions_of(runs, options.cluster)
    evidence, against = [], []
    for model in models:
        name = model.model if len({entry.scoring for entry in models}) == 1 else f"{model.model} {model.scoring}"
        asked = [question for question in model.questions.values() if "conclusion" in question.groups]
        values = values_by_place((question.groups, question.credit) for question in asked)
        memory: dict[str, dict[str, float]] = {}
        for question in asked:
            premise = model.questions.get(question.groups["premise"])
            if premise is not None and not np.isnan(premise.credit):
                memory.setdefault(question.groups["rule"], {})[question.groups["item"]] = premise.credit
        solved = solved_items(map(_asked_text, asked))
        evidence += evidence_of(name, values, [], memory, solved, model.recipe("accuracy"))
        against += counterfactuals(name, values, model.recipe("accuracy"))
    return ChoiceLines(
        [line for model in models for line in _memorizing(model)],
        [line for model in models for line in _reasoning(model)],
        [f"{run.path} is unfinished: numbers cover the finished part only" for run in runs if not run.is_complete()],
        judge(evidence),
        against,
    )


def _asked_text(question: MarkedQuestion) -> AskedText:
    groups = question.groups
    place = groups["conclusion"], groups["rule"], "1", PLAIN
    return AskedText(
        place, groups["item"], groups["given"], question.text, question.options, question.gold, frozenset()
    )


def _memorizing(model: ModelQuestions) -> list[Row]:
    tasks = grouped(
        (question.groups["task"], question) for question in model.questions.values() if "task" in question.groups
    )
    lines = [_line(model, task, "", {task: of_task}) for task, of_task in tasks.items()]
    return lines + ([_line(model, ALL, "", tasks)] if len(tasks) > 1 else [])


def _reasoning(model: ModelQuestions) -> list[Row]:
    parts = grouped(
        ((question.groups["rule"], _premise(question, model.questions)), question)
        for question in model.questions.values()
        if "rule" in question.groups and "conclusion" not in question.groups
    )
    rules = list(dict.fromkeys(rule for rule, _ in parts))
    order = (NOT_MEMORISED, MEMORISED, UNKNOWN, GIVEN)
    cells = [(rule, premise, [rule]) for rule in rules for premise in order]
    cells += [(ALL, premise, rules) for premise in order if len(rules) > 1]
    return [
        _line(model, task, premise, by_rule)
        for task, premise, of_rules in cells
        if (by_rule := {rule: parts[rule, premise] for rule in of_rules if (rule, premise) in parts})
    ]


def _premise(question: MarkedQuestion, questions: Mapping[str, MarkedQuestion]) -> str:
    if question.groups.get("p1") == "explicit":
        return GIVEN
    memory = questions.get(question.groups.get("premise", ""))
    if memory is None or np.isnan(memory.credit):
        return UNKNOWN
    return MEMORISED if is_remembered(memory.credit) else NOT_MEMORISED


def _line(model: ModelQuestions, task: str, premise: str, parts: Mapping[str, Sequence[MarkedQuestion]]) -> Row:
    """:param parts: questions by task or rule, the clusters of an interval over several."""
    questions = [(part, question) for part, of_part in parts.items() for question in of_part]

    def number(name: str, pairs: Sequence[tuple[str, MarkedQuestion]]) -> Estimate:
        default = by_default([part for part, _ in pairs], "question", "rule" if premise else "task")
        origins = [question.origin for _, question in pairs]
        sample = sample_of_origins(origins) if any(origin.key for origin in origins) else default
        about = f"|rule:{task}|P1:{premise}" if premise else f"|task:{task}"
        values = [float(np.nan_to_num(question.credit)) for _, question in pairs]
        return mean(values, sample, model.recipe(name) + about)

    answered = [(part, question) for part, question in questions if not np.isnan(question.credit)]
    unparsed = sum(question.reason in NO_OPTION for _, question in questions)
    return {
        "model": model.model,
        "scoring": model.scoring,
        **({"rule": task, "P1": premise} if premise else {"task": task}),
        "questions": len(questions),
        "accuracy": number("accuracy", answered),
        "unparsed": unparsed,
        "unscored": len(questions) - len(answered) - unparsed,
        "all wrong": number("accuracy, all wrong", questions),
    }


# --- questions


def questions_of(runs: Sequence[RunFolder], cluster: str) -> list[ModelQuestions]:
    """Return each model in each scoring, with its questions of all runs.

    :param cluster: key by which questions were drawn together; some run must have it.
    :raises BadInput: a run without such questions, a question twice for one model, or with different options.
    """
    tables = [Rows(run, with_scores=False) for run in runs]
    check_key(cluster, (key for rows in tables for groups in rows.groups for key in groups), _BY_DESIGN)
    _check_options(runs, tables)
    models: dict[tuple[str, str], ModelQuestions] = {}
    for run, rows, name in zip(runs, tables, short_names(runs), strict=True):
        for scoring in rows.scorings:
            questions = _questions(run, rows, scoring, cluster)
            model = models.setdefault((name, scoring), ModelQuestions(name, scoring, {}, []))
            if double := next((id_ for id_ in questions if id_ in model.questions), None):
                raise BadInput(f"{run.path}: another run has question {double} of {name} {scoring}, too: leave one out")
            model.questions.update(questions)
            model.recipes.append(recipe(rows, "accuracy", scoring))
    return list(models.values())


def _questions(run: RunFolder, rows: Rows, scoring: str, cluster: str) -> dict[str, MarkedQuestion]:
    expected = f"{run.path}: expected a run on OntoProbe's multiple-choice data, or on what fathom build choices makes"
    if not any({"task", "rule"} & groups.keys() for groups in rows.groups):
        raise BadInput(f"{expected}, found no memorising task and no rule")
    if any(
        "premise 1" in groups or {"conclusion", "premise"} & groups.keys() == {"conclusion"} for groups in rows.groups
    ):
        raise BadInput(f"{expected}, found the texts of the entailment or chains study")
    places = grouped((int(rows.query[place]), place) for place in rows.of(scoring).tolist())
    hits = rows.hits(1)
    questions = {}
    for query, of_query in places.items():
        if {"task", "rule"} & rows.groups[query].keys():
            ids, names = rows.candidates.get(rows.spaces[query] or "", ((), ()))
            gold = next(iter(rows.gold[query]), "")
            questions[rows.query_ids[query]] = MarkedQuestion(
                rows.groups[query],
                float(hits[of_query].mean()),
                next((reason for place in of_query if (reason := rows.reason[place]) is not None), ""),
                rows.origin(query, cluster),
                rows.asked(of_query[0])[0].partition(" (a) ")[0],
                names,
                dict(zip(ids, names, strict=True)).get(gold, gold),
            )
    return questions


def _check_options(runs: Sequence[RunFolder], tables: Sequence[Rows]) -> None:
    """:raises BadInput: a question has different options in two runs."""
    options: dict[str, tuple[tuple[str, ...], RunFolder]] = {}
    for run, rows in zip(runs, tables, strict=True):
        for question, (_, names) in rows.candidates.items():
            first = options.setdefault(question, (tuple(names), run))
            if first[0] != tuple(names):
                raise BadInput(f"question {question} has other options in {run.path} than in {first[1].path}")


# --- tables


def conclude(findings: ChoiceLines) -> list[str]:
    return summarise(findings.conclusions) or [f"{NO_ARGUMENTS.capitalize()}."]


def tables(findings: ChoiceLines) -> list[Table]:
    """Return the conclusions, and memorising and reasoning (tables 5 and 6 of Wu et al. 2023), without empty tables."""
    notes = (*_NOTES, *findings.notes)
    published = [_AS_PUBLISHED, *([] if findings.conclusions else [NO_ARGUMENTS])]
    tables = (
        *conclusion_tables(findings.conclusions, findings.counterfactuals, findings.notes),
        Table.of(findings.memorizing, "memorising", notes, main="accuracy"),
        Table.of(findings.reasoning, "reasoning", (*published, _PREMISE, *notes), main="accuracy"),
    )
    return [table for table in tables if table.rows]
