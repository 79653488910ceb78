"""Coverage of intervals: how often they contain the truth of simulated values.

Values with a known truth are drawn again and again. Also counted: how often Fathom reports a difference or a
correlation of zero as significant.

    python benchmarks/coverage.py [--replicates 2000] [--only shares]

Two truths. *relations*: the mean over all relations that could be; the interval is clustered by relation. *facts*: the
mean over all facts of just these relations; the interval is within relations. Sizes are equal, fall as 1, 1/2, 1/3, or
are one for all relations but one.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

from fathom.metrics.correlation import correlate
from fathom.metrics.uncertainty import ENOUGH, Interval, crossed, enough_clusters, interval

Floats = npt.NDArray[np.float64]
CLUSTERS, LIKENESS, FACTS = (1, 2, 5, 13, 60), (0.0, 0.1, 0.5), (60, 400)
SIZES = ("equal", "unequal", "one large")
GRID = np.linspace(-6, 6, 4001)
MASS = stats.norm.pdf(GRID) / stats.norm.pdf(GRID).sum()
SHARE, BOTH = (0.0, 1.0), (-1.0, 1.0)


class SampledFacts(NamedTuple):
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


def shares(world: World, mean: float) -> SampledFacts:
    """Hits: each relation's rate is drawn from a beta distribution."""
    rates = np.full(len(world.sizes), mean)
    if world.likeness:
        more = (1 - world.likeness) / world.likeness
        rates = world.random.beta(mean * more, (1 - mean) * more, len(world.sizes))
    hits = (world.random.random(len(world.labels)) < rates[world.labels]).astype(float)
    return SampledFacts((hits,), world.labels, mean, world.mean(rates))


def _reciprocal(latent: Floats) -> Floats:
    return 1 / np.clip(np.ceil(np.exp(1.2 * latent + 1)), 1, 60)


def reciprocal_ranks(world: World) -> SampledFacts:
    """1 / rank of ranks from 1 to 60, some three in ten of them 1 to 2."""
    [effect] = world.effects()
    own = [
        float((MASS * _reciprocal(np.sqrt(world.likeness) * one + np.sqrt(1 - world.likeness) * GRID)).sum())
        for one in effect
    ]
    values = _reciprocal(world.mixed(effect, world.noise()))
    return SampledFacts((values,), world.labels, float((MASS * _reciprocal(GRID)).sum()), world.mean(np.array(own)))


def differences(world: World, by_relation: bool) -> SampledFacts:
    """Hits of two models that know as much. *by_relation*: one knows more of some relations, the other of others."""
    shared, own = world.effects(2)
    own = own * np.sqrt(0.2 * bool(world.likeness)) * by_relation
    fact = world.noise() * 0.7
    hits = [world.mixed(shared, world.noise()) + sign * own[world.labels] + fact > 0.3 for sign in (1, -1)]
    return SampledFacts(tuple(one.astype(float) for one in hits), world.labels, 0.0, 0.0)


def correlations(world: World, r: float) -> SampledFacts:
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
    return SampledFacts(columns, world.labels, r, float(here))


def _mean(drawn: SampledFacts, **how: Any) -> Interval:
    return interval(drawn.columns[0], limits=SHARE, **how)


def _difference(drawn: SampledFacts, **how: Any) -> Interval:
    return interval(np.subtract(*drawn.columns), limits=BOTH, **how)


def _correlation(drawn: SampledFacts, **how: Any) -> Interval:
    return correlate(*drawn.columns, **how)


class Quantity(NamedTuple):
    """:param relations: how it is drawn to ask for the truth of all relations. :param facts: of these."""

    relations: Callable[[World], SampledFacts]
    facts: Callable[[World], SampledFacts]
    asked: Callable[..., Interval]


def _same(draw: Callable[[World], SampledFacts], asked: Callable[..., Interval]) -> Quantity:
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


class IntervalCounts(NamedTuple):
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
    draw: Callable[[World], SampledFacts],
    asked: Callable[[SampledFacts], Interval],
    truth: str,
    worlds: Iterator[World],
) -> IntervalCounts:
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
    return IntervalCounts(covering, len(widths), excluding if zero else None, rough, width)


