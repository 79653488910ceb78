"""Do the intervals hold? Values with a known truth are drawn again and again, and it is counted how often Fathom's 95 %
interval covers it, and how often a difference or a correlation that is zero is called significant at 5 %.

    python benchmarks/coverage.py [--replicates 2000] [--only shares]

Two truths. *relations*: the mean over all relations that could be; the interval is clustered by relation. *facts*: the
mean over all facts of just these relations; the interval is within relations. Sizes are equal, or fall as 1, 1/2, 1/3.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

from fathom.metrics.correlation import correlate
from fathom.metrics.uncertainty import Interval, difference, interval

Floats = npt.NDArray[np.float64]
CLUSTERS, SIZES, LIKENESS, FACTS = (1, 2, 5, 13, 60), ("equal", "unequal"), (0.0, 0.1, 0.5), (60, 400)
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
    hits = [world.mixed(shared, world.noise()) + sign * own[world.labels] + fact > 0.3 for sign in (1, -1)]
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


def _mean(drawn: Drawn, **how: Any) -> Interval:
    return interval(drawn.columns[0], limits=SHARE, **how)


def _difference(drawn: Drawn, **how: Any) -> Interval:
    return difference(*drawn.columns, limits=BOTH, **how)


def _correlation(drawn: Drawn, **how: Any) -> Interval:
    return correlate(*drawn.columns, **how)


class Quantity(NamedTuple):
    """:param relations: how it is drawn to ask for the truth of all relations. :param facts: of these."""

    relations: Callable[[World], Drawn]
    facts: Callable[[World], Drawn]
    asked: Callable[..., Interval]


def _same(draw: Callable[[World], Drawn], asked: Callable[..., Interval]) -> Quantity:
    return Quantity(draw, draw, asked)


QUANTITIES = {
    "shares of 50 %": _same(partial(shares, mean=0.5), _mean),
    "shares of 20 %": _same(partial(shares, mean=0.2), _mean),
    "shares of 5 %": _same(partial(shares, mean=0.05), _mean),
    "MRR": _same(reciprocal_ranks, _mean),
    "differences of 0": Quantity(
        partial(differences, by_relation=True), partial(differences, by_relation=False), _difference
    ),
    "correlations of 0": _same(partial(correlations, r=0.0), _correlation),
    "correlations of 0.3": _same(partial(correlations, r=0.3), _correlation),
}


class Counted(NamedTuple):
    """Of the intervals of one cell.

    :param covering: how many hold the truth.
    :param made: how many there are.
    :param excluding: how many are said to differ from zero, p < 0.05; None where zero is not the truth.
    :param rough: how many carry a note that says so.
    :param width: mean.
    """

    covering: int
    made: int
    excluding: int | None
    rough: int
    width: float

    def __str__(self) -> str:
        if not self.made:
            return "–"
        covering, rough = (100 * one / self.made for one in (self.covering, self.rough))
        excluding = "" if self.excluding is None else f" p {100 * self.excluding / self.made:4.1f}"
        return f"{covering:5.1f} ({self.width:.2f}){excluding}{f' {rough:3.0f} % rough' if self.rough else ''}"


def count(
    draw: Callable[[World], Drawn], asked: Callable[[Drawn], Interval], truth: str, worlds: Iterator[World]
) -> Counted:
    covering, excluding, rough, zero, widths = 0, 0, 0, True, []
    for world in worlds:
        drawn = draw(world)
        zero &= getattr(drawn, truth) == 0
        found = asked(drawn)
        if found.low is None or found.high is None:
            continue
        covering += found.low - 1e-9 <= getattr(drawn, truth) <= found.high + 1e-9
        excluding += found.p_value < 0.05
        rough += "rough" in found.note
        widths.append(found.high - found.low)
    width = float(np.mean(widths)) if widths else float("nan")
    return Counted(covering, len(widths), excluding if zero else None, rough, width)


def sizes_of(clusters: int, facts: int, kind: str) -> npt.NDArray[np.int64]:
    falling = np.ones(clusters) if kind == "equal" else 1 / np.arange(1, clusters + 1)
    return np.maximum(1, np.round(facts * falling / falling.sum())).astype(np.int64)


def main() -> None:
    said = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    said.add_argument("--replicates", type=int, default=2000)
    said.add_argument("--only", default="", help="quantities whose name begins so")
    given = said.parse_args()
    print(
        f"coverage of 95 % intervals, in % of {given.replicates} draws (mean width); p < 0.05 "
        "where the truth is 0; rough: noted so"
    )
    print(
        f"{'quantity':20} {'facts':>5} {'relations':>9} {'sizes':>8} {'likeness':>8}  "
        f"{'by relation':30}  within relations"
    )
    for name, quantity in QUANTITIES.items():
        if name.startswith(given.only):
            for cell in product(FACTS, CLUSTERS, SIZES, LIKENESS):
                report(name, quantity, cell, given.replicates)


def report(name: str, quantity: Quantity, cell: tuple[int, int, str, float], replicates: int) -> None:
    facts, clusters, kind, likeness = cell
    if (clusters == 1 and kind == "unequal") or clusters * 3 > facts:
        return
    sizes = sizes_of(clusters, facts, kind)

    def worlds() -> Iterator[World]:
        random = np.random.default_rng(0)
        return (World(random, sizes, likeness) for _ in range(replicates))

    found = [
        count(quantity.relations, lambda d: quantity.asked(d, clusters=d.labels), "relations", worlds()),
        count(quantity.facts, lambda d: quantity.asked(d, within=d.labels), "facts", worlds()),
    ]
    print(f"{name:20} {facts:5} {clusters:9} {kind:>8} {likeness:8}  {found[0]!s:30}  {found[1]}", flush=True)


if __name__ == "__main__":
    main()
