"""How often a claim about these very runs would be wrong: nulls that keep their facts.

Each null exchanges the two sides, such as two runs or a run and a baseline, at random: within whole relations or
subjects where these are the sampling units, else within facts. So the nulls keep the sizes of the clusters, what facts
of a cluster have in common, ties and the number of facts that the sides have right, and on average the sides are equal.
For a margin, facts drawn at random are then lost to the second side, until it is worse by just the margin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fathom.metrics.significance import LEVEL
from fathom.metrics.uncertainty import Labels
from fathom.results import estimates
from fathom.results.baselines import RANDOM, BaselineComparison, RunBaselines, above_chance
from fathom.results.claims import NOT_WORSE, WORSE, Claim, Contrast, Decision, decide, percent
from fathom.results.estimates import Estimate
from fathom.results.facts import RunFacts
from fathom.results.names import short_names
from fathom.results.rows import Floats, Rows
from fathom.results.samples import Sample
from fathom.store.folder import RunFolder

NULLS = 200
"""Number of simulated nulls."""
ROUGH_ABOVE = 0.06
"""Rate of wrong claims from which on a verdict is called rough, if the lower end of its interval is above it."""

Draw = np.random.Generator


class CheckedClaim(NamedTuple):
    """:param claim: what would be wrong. :param rate: share of the simulated nulls that support it."""

    claim: str
    rate: Estimate

    def __str__(self) -> str:
        """Return "A and B differ: wrong in 4.5 % [2.4, 8.3] of 200 simulated nulls.", and whether that is rough."""
        rough = f", more than the {LEVEL:.0%} that is claimed: the verdict is rough" if self.is_rough else ""
        return f"{self.claim}: wrong in {self.rate} of {self.rate.n} simulated nulls{rough}."

    @property
    def is_rough(self) -> bool:
        """True if the rate is above :data:`ROUGH_ABOVE` by more than the noise of so many nulls."""
        return (self.rate.low or 0.0) > ROUGH_ABOVE


def check_difference(
    names: tuple[str, str],
    first: Floats,
    second: Floats,
    sample: Sample,
    margin: float | None,
    family: int = 1,
    shown: str = NOT_WORSE,
    seed: int = 0,
) -> list[CheckedClaim]:
    """Return how often equal sides are found to differ, and how often the verdict on a margin is wrong.

    For the second rate, the second side is worse by just the margin.

    :param first: values of one side, one per fact, from 0 to 1; *second* likewise.
    :param sample: how the facts were drawn.
    :param margin: smallest difference that matters, as a share; None without one.
    :param family: number of claims that are adjusted together.
    :param shown: the verdict on the margin.
    """

    def decided(draw: Draw) -> Decision:
        own, other = exchanged(first, second, sample, draw)
        if margin is not None:
            other = np.where(draw.random(len(own)) < margin, own - 1.0, other)
        number = estimates.difference(own, other, sample, "")
        claim = Claim("null", (Contrast("difference", number),), margin)
        return decide(dict.fromkeys(range(family), claim))[0]  # of equal claims each has the family's level

    if margin is None:
        return [_rate(f"{names[0]} and {names[1]} differ", lambda draw: decided(draw).holds, seed)]

    is_worse = shown == WORSE

    def as_shown(draw: Draw) -> bool:
        by_margin = decided(draw).by_margin
        return by_margin is not None and (by_margin.is_worse if is_worse else by_margin.is_not_worse)

    own = check_difference(names, first, second, sample, None, family, seed=seed)
    verdict = "is worse by more than" if is_worse else "is not worse by"
    return [*own, _rate(f"{names[1]} {verdict} the margin", as_shown, seed)]


def check_run(run: RunFolder, cluster: str = "") -> list[CheckedClaim]:
    """Return, for each scoring of a run, how often "knows more than the baselines" is wrong.

    :raises BadInput: unfinished, or nothing scored.
    """
    rows = Rows(run, cluster=cluster)
    checks = []
    for scoring in rows.scorings:
        side = RunFacts(run, rows, scoring, short_names([run])[0])
        facts = side.scored_facts
        at = side.at(facts)
        baselines = {name: values[at] for name, values in RunBaselines(side, rows).hits(1).items()}
        checked = check_baselines(f"{side.model} ({scoring})", side.hits(1)[at], baselines, side.sample(facts))
        checks += [checked] if checked is not None else []
    return checks


def check_baselines(
    name: str, own: Floats, baselines: Mapping[str, Floats], sample: Sample, seed: int = 0
) -> CheckedClaim | None:
    """Return how often "knows more than the baselines" is found if the run equals the strongest of them.

    :param own: Hits@1 of each fact, shape (n).
    :param baselines: likewise; NaN where a baseline is unknown. One known for some facts only is skipped.
    :returns: None if none but random guessing is known of all facts.
    """
    known = {baseline: values for baseline, values in baselines.items() if not np.isnan(values).any()}
    outcomes = {baseline: values for baseline, values in known.items() if baseline != RANDOM}
    if not outcomes:
        return None
    strongest = max(outcomes, key=lambda baseline: float(outcomes[baseline].mean()))

    def is_above(draw: Draw) -> bool:
        exchanged_own, exchanged_baseline = exchanged(own, known[strongest], sample, draw)
        compared = []
        for baseline, values in (known | {strongest: exchanged_baseline}).items():
            fixed = baseline == RANDOM
            numbers = estimates.over_baseline(exchanged_own, values, sample, "", fixed=fixed)
            compared.append(BaselineComparison(baseline, *numbers))
        return decide({name: above_chance(name, compared)})[name].holds

    return _rate(f"{name} knows more than the baselines", is_above, seed)


def exchanged(first: Floats, second: Floats, sample: Sample, draw: Draw) -> tuple[Floats, Floats]:
    """Exchange two sides at random, shape (n) each, by whole sampling units."""
    swap = np.ones(len(first))
    ways = [labels for labels in (sample.clusters, sample.also) if labels is not None]
    for labels in ways or [np.arange(len(first))]:
        swap *= _signs(labels, draw)
    return np.where(swap > 0, first, second), np.where(swap > 0, second, first)


def _signs(labels: Labels, draw: Draw) -> Floats:
    """Return +1 or −1 for each label at random, shape (n)."""
    unit = np.unique(np.asarray(labels), return_inverse=True)[1].reshape(-1)
    return np.asarray(draw.choice([-1.0, 1.0], unit.max() + 1)[unit])


def _rate(claim: str, is_supported: Callable[[Draw], bool], seed: int) -> CheckedClaim:
    draw = np.random.default_rng(seed)
    supported = np.array([is_supported(draw) for _ in range(NULLS)], dtype=float)
    return CheckedClaim(claim, estimates.mean(supported, Sample("null"), f"rate of wrong claims|nulls:{NULLS}"))


def in_words(checks: Sequence[CheckedClaim]) -> list[str]:
    """Return a sentence for each check, or one for the highest rate of more than three."""
    if len(checks) <= 3:
        return [f"Check: {one}" for one in checks]
    highest = max(checks, key=lambda one: one.rate.value)
    mean = float(np.mean([one.rate.value for one in checks]))
    return [f"Check: {len(checks)} claims are wrong in {percent(mean)} of simulated nulls; most often {highest}"]
