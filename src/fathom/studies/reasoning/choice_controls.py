"""Controls of multiple choice: three contrasts, each zero for a way of answering without reasoning, and preferences for
letters and options. Equations and reasons: docs/methods/choice.md."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from string import ascii_lowercase
from typing import NamedTuple

import numpy as np

from fathom.formats.choices import ANOTHERS, BARE, CONTROL
from fathom.metrics.significance import LEVEL
from fathom.results.claims import Claim, Contrast, decide
from fathom.results.estimates import Estimate, contrast, difference, mean
from fathom.results.rows import grouped
from fathom.results.samples import Sample
from fathom.studies.reasoning.choice_questions import MarkedQuestion, ModelQuestions, sample_of

ALL = "all"
REPLACED, APPLIED, NOT_COPIED = "P1 in words replaces memory", "P2 calls up memory", "P1 is not copied"
MEANING = {
    REPLACED: "what P1 in words adds (question with P1 − without) where it is not memorised − where it is",
    APPLIED: "what P2 adds (question with P2 − without any premise) where P1 is memorised − where it is not",
    NOT_COPIED: "how often P1's answer is chosen where P1 is about what P2 says of X − where it is about another",
}
"""The two means of each contrast, in order."""
LACKING = {
    APPLIED: "an answer that is likely by itself (no question without premises has an answer)",
    NOT_COPIED: "an answer copied from P1 and called up from memory (no question with P1 of another item has one)",
}
REASONING = "reasoning"
FEWEST = 10
"""Smallest half of the items that allows a conclusion."""
MOST_UNANSWERED = 0.2
"""Largest share of items without an answer."""
BOUND = 0.1
"""Largest excess of a preference that does not prevent a conclusion."""
LETTER, WORDING, FREQUENT = "letter", "option", "most frequent answer"
_FORMS = {CONTROL[BARE]: "bare", CONTROL[ANOTHERS]: "another"}


class ChoiceContrast(NamedTuple):
    """One contrast of one rule, or of all.

    :param name: a key of :data:`MEANING`.
    :param items: number of items of the first mean.
    :param mean: the first; not weighted by rule.
    :param difference: first − second, rule by rule.
    """

    model: str
    scoring: str
    rule: str
    name: str
    items: int
    other_items: int
    mean: float
    other_mean: float
    difference: Estimate


class Conclusion(NamedTuple):
    """The conclusion on one rule, or on all."""

    model: str
    scoring: str
    rule: str
    conclusion: str
    because: str


class ReasoningItem(NamedTuple):
    """The credits of one premise's questions by one rule; NaN without a question or an answer.

    :param premise: id of the question for P1.
    :param memory: credit of that question, *guess* that of guessing it.
    :param unsaid: credit without P1 in words, *said* with it, *bare* without any premise.
    :param lured: how often the answer of another item's P1 was chosen.
    :param unanswered: whether one of its questions has no answer.
    :param question: the one without P1, which has the item's origin.
    """

    rule: str
    premise: str
    memory: float
    guess: float
    unsaid: float
    said: float
    bare: float
    lured: float
    unanswered: bool
    question: MarkedQuestion

    @property
    def memorised(self) -> bool:
        """Return whether P1 is chosen more often than not."""
        return self.memory > 0.5


class _RulePart(NamedTuple):
    """One rule, or all. :param objections: why significant contrasts would not show reasoning."""

    rule: str
    items: list[ReasoningItem]
    contrasts: list[ChoiceContrast]
    objections: list[str]


def evaluate_controls(
    models: Sequence[tuple[ModelQuestions, Sequence[Preference]]],
) -> tuple[list[ChoiceContrast], list[Conclusion]]:
    """Decide on each rule of each model, and on all rules together, as one family.

    :param models: each with its preferences.
    """
    parts = []
    for model, liked in models:
        items = items_of(model)
        by_rule = grouped((item.rule, item) for item in items)
        by_rule |= {ALL: items} if len(by_rule) > 1 else {}
        parts += [(model, _part(model, rule, own, liked)) for rule, own in by_rule.items()]
    decisions = decide([_claim(part) for _, part in parts])
    conclusions = [
        Conclusion(model.model, model.scoring, part.rule, REASONING if own.holds else own.word, own.reason)
        for (model, part), own in zip(parts, decisions, strict=True)
    ]
    return [one for _, part in parts for one in part.contrasts], conclusions


def items_of(model: ModelQuestions) -> list[ReasoningItem]:
    """Return the reasoning questions by rule and premise."""
    items: dict[tuple[str, str, int], dict[str, MarkedQuestion]] = {}
    seen: Counter[tuple[str, str, str]] = Counter()
    for question in model.questions.values():
        groups = question.groups
        if "rule" in groups and "premise" in groups:
            form = _FORMS.get(groups.get("control", ""), "said" if groups.get("p1") == "explicit" else "unsaid")
            again = seen[groups["rule"], groups["premise"], form]
            seen[groups["rule"], groups["premise"], form] += 1
            items.setdefault((groups["rule"], groups["premise"], again), {})[form] = question
    return [_item(rule, premise, model.questions.get(premise), forms) for (rule, premise, _), forms in items.items()]


def _item(rule: str, premise: str, memory: MarkedQuestion | None, forms: Mapping[str, MarkedQuestion]) -> ReasoningItem:
    credit = {form: forms[form].credit if form in forms else np.nan for form in ("unsaid", "said", "bare")}
    another, lured = forms.get("another"), np.nan
    if another is not None and another.chosen.picked:
        lured = another.chosen.picked.get(another.groups.get("lure", ""), 0.0)
    return ReasoningItem(
        rule,
        premise,
        np.nan if memory is None else memory.credit,
        np.nan if memory is None or not memory.chosen.options else 1 / len(memory.chosen.options),
        **credit,
        lured=lured,
        unanswered=any(np.isnan(question.credit) for question in (*forms.values(), *([memory] if memory else []))),
        question=forms.get("unsaid", next(iter(forms.values()))),
    )


# --- contrasts


def _part(model: ModelQuestions, rule: str, items: list[ReasoningItem], liked: Sequence[Preference]) -> _RulePart:
    contrasts = [
        _by_half(model, rule, REPLACED, items, lambda item: item.said - item.unsaid, memorised_first=False),
        _by_half(model, rule, APPLIED, items, lambda item: item.unsaid - item.bare, memorised_first=True),
        _not_copied(model, rule, items),
    ]
    known = [one for one in contrasts if one is not None]
    return _RulePart(rule, items, known, list(_objections(model, items, known, liked)))


def _by_half(
    model: ModelQuestions,
    rule: str,
    name: str,
    items: Iterable[ReasoningItem],
    gain: Callable[[ReasoningItem], float],
    *,
    memorised_first: bool,
) -> ChoiceContrast | None:
    """Return the mean gain of one half − that of the other, None if a half is empty."""
    items = [item for item in items if not np.isnan([gain(item), item.memory]).any()]
    values = np.array([gain(item) for item in items])
    first = np.array([item.memorised == memorised_first for item in items], dtype=bool)
    if not first.any() or first.all():
        return None
    sample = _sample(items, [str(item.memorised) for item in items])
    made = f"{model.recipe(name)}|rule:{rule}"
    number = contrast(values, first, sample, made, [item.rule for item in items], (-1.0, 1.0))
    numbers = (int(first.sum()), int((~first).sum()), values[first].mean(), values[~first].mean(), number)
    return ChoiceContrast(model.model, model.scoring, rule, name, *numbers)


def _not_copied(model: ModelQuestions, rule: str, items: Iterable[ReasoningItem]) -> ChoiceContrast | None:
    items = [item for item in items if not np.isnan([item.said, item.lured]).any()]
    if not items:
        return None
    said, lured = [item.said for item in items], [item.lured for item in items]
    number = difference(said, lured, _sample(items, [""] * len(items)), f"{model.recipe(NOT_COPIED)}|rule:{rule}")
    numbers = (len(items), len(items), float(np.mean(said)), float(np.mean(lured)), number)
    return ChoiceContrast(model.model, model.scoring, rule, NOT_COPIED, *numbers)


def _sample(items: Sequence[ReasoningItem], halves: Sequence[str]) -> Sample:
    within = [f"{item.premise.partition('/')[0]} {half}" for item, half in zip(items, halves, strict=True)]
    premises = Sample("premise within task", [item.premise for item in items], within)
    return sample_of([item.question for item in items], premises)


# --- conclusions


def _objections(
    model: ModelQuestions,
    items: Sequence[ReasoningItem],
    contrasts: Sequence[ChoiceContrast],
    liked: Sequence[Preference],
) -> Iterator[str]:
    memory = {item.premise: item for item in items if not np.isnan([item.memory, item.guess]).any()}
    if memory:
        right = [item.memory for item in memory.values()]
        sample = _sample(list(memory.values()), [""] * len(memory))
        known = mean(right, sample, f"{model.recipe('accuracy')}|rule:")
        guess = float(np.mean([item.guess for item in memory.values()]))
        if known.low is None or known.low <= guess:
            yield f"the halves are luck: {known.value:.0%} memorised are not above guessing ({guess:.0%})"
    unanswered = sum(item.unanswered for item in items)
    if unanswered > MOST_UNANSWERED * len(items):
        yield f"{unanswered} of {len(items)} items lack an answer"
    if APPLIED not in {one.name for one in contrasts}:
        yield from (str(one) for one in liked if one.beyond)


def _claim(part: _RulePart) -> Claim:
    """Claim that the model reasons by a rule: every contrast is above 0, and none is missing."""
    by_name = {one.name: one for one in part.contrasts}
    missing = {REPLACED: _no_halves(part.items)} | {name: f"not controlled: {why}" for name, why in LACKING.items()}
    contrasts = []
    for name, why in missing.items():
        one = by_name.get(name)
        if one is None:
            contrasts.append(Contrast(name, None, 1, why))
        elif min(one.items, one.other_items) < FEWEST:
            few = f"{one.items} and {one.other_items} items of '{name}': {FEWEST} of each are needed"
            contrasts.append(Contrast(name, None, 1, few))
        else:
            contrasts.append(Contrast(name, one.difference, 1))
    return Claim(f"{REASONING} by {part.rule}", tuple(contrasts), objection="; ".join(part.objections))


def _no_halves(items: Sequence[ReasoningItem]) -> str:
    """Return why P1 in words cannot be compared between what is memorised and what is not."""
    items = [item for item in items if not np.isnan([item.said, item.unsaid, item.memory]).any()]
    if not items:
        return "no item with a question for P1 has an answer both with and without P1 in words"
    which = "every" if items[0].memorised else "no"
    return f"of {len(items)} items {which} P1 is memorised: there are no halves to compare"


# --- preferences, from the questions in which P1 is not stated, where the model guesses


class Preference(NamedTuple):
    """Shares of the questions offering a thing in which it is chosen, and in which it is right.

    :param kind: letter, option, or the option that is right most often in the other questions of its task or rule.
    :param which: the letter or the option; "" for the most frequent answers.
    :param excess: share of questions in which it was chosen − in which it is right, paired; its p value is adjusted for
        all letters, or all options.
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
        """Return whether the excess is significant and larger than :data:`BOUND`."""
        p_value = self.excess.p_value
        return self.excess.value > BOUND and p_value is not None and p_value < LEVEL

    def __str__(self) -> str:
        what = f"{self.kind} {self.which}".rstrip()
        return f"{what} is chosen in {self.chosen:.0%}, right in {self.right:.0%}"


