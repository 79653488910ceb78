"""How often a claim about these very runs would be wrong, and how many facts would detect a difference.

Each null exchanges the two sides, such as two runs or a run and a baseline, at random: within whole relations or
subjects where these are the sampling units, else within facts. So the nulls keep the sizes of the clusters, what facts
of a cluster have in common, ties and the number of facts that the sides have right, and on average the sides are equal.
For a margin, facts drawn at random are then lost to the second side, until it is worse by just the margin.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from fathom.results import estimates
from fathom.results.baselines import RANDOM, BaselineComparison, RunBaselines, above_chance
from fathom.results.claims import FEWEST, NOT_WORSE, WORSE, Claim, Contrast, Decision, decide, percent
from fathom.results.estimates import Estimate, Noise
from fathom.results.facts import RunFacts
from fathom.results.loading import short_names
from fathom.results.metrics.significance import LEVEL, POWER, smallest_difference
from fathom.results.metrics.uncertainty import Spread
from fathom.results.rows import Floats, Rows
from fathom.results.samples import RELATION, Sample
from fathom.results.tables import Table
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
        rough = f", more than the {100 * LEVEL:.0f} % that is claimed: the verdict is rough" if self.is_rough else ""
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
        drawn_first, drawn_second = exchanged(first, second, sample, draw)
        if margin is not None:
            drawn_second = np.where(draw.random(len(drawn_first)) < margin, drawn_first - 1.0, drawn_second)
        number = estimates.difference(drawn_first, drawn_second, sample, "")
        claim = Claim("null", (Contrast("difference", number),), margin)
        return decide(dict.fromkeys(range(family), claim))[0]  # of equal claims each has the family's level

    if margin is None:
        return [_rate(f"{names[0]} and {names[1]} differ", lambda draw: decided(draw).holds, seed)]

    is_worse = shown == WORSE

    def as_shown(draw: Draw) -> bool:
        by_margin = decided(draw).by_margin
        return by_margin is not None and (by_margin.is_worse if is_worse else by_margin.is_not_worse)

    checks = check_difference(names, first, second, sample, None, family, seed=seed)
    verdict = "is worse by more than" if is_worse else "is not worse by"
    return [*checks, _rate(f"{names[1]} {verdict} the margin", as_shown, seed)]


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
    name: str, hits: Floats, baselines: Mapping[str, Floats], sample: Sample, seed: int = 0
) -> CheckedClaim | None:
    """Return how often "knows more than the baselines" is found if the run equals the strongest of them.

    :param hits: Hits@1 of each fact, shape (n).
    :param baselines: likewise; NaN where a baseline is unknown. One known for some facts only is skipped.
    :returns: None if none but random guessing is known of all facts.
    """
    complete = {baseline: values for baseline, values in baselines.items() if not np.isnan(values).any()}
    outcomes = {baseline: values for baseline, values in complete.items() if baseline != RANDOM}
    if not outcomes:
        return None
    strongest = max(outcomes, key=lambda baseline: float(outcomes[baseline].mean()))

    def is_above(draw: Draw) -> bool:
        exchanged_hits, exchanged_baseline = exchanged(hits, complete[strongest], sample, draw)
        compared = [
            BaselineComparison(name, *estimates.over_baseline(exchanged_hits, values, sample, "", fixed=name == RANDOM))
            for name, values in (complete | {strongest: exchanged_baseline}).items()
        ]
        return decide({name: above_chance(name, compared)})[name].holds

    return _rate(f"{name} knows more than the baselines", is_above, seed)


def exchanged(first: Floats, second: Floats, sample: Sample, draw: Draw) -> tuple[Floats, Floats]:
    """Exchange two sides at random, shape (n) each, by whole sampling units."""
    swap = np.ones(len(first))
    ways = [labels for labels in (sample.clusters, sample.also) if labels is not None]
    for labels in ways or [np.arange(len(first))]:
        unit = np.unique(np.asarray(labels), return_inverse=True)[1].reshape(-1)
        swap *= draw.choice([-1.0, 1.0], unit.max() + 1)[unit]
    return np.where(swap > 0, first, second), np.where(swap > 0, second, first)


def _rate(claim: str, is_supported: Callable[[Draw], bool], seed: int) -> CheckedClaim:
    draw = np.random.default_rng(seed)
    supported = np.array([is_supported(draw) for _ in range(NULLS)], dtype=float)
    return CheckedClaim(claim, estimates.mean(supported, Sample("null"), f"rate of wrong claims|nulls:{NULLS}"))


def in_words(checks: Sequence[CheckedClaim]) -> list[str]:
    """Return a sentence for each check, or one for the highest rate of more than three."""
    if len(checks) <= 3:
        return [f"Check: {check}" for check in checks]
    highest = max(checks, key=lambda check: check.rate.value)
    mean = float(np.mean([check.rate.value for check in checks]))
    return [f"Check: {len(checks)} claims are wrong in {percent(mean)} of simulated nulls; most often {highest}"]


# --- the size of a study that would detect a given difference, by a pilot comparison


MOST = 10_000_000
SEEDS = (3, 5, 10, 20)
"""Numbers of seeds to list, in addition to that of the pilot."""


Row = dict[str, Any]
"""The sample that would detect a difference, a row of :func:`detectable_table`. Numbers "needed" are None if the pilot
shows no variance, or no number is enough."""


def detectable(first: str, second: str, pilot: Estimate, difference: float) -> Row:
    """Return how many units, with as many facts each as in the pilot, detect a true difference in 80 % of cases.

    The standard error falls with the square root of the number of units, and the degrees of freedom rise with it. If
    relations and subjects were both drawn, each has its part of the variance, which falls with its own number; both
    are then planned in the pilot's proportion.

    :param difference: to be detected, above 0, in units of the metric.
    """
    spread = pilot.interval and pilot.interval.spread
    if not spread or not spread.variance > 0:
        return _plan(first, second, pilot, difference, None)
    grown = _growth_of(spread.ways) if spread.ways else None

    def is_enough(number: int) -> bool:
        growth = number / spread.units
        both = (spread.variance / growth, spread.degrees * growth) if grown is None else grown(growth)
        return _detects(*both, spread, difference)

    return _plan(first, second, pilot, difference, _least(is_enough))


def _detects(variance: float, degrees: float, pilot: Spread, difference: float) -> bool:
    """Return whether a test finds a difference in 80 % of cases, over the pilots that could have been.

    The quantile of the power is Student's with the pilot's degrees of freedom (Julious and Owen 2006), since a pilot
    shows too small a variance as often as too large a one.
    """
    error, units = math.sqrt(variance), min(way.units for way in pilot.ways or (pilot,))
    uncertain = error * float(special.stdtrit(max(1, units - 1), POWER) - special.ndtri(POWER))
    return smallest_difference(error, max(1.0, degrees)) + uncertain <= difference


def _growth_of(ways: tuple[Spread, ...]) -> Callable[[float], tuple[float, float]]:
    """Return the variance, and its degrees of freedom, by how many times as many relations and subjects there are.

    The jackknife over relations sees what the facts of a relation have in common, and of subjects only what differs
    between relations: subjects that occur in all relations move all of them alike. Likewise for that over subjects. Of
    these, the variances of what is common to a relation, to a subject, and to neither follow.
    """
    relations, subjects, facts = (way.units for way in ways)
    apart = 1 - min(1.0, facts / (relations * subjects))
    seen = [
        [1 / relations, apart / facts, 1 / facts],
        [apart / facts, 1 / subjects, 1 / facts],
        [1 / facts, 1 / facts, 1 / facts],
    ]
    shared = np.maximum(np.linalg.lstsq(np.array(seen), [way.variance for way in ways])[0], 0.0)

    def grown(times: float) -> tuple[float, float]:
        growth = np.array([times, times, times**2])
        of_relation, of_subject, rest = (shared / growth / [way.units for way in ways]).tolist()
        variance = of_relation + of_subject + rest
        squares = np.array([of_relation + rest, of_subject + rest, rest]) ** 2
        degrees = np.maximum(1.0, growth * [way.degrees for way in ways])
        return variance, variance**2 / float((squares / degrees).sum())

    return grown


def detectable_with_seeds(first: str, second: str, pilot: Estimate, noise: Noise, difference: float) -> list[Row]:
    """Return the same for several numbers of seeds, whose noise more facts do not remove.

    :param pilot: the difference over the pilot's facts and seeds, with its *noise*.
    """
    units, of_facts, of_seeds = pilot.clusters or pilot.n, noise.facts or 0.0, noise.training or 0.0

    def is_enough(seeds: int, number: int) -> bool:
        variances = of_facts**2 * units / number, of_seeds**2 * noise.seeds / seeds
        total = sum(variances)
        # As Satterthwaite (1946).
        shares = variances[0] ** 2 / max(1, number - 1) + variances[1] ** 2 / max(1, seeds - 1)
        return smallest_difference(math.sqrt(total), max(1.0, total**2 / shares)) <= difference

    return [
        _plan(
            first,
            second,
            pilot,
            difference,
            _least(partial(is_enough, number)) if noise.facts is not None else None,
            number,
        )
        for number in sorted({noise.seeds, *SEEDS})
    ]


def _plan(first: str, second: str, pilot: Estimate, difference: float, needed: int | None, seeds: int = 1) -> Row:
    """:param needed: number of units; None if no number is enough."""
    units, ways = pilot.clusters or pilot.n, pilot.interval and pilot.interval.spread and pilot.interval.spread.ways
    growth = None if needed is None else needed / units
    subjects = ways[1].units if ways else None
    facts = None if growth is None else math.ceil(pilot.n * growth ** (2 if ways else 1))
    beyond = needed is not None and needed > units and pilot.sample.startswith(RELATION)
    return {
        "first": first,
        "second": second,
        "detect": difference,
        "facts": pilot.n,
        "units": pilot.sample,
        "units here": units,
        "subjects here": subjects,
        "seeds": seeds,
        "units needed": needed,
        "subjects needed": None if growth is None or subjects is None else math.ceil(subjects * growth),
        "facts needed": facts,
        "out of reach": f"these runs have {units} relations" if beyond else None,
    }


def _least(is_enough: Callable[[int], bool]) -> int | None:
    """Return the smallest number from :data:`FEWEST` that is enough; None beyond :data:`MOST`."""
    found = FEWEST + bisect_left(range(FEWEST, MOST + 1), True, key=is_enough)
    return found if found <= MOST else None


def detectable_table(plans: Sequence[Row]) -> Table:
    """Return one line per pair and number of seeds."""
    hidden = [] if any(plan["seeds"] > 1 for plan in plans) else ["seeds"]
    hidden += ["first", "second"] if len({(plan["first"], plan["second"]) for plan in plans}) == 1 else []
    found = f"to find the difference in {100 * POWER:.0f} % of tests at {100 * LEVEL:.0f} %"
    notes = [f"units needed: {found}, with as many facts per unit as here"]
    if any(plan["out of reach"] for plan in plans):
        notes.append("out of reach: more relations are needed than these runs have, so other data are")
    table = Table.of(plans, "what would detect it", notes, hidden=hidden, formats={"detect": ".1%"})
    return table.without_empty("subjects here", "subjects needed", "out of reach")
