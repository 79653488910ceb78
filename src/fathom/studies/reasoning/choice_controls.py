"""Does a model reason, or does it only look like it? Three contrasts, each zero for all that answers without reasoning
in its own way, and what they allow to conclude. Equations and reasons: docs/methods/choice.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fathom.formats.choices import ANOTHERS, BARE, CONTROL
from fathom.results.claims import Claim, decide
from fathom.results.claims import Contrast as Needed
from fathom.results.estimates import Estimate, contrast, difference, mean
from fathom.results.recipes import combined
from fathom.results.rows import grouped
from fathom.results.samples import Sample, drawn_from
from fathom.studies.reasoning.choice_bias import Liking
from fathom.studies.reasoning.choice_questions import MarkedQuestion, ModelAsked

ALL = "all"
REPLACED, APPLIED, NOT_COPIED = "P1 in words replaces memory", "P2 calls up memory", "P1 is not copied"
MEANING = {
    REPLACED: "what P1 in words adds (question with P1 − without) where it is not memorised − where it is",
    APPLIED: "what P2 adds (question with P2 − without any premise) where P1 is memorised − where it is not",
    NOT_COPIED: "how often P1's answer is chosen where P1 is about what P2 says of X − where it is about another",
}
"""Of each contrast what it subtracts from what: its two means, in this order."""
LACKING = {
    APPLIED: "an answer that is likely by itself (no question without premises has an answer)",
    NOT_COPIED: "an answer copied from P1 and called up from memory (no question with P1 of another item has one)",
}
REASONING = "reasoning"
FEWEST = 10
"""Items of a half without which nothing is concluded."""
MOST_UNANSWERED = 0.2
"""Share of items that may lack an answer."""
_FORMS = {CONTROL[BARE]: "bare", CONTROL[ANOTHERS]: "another"}


class Contrast(NamedTuple):
    """One contrast of one rule, or of all.

    :param name: a key of :data:`MEANING`.
    :param items: how many the first mean is of.
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
    """What may be said of one rule, or of all. :param because: of this."""

    model: str
    scoring: str
    rule: str
    conclusion: str
    because: str


