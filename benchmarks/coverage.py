"""Do the intervals hold? Values with a known truth are drawn again and again, and it is counted how often Fathom's 95 %
interval covers it, and how often a difference or a correlation that is zero is called significant at 5 %.

    python benchmarks/coverage.py [--replicates 2000] [--only shares]

Two truths. *relations*: the mean over all relations that could be; the interval is clustered by relation. *facts*: the
mean over all facts of just these relations; the interval is within relations. Sizes are equal, or fall as 1, 1/2, 1/3, …
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

from fathom.metrics.correlation import correlate
from fathom.metrics.uncertainty import Interval, difference, interval

Floats = npt.NDArray[np.float64]
CLUSTERS, SIZES, SPREADS, FACTS = (1, 2, 5, 13, 60), ("equal", "unequal"), (0.0, 0.1, 0.5), (60, 400)
GRID = np.linspace(-6, 6, 4001)
MASS = stats.norm.pdf(GRID) / stats.norm.pdf(GRID).sum()
SHARE, BOTH = (0.0, 1.0), (-1.0, 1.0)


class Drawn(NamedTuple):
    """:param columns: of the quantity. :param relations: of all relations, its truth. :param facts: of these."""

    columns: tuple[Floats, ...]
    labels: npt.NDArray[np.int64]
    relations: float
    facts: float


class World(NamedTuple):
    """:param sizes: facts of each relation. :param likeness: intraclass correlation."""

    random: np.random.Generator
    sizes: npt.NDArray[np.int64]
    likeness: float

    @property
    def labels(self) -> npt.NDArray[np.int64]:
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def effects(self, count: int = 1) -> Floats:
        return self.random.standard_normal((count, len(self.sizes)))

    def noise(self) -> Floats:
        return self.random.standard_normal(int(self.sizes.sum()))

    def mixed(self, of_relation: Floats, of_fact: Floats) -> Floats:
        return np.sqrt(self.likeness) * of_relation[self.labels] + np.sqrt(1 - self.likeness) * of_fact

    def mean(self, of_relation: Floats) -> float:
        return float(np.average(of_relation, weights=self.sizes))


def shares(world: World, mean: float) -> Drawn:
    """Hits: each relation's rate is drawn from a beta distribution."""
    rates = np.full(len(world.sizes), mean)
    if world.likeness:
        more = (1 - world.likeness) / world.likeness
        rates = world.random.beta(mean * more, (1 - mean) * more, len(world.sizes))
    hits = (world.random.random(len(world.labels)) < rates[world.labels]).astype(float)
    return Drawn((hits,), world.labels, mean, world.mean(rates))


def _reciprocal(latent: Floats) -> Floats:
    return 1 / np.clip(np.ceil(np.exp(1.2 * latent + 1)), 1, 60)


def reciprocal_ranks(world: World) -> Drawn:
    """1 / rank of ranks from 1 to 60, some three in ten of them 1 to 2."""
    [effect] = world.effects()
    own = [
        float((MASS * _reciprocal(np.sqrt(world.likeness) * one + np.sqrt(1 - world.likeness) * GRID)).sum())
        for one in effect
    ]
    values = _reciprocal(world.mixed(effect, world.noise()))
    return Drawn((values,), world.labels, float((MASS * _reciprocal(GRID)).sum()), world.mean(np.array(own)))


def differences(world: World, by_relation: bool) -> Drawn:
    """Hits of two models that know as much. *by_relation*: one knows more of some relations, the other of others."""
    shared, own = world.effects(2)
    own = own * np.sqrt(0.2 * bool(world.likeness)) * by_relation
    fact = world.noise() * 0.7
    hits = [
        world.mixed(shared, world.noise()) + sign * own[world.labels] + fact > 0.3 for sign in (1, -1)
    ]
    return Drawn(tuple(one.astype(float) for one in hits), world.labels, 0.0, 0.0)


def correlations(world: World, r: float) -> Drawn:
    """Pairs correlated by *r*, within relations and between."""

    def pair(one: Floats, other: Floats) -> tuple[Floats, Floats]:
        return one, r * one + np.sqrt(1 - r * r) * other

    left, right = pair(*world.effects(2))
    x, y = pair(world.noise(), world.noise())
    columns = (world.mixed(left, x), world.mixed(right, y))

    def shared(a: Floats, b: Floats, within: float) -> float:
        between = world.mean(a * b) - world.mean(a) * world.mean(b)
        return world.likeness * between + (1 - world.likeness) * within

    here = shared(left, right, r) / np.sqrt(shared(left, left, 1.0) * shared(right, right, 1.0))
    return Drawn(columns, world.labels, r, float(here))


def mean_of(limits: tuple[float, float]) -> Callable[..., Interval]:
    return lambda drawn, **how: interval(drawn.columns[0], limits=limits, **how)


QUANTITIES: dict[str, tuple[Callable[[World], Drawn], Callable[..., Interval]]] = {
    "shares of 50 %": (lambda world: shares(world, 0.5), mean_of(SHARE)),
    "shares of 20 %": (lambda world: shares(world, 0.2), mean_of(SHARE)),
    "shares of 5 %": (lambda world: shares(world, 0.05), mean_of(SHARE)),
    "MRR of 0.39": (reciprocal_ranks, mean_of(SHARE)),
    "differences of 0": (lambda world: differences(world, True), lambda d, **how: difference(*d.columns, limits=BOTH, **how)),
    "correlations of 0": (lambda world: correlations(world, 0.0), lambda d, **how: correlate(*d.columns, **how)),
    "correlations of 0.3": (lambda world: correlations(world, 0.3), lambda d, **how: correlate(*d.columns, **how)),
}