_Case = tuple[str, MarkedQuestion, float, float]
"""A question and its id, how often the thing was chosen, and how often it is right."""


def letter_preferences(model: ModelQuestions) -> list[Preference]:
    """Return the preference for each letter; none if options have no letters."""
    cases: dict[str, list[_Case]] = defaultdict(list)
    for id_, question in _guessed(model).items():
        if shares := question.chosen.letters:
            for letter in ascii_lowercase[: len(question.chosen.options)]:
                case = id_, question, shares.get(letter, 0.0), question.chosen.gold_letters.get(letter, 0.0)
                cases[letter].append(case)
    letters = [_preference(model, LETTER, f"({letter})", cases[letter]) for letter in sorted(cases)]
    decisions = decide([Claim(str(one), (Contrast(one.kind, one.excess),)) for one in letters])
    return [one._replace(excess=own.estimate) for one, own in zip(letters, decisions, strict=True) if own.estimate]


def preferences(model: ModelQuestions) -> list[Preference]:
    """Return the letter and the option with the greatest excess, and the most frequent answers."""
    letters, option, frequent = letter_preferences(model), _option(model), _frequent(model)
    return [
        *([max(letters, key=lambda one: one.excess.value)] if letters else []),
        *([option] if option is not None else []),
        *([_preference(model, FREQUENT, "", frequent)] if frequent else []),
    ]


