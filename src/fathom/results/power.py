"""What a pilot comparison says about the size of the study that would detect a given difference."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from fathom.metrics.significance import LEVEL, POWER, smallest_difference
from fathom.results.claims import FEWEST
from fathom.results.estimates import Estimate, Noise
from fathom.results.tables import Table

MOST = 10_000_000
SEEDS = (3, 5, 10, 20)
"""Numbers of seeds that a plan lists, in addition to those of the pilot."""


class Detectable(NamedTuple):
    """What it would take to detect a difference of two runs, or of two models trained with several seeds.

    :param units: independent units of the pilot: relations, subjects or facts.
    :param seeds: of each model; 1 where runs are compared as they are.
    :param needed: so many units would do; None where the pilot shows no variance, or no number would do.
    :param sample: what the units are.
    """

    first: str
    second: str
    difference: float
    facts: int
    sample: str
    units: int
    seeds: int
    needed: int | None
    needed_facts: int | None


def detectable(first: str, second: str, pilot: Estimate, difference: float) -> Detectable:
    """Return how many units, with as many facts each as in the pilot, detect a true difference in 80 % of cases.

    The standard error falls with the square root of the number of units, and the degrees of freedom rise with it.

    :param pilot: the paired difference of the pilot.
    :param difference: to be detected, above 0, in units of the metric.
    """
    units = pilot.clusters or pilot.n
    error = pilot.interval.error if pilot.interval is not None else math.nan
    degrees = pilot.interval.degrees if pilot.interval is not None else math.nan

    def is_enough(number: int) -> bool:
        scale = number / units
        return smallest_difference(error / math.sqrt(scale), max(1.0, degrees * scale)) <= difference

    return _plan(first, second, pilot, difference, 1, None if math.isnan(error) else is_enough)


def detectable_with_seeds(
    first: str, second: str, pilot: Estimate, noise: Noise, difference: float
) -> list[Detectable]:
    """Return the same for several numbers of seeds, whose noise more facts do not remove.

    :param pilot: the difference over the pilot's facts and seeds.
    :param noise: what it is unsure by, of facts and of seeds.
    """
    units = pilot.clusters or pilot.n
    of_facts = math.nan if noise.facts is None else noise.facts
    of_seeds = noise.training or 0.0

    def enough_with(seeds: int) -> Callable[[int], bool]:
        def is_enough(number: int) -> bool:
            variances = of_facts**2 * units / number, of_seeds**2 * noise.seeds / seeds
            total = sum(variances)
            # As Satterthwaite (1946).
            shares = variances[0] ** 2 / max(1, number - 1) + variances[1] ** 2 / max(1, seeds - 1)
            return smallest_difference(math.sqrt(total), max(1.0, total**2 / shares)) <= difference

        return is_enough

    each = sorted({noise.seeds, *SEEDS})
    known = not math.isnan(of_facts)
    return [_plan(first, second, pilot, difference, one, enough_with(one) if known else None) for one in each]


def _plan(
    first: str, second: str, pilot: Estimate, difference: float, seeds: int, is_enough: Callable[[int], bool] | None
) -> Detectable:
    units = pilot.clusters or pilot.n
    needed = None if is_enough is None else _least(is_enough)
    facts = None if needed is None else math.ceil(needed * pilot.n / units)
    return Detectable(first, second, difference, pilot.n, pilot.sample, units, seeds, needed, facts)


def _least(is_enough: Callable[[int], bool]) -> int | None:
    """Return the smallest number that is enough, by doubling and bisection; None beyond :data:`MOST`.

    It is at least :data:`FEWEST`, without which no claim is decided.
    """
    low, high = FEWEST - 1, FEWEST
    while not is_enough(high):
        low, high = high, 2 * high
        if high > MOST:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def detectable_table(found: Sequence[Detectable]) -> Table:
    """One line per pair."""
    rows = [
        {
            "first": one.first,
            "second": one.second,
            "detect": one.difference,
            "facts here": one.facts,
            "units": one.sample,
            "units here": one.units,
            "seeds": one.seeds,
            "units needed": one.needed,
            "facts needed": one.needed_facts,
        }
        for one in found
    ]
    hidden = [] if any(one.seeds > 1 for one in found) else ["seeds"]
    hidden += ["first", "second"] if len({one[:2] for one in found}) == 1 else []
    note = f"so many units, with as many facts each as here, detect it in {POWER:.0%} of tests at {LEVEL:.0%}"
    return Table.of(rows, "what would detect it", [note], hidden=hidden, formats={"detect": ".1%"})
