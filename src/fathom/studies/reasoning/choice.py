"""What models choose from memory, and what they choose when they reason (tables 5 and 6 of Wu et al. 2023), beside the
controls without which the second says nothing of reasoning (:mod:`.choice_controls`, :mod:`.choice_bias`).

Runs on multiple-choice data of OntoProbe's form, of any probe that ranks or gives credit. A reasoning question in
which the premise P1 is not given counts as *memorised* where the same model, in the same scoring, chose the right
answer of the memorising question whose answer is P1; with several statements, in more than half of them. How the data's
files are named says what another model remembered, and is not used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fathom.prompts.choices import NO_OPTION
from fathom.results.estimates import Estimate, mean
from fathom.results.recipes import combined
from fathom.results.rows import grouped
from fathom.results.samples import Sample, by_default, drawn_from
from fathom.results.tables import Table
from fathom.store.folder import RunFolder
from fathom.studies.reasoning.choice_bias import BOUND, Liking, letters, likings
from fathom.studies.reasoning.choice_controls import ALL, FEWEST, MEANING, Conclusion, Contrast, controlled
from fathom.studies.reasoning.choice_questions import MarkedQuestion, ModelAsked, asked_of

GIVEN, MEMORISED, NOT_MEMORISED, UNKNOWN = "given", "memorised", "not memorised", "not known"
"""How P1 comes to the model; *not known* where its memorising question was not asked or has no answer."""
_NOTES = (
    "accuracy: of the questions with an answer, with its 95 % interval; all: over tasks or rules",
    "unparsed: replies that name no option; all wrong: accuracy where they, and the unscored, count as wrong",
)
_PREMISE = "P1 memorised: the model chose the right answer of the question that asks for P1; P2 is always given"
_AS_PUBLISHED = (
    "as published: no control; a liking for a letter, an option or a frequent answer, and copying P1, give such "
    "numbers, too: what may be concluded stands in the table conclusions"
)
_SAME = (
    "{same} of {of} reasoning questions show the options of their memorising question in the same order: what is liked "
    "there is liked here; fathom build choices draws options anew, fathom probe choice --orders shows them in several"
)


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
    accuracy: Estimate
    unparsed: int
    unscored: int
    all_wrong: Estimate


class ChoiceLines(NamedTuple):
    """All tables' lines.

    :param notes: on runs that are not finished.
    :param same: how many reasoning questions show what their memorising question shows, and of how many.
    """

    memorizing: list[ChoiceLine]
    reasoning: list[ChoiceLine]
    notes: list[str]
    contrasts: list[Contrast]
    conclusions: list[Conclusion]
    likings: list[Liking]
    letters: list[Liking]
    same: tuple[int, int]


def analyse(runs: Sequence[RunFolder], cluster: str = "") -> ChoiceLines:
    """Both tables, each model's lines together.

    :param runs: of one model or several; memorising and reasoning in one run or in two.
    :param cluster: key by which questions were drawn together, which some run must have; see
        :mod:`fathom.results.samples`.
    :raises BadInput: no such question in a run, a question asked twice of one model, or with other options.
    """
    asked = asked_of(runs, cluster)
    liked = [likings(of_model) for of_model in asked]
    contrasts, conclusions = controlled(list(zip(asked, liked, strict=True)))
    return ChoiceLines(
        [line for of_model in asked for line in _memorizing(of_model)],
        [line for of_model in asked for line in _reasoning(of_model)],
        [f"{run.path} is unfinished: numbers are of the finished part only" for run in runs if not run.is_complete()],
        contrasts,
        conclusions,
        [one for own in liked for one in own],
        [one for of_model in asked for one in letters(of_model)],
        _same(asked),
    )


def _same(asked: Sequence[ModelAsked]) -> tuple[int, int]:
    pairs = [
        (question.chosen, of_model.questions[premise].chosen)
        for of_model in asked
        for question in of_model.questions.values()
        if (premise := question.groups.get("premise", "")) in of_model.questions
    ]
    alike = [
        own.options == other.options and own.gold_letters == other.gold_letters and len(own.gold_letters) == 1
        for own, other in pairs
    ]
    return sum(alike), len(alike)


def _memorizing(asked: ModelAsked) -> list[ChoiceLine]:
    tasks = grouped((one.groups["task"], one) for one in asked.questions.values() if "task" in one.groups)
    lines = [_line(asked, task, "", {task: own}) for task, own in tasks.items()]
    return lines + ([_line(asked, ALL, "", tasks)] if len(tasks) > 1 else [])


def _reasoning(asked: ModelAsked) -> list[ChoiceLine]:
    asked_for = [question for question in asked.questions.values() if "control" not in question.groups]
    ruled = [question for question in asked_for if "rule" in question.groups]
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


def _premise(question: MarkedQuestion, questions: Mapping[str, MarkedQuestion]) -> str:
    if question.groups.get("p1") == "explicit":
        return GIVEN
    memory = questions.get(question.groups.get("premise", ""))
    if memory is None or np.isnan(memory.credit):
        return UNKNOWN
    return MEMORISED if memory.credit > 0.5 else NOT_MEMORISED


def _line(asked: ModelAsked, task: str, premise: str, parts: Mapping[str, Sequence[MarkedQuestion]]) -> ChoiceLine:
    """:param parts: the questions, by what the interval of all is clustered by; of one part, each stands alone."""
    every = [(part, question) for part, own in parts.items() for question in own]
    about = f"|rule:{task}|P1:{premise}" if premise else f"|task:{task}"

    def number(name: str, given: Sequence[tuple[str, MarkedQuestion]]) -> Estimate:
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


def _sample(given: Sequence[tuple[str, MarkedQuestion]], group: str) -> Sample:
    """As the user says, else whole groups or the questions within each."""
    if any(question.origin.key for _, question in given):
        return drawn_from([question.origin for _, question in given])
    return by_default([part for part, _ in given], "question", group)


def conclude(findings: ChoiceLines) -> list[str]:
    """Whether each model reasons: over all rules, or by its only one."""
    rules = {one.rule for one in findings.conclusions}
    shown = [one for one in findings.conclusions if one.rule == ALL or len(rules) == 1]
    return [f"{one.model} reasons ({one.rule} rules): {one.conclusion} ({one.because})." for one in shown]


def tables(findings: ChoiceLines) -> list[Table]:
    """Memorising and reasoning (tables 5 and 6 of Wu et al. 2023), and the controls; those without a line are left
    out."""
    notes = (*_NOTES, *findings.notes)
    every = (
        _table(findings.memorizing, "memorising", ("task",), notes),
        _table(findings.reasoning, "reasoning", ("rule", "P1"), (_AS_PUBLISHED, _PREMISE, *notes)),
        _of_contrasts(findings),
        _of_likings(findings.likings, "likings", (*_LIKED, *findings.notes)),
        _of_likings(findings.letters, "letters", findings.notes),
        _of_conclusions(findings),
    )
    return [table for table in every if table.rows]


_LIKED = (
    "of the questions in which P1 is not said: how often the letter and the option with the greatest excess, and of "
    "each question the option that is right most often in the others, are chosen and are right",
    f"p: adjusted for all letters or options; beyond {BOUND:.0%} (p < 5 %) nothing is concluded, unless the question "
    "without premises was asked",
)


def _of_contrasts(findings: ChoiceLines) -> Table:
    """What stands against what."""
    columns = ("model", "scoring", "rule", "contrast", "n", "other n", "mean", "other mean", "difference")
    names = dict.fromkeys(line.name for line in findings.contrasts)
    notes = [f"{name}: {MEANING[name]} (mean − other mean, rule by rule)" for name in names] + findings.notes
    formats = dict.fromkeys(("mean", "other mean"), ".1%")
    return Table.of(findings.contrasts, "contrasts", notes, columns=columns, formats=formats)


def _of_likings(lines: Sequence[Liking], title: str, notes: Iterable[str]) -> Table:
    columns = ("model", "scoring", "kind", "which", "chosen", "right", "excess")
    return Table.of(lines, title, notes, columns=columns, formats=dict.fromkeys(("chosen", "right"), ".1%"))


def _of_conclusions(findings: ChoiceLines) -> Table:
    """Last: what all the others allow to say."""
    rows = tuple(tuple(line) for line in findings.conclusions)
    notes = [
        "reasoning: every contrast is above 0 (p < 5 %; of several rules Holm's), not fully controlled: every one that "
        f"the questions allow; the halves have {FEWEST} items or more, more is memorised than guessed, four of five "
        "items have all their answers",
        *([_SAME.format(same=findings.same[0], of=findings.same[1])] if findings.same[0] else []),
        *findings.notes,
    ]
    return Table(("model", "scoring", "rule", "conclusion", "because"), rows, "conclusions", notes=tuple(notes))


def _table(lines: Sequence[ChoiceLine], title: str, about: tuple[str, ...], notes: Iterable[str]) -> Table:
    columns = ("model", "scoring", *about, "questions", "accuracy", "unparsed", "unscored", "all wrong")
    rows = [(*line[:2], *line[2:4][: len(about)], *line[4:]) for line in lines]
    return Table.of(rows, title, notes, columns=columns, main="accuracy")