def _guessed(model: ModelQuestions) -> dict[str, MarkedQuestion]:
    return {
        id_: question
        for id_, question in model.questions.items()
        if question.chosen.picked
        and question.groups.get("p1") != "explicit"
        and question.groups.get("control") != CONTROL[ANOTHERS]
    }


def _option(model: ModelQuestions) -> Preference | None:
    """Return the option with the greatest sum of excess over the questions that offer it, p by Bonferroni over all."""
    questions = _guessed(model)
    sums: dict[str, float] = defaultdict(float)
    for question in questions.values():
        for option, share in question.chosen.picked.items():
            sums[option] += share
        sums[question.chosen.gold] -= 1
    which = max(sorted(sums), key=lambda name: sums[name], default="")
    cases = [
        (id_, question, question.chosen.picked.get(which, 0.0), float(question.chosen.gold == which))
        for id_, question in questions.items()
        if which in question.chosen.options
    ]
    if not cases:
        return None
    preference = _preference(model, WORDING, which, cases)
    p_value = preference.excess.p_value
    adjusted = None if p_value is None else min(1.0, p_value * len(sums))
    return preference._replace(excess=preference.excess._replace(p_value=adjusted))


def _frequent(model: ModelQuestions) -> list[_Case]:
    """Return, for each question, the options that are right most often in the others of its task or rule.

    Several such options count in part.
    """
    cases: list[_Case] = []
    alike = grouped(
        (tuple(question.groups.get(key, "") for key in ("task", "rule", "control")), (id_, question))
        for id_, question in _guessed(model).items()
    )
    for questions in alike.values():
        counts = Counter(question.chosen.gold for _, question in questions)
        for id_, question in questions:
            others = counts - Counter([question.chosen.gold])
            most = max((others[option] for option in question.chosen.options), default=0)
            best = [option for option in question.chosen.options if others[option] == most]
            if most:
                chosen = sum(question.chosen.picked.get(option, 0) for option in best) / len(best)
                cases.append((id_, question, chosen, (question.chosen.gold in best) / len(best)))
    return cases


def _preference(model: ModelQuestions, kind: str, which: str, cases: Sequence[_Case]) -> Preference:
    ids, questions, chosen, right = zip(*cases, strict=True)
    made = f"{model.recipe('chosen − right')}|{kind}:{which or 'of each question'}|P1:not said"
    premises = [question.groups.get("premise", id_) for id_, question in zip(ids, questions, strict=True)]
    excess = difference(chosen, right, sample_of(questions, Sample("premise", premises)), made)
    shares = sum(chosen) / len(cases), sum(right) / len(cases)
    return Preference(model.model, model.scoring, kind, which, *shares, excess)
