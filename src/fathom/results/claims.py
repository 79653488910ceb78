"""Claims: the only place where differences become conclusions.

A study declares what it would conclude as a :class:`Claim` with its contrasts. A claim holds if *every* contrast is
significant in its direction (an intersection-union test, so a claim needs no correction for its contrasts), and if no
control that it needs is missing. All claims of one call are one family, adjusted by Holm (1979). The intervals shown
next to several claims hold simultaneously (Bonferroni), so a reader of intervals finds what a reader of p values finds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from fathom.metrics.significance import LEVEL, holm, smallest_difference
from fathom.metrics.uncertainty import at_confidence
from fathom.results.estimates import Estimate, format_value

SIGNIFICANT, NO_DIFFERENCE = "significant", "no significant difference"
EQUIVALENT, UNDETERMINED = "equivalent", "cannot be determined"
NOT_SUPPORTED = "not supported"
MOST_SENTENCES = 3
"""Largest number of claims with a sentence each above the tables."""
FEWEST = 6
"""Units that a claim needs: with five, all of which agree, a test that flips signs has p = 2 / 2⁵ = 0.06."""


class Contrast(NamedTuple):
    """A difference that a claim needs.

    :param estimate: None if it could not be computed.
    :param sign: the direction that supports the claim: +1 or −1; 0 for either.
    :param missing: why there is no estimate, and what to do about it.
    """

    name: str
    estimate: Estimate | None
    sign: int = 0
    missing: str = ""


class Claim(NamedTuple):
    """A conclusion of a study.

    :param contrasts: all of them must be significant, the undirected ones in the direction of the first.
    :param margin: smallest difference that matters; None if not given.
    :param objection: why significant contrasts would not support the claim; "" without any.
    :param otherwise: the conclusion if the first contrast is significant and another is not; "" for the usual one.
    """

    name: str
    contrasts: tuple[Contrast, ...]
    margin: float | None = None
    objection: str = ""
    otherwise: str = ""


class Decision(NamedTuple):
    """The verdict on one claim of a family.

    :param word: :data:`SIGNIFICANT`, :data:`NO_DIFFERENCE`, :data:`EQUIVALENT` or :data:`UNDETERMINED`.
    :param reason: what decided; for :data:`UNDETERMINED` what is missing.
    :param p_value: adjusted by Holm; None if nothing was tested.
    :param low: lower end of the first contrast's simultaneous interval; *high* likewise.
    :param not_worse: whether the first contrast is below the margin, so that the subtracted side is not worse by more
        than that; None without a margin.
    :param smallest: the true difference that this family's test finds in 80 % of cases; None if unknown.
    """

    claim: Claim
    word: str
    reason: str
    p_value: float | None
    low: float | None
    high: float | None
    not_worse: bool | None = None
    smallest: float | None = None

    @property
    def holds(self) -> bool:
        """True if the claim is supported."""
        return self.word == SIGNIFICANT

    @property
    def sign(self) -> int:
        """+1 or −1 if the claim is supported, else 0."""
        return _sign(self.claim.contrasts[0].estimate) if self.holds else 0

    @property
    def verdict(self) -> str:
        """The word for readers: a claim with several contrasts, some of them significant, is "not supported"."""
        return NOT_SUPPORTED if self.word == NO_DIFFERENCE and len(self.claim.contrasts) > 1 else self.word

    @property
    def estimate(self) -> Estimate | None:
        """The first contrast, with the simultaneous interval and the adjusted p value."""
        first = self.claim.contrasts[0].estimate
        return first and first._replace(low=self.low, high=self.high, p_value=self.p_value)

    def plain(self) -> dict[str, Any]:
        return {"claim": self.claim.name, "verdict": self.word, "reason": self.reason, "p_value": self.p_value}


def decide(claims: Sequence[Claim]) -> list[Decision]:
    """Decide all claims of one call, as one family."""
    tested = [max((p for _, p in _p_values(claim) if p is not None), default=None) for claim in claims]
    values = [p for p in tested if p is not None]
    adjusted = iter(holm(values).tolist())
    return [
        _decision(claim, None if p is None else next(adjusted), len(values))
        for claim, p in zip(claims, tested, strict=True)
    ]


def decide_all(claims: Sequence[Claim | None]) -> list[Decision | None]:
    """Decide the claims that are not None as one family, in their places."""
    decisions = iter(decide([claim for claim in claims if claim is not None]))
    return [None if claim is None else next(decisions) for claim in claims]


def _p_values(claim: Claim) -> list[tuple[str, float | None]]:
    """Return the name and the p value of each contrast: 1 in the wrong direction, None if untested."""
    first = next((one for one in claim.contrasts if one.sign or one.estimate is not None), claim.contrasts[0])
    direction = first.sign or _sign(first.estimate)
    values: list[tuple[str, float | None]] = []
    for contrast in claim.contrasts:
        estimate, p_value = contrast.estimate, None
        if estimate is not None and not _why_untested(contrast):
            p_value = estimate.p_value if _sign(estimate) == (contrast.sign or direction) else 1.0
        values.append((contrast.name, p_value))
    return values


def _why_untested(contrast: Contrast) -> str:
    estimate = contrast.estimate
    if estimate is None:
        return contrast.missing or f"{contrast.name} was not measured"
    if estimate.p_value is None or estimate.low is None:
        return estimate.note or "it has no interval"
    if (units := estimate.clusters or estimate.n) < FEWEST:
        return f"only {units} of the {FEWEST} independent units that a test needs"
    return ""


def _sign(estimate: Estimate | None) -> int:
    return 0 if estimate is None else int(estimate.value > 0) - int(estimate.value < 0)


def _decision(claim: Claim, p_value: float | None, family: int) -> Decision:
    first = claim.contrasts[0].estimate
    low, high = _simultaneous(first, 1 - LEVEL / max(1, family))
    if p_value is not None and p_value < LEVEL and first is not None and low is not None and high is not None:
        # Holm rejects a little more than Bonferroni does; a rejected zero is then the end of the interval.
        low, high = (max(low, 0.0), high) if first.value > 0 else (low, min(high, 0.0))
    within, not_worse = _against_margin(claim, family)
    word, reason = _verdict(claim, p_value)
    if within and word != UNDETERMINED:
        word, reason = EQUIVALENT, "the difference is within the margin"
    return Decision(claim, word, reason, p_value, low, high, not_worse, _smallest(first, LEVEL / max(1, family)))


def _smallest(estimate: Estimate | None, level: float) -> float | None:
    """Return the smallest difference that a test at this level finds in 80 % of cases."""
    if estimate is None or estimate.smallest is None or estimate.interval is None:
        return None
    smallest = smallest_difference(estimate.interval.error, estimate.interval.degrees, level=level)
    return estimate.smallest if math.isnan(smallest) else max(smallest, estimate.smallest)


def _verdict(claim: Claim, p_value: float | None) -> tuple[str, str]:
    untested = {contrast: why for contrast in claim.contrasts if (why := _why_untested(contrast))}
    if p_value is not None and p_value >= LEVEL:
        values = {name: p for name, p in _p_values(claim) if p is not None}
        lacking = [name for name, p in values.items() if p >= LEVEL]
        why = f"not significant: {', '.join(lacking or [f'{max(values, key=values.__getitem__)} (adjusted)'])}"
        return NO_DIFFERENCE, f"{why}; {claim.objection}" if claim.objection else why
    if claim.objection:
        return UNDETERMINED, claim.objection
    if untested or p_value is None:
        if len(untested) > 1 and len(set(untested.values())) == 1:
            return UNDETERMINED, next(iter(untested.values()))
        named = [why if one.estimate is None else f"{one.name}: {why}" for one, why in untested.items()]
        return UNDETERMINED, "; ".join(dict.fromkeys(named))
    return SIGNIFICANT, "every contrast is significant" if len(claim.contrasts) > 1 else ""


def _simultaneous(estimate: Estimate | None, confidence: float) -> tuple[float | None, float | None]:
    if estimate is None or estimate.interval is None:
        return (None, None) if estimate is None else (estimate.low, estimate.high)
    return at_confidence(estimate.interval, confidence)


def _against_margin(claim: Claim, family: int) -> tuple[bool, bool | None]:
    """Return whether the difference is within the margin, and whether it is below it, by one-sided tests."""
    if claim.margin is None or _why_untested(claim.contrasts[0]):
        return False, None
    low, high = _simultaneous(claim.contrasts[0].estimate, 1 - 2 * LEVEL / max(1, family))
    if low is None or high is None:
        return False, None
    return -claim.margin < low and high < claim.margin, high < claim.margin


# --- in words


def percent(value: float) -> str:
    """Return a share as "61.5 %"."""
    return format_value(value, ".1%")


def difference_in_words(decision: Decision, is_share: bool = True) -> str:
    """Return "+46.5 points [34.0, 57.3], p < 0.001" of the first contrast."""
    estimate = decision.claim.contrasts[0].estimate
    if estimate is None:
        return "unknown"
    factor, form, unit = (100, ".1f", " points") if is_share else (1, ".3f", "")
    words = f"{factor * estimate.value:+{form}}{unit}"
    if decision.low is not None and decision.high is not None:
        words += f" [{factor * decision.low:{form}}, {factor * decision.high:{form}}]"
    return words + (f", {p_in_words(decision.p_value)}" if decision.p_value is not None else "")


def p_in_words(p_value: float) -> str:
    """Return "p < 0.001" or "p = 0.032"."""
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"


def sentence(decision: Decision) -> str:
    """Return "NAME: significant." or "NAME: cannot be determined (why)."."""
    first = _p_values(decision.claim)[0][1]
    if decision.word == NO_DIFFERENCE and decision.claim.otherwise and first is not None and first < LEVEL:
        return f"{decision.claim.otherwise}."
    return f"{decision.claim.name}: {decision.verdict}{f' ({decision.reason})' if decision.reason else ''}."


def sentences(decisions: Sequence[Decision], is_share: bool = True) -> list[str]:
    """Return a sentence per claim with its value, or one for all of more than three."""
    if len(decisions) <= MOST_SENTENCES:
        return [_with_value(decision, is_share) for decision in decisions]
    holds = sorted((one for one in decisions if one.holds), key=_size, reverse=True)
    largest = f"; the largest: {_with_value(holds[0], is_share)}" if holds else "."
    return [f"{len(holds)} of {len(decisions)} comparisons are significant{largest}"]


def _with_value(decision: Decision, is_share: bool) -> str:
    if decision.word == UNDETERMINED:
        return sentence(decision)
    return f"{decision.claim.name}: {decision.word}, {difference_in_words(decision, is_share)}."


def _size(decision: Decision) -> float:
    first = decision.claim.contrasts[0].estimate
    return 0.0 if first is None else abs(first.value)
