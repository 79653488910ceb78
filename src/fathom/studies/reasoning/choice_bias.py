"""Does a model like a letter, or an option, whatever is asked? Told of the questions in which P1 is not said: there is
where it guesses. See docs/methods/choice.md."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from string import ascii_lowercase
from typing import NamedTuple

from fathom.formats.choices import ANOTHERS, CONTROL
from fathom.metrics.significance import LEVEL
from fathom.results.claims import Claim, Contrast, decide
from fathom.results.estimates import Estimate, difference
from fathom.results.recipes import combined
from fathom.results.rows import grouped
from fathom.results.samples import Sample, drawn_from
from fathom.studies.reasoning.choice_questions import MarkedQuestion, ModelAsked

BOUND = 0.1
"""What is chosen so much more often than it is right decides too much."""
LETTER, WORDING, FREQUENT = "letter", "option", "most frequent answer"


class Liking(NamedTuple):
    """How often one thing is chosen against how often it is right, where it can be chosen.

    :param kind: letter, option, or the option that is right most often in the other questions of its task or rule.
    :param which: the letter or the option; "" of the most frequent answers.
    :param excess: share of questions in which it was chosen − in which it is right, paired; its p value is adjusted for
        all letters, or all options, that were looked at (Holm).
    """

    model: str
    scoring: str
    kind: str
    which: str
    chosen: float
    right: float
    excess: Estimate

    @property
    def beyond(self) -> bool:
        """Whether it is surely there, and large."""
        p_value = self.excess.p_value
        return self.excess.value > BOUND and p_value is not None and p_value < LEVEL

    def __str__(self) -> str:
        what = f"{self.kind} {self.which}".rstrip()
        return f"{what} is chosen in {self.chosen:.0%}, right in {self.right:.0%}"


class _Case(NamedTuple):
    """One question: how often the thing was chosen, and how often it is right."""

    name: str
    question: MarkedQuestion
    chosen: float
    right: float


def letters(asked: ModelAsked) -> list[Liking]:
    """Of every letter; none where options have no letters."""
    told = {name: question for name, question in _guessed(asked).items() if question.chosen.letters}
    every = sorted({letter for question in told.values() for letter in _offered(question)})
    cases = {
        letter: [
            _Case(name, question, question.chosen.letters.get(letter, 0), question.chosen.gold_letters.get(letter, 0))
            for name, question in told.items()
            if letter in _offered(question)
        ]
        for letter in every
    }
    return _adjusted([_liking(asked, LETTER, f"({letter})", own) for letter, own in cases.items()])


def likings(asked: ModelAsked) -> list[Liking]:
    """The letter and the option whose excess is greatest, and the most frequent answers."""
    of_letters = letters(asked)
    options = _of_options(asked)
    frequent = _cases_of_frequent(asked)
    found = [max(of_letters, key=lambda one: one.excess.value)] if of_letters else []
    found += [options] if options is not None else []
    return found + ([_liking(asked, FREQUENT, "", frequent)] if frequent else [])


def _guessed(asked: ModelAsked) -> dict[str, MarkedQuestion]:
    """Questions with an answer in which P1 is not said."""
    return {
        name: question
        for name, question in asked.questions.items()
        if question.chosen.picked
        and question.groups.get("p1") != "explicit"
        and question.groups.get("control") != CONTROL[ANOTHERS]
    }


def _offered(question: MarkedQuestion) -> str:
    return ascii_lowercase[: len(question.chosen.options)]


def _of_options(asked: ModelAsked) -> Liking | None:
    """Of the option with the greatest sum of excess over all questions that offer it; p is Bonferroni's for all."""
    sums: dict[str, float] = defaultdict(float)
    for question in _guessed(asked).values():
        for option, share in question.chosen.picked.items():
            sums[option] += share
        sums[question.chosen.gold] -= 1
    if not sums:
        return None
    which = max(sorted(sums), key=lambda name: sums[name])
    cases = [
        _Case(name, question, question.chosen.picked.get(which, 0), float(question.chosen.gold == which))
        for name, question in _guessed(asked).items()
        if which in question.chosen.options
    ]
    if not cases:
        return None
    found = _liking(asked, WORDING, which, cases)
    p_value = found.excess.p_value
    adjusted = None if p_value is None else min(1.0, p_value * len(sums))
    return found._replace(excess=found.excess._replace(p_value=adjusted))


def _cases_of_frequent(asked: ModelAsked) -> list[_Case]:
    """Of each question the options that are right most often in the others of its task or rule; where several are, each
    counts in part."""
    cases = []
    alike = grouped((_kind(question), (name, question)) for name, question in _guessed(asked).items())
    for questions in alike.values():
        counts = Counter(question.chosen.gold for _, question in questions)
        for name, question in questions:
            others = counts - Counter([question.chosen.gold])
            most = max((others[option] for option in question.chosen.options), default=0)
            best = [option for option in question.chosen.options if others[option] == most]
            if most:
                chosen = sum(question.chosen.picked.get(option, 0) for option in best) / len(best)
                cases.append(_Case(name, question, chosen, (question.chosen.gold in best) / len(best)))
    return cases


def _kind(question: MarkedQuestion) -> tuple[str, ...]:
    return tuple(question.groups.get(key, "") for key in ("task", "rule", "control"))


def _liking(asked: ModelAsked, kind: str, which: str, cases: Sequence[_Case]) -> Liking:
    chosen, right = [one.chosen for one in cases], [one.right for one in cases]
    name = "chosen − right"
    made = combined(name, asked.made, " and ") + f"|{kind}:{which or 'of each question'}|P1:not said"
    excess = difference(chosen, right, _sample(cases), made)
    return Liking(asked.model, asked.scoring, kind, which, sum(chosen) / len(cases), sum(right) / len(cases), excess)


def _sample(cases: Sequence[_Case]) -> Sample:
    """As the user says, else what is asked of one premise together."""
    if any(one.question.origin.key for one in cases):
        return drawn_from([one.question.origin for one in cases])
    return Sample("premise", [one.question.groups.get("premise", one.name) for one in cases])


def _adjusted(found: Sequence[Liking]) -> list[Liking]:
    decisions = decide([Claim(str(one), (Contrast(one.kind, one.excess),)) for one in found])
    return [one._replace(excess=own.estimate) for one, own in zip(found, decisions, strict=True) if own.estimate]
