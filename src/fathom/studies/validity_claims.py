"""Published claims about probes, stated in a plan and tested on planted models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fathom.errors import BadInput
from fathom.results import estimates
from fathom.results.claims import Claim, Contrast
from fathom.results.estimates import Estimate
from fathom.results.recipes import MINUS, combined
from fathom.results.rows import Floats, grouped
from fathom.studies.options import ValidityOptions
from fathom.studies.validity_estimates import PairedPreferences, Probe

MARGIN = 0.1
"""Largest correlation that counts as none."""
LARGER = "no probe of another model: two models of different sizes are needed"


def expected_claims(probes: Sequence[Probe], expected: ValidityOptions) -> list[Claim]:
    """Return a claim for each model and each expectation, with what it needs or lacks.

    :raises BadInput: an expectation names a probe that none of the runs has, or is written otherwise.
    """
    claims: list[Claim] = []
    for model, own in grouped((probe.facts.model, probe) for probe in probes).items():
        named = {probe.name: probe for probe in own}
        for text in expected.higher:
            first, second = _two(text, ">", probes)
            claims.append(_higher(f"{model}: {text}", _named(named, first), _named(named, second)))
        for text in expected.unbiased:
            first, second = _two(text, "unlike", probes)
            claims.append(_unbiased(f"{model}: {text}", _named(named, first), _named(named, second)))
    return claims + [_agree(text, *_two(text, "&", probes), probes) for text in expected.agree]


def _two(text: str, sign: str, probes: Sequence[Probe]) -> tuple[str, str]:
    parts = [part.strip() for part in text.split(f" {sign} ")]
    known = list(dict.fromkeys(probe.name for probe in probes))
    if len(parts) != 2:
        raise BadInput(f"'{text}': expected two probes, 'FIRST {sign} SECOND'; the runs have {', '.join(known)}")
    for part in parts:
        if not any(_is_name(part, name) for name in known):
            raise BadInput(f"'{text}': no probe '{part}'; the runs have {', '.join(known)}")
    return parts[0], parts[1]


def _is_name(text: str, name: str) -> bool:
    """Return whether a text is a probe's name, or its first words."""
    return name == text or name.startswith(f"{text} ")


def _named(named: Mapping[str, Probe], text: str) -> Probe | None:
    """Return the probe of this name, or the one whose name begins with it. :raises BadInput: there are several."""
    fit = [text] if text in named else [name for name in named if _is_name(text, name)]
    if len(fit) > 1:
        raise BadInput(f"'{text}' is the beginning of {', '.join(fit)}: give the whole name")
    return named[fit[0]] if fit else None


def _higher(name: str, first: Probe | None, second: Probe | None) -> Claim:
    """Declare that the first separates what was read from what was not better than the second."""
    if first is None or second is None:
        return Claim(name, (Contrast("AUROC", None, 1, "this model has no run of both probes"),))
    return Claim(name, (Contrast("difference of AUROC", first.better(second), 1),))


def _unbiased(name: str, first: Probe | None, second: Probe | None) -> Claim:
    """Declare that ranks of unread facts depend on the answer's length by the second probe, but not by the first."""
    if first is None or second is None:
        return Claim(name, (Contrast("length bias", None, 0, "this model has no run of both probes"),))
    own, other = (probe.length_bias() for probe in (first, second))
    return Claim(
        name,
        (
            Contrast(f"length bias of {second.name}", other, 1 if other.value >= 0 else -1),
            Contrast(f"length bias of {first.name} below {MARGIN}", estimates.below(own, MARGIN), 1),
            Contrast(f"length bias of {first.name} above −{MARGIN}", estimates.below(own, -MARGIN), -1),
        ),
    )


def _agree(text: str, first: str, second: str, probes: Sequence[Probe]) -> Claim:
    """Declare that two probes agree more, at constant truth, in the largest model than in the smallest."""
    by_model = grouped((probe.facts.content_hash, probe) for probe in probes)
    found = [
        (_named(named, first), _named(named, second))
        for named in ({probe.name: probe for probe in own} for own in by_model.values())
    ]
    pairs = [(one, other) for one, other in found if one and other and one.facts.parameters is not None]
    pairs.sort(key=lambda own: own[0].facts.parameters or 0)
    if len(pairs) < 2 or pairs[0][0].facts.parameters == pairs[-1][0].facts.parameters:
        return Claim(text, (Contrast("agreement", None, 1, LARGER),))
    return Claim(text, (Contrast("difference of agreement", _gain(pairs[-1], pairs[0]), 1),))


def _gain(large: Sequence[Probe], small: Sequence[Probe]) -> Estimate:
    """Return the correlation of the ranks in the large model − that in the small one, paired by fact."""
    (one, other), (its, others) = large, small
    columns = [pair[0].paired_with(pair[1]) for pair in ((one, other), (its, others))]
    common = [fact for fact in columns[0].facts if fact in set(columns[1].facts)]
    products = [_products(both, one.facts.relations_of(both.facts), common) for both in columns]
    recipe = combined("agreement at constant truth", [side.facts.recipe("") for side in (one, its)], MINUS)
    return estimates.difference(products[0], products[1], one.facts.sample(common), recipe, (-2.0, 2.0), "+.3f")


def _products(both: PairedPreferences, relations: Sequence[str], facts: Sequence[str]) -> Floats:
    """Return, for each fact, the correlation of the ranks plus the fact's influence on it; the mean is the correlation.

    The influence of a fact with standardised values x and y is xy − r (x² + y²) / 2, so that the spread of these values
    is that of the correlation's estimate.
    """
    first, second = (side / (float(np.sqrt((side**2).mean())) or 1.0) for side in both.within(relations))
    r = float((first * second).mean())
    influence = r + first * second - r * (first**2 + second**2) / 2
    value = dict(zip(both.facts, influence.tolist(), strict=True))
    return np.array([value[fact] for fact in facts])