class Item(NamedTuple):
    """What was asked of one premise by one rule; NaN where it was not asked, or has no answer.

    :param premise: id of the question that asks for P1.
    :param memory: credit of that question.
    :param guess: credit of guessing there.
    :param unsaid: credit without P1 in words.
    :param said: with it.
    :param bare: without any premise.
    :param lured: how often the answer of another's P1 was chosen.
    :param unanswered: whether one of its questions has no answer.
    :param asked: the question without P1, which says how the item was drawn.
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
    asked: MarkedQuestion

    @property
    def memorised(self) -> bool:
        """Whether P1 is: chosen more often than not."""
        return self.memory > 0.5


class _Part(NamedTuple):
    """One rule, or all.

    :param contrasts: those that its questions allow.
    :param refused: why nothing that looks like reasoning is taken for it.
    """

    rule: str
    items: list[Item]
    contrasts: list[Contrast]
    refused: list[str]


def controlled(asked: Sequence[tuple[ModelAsked, Sequence[Liking]]]) -> tuple[list[Contrast], list[Conclusion]]:
    """Decide on each rule of each model, and on all rules together, as one family.

    :param asked: models, each with its likings.
    """
    parts = [(model, part) for model, liked in asked for part in _parts(model, liked)]
    decisions = decide([_claim(part) for _, part in parts])
    conclusions = [
        Conclusion(model.model, model.scoring, part.rule, REASONING if own.holds else own.word, own.reason)
        for (model, part), own in zip(parts, decisions, strict=True)
    ]
    return [one for _, part in parts for one in part.contrasts], conclusions


def _parts(asked: ModelAsked, found: Sequence[Liking]) -> list[_Part]:
    items = items_of(asked)
    own = grouped((item.rule, item) for item in items)
    if len(own) > 1:
        own[ALL] = items
    return [_part(asked, rule, of_rule, found) for rule, of_rule in own.items()]


def items_of(asked: ModelAsked) -> list[Item]:
    """Reasoning questions by rule and premise."""
    found: dict[tuple[str, str, int], dict[str, MarkedQuestion]] = {}
    seen: Counter[tuple[str, str, str]] = Counter()
    for question in asked.questions.values():
        groups = question.groups
        if "rule" in groups and "premise" in groups:
            form = _FORMS.get(groups.get("control", ""), "said" if groups.get("p1") == "explicit" else "unsaid")
            again = seen[groups["rule"], groups["premise"], form]
            seen[groups["rule"], groups["premise"], form] += 1
            found.setdefault((groups["rule"], groups["premise"], again), {})[form] = question
    return [_item(rule, asked.questions.get(premise), forms) for (rule, premise, _), forms in found.items()]


def _item(rule: str, memory: MarkedQuestion | None, forms: Mapping[str, MarkedQuestion]) -> Item:
    first = next(iter(forms.values()))
    credit = {form: question.credit for form, question in forms.items()}
    another = forms.get("another")
    lured = np.nan
    if another is not None and another.chosen.picked:
        lured = another.chosen.picked.get(another.groups.get("lure", ""), 0.0)
    return Item(
        rule,
        first.groups["premise"],
        np.nan if memory is None else memory.credit,
        np.nan if memory is None or not memory.chosen.options else 1 / len(memory.chosen.options),
        credit.get("unsaid", np.nan),
        credit.get("said", np.nan),
        credit.get("bare", np.nan),
        lured,
        any(np.isnan(question.credit) for question in (*forms.values(), *([memory] if memory else []))),
        forms.get("unsaid", first),
    )


# --- contrasts


def _part(asked: ModelAsked, rule: str, items: list[Item], found: Sequence[Liking]) -> _Part:
    contrasts = [
        _by_half(asked, rule, REPLACED, items, lambda item: item.said - item.unsaid, memorised_first=False),
        _by_half(asked, rule, APPLIED, items, lambda item: item.unsaid - item.bare, memorised_first=True),
        _not_copied(asked, rule, items),
    ]
    told = [one for one in contrasts if one is not None]
    return _Part(rule, items, told, list(_refused(asked, items, told, found)))


def _by_half(
    asked: ModelAsked,
    rule: str,
    name: str,
    items: Iterable[Item],
    gain: Callable[[Item], float],
    *,
    memorised_first: bool,
) -> Contrast | None:
    """Mean gain of one half − of the other; None where a half has none."""
    told = [item for item in items if not np.isnan([gain(item), item.memory]).any()]
    values = np.array([gain(item) for item in told])
    first = np.array([item.memorised == memorised_first for item in told], dtype=bool)
    if not first.any() or first.all():
        return None
    sample = _sample(told, [str(item.memorised) for item in told])
    number = contrast(values, first, sample, _made(asked, rule, name), [item.rule for item in told], (-1.0, 1.0))
    sizes = int(first.sum()), int((~first).sum())
    return Contrast(asked.model, asked.scoring, rule, name, *sizes, values[first].mean(), values[~first].mean(), number)


def _not_copied(asked: ModelAsked, rule: str, items: Iterable[Item]) -> Contrast | None:
    told = [item for item in items if not np.isnan([item.said, item.lured]).any()]
    if not told:
        return None
    said, lured = [item.said for item in told], [item.lured for item in told]
    number = difference(said, lured, _sample(told, [""] * len(told)), _made(asked, rule, NOT_COPIED))
    means = float(np.mean(said)), float(np.mean(lured))
    return Contrast(asked.model, asked.scoring, rule, NOT_COPIED, len(told), len(told), *means, number)


def _sample(items: Sequence[Item], halves: Sequence[str]) -> Sample:
    """As the user says, else the premises of each task, and half."""
    if any(item.asked.origin.key for item in items):
        return drawn_from([item.asked.origin for item in items])
    within = [f"{item.premise.partition('/')[0]} {half}" for item, half in zip(items, halves, strict=True)]
    return Sample("premise within task", [item.premise for item in items], within)


def _made(asked: ModelAsked, rule: str, name: str) -> str:
    return combined(name, asked.made, " and ") + f"|rule:{rule}"


# --- conclusions


def _refused(
    asked: ModelAsked, items: Sequence[Item], contrasts: Sequence[Contrast], found: Sequence[Liking]
) -> Iterable[str]:
    """Why what looks like reasoning may not be."""
    memory = {item.premise: item for item in items if not np.isnan([item.memory, item.guess]).any()}
    if memory:
        right = [item.memory for item in memory.values()]
        known = mean(right, _sample(list(memory.values()), [""] * len(memory)), _made(asked, "", "accuracy"))
        guess = float(np.mean([item.guess for item in memory.values()]))
        if known.low is None or known.low <= guess:
            yield f"the halves are luck: {known.value:.0%} memorised are not above guessing ({guess:.0%})"
    unanswered = sum(item.unanswered for item in items)
    if unanswered > MOST_UNANSWERED * len(items):
        yield f"{unanswered} of {len(items)} items lack an answer"
    if APPLIED not in {one.name for one in contrasts}:
        yield from (str(one) for one in found if one.beyond)


def _no_halves(items: Sequence[Item]) -> str:
    """Why P1 in words cannot be compared between what is memorised and what is not."""
    told = [item for item in items if not np.isnan([item.said, item.unsaid, item.memory]).any()]
    if not told:
        return "no item whose P1 was asked for has an answer both with and without P1 in words"
    which = "every" if told[0].memorised else "no"
    return f"of {len(told)} items {which} P1 is memorised: there are no halves to compare"


def _claim(part: _Part) -> Claim:
    """Declare that the model reasons by a rule: every contrast is above 0, and none is missing."""
    by_name = {one.name: one for one in part.contrasts}
    missing = {REPLACED: _no_halves(part.items)} | {name: f"not controlled: {why}" for name, why in LACKING.items()}
    needed = [
        Needed(name, one.difference, 1, "") if one is not None and _is_large(one) else Needed(name, None, 1, why)
        for name, why in missing.items()
        for one in [by_name.get(name)]
        for why in [why if one is None else _too_few(one)]
    ]
    return Claim(f"{REASONING} by {part.rule}", tuple(needed), objection="; ".join(part.refused))


def _is_large(one: Contrast) -> bool:
    return min(one.items, one.other_items) >= FEWEST


def _too_few(one: Contrast) -> str:
    return f"{one.items} and {one.other_items} items of '{one.name}': {FEWEST} of each are needed"
