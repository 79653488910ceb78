"""The size of a study that would detect a given difference, by a pilot comparison."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from fathom.metrics.significance import LEVEL, POWER, smallest_difference
from fathom.results.claims import FEWEST
from fathom.results.estimates import Estimate, Noise
from fathom.results.tables import Table

MOST = 10_000_000
SEEDS = (3, 5, 10, 20)
"""Numbers of seeds to list, in addition to that of the pilot."""


Row = dict[str, Any]
"""The sample that would detect a difference, a row of :func:`detectable_table`. "units needed" is None if the pilot
shows no variance, or no number is enough."""


def detectable(first: str, second: str, pilot: Estimate, difference: float, in_data: int) -> Row:
    """Return how many units, with as many facts each as in the pilot, detect a true difference in 80 % of cases.

    The standard error falls with the square root of the number of units, and the degrees of freedom rise with it.

    :param difference: to be detected, above 0, in units of the metric.
    :param in_data: number of facts of the data set.
    """
    units, interval = pilot.clusters or pilot.n, pilot.interval

    def is_enough(number: int) -> bool:
        assert interval is not None
        scale = number / units
        return smallest_difference(interval.error / math.sqrt(scale), max(1.0, interval.degrees * scale)) <= difference

    unknown = interval is None or math.isnan(interval.error)
    return _plan(first, second, pilot, difference, 1, None if unknown else is_enough, in_data)


def detectable_with_seeds(
    first: str, second: str, pilot: Estimate, noise: Noise, difference: float, in_data: int
) -> list[Row]:
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
            first, second, pilot, difference, seeds, None if noise.facts is None else partial(is_enough, seeds), in_data
        )
        for seeds in sorted({noise.seeds, *SEEDS})
    ]


def _plan(
    first: str,
    second: str,
    pilot: Estimate,
    difference: float,
    seeds: int,
    is_enough: Callable[[int], bool] | None,
    in_data: int,
) -> Row:
    units = pilot.clusters or pilot.n
    needed = None if is_enough is None else _least(is_enough)
    facts = None if needed is None else math.ceil(needed * pilot.n / units)
    return {
        "first": first,
        "second": second,
        "detect": difference,
        "facts": pilot.n,
        "units": pilot.sample,
        "units here": units,
        "seeds": seeds,
        "units needed": needed,
        "facts needed": facts,
        "facts in data": in_data,
    }


def _least(is_enough: Callable[[int], bool]) -> int | None:
    """Return the smallest number from :data:`FEWEST` that is enough; None beyond :data:`MOST`."""
    low, high = FEWEST - 1, FEWEST
    while not is_enough(high):
        low, high = high, 2 * high
        if high > MOST:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def detectable_table(plans: Sequence[Row]) -> Table:
    """Return one line per pair and number of seeds."""
    hidden = [] if any(one["seeds"] > 1 for one in plans) else ["seeds"]
    hidden += ["first", "second"] if len({(one["first"], one["second"]) for one in plans}) == 1 else []
    found = f"to find the difference in {POWER:.0%} of tests at {LEVEL:.0%}"
    note = f"units needed: {found}, with as many facts per unit as here"
    return Table.of(plans, "what would detect it", [note], hidden=hidden, formats={"detect": ".1%"})
