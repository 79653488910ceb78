"""The ablations of the BEAR paper in one plan: sum or mean, full or conditional, and how masked models mask.

Every arm answers the same queries; two arms are compared query by query, averaged over templates (section 5.2.1 and
appendix A.2 of Wiland et al. 2024, which report Student's t-test for paired samples).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fathom.data.queries import QuerySet
from fathom.metrics.bootstrap import Interval, interval, paired_difference, paired_t_test
from fathom.metrics.ranking import hits_at_k
from fathom.models.base import Attention, Model
from fathom.probes.options import StatementOptions
from fathom.run import run
from fathom.scoring.masked import Pll
from fathom.store.folder import RunFolder

DEFAULT_PLL = str(Pll.WITHIN_WORD_L2R)


class Arm(NamedTuple):
    """One way of scoring. :param queries: how many were scored. :param unscored: how many could not be."""

    pll: str
    scoring: str
    accuracy: Interval
    queries: int
    unscored: int


class Comparison(NamedTuple):
    """Accuracy of *first* minus that of *second*, over the queries that both scored."""

    first: str
    second: str
    difference: Interval
    t_test_p: float
    bootstrap_p: float
    queries: int


class Ablation(NamedTuple):
    arms: list[Arm]
    comparisons: list[Comparison]


def ablation(
    model: Model,
    data: QuerySet,
    options: StatementOptions,
    out: Path,
    progress: Callable[[str], Callable[[int, int], None]],
) -> Ablation:
    """Run every arm into its own folder below *out* (each resumes), then compare.

    :param options: templates, selection and the like; its reduction, score and pll are those of the study.
    :param progress: given the name of a run, what to call with shards done and in all.
    """
    variants = [str(pll) for pll in Pll] if model.attention is Attention.BIDIRECTIONAL else ["causal"]
    accuracies: dict[tuple[str, str], dict[str, float]] = {}
    relations: dict[str, str] = {}
    arms = []
    for variant in variants:
        changes: dict[str, object] = {"reduction": ("sum", "mean"), "score": ("full", "conditional")}
        if variant != "causal":
            changes["pll"] = variant
        chosen = options.model_copy(update=changes)
        folder = run("statement", model, data, chosen, out / variant, progress(variant))
        relations |= dict(
            zip(*(folder.queries().column(name).to_pylist() for name in ("query_id", "relation")), strict=True)
        )
        for scoring, found in _accuracies(folder).items():
            accuracies[variant, scoring] = found
            arms.append(_arm(variant, scoring, found, relations))
    compared = [_compare(*pair, accuracies, relations) for pair in _questions(variants, accuracies)]
    return Ablation(arms, [comparison for comparison in compared if comparison is not None])


def _questions(
    variants: list[str], accuracies: dict[tuple[str, str], dict[str, float]]
) -> list[tuple[tuple[str, str], tuple[str, str]]]:
    base = DEFAULT_PLL if DEFAULT_PLL in variants else variants[0]
    pairs = [((base, "sum/full"), (base, "mean/full")), ((base, "sum/full"), (base, "sum/conditional"))]
    for other in variants:
        if other != base:
            pairs += [((base, f"{reduction}/full"), (other, f"{reduction}/full")) for reduction in ("sum", "mean")]
    return [pair for pair in pairs if all(arm in accuracies for arm in pair)]


def _accuracies(folder: RunFolder) -> dict[str, dict[str, float]]:
    """For each scoring the expected Hits@1 of each query, averaged over templates; NaN where one is unscored."""
    table = folder.predictions()
    names = ("query_id", "scoring", "rank_optimistic", "rank_pessimistic")
    collected: dict[str, dict[str, list[float]]] = {}
    for query, scoring, optimistic, pessimistic in zip(*(table.column(n).to_pylist() for n in names), strict=True):
        hit = float("nan")
        if optimistic is not None:
            hit = float(hits_at_k(np.array([optimistic]), np.array([pessimistic]), 1)[0])
        collected.setdefault(scoring, {}).setdefault(query, []).append(hit)
    return {
        scoring: {query: float(np.mean(values)) for query, values in queries.items()}
        for scoring, queries in collected.items()
    }


def _arm(variant: str, scoring: str, found: dict[str, float], relations: dict[str, str]) -> Arm:
    scored = [query for query, value in found.items() if not np.isnan(value)]
    if not scored:
        nothing = float("nan")
        return Arm(variant, scoring, Interval(nothing, nothing, nothing, 0, "nothing was scored"), 0, len(found))
    clusters = np.array([relations[query] for query in scored])
    accuracy = interval(np.array([found[query] for query in scored]), clusters, limits=(0.0, 1.0))
    return Arm(variant, scoring, accuracy, len(scored), len(found) - len(scored))


def _compare(
    first: tuple[str, str],
    second: tuple[str, str],
    accuracies: dict[tuple[str, str], dict[str, float]],
    relations: dict[str, str],
) -> Comparison | None:
    """None where fewer than two queries were scored by both: there is nothing to test."""
    one, other = accuracies[first], accuracies[second]
    both = [query for query in one if not np.isnan(one[query]) and not np.isnan(other.get(query, np.nan))]
    if len(both) < 2:
        return None
    a, b = (np.array([arm[query] for query in both]) for arm in (one, other))
    paired = paired_difference(a, b, np.array([relations[query] for query in both]))
    return Comparison(
        " ".join(first), " ".join(second), paired.difference, paired_t_test(a, b).p_value, paired.p_value, len(both)
    )
