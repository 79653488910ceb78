"""Multiple choice from memory and by reasoning (tables 5 and 6 of Wu et al. 2023), with the controls without which the
second shows no reasoning (:mod:`.choice_controls`).

Takes runs on multiple-choice data of OntoProbe's form, of any probe that ranks or gives credit. A reasoning question
without P1 counts as *memorised* if the model, in the same scoring, chose the gold answer of the question for P1. With
several statements, more than half of them count. The data's file names state what another model remembered, and are
ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fathom.prompts.choices import NO_OPTION
from fathom.results.estimates import Estimate, mean
from fathom.results.rows import grouped
from fathom.results.samples import by_default
from fathom.results.tables import Table
from fathom.store.folder import RunFolder
from fathom.studies.reasoning.choice_controls import (
    ALL,
    BOUND,
    FEWEST,
    MEANING,
    ChoiceContrast,
    Conclusion,
    Preference,
    evaluate_controls,
    letter_preferences,
    preferences,
)
from fathom.studies.reasoning.choice_questions import MarkedQuestion, ModelQuestions, questions_of, sample_of

GIVEN, MEMORISED, NOT_MEMORISED, UNKNOWN = "given", "memorised", "not memorised", "not known"
"""How P1 comes to the model; *not known* if its memorising question is missing or has no answer."""
_NOTES = (
    "accuracy: of the questions with an answer, with its 95 % interval; all: over tasks or rules",
    "unparsed: replies that name no option; all wrong: accuracy where they, and the unscored, count as wrong",
)
_PREMISE = "P1 memorised: the model chose the right answer of the question that asks for P1; P2 is always given"
_AS_PUBLISHED = (
    "as published: no control; a preference for a letter, an option or a frequent answer, and copying P1, give such "
    "numbers as well: the conclusions are in the table conclusions"
)
_SAME = (
    "{} of {} reasoning questions show the options of their memorising question in the same order: a preference "
    "affects both; fathom build choices draws options anew, fathom probe choice --orders shows them in several"
)
_LIKED = (
    "of the questions in which P1 is not said: how often the letter and the option with the greatest excess, and of "
    "each question the option that is right most often in the others, are chosen and are right",
    f"p: adjusted for all letters or options; beyond {BOUND:.0%} (p < 5 %) nothing is concluded, unless the question "
    "without premises was asked",
)
_CONCLUSIONS = (
    "reasoning: every contrast is above 0 (p < 5 %; of several rules Holm's), not fully controlled: every one that the "
    f"questions allow; the halves have {FEWEST} items or more, more is memorised than guessed, four of five items have "
    "all their answers"
)


class ChoiceLine(NamedTuple):
    """One model on the questions of one task or rule.

    :param premise: how P1 comes to the model; "" for memorising tasks.
    :param questions: number of questions.
    :param accuracy: of those with an answer; undefined without any.
    :param unparsed: questions whose reply names no option.
    :param unscored: other questions without an answer.
    :param all_wrong: accuracy if questions without an answer count as wrong.
    """

    model: str
    scoring: str
    task: str
    premise: str
    questions: int
    accuracy: Estimate
    unparsed: int
    unscored: int
    all_wrong: Estimate


class ChoiceLines(NamedTuple):
    """The findings.

    :param notes: unfinished runs.
    :param same: number of reasoning questions with the options of their memorising question, and of all.
    """

    memorizing: list[ChoiceLine]
    reasoning: list[ChoiceLine]
    notes: list[str]
    contrasts: list[ChoiceContrast]
    conclusions: list[Conclusion]
    likings: list[Preference]
    letters: list[Preference]
    same: tuple[int, int]


def analyse(runs: Sequence[RunFolder], cluster: str = "") -> ChoiceLines:
    """Return the lines of all tables, each model's together.

    :param runs: of one model or several; memorising and reasoning in one run or in two.
    :param cluster: key by which questions were drawn together; some run must have it (:mod:`fathom.results.samples`).
    :raises BadInput: a run without such questions, a question twice for one model, or with different options.
    """
    models = questions_of(runs, cluster)
    liked = [preferences(model) for model in models]
    contrasts, conclusions = evaluate_controls(list(zip(models, liked, strict=True)))
    return ChoiceLines(
        [line for model in models for line in _memorizing(model)],
        [line for model in models for line in _reasoning(model)],
        [f"{run.path} is unfinished: numbers cover the finished part only" for run in runs if not run.is_complete()],
        contrasts,
        conclusions,
        [one for own in liked for one in own],
        [one for model in models for one in letter_preferences(model)],
        _same_options(models),
    )


def _same_options(models: Sequence[ModelQuestions]) -> tuple[int, int]:
    pairs = [
        (question.chosen, model.questions[premise].chosen)
        for model in models
        for question in model.questions.values()
        if (premise := question.groups.get("premise", "")) in model.questions
    ]
    same = [
        own.options == other.options and own.gold_letters == other.gold_letters and len(own.gold_letters) == 1
        for own, other in pairs
    ]
    return sum(same), len(same)


def _memorizing(model: ModelQuestions) -> list[ChoiceLine]:
    tasks = grouped((one.groups["task"], one) for one in model.questions.values() if "task" in one.groups)
    lines = [_line(model, task, "", {task: own}) for task, own in tasks.items()]
    return lines + ([_line(model, ALL, "", tasks)] if len(tasks) > 1 else [])


def _reasoning(model: ModelQuestions) -> list[ChoiceLine]:
    parts = grouped(
        ((question.groups["rule"], _premise(question, model.questions)), question)
        for question in model.questions.values()
        if "control" not in question.groups and "rule" in question.groups
    )
    rules = list(dict.fromkeys(rule for rule, _ in parts))
    order = (NOT_MEMORISED, MEMORISED, UNKNOWN, GIVEN)
    cells = [(rule, premise, [rule]) for rule in rules for premise in order]
    cells += [(ALL, premise, rules) for premise in order if len(rules) > 1]
    return [
        _line(model, task, premise, own)
        for task, premise, of_rules in cells
        if (own := {rule: parts[rule, premise] for rule in of_rules if (rule, premise) in parts})
    ]


def _premise(question: MarkedQuestion, questions: Mapping[str, MarkedQuestion]) -> str:
    if question.groups.get("p1") == "explicit":
        return GIVEN
    memory = questions.get(question.groups.get("premise", ""))
    if memory is None or np.isnan(memory.credit):
        return UNKNOWN
    return MEMORISED if memory.credit > 0.5 else NOT_MEMORISED


def _line(model: ModelQuestions, task: str, premise: str, parts: Mapping[str, Sequence[MarkedQuestion]]) -> ChoiceLine:
    """:param parts: questions by task or rule, the clusters of an interval over several."""
    questions = [(part, question) for part, own in parts.items() for question in own]

    def number(name: str, given: Sequence[tuple[str, MarkedQuestion]]) -> Estimate:
        default = by_default([part for part, _ in given], "question", "rule" if premise else "task")
        sample = sample_of([question for _, question in given], default)
        about = f"|rule:{task}|P1:{premise}" if premise else f"|task:{task}"
        values = [float(np.nan_to_num(question.credit)) for _, question in given]
        return mean(values, sample, model.recipe(name) + about)

    answered = [(part, question) for part, question in questions if not np.isnan(question.credit)]
    unparsed = sum(question.reason in NO_OPTION for _, question in questions)
    return ChoiceLine(
        model.model,
        model.scoring,
        task,
        premise,
        len(questions),
        number("accuracy", answered),
        unparsed,
        len(questions) - len(answered) - unparsed,
        number("accuracy, all wrong", questions),
    )


# --- tables


def conclude(findings: ChoiceLines) -> list[str]:
    """Return whether each model reasons: over all rules, or by its only one."""
    rules = {one.rule for one in findings.conclusions}
    shown = [one for one in findings.conclusions if one.rule == ALL or len(rules) == 1]
    return [f"{one.model} reasons ({one.rule} rules): {one.conclusion} ({one.because})." for one in shown]


def tables(findings: ChoiceLines) -> list[Table]:
    """Return memorising and reasoning (tables 5 and 6 of Wu et al. 2023) and the controls, without empty tables."""
    notes = (*_NOTES, *findings.notes)
    names = dict.fromkeys(line.name for line in findings.contrasts)
    meanings = [f"{name}: {MEANING[name]} (mean − other mean, rule by rule)" for name in names]
    same = [_SAME.format(*findings.same)] if findings.same[0] else []
    tables = (
        _lines(findings.memorizing, "memorising", ("task",), notes),
        _lines(findings.reasoning, "reasoning", ("rule", "P1"), (_AS_PUBLISHED, _PREMISE, *notes)),
        Table.of(
            findings.contrasts,
            "contrasts",
            [*meanings, *findings.notes],
            columns=("model", "scoring", "rule", "contrast", "n", "other n", "mean", "other mean", "difference"),
            formats=dict.fromkeys(("mean", "other mean"), ".1%"),
        ),
        _preferences(findings.likings, "likings", (*_LIKED, *findings.notes)),
        _preferences(findings.letters, "letters", findings.notes),
        Table(
            ("model", "scoring", "rule", "conclusion", "because"),
            tuple(map(tuple, findings.conclusions)),
            "conclusions",
            notes=(_CONCLUSIONS, *same, *findings.notes),
        ),
    )
    return [table for table in tables if table.rows]


def _lines(lines: Sequence[ChoiceLine], title: str, about: tuple[str, ...], notes: Iterable[str]) -> Table:
    columns = ("model", "scoring", *about, "questions", "accuracy", "unparsed", "unscored", "all wrong")
    rows = [(*line[:2], *line[2:4][: len(about)], *line[4:]) for line in lines]
    return Table.of(rows, title, notes, columns=columns, main="accuracy")


def _preferences(lines: Sequence[Preference], title: str, notes: Iterable[str]) -> Table:
    formats = dict.fromkeys(("chosen", "right"), ".1%")
    return Table.of([line._asdict() for line in lines], title, notes, formats=formats)
