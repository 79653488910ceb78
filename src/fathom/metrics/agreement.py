"""Do two people judge alike? Shares with intervals, and Cohen's kappa."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from scipy import stats


def cohen_kappa(first: Sequence[Hashable], second: Sequence[Hashable]) -> float:
    """κ = (p_o − p_e) / (1 − p_e): agreement beyond what chance gives (Cohen 1960); 1 is full agreement.

    p_o is the share of things judged alike, p_e what it would be were each judge to give the same answers at random.
    As ``sklearn.metrics.cohen_kappa_score``.

    :param first: judgements, shape [n]; *second* those of the same things.
    :returns: NaN where nothing was judged, or all of it alike by both (p_e is 1).
    :raises ValueError: another number of judgements.
    """
    if len(first) != len(second):
        raise ValueError(f"{len(first)} and {len(second)} judgements: expected as many of each")
    n = len(first)
    if not n:
        return float("nan")
    observed = sum(one == other for one, other in zip(first, second, strict=True)) / n
    expected = sum(first.count(value) * second.count(value) for value in set(first)) / n**2
    return float("nan") if expected == 1 else (observed - expected) / (1 - expected)


def share_interval(hits: int, n: int, level: float = 0.95) -> tuple[float, float, float]:
    """Share, and the ends of Wilson's interval; NaN of nothing."""
    if not n:
        return (float("nan"),) * 3
    found = stats.binomtest(hits, n).proportion_ci(level, method="wilson")
    return hits / n, float(found.low), float(found.high)