def sizes_of(clusters: int, facts: int, kind: str) -> npt.NDArray[np.int64]:
    if kind == "one large":
        return np.array([facts - clusters + 1, *[1] * (clusters - 1)])
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
        f"{'quantity':20} {'facts':>5} {'relations':>9} {'sizes':>9} {'likeness':>8}  "
        f"{'by relation':34}  within relations"
    )
    cells: dict[tuple[str, int], list[tuple[IntervalCounts, IntervalCounts]]] = {}
    for name, quantity in QUANTITIES.items():
        if name.startswith(given.only):
            for facts, clusters, kind, likeness in product(FACTS, CLUSTERS, SIZES, LIKENESS):
                if (clusters == 1 and kind != "equal") or clusters * 3 > facts:
                    continue
                found = counted(quantity, sizes_of(clusters, facts, kind), likeness, given.replicates)
                cells.setdefault((name, clusters), []).append(found)
                line = f"{name:20} {facts:5} {clusters:9} {kind:>9} {likeness:8}  {found[0]!s:34}  {found[1]}"
                print(line, flush=True)
    if "seeds".startswith(given.only):
        report_seeds(given.replicates)
        report_trainings(given.replicates)
    print("\n| quantity | relations | by relation | false positives | within relations | false positives |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for (name, clusters), found in cells.items():
        # Over relations nothing is claimed of fewer than ten.
        sides = [[pair[0] for pair in found] if clusters >= ENOUGH else [], [pair[1] for pair in found]]
        ranges = [values for side in sides for values in ranges_of(side)]
        print(f"| {name} | {clusters} | {' | '.join(ranges)} |")


def report_seeds(replicates: int) -> None:
    """Hits of 200 facts in trainings from several seeds: the truth is the mean over all facts and all seeds."""
    print("\n| seeds | spread of seeds | by fact and seed | by fact alone |")
    print("| ---: | ---: | ---: | ---: |")
    for seeds, spread in product((2, 3, 5, 10), (0.0, 0.02, 0.1)):
        random, covering = np.random.default_rng(0), np.zeros(2)
        for _ in range(replicates):
            rates = random.beta(2, 2, 200) + random.normal(0, spread, (seeds, 1))
            hits = (random.random(rates.shape) < rates).astype(float)
            both = [crossed(hits, limits=SHARE), interval(hits.mean(axis=0), limits=SHARE)]
            covering += [one.low is not None and one.high is not None and one.low <= 0.5 <= one.high for one in both]
        values = " | ".join(f"{100 * share:.1f}" for share in covering / replicates)
        print(f"| {seeds} | {spread:.2f} | {values} |", flush=True)


def report_trainings(replicates: int) -> None:
    """Differences of two models that know as much, of 260 facts and several trainings each. They know facts unequally;
    trainings move all facts, those of a relation, and each. By relation where there are enough of them, else within."""
    print("\n| relations | seeds | spread of seeds | false positives | width | by facts alone |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    for relations, seeds, noise in product((5, 13, 60), (2, 3, 5), (0.0, 0.1, 0.3)):
        random, excluding, spreads, widths = np.random.default_rng(0), np.zeros(2), [], []
        for _ in range(replicates):
            labels = np.repeat(np.arange(relations), sizes_of(relations, 260, "unequal"))
            n = len(labels)
            fact = 0.7 * random.standard_normal(relations)[labels] + random.standard_normal(n) - 0.4
            model = 0.3 * random.standard_normal((2, 1, n))
            training = noise * random.standard_normal((2, seeds, 1)) + 0.5 * random.standard_normal((2, seeds, n))
            of_relation = noise * random.standard_normal((2, seeds, relations))[..., labels]
            first, second = (fact + model + training + of_relation > 0).astype(float)
            how = {"clusters" if enough_clusters(labels) else "within": labels}
            found = crossed(first - second, **how, limits=BOTH)
            excluding += [one.p_value < 0.05 for one in (found, interval((first - second).mean(0), **how, limits=BOTH))]
            spreads.append(first.mean(axis=1).std(ddof=1))
            widths.append(np.nan if found.low is None or found.high is None else found.high - found.low)
        rates = (f"{100 * share:.1f}" for share in excluding / replicates)
        of_both, of_facts = rates
        spread, width = (f"{np.nanmean(own):.3f}" for own in (spreads, widths))
        print(f"| {relations} | {seeds} | {spread} | {of_both} | {width} | {of_facts} |", flush=True)


def counted(
    quantity: Quantity, sizes: npt.NDArray[np.int64], likeness: float, replicates: int
) -> tuple[IntervalCounts, IntervalCounts]:
    """By relation, and within relations."""

    def worlds() -> Iterator[World]:
        random = np.random.default_rng(0)
        return (World(random, sizes, likeness) for _ in range(replicates))

    return (
        count(quantity.relations, lambda d: quantity.asked(d, clusters=d.labels), "relations", worlds()),
        count(quantity.facts, lambda d: quantity.asked(d, within=d.labels), "facts", worlds()),
    )


def ranges_of(cells: Sequence[IntervalCounts]) -> tuple[str, str]:
    """Least and greatest coverage, and rate of false positives, over cells of which fewer than half of the intervals
    are noted to be rough: it is there that they are claimed to hold."""
    claimed = [one for one in cells if one.made and 2 * one.rough < one.made]
    rates = [[one.covering for one in claimed], [one.excluding for one in claimed if one.excluding is not None]]
    shares = [[100 * rate / claimed[0].made for rate in own] for own in rates]
    covering, excluding = (f"{min(own):.1f} to {max(own):.1f}" if own else "–" for own in shares)
    return covering, excluding


if __name__ == "__main__":
    main()
