"""How often claims are wrong: supported claims in worlds that are drawn without an effect.

    python benchmarks/claims.py [--replicates 2000] [--only subjects] [--workers 2]

A cell is conspicuous (marked !) if its rate is significantly above 6 % at a nominal 5 %. *power* counts correct claims
where Fathom says that four of five would be found, *calibration* how often the interval contains the true error.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri
from scipy.stats import binomtest, rankdata
from tests.answerers import EVEN, Answerer, answered, at_random, at_rank, by_frequency_in, short_names_first, world
from tests.test_frequency import skewed

from fathom.data.queries import CandidateSet, Query
from fathom.metrics.confidence import calibration_gaps, cautious_sum, debiased_sum
from fathom.results import estimates
from fathom.results.claims import EQUIVALENT, Claim, Contrast, decide
from fathom.results.estimates import Estimate
from fathom.results.power import detectable
from fathom.results.samples import Sample, drawn
from fathom.results.summary import summarise

Random = np.random.Generator
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def holds(*contrasts: Estimate) -> bool:
    """Whether a claim of these contrasts is supported, each above 0 but for a single one."""
    sign = int(len(contrasts) > 1)
    [decision] = decide([Claim("it", tuple(Contrast(str(at), one, sign) for at, one in enumerate(contrasts)))])
    return decision.holds


def sample_of(relation: Ints, subject: Ints) -> Sample:
    labels = [f"s{one}" for one in subject]
    return drawn("", [f"r{one}" for one in relation], [None] * len(relation), subjects=labels)


def facts_of(random: Random, subjects: int, relations: int, ragged: bool = False) -> tuple[Ints, Ints]:
    """Subject and relation of each fact. :param ragged: a subject has two thirds of the relations, at random."""
    subject, relation = np.repeat(np.arange(subjects), relations), np.tile(np.arange(relations), subjects)
    kept = random.random(len(subject)) < 2 / 3 if ragged else np.ones(len(subject), bool)
    return subject[kept], relation[kept]


def mixed(random: Random, labels: Ints, likeness: float) -> Floats:
    """Normal values with this correlation within labels."""
    shared = random.standard_normal(labels.max() + 1)[labels]
    return np.sqrt(likeness) * shared + np.sqrt(1 - likeness) * random.standard_normal(len(labels))


def difference(first: Floats, second: Floats, relation: Ints, subject: Ints) -> Estimate:
    return estimates.difference(first, second, sample_of(relation, subject), "")


# --- worlds without an effect: True where a claim is supported


def subjects(random: Random, count: int, relations: int, likeness: float, ragged: bool = False) -> bool:
    """Two equal models on facts of fewer than ten relations. :param likeness: correlation of a subject's facts."""
    subject, relation = facts_of(random, count, relations, ragged)
    first, second = (mixed(random, subject, likeness) < 0 for _ in range(2))
    return holds(difference(first.astype(float), second.astype(float), relation, subject))


def ragged_subjects(random: Random, count: int, relations: int, likeness: float) -> bool:
    """The same where subjects have unequal relations."""
    return subjects(random, count, relations, likeness, ragged=True)


