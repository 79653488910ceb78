"""Claims: the only place where differences become conclusions.

A study declares what it would conclude as a :class:`Claim` with its contrasts. A claim holds if *every* contrast is
significant in its direction (an intersection-union test, so a claim needs no correction for its contrasts), and if no
control that it needs is missing. It is refuted, *opposite*, if one of its directed contrasts is significant in the
other direction (Bonferroni over these). All claims of one call are one family, adjusted by Holm (1979). The intervals
shown next to several claims hold simultaneously (Bonferroni), so a reader of intervals finds what a reader of p values
finds.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from fathom.results.estimates import Estimate
from fathom.results.formats import format_value
from fathom.results.metrics.significance import LEVEL, holm, smallest_effect
from fathom.results.metrics.uncertainty import at_confidence, p_value_at

SIGNIFICANT, OPPOSITE, NO_DIFFERENCE = "significant", "opposite", "no significant difference"
EQUIVALENT, UNDETERMINED = "equivalent", "cannot be determined"
VERDICTS = (SIGNIFICANT, OPPOSITE, NO_DIFFERENCE, EQUIVALENT, UNDETERMINED)
"""All words of a :class:`Decision`."""
NOT_WORSE, WORSE, UNDECIDED = "not worse", "worse", "undecided"
NOT_SUPPORTED = "not supported"
OTHER_SIGN = " (of the other sign)"
"""What a reason adds to the name of a contrast that is significant in the wrong direction."""
ROUGH = "rough"
"""What the note of an interval says where it was not simulated to hold."""
MOST_SENTENCES = 3
"""Largest number of claims with a sentence each above the tables."""
FEWEST = 6
"""Units that a claim needs: with five, all of which agree, a test that flips signs has p = 2 / 2⁵ = 0.06."""


class Contrast(NamedTuple):
    """A difference that a claim needs.

    :param estimate: None if it could not be computed.
    :param sign: the direction that supports the claim: +1 or −1; 0 for either.
    :param missing: why there is no estimate, and what to do about it.
    :param optional: whether the claim is decided without it if it cannot be tested; the decision then names it.
    :param refutes: whether significance in the other direction refutes the claim; False of a gain over the best of
        several, which is below 0 by chance.
    """

    name: str
    estimate: Estimate | None
    sign: int = 0
    missing: str = ""
    optional: bool = False
    refutes: bool = True


class Claim(NamedTuple):
    """A conclusion of a study.

    :param contrasts: all of them must be significant, the undirected ones in the direction of the first.
    :param margin: smallest difference that matters; None if not given.
    :param objection: why significant contrasts would not support the claim; "" without any.
    :param otherwise: the conclusion if the first contrast is significant and another is not; "" for the usual one.
    :param family: claims of another family are adjusted by themselves, such as those that answer another question.
    """

    name: str
    contrasts: tuple[Contrast, ...]
    margin: float | None = None
    objection: str = ""
    otherwise: str = ""
    family: str = ""


class MarginTest(NamedTuple):
    """A difference against the smallest one that matters.

    :param word: :data:`EQUIVALENT`, :data:`NOT_WORSE`, :data:`WORSE` or :data:`UNDECIDED`.
    :param low: lower end of the interval whose comparison with the margin is the test; *high* likewise.
    """

    margin: float
    word: str
    low: float | None
    high: float | None

    @property
    def is_equivalent(self) -> bool:
        return self.word == EQUIVALENT

    @property
    def is_not_worse(self) -> bool:
        return self.word in (EQUIVALENT, NOT_WORSE)

    @property
    def is_worse(self) -> bool:
        return self.word == WORSE


class Decision(NamedTuple):
    """The verdict on one claim of a family.

    :param word: one of :data:`VERDICTS`.
    :param reason: what decided; for :data:`UNDETERMINED` what is missing.
    :param p_value: two-sided, adjusted by Holm; None if nothing was tested.
    :param low: lower end of the first contrast's simultaneous interval; *high* likewise.
    :param decisive: the contrast whose p value is that of the claim, with its simultaneous interval; None if untested.
    :param untested: why optional contrasts could not be tested, by name.
    :param smallest: the true difference that this family's test finds in 80 % of cases; None if unknown.
    :param by_margin: the first contrast against the margin, by one-sided tests, with the interval that agrees with
        them: :data:`EQUIVALENT`; :data:`NOT_WORSE` or :data:`WORSE`, of the side that is subtracted; or
        :data:`UNDECIDED`. None without a margin.
    """

    claim: Claim
    word: str
    reason: str
    p_value: float | None
    low: float | None
    high: float | None
    decisive: Contrast | None = None
    untested: Mapping[str, str] = MappingProxyType({})
    smallest: float | None = None
    by_margin: MarginTest | None = None

    @property
    def holds(self) -> bool:
        """True if the claim is supported."""
        return self.word == SIGNIFICANT

    @property
    def sign(self) -> int:
        """+1 or −1 if the claim is supported, else 0."""
        return _sign(self.claim.contrasts[0].estimate) if self.holds else 0

    @property
    def is_first_significant(self) -> bool:
        """True if the first contrast by itself is significant in its direction."""
        contrast = self.claim.contrasts[0]
        estimate = contrast.estimate
        if estimate is None or estimate.p_value is None or _sign(estimate) == -contrast.sign:
            return False
        return estimate.p_value < LEVEL

    @property
    def verdict(self) -> str:
        """The word for readers: a claim with several contrasts, some of them significant, is "not supported"."""
        return NOT_SUPPORTED if self.word == NO_DIFFERENCE and len(self.claim.contrasts) > 1 else self.word

    @property
    def estimate(self) -> Estimate | None:
        """The first contrast, with the simultaneous interval and the adjusted p value."""
        first = self.claim.contrasts[0].estimate
        return first and first._replace(low=self.low, high=self.high, p_value=self.p_value)

    @property
    def notes(self) -> str:
        """Why to be careful with the contrasts that were tested; may be empty."""
        estimates = (contrast.estimate for contrast in self.claim.contrasts if contrast.name not in self.untested)
        return "; ".join(dict.fromkeys(number.note for number in estimates if number is not None and number.note))

    @property
    def is_rough(self) -> bool:
        """True if an interval of its contrasts is rough."""
        return ROUGH in self.notes

    def plain(self) -> dict[str, Any]:
        """Return it as JSON has it; differences in the units of the metric."""
        return {
            "claim": self.claim.name,
            "verdict": self.word,
            "reason": self.reason,
            "p_value": self.p_value,
            "low": self.low,
            "high": self.high,
            "rough": self.is_rough,
            "untested": dict(self.untested),
        }


Key = TypeVar("Key")


def decide(claims: Mapping[Key, Claim | None]) -> dict[Key, Decision]:
    """Decide all claims of one call, which are one family unless they name others.

    :param claims: None where there is nothing to claim.
    :returns: the decision on each claim, by its key.
    """
    declared = {key: claim for key, claim in claims.items() if claim is not None}
    families = [
        {key: claim for key, claim in declared.items() if claim.family == family}
        for family in dict.fromkeys(claim.family for claim in declared.values())
    ]
    decisions = {key: decision for family in families for key, decision in _decide_family(family).items()}
    return {key: decisions[key] for key in declared}


def decide_by_name(claims: Iterable[Claim]) -> dict[str, Decision]:
    """Decide claims that have different names, by these names; see :func:`decide`."""
    named: dict[str, Claim] = {}
    for claim in claims:
        if named.setdefault(claim.name, claim) is not claim:
            raise ValueError(f"two claims have the name {claim.name!r}")
    return decide(named)


def _decide_family(claims: Mapping[Key, Claim]) -> dict[Key, Decision]:
    evidence = {key: _evidence(claim) for key, claim in claims.items()}
    tested = {key: found.p_value for key, found in evidence.items() if found.p_value is not None}
    adjusted = dict(zip(tested, holm(list(tested.values())).tolist(), strict=True))
    size = max(1, len(tested))
    return {key: _decision(found, adjusted.get(key), size) for key, found in evidence.items()}


class _Evidence(NamedTuple):
    """The p values of one claim.

    :param supporting: of each contrast that was tested, 1 in the wrong direction.
    :param p_value: of the least significant contrast, or of the most significant one against the claim; None without.
    :param decisive: the name of that contrast. :param is_opposed: whether it is one against the claim.
    :param missing: why contrasts that the claim needs could not be tested, by name; *untested* of optional ones.
    """

    claim: Claim
    supporting: Mapping[str, float]
    p_value: float | None
    decisive: str | None
    is_opposed: bool
    missing: Mapping[str, str]
    untested: Mapping[str, str]


def _evidence(claim: Claim) -> _Evidence:
    first = next(
        (contrast for contrast in claim.contrasts if contrast.sign or contrast.estimate is not None), claim.contrasts[0]
    )
    direction = first.sign or _sign(first.estimate)
    whys = {contrast.name: _why_untested(contrast) for contrast in claim.contrasts}
    if len(whys) < len(claim.contrasts):
        raise ValueError(f"{claim.name}: contrasts of one claim need different names")
    untested = {
        contrast.name: whys[contrast.name] for contrast in claim.contrasts if contrast.optional and whys[contrast.name]
    }
    if len(untested) == len(claim.contrasts):  # then none is left to decide without them
        untested = {}
    missing = {name: why for name, why in whys.items() if why and name not in untested}
    directed = sum(bool(contrast.sign) and contrast.refutes for contrast in claim.contrasts if not whys[contrast.name])
    supporting: dict[str, float] = {}
    opposing: dict[str, float] = {}
    for contrast in claim.contrasts:
        estimate = contrast.estimate
        if not whys[contrast.name] and estimate is not None and estimate.p_value is not None:
            agrees = _sign(estimate) == (contrast.sign or direction)
            supporting[contrast.name] = estimate.p_value if agrees else 1.0
            if contrast.sign and contrast.refutes and _sign(estimate) == -contrast.sign:
                opposing[contrast.name] = min(1.0, directed * estimate.p_value)
    if not supporting:
        return _Evidence(claim, supporting, None, None, False, missing, untested)
    weakest, p_value = max(supporting.items(), key=lambda pair: pair[1])
    name, against = min(opposing.items(), key=lambda pair: pair[1], default=(weakest, p_value))
    decisive = name if against < p_value else weakest
    return _Evidence(claim, supporting, min(p_value, against), decisive, against < p_value, missing, untested)


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


def _decision(evidence: _Evidence, p_value: float | None, family: int) -> Decision:
    claim, level = evidence.claim, LEVEL / family
    first = claim.contrasts[0].estimate
    low, high = _simultaneous(first, 1 - level)
    word, reason = _verdict(evidence, p_value)
    is_decided = word in (SIGNIFICANT, OPPOSITE) and evidence.decisive == claim.contrasts[0].name
    if is_decided and first is not None and low is not None and high is not None:
        # Holm rejects a little more than Bonferroni does; a rejected zero is then the end of the interval.
        low, high = (max(low, 0.0), high) if first.value > 0 else (low, min(high, 0.0))
    by_margin = None if word == UNDETERMINED else _against_margin(claim, level)
    if word == NO_DIFFERENCE and by_margin is not None and by_margin.word == EQUIVALENT:
        word, reason = EQUIVALENT, "the difference is within the margin"
    decisive = next((contrast for contrast in claim.contrasts if contrast.name == evidence.decisive), None)
    if decisive is not None and decisive.estimate is not None:
        ends = _simultaneous(decisive.estimate, 1 - level)
        decisive = decisive._replace(estimate=decisive.estimate._replace(low=ends[0], high=ends[1]))
    smallest = _smallest(first, level)
    return Decision(claim, word, reason, p_value, low, high, decisive, evidence.untested, smallest, by_margin)


def _smallest(estimate: Estimate | None, level: float) -> float | None:
    """Return the smallest difference that a test at this level finds in 80 % of cases."""
    if estimate is None or estimate.smallest is None or estimate.interval is None:
        return None
    smallest = smallest_effect(estimate.interval, level=level)
    return estimate.smallest if math.isnan(smallest) else max(smallest, estimate.smallest)


def _verdict(evidence: _Evidence, p_value: float | None) -> tuple[str, str]:
    claim, missing = evidence.claim, evidence.missing
    several = len(claim.contrasts) > 1
    if p_value is not None and p_value < LEVEL and evidence.is_opposed:
        return OPPOSITE, f"{evidence.decisive} is significant in the other direction" if several else ""
    if p_value is not None and p_value >= LEVEL:
        tested = ((contrast, evidence.supporting.get(contrast.name, 0.0)) for contrast in claim.contrasts)
        lacking = [_lacking(contrast, p) for contrast, p in tested if p >= LEVEL]
        why = f"not significant: {', '.join(lacking or [f'{evidence.decisive} (adjusted)'])}"
        return NO_DIFFERENCE, f"{why}; {claim.objection}" if claim.objection else why
    if claim.objection:
        return UNDETERMINED, claim.objection
    if missing or p_value is None:
        if len(missing) > 1 and len(set(missing.values())) == 1:
            return UNDETERMINED, next(iter(missing.values()))
        measured = {contrast.name for contrast in claim.contrasts if contrast.estimate is not None}
        named = [f"{name}: {why}" if name in measured else why for name, why in missing.items()]
        return UNDETERMINED, "; ".join(dict.fromkeys(named))
    return SIGNIFICANT, "every contrast is significant" if several else ""


def _lacking(contrast: Contrast, p_value: float) -> str:
    """Return the name of a contrast that is not significant, or is so with the other sign."""
    raw_p = contrast.estimate.p_value if contrast.estimate is not None else None
    return f"{contrast.name}{OTHER_SIGN}" if raw_p is not None and raw_p < LEVEL <= p_value == 1 else contrast.name


def _simultaneous(estimate: Estimate | None, confidence: float) -> tuple[float | None, float | None]:
    if estimate is None or estimate.interval is None:
        return (None, None) if estimate is None else (estimate.low, estimate.high)
    return at_confidence(estimate.interval, confidence)


def _against_margin(claim: Claim, level: float) -> MarginTest | None:
    """Test the first contrast against the margin on both sides, each at *level*; None without margin or interval."""
    estimate = claim.contrasts[0].estimate
    if claim.margin is None or estimate is None or estimate.interval is None or _why_untested(claim.contrasts[0]):
        return None
    interval, margin = estimate.interval, claim.margin
    is_below = p_value_at(interval, margin, -1) < level
    is_above = p_value_at(interval, -margin, 1) < level
    word = UNDECIDED
    if is_below:
        word = EQUIVALENT if is_above else NOT_WORSE
    elif p_value_at(interval, margin, 1) < level:
        word = WORSE
    return MarginTest(margin, word, *at_confidence(interval, 1 - 2 * level))


# --- in words


def percent(value: float) -> str:
    """Return a share as "61.5 %"."""
    return format_value(value, ".1%")


def difference_in_words(decision: Decision, is_share: bool = True) -> str:
    """Return "+46.5 points [34.0, 57.3], p < 0.001" of the first contrast.

    If another contrast decided, it follows with its own interval and the p value.
    """
    [first, *_], decisive = decision.claim.contrasts, decision.decisive
    if first.estimate is None:
        return "unknown"
    words = _value_in_words(first.estimate._replace(low=decision.low, high=decision.high), is_share)
    if decisive is not None and decisive.name != first.name and decisive.estimate is not None:
        words += f"; {decisive.name} {_value_in_words(decisive.estimate, is_share)}"
    if decision.p_value is None:
        return words
    raw_p = None if decisive is None or decisive.estimate is None else decisive.estimate.p_value
    if decision.word == NO_DIFFERENCE and raw_p is not None and raw_p < LEVEL <= decision.p_value == 1:
        return f"{words}, of the other sign"
    return f"{words}, {p_in_words(decision.p_value)}"


def rough_sentence(decision: Decision) -> str:
    """Return "The verdict is rough: only 12 clusters."; "" if it is not rough."""
    notes = dict.fromkeys(note for note in decision.notes.split("; ") if ROUGH in note)
    reasons = [note.removesuffix(": the interval is rough") for note in notes]
    return f"The verdict is rough: {'; '.join(reasons)}." if reasons else ""


def _value_in_words(estimate: Estimate, is_share: bool) -> str:
    return str(estimate.shown("+.1%" if is_share else "+.3f"))


def p_in_words(p_value: float) -> str:
    """Return "p < 0.001" or "p = 0.032"."""
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"


def sentence(decision: Decision) -> str:
    """Return "NAME: significant." or "NAME: cannot be determined (why)."."""
    claim = decision.claim
    if decision.word == NO_DIFFERENCE and claim.otherwise and decision.is_first_significant:
        return f"{claim.otherwise}."
    return f"{claim.name}: {decision.verdict}{f' ({decision.reason})' if decision.reason else ''}."


def sentences(decisions: Collection[Decision], is_share: bool = True) -> list[str]:
    """Return a sentence per claim with its value, or one for all of more than three."""
    if len(decisions) <= MOST_SENTENCES:
        return [_with_value(decision, is_share) for decision in decisions]
    holds = [decision for decision in decisions if decision.holds]
    holds.sort(key=lambda decision: 0.0 if decision.estimate is None else -abs(decision.estimate.value))
    largest = f"; the largest: {_with_value(holds[0], is_share)}" if holds else "."
    opposite = sum(decision.word == OPPOSITE for decision in decisions)
    rest = f", {opposite} are opposite" if opposite else ""
    return [f"{len(holds)} of {len(decisions)} comparisons are significant{rest}{largest}"]


def _with_value(decision: Decision, is_share: bool) -> str:
    if decision.word == UNDETERMINED:
        return sentence(decision)
    rough = " (rough)" if decision.is_rough else ""
    by_margin = f" By the margin: {decision.by_margin.word}." if decision.by_margin is not None else ""
    return f"{decision.claim.name}: {decision.word}{rough}, {difference_in_words(decision, is_share)}.{by_margin}"
