"""The table METRICS: what can be told of predictions, a line each.

A metric has a *step*, which gives each prediction one value (or several), and a *fold*, which makes one number of the
means of these values. Everything else (which predictions count, templates averaged, intervals, recipes) is the same
for all and lies in :mod:`fathom.results.estimates`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from fathom.doors import Door
from fathom.metrics.confidence import Confidence, Floats, calibration_gaps, cautious_sum, debiased_sum
from fathom.metrics.descriptive import harmonic_mean

SHARE, FROM_ONE = (0.0, 1.0), (1.0, float("inf"))
"""What shares, and what ranks and perplexities, cannot leave."""


class Ranking(Protocol):
    """Where right answers stand, an entry per prediction, shape [n], NaN where there is none."""

    def hits(self, k: int) -> Floats:
        """Expected Hits@k."""
        ...

    def reciprocal(self) -> Floats:
        """1 / rank."""
        ...


class Items(Ranking, Protocol):
    """What a step may look at: arrays with an entry per prediction, shape [n], NaN where there is no number.

    See :class:`fathom.results.rows.Rows`, which is one.
    """

    rank: Floats
    precision: Floats
    recall: Floats
    prompt_log_prob: Floats
    prompt_tokens: Floats

    @property
    def confidence(self) -> Confidence:
        """Of predictions by log-likelihoods of which all candidates' scores were kept."""
        ...

    def reciprocal_of_all(self) -> Floats:
        """1 / mean rank of all gold answers."""
        ...

    def even_weight(self) -> Floats:
        """1 / how many scored predictions the relation has, so that all relations weigh the same."""
        ...

    def rare_weight(self) -> Floats:
        """1 / (1 + training triples of the answer), so that answers that occur often do not decide."""
        ...

    def agreeing(self) -> Floats:
        """Chance that all templates of the prediction's query give one answer."""
        ...


Step = Callable[[Any], "Floats | tuple[Floats, ...]"]


@dataclass(frozen=True)
class Metric:
    """One number of a run.

    :param name: as it is typed, printed and kept, such as "hits@5".
    :param step: values of each prediction (:class:`Items`), NaN where it has none; several for a number such as F1.
    :param shown: format of the number in a table.
    :param limits: what the number cannot leave.
    :param fold: what makes the number of the means of the step's values; None for the mean itself.
    :param mean_over: templates (the mean over templates of each template's mean), queries (each averaged) or
        predictions, all alike.
    :param partial: None where one scored prediction without a value leaves the number untold (the mean of the others
        would flatter); else those without one are left out, and a note counts the rest by this word, if it is one.
    :param prepare: turns the values of the predictions in question into others, shape (columns, n).
    :param error_folds: in place of a fold, two that take the means and, as ``errors``, their standard errors: one for
        the number and the upper end of its interval, one for the lower end.
    :param further: shown only of probes that ask for it by name.
    :param beside_baselines: shown beside what answering without knowledge would score; its step looks at ``hits`` and
        ``reciprocal`` alone.
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
    beside_baselines: bool = False

    def columns(self, items: Ranking) -> tuple[Floats, ...]:
        """The step's values, one array [n] or several. :param items: :class:`Items`, unless it needs ranks alone."""
        found = self.step(items)
        return found if isinstance(found, tuple) else (found,)


def hits(k: int) -> Metric:
    """Hits@k; accuracy is Hits@1."""
    return Metric(f"hits@{k}", lambda items: items.hits(k), ".1%", beside_baselines=True)


def _weighted(name: str, of: Metric, weight: Callable[[Any], Floats]) -> Metric:
    """A mean in which predictions weigh differently: the ratio of two means."""

    def step(items: Any) -> tuple[Floats, ...]:
        weights = weight(items)
        return weights * of.columns(items)[0], weights

    return Metric(f"{name}_{of.name}", step, of.shown, of.limits, fold=np.divide, further=True)


def perplexity(log_prob: Floats, tokens: Floats) -> Floats:
    """Return exp(−log-probability / tokens), shape (n); of means over prompts it is the corpus perplexity.

    For masked models it is the pseudo-perplexity of Salazar et al. (2020), as in section 5.5 of Shaier et al. (2024).
    """
    return np.exp(-log_prob / tokens)


_MRR = Metric("mrr", lambda items: items.reciprocal(), beside_baselines=True)
_WEIGHTS: dict[str, Callable[[Any], Floats]] = {
    "macro": lambda items: items.even_weight(),
    "rare": lambda items: items.rare_weight(),
}
WEIGHTED = tuple(_weighted(name, of, weight) for name, weight in _WEIGHTS.items() for of in (hits(1), hits(10), _MRR))
"""Macro: the mean of the relations' means. Rare: each prediction weighs 1 / (1 + training triples of its answer)."""
METRICS: Door[Metric] = Door(
    "metric",
    "fathom.metrics",
    (
        Metric("accuracy", lambda items: items.hits(1), ".1%", beside_baselines=True),
        _MRR,
        Metric("mrr_all", lambda items: items.reciprocal_of_all(), further=True),
        Metric("mean_rank", lambda items: items.rank, ".2f", FROM_ONE),
        Metric("precision", lambda items: items.precision, ".1%"),
        Metric("recall", lambda items: items.recall, ".1%"),
        Metric("confidence", lambda items: items.confidence.top_probability, partial=""),
        Metric("margin", lambda items: items.confidence.margin, partial=""),
        Metric("uncertainty", lambda items: items.confidence.uncertainty, partial=""),
        Metric("brier", lambda items: items.confidence.brier, partial=""),
        Metric("f1", lambda items: (items.precision, items.recall), ".1%", fold=harmonic_mean),
        Metric("consistency", lambda items: items.agreeing(), ".1%", mean_over="queries", partial=""),
        Metric(
            "perplexity",
            lambda items: perplexity(items.prompt_log_prob, items.prompt_tokens),
            ".2f",
            FROM_ONE,
            mean_over="predictions",
            partial="prompts",
        ),
        Metric(
            "corpus_perplexity",
            lambda items: (items.prompt_log_prob, items.prompt_tokens),
            ".2f",
            FROM_ONE,
            fold=perplexity,
            mean_over="predictions",
            partial="prompts",
        ),
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
_HITS = re.compile(r"hits@([1-9]\d*)")


def metric(name: str) -> Metric:
    """The metric of that name; "hits@k" for any k. :raises BadInput: there is none."""
    cut = _HITS.fullmatch(name)
    return hits(int(cut[1])) if cut else METRICS.find(name)