def relations(random: Random, count: int, facts: int, likeness: float) -> bool:
    """Two equal models on ten relations or more; one knows more of some, the other of others. Sizes fall as 1/n."""
    sizes = np.maximum(3, np.round(facts / np.arange(1, count + 1) / (1 / np.arange(1, count + 1)).sum())).astype(int)
    relation = np.repeat(np.arange(count), np.maximum(sizes, facts // (3 * count)))
    first, second = (mixed(random, relation, likeness) < 0.3 for _ in range(2))
    return holds(difference(first.astype(float), second.astype(float), relation, np.arange(len(relation))))


def groups(random: Random, count: int, relations: int, share: float, ragged: bool = False) -> bool:
    """The highest and the lowest group of subjects. :param share: of the subjects, in the highest group."""
    subject, relation = facts_of(random, count, relations, ragged)
    first = (np.arange(count) < max(2, round(share * count)))[subject]
    easier = np.linspace(-0.5, 0.5, relations)[relation]
    known = (mixed(random, subject, 0.6) < ndtri(0.3) + easier).astype(float)
    names = [f"r{one}" for one in relation]
    made = estimates.contrast(known, first, sample_of(relation, subject), "", names, units=[f"{s}" for s in subject])
    return holds(made)


def ragged_groups(random: Random, count: int, relations: int, share: float) -> bool:
    """The same where subjects have unequal relations."""
    return groups(random, count, relations, share, ragged=True)


def trend(random: Random, count: int, relations: int, likeness: float) -> bool:
    """Knowledge by a property of subjects, such as popularity, that has no effect."""
    subject, relation = facts_of(random, count, relations)
    property_ = random.standard_exponential(count)[subject]
    known = (mixed(random, subject, likeness) < 0).astype(float)
    ranks = (np.asarray(rankdata(side), float) for side in (property_, known))  # as Spearman's
    return holds(estimates.correlation(*ranks, sample_of(relation, subject), ""))


def lengths(random: Random, count: int, relations: int, likeness: float) -> bool:
    """Log ranks by the number of tokens of the answer, which is skewed; answers recur."""
    subject, relation = facts_of(random, count, relations)
    tokens = 1.0 + random.geometric(0.5, count)[random.integers(count, size=len(subject))]
    ranks = np.log10(1 + np.floor(np.exp(mixed(random, subject, likeness) * 1.2 + 2)))
    return holds(estimates.correlation(tokens, ranks, sample_of(relation, subject), ""))


def ease(random: Random, facts: int, _: int, shift: float) -> bool:
    """Memory by a latent ease that moves knowledge, gain, random weights and control. :param shift: of the control."""
    latent = random.standard_normal(facts)

    def reciprocal(score: Floats) -> Floats:
        return np.asarray(1 / (1 + (random.standard_normal((facts, 99)) > score[:, None]).sum(axis=1)))

    def measured(scale: float, by: float) -> Floats:
        return reciprocal(scale * latent + by + 0.7 * random.standard_normal(facts))

    own, control, plain, trained = measured(1, 0), measured(1, -shift), measured(1, 1), measured(1.3, 1.5)
    gain, sample = trained - plain, Sample("fact")
    return holds(estimates.slope(own, gain, sample, ""), estimates.tetrad(gain, own, control, plain, sample, ""))


def seeds(random: Random, relations: int, trainings: int, noise: float) -> bool:
    """Two equal models of several trainings, as in the study of memory. :param noise: how much trainings differ."""
    relation = np.repeat(np.arange(relations), 260 // relations)
    fact = 0.7 * random.standard_normal(relations)[relation] + random.standard_normal(len(relation)) - 0.4
    model = 0.3 * random.standard_normal((2, 1, len(relation)))
    training = noise * random.standard_normal((2, trainings, 1)) + 0.5 * random.standard_normal(
        (2, trainings, len(fact))
    )
    first, second = (fact + model + training > 0).astype(float)
    sample = sample_of(relation, np.arange(len(relation)))
    return holds(estimates.over_seeds(first - second, sample, "", (-1.0, 1.0), tested=True)[0])


def equivalence(random: Random, count: int, relations: int, margin: float) -> bool:
    """One model knows exactly the margin more, and is called equivalent."""
    subject, relation = facts_of(random, count, relations)
    shared, split = mixed(random, subject, 0.3), random.random(len(subject))
    first = (shared < 0).astype(float)
    second = np.where(split < 2 * margin, 0.0, first)  # of the half that is known, a share of twice the margin is lost
    made = difference(first, second, relation, subject)
    [decision] = decide([Claim("it", (Contrast("it", made),), margin)])
    return decision.word == EQUIVALENT


def bound(random: Random, facts: int, _: int, limit: float) -> bool:
    """A share exactly at its limit is called below it, as for misprimed sentences."""
    share = estimates.mean((random.random(facts) < limit).astype(float), Sample("fact"), "")
    return holds(estimates.below(share, limit)) and share.value < limit


def family(random: Random, facts: int, claims: int, likeness: float) -> bool:
    """Several comparisons with one common model in one call; any supported one counts."""
    values = [random.random(facts) < 0.5 for _ in range(claims + 1)]
    values = [np.where(random.random(facts) < likeness, values[0], one) for one in values]
    made = [estimates.difference(values[0].astype(float), one.astype(float), Sample("fact"), "") for one in values[1:]]
    return any(one.holds for one in decide([Claim(str(at), (Contrast("it", one),)) for at, one in enumerate(made)]))


# --- whole runs: answerers that do not read the subject


def is_above(answer: Answerer, data: object) -> bool:
    with TemporaryDirectory() as folder:
        [line] = summarise(answered(Path(folder) / "run", answer, data)).headlines  # type: ignore[arg-type]
        return line.verdict("accuracy") == "above"


def random_ties(answer: Answerer, seed: int) -> Answerer:
    """Break the ties of an answerer at random, so that it is no better than its baseline in expectation alone."""
    shuffled = at_random(seed)

    def broken(query: Query, space: CandidateSet, template: int) -> list[float]:
        pairs = zip(answer(query, space, template), shuffled(query, space, template), strict=True)
        return [score + 1e-6 * tie for score, tie in pairs]

    return broken


def filtered_graph(random: Random, *_: float) -> bool:
    """An answerer by training frequency on a graph with four relations, ranked among all entities, filtered."""
    with TemporaryDirectory() as folder:
        seed = int(random.integers(1 << 30))
        data = skewed(Path(folder) / "graph", seed)
        graph = data.graph
        assert graph is not None
        part = slice(graph.splits["train"].start, graph.splits["train"].stop)
        names, kinds = (table.column("id").to_pylist() for table in (graph.entities, graph.relations))
        pairs = zip(graph.relation[part].tolist(), graph.tail[part].tolist(), strict=True)
        counts: dict[tuple[str, str], int] = {}
        for relation, tail in pairs:
            counts[kinds[relation], names[tail]] = counts.get((kinds[relation], names[tail]), 0) + 1

        def by_frequency(query: Query, space: CandidateSet, template: int) -> list[float]:
            return [float(counts.get((query.relation, id_), 0)) for id_ in space.ids]

        return is_above(random_ties(by_frequency, seed), data)


def answer_space(random: Random, relations: int, facts: int, kind: float) -> bool:
    """Answerers in a closed answer space: 0 random, 1 majority, 2 short names, 3 a prior over names, 4 constant."""
    seed = int(random.integers(1 << 30))
    skew = [[int(min(random.standard_exponential() * 5, 19))] for _ in range(facts)]
    data = world(skew if kind else EVEN[:facts], relations=relations)
    prior = random.standard_normal(20)

    def by_prior(query: Query, space: CandidateSet, template: int) -> list[float]:
        own = np.random.default_rng([seed, int(query.id[1:])]).standard_normal(len(space))
        return (prior + 0.3 * own).tolist()

    def constant(query: Query, space: CandidateSet, template: int) -> list[float]:
        return [0.0] * len(space)

    answerers: Sequence[Answerer] = (
        at_random(seed),
        random_ties(by_frequency_in(data), seed),
        random_ties(short_names_first, seed),
        by_prior,
        constant,
    )
    return is_above(answerers[int(kind)], data)


# --- correct claims, and intervals


def perfect(random: Random, relations: int, facts: int, _: float) -> bool:
    """An answerer that knows everything, in a closed answer space with skewed answers."""
    skew = [[int(min(random.standard_exponential() * 5, 19))] for _ in range(facts)]
    return is_above(at_rank(1), world(skew, relations=relations))


def power(random: Random, count: int, relations: int, effect: float) -> bool:
    """Detect a difference with as many subjects as ``compare --detect`` asks for, from a pilot of 400."""

    def compared(number: int) -> Estimate:
        subject, relation = facts_of(random, number, relations)
        shared = mixed(random, subject, 0.5)
        own = [0.7 * shared + 0.7 * mixed(random, subject, 0.3) for _ in range(2)]
        first, second = (own[0] < effect * 1.25).astype(float), (own[1] < -effect * 1.25).astype(float)
        return difference(first, second, relation, subject)

    if (relations, effect) not in _NEEDED:
        true = 2 * float(ndtr(effect * 1.25 / np.sqrt(0.98))) - 1
        _NEEDED[relations, effect] = [detectable("a", "b", compared(count), true).needed or 0 for _ in range(20)]
    # The median of several pilots: a single one is unsure of the variance.
    return holds(compared(int(np.median(_NEEDED[relations, effect]))))


_NEEDED: dict[tuple[int, float], list[int]] = {}


def calibration(random: Random, answers: int, alike: int, error: float) -> bool:
    """The interval of the expected calibration error contains the true one. :param alike: answers that err together."""
    unit = np.arange(answers) // alike
    sure = np.clip(random.beta(2, 2, answers), 0.2, 0.8)[unit * alike]
    together = random.random(answers) < 0.5 * (alike > 1)
    tossed = np.where(together, random.random(answers)[unit * alike], random.random(answers))
    gaps = list(calibration_gaps(sure, (tossed < sure - error).astype(float)))
    sample = Sample("unit", [f"{one}" for one in unit] if alike > 1 else None)
    found = estimates.between_folds(gaps, sample, (debiased_sum, cautious_sum))
    return found.low is not None and found.high is not None and found.low <= error <= found.high


class Cells(NamedTuple):
    """:param expected: the rate that is claimed, in %: false claims at most, true ones about."""

    draw: Callable[..., bool]
    settings: Sequence[tuple[float, ...]]
    expected: float = 5


SUBJECTS = list(product((20, 196), (4, 8), (0.0, 0.5, 0.9)))
GROUPS = [(20, 1, 0.2), (40, 4, 0.1), (40, 4, 0.5), (100, 4, 0.05), (12, 8, 0.5)]
CELLS = {
    "subjects": Cells(subjects, SUBJECTS),
    "ragged subjects": Cells(ragged_subjects, SUBJECTS),
    "relations": Cells(relations, list(product((13, 60), (400, 2000), (0.0, 0.1, 0.5)))),
    "groups": Cells(groups, GROUPS),
    "ragged groups": Cells(ragged_groups, GROUPS),
    "trend": Cells(trend, list(product((40, 200), (1, 4), (0.0, 0.5)))),
    "lengths": Cells(lengths, list(product((40, 200), (1, 4), (0.0, 0.5)))),
    "ease": Cells(ease, list(product((100, 400), (1,), (0.0, 1.0)))),
    "seeds": Cells(seeds, list(product((5, 13), (2, 3, 5), (0.0, 0.1, 0.3)))),
    "equivalence": Cells(equivalence, list(product((50, 300), (4,), (0.02, 0.05)))),
    "bound": Cells(bound, list(product((100, 1000), (1,), (0.1,)))),
    "family": Cells(family, list(product((100, 500), (3, 10), (0.0, 0.5)))),
    "filtered graph": Cells(filtered_graph, [()]),
    "answer space": Cells(answer_space, [(5, 100, kind) for kind in range(5)]),
    "perfect": Cells(perfect, [(5, 100, 0)], 95),
    "power": Cells(power, list(product((400,), (1, 4), (0.03, 0.06))), 80),
    "calibration": Cells(calibration, list(product((100, 1000), (1, 5), (0.0, 0.05, 0.2))), 95),
}


def rate(name: str, setting: tuple[float, ...], replicates: int) -> float:
    """Return the share of replicates that support the claim."""
    random = np.random.default_rng([sum(name.encode()), *(int(100 * value) for value in setting)])
    return sum(bool(CELLS[name].draw(random, *setting)) for _ in range(replicates)) / replicates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicates", type=int, default=2000)
    parser.add_argument("--only", choices=CELLS, nargs="*")
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    print("| world | setting | claimed, % | rate, % | |\n|---|---|---:|---:|---|")
    cells = [(name, setting) for name in given.only or CELLS for setting in CELLS[name].settings]
    with ProcessPoolExecutor(given.workers) as pool:
        found = pool.map(rate, *zip(*cells, strict=True), [given.replicates] * len(cells))
        for (name, setting), share in zip(cells, found, strict=True):
            expected = CELLS[name].expected
            above = binomtest(round(share * given.replicates), given.replicates, 0.06, alternative="greater").pvalue
            mark = "!" if expected == 5 and above < 0.05 else ""
            print(
                f"| {name} | {', '.join(f'{one:g}' for one in setting)} | {expected:g} | {100 * share:.1f} | {mark} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
