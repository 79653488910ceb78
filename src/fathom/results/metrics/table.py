"""The table METRICS of all metrics, a line each.

A metric has a *step*, which gives each prediction one value (or several), and a *fold*, which makes one number of the
means of these values. :mod:`fathom.results.estimates` does everything else, which is the same for all.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from fathom.base.registry import Registry
from fathom.results.metrics.confidence import Floats, calibration_gaps, cautious_sum, debiased_sum
from fathom.results.metrics.descriptive import harmonic_mean

SHARE, FROM_ONE = (0.0, 1.0), (1.0, float("inf"))
"""Limits of shares, and of ranks and perplexities."""


class Ranking(Protocol):
    """Ranks of right answers, an entry per prediction, shape (n), NaN where there is none."""

    def hits(self, k: int) -> Floats: ...

    def reciprocal(self) -> Floats: ...


Step = Callable[[Any], "Floats | tuple[Floats, ...]"]
"""Takes the arrays of :class:`fathom.results.rows.Rows`; returns shape (n), NaN without a number."""


@dataclass(frozen=True)
class Metric:
    """One number of a run.

    :param name: as typed, printed and stored, such as "hits@5".
    :param step: values of each prediction, NaN without one; several for a number such as F1.
    :param shown: display format.
    :param limits: smallest and largest possible value.
    :param fold: function of the means of the step's values; None for the mean itself.
    :param mean_over: templates (the mean over templates of each template's mean), queries (each averaged) or
        predictions.
    :param partial: None if one scored prediction without a value makes the number undefined (the mean of the others
        would flatter). Else those without one are excluded, and a note counts the rest by this word, unless empty.
    :param prepare: transforms the values of the predictions, shape (columns, n).
    :param error_folds: in place of a fold, two that take the means and, as ``errors``, their standard errors: one for
        the number and the upper end of its interval, one for the lower end.
    :param further: shown only for probes that declare it.
    :param has_baselines: compared with baselines; its step uses ``hits`` and ``reciprocal`` alone.
    """

    name: str
    step: Step
    shown: str = ".4f"
    limits: tuple[float, float] = SHARE
    fold: Callable[..., Floats] | None = None
    mean_over: Literal["templates", "queries", "predictions"] = "templates"
    partial: str | None = None
    prepare: Callable[..., Floats] | None = None
    error_folds: tuple[Callable[..., Floats], Callable[..., Floats]] | None = None
    further: bool = False
    has_baselines: bool = False

    def columns(self, items: Ranking) -> tuple[Floats, ...]:
        """Return the step's values, shape (n) each. :param items: rows, or ranks if it needs these alone."""
        values = self.step(items)
        return values if isinstance(values, tuple) else (values,)


def hits(k: int) -> Metric:
    """Return Hits@k; accuracy is Hits@1."""
    return Metric(f"hits@{k}", lambda items: items.hits(k), ".1%", has_baselines=True)


def _weighted(name: str, of: Metric, weight: Callable[[Any], Floats]) -> Metric:
    """Return a weighted mean: the ratio of two means."""

    def step(items: Any) -> tuple[Floats, ...]:
        weights = weight(items)
        return weights * of.columns(items)[0], weights

    return Metric(f"{name}_{of.name}", step, of.shown, of.limits, fold=np.divide, further=True)


def perplexity(log_prob: Floats, tokens: Floats) -> Floats:
    """Return exp(−log-probability / tokens), shape (n); of means over prompts it is the corpus perplexity.

    For masked models it is the pseudo-perplexity of Salazar et al. (2020), as in section 5.5 of Shaier et al. (2024).
    """
    return np.exp(-log_prob / tokens)


def first_of_finest(rank: Floats) -> Floats:
    """Return whether the finest gold answer is before all wrong ones, shape (n); NaN without a rank."""
    return np.where(np.isnan(rank), np.nan, rank <= 1)


def _prompts(items: Any) -> tuple[Floats, Floats]:
    return items.prompt_log_prob, items.prompt_tokens


_BY_PROMPT: tuple[Literal["predictions"], str] = ("predictions", "prompts")
_MRR = Metric("mrr", lambda items: items.reciprocal(), has_baselines=True)
_WEIGHTS: dict[str, Callable[[Any], Floats]] = {
    "macro": lambda items: items.even_weight(),
    "rare": lambda items: items.rare_weight(),
}
WEIGHTED = tuple(_weighted(name, of, weight) for name, weight in _WEIGHTS.items() for of in (hits(1), hits(10), _MRR))
"""Macro: the mean of the relations' means. Rare: each prediction weighs 1 / (1 + training triples of its answer)."""
METRICS: Registry[Metric] = Registry(
    "metric",
    "fathom.metrics",
    (
        Metric("accuracy", lambda items: items.hits(1), ".1%", has_baselines=True),
        _MRR,
        Metric("mrr_all", lambda items: items.reciprocal_of_all(), further=True),
        Metric("mrr_finest", lambda items: items.reciprocal_of_finest(), further=True),
        Metric("remembered", lambda items: first_of_finest(items.finest_rank), ".1%", further=True),
        Metric("mean_rank", lambda items: items.rank, ".2f", FROM_ONE),
        Metric("precision", lambda items: items.precision, ".1%"),
        Metric("recall", lambda items: items.recall, ".1%"),
        Metric("confidence", lambda items: items.confidence.top_probability, partial=""),
        Metric("margin", lambda items: items.confidence.margin, partial=""),
        Metric("uncertainty", lambda items: items.confidence.uncertainty, partial=""),
        Metric("brier", lambda items: items.confidence.brier, partial=""),
        Metric("f1", lambda items: (items.precision, items.recall), ".1%", fold=harmonic_mean),
        Metric("consistency", lambda items: items.agreeing(), ".1%", mean_over="queries", partial=""),
        Metric("perplexity", lambda items: perplexity(*_prompts(items)), ".2f", FROM_ONE, None, *_BY_PROMPT),
        Metric("corpus_perplexity", _prompts, ".2f", FROM_ONE, perplexity, *_BY_PROMPT),
        Metric(
            "ece",
            lambda items: (items.confidence.top_probability, items.hits(1)),
            partial="",
            prepare=calibration_gaps,
            error_folds=(debiased_sum, cautious_sum),
        ),
        *WEIGHTED,
    ),
)
_HITS = re.compile(r"hits@([1-9]\d*)", re.IGNORECASE)


def metric(name: str) -> Metric:
    """Find a metric by name, "hits@k" for any k. :raises BadInput: there is none."""
    cut = _HITS.fullmatch(name)
    return hits(int(cut[1])) if cut else METRICS.find(name)
