"""What a pilot comparison says about the size of the study that would detect a given difference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from fathom.metrics.significance import LEVEL, POWER, smallest_difference
from fathom.results.estimates import Estimate
from fathom.results.tables import Table

MOST = 10_000_000


class Detectable(NamedTuple):
    """What it would take to detect a difference of two runs.

    :param units: independent units of the pilot: relations, subjects or facts. :param needed: so many would do; None
        where the pilot shows no variance, or more than ten million would be needed.
    :param sample: what the units are.
    """

    first: str
    second: str
    difference: float
    facts: int
    sample: str
    units: int
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
    needed = None if math.isnan(error) else _needed(error, degrees, units, difference)
    facts = None if needed is None else math.ceil(needed * pilot.n / units)
    return Detectable(first, second, difference, pilot.n, pilot.sample, units, needed, facts)


def _needed(error: float, degrees: float, units: int, difference: float) -> int | None:
    def is_enough(number: int) -> bool:
        scale = number / units
        return smallest_difference(error / math.sqrt(scale), max(1.0, degrees * scale)) <= difference

    low, high = 1, 2
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
            "units needed": one.needed,
            "facts needed": one.needed_facts,
        }
        for one in found
    ]
    note = f"so many units, with as many facts each as here, detect it in {POWER:.0%} of tests at {LEVEL:.0%}"
    return Table.of(rows, "what would detect it", [note], formats={"detect": ".1%"})
