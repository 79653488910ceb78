"""How often are claims wrong? Worlds without an effect are drawn again and again, and supported claims are counted.

    python benchmarks/claims.py [--replicates 2000] [--only subjects]

- *subjects*: two equal models on facts of fewer than ten relations whose subjects repeat;
- *groups*: the highest and the lowest group of facts, which belong to whole subjects, without a difference;
- *ease*: memory per fact, where one latent ease moves knowledge, gain, random weights and the control.

The old rule of each is shown next to the new one: facts as the unit, the interval alone, the slope alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
from scipy.special import ndtri

from fathom.metrics.correlation import slope, tetrad
from fathom.metrics.uncertainty import interval
from fathom.results.estimates import contrast
from fathom.results.samples import drawn

Random = np.random.Generator
LEVEL = 0.05


def subjects(random: Random, count: int, relations: int, likeness: float) -> tuple[bool, bool]:
    """:param likeness: correlation of a subject's facts."""
    subject, relation = np.repeat(np.arange(count), relations), np.tile(np.arange(relations), count)
    noise = [
        np.sqrt(likeness) * random.standard_normal(count)[subject]
        + np.sqrt(1 - likeness) * random.standard_normal(len(subject))
        for _ in range(2)
    ]
    differences = (noise[0] < 0).astype(float) - (noise[1] < 0)
    old, new = (
        interval(differences, within=relation, also=also, limits=(-1.0, 1.0)).p_value for also in (None, subject)
    )
    return old < LEVEL, new < LEVEL


def groups(random: Random, count: int, relations: int, share: float) -> tuple[bool, bool]:
    """:param share: of the subjects, in the highest group."""
    subject, relation = np.repeat(np.arange(count), relations), np.tile(np.arange(relations), count)
    first = (np.arange(count) < max(2, round(share * count)))[subject]
    noise = np.sqrt(0.6) * random.standard_normal(count)[subject]
    noise += np.sqrt(0.4) * random.standard_normal(len(subject))
    known = (noise < ndtri(0.3) + np.linspace(-0.5, 0.5, relations)[relation]).astype(float)
    names, units = [str(one) for one in relation], [str(one) for one in subject]
    sample = drawn("", names, [None] * len(names), subjects=units)
    new = contrast(known, first, sample, "", names, units=units).p_value
    middle = np.array([known[relation == one].mean() for one in relation])
    signed = np.where(first, known - middle, middle - known) * np.where(first, 1 / first.sum(), 1 / (~first).sum())
    old = interval(signed * len(signed), within=relation).p_value
    return old < LEVEL, new is not None and new < LEVEL


def ease(random: Random, facts: int, _: int, shift: float) -> tuple[bool, bool]:
    """:param shift: how much less the control knows."""
    latent = random.standard_normal(facts)

    def reciprocal(score: np.ndarray) -> np.ndarray:
        return 1 / (1 + (random.standard_normal((facts, 99)) > score[:, None]).sum(axis=1))

    def measured(scale: float, by: float) -> np.ndarray:
        return reciprocal(scale * latent + by + 0.7 * random.standard_normal(facts))

    own, control, plain, trained = measured(1, 0), measured(1, -shift), measured(1, 1), measured(1.3, 1.5)
    gain = trained - plain
    line, beyond = slope(own, gain), tetrad(gain, own, control, plain)
    rises = line.p_value < LEVEL and line.estimate > 0
    return rises, rises and beyond.p_value < LEVEL and beyond.estimate > 0


CELLS: dict[str, tuple[Callable[..., tuple[bool, bool]], list[tuple[int, int, float]]]] = {
    "subjects": (subjects, list(product((20, 196), (4, 8), (0.0, 0.5, 0.9)))),
    "groups": (groups, [(20, 1, 0.2), (40, 4, 0.1), (40, 4, 0.5), (100, 4, 0.05), (12, 8, 0.5)]),
    "ease": (ease, list(product((100, 400), (1,), (0.0, 1.0)))),
}


def rates(name: str, replicates: int) -> Iterator[tuple[object, ...]]:
    draw, cells = CELLS[name]
    for cell in cells:
        random = np.random.default_rng([sum(name.encode()), *(int(100 * value) for value in cell)])
        found = np.array([draw(random, *cell) for _ in range(replicates)]).mean(axis=0)
        yield name, *cell, *(f"{100 * rate:.1f}" for rate in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicates", type=int, default=2000)
    parser.add_argument("--only", choices=CELLS)
    given = parser.parse_args()
    print("| null | units | relations | parameter | before, % | now, % |\n|---|---:|---:|---:|---:|---:|")
    for name in [given.only] if given.only else CELLS:
        for line in rates(name, given.replicates):
            print(f"| {' | '.join(map(str, line))} |", flush=True)


if __name__ == "__main__":
    main()
