"""The size of a study that would detect a given difference, by a pilot comparison."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from fathom.results.claims import FEWEST
from fathom.results.estimates import Estimate, Noise
from fathom.results.metrics.significance import LEVEL, POWER, smallest_difference
from fathom.results.metrics.uncertainty import Spread
from fathom.results.samples import RELATION
from fathom.results.tables import Table

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
    grown = _Crossed.of(spread.ways).grown if spread.ways else None

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


class _Crossed(NamedTuple):
    """What a fact has in common with its relation and with its subject, and the rest, of two ways of drawing.

    :param shared: variance of what is common to a relation, to a subject, and to neither.
    """

    ways: tuple[Spread, ...]
    shared: tuple[float, float, float]

    @classmethod
    def of(cls, ways: tuple[Spread, ...]) -> _Crossed:
        """Solve for the three variances.

        The jackknife over relations sees what relations have in common, and of subjects only what differs between
        relations: subjects that occur in all relations move all of them alike. Likewise for that over subjects.
        """
        relations, subjects, facts = (way.units for way in ways)
        apart = 1 - min(1.0, facts / (relations * subjects))
        seen = np.array(
            [
                [1 / relations, apart / facts, 1 / facts],
                [apart / facts, 1 / subjects, 1 / facts],
                [1 / facts, 1 / facts, 1 / facts],
            ]
        )
        solved = np.linalg.lstsq(seen, [way.variance for way in ways])[0]
        of_relation, of_subject, rest = np.maximum(solved, 0.0).tolist()
        return cls(ways, (of_relation, of_subject, rest))

    def grown(self, times: float) -> tuple[float, float]:
        """Return the variance, and its degrees of freedom, with so many times as many relations, and subjects."""
        growth = times, times, times**2
        units = [way.units * more for way, more in zip(self.ways, growth, strict=True)]
        of_relation, of_subject, rest = (own / number for own, number in zip(self.shared, units, strict=True))
        squares = (of_relation + rest) ** 2, (of_subject + rest) ** 2, rest**2
        degrees = (max(1.0, way.degrees * more) for way, more in zip(self.ways, growth, strict=True))
        variance = of_relation + of_subject + rest
        return variance, variance**2 / sum(square / own for square, own in zip(squares, degrees, strict=True))


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
    notes = [f"units needed: {found}, with as many facts per unit as here"]
    if any(one["out of reach"] for one in plans):
        notes.append("out of reach: more relations are needed than these runs have, so other data are")
    table = Table.of(plans, "what would detect it", notes, hidden=hidden, formats={"detect": ".1%"})
    return table.without_empty("subjects here", "subjects needed", "out of reach")
